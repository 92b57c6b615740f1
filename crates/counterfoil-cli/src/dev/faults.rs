//! What goes wrong on purpose: armed for the next call, or by chance from a seed.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sim::seed::Seed;

/// Something that happens to real calls, done here on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The destination does it, and its reply is lost.
    Drop,
    /// The sender ends before it sends, and nobody can tell.
    Kill,
    /// The caller's request arrives twice at once.
    Twice,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 3] = [Self::Drop, Self::Kill, Self::Twice];

    /// The key that arms it.
    #[must_use]
    pub fn key(self) -> char {
        match self {
            Self::Drop => 'd',
            Self::Kill => 'k',
            Self::Twice => 'r',
        }
    }

    /// Its name on the wire and in `--faults`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Kill => "kill",
            Self::Twice => "twice",
        }
    }

    /// What it does, as the legend says it.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Drop => "drop the next reply",
            Self::Kill => "kill the next send",
            Self::Twice => "run the next call twice",
        }
    }

    /// The fault that a key arms.
    #[must_use]
    pub fn of_key(key: char) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.key() == key)
    }

    /// The fault of that name.
    #[must_use]
    pub fn named(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.label() == label)
    }
}

/// How often each fault happens by itself, and the seed of its dice: `drop=0.3,kill=0.1,seed=7`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    drop: f64,
    kill: f64,
    twice: f64,
    /// Where the dice begin; the same seed and the same calls give the same faults.
    pub seed: Option<u64>,
}

impl Rates {
    fn of(&self, fault: Fault) -> f64 {
        match fault {
            Fault::Drop => self.drop,
            Fault::Kill => self.kill,
            Fault::Twice => self.twice,
        }
    }

    /// Whether any fault happens by itself.
    #[must_use]
    pub fn any(&self) -> bool {
        Fault::ALL.into_iter().any(|fault| self.of(fault) > 0.0)
    }
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rates = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("`{part}` is not of the form name=value"))?;
            if name == "seed" {
                let seed = value.parse().map_err(|_| format!("the seed `{value}` is not a whole number"))?;
                rates.seed = Some(seed);
                continue;
            }
            let fault = Fault::named(name).ok_or_else(|| {
                format!("there is no fault `{name}`: known are drop, kill, twice, and seed")
            })?;
            let rate: f64 = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
            if !(0.0..=1.0).contains(&rate) {
                return Err(format!("the rate of {name} is not between 0 and 1"));
            }
            match fault {
                Fault::Drop => rates.drop = rate,
                Fault::Kill => rates.kill = rate,
                Fault::Twice => rates.twice = rate,
            }
        }
        Ok(rates)
    }
}

/// How many faults may be armed at once.
pub const ARMED_MOST: usize = 100;

/// What is armed. Shared by the keyboard, the HTTP call and whatever faults happen to.
#[derive(Debug)]
pub struct Faults {
    rates: Rates,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    armed: VecDeque<Fault>,
    dice: Seed,
}

impl Faults {
    /// Nothing is armed; what happens by itself begins at `seed`.
    #[must_use]
    pub fn new(rates: Rates, seed: u64) -> Self {
        Self { rates, state: Mutex::new(State { armed: VecDeque::new(), dice: Seed::new(seed) }) }
    }

    /// Arms a fault for the next call that it can happen to. False where too many are armed.
    pub fn arm(&self, fault: Fault) -> bool {
        let mut state = self.lock();
        let fits = state.armed.len() < ARMED_MOST;
        if fits {
            state.armed.push_back(fault);
        }
        fits
    }

    /// How many more may be armed.
    #[must_use]
    pub fn room(&self) -> usize {
        ARMED_MOST.saturating_sub(self.lock().armed.len())
    }

    /// Takes back whatever is armed and has not happened.
    pub fn disarm(&self) {
        self.lock().armed.clear();
    }

    /// Arms a fault again that was taken and could not happen.
    pub fn put_back(&self, fault: Fault) {
        self.lock().armed.push_front(fault);
    }

    /// The fault that happens now, of those that `could`.
    pub fn take(&self, could: &[Fault]) -> Option<Fault> {
        let mut state = self.lock();
        if let Some(place) = state.armed.iter().position(|fault| could.contains(fault)) {
            return state.armed.remove(place);
        }
        could.iter().copied().find(|fault| {
            let rate = self.rates.of(*fault);
            rate > 0.0 && roll(&mut state.dice) < rate
        })
    }

    /// What is armed, the next one first.
    #[must_use]
    pub fn armed(&self) -> Vec<Fault> {
        self.lock().armed.iter().copied().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number in [0, 1).
fn roll(dice: &mut Seed) -> f64 {
    (dice.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_armed_fault_happens_once_and_only_where_it_can() {
        let faults = Faults::new(Rates::default(), 1);
        assert!(faults.arm(Fault::Twice) && faults.arm(Fault::Drop));
        assert_eq!(faults.take(&[Fault::Kill, Fault::Drop]), Some(Fault::Drop));
        assert_eq!(faults.take(&[Fault::Kill, Fault::Drop]), None);
        assert_eq!(faults.take(&[Fault::Twice]), Some(Fault::Twice));
        assert_eq!(faults.take(&Fault::ALL), None);
    }

    #[test]
    fn no_more_than_a_hundred_are_armed() {
        let faults = Faults::new(Rates::default(), 1);
        let armed = (0..200).filter(|_| faults.arm(Fault::Drop)).count();
        assert_eq!(armed, ARMED_MOST);
    }

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let drawn = |seed| {
            let faults = Faults::new("drop=0.3,kill=0.1".parse().unwrap(), seed);
            (0..1_000).map(|_| faults.take(&[Fault::Drop, Fault::Kill])).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let dropped = drawn(7).iter().filter(|fault| **fault == Some(Fault::Drop)).count();
        assert!((250..350).contains(&dropped), "{dropped}");
    }

    #[test]
    fn rates_that_make_no_sense_are_refused() {
        for (text, why) in [
            ("drop", "name=value"),
            ("drop=2", "between 0 and 1"),
            ("drop=NaN", "between 0 and 1"),
            ("drop=much", "not a number"),
            ("lose=0.1", "no fault"),
            ("seed=x", "whole number"),
        ] {
            assert!(text.parse::<Rates>().unwrap_err().contains(why), "{text}");
        }
        assert_eq!("drop=0.5, seed=7".parse::<Rates>().unwrap().seed, Some(7));
    }
}
