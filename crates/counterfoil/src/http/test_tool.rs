//! Declarations for the tests of this module.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::{Account, ToolName};
use crate::keys::KeyFormat;
use crate::pointer::Pointer;
use crate::policy::{BodyKind, Carrier, HttpDeclaration, OutcomeRule, QueryMode, Tool};
use crate::recovery::{KeyFacts, NoneFacts, Place, Recovery, StoredErrors};

/// What tests vary.
pub(super) struct Setup {
    pub(super) method: &'static str,
    pub(super) url: String,
    pub(super) body: BodyKind,
    pub(super) path_only: Vec<&'static str>,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) key: Place,
    pub(super) query: QueryMode,
    pub(super) scope: Option<&'static str>,
    pub(super) receipt_reference: Option<&'static str>,
    pub(super) outcomes: Vec<OutcomeRule>,
    pub(super) timeout: Duration,
    pub(super) linger: Duration,
    pub(super) allow_private: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            method: "POST",
            url: "https://supplier.example/orders".to_owned(),
            body: BodyKind::Json,
            path_only: Vec::new(),
            headers: Vec::new(),
            key: Place::Header("Idempotency-Key".to_owned()),
            query: QueryMode::Refuse,
            scope: None,
            receipt_reference: None,
            outcomes: Vec::new(),
            timeout: Duration::from_secs(20),
            linger: Duration::ZERO,
            allow_private: false,
        }
    }
}

pub(super) fn account() -> Account {
    Account::parse("kitchen").unwrap()
}

/// A tool whose destination honours keys.
pub(super) fn keyed(setup: Setup) -> Tool {
    let facts = KeyFacts {
        key: setup.key.clone(),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        retention: Duration::from_secs(86_400),
        request_lifetime: Duration::from_secs(900),
        stored_errors: StoredErrors::All,
        rolls_back: false,
        skew: Duration::from_secs(60),
        lookup: None,
        lookup_for: Duration::from_secs(86_400),
    };
    tool(setup, Recovery::IdempotencyKey(facts))
}

/// A tool of whose requests nobody can tell what became.
pub(super) fn unkeyed(setup: Setup) -> Tool {
    tool(setup, Recovery::None(NoneFacts::default()))
}

fn tool(setup: Setup, recovery: Recovery) -> Tool {
    let pointer = |text: &str| Pointer::parse(text).unwrap();
    let headers: BTreeMap<_, _> =
        setup.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let name = ToolName::parse("supplier.create_order").unwrap();
    let carrier = Carrier::Http(Box::new(HttpDeclaration {
        method: setup.method.to_owned(),
        url: setup.url,
        body: setup.body,
        path_only: setup.path_only.into_iter().map(pointer).collect(),
        headers,
        query: setup.query,
        scope: setup.scope.map(str::to_owned),
        destination: None,
        bucket: None,
        timeout: setup.timeout,
        linger: setup.linger,
        receipt_reference: setup.receipt_reference.map(pointer),
        allow_private: setup.allow_private,
    }));
    Tool { outcomes: setup.outcomes, ..Tool::new(name, carrier, recovery) }
}
