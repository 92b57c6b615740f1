//! The embedded executor against a real supplier over HTTP: what counts is the number of effects there.

#![allow(clippy::unwrap_used, reason = "a test may end where its world does not stand")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::destination::{Boxed, Destination, Finding, Gate, LookedUp, Made};
use counterfoil::executor::Executor;
use counterfoil::http::HttpDestination;
use counterfoil::ledger::{LedgerOptions, NewOperation};
use counterfoil::operation::{LookUpAnswer, Marker, ReceiptSource};
use counterfoil::policy::{BodyKind, Carrier, HttpDeclaration, QueryMode, Tool};
use counterfoil::recovery::{
    KeyFacts, LookUpBy, LookUpFacts, LookUpRequest, NoneFacts, Place, Recovery, StoredErrors,
};
use counterfoil::snapshot::View;
use counterfoil::store::sqlite::SqliteOptions;
use counterfoil::time::{ManualClock, Timestamp};
use counterfoil::{Account, Arguments, KeyFormat, Ledger, OperationId, SystemClock, ToolName, WorkerName};
use sim::supplier::{Fault, Flavour, Supplier, SupplierOptions};

struct World {
    _folder: tempfile::TempDir,
    supplier: Supplier,
    executor: Executor,
    caller: Caller,
}

fn with_key() -> Recovery {
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

fn declaration(supplier: &str) -> HttpDeclaration {
    HttpDeclaration {
        method: "POST".to_owned(),
        url: format!("{supplier}/orders"),
        body: BodyKind::Json,
        path_only: Vec::new(),
        headers: Default::default(),
        query: QueryMode::Refuse,
        scope: Some("supplier-account".to_owned()),
        destination: None,
        bucket: None,
        timeout: Duration::from_millis(500),
        linger: Duration::from_millis(500),
        receipt_reference: Some("/id".parse().unwrap()),
        allow_private: false,
    }
}

fn planner() -> Caller {
    Caller {
        account: "kitchen".parse().unwrap(),
        principal: "planner".parse().unwrap(),
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    }
}

impl World {
    async fn new(flavour: Flavour, recovery: Recovery) -> Self {
        let supplier = Supplier::start(SupplierOptions::new(flavour)).unwrap();
        let http = declaration(&supplier.url());
        let name = ToolName::parse("supplier.create_order").unwrap();
        let mut tool = Tool::new(name, Carrier::Http(Box::new(http)), recovery);
        tool.budget.first_delay = Duration::from_millis(20);
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path().join("ledger.db"), vec![tool], LedgerOptions::default())
            .await
            .unwrap();
        let secret = ledger.store().ledger_secret();
        let destination = HttpDestination::new(Arc::new(SystemClock::default()), secret).unwrap();
        let worker = WorkerName::parse("node-1").unwrap();
        let executor = Executor::new(ledger, Arc::new(destination), worker);
        let carrying = executor.clone();
        tokio::spawn(async move { carrying.carry_on().await });
        let caller = planner();
        Self { _folder: folder, supplier, executor, caller }
    }

    async fn put(&self, id: &str) -> View {
        let id = OperationId::parse(id).unwrap();
        let arguments = Arguments::parse(br#"{"sku":"flour-25kg","quantity":10}"#).unwrap();
        let tool = ToolName::parse("supplier.create_order").unwrap();
        let new = NewOperation { execute: true, ..NewOperation::new(id.clone(), tool, arguments) };
        self.executor.prepare(&self.caller, new).await.unwrap();
        self.executor.ledger().wait(&self.caller, &id, Duration::from_secs(20), None).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_recovered_under_the_same_key() {
    let world = World::new(Flavour::dedupe(), with_key()).await;
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    let first = world.put("approved-action-17").await;
    assert_eq!(first.operation.state.label(), "succeeded", "{:?}", first.next);
    assert_eq!(first.operation.attempts.len(), 2);
    let again = world.put("approved-action-17").await;
    assert_eq!(again.operation.state.receipt(), first.operation.state.receipt());
    assert_eq!(world.supplier.effect_count().unwrap(), 1);
    assert_eq!(world.supplier.request_count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_that_nobody_can_settle_is_held_and_never_sent_again() {
    let world = World::new(Flavour::Forgetful, Recovery::None(NoneFacts::default())).await;
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    for _ in 0..4 {
        let view = world.put("approved-action-17").await;
        assert_eq!(view.operation.state.label(), "unknown");
        assert_eq!(view.next.action.label(), "review");
    }
    assert_eq!(world.supplier.effect_count().unwrap(), 1);
    assert_eq!(world.supplier.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_timeout_is_recorded_as_late_proof() {
    let world = World::new(Flavour::Forgetful, Recovery::None(NoneFacts::default())).await;
    world.supplier.fault(Fault::SlowReply(Duration::from_millis(700))).unwrap();
    let told = world.put("approved-action-17").await;
    assert_eq!((told.operation.state.label(), told.held()), ("unknown", false));
    let id = OperationId::parse("approved-action-17").unwrap();
    let ledger = world.executor.ledger();
    let since = Some(told.operation.version);
    let later = ledger.wait(&world.caller, &id, Duration::from_secs(20), since).await.unwrap();
    let receipt = later.operation.state.receipt().unwrap();
    assert_eq!(receipt.source, ReceiptSource::LateReport);
    assert_eq!(world.supplier.effect_count().unwrap(), 1);
}

/// A host that sleeps after an attempt was recorded wakes with a monotonic clock that did not count it.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_slept_before_the_first_byte_sends_nothing() {
    struct Sleeps(Arc<ManualClock>, tokio::sync::mpsc::UnboundedSender<Result<(), &'static str>>);
    impl Destination for Sleeps {
        fn make(&self, _: &Tool, _: &Account, _: &Arguments, _: Option<&str>) -> Result<Made, String> {
            Ok(Made { digest: "sha256:00".to_owned(), scope: None, bucket: None, request: Box::new(()) })
        }

        fn send(
            &self,
            _: Made,
            _: Arc<Tool>,
            _: bool,
            gate: Arc<dyn Gate>,
            _: tokio::sync::oneshot::Sender<()>,
        ) -> Boxed<Finding> {
            self.0.jump(60 * 60 * 1_000);
            self.1.send(gate.may_write()).unwrap();
            Box::pin(async { Finding::stopped(Marker::Connected, "stopped") })
        }

        fn look_up(
            &self,
            _: Arc<Tool>,
            _: &Account,
            _: &Arguments,
            _: Option<&str>,
            _: Option<&str>,
        ) -> Boxed<LookedUp> {
            Box::pin(async { LookedUp::failed("nothing to ask") })
        }
    }
    let clock = Arc::new(ManualClock::at(Timestamp::parse("2026-11-29T14:02:11Z").unwrap()));
    let store = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let options = LedgerOptions { clock: clock.clone(), store, ..LedgerOptions::default() };
    let http = HttpDeclaration { url: "https://supplier.example/orders".to_owned(), ..declaration("") };
    let name = ToolName::parse("supplier.create_order").unwrap();
    let tool = Tool::new(name.clone(), Carrier::Http(Box::new(http)), with_key());
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("ledger.db"), vec![tool], options).await.unwrap();
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let destination = Arc::new(Sleeps(clock, told));
    let executor = Executor::new(ledger, destination, WorkerName::parse("node-1").unwrap());
    let arguments = Arguments::parse(br#"{"sku":"flour-25kg"}"#).unwrap();
    let new = NewOperation::new(OperationId::parse("a").unwrap(), name, arguments);
    executor.prepare(&planner(), NewOperation { execute: true, ..new }).await.unwrap();
    assert!(answers.recv().await.unwrap().is_err());
}

/// A supplier that does the order, loses the reply, and can be asked.
struct Forgets {
    effects: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl Destination for Forgets {
    fn make(&self, _: &Tool, _: &Account, _: &Arguments, _: Option<&str>) -> Result<Made, String> {
        Ok(Made { digest: "sha256:00".to_owned(), scope: None, bucket: None, request: Box::new(()) })
    }

    fn send(
        &self,
        _: Made,
        _: Arc<Tool>,
        _: bool,
        gate: Arc<dyn Gate>,
        _: tokio::sync::oneshot::Sender<()>,
    ) -> Boxed<Finding> {
        gate.may_write().unwrap();
        self.effects.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Finding::unknown(Marker::BytesWritten, "connection closed before an answer") })
    }

    /// The record shows up with the third question.
    fn look_up(
        &self,
        _: Arc<Tool>,
        _: &Account,
        _: &Arguments,
        key: Option<&str>,
        _: Option<&str>,
    ) -> Boxed<LookedUp> {
        assert_eq!(key.unwrap().len(), 32);
        let found = self.asked.fetch_add(1, Ordering::SeqCst) >= 2;
        let reference = found.then(|| "po_4711".to_owned());
        let answer = if found { LookUpAnswer::Found } else { LookUpAnswer::Absent };
        Box::pin(async move { LookedUp { answer, reference, error: None, ..LookedUp::failed("") } })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_found_by_asking_and_sent_only_once() {
    let (effects, asked) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let recovery = Recovery::LookUp(LookUpFacts {
        reference: Place::Header("Reference".to_owned()),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        lookup: LookUpBy::Http(Box::new(LookUpRequest {
            method: "GET".to_owned(),
            url: "https://supplier.example/orders?ref={reference}".to_owned(),
            found: "/0/id".parse().unwrap(),
            count: None,
            must_match: Vec::new(),
        })),
        authoritative: true,
        request_lifetime: Some(Duration::from_secs(300)),
        queue_time: Duration::ZERO,
        skew: Duration::from_secs(60),
        lookup_for: Duration::from_secs(3600),
    });
    let http = HttpDeclaration { url: "https://supplier.example/orders".to_owned(), ..declaration("") };
    let name = ToolName::parse("supplier.create_order").unwrap();
    let mut tool = Tool::new(name.clone(), Carrier::Http(Box::new(http)), recovery);
    tool.budget.first_delay = Duration::from_millis(20);
    let folder = tempfile::tempdir().unwrap();
    let ledger =
        Ledger::open(folder.path().join("ledger.db"), vec![tool], LedgerOptions::default()).await.unwrap();
    let destination = Arc::new(Forgets { effects: effects.clone(), asked: asked.clone() });
    let executor = Executor::new(ledger, destination, WorkerName::parse("node-1").unwrap());
    let carrying = executor.clone();
    tokio::spawn(async move { carrying.carry_on().await });
    let id = OperationId::parse("a").unwrap();
    let new = NewOperation::new(id.clone(), name, Arguments::parse(br#"{"sku":"flour-25kg"}"#).unwrap());
    executor.prepare(&planner(), NewOperation { execute: true, ..new }).await.unwrap();
    let view = executor.ledger().wait(&planner(), &id, Duration::from_secs(20), None).await.unwrap();
    let receipt = view.operation.state.receipt().unwrap();
    assert_eq!((receipt.source, receipt.reference.as_deref()), (ReceiptSource::Lookup, Some("po_4711")));
    assert_eq!((effects.load(Ordering::SeqCst), asked.load(Ordering::SeqCst)), (1, 3));
}
