//! The action that everything here is measured with: one purchase order, its request and its answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use counterfoil::caller::{Caller, Roles};
use counterfoil::destination::Finding;
use counterfoil::operation::{Body, Marker, ResultBody};
use counterfoil::policy::{BodyKind, Carrier, HttpDeclaration, Meaning, QueryMode, Tool};
use counterfoil::recovery::{KeyFacts, Place, Recovery, StoredErrors};
use counterfoil::snapshot::Declarations;
use counterfoil::verbs::{Begun, Offer, Prepare, PrepareReply, Report};
use counterfoil::{Account, Arguments, KeyFormat, OperationId, ToolName, WorkerName};

/// The tool's name.
pub(super) const TOOL: &str = "supplier.create_order";

/// The account that everything happens in.
pub(super) const ACCOUNT: &str = "kitchen";

/// A tool whose destination honours keys; orders go to `url`.
pub(super) fn tool(url: &str) -> Result<Tool> {
    let http = HttpDeclaration {
        method: "POST".to_owned(),
        url: url.to_owned(),
        body: BodyKind::Json,
        path_only: Vec::new(),
        headers: std::collections::BTreeMap::new(),
        query: QueryMode::Refuse,
        scope: None,
        destination: None,
        bucket: None,
        timeout: Duration::from_secs(20),
        linger: Duration::from_secs(60),
        receipt_reference: Some("/id".parse().context("a pointer")?),
        allow_private: false,
    };
    let day = Duration::from_secs(24 * 60 * 60);
    let recovery = Recovery::IdempotencyKey(KeyFacts {
        key: Place::Header("Idempotency-Key".to_owned()),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        retention: day,
        request_lifetime: Duration::from_secs(15 * 60),
        stored_errors: StoredErrors::All,
        rolls_back: false,
        skew: Duration::from_secs(60),
        lookup: None,
        lookup_for: day,
    });
    Ok(Tool::new(ToolName::parse(TOOL)?, Carrier::Http(Box::new(http)), recovery))
}

/// The arguments of order `number`; no two orders are the same action.
pub(super) fn arguments(number: u64) -> String {
    format!(
        r#"{{"sku":"flour-25kg","quantity":10,"deliver_to":"kitchen 3, back door","before":"2026-11-30T06:00:00Z","line":{number}}}"#
    )
}

/// The ID of order `number` of a run.
pub(super) fn id(run: &str, number: u64) -> String {
    format!("approved-action-{run}-{number:08}")
}

/// What the destination calls order `number`.
pub(super) fn reference(number: u64) -> String {
    format!("order-{number:08}")
}

/// Who asks.
pub(super) fn caller() -> Result<Caller> {
    Ok(Caller {
        account: Account::parse(ACCOUNT)?,
        principal: "planner".parse().context("a principal")?,
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    })
}

/// Makes the two verbs of a lifecycle.
#[derive(Clone)]
pub(super) struct Orders {
    caller: Caller,
    tool: ToolName,
    worker: WorkerName,
    run: String,
    declared: Arc<Declarations>,
}

impl Orders {
    /// Orders of one run under these declarations.
    pub(super) fn new(declared: Arc<Declarations>, run: &str) -> Result<Self> {
        Ok(Self {
            caller: caller()?,
            tool: ToolName::parse(TOOL)?,
            worker: WorkerName::parse("node-1")?,
            run: run.to_owned(),
            declared,
        })
    }

    /// The ID of order `number`.
    pub(super) fn id(&self, number: u64) -> Result<OperationId> {
        Ok(OperationId::parse(&id(&self.run, number))?)
    }

    /// Write 1: the operation and its first attempt in one commit.
    pub(super) fn prepare(&self, number: u64) -> Result<Prepare> {
        let arguments = Arguments::parse(arguments(number).as_bytes())?;
        let fingerprint = Prepare::fingerprint(&self.declared, &self.tool, &arguments).into();
        let (policy_version, _) = self.declared.get(&self.tool).context("the tool is not declared")?;
        let offer = Offer {
            worker: self.worker.clone(),
            policy_version,
            request_digest: format!("sha256:{:064x}", number),
            scope: None,
            bucket: None,
            lease: None,
            claim: None,
        };
        Ok(Prepare {
            caller: self.caller.clone(),
            id: self.id(number)?,
            tool: self.tool.clone(),
            arguments,
            fingerprint,
            task: None,
            subject: None,
            replaces: None,
            distinct_from: Vec::new(),
            accepted_by: None,
            execute: true,
            offer: Some(offer),
            dry_run: false,
            random: number,
            declared: self.declared.clone(),
        })
    }

    /// Write 2: the receipt.
    pub(super) fn report(&self, number: u64, prepared: &PrepareReply) -> Result<Report> {
        anyhow::ensure!(
            prepared.begun == Begun::Started(1),
            "the attempt did not begin: {:?}",
            prepared.begun
        );
        let attempt = prepared.view.operation.attempts.first().context("there is no attempt")?;
        let reference = reference(number);
        let body = format!(r#"{{"id":"{reference}","status":"accepted"}}"#);
        let finding = Finding {
            meaning: Meaning::Succeeded,
            not_sent: false,
            marker: Marker::BytesWritten,
            status: Some(201),
            error: None,
            result: Some(ResultBody {
                status: Some(201),
                content_type: Some("application/json".to_owned()),
                size: body.len() as u64,
                digest: format!("sha256:{number:064x}"),
                body: Some(Body::Json(body)),
                truncated: false,
            }),
            reason: None,
            reference: Some(reference),
            retry_after: None,
            credential_refused: false,
            stopped: false,
            lingers_until: None,
        };
        Ok(Report {
            account: self.caller.account.clone(),
            id: self.id(number)?,
            scope: None,
            attempt: attempt.number,
            fence: attempt.fence,
            worker: self.worker.clone(),
            finding,
            random: number,
            declared: self.declared.clone(),
        })
    }
}
