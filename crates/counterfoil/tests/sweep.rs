//! The N-th commit fails, for every N until a run needs fewer of them, before and after it became durable, for one
//! operation of every recovery kind. What counts is the number of effects; afterwards a restart settles or holds.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of a test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::executor::Executor;
use counterfoil::faults::{Action, Fault, Faults};
use counterfoil::http::HttpDestination;
use counterfoil::ledger::{LedgerOptions, NewOperation};
use counterfoil::policy::{
    BodyKind, BodyMatch, Carrier, HttpDeclaration, Meaning, OutcomeRule, QueryMode, Tool,
};
use counterfoil::recovery::{
    KeyFacts, LookUpBy, LookUpFacts, LookUpRequest, NoneFacts, Place, Recovery, ReferenceFacts, StoredErrors,
};
use counterfoil::snapshot::View;
use counterfoil::store::sqlite::SqliteOptions;
use counterfoil::{Arguments, KeyFormat, Ledger, OperationId, SystemClock, ToolName, WorkerName};
use sim::supplier::{Flavour, Supplier, SupplierOptions};

/// More commits than one operation needs.
const MANY: u32 = 40;
/// Within what time a restart settles or holds, beyond the lease: generous, since machines are slow.
const SETTLE: Duration = Duration::from_secs(30);

const FAULTS: [(&str, Fault); 5] = [
    ("before_begin", Fault::Busy),
    ("job", Fault::Full),
    ("commit", Fault::Io),
    ("commit", Fault::IoLate),
    ("after_commit", Fault::Io),
];

fn look_up(supplier: &str) -> LookUpBy {
    LookUpBy::Http(Box::new(LookUpRequest {
        method: "GET".to_owned(),
        url: format!("{supplier}/orders?client_reference={{reference}}"),
        found: "/orders/0/id".parse().unwrap(),
        count: Some("/orders".parse().unwrap()),
        must_match: Vec::new(),
    }))
}

fn key(_supplier: &str) -> Recovery {
    Recovery::IdempotencyKey(KeyFacts {
        key: Place::Header("Idempotency-Key".to_owned()),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        retention: Duration::from_secs(24 * 60 * 60),
        request_lifetime: Duration::from_secs(15 * 60),
        stored_errors: StoredErrors::All,
        rolls_back: false,
        skew: Duration::from_secs(60),
        lookup: None,
        lookup_for: Duration::from_secs(24 * 60 * 60),
    })
}

fn reference(supplier: &str) -> Recovery {
    Recovery::UniqueReference(ReferenceFacts {
        reference: Place::Body("/client_reference".parse().unwrap()),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        unique_for: None,
        request_lifetime: Duration::from_secs(15 * 60),
        skew: Duration::from_secs(60),
        lookup: Some(look_up(supplier)),
        lookup_for: Duration::from_secs(60 * 60),
    })
}

fn searched(supplier: &str) -> Recovery {
    Recovery::LookUp(LookUpFacts {
        reference: Place::Body("/client_reference".parse().unwrap()),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        lookup: look_up(supplier),
        authoritative: true,
        request_lifetime: Some(Duration::from_millis(1_000)),
        queue_time: Duration::ZERO,
        skew: Duration::from_millis(100),
        lookup_for: Duration::from_secs(60 * 60),
    })
}

fn nothing(_supplier: &str) -> Recovery {
    Recovery::None(NoneFacts::default())
}

fn declared(recovery: Recovery, supplier: &str) -> Tool {
    let http = HttpDeclaration {
        method: "POST".to_owned(),
        url: format!("{supplier}/orders"),
        body: BodyKind::Json,
        path_only: Vec::new(),
        headers: Default::default(),
        query: QueryMode::Refuse,
        scope: Some("supplier-account".to_owned()),
        destination: None,
        bucket: None,
        timeout: Duration::from_millis(1_500),
        linger: Duration::ZERO,
        receipt_reference: Some("/id".parse().unwrap()),
        allow_private: false,
    };
    let name = ToolName::parse("supplier.create_order").unwrap();
    let mut tool = Tool::new(name, Carrier::Http(Box::new(http)), recovery);
    tool.lease = Duration::from_secs(1);
    tool.budget.first_delay = Duration::from_millis(20);
    tool.budget.max_delay = Duration::from_millis(200);
    tool.budget.attempts = 30;
    tool.outcomes = vec![OutcomeRule {
        status: Some(409),
        body: Some(BodyMatch {
            pointer: "/error/code".parse().unwrap(),
            equals: "already_exists".to_owned(),
        }),
        means: Meaning::DuplicateOfOurs,
    }];
    tool
}

fn planner() -> Caller {
    Caller {
        account: "kitchen".parse().unwrap(),
        principal: "planner".parse().unwrap(),
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    }
}

fn order() -> NewOperation {
    let arguments = Arguments::parse(br#"{"sku":"flour-25kg","quantity":10}"#).unwrap();
    let id = OperationId::parse("approved-action-17").unwrap();
    let tool = ToolName::parse("supplier.create_order").unwrap();
    NewOperation { execute: true, ..NewOperation::new(id, tool, arguments) }
}

/// One process: a ledger on the file, and an executor that carries on.
async fn process(path: &Path, tool: Tool, name: &str, faults: Arc<Faults>) -> Executor {
    let options = SqliteOptions { faults, ..LedgerOptions::default().store };
    let options = LedgerOptions { store: options, ..LedgerOptions::default() };
    let ledger = Ledger::open(path, vec![tool], options).await.unwrap();
    let secret = ledger.store().ledger_secret();
    let destination = HttpDestination::new(Arc::new(SystemClock::default()), secret).unwrap();
    let executor = Executor::new(ledger, Arc::new(destination), WorkerName::parse(name).unwrap());
    let carrying = executor.clone();
    tokio::spawn(async move { carrying.carry_on().await });
    executor
}

/// The operation, once nothing moves it but a person; or nothing, where the ledger failed or the patience ended.
async fn at_rest(executor: &Executor, patience: Duration) -> Option<View> {
    let until = tokio::time::Instant::now() + patience;
    let mut accepted = false;
    while tokio::time::Instant::now() < until && !executor.failed() {
        // A caller repeats itself until it is answered; from then on it only reads.
        accepted = accepted || executor.prepare(&planner(), order()).await.is_ok();
        if let Ok(view) = executor.ledger().find(&planner(), &order().id).await
            && (view.operation.state.is_final() || view.held())
        {
            return Some(view);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    None
}

/// One run in which the `nth` visit of a place fails. Whether it was reached.
async fn fails(
    flavour: &Flavour,
    recovery: fn(&str) -> Recovery,
    (place, fault): (&str, Fault),
    nth: u32,
) -> bool {
    let supplier = Supplier::start(SupplierOptions::new(flavour.clone())).unwrap();
    // The first answer is lost, so that there is something to recover.
    supplier.fault(sim::supplier::Fault::ReplyDropped).unwrap();
    let tool = || declared(recovery(&supplier.url()), &supplier.url());
    let settles = tool().recovery.kind() != "none";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let faults = Arc::new(Faults::default());
    let first = process(&path, tool(), "node-1", faults.clone()).await;
    faults.arm(place, nth, 1, Action::Fail(fault));
    drop(at_rest(&first, SETTLE).await);
    let reached = faults.armed() == 0;
    first.drain(Duration::from_secs(5)).await;
    first.ledger().store().close().await;
    let second = process(&path, tool(), "node-2", Arc::new(Faults::default())).await;
    let view = at_rest(&second, SETTLE).await;
    let effects = supplier.effect_count().unwrap();
    let case = format!("{} {place} {fault:?} at visit {nth}", tool().recovery.kind());
    let view = view.unwrap_or_else(|| panic!("{case}: stuck"));
    let state = view.operation.state.label();
    match settles {
        true => assert_eq!((state, effects), ("succeeded", 1), "{case}: {:?}", view.operation),
        false => assert!(effects <= 1 && (state == "unknown" || effects == 1), "{case}: {state} {effects}"),
    }
    let report = second.ledger().store().verify().await.unwrap();
    assert_eq!(report.faults, [], "{case}");
    second.drain(Duration::from_secs(5)).await;
    second.ledger().store().close().await;
    reached
}

async fn sweep(flavour: Flavour, recovery: fn(&str) -> Recovery) {
    for case in FAULTS {
        let mut nth = 1;
        while fails(&flavour, recovery, case, nth).await {
            nth += 1;
            assert!(nth < MANY, "{case:?}: more than {MANY} commits");
        }
        println!("{} {case:?}: each of {} failed", recovery("").kind(), nth - 1);
        assert!(nth > 2, "{case:?}: hardly any commit was there to fail");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nth_commit_fails_with_a_key() {
    sweep(Flavour::dedupe(), key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nth_commit_fails_with_a_unique_reference() {
    sweep(Flavour::UniqueReference, reference).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nth_commit_fails_with_a_look_up() {
    sweep(Flavour::Forgetful, searched).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nth_commit_fails_with_nothing() {
    sweep(Flavour::Forgetful, nothing).await;
}
