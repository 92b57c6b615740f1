//! What one tool promises: the declaration in force when an operation was prepared, stored by version.
//!
//! Open operations follow the stricter of the stored and the current declaration for *whether* to send, and the stored
//! one for *where* ([`stricter`]).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::fingerprint::{Arguments, Fingerprint};
use crate::id::{Account, ToolName};
use crate::pointer::Pointer;
use crate::recovery::{Place, Recovery};
use crate::time::millis;

pub use crate::condition::{Comparison, Condition, Expected};

/// One declared tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: ToolName,
    /// What it does, in the operator's words.
    #[serde(default)]
    pub description: String,
    /// The accounts that may use it; `None` means all.
    #[serde(default)]
    pub accounts: Option<Vec<Account>>,
    /// Whether a person must approve an operation before it may start.
    #[serde(default)]
    pub approval: ApprovalRule,
    /// How long an approval, or a request for one, is good for.
    #[serde(with = "millis")]
    pub approval_expires: Duration,
    /// How long the receipt is kept, counted from the final state.
    #[serde(with = "millis")]
    pub retention: Duration,
    /// How long a claim lasts without renewal.
    #[serde(with = "millis")]
    pub lease: Duration,
    /// Members never shown in lists, logs or notices.
    #[serde(default)]
    pub sensitive: Vec<Pointer>,
    /// Members left out of the fingerprint.
    #[serde(default)]
    pub volatile: Vec<Pointer>,
    /// The members that make two operations the same action for the task guard; `None` means all that are compared.
    #[serde(default)]
    pub guard_on: Option<Vec<Pointer>>,
    /// When a person is asked, where [`ApprovalRule::When`] says so: any of these is enough.
    #[serde(default)]
    pub approval_when: Vec<Condition>,
    /// What a person sees who has to decide.
    #[serde(default)]
    pub review: Review,
    /// The destination's own notices that may prove success.
    #[serde(default)]
    pub evidence: Option<EvidenceDeclaration>,
    /// Who carries the operation out.
    pub carrier: Carrier,
    /// Who can establish whether it happened.
    pub recovery: Recovery,
    /// How often and how long it may be tried.
    pub budget: Budget,
    /// Matchers that come before the default table of outcomes; the first match wins.
    #[serde(default)]
    pub outcomes: Vec<OutcomeRule>,
}

/// Whether a person is asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalRule {
    /// Nobody is asked.
    #[default]
    None,
    /// Asked where the exact arguments say so; decided when the operation is prepared, and frozen.
    When,
    /// No attempt is recorded without a valid approval.
    Required,
}

/// What a person sees who has to decide about an operation. Everything is the operator's text; values come from the
/// stored bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Review {
    /// A headline, with `{/pointer}` standing for a scalar argument.
    #[serde(default)]
    pub title: Option<String>,
    /// The question to answer.
    #[serde(default)]
    pub question: Option<String>,
    /// The members that matter, in order.
    #[serde(default)]
    pub fields: Vec<ReviewField>,
    /// Where to look, with `{reference}` standing for what was sent.
    #[serde(default)]
    pub check: Option<String>,
    /// A link to there, with `{reference}` in it.
    #[serde(default)]
    pub check_url: Option<String>,
    /// How bad it is to leave it: a word for sorting and notices.
    #[serde(default)]
    pub severity: Option<String>,
    /// Whom to ask.
    #[serde(default)]
    pub ask: Option<String>,
}

/// One labelled member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReviewField {
    /// Which member.
    pub at: Pointer,
    /// What it is called.
    pub label: String,
    /// What is shown beside the stored value.
    #[serde(default)]
    pub shown: ShownAs,
}

/// What a person reads beside a stored value. The value itself is always shown as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownAs {
    /// Nothing: it speaks for itself.
    #[default]
    Text,
    /// An amount with its currency.
    Money(Money),
    /// An instant or a day.
    Date,
}

/// How an amount is formatted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Money {
    /// Where the currency stands: a member, or a fixed code.
    pub currency: Currency,
    /// Whether the amount is in the currency's minor unit (cents).
    #[serde(default)]
    pub minor: bool,
}

/// Where a currency comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Currency {
    /// A member of the arguments.
    At(Pointer),
    /// This code.
    Fixed(String),
}

/// How a destination's own notice (webhook) is believed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EvidenceDeclaration {
    /// How it is signed.
    pub scheme: SignatureScheme,
    /// The template of the signing secret, with `${NAME}` or `${file:PATH}`; looked up at use, never stored.
    pub secret: String,
    /// Where the notice repeats the key or reference that was sent.
    pub reference: Pointer,
    /// Where it names itself; undeclared, the header of the scheme does.
    #[serde(default)]
    pub event_id: Option<Pointer>,
    /// What makes it a proof of success; anything else is kept as evidence.
    pub success: BodyMatch,
    /// Where it names what was created; undeclared, the receipt has no reference.
    #[serde(default)]
    pub receipt_reference: Option<Pointer>,
    /// Members of the arguments that the record in it must repeat; undeclared, those of the look-up.
    #[serde(default)]
    pub must_match: Option<Vec<Pointer>>,
}

/// How a webhook is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureScheme {
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    Standard,
    /// Stripe: `Stripe-Signature`.
    Stripe,
}

/// Who carries an operation out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// The executor, over HTTP.
    Http(Box<HttpDeclaration>),
    /// The application's own worker, which claims and reports.
    Worker(WorkerDeclaration),
    /// The application's own transaction: effect, receipt and state commit together.
    Transaction,
}

/// What the executor must know of a tool that the application's own code carries out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerDeclaration {
    /// The vendor account, region and mode that the worker's credential belongs to.
    #[serde(default)]
    pub scope: Option<String>,
    /// The token bucket that sends share.
    #[serde(default)]
    pub destination: Option<String>,
    /// The refill of that bucket, where one is declared.
    #[serde(default)]
    pub bucket: Option<Bucket>,
}

/// How a request over HTTP is made from the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HttpDeclaration {
    /// The method, upper case.
    pub method: String,
    /// The URL; host and scheme are fixed, `{/pointer}` stands for a scalar argument in a path segment or query value.
    pub url: String,
    /// What the body is made of.
    #[serde(default)]
    pub body: BodyKind,
    /// Members that went into the path and stay out of the body.
    #[serde(default)]
    pub path_only: Vec<Pointer>,
    /// Header templates, with `${NAME}` standing for secrets that are looked up at send time and never stored.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether transparent mode may pass a caller's query string.
    #[serde(default)]
    pub query: QueryMode,
    /// The vendor account, region and mode that the credential belongs to.
    #[serde(default)]
    pub scope: Option<String>,
    /// The token bucket that sends share.
    #[serde(default)]
    pub destination: Option<String>,
    /// The refill of that bucket, where one is declared.
    #[serde(default)]
    pub bucket: Option<Bucket>,
    /// How long callers wait for the answer.
    #[serde(with = "millis")]
    pub timeout: Duration,
    /// How long after `timeout` the answer is still read.
    #[serde(with = "millis")]
    pub linger: Duration,
    /// Where the response names what was created.
    #[serde(default)]
    pub receipt_reference: Option<Pointer>,
    /// Whether the name may resolve to a private, link-local or metadata address.
    #[serde(default)]
    pub allow_private: bool,
}

/// What a request body is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyKind {
    /// The stored argument bytes.
    #[default]
    Json,
    /// A flat form of scalars.
    Form,
    /// Nothing.
    None,
}

/// What transparent mode does with a caller's query string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryMode {
    /// Refuses it.
    #[default]
    Refuse,
    /// Passes it.
    Pass,
}

/// A token bucket: sends per second, and how many may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bucket {
    /// Milli-sends per second, so that slow buckets stay exact (10 per second is 10 000).
    pub rate_milli: u64,
    /// The most that may be sent at once.
    pub burst: u32,
}

/// The retry budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Budget {
    /// How many attempts there may be.
    pub attempts: u32,
    /// How long after the first attempt another may start.
    #[serde(with = "millis")]
    pub elapsed: Duration,
    /// The upper end of the first delay.
    #[serde(with = "millis")]
    pub first_delay: Duration,
    /// The longest delay.
    #[serde(with = "millis")]
    pub max_delay: Duration,
}

impl Default for Budget {
    /// Five attempts in a quarter of an hour, from half a second to a minute apart.
    fn default() -> Self {
        Self {
            attempts: 5,
            elapsed: Duration::from_secs(15 * 60),
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
        }
    }
}

/// One matcher of a destination's answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutcomeRule {
    /// The status it applies to; `None` means any.
    #[serde(default)]
    pub status: Option<u16>,
    /// What the body must say.
    #[serde(default)]
    pub body: Option<BodyMatch>,
    /// What such an answer proves.
    pub means: Meaning,
}

/// A condition on one member of a JSON body.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BodyMatch {
    /// Which member.
    pub pointer: Pointer,
    /// The text, number or literal that it must equal, as it would be written in JSON (strings without quotes).
    pub equals: String,
}

/// What an answer of a destination proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// The effect exists.
    Succeeded,
    /// Refused as such; repeating it cannot help.
    Rejected,
    /// Refused before anything was processed; it may be sent again.
    NotProcessed,
    /// Refused before work; come back later.
    Throttled,
    /// Accepted, not done.
    Pending,
    /// Our own earlier request is in the way: look it up.
    DuplicateOfOurs,
    /// Nothing is proved.
    Unknown,
}

/// SHA-256 of where a declaration sends to: method, URL, scope, and the place and format of key or reference.
///
/// Only a change of these voids an approval.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route([u8; 32]);

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::hex::encode(&self.0))
    }
}

impl Serialize for Route {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::hex::decode(&text).map(Self).ok_or_else(|| serde::de::Error::custom("not a digest"))
    }
}

impl Tool {
    /// The HTTP declaration, where the executor carries the operation out.
    #[must_use]
    pub fn http(&self) -> Option<&HttpDeclaration> {
        match &self.carrier {
            Carrier::Http(http) => Some(http),
            Carrier::Worker(_) | Carrier::Transaction => None,
        }
    }

    /// The worker declaration, where the application's own code carries the operation out.
    #[must_use]
    pub fn worker(&self) -> Option<&WorkerDeclaration> {
        match &self.carrier {
            Carrier::Worker(worker) => Some(worker),
            Carrier::Http(_) | Carrier::Transaction => None,
        }
    }

    /// The refill of the token bucket that sends share, where one is declared.
    #[must_use]
    pub fn bucket(&self) -> Option<Bucket> {
        match &self.carrier {
            Carrier::Http(http) => http.bucket,
            Carrier::Worker(worker) => worker.bucket,
            Carrier::Transaction => None,
        }
    }

    /// The declared vendor account.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        match &self.carrier {
            Carrier::Http(http) => http.scope.as_deref(),
            Carrier::Worker(worker) => worker.scope.as_deref(),
            Carrier::Transaction => None,
        }
    }

    /// Whether `account` may use the tool.
    #[must_use]
    pub fn serves(&self, account: &Account) -> bool {
        self.accounts.as_ref().is_none_or(|accounts| accounts.contains(account))
    }

    /// Whether the conditions ask for an approval of these exact arguments. Text that cannot be read is asked about.
    #[must_use]
    pub fn asks_for(&self, arguments: &Arguments) -> bool {
        if self.approval != ApprovalRule::When || self.approval_when.is_empty() {
            return false;
        }
        arguments.node().map_or(true, |node| self.approval_when.iter().any(|condition| condition.met(&node)))
    }

    /// What makes another call with `arguments` the same action for the task guard.
    #[must_use]
    pub fn action(&self, arguments: &Arguments) -> Fingerprint {
        match &self.guard_on {
            Some(members) => arguments.digest_of_members(self.name.as_str(), members, &self.volatile),
            None => arguments.fingerprint(self.name.as_str(), &self.volatile),
        }
    }

    /// Where an operation of this declaration goes to.
    #[must_use]
    pub fn route(&self) -> Route {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        match &self.carrier {
            Carrier::Http(http) => {
                part(&http.method);
                part(&http.url);
                part(http.scope.as_deref().unwrap_or_default());
            }
            Carrier::Worker(worker) => {
                part("worker");
                part(worker.scope.as_deref().unwrap_or_default());
            }
            Carrier::Transaction => part("transaction"),
        }
        if let Some(place) = self.recovery.place() {
            part(&place.to_string());
        }
        if let Some((format, _)) = self.recovery.key_format() {
            part(format.label());
        }
        Route(hash.finalize().into())
    }

    /// How long a send may be put off after its attempt was committed: half of the smaller of lease and declared
    /// request lifetime.
    #[must_use]
    pub fn send_window(&self) -> Duration {
        self.recovery.declared_lifetime().map_or(self.lease, |lifetime| lifetime.min(self.lease)) / 2
    }
}

/// The facts that decide *whether* an open operation may be sent: of the declaration it was prepared under and the one
/// in force now, the stricter value of each.
#[must_use]
pub fn stricter(stored: &Tool, current: &Tool) -> Tool {
    let mut tool = stored.clone();
    tool.approval = stored.approval.max(current.approval);
    // Each asks by its own conditions, and one that asks is enough.
    let conditions = |tool: &Tool| match tool.approval {
        ApprovalRule::When => tool.approval_when.clone(),
        ApprovalRule::None | ApprovalRule::Required => Vec::new(),
    };
    tool.approval_when = conditions(stored);
    tool.approval_when.extend(conditions(current));
    tool.approval_expires = stored.approval_expires.min(current.approval_expires);
    tool.lease = stored.lease.min(current.lease);
    tool.recovery = crate::recovery::stricter(&stored.recovery, &current.recovery);
    tool.budget.attempts = stored.budget.attempts.min(current.budget.attempts);
    tool.budget.elapsed = stored.budget.elapsed.min(current.budget.elapsed);
    tool.budget.first_delay = stored.budget.first_delay.max(current.budget.first_delay);
    tool.budget.max_delay = stored.budget.max_delay.max(current.budget.max_delay);
    tool
}

/// Where a key or reference is put, as the configuration spells it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Body(pointer) => write!(f, "body:{pointer}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Path(name) => write!(f, "path:{name}"),
            Self::Worker => f.write_str("worker"),
        }
    }
}

/// How long an approval, or a request for one, is good for where nothing is declared.
pub const DEFAULT_APPROVAL_EXPIRES: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a receipt is kept where nothing is declared.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// How long a claim lasts where nothing is declared.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// How long callers wait for an answer where nothing is declared.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an answer is read after that where nothing is declared.
pub const DEFAULT_LINGER: Duration = Duration::from_secs(60);

impl Tool {
    /// A declaration with the documented defaults.
    #[must_use]
    pub fn new(name: ToolName, carrier: Carrier, recovery: Recovery) -> Self {
        Self {
            name,
            description: String::new(),
            accounts: None,
            approval: ApprovalRule::None,
            approval_expires: DEFAULT_APPROVAL_EXPIRES,
            retention: DEFAULT_RETENTION,
            lease: DEFAULT_LEASE,
            sensitive: Vec::new(),
            volatile: Vec::new(),
            guard_on: None,
            approval_when: Vec::new(),
            review: Review::default(),
            evidence: None,
            carrier,
            recovery,
            budget: Budget::default(),
            outcomes: Vec::new(),
        }
    }

    /// A tool whose effect is rows in the ledger's own database.
    #[must_use]
    pub fn in_transaction(name: ToolName) -> Self {
        Self::new(name, Carrier::Transaction, Recovery::Transaction)
    }
}
