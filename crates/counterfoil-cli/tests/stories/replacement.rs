//! A proposal that was changed after it may have been sent.

use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour, Point, RandomFaults, SupplierOptions, Target};

use crate::support::{Answer, Api, Setup, ToolText, World, finish, order, pass, spawn};

fn of(quantity: u32, wait_ms: u64) -> Value {
    let mut wanted = order("flour", wait_ms);
    wanted["arguments"]["quantity"] = json!(quantity);
    wanted["task"] = json!("run-41");
    wanted
}

fn changed(quantity: u32, former: &str, wait_ms: u64) -> Value {
    let mut wanted = of(quantity, wait_ms);
    wanted["replaces"] = json!(former);
    wanted
}

fn prepared(mut wanted: Value) -> Value {
    wanted["execute"] = json!(false);
    wanted
}

/// The supplier can be searched, and executes nothing that is older than a second.
fn searched() -> World {
    let tool = ToolText::searched("supplier.create_order")
        .with_reference()
        .http("timeout = \"1s\"")
        .http("linger = \"0s\"");
    World::new(Flavour::Forgetful, &Setup::new().tool(tool))
}

/// Every reply is lost, and nothing can be asked.
fn lossy() -> World {
    let mut options = SupplierOptions::new(Flavour::Forgetful);
    let menu = vec![Fault::ReplyDropped];
    options.random = Some(RandomFaults { seed: 1, per_mille: 1_000, target: Target::Writes, menu });
    World::with_supplier(options, &Setup::forgetful())
}

fn acknowledge(approver: &Api, id: &str, former: &str) -> Answer {
    let fingerprint = approver.get(id).text("/fingerprint");
    approver.decide(id, "approve", &json!({ "fingerprint": fingerprint, "acknowledges": former }))
}

#[test]
fn c33_a_changed_order_waits_until_the_first_is_settled_and_then_needs_a_word() {
    let world = searched();
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    // The answer is lost, and the search says nothing usable for a while.
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    for _ in 0..6 {
        world.supplier.fault_on(Target::Lookups, Fault::Status(503)).unwrap();
    }
    agent.put("a", &of(10, 0)).expect(202);
    world.wait_effects(1);
    agent.until_state("a", &["unknown"]);
    let waiting = agent.put("b", &changed(12, "a", 0)).expect(202);
    assert_eq!((waiting.state(), waiting.next()), ("prepared".into(), "wait_for_operation".into()));
    assert_eq!((waiting.text("/next/operation"), waiting.text("/replaces")), ("a".into(), "a".into()));
    let blocked = agent.execute("b", 0);
    assert!(matches!(blocked.problem().as_str(), "blocked-by-operation" | "approval-required"));
    assert_eq!(world.effects(), 1);
    // The first turns out to exist: the changed one does not run by itself, although its wish stands.
    let first = agent.until_state("a", &["succeeded"]);
    assert_eq!((first.text("/receipt/source"), first.text("/replaced_by")), ("lookup".into(), "b".into()));
    let waiting = agent.until("b", "in want of a word", |answer| answer.next() == "approve");
    assert_eq!(waiting.text("/next/operation"), "a");
    agent.execute("b", 300).refused(409, "approval-required");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    // An approval that does not name it does not help, and whoever prepared it cannot say it.
    approver.approve("b").expect(200);
    agent.execute("b", 300).refused(409, "approval-required");
    let both = world.caller(&server, "kitchen", "app", &["agent", "approver"]);
    acknowledge(&both, "b", "a").refused(403, "forbidden");
    acknowledge(&approver, "b", "b").refused(409, "wrong-state");
    assert_eq!(world.writes(), 1);
    acknowledge(&approver, "b", "a").expect(200);
    agent.until_state("b", &["succeeded"]);
    assert_eq!((world.effects(), world.writes()), (2, 2));
    assert_eq!(world.effects_with("\"quantity\":12").len(), 1);
    world.verify();
}

#[test]
fn c33_where_the_first_certainly_did_nothing_the_changed_order_runs_by_itself() {
    let world = searched();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    agent.put("a", &of(10, 0)).expect(202);
    agent.until_state("a", &["unknown"]);
    agent.put("b", &changed(12, "a", 0)).expect(202);
    // Nobody asks again: the look-up that settles the first wakes the second. The first has attempts left, and gets none.
    let first = agent.until_state("a", &["rejected"]);
    assert_eq!(first.text("/rejection/code"), "replaced");
    let done = agent.until_state("b", &["succeeded"]);
    assert_eq!((first.outcomes().len(), done.outcomes().len()), (1, 1));
    assert_eq!((world.effects(), world.writes()), (1, 2));
    assert_eq!(world.effects_with("\"quantity\":12").len(), 1);
}

#[test]
fn c33_with_a_key_nothing_is_repeated_once_the_order_was_changed() {
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .http("timeout = \"1s\"")
        .http("linger = \"0s\"")
        .budget("first_delay = \"1500ms\"")
        .budget("max_delay = \"1500ms\"");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &of(10, 0)).expect(202);
    agent.until_state("a", &["unknown"]);
    agent.put("b", &changed(12, "a", 0)).expect(202);
    // A repeat would collapse at the supplier. It comes no more: a person is asked.
    let held = agent.until("a", "held", |answer| answer.at("/held") == true);
    assert_eq!(held.text("/next/reason"), "replaced");
    pass(Duration::from_secs(2));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    // The change is taken back: the first one goes on, and its repeat finds the order.
    agent.decide("b", "withdraw", &json!({})).expect(200);
    let done = agent.until_state("a", &["succeeded"]);
    assert_eq!(done.outcomes(), ["unknown", "succeeded"]);
    assert_eq!((world.effects(), world.writes()), (1, 2));
}

#[test]
fn c34_an_order_that_never_started_ends_when_it_is_changed() {
    let world = World::keyed();
    let servers = [world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    agent.put("a", &prepared(of(10, 0))).expect(201);
    // Both at once, at two servers: either the first started, and the second waits for it or needs a word, or it ends.
    let other = agent.at(servers[1].address);
    let (replaced, executed) = std::thread::scope(|scope| {
        let change = scope.spawn(|| other.put("b", &changed(12, "a", 0)));
        let start = scope.spawn(|| agent.execute("a", 10_000));
        (change.join().unwrap(), start.join().unwrap())
    });
    replaced.expect(202);
    let first = agent.until_state("a", &["succeeded", "rejected"]);
    if first.state() == "rejected" {
        assert_eq!(first.text("/rejection/code"), "replaced");
        agent.until_state("b", &["succeeded"]);
        assert_eq!(first.outcomes().len(), 0);
    } else {
        executed.expect(200);
        agent.until("b", "in want of a word", |answer| answer.next() == "approve");
    }
    assert_eq!((world.effects(), world.writes()), (1, 1));

    // Without a race: only the second can run.
    agent.put("c", &prepared(of(20, 0))).expect(201);
    agent.put("d", &changed(22, "c", 20_000)).expect(200);
    let first = agent.get("c");
    assert_eq!((first.state(), first.text("/rejection/code")), ("rejected".into(), "replaced".into()));
    assert_eq!(first.text("/replaced_by"), "d");
    agent.execute("c", 300).expect(200);
    agent.put("c", &of(20, 300)).expect(200);
    assert_eq!(world.effects_with("\"quantity\":20").len(), 0);
    assert_eq!(world.effects_with("\"quantity\":22").len(), 1);
    world.verify();
}

#[test]
fn c54_execute_true_at_two_servers_at_once() {
    let world = lossy();
    let servers = [world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    for id in ["a", "b"] {
        agent.put(id, &prepared(of(10, 0))).expect(201);
    }
    // Both wishes at once: one starts, the other one is held back, and its wish ends.
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let calls: Vec<_> = ["a", "b"]
            .into_iter()
            .zip(&servers)
            .map(|(id, server)| {
                let caller = agent.at(server.address);
                scope.spawn(move || caller.put(id, &of(10, 0)))
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for answer in answers {
        answer.expect(202);
    }
    let quiet = |id: &str| {
        agent.until(id, "held or waiting", |answer| {
            answer.at("/held") == true || answer.next() == "wait_for_operation"
        })
    };
    let mut steps = [quiet("a").next(), quiet("b").next()];
    steps.sort();
    assert_eq!(steps, ["review", "wait_for_operation"]);
    pass(Duration::from_secs(2));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c55_a_replacement_inherits_and_a_place_is_taken_once() {
    let world = lossy();
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    agent.put("a", &of(10, 0)).expect(202);
    agent.until_quiet("a");
    agent.put("b", &changed(12, "a", 0)).expect(202);
    agent.put("c", &changed(14, "b", 0)).expect(202);
    assert_eq!(agent.get("b").text("/rejection/code"), "replaced");
    let waiting = agent.get("c");
    assert_eq!((waiting.next(), waiting.text("/next/operation")), ("wait_for_operation".into(), "a".into()));
    agent.execute("c", 300).refused(409, "blocked-by-operation");
    for former in ["a", "b"] {
        let refused = agent.put("d", &changed(16, former, 0)).refused(409, "already-replaced");
        assert_eq!(refused.text("/operation_id"), "c");
    }
    agent.get("d").refused(404, "unknown-operation");
    agent.put("d", &changed(16, "no-such", 0)).refused(404, "unknown-operation");
    let reused = agent.put("c", &changed(14, "a", 0)).refused(422, "operation-id-reused");
    assert_eq!(reused.at("/differs"), json!(["replaces"]));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    // Two changes of one order at once, from two processes: one is taken.
    let folder = world.folder.path();
    let prepare = |id: &'static str| {
        let arguments = [
            "op",
            "prepare",
            "supplier.create_order",
            "--account",
            "kitchen",
            "--id",
            id,
            "--arguments",
            r#"{"sku":"flour","quantity":18}"#,
            "--replaces",
            "c",
            "--json",
        ];
        spawn(folder, &arguments)
    };
    let outputs: Vec<_> = [prepare("e"), prepare("f")].into_iter().map(finish).collect();
    let taken = outputs.iter().filter(|output| output.code == 6).count();
    let refused = outputs.iter().filter(|output| output.stderr.contains("already-replaced")).count();
    assert_eq!((taken, refused), (1, 1), "{outputs:?}");
    // A person settles the first: the last one in the line needs to know of it.
    let verdict = json!({ "verdict": "succeeded", "reference": "po_1", "note": "seen in the portal" });
    approver.decide("a", "resolve", &verdict).expect(200);
    let last = if agent.get("e").status == 200 { "e" } else { "f" };
    agent.execute(last, 300).refused(409, "approval-required");
    assert_eq!(agent.get(last).text("/next/operation"), "a");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn c56_an_abandoned_order_guards_until_it_is_released() {
    let world = lossy();
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    agent.put("a", &of(10, 0)).expect(202);
    agent.until_quiet("a");
    let verdict = json!({ "verdict": "abandoned", "note": "nobody answers the phone" });
    approver.decide("a", "resolve", &verdict).expect(200);
    agent.put("b", &of(10, 0)).refused(409, "action-unresolved");
    // A changed one is not refused, and not sent either.
    agent.put("c", &changed(12, "a", 0)).expect(202);
    agent.execute("c", 300).refused(409, "blocked-by-operation");
    pass(Duration::from_millis(500));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    approver.decide("a", "release", &json!({ "note": "we order again" })).expect(200);
    // The standing wish of the changed one is woken; the identical one is free as well.
    world.wait_effects(2);
    agent.put("b", &of(10, 0)).expect(202);
    world.wait_effects(3);
    agent.until_quiet("b");
    assert_eq!(world.effects_with("\"quantity\":12").len(), 1);
    assert_eq!((world.effects(), world.writes()), (3, 3));
}

#[test]
fn a_crash_between_the_change_and_the_answer_leaves_both_or_neither() {
    let world = searched();
    let server = world.serve();
    let agent = world.agent(&server);
    let gate = world.supplier.hold(Point::RequestRead, Target::Writes);
    agent.put("a", &of(10, 0)).expect(202);
    gate.reached_blocking().unwrap();
    agent.put("b", &changed(12, "a", 0)).expect(202);
    // The server dies while the first is on its way; another one takes over.
    drop(server);
    drop(gate);
    let server = world.serve();
    let agent = agent.at(server.address);
    let first = agent.until_state("a", &["succeeded", "rejected"]);
    match first.state().as_str() {
        "succeeded" => {
            agent.until("b", "in want of a word", |answer| answer.next() == "approve");
            assert_eq!(world.effects(), 1);
        }
        _ => {
            assert_eq!(first.text("/rejection/code"), "replaced");
            agent.until_state("b", &["succeeded"]);
            assert_eq!(world.effects(), 1);
        }
    }
    world.verify();
}
