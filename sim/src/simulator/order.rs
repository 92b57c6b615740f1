//! Operations that concern each other: changed proposals, one subject, the same action. Who may start while another one
//! is open, and who needs a person's word.

use counterfoil::id::OperationId;
use counterfoil::operation::Operation;
use counterfoil::state::State;

use super::agenda::{Instant, Op};
use super::episode::Episode;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

impl Episode {
    /// Somebody changes the proposal, perhaps again, and perhaps two people at once.
    pub(super) fn changed_proposals(&mut self, op: Op, start: Instant) {
        let (plan, task, sku) =
            (self.truths[op].plan, self.truths[op].task.clone(), self.truths[op].sku.clone());
        let (mut former, mut at) = (op, start);
        for turn in 0..=self.seed.below(3) {
            let range = if self.seed.chance(700) { 30 * SECOND } else { 90 * MINUTE };
            at += self.below(range);
            let next = self.truth(plan, &sku, 20 + turn, task.clone());
            self.truths[next].replaces = Some(former);
            self.truths[next].subject = self.truths[op].subject.clone().filter(|_| turn == 0);
            self.callers(next, at);
            if self.seed.chance(250) {
                let rival = self.truth(plan, &sku, 50 + turn, task.clone());
                self.truths[rival].replaces = Some(former);
                let after = self.below(40 * SECOND);
                self.callers(rival, at + after);
            }
            former = next;
        }
    }

    /// Every proposal that `op` changes, however long ago.
    fn former(&self, op: Op) -> Vec<Op> {
        std::iter::successors(self.truths[op].replaces, |former| self.truths[*former].replaces).collect()
    }

    fn named(&self, id: &OperationId) -> Option<Op> {
        self.truths.iter().position(|truth| truth.id == *id)
    }

    /// Whether a person said that there shall be `op` although `other` worked, or one that `op` takes the place of.
    fn word_given(&self, op: Op, other: Op) -> bool {
        std::iter::once(op).chain(self.former(op)).any(|one| self.truths[one].acknowledged.contains(&other))
    }

    /// A start that is no repeat is judged where it is committed: what must be settled first, what needs a word, and
    /// whether another one takes its place.
    pub(super) fn judge_order(&mut self, op: Op) {
        let Some(row) = self.stored(op) else { return };
        if let Some(by) = self.takes_its_place(row) {
            return self.fail(op, format!("was sent although {by} takes its place"));
        }
        let earlier = row.attempts.len().saturating_sub(1);
        if row.attempts.iter().take(earlier).any(|attempt| !attempt.settled) {
            return;
        }
        let former = self.former(op);
        let inherited = row.inherits.iter().filter_map(|id| self.named(id));
        let first: Vec<Op> = former.iter().copied().chain(inherited).collect();
        if let Some(open) = first.iter().copied().find(|other| self.is_open(*other)) {
            let open = self.truths[open].id.clone();
            return self.fail(op, format!("began while {open}, which it waits for, was not settled"));
        }
        let worked = |other: &Op| !self.truths[*other].effects.is_empty() && !self.word_given(op, *other);
        if let Some(other) = former.iter().copied().find(worked).filter(|other| !self.truths[*other].released)
        {
            let other = self.truths[other].id.clone();
            return self.fail(op, format!("began without a word although {other}, which it changes, worked"));
        }
        let Some(subject) = &self.truths[op].subject else { return };
        let same = |other: &Op| *other != op && self.truths[*other].subject.as_ref() == Some(subject);
        let peers: Vec<Op> = (0..self.truths.len()).filter(same).collect();
        if let Some(open) = peers.iter().copied().find(|other| self.is_open(*other)) {
            let open = self.truths[open].id.clone();
            return self.fail(op, format!("began while {open}, about the same subject, was not settled"));
        }
        let since = row.created_at;
        let unknown_of = |other: &Op| {
            let receipt = self.stored(*other).and_then(|other| other.state.receipt());
            let later = receipt.is_some_and(|receipt| receipt.recorded_at >= since);
            later && !row.acknowledged.contains(&self.truths[*other].id)
        };
        if earlier == 0
            && let Some(other) = peers.iter().copied().find(unknown_of)
        {
            let other = self.truths[other].id.clone();
            self.fail(
                op,
                format!("began without a word although {other}, about the same subject, worked meanwhile"),
            );
        }
    }

    /// Whether something of it may still take effect, and nobody let later ones pass.
    fn is_open(&self, other: Op) -> bool {
        self.stored(other).is_some_and(|row| {
            let unsettled = row.attempts.iter().any(|attempt| !attempt.settled);
            unsettled && !row.state.is_final() && row.released.is_none()
        })
    }

    /// Whoever takes the place of an operation: the newest in its line, unless that was rejected. What is gone from the
    /// ledger counts, since nobody can say any more why it ended.
    pub(super) fn takes_its_place(&self, row: &Operation) -> Option<OperationId> {
        let mut by = row.replaced_by.clone()?;
        loop {
            let Some(newer) = self.named(&by).and_then(|newer| self.stored(newer)) else { return Some(by) };
            match (&newer.state, &newer.replaced_by) {
                (State::Rejected(_), Some(next)) if !newer.duplicate_suspected => by = next.clone(),
                (State::Rejected(_), None) if !newer.duplicate_suspected => return None,
                _ => return Some(by),
            }
        }
    }

    /// A changed proposal that was accepted: it is the only one that takes that place.
    pub(super) fn judge_replacement(&mut self, op: Op) {
        let Some(former) = self.truths[op].replaces else { return };
        self.figures.replacements += 1;
        let rival = (0..self.truths.len()).find(|other| {
            let live = self.stored(*other).is_some_and(|row| !matches!(row.state, State::Rejected(_)));
            *other != op && self.truths[*other].replaces == Some(former) && live
        });
        if let Some(rival) = rival {
            let rival = self.truths[rival].id.clone();
            self.fail(op, format!("takes a place that {rival} has taken"));
        }
    }

    /// One line of proposals has one effect, unless a person said otherwise.
    pub(super) fn judge_line(&mut self, op: Op) {
        let two = (0..self.truths.len()).find(|other| {
            let (old, new) = (self.former(*other).contains(&op), self.former(op).contains(other));
            let pair = if old { (op, *other) } else { (*other, op) };
            let allowed = self.truths[pair.0].released || self.word_given(pair.1, pair.0);
            (old || new) && !self.truths[*other].effects.is_empty() && !allowed
        });
        if let Some(other) = two {
            let other = self.truths[other].id.clone();
            self.fail(op, format!("an effect beside that of {other}, in one line of proposals"));
        }
    }

    /// Another operation with the same action in the same run of which nobody knows yet what became of it.
    pub(super) fn same_action_open(&self, op: Op) -> Option<OperationId> {
        let row = self.stored(op)?;
        let mine = &self.truths[op];
        let now = self.plans[mine.plan].tool.guard_on.is_some();
        let held_by = (0..self.truths.len()).find(|other| {
            let theirs = &self.truths[*other];
            let by_sku = (now || mine.guarded || theirs.guarded) && mine.sku == theirs.sku;
            let same = mine.arguments.as_str() == theirs.arguments.as_str() || by_sku;
            let run = match (&mine.task, &theirs.task) {
                (Some(one), Some(another)) => one == another,
                (None, _) | (_, None) => true,
            };
            let apart = row.distinct_from.iter().any(|named| named.id == theirs.id);
            // Those it waits for in another way.
            let waits = mine.replaces == Some(*other) || row.inherits.contains(&theirs.id);
            *other != op
                && mine.plan == theirs.plan
                && same
                && run
                && !apart
                && !waits
                && self.is_open(*other)
        });
        held_by.map(|other| self.truths[other].id.clone())
    }

    /// A miss that somebody was outranked with, or that a sender reports, settles nothing; what was found is proof.
    pub(super) fn judge_look(
        &mut self,
        op: Op,
        before: Option<&Operation>,
        told: &counterfoil::verbs::Told,
        mode: counterfoil::verbs::Mode,
        fence: counterfoil::id::FencingToken,
    ) {
        use counterfoil::verbs::{Mode, Told};
        let (Some(before), Some(after)) = (before, self.stored(op)) else { return };
        if let Told::Found { count: 1, .. } = told {
            if !matches!(after.state, State::Succeeded(_)) && !after.duplicate_suspected {
                self.fail(op, "proof of success that a worker found was lost");
            }
            return;
        }
        let now = self.world.now();
        let holds = before
            .investigation
            .as_ref()
            .is_some_and(|claim| claim.fence == fence && now < claim.lease_expires_at);
        let may = mode == Mode::Investigate && holds && *told == Told::Absent;
        if !may && after.unsettled() < before.unsettled() {
            self.fail(op, format!("{told:?} settled an attempt"));
        }
    }
}
