//! The plan of one tool in plain sentences: who can establish whether an action happened, which identifier is used,
//! when the system stops trying, what a person will be asked, and what all of that rests on.

use std::fmt;
use std::time::Duration;

use counterfoil::policy::{
    ApprovalRule, Carrier, Comparison, Condition, Expected, HttpDeclaration, Tool, WorkerDeclaration,
};
use counterfoil::recovery::{
    KeyFacts, LookUpBy, LookUpFacts, NoneFacts, Place, Recovery, ReferenceFacts, StoredErrors,
};
use serde::Serialize;

use crate::config::duration::spoken;
use crate::config::{Assumption, DeclaredTool};

/// The plan of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The tool.
    pub tool: String,
    /// Its recovery kind.
    pub kind: &'static str,
    /// Who carries the action out.
    pub carried_out_by: String,
    /// Who can establish whether it happened.
    pub established_by: String,
    /// Which identifier the destination sees.
    pub identifier: String,
    /// What makes another call the same action, which is held back while this one is unresolved.
    pub same_action: String,
    /// When the system stops trying.
    pub stops: Vec<String>,
    /// What a person will be asked, and when.
    pub person: Vec<String>,
    /// What it rests on.
    pub assumptions: Vec<String>,
    /// Which retries in between must be off.
    pub retries_off: Vec<String>,
}

/// Makes the plan of a declared tool.
#[must_use]
pub fn plan(declared: &DeclaredTool) -> Plan {
    let tool = &declared.tool;
    Plan {
        tool: tool.name.to_string(),
        kind: tool.recovery.kind(),
        carried_out_by: carried_out_by(tool),
        established_by: with_webhooks(established_by(&tool.recovery), tool),
        identifier: identifier(&tool.recovery),
        same_action: same_action(tool),
        stops: stops(tool),
        person: person(tool),
        assumptions: assumptions(declared),
        retries_off: retries_off(tool),
    }
}

/// Scheme and host, without anything that arguments fill in.
fn host(url: &str) -> &str {
    let from = url.find("://").map_or(0, |at| at + 3);
    let end = url[from..].find(['/', '?']).map_or(url.len(), |at| from + at);
    &url[..end]
}

fn carried_out_by(tool: &Tool) -> String {
    match &tool.carrier {
        Carrier::Http(http) => format!("the server: {} {}", http.method, http.url),
        Carrier::Worker(_) => "your own worker, which claims it and reports".to_owned(),
        Carrier::Transaction => "the application, in one transaction of the ledger's own database".to_owned(),
    }
}

/// Where a look-up asks.
fn asked_at(lookup: &LookUpBy) -> &str {
    match lookup {
        LookUpBy::Http(request) => host(&request.url),
        LookUpBy::Worker => "the destination, by your own worker",
    }
}

/// What the destination says by itself comes first, whenever it comes.
fn with_webhooks(others: String, tool: &Tool) -> String {
    match &tool.evidence {
        Some(_) => format!(
            "{others}; at any time a signed webhook of the destination, which can show that it happened"
        ),
        None => others,
    }
}

fn established_by(recovery: &Recovery) -> String {
    match recovery {
        Recovery::Transaction => {
            "the ledger itself: effect, receipt and state commit together or not at all".to_owned()
        }
        Recovery::IdempotencyKey(facts) => {
            let then = facts.lookup.as_ref().map_or("a person".to_owned(), |lookup| {
                format!("a look-up at {}, which can show that it happened; then a person", asked_at(lookup))
            });
            let memory = spoken(facts.retention);
            format!(
                "the destination, which recognises a repeat by its key for {memory} from first arrival; after that {then}"
            )
        }
        Recovery::UniqueReference(facts) => {
            let asked = facts.lookup.as_ref().map_or("a person", |lookup| asked_at(lookup));
            format!(
                "the destination, which refuses a second record with the same reference; the record itself is looked up \
                 at {asked}"
            )
        }
        Recovery::LookUp(facts) if facts.authoritative && facts.request_lifetime.is_some() => {
            format!("a look-up at {}, which is complete and current", asked_at(&facts.lookup))
        }
        Recovery::LookUp(facts) => format!(
            "a look-up at {} can show that it happened, never that it did not; that is for a person",
            asked_at(&facts.lookup)
        ),
        Recovery::None(_) => "nobody but a person".to_owned(),
    }
}

fn identifier(recovery: &Recovery) -> String {
    let (Some(place), Some((format, _))) = (recovery.place(), recovery.key_format()) else {
        return "none: the destination sees nothing that names the operation".to_owned();
    };
    let place = match place {
        Place::Header(name) => format!("in the header {name}"),
        Place::Body(pointer) => format!("in the body at {pointer}"),
        Place::Query(name) => format!("in the query parameter {name}"),
        Place::Path(name) => format!("in the path at {{{name}}}"),
        Place::Worker => "wherever your worker puts it".to_owned(),
    };
    match format {
        counterfoil::KeyFormat::Raw => format!("the operation ID itself, {place}"),
        counterfoil::KeyFormat::Hex32
        | counterfoil::KeyFormat::Uuid
        | counterfoil::KeyFormat::Base64Url22
        | counterfoil::KeyFormat::Quoted => {
            format!(
                "a text derived from account and operation ID ({format}), {place}, the same in every attempt"
            )
        }
    }
}

fn same_action(tool: &Tool) -> String {
    let list = |members: &[counterfoil::Pointer]| {
        members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let but = match tool.volatile.as_slice() {
        [] => String::new(),
        volatile => format!(" but {}", list(volatile)),
    };
    match &tool.guard_on {
        None => format!("this tool with the same arguments{but}"),
        Some(members) => format!(
            "this tool with the same {} (guard_on), whatever the other arguments; one that is absent is a value of its own",
            list(members)
        ),
    }
}

/// Whether anybody may ever be asked for an approval.
fn asks(tool: &Tool) -> bool {
    match tool.approval {
        ApprovalRule::When | ApprovalRule::Required => true,
        ApprovalRule::None => false,
    }
}

/// When an approval is asked for, in words.
fn asked_where(condition: &Condition) -> String {
    let at = &condition.at;
    match &condition.is {
        Comparison::GreaterThan(bound) => format!("{at} is above {bound}"),
        Comparison::LessThan(bound) => format!("{at} is below {bound}"),
        Comparison::Equals(Expected::Text(text)) => format!("{at} is {text:?}"),
        Comparison::Equals(Expected::Number(number)) => format!("{at} is {number}"),
        Comparison::Equals(Expected::Bool(value)) => format!("{at} is {value}"),
    }
}

fn stops(tool: &Tool) -> Vec<String> {
    let budget = &tool.budget;
    let mut stops = Vec::new();
    let spread = format!(
        "at most {}, within {}, from {} to {} apart",
        attempts(budget.attempts),
        spoken(budget.elapsed),
        spoken(budget.first_delay),
        spoken(budget.max_delay)
    );
    let tries = format!("attempts that certainly had no effect are repeated: {spread}");
    match &tool.recovery {
        Recovery::Transaction => {
            stops.push("nothing is repeated: a transaction that failed left nothing behind".to_owned());
        }
        Recovery::IdempotencyKey(facts) => {
            stops.push(format!(
                "the same request is repeated under the same key, also after a lost reply: {spread}"
            ));
            stops.push(format!(
                "no attempt begins later than {} after the first: the key is remembered for {}, less a request_lifetime \
                 of {}, a skew of {} and the {} until the first byte",
                spoken(window(facts.retention, facts.request_lifetime, facts.skew, tool)),
                spoken(facts.retention),
                spoken(facts.request_lifetime),
                spoken(facts.skew),
                spoken(tool.send_window())
            ));
            if let Some(stop) = stored_errors_stop(facts) {
                stops.push(stop.to_owned());
            }
        }
        Recovery::UniqueReference(facts) => {
            stops.push(format!(
                "the same request is repeated with the same reference, also after a lost reply: {spread}"
            ));
            if let Some(unique_for) = facts.unique_for {
                stops.push(format!(
                    "no attempt begins later than {} after the first: a used reference stays refused for {}",
                    spoken(window(unique_for, facts.request_lifetime, facts.skew, tool)),
                    spoken(unique_for)
                ));
            }
            stops.push(
                "once the destination says that the reference is used, nothing is sent again: the record is looked up"
                    .to_owned(),
            );
        }
        Recovery::LookUp(facts) => {
            stops.push(tries);
            stops.push(match miss_wait(facts, tool).filter(|_| facts.authoritative) {
                Some(wait) => format!(
                    "after a lost reply nothing is sent again before a look-up that began more than {} after the last \
                     attempt found nothing; an earlier miss is only a reason to look again, and a hit counts at any time",
                    spoken(wait)
                ),
                None => "after a lost reply nothing is sent again: a look-up that finds nothing never counts".to_owned(),
            });
        }
        Recovery::None(_) => {
            stops.push(tries);
            stops.push("after a lost reply nothing is sent again".to_owned());
        }
    }
    if tool.recovery.lookup().is_some() {
        stops.push(format!(
            "look-ups end {} after the last attempt (lookup_for); they come {} to {} apart",
            spoken(tool.recovery.lookup_for()),
            spoken(budget.first_delay),
            spoken(budget.max_delay)
        ));
    }
    if asks(tool) {
        stops.push(format!(
            "an approval, and a request for one, ends after {}",
            spoken(tool.approval_expires)
        ));
    }
    stops.push(format!("the receipt is kept for {} after the final state", spoken(tool.retention)));
    stops
}

fn attempts(number: u32) -> String {
    if number == 1 { "1 attempt".to_owned() } else { format!("{number} attempts") }
}

/// How long after an attempt began a look-up must begin for its miss to count; `None` where nothing bounds a request.
fn miss_wait(facts: &LookUpFacts, tool: &Tool) -> Option<Duration> {
    Some(tool.send_window() + facts.request_lifetime? + facts.queue_time + facts.skew)
}

fn window(memory: Duration, lifetime: Duration, skew: Duration, tool: &Tool) -> Duration {
    memory.saturating_sub(lifetime + skew + tool.send_window())
}

fn stored_errors_stop(facts: &KeyFacts) -> Option<&'static str> {
    match facts.stored_errors {
        StoredErrors::All => {
            Some("the same 5xx twice under one key ends the sends: the destination replays a stored failure")
        }
        StoredErrors::SuccessOnly if facts.rolls_back => None,
        StoredErrors::SuccessOnly => {
            Some("after a lost reply nothing is sent again: a failed request may have left something behind")
        }
        StoredErrors::Reruns => None,
    }
}

fn person(tool: &Tool) -> Vec<String> {
    let mut asked = Vec::new();
    let question = "may this be done? (another principal than the one who prepared it)";
    match tool.approval {
        ApprovalRule::None => {}
        ApprovalRule::Required => asked.push(format!("before the first attempt: {question}")),
        ApprovalRule::When => {
            let conditions: Vec<String> = tool.approval_when.iter().map(asked_where).collect();
            asked.push(format!(
                "before the first attempt, where {}, or that member is absent or of another type: {question}",
                conditions.join(", or ")
            ));
        }
    }
    let no_bound = "nothing bounds a request, so \"it did not happen\" can never be established".to_owned();
    match &tool.recovery {
        Recovery::Transaction => asked.push("nothing about the outcome: it is known".to_owned()),
        Recovery::IdempotencyKey(_) => {
            asked.push(
                "when the window or the budget is over and a reply was lost: did it happen?".to_owned(),
            );
        }
        Recovery::UniqueReference(_) => asked.push(
            "when window, budget or look-ups are over without a record: is there one with this reference?"
                .to_owned(),
        ),
        Recovery::LookUp(facts) => {
            let question = if facts.authoritative && facts.request_lifetime.is_some() {
                "when look-ups ended without a usable answer: is there a record with this reference?"
            } else {
                "after the first look-up that finds nothing: is there a record with this reference?"
            };
            asked.push(question.to_owned());
            let bound = absence(facts.request_lifetime, facts.queue_time, facts.skew);
            asked.push(bound.unwrap_or(no_bound));
        }
        Recovery::None(NoneFacts { request_lifetime, queue_time }) => {
            asked.push("after a lost reply: did it happen?".to_owned());
            let skew = counterfoil::recovery::DEFAULT_SKEW;
            asked.push(absence(*request_lifetime, *queue_time, skew).unwrap_or(no_bound));
        }
    }
    if let Some(request) = tool.recovery.lookup().and_then(LookUpBy::http) {
        asked.push("at once, if more than one record is found: which of them is ours?".to_owned());
        if !request.must_match.is_empty() {
            let members: Vec<String> = request.must_match.iter().map(ToString::to_string).collect();
            let members = members.join(", ");
            asked.push(format!("at once, if the record found differs in {members}: whose is it?"));
        }
    }
    if let Some(question) = &tool.review.question {
        asked.push(format!("in these words: {question}"));
    }
    asked
}

fn absence(lifetime: Option<Duration>, queue: Duration, skew: Duration) -> Option<String> {
    let wait = lifetime? + queue + skew;
    Some(format!(
        "\"it did not happen\" counts only {} after the last attempt could still send",
        spoken(wait)
    ))
}

fn assumptions(declared: &DeclaredTool) -> Vec<String> {
    let tool = &declared.tool;
    let assumed = |fact: Assumption| {
        if declared.assumed.contains(&fact) { "assumed, not declared" } else { "declared" }
    };
    let mut rests = Vec::new();
    let lifetime = |lifetime: Duration, how: &str| {
        format!(
            "the destination executes no request that is older than {} (request_lifetime, {how})",
            spoken(lifetime)
        )
    };
    match &tool.recovery {
        Recovery::Transaction => {
            rests.push(
                "the effect is rows in the same database file as the ledger, in the same transaction"
                    .to_owned(),
            );
        }
        Recovery::IdempotencyKey(facts) => {
            rests.push(format!(
                "the destination remembers a key for {} (retention, declared)",
                spoken(facts.retention)
            ));
            rests.push(lifetime(facts.request_lifetime, assumed(Assumption::RequestLifetime)));
            rests.push(stored_errors_assumption(facts, assumed(Assumption::StoredErrors)));
            rests.push(skew(facts.skew));
        }
        Recovery::UniqueReference(facts) => {
            rests.push(unique(facts, assumed(Assumption::UniqueForEver)));
            rests.push(lifetime(facts.request_lifetime, assumed(Assumption::RequestLifetime)));
            rests.push(skew(facts.skew));
        }
        Recovery::LookUp(facts) => {
            if facts.authoritative {
                rests.push(
                    "the look-up's answer is complete and current (authoritative, declared)".to_owned(),
                );
            }
            if let Some(declared) = facts.request_lifetime {
                rests.push(lifetime(declared, "declared"));
                rests.push(format!(
                    "an accepted request shows within {} (queue_time)",
                    spoken(facts.queue_time)
                ));
            }
            rests.push(skew(facts.skew));
        }
        Recovery::None(facts) => {
            if let Some(declared) = facts.request_lifetime {
                rests.push(lifetime(declared, "declared"));
                rests.push(format!(
                    "an accepted request shows within {} (queue_time)",
                    spoken(facts.queue_time)
                ));
            }
        }
    }
    if tool.recovery.place().is_some() {
        rests.extend(tool.http().map(scope));
        rests.extend(tool.worker().map(worker_scope));
    }
    if tool.worker().is_some() {
        rests.extend(worker_assumptions(tool));
    }
    rests
}

/// How far a worker got cannot be seen from here, so some of it rests on its word.
fn worker_assumptions(tool: &Tool) -> Vec<String> {
    let mut rests = vec![
        "the worker writes no first byte after `send_before` of its claim, and reports `not_sent` only where it wrote none"
            .to_owned(),
    ];
    if tool.recovery.place().is_some() {
        rests.push("the worker sends the text of its claim as the key or reference, unchanged".to_owned());
    }
    if tool.recovery.miss_can_count() && tool.recovery.declared_lifetime().is_some() {
        rests.push(
            "request_lifetime covers a worker that is stopped in the middle of a send, or the destination refuses late \
             requests"
                .to_owned(),
        );
    }
    rests
}

fn worker_scope(worker: &WorkerDeclaration) -> String {
    match &worker.scope {
        Some(scope) => format!("the worker's credential belongs to {scope} (scope, declared)"),
        None => "the worker's credential does not change its vendor account (scope is undeclared, and a worker's credential \
                 is never seen here)"
            .to_owned(),
    }
}

fn stored_errors_assumption(facts: &KeyFacts, how: &str) -> String {
    let what = match facts.stored_errors {
        StoredErrors::All => "replays the stored answer for a repeated key, failures included",
        StoredErrors::SuccessOnly if facts.rolls_back => {
            "stores successes only, and a failed request leaves nothing behind"
        }
        StoredErrors::SuccessOnly => "stores successes only",
        StoredErrors::Reruns => "continues a failed request by design",
    };
    format!("the destination {what} (stored_errors, {how})")
}

fn unique(facts: &ReferenceFacts, how: &str) -> String {
    match facts.unique_for {
        None => format!("a used reference stays refused for ever (unique_for, {how})"),
        Some(length) => format!("a used reference stays refused for {} (unique_for, {how})", spoken(length)),
    }
}

fn skew(skew: Duration) -> String {
    format!("clocks differ by at most {} (skew)", spoken(skew))
}

fn scope(http: &HttpDeclaration) -> String {
    match &http.scope {
        Some(scope) => format!("the credential belongs to {scope} (scope, declared)"),
        None => "the credential does not change its vendor account (scope is undeclared: a rotated secret counts as another \
                 account)"
            .to_owned(),
    }
}

fn retries_off(tool: &Tool) -> Vec<String> {
    let mut off = match &tool.carrier {
        Carrier::Http(http) => vec![format!(
            "any proxy, gateway or mesh between the server and {} must not repeat {} requests",
            host(&http.url),
            http.method
        )],
        Carrier::Worker(_) => vec![
            "the retries of the SDK and of the HTTP client in your worker: one claim, one request".to_owned(),
            "any proxy, gateway or mesh between your worker and the destination must not repeat requests".to_owned(),
            "the retries of the queue or framework that runs your worker: a claim that is lost is claimed again here"
                .to_owned(),
        ],
        Carrier::Transaction => return vec!["none: nothing leaves the database".to_owned()],
    };
    off.push(
        "callers may repeat their call to Counterfoil with the same operation ID, never the action itself"
            .to_owned(),
    );
    if !tool.recovery.destination_dedupes() {
        off.push("nothing at the destination would stop a second copy, so this matters most here".to_owned());
    }
    off
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.tool, self.kind)?;
        writeln!(f, "\nCarried out by\n  {}", self.carried_out_by)?;
        writeln!(f, "\nWho can establish whether it happened\n  {}", self.established_by)?;
        writeln!(f, "\nIdentifier at the destination\n  {}", self.identifier)?;
        writeln!(f, "\nThe same action\n  {}", self.same_action)?;
        let lists = [
            ("When it stops", &self.stops),
            ("What a person will be asked", &self.person),
            ("What this rests on", &self.assumptions),
            ("Retries that must be off", &self.retries_off),
        ];
        for (title, items) in lists {
            writeln!(f, "\n{title}")?;
            for item in items {
                writeln!(f, "  - {item}")?;
            }
            if items.is_empty() {
                writeln!(f, "  - nothing")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Overrides, parse};

    fn plan_of(name: &str) -> Plan {
        let text = include_str!("../tests/configs/every-key.toml");
        let config = parse(text, Path::new("c.toml"), &Overrides::default()).unwrap();
        plan(&config.tools[&counterfoil::ToolName::parse(name).unwrap()])
    }

    #[test]
    fn a_key_prints_its_window_and_its_assumptions() {
        let text = include_str!("../tests/configs/two-tools.toml");
        let config = parse(text, Path::new("c.toml"), &Overrides::default()).unwrap();
        let plan = plan(&config.tools[&counterfoil::ToolName::parse("supplier.create_order").unwrap()]);
        // 24 h less 15 min, 1 min and half of 30 s.
        assert!(plan.stops[1].contains("later than 23h 43m 45s after the first"), "{plan}");
        assert!(
            plan.assumptions
                .iter()
                .any(|line| line.contains("15m (request_lifetime, assumed, not declared)")),
            "{plan}"
        );
        assert!(plan.identifier.contains("header Idempotency-Key"), "{plan}");
    }

    #[test]
    fn a_declared_lifetime_is_printed_as_declared() {
        let plan = plan_of("orders.cancel");
        assert!(
            plan.assumptions.iter().any(|line| line.contains("10m (request_lifetime, declared)")),
            "{plan}"
        );
        assert!(plan.identifier.starts_with("the operation ID itself"), "{plan}");
    }

    #[test]
    fn what_only_a_person_can_settle_says_so() {
        let plan = plan_of("mail.send");
        assert_eq!(plan.established_by, "nobody but a person");
        assert!(plan.person.iter().any(|line| line.contains("1h 11m after the last attempt")), "{plan}");
        assert!(plan.retries_off.iter().any(|line| line.contains("must not repeat POST")), "{plan}");
        let approval = plan_of("supplier.create_order");
        assert!(approval.person[0].starts_with("before the first attempt"), "{approval}");
    }

    #[test]
    fn a_look_up_says_when_a_miss_counts() {
        // Half of 30 s, then 5 min, 30 s and 1 min.
        let plan = plan_of("supplier.create_order");
        assert!(
            plan.established_by.starts_with("a look-up at https://supplier.example, which is complete"),
            "{plan}"
        );
        assert!(plan.established_by.contains("; at any time a signed webhook"), "{plan}");
        assert!(plan.stops[1].contains("began more than 6m 45s after the last attempt"), "{plan}");
        assert!(plan.stops[2].starts_with("look-ups end 1d after"), "{plan}");
        assert!(plan.person.iter().any(|line| line.contains("differs in /total")), "{plan}");
    }

    #[test]
    fn without_a_lifetime_or_completeness_a_miss_never_counts() {
        let text = include_str!("../tests/configs/every-key.toml");
        for line in ["request_lifetime = \"5m\"\n", "authoritative = true\n"] {
            let text = text.replacen(line, "", 1);
            let config = parse(&text, Path::new("c.toml"), &Overrides::default()).unwrap();
            let plan = plan(&config.tools[&counterfoil::ToolName::parse("supplier.create_order").unwrap()]);
            assert!(plan.established_by.contains("never that it did not"), "{plan}");
            assert!(plan.stops[1].ends_with("a look-up that finds nothing never counts"), "{plan}");
            assert!(!plan.stops.iter().any(|line| line.contains("began more than")), "{plan}");
        }
    }

    #[test]
    fn a_unique_reference_is_looked_up_after_its_conflict() {
        let plan = plan_of("invoice.create");
        assert!(plan.established_by.ends_with("looked up at https://books.example"), "{plan}");
        assert!(
            plan.stops.iter().any(|line| line.contains("reference is used, nothing is sent again")),
            "{plan}"
        );
    }

    #[test]
    fn conditions_and_the_members_of_the_guard_are_named() {
        let plan = plan_of("orders.cancel");
        assert!(
            plan.same_action.starts_with("this tool with the same /order_id, /week (guard_on)"),
            "{plan}"
        );
        let asked = "before the first attempt, where /total is above 500.25, or /days is below 3, or /express is true, or that member";
        assert!(plan.person[0].starts_with(asked), "{plan}");
        assert!(
            plan.stops.iter().any(|line| line.starts_with("an approval, and a request for one")),
            "{plan}"
        );
        let plan = plan_of("supplier.create_order");
        assert_eq!(plan.same_action, "this tool with the same arguments but /trace_id");
    }

    #[test]
    fn a_transaction_asks_nobody() {
        let plan = plan_of("work_items.create");
        assert_eq!(plan.retries_off, ["none: nothing leaves the database"]);
        assert!(plan.to_string().contains("effect, receipt and state commit together"));
    }

    #[test]
    fn a_worker_says_what_rests_on_its_word() {
        let plan = plan_of("ledger.post_entry");
        assert_eq!(plan.carried_out_by, "your own worker, which claims it and reports");
        assert!(plan.established_by.contains("by your own worker"), "{plan}");
        assert!(plan.identifier.contains("wherever your worker puts it"), "{plan}");
        assert!(
            plan.assumptions.iter().any(|line| line.contains("stopped in the middle of a send")),
            "{plan}"
        );
        assert!(plan.retries_off[0].contains("the SDK"), "{plan}");
    }
}
