//! The task guard (one unresolved action at a time): which other operations hold this one back. Pure.
//!
//! It is asked twice, each time inside the commit that it protects: when an operation is prepared and when it starts.

use crate::fingerprint::Arguments;
use crate::id::{OperationId, Task};
use crate::operation::{Distinct, Operation, RejectionCode};
use crate::policy::Tool;
use crate::safeguard::Safeguard;
use crate::time::Timestamp;

/// What the guard must know of another operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its ID.
    pub id: OperationId,
    /// Its task.
    pub task: Option<Task>,
    /// What is known of it.
    pub stage: Stage,
    /// Whether its action is not over ([`Operation::unresolved`]).
    pub unresolved: bool,
    /// Whether an approver let later operations pass.
    pub released: bool,
    /// Whether more than one effect may exist, or an effect contradicts its state.
    pub suspected: bool,
    /// When it was prepared.
    pub created_at: Timestamp,
    /// When its success was recorded.
    pub succeeded_at: Option<Timestamp>,
    /// Why it was rejected; not known of a tombstone.
    pub rejected_as: Option<RejectionCode>,
    /// The proposal that it changes.
    pub replaces: Option<OperationId>,
    /// The newest operation that replaces it.
    pub replaced_by: Option<OperationId>,
}

/// The state of a peer, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Prepared.
    Prepared,
    /// In progress.
    InProgress,
    /// Succeeded.
    Succeeded,
    /// Rejected.
    Rejected,
    /// Unknown.
    Unknown,
}

impl Stage {
    /// The stage as the state is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::InProgress => "in_progress",
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }

    /// Reads a label back.
    #[must_use]
    pub fn parse(label: &str) -> Option<Self> {
        [Self::Prepared, Self::InProgress, Self::Succeeded, Self::Rejected, Self::Unknown]
            .into_iter()
            .find(|stage| stage.label() == label)
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Rejected => true,
            Self::Prepared | Self::InProgress | Self::Unknown => false,
        }
    }
}

impl From<&Operation> for Peer {
    fn from(operation: &Operation) -> Self {
        use crate::state::State;
        Self {
            id: operation.id.clone(),
            task: operation.task.clone(),
            stage: match operation.state {
                State::Prepared(_) => Stage::Prepared,
                State::InProgress(_) => Stage::InProgress,
                State::Succeeded(_) => Stage::Succeeded,
                State::Rejected(_) => Stage::Rejected,
                State::Unknown(_) => Stage::Unknown,
            },
            unresolved: operation.unresolved(),
            released: operation.released.is_some(),
            suspected: operation.duplicate_suspected,
            created_at: operation.created_at,
            succeeded_at: operation.state.receipt().map(|receipt| receipt.recorded_at),
            rejected_as: match &operation.state {
                State::Rejected(rejection) => Some(rejection.code),
                State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Unknown(_) => None,
            },
            replaces: operation.replaces.clone(),
            replaced_by: operation.replaced_by.clone(),
        }
    }
}

/// The operation that wants to be prepared or started.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its ID.
    pub id: &'a OperationId,
    /// Its task.
    pub task: Option<&'a Task>,
    /// Operations that it was declared distinct from.
    pub distinct_from: &'a [Distinct],
    /// The proposal that it changes.
    pub replaces: Option<&'a OperationId>,
    /// What that one still waited for.
    pub inherits: &'a [OperationId],
    /// When it was prepared, if it has attempts that are all settled.
    pub settled_since: Option<Timestamp>,
}

/// Whether two calls of one tool are the same action under any of these declarations: what makes an action the same may
/// have changed between the two, and a change must not open a way around the guard.
#[must_use]
pub fn same_action<'a>(
    mine: &Arguments,
    theirs: &Arguments,
    declarations: impl IntoIterator<Item = &'a Tool>,
) -> bool {
    let same = |tool: &Tool| tool.action(mine) == tool.action(theirs);
    declarations.into_iter().any(same) && Safeguard::SameActionUnderEither.stands()
}

/// The peers with the same action that hold `candidate` back, newest first.
#[must_use]
pub fn blockers<'a>(candidate: Candidate<'_>, peers: &'a [Peer]) -> Vec<&'a Peer> {
    let mut held_by: Vec<&Peer> = peers.iter().filter(|peer| holds(candidate, peer)).collect();
    held_by.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| b.id.cmp(&a.id)));
    held_by
}

fn holds(candidate: Candidate<'_>, peer: &Peer) -> bool {
    if peer.id == *candidate.id || !peer.unresolved || peer.released {
        return false;
    }
    same_run(candidate, peer)
        && !distinct(candidate, peer)
        && !gives_way(candidate, peer)
        && !waited_for(candidate, peer)
}

/// The peers with the same action, not final, that `candidate` passes without having been declared different from them:
/// should one of these turn out to have worked, there may be two effects.
#[must_use]
pub fn overtaken<'a>(candidate: Candidate<'_>, peers: &'a [Peer]) -> Vec<&'a Peer> {
    let passed = |peer: &&Peer| {
        peer.id != *candidate.id
            && !peer.stage.is_final()
            && same_run(candidate, peer)
            && !distinct(candidate, peer)
            && !holds(candidate, peer)
    };
    peers.iter().filter(passed).collect()
}

/// Whether the two belong to one agent run, or either to none.
fn same_run(candidate: Candidate<'_>, peer: &Peer) -> bool {
    match (candidate.task, &peer.task) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => true,
    }
}

/// Whether the candidate waits for the peer anyway, as the proposal that it changes: that wait ends with a person's word
/// where the peer worked. One that is rejected is no longer waited for, and a spent budget guards all the same.
fn waited_for(candidate: Candidate<'_>, peer: &Peer) -> bool {
    let named = candidate.replaces == Some(&peer.id) || candidate.inherits.contains(&peer.id);
    named && peer.rejected_as != Some(RejectionCode::BudgetExhausted)
}

/// Whether the two were declared different. An agent's word holds only while the other one cannot have doubled what
/// the agent meant: in progress, final or released, never `unknown`.
fn distinct(candidate: Candidate<'_>, peer: &Peer) -> bool {
    candidate.distinct_from.iter().filter(|named| named.id == peer.id).any(|named| {
        named.by_approver
            || match peer.stage {
                Stage::InProgress | Stage::Succeeded | Stage::Rejected => true,
                Stage::Prepared | Stage::Unknown => peer.released,
            }
    })
}

/// Of two operations whose attempts are all settled without effect, the older one goes first; otherwise each would
/// wait for the other for ever.
fn gives_way(candidate: Candidate<'_>, peer: &Peer) -> bool {
    peer.stage == Stage::Prepared
        && candidate.settled_since.is_some_and(|since| (since, candidate.id) < (peer.created_at, &peer.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(id: &str, task: Option<&str>, stage: Stage) -> Peer {
        Peer {
            id: OperationId::from_stored(id),
            task: task.map(Task::from_stored),
            stage,
            unresolved: true,
            released: false,
            suspected: false,
            created_at: Timestamp::from_millis(5),
            succeeded_at: None,
            rejected_as: None,
            replaces: None,
            replaced_by: None,
        }
    }

    fn held(task: Option<&str>, distinct_from: &[Distinct], peers: &[Peer]) -> usize {
        let (id, task) = (OperationId::from_stored("me"), task.map(Task::from_stored));
        let candidate = Candidate {
            id: &id,
            task: task.as_ref(),
            distinct_from,
            replaces: None,
            inherits: &[],
            settled_since: None,
        };
        blockers(candidate, peers).len()
    }

    #[test]
    fn holds_in_the_same_task_or_where_either_has_none() {
        let unknown = Stage::Unknown;
        assert_eq!(held(Some("t"), &[], &[peer("a", Some("t"), unknown)]), 1);
        assert_eq!(held(Some("t"), &[], &[peer("a", Some("u"), unknown)]), 0);
        assert_eq!(held(Some("t"), &[], &[peer("a", None, unknown)]), 1);
        assert_eq!(held(None, &[], &[peer("a", Some("u"), unknown)]), 1);
        assert_eq!(held(None, &[], &[peer("me", None, unknown)]), 0);
    }

    #[test]
    fn an_agents_word_ends_when_the_other_one_becomes_unknown() {
        let named = |by_approver| [Distinct { id: OperationId::from_stored("a"), by_approver }];
        assert_eq!(held(None, &named(false), &[peer("a", None, Stage::InProgress)]), 0);
        assert_eq!(held(None, &named(false), &[peer("a", None, Stage::Unknown)]), 1);
        assert_eq!(held(None, &named(true), &[peer("a", None, Stage::Unknown)]), 0);
        assert_eq!(held(None, &[], &[peer("a", None, Stage::InProgress)]), 1);
    }
}
