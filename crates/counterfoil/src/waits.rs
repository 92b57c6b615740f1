//! What an operation waits for beside the task guard: the proposals that it changes, whatever those still waited for,
//! and whoever holds its subject. Pure.
//!
//! A changed proposal is never sent while the former one may still take effect, and needs a person's word where that one
//! turns out to have worked. The same holds for operations about one subject.

use crate::guard::{Peer, Stage};
use crate::id::OperationId;
use crate::operation::{Operation, RejectionCode};
use crate::safeguard::Safeguard;

/// The most changed proposals that may follow each other.
pub const LONGEST_LINE: usize = 100;

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait<'a> {
    /// The operation that it waits for.
    pub peer: &'a Peer,
    /// Why it stands in the way.
    pub link: Link,
}

/// How an operation stands in another one's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// It is the proposal that was changed, or one that this still waited for.
    Predecessor,
    /// It has the same subject.
    Subject,
}

impl Link {
    /// Why the operation waits until the other one is settled, as a stable word.
    #[must_use]
    pub fn unsettled(self) -> &'static str {
        match self {
            Self::Predecessor => "predecessor-unresolved",
            Self::Subject => "subject-held",
        }
    }

    /// Why a person must name the other one, as a stable word.
    #[must_use]
    pub fn succeeded(self) -> &'static str {
        match self {
            Self::Predecessor => "predecessor-succeeded",
            Self::Subject => "subject-succeeded",
        }
    }
}

/// The operations that `operation` takes the place of, or inherited from one of them, as they are now.
fn predecessors<'a>(operation: &Operation, known: &'a [Peer]) -> impl Iterator<Item = &'a Peer> {
    known
        .iter()
        .filter(|peer| operation.replaces.as_ref() == Some(&peer.id) || operation.inherits.contains(&peer.id))
}

/// Whether what takes the place of `peer` must wait for it. What is rejected blocks nothing, unless there is proof
/// against the rejection.
fn may_still_work(peer: &Peer) -> bool {
    let ended = match peer.stage {
        Stage::Rejected => !peer.suspected,
        Stage::Prepared | Stage::InProgress | Stage::Unknown | Stage::Succeeded => false,
    };
    peer.unresolved && !ended
}

/// Whether `peer` holds its subject: it was started and is not over, and nobody let later ones pass. A spent budget is an
/// end: every attempt is settled.
#[must_use]
pub fn holds_subject(peer: &Peer) -> bool {
    let held = match peer.stage {
        // Between settled attempts as well: it was first, and goes on.
        Stage::InProgress | Stage::Unknown | Stage::Prepared => peer.unresolved,
        Stage::Succeeded | Stage::Rejected => peer.suspected,
    };
    held && !peer.released
}

/// What must be settled before `operation` may start. `known` are the operations that it names, `about` those with its
/// subject.
#[must_use]
pub fn unsettled<'a>(operation: &Operation, known: &'a [Peer], about: &'a [Peer]) -> Vec<Wait<'a>> {
    let first = predecessors(operation, known)
        .filter(|peer| may_still_work(peer) && Safeguard::PredecessorWaits.stands())
        .map(|peer| Wait { peer, link: Link::Predecessor });
    let mut waits: Vec<Wait<'a>> = first.collect();
    let holds = |peer: &&Peer| peer.id != operation.id && holds_subject(peer);
    for peer in about.iter().filter(holds).filter(|_| Safeguard::SubjectWaits.stands()) {
        if !waits.iter().any(|wait| wait.peer.id == peer.id) {
            waits.push(Wait { peer, link: Link::Subject });
        }
    }
    waits
}

/// The first succeeded operation that an approval must name before `operation` may start.
#[must_use]
pub fn unacknowledged<'a>(operation: &Operation, known: &'a [Peer], about: &'a [Peer]) -> Option<Wait<'a>> {
    let open = |peer: &&Peer| peer.stage == Stage::Succeeded && !operation.acknowledged.contains(&peer.id);
    if !Safeguard::Acknowledged.stands() {
        return None;
    }
    let first = predecessors(operation, known).find(open);
    first.map(|peer| Wait { peer, link: Link::Predecessor }).or_else(|| {
        // Whoever was prepared after the success may have known of it.
        let meanwhile =
            |peer: &&Peer| peer.succeeded_at.is_some_and(|at| at >= operation.created_at) && open(peer);
        let later = about.iter().filter(|peer| peer.id != operation.id).find(meanwhile);
        later.map(|peer| Wait { peer, link: Link::Subject })
    })
}

/// What whoever takes the place of `operation` must wait for as well: everything that this one still waited for, apart
/// from what was acknowledged and what certainly did nothing.
#[must_use]
pub fn inherited(operation: &Operation, known: &[Peer], about: &[Peer]) -> Vec<OperationId> {
    let named = known.iter().filter(|peer| {
        operation.replaces.as_ref() == Some(&peer.id)
            || operation.inherits.contains(&peer.id)
            || operation.blocked_by.contains(&peer.id)
    });
    let about = about.iter().filter(|peer| match peer.stage {
        Stage::InProgress | Stage::Unknown | Stage::Succeeded => true,
        Stage::Prepared => peer.unresolved,
        Stage::Rejected => peer.suspected,
    });
    let mut all: Vec<OperationId> = named
        .chain(about)
        .filter(|peer| peer.stage != Stage::Rejected || peer.suspected)
        .map(|peer| peer.id.clone())
        .filter(|id| *id != operation.id && !operation.acknowledged.contains(id))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The live replacement of an operation of which `newest` is the newest one: the end of the chain, unless that was
/// itself rejected for good, which leaves the operation free. What is not known for certain counts as live: the
/// operation is then not sent.
#[must_use]
pub fn live_replacement<'a>(newest: Option<&'a OperationId>, known: &'a [Peer]) -> Option<&'a OperationId> {
    let mut live = newest?;
    // Each one names an older one, so a chain has an end.
    for _ in 0..=known.len() {
        let Some(peer) = known.iter().find(|peer| peer.id == *live) else { return Some(live) };
        let rejected = match peer.stage {
            Stage::Rejected if peer.suspected => return Some(live),
            Stage::Rejected => peer.rejected_as,
            Stage::Prepared | Stage::InProgress | Stage::Unknown | Stage::Succeeded => return Some(live),
        };
        match (&peer.replaced_by, rejected) {
            // Also where it was rejected before somebody took its place: that one inherits its wait.
            (Some(next), _) => live = next,
            // A tombstone does not say why.
            (None, Some(RejectionCode::Replaced) | None) => return Some(live),
            (
                None,
                Some(
                    RejectionCode::DestinationRejected
                    | RejectionCode::ApprovalDenied
                    | RejectionCode::ApprovalExpired
                    | RejectionCode::Withdrawn
                    | RejectionCode::NotStarted
                    | RejectionCode::BudgetExhausted
                    | RejectionCode::ConfirmedAbsent,
                ),
            ) => return None,
        }
    }
    Some(live)
}

/// What keeps an operation from being replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Another operation took its place, or that of one that it follows.
    By(OperationId),
    /// Too many proposals follow each other.
    TooLong,
}

/// Whether a new proposal may take the place of `operation`: it has no live replacement, and it is itself still the
/// newest proposal in its line. One that was left behind would otherwise bring a second live proposal into the line.
///
/// # Errors
/// What took the place.
pub fn may_be_replaced(operation: &Operation, known: &[Peer]) -> Result<(), Taken> {
    if let Some(by) = live_replacement(operation.replaced_by.as_ref(), known) {
        return Err(Taken::By(by.clone()));
    }
    let (mut child, mut parent) = (&operation.id, operation.replaces.as_ref());
    for _ in 0..LONGEST_LINE {
        // What is past its retention is no longer in anybody's way.
        let Some(peer) = parent.and_then(|id| known.iter().find(|peer| peer.id == *id)) else {
            return Ok(());
        };
        match &peer.replaced_by {
            Some(newest) if newest != child => return Err(Taken::By(newest.clone())),
            Some(_) | None => {}
        }
        (child, parent) = (&peer.id, peer.replaces.as_ref());
    }
    Err(Taken::TooLong)
}

/// Whether whoever waited for an operation must look again: it was in somebody's way and no longer is.
#[must_use]
pub fn frees(before: &Operation, after: &Operation) -> bool {
    let (was, is) = (Peer::from(before), Peer::from(after));
    (was.unresolved && !is.unresolved) || (holds_subject(&was) && !holds_subject(&is))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn peer(id: &str, stage: Stage, rejected_as: Option<RejectionCode>, replaced_by: Option<&str>) -> Peer {
        Peer {
            id: OperationId::from_stored(id),
            task: None,
            stage,
            unresolved: false,
            released: false,
            suspected: false,
            created_at: Timestamp::from_millis(5),
            succeeded_at: None,
            rejected_as,
            replaces: None,
            replaced_by: replaced_by.map(OperationId::from_stored),
        }
    }

    #[test]
    fn the_live_replacement_is_the_end_of_the_chain() {
        use RejectionCode::{BudgetExhausted, Replaced, Withdrawn};
        let b = OperationId::from_stored("b");
        let live = |known: &[Peer]| live_replacement(Some(&b), known).map(OperationId::to_string);
        assert_eq!(live_replacement(None, &[]), None);
        for stage in [Stage::Prepared, Stage::InProgress, Stage::Unknown, Stage::Succeeded] {
            assert_eq!(live(&[peer("b", stage, None, None)]).as_deref(), Some("b"));
        }
        for code in [Withdrawn, BudgetExhausted] {
            assert_eq!(live(&[peer("b", Stage::Rejected, Some(code), None)]), None);
        }
        let replaced = peer("b", Stage::Rejected, Some(Replaced), Some("c"));
        assert_eq!(live(&[replaced.clone(), peer("c", Stage::Prepared, None, None)]).as_deref(), Some("c"));
        assert_eq!(live(&[replaced.clone(), peer("c", Stage::Rejected, Some(Withdrawn), None)]), None);
        // One that was rejected before its place was taken.
        let left = peer("b", Stage::Rejected, Some(Withdrawn), Some("c"));
        assert_eq!(live(&[left, peer("c", Stage::Unknown, None, None)]).as_deref(), Some("c"));
        // What nobody can tell any more counts as live.
        assert_eq!(live(std::slice::from_ref(&replaced)).as_deref(), Some("c"));
        assert_eq!(live(&[replaced, peer("c", Stage::Rejected, None, None)]).as_deref(), Some("c"));
        let contradicted = Peer { suspected: true, ..peer("b", Stage::Rejected, Some(Withdrawn), None) };
        assert_eq!(live(&[contradicted]).as_deref(), Some("b"));
    }
}
