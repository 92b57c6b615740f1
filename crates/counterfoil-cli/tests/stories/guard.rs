//! An action that is not settled is not done a second time under another name.

use std::sync::Barrier;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour, RandomFaults, SupplierOptions, Target};

use crate::support::{Setup, ToolText, World, order};

fn in_task(label: &str, execute: bool) -> Value {
    let mut wanted = order(label, 0);
    wanted["task"] = json!("run-41");
    wanted["execute"] = json!(execute);
    wanted
}

/// A world in which every reply is lost and nothing can be asked.
fn lossy() -> World {
    let mut options = SupplierOptions::new(Flavour::Forgetful);
    let menu = vec![Fault::ReplyDropped];
    options.random = Some(RandomFaults { seed: 1, per_mille: 1_000, target: Target::Writes, menu });
    World::with_supplier(options, &Setup::forgetful())
}

#[test]
fn c31_the_same_action_in_the_same_task_is_refused_while_the_first_is_unknown() {
    let world = lossy();
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &in_task("flour", true)).expect(202);
    agent.until_quiet("a");
    let refused = agent.put("b", &in_task("flour", true)).refused(409, "action-unresolved");
    assert_eq!((refused.text("/operation_id"), refused.state()), ("a".into(), "unknown".into()));
    assert_eq!(refused.at("/operations"), json!(["a"]));
    assert_eq!(refused.text("/sent"), "no");
    assert_eq!(world.effects(), 1);
    // The refusal stored nothing.
    agent.get("b").refused(404, "unknown-operation");

    // An agent may not say that it meant a second one; somebody who approves may.
    let mut distinct = in_task("flour", true);
    distinct["distinct_from"] = json!(["a"]);
    let forbidden = agent.put("b", &distinct).refused(403, "forbidden");
    assert_eq!((forbidden.text("/operation_id"), forbidden.state()), ("a".into(), "unknown".into()));
    assert_eq!(world.effects(), 1);
    let both = world.caller(&server, "kitchen", "chef", &["agent", "approver"]);
    both.put("b", &distinct).expect(202);
    both.until_quiet("b");
    assert_eq!(world.effects(), 2);
}

#[test]
fn c31_without_a_task_the_whole_account_is_guarded() {
    let world = lossy();
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &in_task("flour", true)).expect(202);
    agent.until_quiet("a");
    agent.put("b", &order("flour", 0)).refused(409, "action-unresolved");
    // Another task, another action and another account are not guarded.
    let mut other_task = in_task("flour", true);
    other_task["task"] = json!("run-42");
    agent.put("c", &other_task).expect(202);
    agent.put("d", &in_task("sugar", true)).expect(202);
    let bakery = world.caller(&server, "bakery", "baker", &["agent"]);
    bakery.put("a", &in_task("flour", true)).expect(202);
    for id in ["c", "d"] {
        agent.until_quiet(id);
    }
    bakery.until_quiet("a");
    assert_eq!(world.effects(), 4);
}

#[test]
fn c54_a_prepared_twin_waits_and_needs_a_word_when_the_first_worked() {
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .budget("first_delay = \"3s\"")
        .budget("max_delay = \"3s\"");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool));
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    agent.put("a", &in_task("flour", false)).expect(201);
    agent.put("b", &in_task("flour", false)).expect(201);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.execute("a", 0).expect(202);
    world.wait_effects(1);
    let blocked = agent.execute("b", 0).refused(409, "blocked-by-operation");
    assert_eq!(blocked.text("/operation_id"), "a");
    let waiting = agent.get("b").expect(200);
    assert_eq!((waiting.state(), waiting.next()), ("prepared".into(), "wait_for_operation".into()));
    assert_eq!(waiting.text("/next/operation"), "a");
    assert_eq!(waiting.at("/attempts"), json!([]));

    // The first turns out to have worked: the twin does not simply run.
    agent.until_state("a", &["succeeded"]);
    let waiting = agent.until("b", "in want of a word", |answer| answer.next() == "approve");
    assert_eq!(waiting.text("/next/operation"), "a");
    agent.execute("b", 300).expect(409);
    assert_eq!(world.effects(), 1);
    let fingerprint = waiting.text("/fingerprint");
    approver.decide("b", "approve", &json!({ "fingerprint": fingerprint, "acknowledges": "a" })).expect(200);
    let done = agent.execute("b", 20_000).expect(200);
    assert_eq!(done.state(), "succeeded");
    assert_eq!(world.effects(), 2);
}

#[test]
fn c54_a_held_twin_blocks_for_good() {
    let world = lossy();
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &in_task("flour", false)).expect(201);
    agent.put("b", &in_task("flour", false)).expect(201);
    agent.execute("a", 0).expect(202);
    agent.until_quiet("a");
    for _ in 0..3 {
        agent.execute("b", 200).refused(409, "blocked-by-operation");
    }
    assert_eq!(agent.get("b").next(), "wait_for_operation");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn two_servers_start_identical_operations_at_once_a_thousand_times() {
    const PAIRS: usize = 20;
    const ROUNDS: usize = 50;
    let world = lossy();
    let (left, right) = (world.serve(), world.serve());
    let agent = world.agent(&left);
    let other = agent.at(right.address);
    std::thread::scope(|scope| {
        for pair in 0..PAIRS {
            let start = std::sync::Arc::new(Barrier::new(2));
            for (side, caller) in [("left", agent.clone()), ("right", other.clone())] {
                let start = start.clone();
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let label = format!("flour-{pair}-{round}");
                        let id = format!("{label}-{side}");
                        start.wait();
                        // The IDs differ, the action is the same: one of the two is refused, or waits.
                        let answer = caller.put(&id, &in_task(&label, true));
                        match answer.status {
                            202 => {}
                            409 => assert_eq!(answer.problem(), "action-unresolved"),
                            _ => panic!("{}", answer.json()),
                        }
                    }
                });
            }
        }
    });
    let mut missing = Vec::new();
    for pair in 0..PAIRS {
        for round in 0..ROUNDS {
            let label = format!("flour-{pair}-{round}");
            let ids = [format!("{label}-left"), format!("{label}-right")];
            // Whoever was admitted and started comes to rest; whoever was not waits or does not exist.
            let started = ids
                .iter()
                .filter(|id| {
                    let answer = agent.get(id);
                    answer.status == 200 && !answer.outcomes().is_empty()
                })
                .count();
            if started != 1 {
                missing.push((label, started));
            }
        }
    }
    assert!(missing.is_empty(), "started not exactly once: {missing:?}");
    let effects = world.supplier.effects().unwrap();
    let mut labels: Vec<String> =
        effects.iter().map(|effect| effect.value()["sku"].as_str().unwrap().to_owned()).collect();
    let sent = labels.len();
    labels.sort();
    labels.dedup();
    assert_eq!(labels.len(), sent, "an action had more than one effect");
    assert_eq!(sent, PAIRS * ROUNDS);
    world.verify();
}

/// A tool whose orders for one week are one action, whatever else they say, and whose replies are lost.
fn weekly(guard_on: &str) -> Setup {
    Setup::new().tool(ToolText::forgetful("supplier.create_order").with_reference().table(guard_on))
}

fn for_week(sku: &str, week: &Value) -> Value {
    let mut wanted = order(sku, 0);
    wanted["task"] = json!("run-41");
    wanted["arguments"]["week"] = week.clone();
    wanted
}

#[test]
fn an_order_for_the_same_week_is_the_same_action_whatever_else_differs() {
    let mut options = SupplierOptions::new(Flavour::Forgetful);
    let menu = vec![Fault::ReplyDropped];
    options.random = Some(RandomFaults { seed: 1, per_mille: 1_000, target: Target::Writes, menu });
    let world = World::with_supplier(options, &weekly("guard_on = [\"/week\"]"));
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &for_week("flour", &json!(32))).expect(202);
    agent.until_quiet("a");
    for (id, sku, week) in [("b", "sugar", json!(32)), ("c", "flour", json!(32.0))] {
        let refused = agent.put(id, &for_week(sku, &week)).refused(409, "action-unresolved");
        assert_eq!(refused.text("/operation_id"), "a");
    }
    assert_eq!(world.effects(), 1);
    // Another week, no week, and a week that is null are other actions.
    let mut none = order("flour", 0);
    none["task"] = json!("run-41");
    for (id, wanted) in
        [("d", for_week("flour", &json!(33))), ("e", none), ("f", for_week("flour", &Value::Null))]
    {
        agent.put(id, &wanted).expect(202);
        agent.until_quiet(id);
    }
    assert_eq!(world.effects(), 4);
    // A file that compares all arguments again opens no way around what is still open.
    world.configure(&Setup::forgetful());
    drop(server);
    let server = world.serve();
    agent.at(server.address).put("g", &for_week("salt", &json!(32))).refused(409, "action-unresolved");
    assert_eq!(world.effects(), 4);
}
