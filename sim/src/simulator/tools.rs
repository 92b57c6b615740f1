//! The declarations of an episode, and destinations that honour them.

use std::collections::BTreeMap;
use std::time::Duration;

use counterfoil::id::ToolName;
use counterfoil::keys::KeyFormat;
use counterfoil::pointer::Pointer;
use counterfoil::policy::{
    ApprovalRule, BodyKind, BodyMatch, Bucket, Budget, Carrier, HttpDeclaration, Meaning, OutcomeRule,
    QueryMode, Tool, WorkerDeclaration,
};
use counterfoil::recovery::{
    KeyFacts, LookUpBy, LookUpFacts, LookUpRequest, NoneFacts, Place, Recovery, ReferenceFacts, StoredErrors,
};

use super::site::{Class, Site};
use crate::seed::Seed;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// The clock difference that every declaration allows for.
pub(super) const SKEW: Duration = Duration::from_secs(60);

/// A tool of the episode.
pub(super) struct Plan {
    /// What is declared now.
    pub(super) tool: Tool,
    /// Its destination.
    pub(super) site: Site,
    /// The same over HTTP, as a worker's own code reads its answers; `None` where no worker carries it out.
    pub(super) wire: Option<Tool>,
    /// Whether it is declared at all.
    pub(super) declared: bool,
    /// The most attempts that any of its declarations allowed.
    pub(super) attempts: u32,
    /// The vendor account that its credential belongs to.
    pub(super) vendor: u8,
    /// Since when its sends stand still.
    pub(super) paused_since: Option<i64>,
    /// When its declaration last changed.
    pub(super) changed_at: i64,
    /// Since when they stand still under any vendor account.
    pub(super) stands_since: Option<i64>,
    /// How long they stood still before.
    pub(super) stood_for: i64,
}

fn span(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn some(seed: &mut Seed, of: &[i64]) -> i64 {
    seed.pick(of).copied().unwrap_or_default()
}

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

/// The scope of a vendor account.
pub(super) fn scope(vendor: u8) -> String {
    format!("vendor-{vendor}")
}

fn look_up() -> LookUpBy {
    LookUpBy::Http(Box::new(LookUpRequest {
        method: "GET".to_owned(),
        url: "http://127.0.0.1:9/orders?client_reference={reference}".to_owned(),
        found: pointer("/orders/0/id"),
        count: None,
        must_match: Vec::new(),
    }))
}

/// A tool of this class, with facts drawn from the seed.
pub(super) fn plan(number: usize, class: Class, seed: &mut Seed) -> Plan {
    let mut site = Site::new(class);
    site.faults = u32::try_from(some(seed, &[0, 60, 200, 400])).unwrap_or(0);
    let recovery = recovery(class, &mut site, seed);
    let budget = Budget {
        attempts: u32::try_from(2 + seed.below(9)).unwrap_or(2),
        elapsed: span(some(seed, &[MINUTE, 15 * MINUTE, 40 * MINUTE])),
        first_delay: span(some(seed, &[100, 500, 2 * SECOND])),
        max_delay: span(some(seed, &[10 * SECOND, MINUTE])),
    };
    let name = ToolName::parse(&format!("supplier-{number}.order")).unwrap();
    let carrier = match class {
        Class::Transaction => Carrier::Transaction,
        Class::Key | Class::Reference | Class::LookUp | Class::Search | Class::Nothing => {
            Carrier::Http(Box::new(http(number, seed)))
        }
    };
    let mut tool = Tool { budget, ..Tool::new(name, carrier, recovery) };
    tool.lease = span(some(seed, &[5 * SECOND, 30 * SECOND, MINUTE]));
    tool.retention = span(some(seed, &[26 * HOUR, 72 * HOUR]));
    if seed.chance(250) && class != Class::Transaction {
        tool.approval = ApprovalRule::Required;
        tool.approval_expires = span(some(seed, &[2 * MINUTE, HOUR, 24 * HOUR]));
    }
    if class == Class::Reference {
        tool.outcomes = vec![OutcomeRule {
            status: Some(409),
            body: Some(BodyMatch { pointer: pointer("/error/code"), equals: "already_exists".to_owned() }),
            means: Meaning::DuplicateOfOurs,
        }];
    }
    if seed.chance(300) {
        tool.guard_on = Some(vec![pointer("/sku")]);
    }
    site.webhooks = seed.chance(400);
    let by_worker = seed.chance(300) && class != Class::Transaction;
    let wire = by_worker.then(|| tool.clone());
    if by_worker {
        for_workers(&mut tool);
    }
    let attempts = tool.budget.attempts;
    Plan {
        tool,
        site,
        wire,
        declared: true,
        attempts,
        vendor: 1,
        changed_at: -HOUR,
        paused_since: None,
        stands_since: None,
        stood_for: 0,
    }
}

/// The same tool, carried out by the application's own code.
fn for_workers(tool: &mut Tool) {
    if let Carrier::Http(http) = &tool.carrier {
        tool.carrier = Carrier::Worker(WorkerDeclaration {
            scope: http.scope.clone(),
            destination: http.destination.clone(),
            bucket: http.bucket,
        });
    }
    let (place, lookup) = match &mut tool.recovery {
        Recovery::IdempotencyKey(facts) => (&mut facts.key, facts.lookup.as_mut()),
        Recovery::UniqueReference(facts) => (&mut facts.reference, facts.lookup.as_mut()),
        Recovery::LookUp(facts) => (&mut facts.reference, Some(&mut facts.lookup)),
        Recovery::Transaction | Recovery::None(_) => return,
    };
    *place = Place::Worker;
    if let Some(lookup) = lookup {
        *lookup = LookUpBy::Worker;
    }
}

fn http(number: usize, seed: &mut Seed) -> HttpDeclaration {
    let bucket = seed.chance(150).then_some(Bucket { rate_milli: 1_000, burst: 3 });
    HttpDeclaration {
        method: "POST".to_owned(),
        url: format!("http://127.0.0.1:9/{number}/orders"),
        body: BodyKind::Json,
        path_only: Vec::new(),
        headers: BTreeMap::new(),
        query: QueryMode::Refuse,
        scope: Some(scope(1)),
        destination: bucket.map(|_| format!("bucket-{number}")),
        bucket,
        timeout: span(some(seed, &[SECOND, 5 * SECOND, 20 * SECOND])),
        linger: span(some(seed, &[0, 10 * SECOND, MINUTE])),
        receipt_reference: Some(pointer("/id")),
        allow_private: true,
    }
}

/// A destination that promises anything remembers a request for longer than that can be under way.
fn outlived(lifetime: i64, memory: Option<i64>) -> i64 {
    memory.map_or(lifetime, |memory| lifetime.min(memory / 3))
}

fn recovery(class: Class, site: &mut Site, seed: &mut Seed) -> Recovery {
    let lifetime = some(seed, &[30 * SECOND, 2 * MINUTE, 15 * MINUTE]);
    let long = seed.chance(30);
    let lookup_for = span(if long { 24 * HOUR } else { some(seed, &[10 * MINUTE, 30 * MINUTE, HOUR]) });
    let place = Place::Header("Idempotency-Key".to_owned());
    match class {
        Class::Transaction => Recovery::Transaction,
        Class::Key => {
            site.memory = Some(some(seed, &[4 * MINUTE, 20 * MINUTE, 2 * HOUR, 24 * HOUR]));
            let lifetime = outlived(lifetime, site.memory);
            site.lifetime = Some(lifetime);
            let errors = [StoredErrors::All, StoredErrors::SuccessOnly, StoredErrors::Reruns];
            site.stored_errors = seed.pick(&errors).copied().unwrap_or_default();
            site.rolls_back = seed.chance(500);
            site.copies = site.stored_errors != StoredErrors::SuccessOnly || site.rolls_back;
            Recovery::IdempotencyKey(KeyFacts {
                key: place,
                key_format: KeyFormat::Hex32,
                key_max_len: None,
                retention: site.memory.map(span).unwrap_or_default(),
                request_lifetime: span(lifetime),
                stored_errors: site.stored_errors,
                rolls_back: site.rolls_back,
                skew: SKEW,
                lookup: seed.chance(300).then(look_up),
                lookup_for,
            })
        }
        Class::Reference => {
            site.memory = seed.chance(400).then(|| some(seed, &[4 * MINUTE, HOUR, 24 * HOUR]));
            let lifetime = outlived(lifetime, site.memory);
            site.lifetime = Some(lifetime);
            site.copies = true;
            Recovery::UniqueReference(ReferenceFacts {
                reference: place,
                key_format: KeyFormat::Hex32,
                key_max_len: None,
                unique_for: site.memory.map(span),
                request_lifetime: span(lifetime),
                skew: SKEW,
                lookup: seed.chance(800).then(look_up),
                lookup_for,
            })
        }
        Class::LookUp => {
            let bounded = seed.chance(800);
            site.lifetime = bounded.then_some(lifetime);
            site.queue = some(seed, &[0, 0, 20 * SECOND, 3 * MINUTE]);
            Recovery::LookUp(LookUpFacts {
                reference: place,
                key_format: KeyFormat::Hex32,
                key_max_len: None,
                lookup: look_up(),
                authoritative: true,
                request_lifetime: bounded.then(|| span(lifetime)),
                queue_time: span(site.queue),
                skew: SKEW,
                lookup_for,
            })
        }
        Class::Search => {
            let bounded = seed.chance(500);
            site.lifetime = bounded.then_some(lifetime);
            site.lag = some(seed, &[SECOND, 5 * MINUTE, 2 * HOUR]);
            Recovery::LookUp(LookUpFacts {
                reference: place,
                key_format: KeyFormat::Hex32,
                key_max_len: None,
                lookup: look_up(),
                authoritative: false,
                request_lifetime: bounded.then(|| span(lifetime)),
                queue_time: Duration::ZERO,
                skew: SKEW,
                lookup_for,
            })
        }
        Class::Nothing => {
            let bounded = seed.chance(500);
            site.lifetime = bounded.then_some(lifetime);
            Recovery::None(NoneFacts {
                request_lifetime: bounded.then(|| span(lifetime)),
                queue_time: Duration::ZERO,
            })
        }
    }
}

/// The credential is another vendor account's.
pub(super) fn moved(plan: &mut Plan) {
    let known = match &mut plan.tool.carrier {
        Carrier::Http(http) => &mut http.scope,
        Carrier::Worker(worker) => &mut worker.scope,
        Carrier::Transaction => return,
    };
    plan.vendor = 3 - plan.vendor;
    *known = Some(scope(plan.vendor));
}

/// Another declaration of the same tool, as an operator may write one: never another destination, now and then another
/// vendor account.
pub(super) fn changed(plan: &mut Plan, seed: &mut Seed) -> &'static str {
    let tool = &mut plan.tool;
    match seed.below(7) {
        0 => {
            tool.budget.attempts = u32::try_from(1 + seed.below(6)).unwrap_or(1);
            plan.attempts = plan.attempts.max(tool.budget.attempts);
            "another budget"
        }
        1 => {
            tool.lease = span(some(seed, &[3 * SECOND, 20 * SECOND, 2 * MINUTE]));
            "another lease"
        }
        2 => {
            tool.approval = match tool.approval {
                ApprovalRule::Required => ApprovalRule::None,
                ApprovalRule::None | ApprovalRule::When if plan.site.class == Class::Transaction => {
                    ApprovalRule::None
                }
                ApprovalRule::None | ApprovalRule::When => ApprovalRule::Required,
            };
            "another approval"
        }
        3 => {
            plan.declared = false;
            "taken out"
        }
        4 => {
            moved(plan);
            "another vendor account"
        }
        5 => {
            tool.guard_on = match tool.guard_on {
                Some(_) => None,
                None => Some(vec![pointer("/sku")]),
            };
            "another guard"
        }
        _ => {
            tool.budget.elapsed = span(some(seed, &[MINUTE, 10 * MINUTE]));
            "another elapsed"
        }
    }
}
