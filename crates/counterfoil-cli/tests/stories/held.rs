//! What no rule can settle reaches a person within seconds, whatever the destination's answers, or their absence, say.

use std::time::Duration;

use counterfoil::Timestamp;
use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour, Later, SupplierOptions, Target};
use sim::wire::Reply;

use crate::support::{Answer, Setup, ToolText, World, order, pass};

const TOOL: &str = "supplier.create_order";

/// From the instant at which nothing could settle it any more to the one at which a person was asked.
const WITHIN: Duration = Duration::from_secs(5);

struct Case {
    name: &'static str,
    tool: ToolText,
    lost: Fault,
    /// What every look-up is answered.
    look_ups: Option<Fault>,
    /// How long after the attempt ended it can still be settled by a rule.
    decidable: Duration,
    reason: &'static str,
}

fn searched() -> ToolText {
    ToolText::searched(TOOL).with_reference().http("linger = \"0s\"")
}

fn custom(body: &Value) -> Fault {
    Fault::Custom { reply: Reply::json(200, body), effect: false }
}

fn cases() -> Vec<Case> {
    let forgetful = ToolText::forgetful(TOOL).with_reference().http("linger = \"0s\"");
    // Nothing bounds its requests, so no miss can count.
    let soft = searched().recovery("authoritative = false").without_recovery("request_lifetime");
    let case = |name, tool: &ToolText, look_ups, reason| Case {
        name,
        tool: tool.clone(),
        lost: Fault::ReplyDropped,
        look_ups,
        decidable: Duration::ZERO,
        reason,
    };
    let accepted = Fault::Accepted202(Later::After(Duration::from_secs(3600)));
    let two = custom(&json!({ "orders": [{ "id": "po_1" }, { "id": "po_2" }] }));
    vec![
        case("nobody can tell", &forgetful, None, "no-recovery"),
        Case { lost: accepted, ..case("accepted, for later", &forgetful, None, "no-recovery") },
        Case {
            lost: Fault::Status(503),
            ..case("an error that proves nothing", &forgetful, None, "no-recovery")
        },
        case("a search that may lag", &soft, Some(custom(&json!({ "orders": [] }))), "not-found"),
        case(
            "a search that hangs",
            &soft.clone().http("timeout = \"20s\""),
            Some(Fault::Hang),
            "not-protected",
        ),
        case("a search that fails", &soft, Some(Fault::Status(500)), "look-up-failed"),
        case("two records", &searched(), Some(two), "duplicate-suspected"),
        case(
            "a record of somebody else",
            &searched().recovery("must_match = [\"/sku\"]"),
            Some(custom(&json!({ "orders": [{ "id": "po_1", "sku": "salt" }] }))),
            "found-differs",
        ),
        Case {
            decidable: Duration::from_secs(3),
            ..case(
                "look-ups without an answer, for as long as they go on",
                &searched().recovery("request_lifetime = \"2s\"").recovery("lookup_for = \"3s\""),
                Some(Fault::Status(500)),
                "look-up-failed",
            )
        },
        case(
            "a key that was forgotten",
            &ToolText::keyed(TOOL)
                .with_reference()
                .http("linger = \"0s\"")
                .recovery("retention = \"3s\"")
                .recovery("request_lifetime = \"1s\"")
                .recovery("skew = \"0s\"")
                .budget("attempts = 1"),
            None,
            "budget-spent",
        ),
    ]
}

#[test]
fn a_person_is_asked_within_five_seconds() {
    let mut slowest = Duration::ZERO;
    for case in cases() {
        let options = SupplierOptions {
            search_lag: Duration::from_secs(3600),
            ..SupplierOptions::new(Flavour::Forgetful)
        };
        let world = World::with_supplier(options, &Setup::new().tool(case.tool));
        let server = world.serve();
        let agent = world.agent(&server);
        world.supplier.fault(case.lost).unwrap();
        for fault in std::iter::repeat_n(case.look_ups, 100).flatten() {
            world.supplier.fault_on(Target::Lookups, fault).unwrap();
        }
        agent.put("a", &order("flour", 0)).expect(202);
        let held = agent.until("a", "held", |answer| answer.at("/held") == true);
        let auditor = world.caller(&server, "kitchen", "eve", &["auditor"]);
        let took = waited(
            &held,
            &asked_at(&auditor.call("GET", "/v1/operations/a/evidence", &Value::Null)),
            case.decidable,
        );
        println!("{}: {} ms", case.name, took.as_millis());
        assert!(took < WITHIN, "{}: {took:?}", case.name);
        slowest = slowest.max(took);
        pass(Duration::from_millis(300));
        assert_eq!(agent.get("a").text("/next/reason"), case.reason, "{}", case.name);
        assert_eq!(world.writes(), 1, "{}", case.name);
    }
    println!("the slowest: {} ms", slowest.as_millis());
}

/// When the ledger wrote down that a person is asked.
fn asked_at(evidence: &Answer) -> String {
    let rows = evidence.at("/items");
    let row = rows.as_array().unwrap().iter().find(|row| row["data"]["hold"].is_string());
    row.map(|row| row["at"].as_str().unwrap().to_owned()).unwrap_or_else(|| panic!("{rows}"))
}

fn waited(held: &Answer, asked_at: &str, decidable: Duration) -> Duration {
    let instant = |text: &str| Timestamp::parse(text).unwrap();
    instant(asked_at).since(instant(&held.text("/attempts/0/ended_at")).plus(decidable))
}
