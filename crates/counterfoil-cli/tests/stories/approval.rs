//! A person decides: about these arguments, going there, and nothing else.

use serde_json::json;
use sim::supplier::Flavour;

use crate::support::{Setup, ToolText, World, order, pass, signal};
use std::time::Duration;

fn world() -> World {
    let tool = ToolText::keyed("supplier.create_order").with_reference().table("approval = \"required\"");
    World::new(Flavour::dedupe(), &Setup::new().tool(tool))
}

#[test]
fn c35_an_approval_is_for_the_arguments_that_were_shown() {
    let world = world();
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    let mut shown = order("flour", 0);
    shown["execute"] = json!(false);
    let prepared = agent.put("a", &shown).expect(201);
    assert_eq!(prepared.next(), "approve");
    // An approval of something else is refused.
    let mut other = shown.clone();
    other["arguments"]["quantity"] = json!(9_999);
    let others = agent.put("b", &other).expect(201).text("/fingerprint");
    approver.decide("a", "approve", &json!({ "fingerprint": others })).refused(409, "fingerprint-mismatch");
    agent.execute("a", 0).refused(409, "approval-required");
    approver.approve("a").expect(200);
    // Approved for one, executed with the other: refused.
    other["execute"] = json!(true);
    let refused = agent.put("a", &other).refused(422, "operation-id-reused");
    assert_eq!(refused.at("/differs"), json!(["arguments.quantity"]));
    pass(Duration::from_millis(400));
    assert_eq!((world.effects(), world.writes()), (0, 0));
    // What was approved runs.
    assert_eq!(agent.execute("a", 20_000).expect(200).state(), "succeeded");
    let effects = world.supplier.effects().unwrap();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].value(), json!({ "sku": "flour", "quantity": 10 }));
}

#[test]
fn c64_approved_after_the_caller_went_home_it_runs() {
    let world = world();
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    let waiting = agent.put("a", &order("flour", 0)).expect(202);
    assert_eq!((waiting.state(), waiting.next()), ("prepared".into(), "approve".into()));
    // Nobody listens, and the server that took the wish is gone as well.
    drop(server);
    let server = world.serve();
    pass(Duration::from_millis(500));
    assert_eq!(world.writes(), 0);
    let approver = approver.at(server.address);
    approver.approve("a").expect(200);
    let done = approver.until_state("a", &["succeeded"]);
    assert_eq!(done.reference(), world.supplier.effects().unwrap()[0].order);
    assert_eq!(world.effects(), 1);
    let receipt = agent.at(server.address).put("a", &order("flour", 0)).expect(200);
    assert_eq!((receipt.at("/replayed"), receipt.reference()), (json!(true), done.reference()));
}

#[test]
fn a_preparer_does_not_approve_its_own_and_a_no_is_final() {
    let world = world();
    let server = world.serve();
    let both = world.caller(&server, "kitchen", "app", &["agent", "approver"]);
    let approver = world.approver(&server);
    both.put("a", &order("flour", 0)).expect(202);
    both.approve("a").refused(403, "forbidden");
    approver.decide("a", "deny", &json!({ "reason": "too much flour" })).expect(200);
    let denied = both.get("a").expect(200);
    assert_eq!(
        (denied.state(), denied.text("/rejection/code")),
        ("rejected".into(), "approval_denied".into())
    );
    assert_eq!(approver.approve("a").status, 409);
    pass(Duration::from_millis(300));
    assert_eq!(both.put("a", &order("flour", 300)).expect(200).state(), "rejected");
    assert_eq!(world.writes(), 0);
}

#[test]
fn c15_of_approve_and_deny_at_once_the_first_wins() {
    let world = world();
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    let other = world.caller(&server, "kitchen", "owner", &["approver"]);
    for round in 0..6 {
        let id = format!("a{round}");
        let fingerprint = agent.put(&id, &order(&id, 0)).expect(202).text("/fingerprint");
        let (yes, no) = std::thread::scope(|scope| {
            let yes = scope
                .spawn(|| approver.decide(&id, "approve", &json!({ "fingerprint": fingerprint })).status);
            let no = scope.spawn(|| other.decide(&id, "deny", &json!({ "reason": "no" })).status);
            (yes.join().unwrap(), no.join().unwrap())
        });
        let state = agent.until_state(&id, &["succeeded", "rejected"]).state();
        let effects = world.effects_with(&id).len();
        match (yes, no) {
            (200, 409) => assert_eq!((state.as_str(), effects), ("succeeded", 1)),
            (409, 200) => assert_eq!((state.as_str(), effects), ("rejected", 0)),
            both => panic!("{both:?}"),
        }
    }
}

#[test]
fn a_person_is_asked_where_the_exact_value_says_so() {
    let conditions = "approval = { when = [{ at = \"/total\", greater_than = \"500.25\" }] }";
    let tool = ToolText::keyed("supplier.create_order").with_reference().table(conditions);
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool.clone()));
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    let costing = |id: &str, total: &str| {
        let body = format!(
            r#"{{"tool":"supplier.create_order","arguments":{{"sku":"{id}"{total}}},"execute":true,"wait_ms":20000}}"#
        );
        agent.put_text(id, &body)
    };
    let under = costing("under", r#","total":500.250"#).expect(200);
    assert_eq!((under.state(), under.at("/approval/required")), ("succeeded".into(), json!(false)));
    assert_eq!(world.effects(), 1);
    for (id, total) in [
        ("over", r#","total":500.2500000000000000001"#),
        ("absent", ""),
        ("text", r#","total":"1""#),
        ("null", r#","total":null"#),
    ] {
        let asked = costing(id, total).expect(202);
        assert_eq!((asked.next(), asked.at("/approval/required")), ("approve".into(), json!(true)), "{id}");
        agent.execute(id, 0).refused(409, "approval-required");
    }
    pass(Duration::from_millis(400));
    assert_eq!(world.writes(), 1);
    // A laxer file takes no question back that was asked.
    let lax = conditions.replace("500.25", "9000");
    world.configure(&Setup::new().tool(tool.table(&lax)));
    drop(server);
    let server = world.serve();
    let (agent, approver) = (agent.at(server.address), approver.at(server.address));
    agent.execute("over", 0).refused(409, "approval-required");
    approver.approve("over").expect(200);
    agent.until_state("over", &["succeeded"]);
    assert_eq!((world.effects(), world.writes()), (2, 2));
}

#[test]
fn c59_an_approval_is_for_the_place_that_was_shown() {
    let plain = ToolText::keyed("supplier.create_order").with_reference().table("approval = \"required\"");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(plain.clone()));
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    let mut later = order("flour", 0);
    later["execute"] = json!(false);
    agent.put("a", &later).expect(201);
    assert_eq!(approver.approve("a").expect(200).next(), "execute");
    // The file sends it elsewhere now, and the server knows.
    let moved = plain.url(format!("{}/orders?region=2", world.supplier.url()));
    world.configure(&Setup::new().tool(moved));
    signal(server.id(), "HUP");
    let void = agent.until("a", "void", |answer| answer.next() == "approve");
    assert_eq!(void.text("/next/reason"), "destination-changed");
    agent.execute("a", 3_000).refused(409, "approval-required");
    // Nor does a process that starts with the new file send, on the server's ledger or by itself.
    drop(server);
    let server = world.serve();
    let (agent, approver) = (agent.at(server.address), approver.at(server.address));
    agent.put("a", &order("flour", 500)).expect(202);
    world.run(&["op", "execute", "a", "--account", "kitchen"]).expect(6);
    pass(Duration::from_millis(600));
    assert_eq!((world.effects(), world.writes()), (0, 0));
    // Approved anew it goes where the file says, once.
    approver.approve("a").expect(200);
    let done = agent.until_state("a", &["succeeded"]);
    assert_eq!(done.reference(), world.supplier.effects().unwrap()[0].order);
    assert_eq!((world.effects(), world.writes()), (1, 1));
    assert_eq!(world.supplier.requests()[0].target, "/orders?region=2");
    world.verify();
}
