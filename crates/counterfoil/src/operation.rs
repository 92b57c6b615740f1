//! One intended action and everything that is known of it. Data only: what follows from it is decided in
//! [`crate::state`], [`crate::recovery`] and [`crate::decide`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fingerprint::{Arguments, Fingerprint};
use crate::id::{Account, FencingToken, OperationId, Principal, Subject, Task, ToolName, WorkerName};
use crate::policy::Route;
use crate::state::State;
use crate::time::Timestamp;

/// An operation: account, ID, tool, exact arguments, who accepted it, and what has happened since.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operation {
    /// The tenant; with `id` the operation's identity, for ever.
    pub account: Account,
    /// Minted by the application when it accepted the action.
    pub id: OperationId,
    /// Which kind of action.
    pub tool: ToolName,
    /// The bytes of the first prepare.
    pub arguments: Arguments,
    /// What a repeat is compared by.
    pub fingerprint: Fingerprint,
    /// What makes another operation the same action (equal to the fingerprint unless the tool says otherwise).
    pub action: Fingerprint,
    /// The agent run or conversation it belongs to.
    pub task: Option<Task>,
    /// What it is about: while one operation with this subject is started and unsettled, no other one is sent.
    pub subject: Option<Subject>,
    /// The proposal that this one changes.
    pub replaces: Option<OperationId>,
    /// What the replaced proposal still waited for, and this one therefore waits for too.
    pub inherits: Vec<OperationId>,
    /// The newest operation that names this one in `replaces`.
    pub replaced_by: Option<OperationId>,
    /// Whether an operation that it would have held back was started past it, after a release: if this one turns out
    /// to have worked too, there may be two effects.
    pub overtaken: bool,
    /// Operations that this one was prepared as distinct from; a repeat must name the same.
    pub distinct_declared: Vec<OperationId>,
    /// Operations that this one was declared distinct from, in either direction.
    pub distinct_from: Vec<Distinct>,
    /// Who or what accepted the proposal: a JSON object of at most 1 KiB, as the application wrote it.
    pub accepted_by: Option<String>,
    /// Who prepared it.
    pub prepared_by: Principal,
    /// The declaration it was prepared under.
    pub policy_version: u32,
    /// Whether it shall run as soon as it may, whoever is still listening.
    pub wish: bool,
    /// What is known.
    pub state: State,
    /// Grows with each claim.
    pub fence: FencingToken,
    /// Every try, oldest first.
    pub attempts: Vec<Attempt>,
    /// How many of the attempts were made under earlier generations of the key; all of those are settled.
    pub earlier_keys: u32,
    /// The newest look-ups, oldest first, at most [`LOOK_UPS_KEPT`]; every one stands in the evidence.
    pub look_ups: Vec<LookUp>,
    /// The claim of whoever investigates now. It grants no right to send.
    pub investigation: Option<Claim>,
    /// Whether the conditions of the declaration asked for an approval when it was prepared.
    pub asks: bool,
    /// A person allowed one more attempt outside the budget, and it was not made yet.
    pub another_allowed: bool,
    /// Proof of success that contradicts what is known, until an approver has looked at it.
    pub contradiction: Option<Receipt>,
    /// When a person wants to be reminded of it.
    pub remind_at: Option<Timestamp>,
    /// The approval that is in force, or was.
    pub approval: Option<Approval>,
    /// Operations that held a start back.
    pub blocked_by: Vec<OperationId>,
    /// Succeeded operations that an approver accepted as no obstacle.
    pub acknowledged: Vec<OperationId>,
    /// The generation of the key: 1 until a person allowed another attempt under a new one.
    pub key_generation: u32,
    /// Whether more than one effect may exist, or an effect contradicts the state.
    pub duplicate_suspected: bool,
    /// An approver let later operations pass.
    pub released: Option<Decision>,
    /// Grows with each evidence row.
    pub version: u64,
    /// When it was prepared.
    pub created_at: Timestamp,
    /// When its newest evidence was written.
    pub updated_at: Timestamp,
    /// From when on every call with this ID is answered with `receipt-expired`.
    pub receipt_expires_at: Option<Timestamp>,
}

/// One side of a declared difference between two operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Distinct {
    /// The other operation.
    pub id: OperationId,
    /// Whether an approver said so; an agent's word counts only while the other one is not `unknown`.
    pub by_approver: bool,
}

/// One try to carry an operation out, recorded durably before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Who made it.
    pub worker: WorkerName,
    /// The claim it was made under.
    pub fence: FencingToken,
    /// Whose claim that was, where an application's own worker made it: nobody else can say what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Principal>,
    /// Who was granted a look-up of it: what one of these found is proof, however late it comes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looked_up_by: Vec<Principal>,
    /// Store time of the commit that recorded it.
    pub started_at: Timestamp,
    /// No first byte after this.
    pub send_before: Timestamp,
    /// Until when the sender still reads the answer after callers were told that there is none yet.
    pub lingers_until: Option<Timestamp>,
    /// When the outcome was recorded.
    pub ended_at: Option<Timestamp>,
    /// How it ended; `None` while it runs, or where nobody reported.
    pub outcome: Option<AttemptOutcome>,
    /// Whether it is certain that it has no effect and cannot get one.
    pub settled: bool,
    /// Whether it uses up one of the budget's attempts.
    pub counts: bool,
    /// How far the sender got.
    pub marker: Option<Marker>,
    /// The status of the answer, where one was read.
    pub status: Option<u16>,
    /// What went wrong, in our own words.
    pub error: Option<String>,
    /// Whether the destination said that our own earlier request is in the way.
    pub duplicate_of_ours: bool,
    /// The key or reference that was sent.
    pub key: Option<String>,
    /// The vendor account that the credential belongs to.
    pub scope: Option<String>,
    /// Digest of what was sent: method, URL, body, and every header without a secret.
    pub request_digest: String,
}

/// How many look-ups stay with the operation itself.
pub const LOOK_UPS_KEPT: usize = 20;

/// One question put to the destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookUp {
    /// When it began: what it found can only speak of the time before.
    pub began_at: Timestamp,
    /// When its answer was recorded.
    pub ended_at: Timestamp,
    /// What the destination said.
    pub answer: LookUpAnswer,
    /// Whether the answer settled the attempts.
    pub counts: bool,
    /// The claim that it was made under.
    #[serde(default)]
    pub fence: FencingToken,
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookUpAnswer {
    /// One record, and it is ours.
    Found,
    /// More than one record.
    Several,
    /// A record that carries our reference and other values than ours.
    Differs,
    /// No record.
    Absent,
    /// An answer that is not of the declared shape: it says nothing.
    Unclear,
    /// No answer.
    Failed,
}

impl LookUpAnswer {
    /// The answer as it is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Several => "several",
            Self::Differs => "differs",
            Self::Absent => "absent",
            Self::Unclear => "unclear",
            Self::Failed => "failed",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The effect exists.
    Succeeded,
    /// The destination refused it as such.
    Rejected,
    /// No byte of it reached a peer.
    NotSent,
    /// It reached a server that proved not to have processed it.
    NotProcessed,
    /// It was refused before work.
    Throttled,
    /// It was accepted and is not done.
    Pending,
    /// Nothing is proved.
    Unknown,
}

impl AttemptOutcome {
    /// The outcome as it is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::NotSent => "not_sent",
            Self::NotProcessed => "not_processed",
            Self::Throttled => "throttled",
            Self::Pending => "pending",
            Self::Unknown => "unknown",
        }
    }
}

/// How far a sender got. It lives in memory; a recorded attempt without a report counts as `bytes_written`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// No connection to the destination stood.
    #[default]
    NotConnected,
    /// A connection stood and no byte of the request was handed to it.
    Connected,
    /// From just before the first byte on.
    BytesWritten,
}

impl Marker {
    /// The marker as it is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::Connected => "connected",
            Self::BytesWritten => "bytes_written",
        }
    }
}

/// A worker's lease on an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// Who holds it.
    pub worker: WorkerName,
    /// Its fencing token.
    pub fence: FencingToken,
    /// When it runs out unless renewed. That it ran out proves nothing.
    pub lease_expires_at: Timestamp,
    /// Minted by a worker for one call: a repeat of that call gets the same claim while it lasts.
    pub claim_id: Option<String>,
    /// How long the holder asked for: each heartbeat extends it by this much. `None` means the lease of the tool.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    /// Who holds it, where an application's own worker does.
    #[serde(default)]
    pub held_by: Option<Principal>,
    /// When a look-up under it counts as begun; `None` where the report says so, or where it was granted to send.
    #[serde(default)]
    pub look_up: Option<LookUpStart>,
}

impl Claim {
    /// Whether `principal` holds it. One without a holder is nobody's in particular.
    #[must_use]
    pub fn is_held_by(&self, principal: &Principal) -> bool {
        self.held_by.as_ref().is_none_or(|holder| holder == principal)
    }
}

/// The beginning of a look-up that an application's own worker makes: the grant of its claim, since nobody knows when
/// the worker asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookUpStart {
    /// Store time of the grant.
    pub at: Timestamp,
    /// The monotonic time, in milliseconds, that the granting node had seen pass since the last attempt.
    pub waited_ms: u64,
}

/// What proves success.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// What the destination calls the thing that was created.
    pub reference: Option<String>,
    /// What the destination answered.
    pub result: Option<ResultBody>,
    /// Who says so.
    pub source: ReceiptSource,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// What a destination, or an application's own code, answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResultBody {
    /// The status, where the answer came over HTTP.
    pub status: Option<u16>,
    /// The content type as it came.
    pub content_type: Option<String>,
    /// The body; `None` where it was too large to keep.
    pub body: Option<Body>,
    /// How many bytes came.
    pub size: u64,
    /// SHA-256 of them, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// Whether the body was too large to keep.
    pub truncated: bool,
}

/// A kept body.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A JSON text, byte for byte.
    Json(String),
    /// Any other text.
    Text(String),
    /// Anything else, base64.
    Base64(String),
}

impl fmt::Debug for Body {
    /// Bodies may hold personal data: only their kind and size are printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(text) => write!(f, "Json({} bytes)", text.len()),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Base64(text) => write!(f, "Base64({} characters)", text.len()),
        }
    }
}

/// Who says that the effect exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptSource {
    /// The answer to the request.
    Response,
    /// A look-up.
    Lookup,
    /// An answer that came late, or from a claim that was outranked.
    LateReport,
    /// The destination's own notice.
    Evidence,
    /// A person.
    Person,
    /// The transaction in which effect and receipt were committed together.
    Transaction,
}

impl ReceiptSource {
    /// The source as it is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Lookup => "lookup",
            Self::LateReport => "late_report",
            Self::Evidence => "evidence",
            Self::Person => "person",
            Self::Transaction => "transaction",
        }
    }
}

/// Why an operation was rejected. Nothing happened, and that is certain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rejection {
    /// What decided it.
    pub code: RejectionCode,
    /// In our own words, or a person's; never shown unescaped.
    pub detail: Option<String>,
    /// Who decided it, where somebody did.
    pub by: Option<Principal>,
    /// When.
    pub at: Timestamp,
}

/// What decided a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectionCode {
    /// The destination refused it as such, and every other attempt is settled.
    DestinationRejected,
    /// A person said no.
    ApprovalDenied,
    /// Nobody said yes in time.
    ApprovalExpired,
    /// The application took it back before it started.
    Withdrawn,
    /// A changed proposal took its place.
    Replaced,
    /// It was prepared and never started within its retention.
    NotStarted,
    /// Every attempt is settled without effect, and the budget is spent.
    BudgetExhausted,
    /// A person established that nothing happened.
    ConfirmedAbsent,
}

impl RejectionCode {
    /// Reads a label back.
    #[must_use]
    pub fn parse(label: &str) -> Option<Self> {
        [
            Self::DestinationRejected,
            Self::ApprovalDenied,
            Self::ApprovalExpired,
            Self::Withdrawn,
            Self::Replaced,
            Self::NotStarted,
            Self::BudgetExhausted,
            Self::ConfirmedAbsent,
        ]
        .into_iter()
        .find(|code| code.label() == label)
    }

    /// The code as it is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::DestinationRejected => "destination_rejected",
            Self::ApprovalDenied => "approval_denied",
            Self::ApprovalExpired => "approval_expired",
            Self::Withdrawn => "withdrawn",
            Self::Replaced => "replaced",
            Self::NotStarted => "not_started",
            Self::BudgetExhausted => "budget_exhausted",
            Self::ConfirmedAbsent => "confirmed_absent",
        }
    }
}

/// A person's yes, bound to the fingerprint and to where the operation goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Approval {
    /// Who.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
    /// Until when an attempt may be recorded under it.
    pub expires_at: Timestamp,
    /// What was approved.
    pub fingerprint: Fingerprint,
    /// Where it was approved to go.
    pub route: Route,
}

/// A decision of a person that needs no more than a note.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decision {
    /// Who.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub note: String,
}

impl Operation {
    /// Attempts that may have had an effect, or may still get one.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.attempts.iter().filter(|attempt| !attempt.settled).count()
    }

    /// Whether any attempt was ever recorded.
    #[must_use]
    pub fn started(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// Whether nobody can say yet that the action is over: the task guard holds the same action back meanwhile.
    #[must_use]
    pub fn unresolved(&self) -> bool {
        if self.released.is_some() {
            return false;
        }
        let open = match &self.state {
            State::InProgress(_) | State::Unknown(_) => true,
            State::Prepared(_) => self.started(),
            State::Rejected(rejection) => rejection.code == RejectionCode::BudgetExhausted,
            State::Succeeded(_) => false,
        };
        open || self.duplicate_suspected
    }

    /// The attempts under the present key or reference: the window of the destination's memory counts from these.
    #[must_use]
    pub fn attempts_under_key(&self) -> &[Attempt] {
        let earlier = usize::try_from(self.earlier_keys).unwrap_or(usize::MAX);
        self.attempts.get(earlier..).unwrap_or_default()
    }

    /// The scope under which the first attempt that may count was sent.
    #[must_use]
    pub fn sent_scope(&self) -> Option<&str> {
        self.attempts.first().and_then(|attempt| attempt.scope.as_deref())
    }
}
