//! The end of the run: what the suppliers' databases say, against what was claimed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use sim::auditor::{Expected, State, audit};

use super::agent::Shown;
use super::plan::Fault;
use super::stage::{Ended, Played, Sender, Stage};
use super::story::{Story, Tone};

/// The story names this many contradictions.
const VIOLATIONS_TOLD: usize = 8;

/// The summary; `--json` prints it as one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The seed that repeats the plan.
    pub seed: u64,
    /// `counterfoil`, or `naive` for the loop without it.
    pub mode: &'static str,
    /// How many actions there were.
    pub actions: usize,
    /// How many sends there were, refused connections included where Counterfoil recorded them.
    pub attempts: usize,
    /// Sends after which the sender could not know what had happened.
    pub replies_lost: usize,
    /// Effects in the suppliers' databases, after everything had ended.
    pub effects: usize,
    /// Effects beyond the first of an action.
    pub duplicates: usize,
    /// Actions that have their receipt although a reply was lost.
    pub receipts_recovered: usize,
    /// Actions that only a person can settle.
    pub held: usize,
    /// Actions that ended with a receipt.
    pub succeeded: usize,
    /// Actions that ended without effect.
    pub rejected: usize,
    /// Actions that were still on their way when time was up.
    pub unsettled: usize,
    /// How often each fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// What contradicts the claims; a duplicate always does.
    pub violations: Vec<String>,
    /// From the first process to the last, in milliseconds.
    pub elapsed_ms: u64,
}

impl Verdict {
    /// Counts. All senders have ended by now.
    ///
    /// # Errors
    /// If a supplier's database cannot be read.
    pub(crate) async fn reach(
        seed: u64,
        stage: &Stage,
        played: &Played,
        elapsed: Duration,
    ) -> anyhow::Result<Self> {
        let groups = group(stage, &played.ended).await?;
        let expected: Vec<Expected> = played.ended.iter().map(claim).collect();
        let report = audit(&expected, &groups);
        let shown = || played.ended.iter().filter_map(|ended| ended.shown.as_ref());
        let (mode, attempts, replies_lost) = match &stage.sender {
            Sender::Guarded { .. } => (
                "counterfoil",
                shown().map(|shown| shown.outcomes().len()).sum(),
                shown().map(Shown::replies_lost).sum(),
            ),
            Sender::Naive(naive) => (
                "naive",
                naive.tally.attempts.load(Ordering::Relaxed),
                naive.tally.replies_lost.load(Ordering::Relaxed),
            ),
        };
        Ok(Self {
            seed,
            mode,
            actions: played.ended.len(),
            attempts,
            replies_lost,
            effects: report.effects,
            duplicates: report.duplicates,
            receipts_recovered: shown().filter(|shown| shown.receipt_recovered()).count(),
            held: shown().filter(|shown| shown.held()).count(),
            succeeded: shown().filter(|shown| shown.state() == "succeeded").count(),
            rejected: shown().filter(|shown| shown.state() == "rejected").count(),
            unsettled: played
                .ended
                .iter()
                .filter(|ended| !ended.shown.as_ref().map_or(ended.order.is_some(), Shown::settled))
                .count(),
            faults: Fault::ALL
                .map(|fault| (fault.name(), played.faults.get(&fault).copied().unwrap_or(0)))
                .into(),
            violations: report.violations.iter().map(ToString::to_string).collect(),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Whether the run showed what it is meant to show: nothing contradicts the claims, everything is
    /// settled, and every fault struck. The naive loop claims nothing.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.mode == "naive"
            || (self.violations.is_empty()
                && self.unsettled == 0
                && self.faults.values().all(|times| *times > 0))
    }

    /// Tells it to a person.
    pub(crate) fn tell(&self, story: Story) {
        story.heading("What went wrong");
        for fault in Fault::ALL {
            let times = self.faults.get(fault.name()).copied().unwrap_or(0);
            let tone = if times == 0 { Tone::Bad } else { Tone::Quiet };
            story.event(&format!("{times:>4}"), tone, fault.words());
        }
        story.heading("What came of it, counted in the suppliers' own databases");
        let duplicates = if self.duplicates == 0 { Tone::Good } else { Tone::Bad };
        let naive = self.mode == "naive";
        for (name, count, tone, meaning) in [
            ("actions", self.actions, Tone::Plain, "decided once each"),
            ("attempts", self.attempts, Tone::Plain, "sends to the suppliers"),
            ("replies lost", self.replies_lost, Tone::Plain, "sends after which the sender could not know"),
            ("effects", self.effects, Tone::Plain, "what the suppliers did"),
            ("duplicates", self.duplicates, duplicates, "done more often than decided"),
            ("recovered", self.receipts_recovered, Tone::Plain, "receipts that came back after a lost reply"),
            ("held", self.held, Tone::Plain, "nobody can say, so a person is asked"),
            ("rejected", self.rejected, Tone::Plain, "certain that nothing happened"),
            ("unsettled", self.unsettled, Tone::Bad, "still open when time was up"),
        ] {
            // What a loop cannot have, and what is not worth a line when there is none.
            let silent = (naive && matches!(name, "recovered" | "held" | "rejected"))
                || (count == 0 && matches!(name, "rejected" | "unsettled"));
            if !silent {
                story.event(name, tone, &format!("{count:>4}   {meaning}"));
            }
        }
        for violation in self.violations.iter().take(VIOLATIONS_TOLD) {
            story.event("", Tone::Bad, violation);
        }
        if self.violations.len() > VIOLATIONS_TOLD {
            let more = self.violations.len() - VIOLATIONS_TOLD;
            story.event("", Tone::Bad, &format!("and {more} more; --json lists them all"));
        }
        story.line(Tone::Plain, "");
        self.close(story);
    }

    fn close(&self, story: Story) {
        let command = format!("counterfoil demo --actions {} --seed {}", self.actions, self.seed);
        let seconds = format!("{}.{} s", self.elapsed_ms / 1_000, self.elapsed_ms % 1_000 / 100);
        let (tone, text) = match (self.mode, self.holds()) {
            ("naive", _) => (
                Tone::Heading,
                format!(
                    "{} of {} effects nobody wanted. The same script with Counterfoil: {command}",
                    self.duplicates, self.effects
                ),
            ),
            (_, true) => (Tone::Good, format!("No action was done twice, in {seconds}.")),
            (_, false) => (Tone::Bad, "This must not happen. Please report it with the seed.".to_owned()),
        };
        story.line(tone, &text);
        if self.mode != "naive" {
            story.line(Tone::Quiet, &format!("The same seed again: {command}"));
            story.line(Tone::Quiet, &format!("Without it:          {command} --without-counterfoil"));
        }
    }
}

/// The orders of each action, by its ID; an effect that belongs to none keeps what was recorded of it.
async fn group(stage: &Stage, ended: &[Ended]) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let trace = stage.trace();
    let ids: BTreeMap<String, &str> =
        ended.iter().map(|ended| (trace.of_action(&ended.action), ended.action.id.as_str())).collect();
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    for shop in &stage.shops {
        for effect in shop.effects().await? {
            let label = trace.of_effect(shop.who, &effect);
            let id = ids
                .get(&label)
                .map_or_else(|| format!("{} {label}", shop.who.label()), |id| (*id).to_owned());
            groups.entry(id).or_default().push(effect.order);
        }
    }
    Ok(groups)
}

fn claim(ended: &Ended) -> Expected {
    let state = match ended.shown.as_ref().map(Shown::state) {
        Some("succeeded") => State::Succeeded,
        Some("rejected") => State::Rejected,
        Some(_) | None => State::Open,
    };
    let expected = Expected::new(ended.action.id.as_str(), state);
    match ended.shown.as_ref().and_then(Shown::receipt) {
        Some(receipt) => expected.with_receipt(receipt),
        None => expected,
    }
}
