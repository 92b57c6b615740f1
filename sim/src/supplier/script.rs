//! Which request gets which fault.

use std::collections::VecDeque;
use std::io;

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Stage};
use super::request::SeenRequest;
use crate::seed::Seed;

/// The requests that a fault or a gate waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Whatever comes next.
    Any,
    /// The next request that is not GET or HEAD.
    #[default]
    Writes,
    /// The next GET or HEAD.
    Lookups,
    /// The next request that has this text in its target, a header's value or its body.
    Containing(String),
    /// The next write that has this text in its target, a header's value or its body.
    WritesContaining(String),
}

impl Target {
    /// `None` when only the method is known and the text would decide.
    fn by_method(&self, lookup: bool) -> Option<bool> {
        match self {
            Self::Any => Some(true),
            Self::Writes => Some(!lookup),
            Self::Lookups => Some(lookup),
            Self::Containing(_) => None,
            Self::WritesContaining(_) if lookup => Some(false),
            Self::WritesContaining(_) => None,
        }
    }

    pub(super) fn matches(&self, request: &SeenRequest) -> bool {
        match self {
            Self::Any => true,
            Self::Writes => !request.is_lookup(),
            Self::Lookups => request.is_lookup(),
            Self::Containing(text) => request.contains(text),
            Self::WritesContaining(text) => !request.is_lookup() && request.contains(text),
        }
    }

    fn reads_text(&self) -> bool {
        match self {
            Self::Any | Self::Writes | Self::Lookups => false,
            Self::Containing(_) | Self::WritesContaining(_) => true,
        }
    }
}

/// Faults drawn from a seed for requests that no scripted fault is meant for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomFaults {
    /// The seed. The draw for the n-th request depends on the seed and n alone.
    pub seed: u64,
    /// How many of 1 000 requests are struck.
    pub per_mille: u32,
    /// Which requests may be struck.
    pub target: Target,
    /// What they are struck with.
    pub menu: Vec<Fault>,
}

impl RandomFaults {
    fn draw(&self, request: u64) -> Option<&Fault> {
        let mut seed = Seed::for_item(self.seed, request);
        if seed.chance(self.per_mille) { seed.pick(&self.menu) } else { None }
    }
}

#[derive(Debug)]
struct Rule {
    target: Target,
    fault: Fault,
}

/// The queue of scripted faults, and the random ones behind it. The first rule whose target matches
/// is used up by the request that it strikes.
#[derive(Debug, Default)]
pub(super) struct Script {
    rules: VecDeque<Rule>,
    random: Option<RandomFaults>,
}

impl Script {
    pub(super) fn new(random: Option<RandomFaults>) -> Self {
        Self { rules: VecDeque::new(), random }
    }

    pub(super) fn push(&mut self, target: Target, fault: Fault) -> io::Result<()> {
        if target.reads_text() && fault.stage() != Stage::Read {
            // The text may be in the body, which such a fault strikes too early to know.
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this fault strikes before the text is read",
            ));
        }
        self.rules.push_back(Rule { target, fault });
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.random = None;
    }

    pub(super) fn pending(&self) -> usize {
        self.rules.len()
    }

    /// The fault for a request of which only the method is known.
    pub(super) fn take_early(&mut self, stage: Stage, request: u64, lookup: bool) -> Option<Fault> {
        let first = self.rules.iter().position(|rule| rule.target.by_method(lookup) != Some(false));
        if let Some(index) = first {
            let struck = self.rules.get(index).is_some_and(|rule| rule.fault.stage() == stage);
            return if struck { self.rules.remove(index).map(|rule| rule.fault) } else { None };
        }
        let random = self.random.as_ref()?;
        if random.target.by_method(lookup) != Some(true) {
            return None;
        }
        random.draw(request).filter(|fault| fault.stage() == stage).cloned()
    }

    /// The fault for a request that has been read.
    pub(super) fn take(&mut self, request: &SeenRequest) -> Option<Fault> {
        let scripted = self
            .rules
            .iter()
            .position(|rule| rule.fault.stage() == Stage::Read && rule.target.matches(request));
        if let Some(index) = scripted {
            return self.rules.remove(index).map(|rule| rule.fault);
        }
        let random = self.random.as_ref().filter(|random| random.target.matches(request))?;
        random.draw(request.number).filter(|fault| fault.stage() == Stage::Read).cloned()
    }
}
