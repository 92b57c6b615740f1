//! One kitchen, one supplier, and the people around them.

use std::collections::BTreeMap;
use std::time::Duration;

use counterfoil::arguments::Arguments;
use counterfoil::caller::{Caller, Roles};
use counterfoil::decide::Action;
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::id::{Account, FencingToken, OperationId, Principal, Task, ToolName, WorkerName};
use counterfoil::keys::KeyFormat;
use counterfoil::operation::{Marker, Operation};
use counterfoil::policy::{ApprovalRule, BodyKind, Carrier, HttpDeclaration, Meaning, QueryMode, Tool};
use counterfoil::recovery::{HoldReason, KeyFacts, NoneFacts, Place, Recovery, StoredErrors};
use counterfoil::snapshot::View;
use counterfoil::testing::World;
use counterfoil::time::Timestamp;
use counterfoil::verbs::{
    Approve, Begun, Deny, Offer, Passed, Prepare, PrepareReply, Report, ReportReply, Start, StartReply, Tick,
    Withdraw,
};

pub(crate) const TOOL: &str = "supplier.create_order";
pub(crate) const FLOUR: &str = r#"{"sku":"flour-25kg","quantity":10}"#;

pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) fn id(text: &str) -> OperationId {
    OperationId::parse(text).unwrap()
}

pub(crate) fn account() -> Account {
    Account::parse("kitchen").unwrap()
}

pub(crate) fn caller(name: &str, roles: &[&str]) -> Caller {
    Caller {
        account: account(),
        principal: Principal::parse(name).unwrap(),
        roles: Roles::parse(roles.iter().copied()).unwrap(),
        tools: Vec::new(),
    }
}

pub(crate) fn app() -> Caller {
    caller("app", &["agent"])
}

pub(crate) fn ann() -> Caller {
    caller("ann", &["approver"])
}

pub(crate) fn http(url: &str) -> Carrier {
    Carrier::Http(Box::new(HttpDeclaration {
        method: "POST".to_owned(),
        url: url.to_owned(),
        body: BodyKind::Json,
        path_only: Vec::new(),
        headers: BTreeMap::new(),
        query: QueryMode::Refuse,
        scope: Some("vendor-1".to_owned()),
        destination: None,
        bucket: None,
        timeout: seconds(20),
        linger: seconds(60),
        receipt_reference: None,
        allow_private: true,
    }))
}

pub(crate) fn key_facts() -> KeyFacts {
    KeyFacts {
        key: Place::Header("Idempotency-Key".to_owned()),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        retention: seconds(24 * 3600),
        request_lifetime: seconds(15 * 60),
        stored_errors: StoredErrors::All,
        rolls_back: false,
        skew: seconds(60),
        lookup: None,
        lookup_for: seconds(24 * 3600),
    }
}

pub(crate) fn tool(recovery: Recovery) -> Tool {
    Tool::new(ToolName::parse(TOOL).unwrap(), http("http://127.0.0.1:9090/orders"), recovery)
}

pub(crate) fn with_key() -> Tool {
    tool(Recovery::IdempotencyKey(key_facts()))
}

pub(crate) fn with_nothing() -> Tool {
    tool(Recovery::None(NoneFacts::default()))
}

pub(crate) fn approved(mut tool: Tool) -> Tool {
    tool.approval = ApprovalRule::Required;
    tool.approval_expires = seconds(3600);
    tool
}

/// What a destination answered.
pub(crate) fn answer(meaning: Meaning, status: u16) -> Finding {
    Finding {
        meaning,
        status: Some(status),
        error: None,
        reference: (meaning == Meaning::Succeeded).then(|| "po_4711".to_owned()),
        ..Finding::unknown(Marker::BytesWritten, "")
    }
}

pub(crate) fn lost() -> Finding {
    Finding::unknown(Marker::BytesWritten, "connection closed before an answer")
}

pub(crate) fn refused_connection() -> Finding {
    Finding::not_sent(Marker::NotConnected, "connection refused")
}

pub(crate) fn bad_credential() -> Finding {
    Finding { credential_refused: true, ..answer(Meaning::NotProcessed, 401) }
}

/// The ledger and short ways to ask it.
pub(crate) struct Kitchen {
    pub(crate) world: World,
}

impl Kitchen {
    pub(crate) fn with(tool: Tool) -> Self {
        // 2026-11-29T14:02:11.020Z
        let mut world = World::at(Timestamp::from_millis(1_795_960_931_020));
        world.declare(tool);
        Self { world }
    }

    /// A prepare that is not run yet.
    pub(crate) fn draft(&self, operation: &str, arguments: &str) -> Prepare {
        let declared = self.world.declared();
        let tool = ToolName::parse(TOOL).unwrap();
        let arguments = Arguments::parse(arguments.as_bytes()).unwrap();
        Prepare {
            caller: app(),
            id: id(operation),
            fingerprint: Prepare::fingerprint(&declared, &tool, &arguments).into(),
            tool,
            arguments,
            task: Some(Task::parse("run-41").unwrap()),
            subject: None,
            replaces: None,
            distinct_from: Vec::new(),
            accepted_by: None,
            execute: false,
            offer: None,
            dry_run: false,
            random: 0,
            declared,
        }
    }

    pub(crate) fn prepare(&mut self, operation: &str) -> Result<PrepareReply, Refusal> {
        let verb = self.draft(operation, FLOUR);
        self.world.run(&verb)
    }

    pub(crate) fn offer(&self, operation: &str) -> Offer {
        let version = self.world.operation(&account(), &id(operation)).map_or(1, |row| row.policy_version);
        Offer {
            worker: WorkerName::parse("node-1").unwrap(),
            policy_version: version,
            request_digest: "sha256:one".to_owned(),
            scope: Some("vendor-1".to_owned()),
            bucket: None,
            lease: None,
            claim: None,
        }
    }

    pub(crate) fn start_as(
        &mut self,
        caller: Option<Caller>,
        operation: &str,
        offer: Option<Offer>,
    ) -> Result<StartReply, Refusal> {
        let declared = self.world.declared();
        let verb = Start { caller, account: account(), id: id(operation), offer, random: 0, declared };
        self.world.run(&verb)
    }

    /// A caller's execute.
    pub(crate) fn execute(&mut self, operation: &str) -> Result<StartReply, Refusal> {
        let offer = self.offer(operation);
        self.start_as(Some(app()), operation, Some(offer))
    }

    /// A caller's execute that must begin attempt `number`.
    pub(crate) fn begin(&mut self, operation: &str, number: u32) {
        assert_eq!(self.execute(operation).unwrap().begun, Begun::Started(number), "{operation}");
    }

    /// The carrying out of a standing wish.
    pub(crate) fn carry(&mut self, operation: &str) -> Begun {
        let offer = self.offer(operation);
        self.start_as(None, operation, Some(offer)).unwrap().begun
    }

    pub(crate) fn report(&mut self, operation: &str, attempt: u32, finding: Finding) -> ReportReply {
        let fence = self.row(operation).attempts[attempt as usize - 1].fence;
        self.report_under(operation, attempt, fence, finding).unwrap()
    }

    pub(crate) fn report_under(
        &mut self,
        operation: &str,
        attempt: u32,
        fence: FencingToken,
        finding: Finding,
    ) -> Result<ReportReply, Refusal> {
        let made = self.row(operation).attempts.iter().find(|one| one.number == attempt);
        let scope = made.and_then(|one| one.scope.clone());
        let verb = Report {
            account: account(),
            id: id(operation),
            scope,
            attempt,
            fence,
            worker: WorkerName::parse("node-1").unwrap(),
            finding,
            random: 0,
            declared: self.world.declared(),
        };
        self.world.run(&verb)
    }

    pub(crate) fn tick(&mut self, operation: &str) -> Passed {
        let verb = Tick { account: account(), id: id(operation), random: 0, declared: self.world.declared() };
        self.world.run(&verb).unwrap()
    }

    pub(crate) fn approve_as(
        &mut self,
        caller: Caller,
        operation: &str,
        acknowledges: Option<&str>,
    ) -> Result<View, Refusal> {
        let verb = Approve {
            caller,
            id: id(operation),
            fingerprint: self.row(operation).fingerprint,
            acknowledges: acknowledges.map(id),
            if_version: None,
            declared: self.world.declared(),
        };
        self.world.run(&verb)
    }

    pub(crate) fn deny(&mut self, operation: &str) -> Result<View, Refusal> {
        let verb = Deny {
            caller: ann(),
            id: id(operation),
            reason: "not this week".to_owned(),
            declared: self.world.declared(),
        };
        self.world.run(&verb)
    }

    pub(crate) fn withdraw(&mut self, operation: &str) -> Result<View, Refusal> {
        let verb = Withdraw { caller: app(), id: id(operation), declared: self.world.declared() };
        self.world.run(&verb)
    }

    pub(crate) fn row(&self, operation: &str) -> &Operation {
        self.world.operation(&account(), &id(operation)).expect("it is stored")
    }

    pub(crate) fn state(&self, operation: &str) -> &'static str {
        self.row(operation).state.label()
    }

    pub(crate) fn hold(&self, operation: &str) -> Option<HoldReason> {
        self.row(operation).state.hold()
    }

    /// What the ledger says happens next.
    pub(crate) fn next(&mut self, operation: &str) -> (Action, Option<&'static str>) {
        let next = self.tick(operation).view.next;
        (next.action, next.reason)
    }

    pub(crate) fn wait(&mut self, count: u64) {
        self.world.advance(seconds(count));
    }
}
