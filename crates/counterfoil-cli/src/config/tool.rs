//! One tool of the file, turned into the library's declaration, with the checks that look at several sections at once.

use std::collections::BTreeMap;
use std::time::Duration;

use counterfoil::http::check_declaration;
use counterfoil::policy::{
    ApprovalRule, BodyMatch, Budget, Carrier, Comparison, Condition, DEFAULT_APPROVAL_EXPIRES,
    DEFAULT_RETENTION, Expected, HttpDeclaration, Meaning, OutcomeRule, Tool, WorkerDeclaration,
};
use counterfoil::recovery::Recovery;
use counterfoil::{Account, KeyFormat, Pointer, ToolName};

use super::duration::spell;
use super::evidence;
use super::file::{
    ApprovalValue, BudgetSection, ConditionSection, DestinationSection, Kind, OutcomeSection, Scalar,
    ScalarKind, ToolSection, WorkerSection,
};
use super::http::{self, Request};
use super::read::{length, member, members, pointer, positive};
use super::recovery::{self, Assumption, Carried};
use super::report::Checks;
use super::review;
use super::shape::At;
use super::template::Secret;

/// A tool as the file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTool {
    /// For the ledger.
    pub tool: Tool,
    /// Facts that hold by default, for `tool plan`.
    pub assumed: Vec<Assumption>,
    /// Where its headers take secrets from.
    pub secrets: Vec<Secret>,
    /// Where the secret of its webhooks comes from.
    pub webhook_secrets: Vec<Secret>,
}

/// What a tool is read against.
pub(super) struct Surroundings<'s> {
    /// The lease of the server.
    pub lease: Duration,
    /// The declared token buckets.
    pub destinations: &'s BTreeMap<At<String>, DestinationSection>,
}

/// Reads one tool; `None` where it does not load (and says why in `checks`).
pub(super) fn read(
    name: &At<String>,
    section: &ToolSection,
    around: &Surroundings<'_>,
    checks: &mut Checks<'_>,
) -> Option<DeclaredTool> {
    let key = format!("tools.{}", name.get());
    let sub = |part: &str| format!("{key}.{part}");
    let errors = checks.errors();
    let tool_name = ToolName::parse(name.get())
        .map_err(|error| {
            checks.error(name.span(), "tools", error.to_string(), "as in \"supplier.create_order\"")
        })
        .ok();
    let (approval, approval_when) = read_approval(section, &sub("approval"), checks);
    let request = section
        .http
        .as_ref()
        .map(|section| http::read(section.get(), around.destinations, &sub("http"), checks));
    let worker = section
        .worker
        .as_ref()
        .map(|section| read_worker(section.get(), around.destinations, &sub("worker"), checks));
    let carried = match (&request, &worker) {
        (Some(request), _) => Carried::Http(request),
        (None, Some(_)) => Carried::Worker,
        (None, None) => Carried::Nobody,
    };
    let recovery = match &section.recovery {
        Some(declared) => recovery::read(declared.get(), carried, around.lease, &sub("recovery"), checks),
        None => {
            let hint = format!(
                "say who can establish whether it happened: [tools.\"{}\".recovery] with kind = \"idempotency_key\", \
                 \"unique_reference\", \"lookup\" or, if nobody can, \"none\"",
                name.get().escape_debug()
            );
            checks.error(name.span(), &sub("recovery"), "a tool without `recovery` does not load", hint);
            None
        }
    };
    check_carrier(name, section, &key, checks);
    if let (Some(request), Some(declared), Some(read)) = (&request, &section.http, &recovery) {
        request.check_slots(read.recovery.place(), declared.get(), &sub("http"), checks);
    }
    let accounts = read_accounts(section, &sub("accounts"), checks);
    let budget = read_budget(section.budget.as_ref(), &sub("budget"), checks);
    let outcomes = read_outcomes(section, &sub("outcomes"), checks);
    let sensitive = members(section.sensitive.as_ref(), &sub("sensitive"), checks);
    let sent = recovery.as_ref().is_some_and(|read| read.recovery.place().is_some());
    let review = section.review.as_ref().map(|section| section.get());
    let review = review.map(|section| review::read(section, sent, &sensitive, &sub("review"), checks));
    let review = review.unwrap_or_default();
    let webhooks = section.evidence.as_ref().and_then(|section| {
        let recovery = recovery.as_ref().map(|read| &read.recovery);
        evidence::read(section, recovery, &sub("evidence"), checks)
    });
    let (evidence, webhook_secrets) = webhooks.unzip();
    let tool = recovery.as_ref().zip(tool_name).map(|(read, name)| Tool {
        name,
        description: section.description.clone().unwrap_or_default(),
        accounts,
        approval,
        approval_expires: positive(
            section.approval_expires.as_ref(),
            DEFAULT_APPROVAL_EXPIRES,
            &sub("approval_expires"),
            checks,
        ),
        retention: length(section.retention.as_ref(), DEFAULT_RETENTION),
        lease: around.lease,
        sensitive,
        volatile: members(section.volatile.as_ref(), &sub("volatile"), checks),
        guard_on: read_guard_on(section, &sub("guard_on"), checks),
        approval_when,
        review,
        evidence,
        carrier: match (&request, worker) {
            (Some(request), _) => Carrier::Http(Box::new(request.declaration.clone())),
            (None, Some(worker)) => Carrier::Worker(worker),
            (None, None) => Carrier::Transaction,
        },
        recovery: read.recovery.clone(),
        budget,
        outcomes,
    })?;
    check_retention(&tool, name, section, &key, checks);
    check_approved_scope(&tool, section, &key, checks);
    check_raw(&tool, section, &sub("recovery.key_format"), checks);
    check_conflict(&tool, section, &sub("outcomes"), checks);
    if checks.errors() == errors {
        check_with_sender(&tool, section, &sub("http"), checks);
    }
    let (assumed, secrets) =
        (recovery?.assumed, request.map(|request: Request| request.secrets).unwrap_or_default());
    (checks.errors() == errors).then_some(DeclaredTool {
        tool,
        assumed,
        secrets,
        webhook_secrets: webhook_secrets.unwrap_or_default(),
    })
}

fn read_approval(
    section: &ToolSection,
    key: &str,
    checks: &mut Checks<'_>,
) -> (ApprovalRule, Vec<Condition>) {
    match section.approval.as_ref().map(At::get) {
        None | Some(ApprovalValue::None) => (ApprovalRule::None, Vec::new()),
        Some(ApprovalValue::Required) => (ApprovalRule::Required, Vec::new()),
        Some(ApprovalValue::When(when)) => {
            let (list, key) = (&when.when, format!("{key}.when"));
            if list.get().is_empty() {
                let message = "an empty list: nobody would ever be asked";
                checks.error(list.span(), &key, message, "name a condition, or write approval = \"none\"");
            }
            let read = list.get().iter().filter_map(|row| read_condition(row, &key, checks));
            (ApprovalRule::When, read.collect())
        }
    }
}

fn read_condition(row: &At<ConditionSection>, key: &str, checks: &mut Checks<'_>) -> Option<Condition> {
    let section = row.get();
    let at = member(&section.at, &format!("{key}.at"), checks)?;
    let is = match (&section.greater_than, &section.less_than, &section.equals) {
        (Some(bound), None, None) => {
            Comparison::GreaterThan(number(bound, &format!("{key}.greater_than"), checks)?)
        }
        (None, Some(bound), None) => {
            Comparison::LessThan(number(bound, &format!("{key}.less_than"), checks)?)
        }
        (None, None, Some(value)) => {
            let Scalar(text, kind) = value.get();
            Comparison::Equals(match kind {
                ScalarKind::Text => Expected::Text(text.clone()),
                ScalarKind::Number => Expected::Number(text.clone()),
                ScalarKind::Bool => Expected::Bool(text == "true"),
            })
        }
        (None, None, None) | (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
            let message = "a condition has exactly one of `greater_than`, `less_than` and `equals`";
            checks.error(row.span(), key, message, "as in { at = \"/total\", greater_than = 500 }");
            return None;
        }
    };
    Some(Condition { at, is })
}

/// A number as JSON writes it, also where it stands as a text.
fn number(value: &At<Scalar>, key: &str, checks: &mut Checks<'_>) -> Option<String> {
    let Scalar(text, _) = value.get();
    let read = counterfoil::json::parse_str(text, 1);
    if read.is_ok_and(|node| matches!(node.content(), counterfoil::json::Content::Number(_))) {
        return Some(text.clone());
    }
    checks.error(value.span(), key, "this is no number", "write 500, or \"500.25\" to keep every digit");
    None
}

fn read_guard_on(section: &ToolSection, key: &str, checks: &mut Checks<'_>) -> Option<Vec<Pointer>> {
    let list = section.guard_on.as_ref()?;
    if list.get().is_empty() {
        let message = "an empty list: every call of the tool would be the same action";
        checks.error(list.span(), key, message, "name members, or remove the key for all arguments");
    }
    Some(members(Some(list.get()), key, checks))
}

fn read_worker(
    section: &WorkerSection,
    destinations: &BTreeMap<At<String>, DestinationSection>,
    key: &str,
    checks: &mut Checks<'_>,
) -> WorkerDeclaration {
    http::check_scope(section.scope.as_ref(), &format!("{key}.scope"), checks);
    let named = section.destination.as_ref();
    WorkerDeclaration {
        scope: section.scope.as_ref().map(|scope| scope.get().clone()),
        destination: named.map(|name| name.get().clone()),
        bucket: http::read_bucket(named, destinations, &format!("{key}.destination"), checks),
    }
}

/// Kind and carrier must fit: rows in one's own transaction need no request, everything else needs one.
fn check_carrier(name: &At<String>, section: &ToolSection, key: &str, checks: &mut Checks<'_>) {
    if let (Some(_), Some(worker)) = (&section.http, &section.worker) {
        let message = "`http` and `worker` both carry this tool out";
        checks.error(worker.span(), &format!("{key}.worker"), message, "remove one of the two sections");
    }
    if let (Some(_), Some(row)) = (&section.worker, section.outcomes.iter().flatten().next()) {
        let message = "a worker says itself what an answer proves: there is none to match here";
        checks.error(row.span(), &format!("{key}.outcomes"), message, "remove the section");
    }
    let Some(recovery) = &section.recovery else { return };
    if let (Kind::Transaction, Some(worker)) = (recovery.get().kind.get(), &section.worker) {
        let message = "kind `transaction` is the application's own transaction: no worker carries it out";
        let hint = "remove the section `worker`, or declare another kind";
        checks.error(worker.span(), &format!("{key}.worker"), message, hint);
    }
    match (recovery.get().kind.get(), &section.http) {
        (Kind::Transaction, Some(http)) => checks.error(
            http.span(),
            &format!("{key}.http"),
            "kind `transaction` is the application's own transaction: no request carries it out",
            "remove the section `http`, or declare another kind",
        ),
        (Kind::Transaction, None) => {
            if let Some(row) = section.outcomes.iter().flatten().next() {
                let message = "kind `transaction` has no answers that could be matched";
                checks.error(row.span(), &format!("{key}.outcomes"), message, "remove the section");
            }
        }
        (Kind::IdempotencyKey | Kind::UniqueReference | Kind::Lookup | Kind::None, Some(_)) => {}
        (Kind::IdempotencyKey | Kind::UniqueReference | Kind::Lookup | Kind::None, None) => {
            // A tool server or a profile is refused elsewhere, with words of its own.
            if section.worker.is_none() && section.mcp.is_none() && section.profile.is_none() {
                let hint = format!(
                    "declare [tools.\"{}\".http] with method and url, or [tools.\"{0}\".worker] for your own code",
                    name.get().escape_debug()
                );
                checks.error(name.span(), &format!("{key}.http"), "nobody carries this tool out", hint);
            }
        }
    }
}

fn read_accounts(section: &ToolSection, key: &str, checks: &mut Checks<'_>) -> Option<Vec<Account>> {
    let list = section.accounts.as_ref()?;
    if list.get().is_empty() {
        checks.error(
            list.span(),
            key,
            "an empty list: nobody could use the tool",
            "name accounts, or remove the key for all",
        );
    }
    let mut accounts: Vec<Account> = Vec::new();
    for text in list.get() {
        match Account::parse(text.get()) {
            Ok(account) if accounts.contains(&account) => {
                checks.error(text.span(), key, "this account is there twice", "remove one");
            }
            Ok(account) => accounts.push(account),
            Err(error) => {
                checks.error(text.span(), key, error.to_string(), "as in \"kitchen\", at most 64 bytes")
            }
        }
    }
    Some(accounts)
}

fn read_budget(section: Option<&BudgetSection>, key: &str, checks: &mut Checks<'_>) -> Budget {
    let default = Budget::default();
    let Some(section) = section else { return default };
    let sub = |part: &str| format!("{key}.{part}");
    let attempts = match &section.attempts {
        None => default.attempts,
        Some(value) => match u32::try_from(*value.get()).ok().filter(|given| (1..=1_000).contains(given)) {
            Some(attempts) => attempts,
            None => {
                checks.error(
                    value.span(),
                    &sub("attempts"),
                    "attempts are 1 to 1000",
                    "write 1 for a single try",
                );
                default.attempts
            }
        },
    };
    let budget = Budget {
        attempts,
        elapsed: positive(section.elapsed.as_ref(), default.elapsed, &sub("elapsed"), checks),
        first_delay: positive(section.first_delay.as_ref(), default.first_delay, &sub("first_delay"), checks),
        max_delay: positive(section.max_delay.as_ref(), default.max_delay, &sub("max_delay"), checks),
    };
    if budget.first_delay > budget.max_delay
        && let Some(at) = section.first_delay.as_ref().or(section.max_delay.as_ref())
    {
        let message = format!(
            "the first delay ({}) is longer than the longest ({})",
            spell(budget.first_delay),
            spell(budget.max_delay)
        );
        checks.error(at.span(), &sub("first_delay"), message, "raise max_delay or lower first_delay");
    }
    budget
}

fn read_outcomes(section: &ToolSection, key: &str, checks: &mut Checks<'_>) -> Vec<OutcomeRule> {
    section.outcomes.iter().flatten().filter_map(|row| read_outcome(row, key, checks)).collect()
}

fn read_outcome(row: &At<OutcomeSection>, key: &str, checks: &mut Checks<'_>) -> Option<OutcomeRule> {
    let section = row.get();
    if section.status.is_none() && section.body.is_none() {
        let message = "a row without `status` and `body` would match every answer";
        checks.error(row.span(), key, message, "say which answers it is about");
    }
    let status = match &section.status {
        None => None,
        Some(value) => match u16::try_from(*value.get()).ok().filter(|status| (200..=599).contains(status)) {
            Some(status) => Some(status),
            None => {
                checks.error(value.span(), key, "a status is 200 to 599", "as in status = 409");
                return None;
            }
        },
    };
    let body = match &section.body {
        None => None,
        Some(body) => Some(BodyMatch {
            pointer: pointer(&body.pointer, &format!("{key}.body.pointer"), checks)?,
            equals: body.equals.get().0.clone(),
        }),
    };
    Some(OutcomeRule { status, body, means: *section.means.get() })
}

/// A receipt that is purged while the same ID may still be retried would let the retry run.
fn check_retention(
    tool: &Tool,
    name: &At<String>,
    section: &ToolSection,
    key: &str,
    checks: &mut Checks<'_>,
) {
    let approval = match tool.approval {
        ApprovalRule::When | ApprovalRule::Required => tool.approval_expires,
        ApprovalRule::None => Duration::ZERO,
    };
    let window = tool.budget.elapsed + approval;
    if tool.retention < window {
        let parts = match tool.approval {
            ApprovalRule::When | ApprovalRule::Required => format!(
                "budget.elapsed {} + approval_expires {}",
                spell(tool.budget.elapsed),
                spell(tool.approval_expires)
            ),
            ApprovalRule::None => format!("budget.elapsed {}", spell(tool.budget.elapsed)),
        };
        let at = section.retention.as_ref().map_or(name.span(), At::span);
        let message =
            format!("retention {} is shorter than the retry window ({parts})", spell(tool.retention));
        let hint = format!("keep receipts for at least {}", spell(window));
        checks.error(at, &format!("{key}.retention"), message, hint);
    }
}

/// An approval is for one vendor account; without a declared scope another credential would go unseen by it.
fn check_approved_scope(tool: &Tool, section: &ToolSection, key: &str, checks: &mut Checks<'_>) {
    let secret = |http: &HttpDeclaration| http.headers.values().any(|template| template.contains("${"));
    // A worker's credential is never seen here: it counts as one.
    let open = tool.http().is_some_and(|http| http.scope.is_none() && secret(http))
        || tool.worker().is_some_and(|worker| worker.scope.is_none());
    let place = if tool.worker().is_some() { "worker" } else { "http" };
    let asks = match tool.approval {
        ApprovalRule::When | ApprovalRule::Required => true,
        ApprovalRule::None => false,
    };
    if asks && open {
        let at = section.approval.as_ref().map_or(0..0, At::span);
        let message = "an approval of a tool with a credential needs a declared scope";
        let hint = format!(
            "name the vendor account, region and mode in {place}.scope, as in scope = \"supplier-account-17\""
        );
        checks.error(at, &format!("{key}.approval"), message, hint);
    }
}

/// The raw ID is not scoped to the account, so two accounts could send one key.
fn check_raw(tool: &Tool, section: &ToolSection, key: &str, checks: &mut Checks<'_>) {
    let raw = tool.recovery.key_format().is_some_and(|(format, _)| format == KeyFormat::Raw);
    if raw && tool.accounts.as_ref().is_none_or(|accounts| accounts.len() != 1) {
        let at = section
            .recovery
            .as_ref()
            .and_then(|recovery| recovery.get().key_format.as_ref())
            .map_or(0..0, At::span);
        let message = "a raw operation ID is not scoped: two accounts could send the same key";
        checks.error(at, key, message, "name exactly one account in `accounts`, or use \"hex32\"");
    }
}

/// Without a row for it, the conflict answer would be read as if nothing were known.
fn check_conflict(tool: &Tool, section: &ToolSection, key: &str, checks: &mut Checks<'_>) {
    let Recovery::UniqueReference(_) = &tool.recovery else { return };
    // A worker that meets the conflict looks the record up itself.
    if tool.worker().is_some() {
        return;
    }
    if !tool.outcomes.iter().any(|row| row.means == Meaning::DuplicateOfOurs) {
        let at = section.recovery.as_ref().map_or(0..0, |recovery| recovery.get().kind.span());
        let message = "kind `unique_reference` needs a row for the conflict answer";
        checks.error(at, key, message, "as in: status = 409, means = \"duplicate_of_ours\"");
    }
}

/// The sender has the last word on what it can send: a tool that loads is one that it takes.
fn check_with_sender(tool: &Tool, section: &ToolSection, key: &str, checks: &mut Checks<'_>) {
    if tool.worker().is_some() {
        return;
    }
    let at = section.http.as_ref().map_or(0..0, At::span);
    for problem in check_declaration(tool).into_iter().filter(|problem| !problem.is_warning()) {
        checks.error(
            at.clone(),
            key,
            problem.to_string(),
            "correct the section `http`, or the place in `recovery`",
        );
    }
}
