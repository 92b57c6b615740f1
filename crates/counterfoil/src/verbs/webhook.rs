//! What a destination says by itself: a webhook whose signature is good. It may prove success, under any fencing token,
//! or add evidence; it never rejects anything.

use std::sync::Arc;

use serde_json::{Value, json};

use super::draft::{Draft, cover, state_data};
use super::prepare::digest;
use crate::decide::Context;
use crate::error::Refusal;
use crate::id::{Account, OperationId, ToolName};
use crate::operation::{Operation, Receipt, ReceiptSource, ResultBody};
use crate::safeguard::Safeguard;
use crate::snapshot::{Actor, Decided, Declarations, Needs, Snapshot, Verb};
use crate::state::Event;

/// Webhooks that stay in the evidence of one operation. A further one is kept only where it proves success.
pub const MOST_WEBHOOKS: u64 = 200;

/// What a webhook says, read by the tool's declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Digest of the event's name: each is heard once.
    pub event: String,
    /// The key or reference that it repeats.
    pub reference: String,
    /// Whether it says that the effect exists.
    pub success: bool,
    /// Whether everything that was declared of a proof stands in it.
    pub complete: bool,
    /// What it calls the thing that was created.
    pub names: Option<String>,
    /// Members that it must share with the arguments, each with its value as equal values are spelled.
    pub record: Vec<(crate::Pointer, Option<String>)>,
    /// Its body.
    pub result: ResultBody,
}

/// What became of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Heard {
    /// It proved success.
    Proof,
    /// It says something else, and is kept.
    Other,
    /// It says success and lacks a declared part: kept, and nothing follows.
    Incomplete,
    /// What it tells of has other values than ours: kept, and nothing follows.
    Differs,
    /// It tells of another vendor account than the one that was sent to: kept, and nothing follows.
    ScopeChanged,
    /// It was heard before.
    Repeated,
    /// It says something else, and enough of that is kept already.
    TooMany,
    /// Nothing that is kept was sent under its reference.
    Unmatched,
}

impl Heard {
    /// The word in the evidence and in the metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Proof => "proof",
            Self::Other => "other",
            Self::Incomplete => "incomplete",
            Self::Differs => "differs",
            Self::ScopeChanged => "scope_changed",
            Self::Repeated => "repeated",
            Self::TooMany => "too_many",
            Self::Unmatched => "unmatched",
        }
    }
}

/// Hears a webhook about one operation.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Whose operation: the one that the reference was sent for, never one that the webhook names.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// The tool whose secret the signature was made with.
    pub tool: ToolName,
    /// What it says.
    pub said: Said,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Webhook {
    type Reply = Heard;

    fn needs(&self) -> Needs<'_> {
        Needs { event: Some(&self.said.event), ..Needs::of(&self.account, &self.id) }
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Heard>, Refusal> {
        let operation = match snapshot.kept_operation() {
            Ok(operation) if self.is_about(operation) => operation,
            // Purged since it was found.
            Ok(_) | Err(Refusal::UnknownOperation | Refusal::ReceiptExpired { .. }) => {
                return Ok(Decided::reply(Heard::Unmatched));
            }
            Err(other) => return Err(other),
        };
        let again = snapshot.webhooks.this_one && Safeguard::EvidenceOnce.stands();
        if again {
            return Ok(Decided::reply(Heard::Repeated));
        }
        let context = snapshot.context(&operation.tool)?;
        let heard = self.weigh(operation, &context);
        if heard != Heard::Proof && snapshot.webhooks.kept >= MOST_WEBHOOKS {
            return Ok(Decided::reply(Heard::TooMany));
        }
        let mut draft = Draft::of(operation, snapshot.now);
        if heard == Heard::Proof {
            self.prove(&mut draft, &context)?;
        }
        let data = self.data(&draft, heard);
        draft.note("webhook", Actor::Destination(self.tool.clone()), data);
        Ok(Decided { changes: draft.into_changes().1, reply: heard })
    }
}

impl Webhook {
    fn is_about(&self, operation: &Operation) -> bool {
        let sent = |key: &Option<String>| key.as_deref() == Some(self.said.reference.as_str());
        let ours = operation.tool == self.tool && operation.attempts.iter().any(|attempt| sent(&attempt.key));
        ours || !Safeguard::EvidenceIsOurs.stands()
    }

    fn weigh(&self, operation: &Operation, context: &Context<'_>) -> Heard {
        let ours = operation.arguments.node();
        let repeats = |(member, theirs): &(crate::Pointer, Option<String>)| {
            let own = ours.as_ref().ok().and_then(|ours| member.resolve(ours));
            let own = own.map(crate::fingerprint::canonical_text);
            own.is_some() && own == *theirs
        };
        if !Safeguard::EvidenceProves.stands() {
            Heard::Proof
        } else if !self.said.success {
            Heard::Other
        } else if context.scope_changed() {
            Heard::ScopeChanged
        } else if !self.said.complete {
            Heard::Incomplete
        } else if !self.said.record.iter().all(repeats) {
            Heard::Differs
        } else {
            Heard::Proof
        }
    }

    fn prove(&self, draft: &mut Draft, context: &Context<'_>) -> Result<(), Refusal> {
        let receipt = Receipt {
            reference: self.said.names.clone(),
            result: Some(self.said.result.clone()),
            source: ReceiptSource::Evidence,
            recorded_at: context.now,
        };
        let open = !draft.operation.state.is_final();
        draft.apply(&Event::Proved(receipt), None)?;
        // Under the newer key another copy may take effect, or has: the proof speaks of the older one alone.
        let newest = draft.operation.attempts_under_key();
        let newer = !newest.iter().any(|attempt| attempt.key.as_deref() == Some(&self.said.reference));
        if open && newer && draft.operation.unsettled() > 0 {
            draft.operation.duplicate_suspected = true;
        }
        draft.finish(context.facts().retention);
        Ok(())
    }

    /// The evidence: by digest, so that purging the receipt leaves it verifiable.
    fn data(&self, draft: &Draft, heard: Heard) -> Value {
        let mut data = state_data(&draft.operation);
        if let Value::Object(data) = &mut data {
            data.insert("event".to_owned(), json!(self.said.event));
            data.insert("answer".to_owned(), json!(heard.label()));
            data.insert("sent_reference_digest".to_owned(), json!(digest(&self.said.reference)));
            cover(data, self.said.names.as_deref(), Some(&self.said.result));
        }
        data
    }
}
