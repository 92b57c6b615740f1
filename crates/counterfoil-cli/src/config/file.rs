//! The sections of `counterfoil.toml`, key by key. What a doc comment says here is what the schema shows in an editor.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use counterfoil::KeyFormat;
use counterfoil::policy::{BodyKind, Meaning, SignatureScheme};
use counterfoil::recovery::StoredErrors;

use super::duration::Length;
use super::shape::{At, Definitions, Later, NotBuilt, Shape, section};

section! {
    /// Configuration of a Counterfoil server and of its command line.
    FileSection {
        /// Where it listens and where the ledger lies.
        server: Option<ServerSection>,
        /// Upper limits; each may be lowered, none may be raised.
        limits: Option<LimitsSection>,
        /// The write actions, by name: letters, digits, and `.` `_` `-`, at most 128 bytes.
        tools: Option<BTreeMap<At<String>, ToolSection>>,
        /// Token buckets that tools share, by name.
        destinations: Option<BTreeMap<At<String>, DestinationSection>>,
        /// The gateway for tool servers.
        mcp: Option<Later>,
        /// Who is told about held operations.
        notify: Option<Vec<At<NotifySection>>>,
    }
}

section! {
    /// Where the server listens and where the ledger lies. Each key also comes from `COUNTERFOIL_SERVER_KEY`.
    ServerSection {
        /// An address and port (`127.0.0.1:8787`, the default), or `unix:PATH`.
        listen: Option<At<String>>,
        /// The ledger: `sqlite:PATH`, relative to this file, or `postgres://USER@HOST/DATABASE`. Default
        /// `sqlite:counterfoil.db`.
        database: Option<At<String>>,
        /// How long a claim lasts without renewal, from 1s to 1h. Default 30s.
        lease: Option<At<Length>>,
        /// How often receipts whose retention is over are purged. Default 1m.
        retention_interval: Option<At<Length>>,
        /// Where this node keeps its high-water mark when the ledger is in PostgreSQL, relative to this file. Default
        /// `counterfoil.mark`. On SQLite the mark lies beside the ledger.
        mark: Option<At<String>>,
    }
}

section! {
    /// Upper limits. Each may be lowered, none may be raised. Each key also comes from `COUNTERFOIL_LIMITS_KEY`.
    LimitsSection {
        /// Bytes of the arguments of one operation. Default and most 262144.
        arguments_bytes: Option<At<u64>>,
        /// Bytes of a stored result; a larger one is kept as digest and size. Default and most 1048576.
        result_bytes: Option<At<u64>>,
        /// Bytes of a task. Default and most 255.
        task_bytes: Option<At<u64>>,
        /// Bytes of a subject. Default and most 255.
        subject_bytes: Option<At<u64>>,
        /// Levels of nesting in arguments; the object itself is the first. Default and most 64.
        depth: Option<At<u64>>,
        /// Items on one page of a list. Default and most 200.
        list_page: Option<At<u64>>,
        /// Milliseconds that one call may wait. Default and most 120000.
        wait_ms: Option<At<u64>>,
        /// Callers that may wait for one operation at once; further ones are answered at once. Default and most 1000.
        waiters: Option<At<u64>>,
    }
}

section! {
    /// A write action: who carries it out, who can establish whether it happened, how often it may be tried.
    ToolSection {
        /// What it does, for people.
        description: Option<String>,
        /// The accounts that may use it. Default all.
        accounts: Option<At<Vec<At<String>>>>,
        /// Whether another principal must say yes first: `required`, `none` (the default), or `{ when = [conditions] }`,
        /// of which one that is met is enough.
        approval: Option<At<ApprovalValue>>,
        /// How long an approval, and a request for one, is good for. Default 24h.
        approval_expires: Option<At<Length>>,
        /// How long the receipt is kept, counted from the final state. Default 90d.
        retention: Option<At<Length>>,
        /// JSON pointers to arguments that are never shown in lists, logs or notices.
        sensitive: Option<Vec<At<String>>>,
        /// JSON pointers to arguments that do not count when a repeat is compared, such as a trace ID.
        volatile: Option<Vec<At<String>>>,
        /// JSON pointers to the arguments that make two actions the same one for the task guard. Default all arguments.
        guard_on: Option<At<Vec<At<String>>>>,
        /// The request that carries the action out.
        http: Option<At<HttpSection>>,
        /// Code of your own that carries it out, in place of `http`.
        worker: Option<At<WorkerSection>>,
        /// A tool server that carries it out.
        mcp: Option<Later>,
        /// Who can establish whether it happened. There is no default.
        recovery: Option<At<RecoverySection>>,
        /// How often and how long it may be tried.
        budget: Option<BudgetSection>,
        /// What the destination's answers prove, before the default table; the first match wins.
        outcomes: Option<Vec<At<OutcomeSection>>>,
        /// The destination's own notices.
        evidence: Option<At<EvidenceSection>>,
        /// What the person sees who decides.
        review: Option<At<ReviewSection>>,
        /// A profile of the built-in catalogue.
        profile: Option<Later>,
    }
}

section! {
    /// The request that carries the action out.
    HttpSection {
        /// `POST`, `PUT`, `PATCH`, `DELETE` or `GET`.
        method: At<String>,
        /// Host and scheme are fixed; `{/pointer}` stands for a scalar argument in a path segment or query value.
        url: At<String>,
        /// `json` (the argument bytes, the default), `form` (a flat form of scalars) or `none`.
        body: Option<At<BodyKind>>,
        /// JSON pointers to arguments that went into the URL's path and stay out of the body.
        path_only: Option<Vec<At<String>>>,
        /// Header templates; `${NAME}` or `${file:PATH}` stands for a secret that is looked up at send time.
        headers: Option<BTreeMap<At<String>, At<String>>>,
        /// Whether transparent mode passes a query string.
        query: Option<At<QueryValue>>,
        /// The vendor account, region and mode that the credential belongs to; rotating a secret does not change it.
        scope: Option<At<String>>,
        /// The section of `[destinations]` whose token bucket the sends share.
        destination: Option<At<String>>,
        /// How long callers wait for the answer. Default 20s.
        timeout: Option<At<Length>>,
        /// How long after `timeout` the answer is still read. Default 60s.
        linger: Option<At<Length>>,
        /// JSON pointer into the answer that names what was created.
        receipt_reference: Option<At<String>>,
        /// Whether the host may be a private or link-local address. Default false.
        allow_private: Option<bool>,
    }
}

section! {
    /// Code of your own that carries the action out: it claims operations and reports how they ended. An empty section
    /// is enough.
    WorkerSection {
        /// The vendor account, region and mode that your code's credential belongs to.
        scope: Option<At<String>>,
        /// The section of `[destinations]` whose token bucket the sends share.
        destination: Option<At<String>>,
    }
}

section! {
    /// Who can establish whether it happened. Which keys belong here depends on `kind`.
    RecoverySection {
        /// `idempotency_key`, `unique_reference`, `lookup`, `none` or `transaction`.
        kind: At<Kind>,
        /// Where the idempotency key goes: `header:NAME`, `body:/pointer`, `query:NAME` or `path:NAME`; `worker` where
        /// your own code puts it there.
        key: Option<At<String>>,
        /// Where the reference goes: `header:NAME`, `body:/pointer`, `query:NAME` or `path:NAME`; `worker` where your own
        /// code puts it there.
        reference: Option<At<String>>,
        /// How key or reference is spelled. Default `hex32`.
        key_format: Option<At<KeyFormat>>,
        /// The longest key or reference that the destination takes, in bytes.
        key_max_len: Option<At<u64>>,
        /// How long the destination remembers a key, from its first arrival.
        retention: Option<At<Length>>,
        /// The longest that a request can be under way.
        request_lifetime: Option<At<Length>>,
        /// What the destination does with a key whose first request failed. Default `all`.
        stored_errors: Option<At<StoredErrors>>,
        /// Whether a failed request leaves nothing behind; only with `stored_errors = "success_only"`.
        rolls_back: Option<At<bool>>,
        /// How long a used reference stays refused: a duration, or `forever` (the default).
        unique_for: Option<At<UniqueFor>>,
        /// Whether the look-up's answer is complete and current. Default false.
        authoritative: Option<At<bool>>,
        /// How long an accepted request may stay invisible to the look-up. Default 0s.
        queue_time: Option<At<Length>>,
        /// The largest difference between clocks. Default 60s.
        skew: Option<At<Length>>,
        /// JSON pointers to arguments that a found record must repeat.
        must_match: Option<At<Vec<At<String>>>>,
        /// How long look-ups go on. Default 24h.
        lookup_for: Option<At<Length>>,
        /// The request that finds the record again; `worker` where your own code asks.
        lookup: Option<At<LookUpValue>>,
    }
}

section! {
    /// The request that finds the record again.
    LookUpSection {
        /// `GET` (the default) or `POST`.
        method: Option<At<String>>,
        /// The URL, with `{reference}` in a path segment or query value.
        url: At<String>,
        /// JSON pointer into the answer that names the record.
        found: At<String>,
        /// JSON pointer into the answer to an array or a number that counts the records.
        count: Option<At<String>>,
        /// Another tool of the same tool server.
        tool: Option<Later>,
        /// The arguments of that tool.
        arguments: Option<Later>,
    }
}

section! {
    /// How often and how long an action may be tried.
    BudgetSection {
        /// Attempts. Default 5.
        attempts: Option<At<u64>>,
        /// How long after the first attempt another one may start. Default 15m.
        elapsed: Option<At<Length>>,
        /// The upper end of the first delay. Default 500ms.
        first_delay: Option<At<Length>>,
        /// The longest delay. Default 60s.
        max_delay: Option<At<Length>>,
    }
}

section! {
    /// A matcher of the destination's answers.
    OutcomeSection {
        /// The status it applies to. Default any.
        status: Option<At<u64>>,
        /// What the body must say.
        body: Option<BodySection>,
        /// What such an answer proves.
        means: At<Meaning>,
    }
}

section! {
    /// A condition on one member of a JSON body.
    BodySection {
        /// JSON pointer to the member.
        pointer: At<String>,
        /// What it must equal.
        equals: At<Scalar>,
    }
}

section! {
    /// When another principal must say yes first.
    WhenSection {
        /// Conditions on the exact arguments; one that is met is enough.
        when: At<Vec<At<ConditionSection>>>,
    }
}

section! {
    /// A condition on one argument. One that is absent, or of another type, counts as met.
    ConditionSection {
        /// JSON pointer to the argument.
        at: At<String>,
        /// It is a number above this one. Written as a text where it has more digits than a float keeps.
        greater_than: Option<At<Scalar>>,
        /// It is a number below this one.
        less_than: Option<At<Scalar>>,
        /// It is exactly this text, number or truth value.
        equals: Option<At<Scalar>>,
    }
}

section! {
    /// What the person sees who decides. `{/pointer}` stands for a scalar argument, `{reference}` for the key or reference
    /// as it was sent.
    ReviewSection {
        /// A headline.
        title: Option<At<String>>,
        /// The question to answer.
        question: Option<At<String>>,
        /// The arguments that matter, in order; they come first and are never shortened.
        fields: Option<At<Vec<At<ReviewFieldSection>>>>,
        /// Where to look.
        check: Option<At<String>>,
        /// A link to there, with placeholders in path segments and query values.
        check_url: Option<At<String>>,
        /// How bad it is to leave it: `low`, `normal` (the default), `high` or `critical`. The worst comes first.
        severity: Option<At<Urgency>>,
        /// Whom to ask.
        ask: Option<At<String>>,
    }
}

section! {
    /// A labelled argument.
    ReviewFieldSection {
        /// JSON pointer to the argument.
        at: At<String>,
        /// What it is called.
        label: At<String>,
        /// What is shown beside the stored value: `text` (nothing, the default), `money` or `date`.
        r#as: Option<At<FieldKind>>,
        /// With `money`: JSON pointer to the currency, or its code.
        currency: Option<At<String>>,
        /// With `money`: whether the amount is in the currency's minor unit. Default false.
        minor: Option<At<bool>>,
    }
}

section! {
    /// How the destination's webhooks are believed and read: `POST /v1/evidence/TOOL`. They may prove success, never a
    /// rejection.
    EvidenceSection {
        /// How they are signed: `standard` (Standard Webhooks) or `stripe`.
        scheme: At<SignatureScheme>,
        /// The signing secret: `${NAME}` or `${file:PATH}`, looked up at use.
        secret: At<String>,
        /// JSON pointer to the key or reference that was sent.
        reference: At<String>,
        /// JSON pointer to the name of the event. Default the header `webhook-id`, with `stripe` `/id`.
        event_id: Option<At<String>>,
        /// What makes one a proof of success; anything else is kept as evidence.
        success: BodySection,
        /// JSON pointer to what was created.
        receipt_reference: Option<At<String>>,
        /// JSON pointers to arguments that the record must repeat. Default those of `recovery`.
        must_match: Option<Vec<At<String>>>,
    }
}

section! {
    /// Who is told: of held and settled operations, suspected duplicates, wanted approvals, and reminders.
    NotifySection {
        /// `webhook` (Standard Webhooks), `slack` (an incoming webhook) or `email`.
        kind: At<NotifyKind>,
        /// Where it goes; a secret with `slack`: `${NAME}` or `${file:PATH}`.
        url: Option<At<String>>,
        /// With `webhook`, the signing secret: `${NAME}` or `${file:PATH}`.
        secret: Option<At<String>>,
        /// With `email`, the recipients: one address or a list.
        to: Option<At<OneOrMore>>,
        /// With `email`, the sender's address.
        from: Option<At<String>>,
        /// With `email`, the relay: `smtps://HOST` (TLS) or `smtp://HOST` (STARTTLS).
        smtp: Option<At<String>>,
        /// With `email`, whom to log in as.
        username: Option<At<String>>,
        /// With `email`, the password: `${NAME}` or `${file:PATH}`.
        password: Option<At<String>>,
        /// The accounts whose operations are told of. Default all.
        accounts: Option<Vec<At<String>>>,
        /// The address under which people reach the console; links begin with it.
        console_url: Option<At<String>>,
        /// Whether the host may be a private or link-local address. Default false.
        allow_private: Option<bool>,
    }
}

section! {
    /// A token bucket; all tools that name it share it.
    DestinationSection {
        /// Sends per second.
        rate: At<f64>,
        /// The most that may be sent at once.
        burst: At<u64>,
    }
}

impl ServerSection {
    /// What an absent section says.
    pub const EMPTY: Self =
        Self { listen: None, database: None, lease: None, retention_interval: None, mark: None };
}

impl LimitsSection {
    /// What an absent section says.
    pub const EMPTY: Self = Self {
        arguments_bytes: None,
        result_bytes: None,
        task_bytes: None,
        subject_bytes: None,
        depth: None,
        list_page: None,
        wait_ms: None,
        waiters: None,
    };
}

/// A recovery kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The effect is rows in the ledger's own database.
    Transaction,
    /// The destination recognises a repeat by its key.
    IdempotencyKey,
    /// The destination refuses a second record with the same reference.
    UniqueReference,
    /// The destination can be asked.
    Lookup,
    /// Nobody can tell.
    None,
}

impl Kind {
    /// The word of the file.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::IdempotencyKey => "idempotency_key",
            Self::UniqueReference => "unique_reference",
            Self::Lookup => "lookup",
            Self::None => "none",
        }
    }
}

/// The value of `as`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Nothing beside it.
    Text,
    /// An amount.
    Money,
    /// An instant or a day.
    Date,
}

/// The value of `severity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// It can wait.
    Low,
    /// As usual.
    Normal,
    /// Before the others.
    High,
    /// Now.
    Critical,
}

impl Urgency {
    /// The word of the file.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// How somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyKind {
    /// A signed webhook.
    Webhook,
    /// An incoming webhook of Slack, or of whoever takes the same.
    Slack,
    /// A mail.
    Email,
}

impl NotifyKind {
    /// The word of the file.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Slack => "slack",
            Self::Email => "email",
        }
    }
}

/// One text or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMore(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            One(String),
            More(Vec<String>),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::One(text) => Self(vec![text]),
            Either::More(list) => Self(list),
        })
    }
}

impl Shape for OneOrMore {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}

/// The value of `approval`.
#[derive(Clone, Debug)]
pub enum ApprovalValue {
    /// `"none"`
    None,
    /// `"required"`
    Required,
    /// A table of conditions.
    When(WhenSection),
}

/// The value of `query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryValue {
    /// `"refuse"`
    Refuse,
    /// `"pass"`
    Pass,
}

impl Shape for QueryValue {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "enum": ["refuse"] })
    }
}

/// The value of `unique_for`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueFor {
    /// `"forever"`
    Forever,
    /// A duration.
    Length(Length),
}

impl<'de> Deserialize<'de> for UniqueFor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "forever" => Ok(Self::Forever),
            length => Length::parse(length).map(Self::Length).map_err(serde::de::Error::custom),
        }
    }
}

impl Shape for UniqueFor {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": "string", "pattern": "^([0-9]+(ms|s|m|h|d)|forever)$" })
    }
}

/// The value of `lookup`.
#[derive(Clone, Debug)]
pub enum LookUpValue {
    /// `"worker"`
    Worker,
    /// The request.
    Request(Box<LookUpSection>),
}

/// A text, number or truth value, as JSON would write it (texts without quotes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar(pub String, pub ScalarKind);

/// What a [`Scalar`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Bool,
}

impl Shape for Scalar {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": ["string", "number", "boolean"] })
    }
}

struct ApprovalVisitor;

impl<'de> Visitor<'de> for ApprovalVisitor {
    type Value = ApprovalValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`required`, `none` or `{ when = [...] }`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ApprovalValue, E> {
        match text {
            "required" => Ok(ApprovalValue::Required),
            "none" => Ok(ApprovalValue::None),
            other => Err(E::unknown_variant(other, &["required", "none"])),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ApprovalValue, A::Error> {
        WhenSection::deserialize(MapAccessDeserializer::new(map)).map(ApprovalValue::When)
    }
}

impl<'de> Deserialize<'de> for ApprovalValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ApprovalVisitor)
    }
}

impl Shape for ApprovalValue {
    fn shape(definitions: &mut Definitions) -> Value {
        json!({ "anyOf": [{ "enum": ["required", "none"] }, WhenSection::shape(definitions)] })
    }
}

struct LookUpVisitor;

impl<'de> Visitor<'de> for LookUpVisitor {
    type Value = LookUpValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with `method`, `url`, `found` and `count`, or `worker`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<LookUpValue, E> {
        match text {
            "worker" => Ok(LookUpValue::Worker),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LookUpValue, A::Error> {
        LookUpSection::deserialize(MapAccessDeserializer::new(map))
            .map(|section| LookUpValue::Request(Box::new(section)))
    }
}

impl<'de> Deserialize<'de> for LookUpValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LookUpVisitor)
    }
}

impl Shape for LookUpValue {
    fn shape(definitions: &mut Definitions) -> Value {
        json!({ "anyOf": [{ "enum": ["worker"] }, LookUpSection::shape(definitions)] })
    }

    fn not_built(&self) -> Vec<NotBuilt> {
        match self {
            Self::Worker => Vec::new(),
            Self::Request(section) => section.not_built(),
        }
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true or false")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned(), ScalarKind::Text))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string(), ScalarKind::Bool))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string(), ScalarKind::Number))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Scalar, E> {
        if value.is_finite() {
            Ok(Scalar(value.to_string(), ScalarKind::Number))
        } else {
            Err(E::invalid_value(serde::de::Unexpected::Float(value), &self))
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}
