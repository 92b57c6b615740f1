//! Of the operations about one thing, one at a time.

use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour, Point, Target};

use crate::support::{Answer, Setup, ToolText, World, order, pass};

fn about(label: &str, wait_ms: u64) -> Value {
    let mut wanted = order(label, wait_ms);
    wanted["task"] = json!(label);
    wanted["subject"] = json!("kitchen-7/order/week-32");
    wanted
}

fn prepared(label: &str) -> Value {
    let mut wanted = about(label, 0);
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

#[test]
fn two_operations_about_one_subject_start_at_once_at_two_processes() {
    const ROUNDS: usize = 25;
    let world = World::keyed();
    let servers = [world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    for round in 0..ROUNDS {
        let labels = [format!("flour-{round}"), format!("sugar-{round}")];
        let with_subject = |label: &String| {
            let mut wanted = prepared(label);
            wanted["subject"] = json!(format!("week-{round}"));
            wanted
        };
        for label in &labels {
            agent.put(label, &with_subject(label)).expect(201);
        }
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let calls: Vec<_> = labels
                .iter()
                .zip(&servers)
                .map(|(label, server)| {
                    let (caller, label) = (agent.at(server.address), label.clone());
                    scope.spawn(move || caller.execute(&label, 20_000))
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let done = answers.iter().filter(|answer| answer.status == 200).count();
        let told: Vec<String> = answers.iter().map(Answer::problem).filter(|code| !code.is_empty()).collect();
        assert_eq!((done, told.len()), (1, 1), "{told:?}");
        // Whoever came second was prepared before the success: it waits, or needs a word.
        assert!(["blocked-by-operation", "approval-required"].contains(&told[0].as_str()), "{told:?}");
    }
    assert_eq!((world.effects(), world.writes()), (ROUNDS, ROUNDS));
    world.verify();
}

#[test]
fn a_wish_waits_for_the_subject_and_is_woken_by_whoever_lets_go() {
    let world = searched();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    agent.put("flour", &about("flour", 0)).expect(202);
    agent.until_state("flour", &["unknown"]);
    let waiting = agent.put("sugar", &about("sugar", 0)).expect(202);
    assert_eq!(
        (waiting.next(), waiting.text("/next/reason")),
        ("wait_for_operation".into(), "subject-held".into())
    );
    assert_eq!(waiting.text("/next/operation"), "flour");
    // Another process looks on; nobody asks. The first is repeated after its look-up, and succeeds: the second must
    // name it. Its wish stands.
    let other = world.serve();
    let approver = world.approver(&other);
    agent.until_state("flour", &["succeeded"]);
    let waiting = agent.until("sugar", "in want of a word", |answer| answer.next() == "approve");
    assert_eq!(waiting.text("/next/reason"), "subject-succeeded");
    pass(Duration::from_millis(500));
    assert_eq!(world.effects_with("sugar").len(), 0);
    let fingerprint = waiting.text("/fingerprint");
    let body = json!({ "fingerprint": fingerprint, "acknowledges": "flour" });
    approver.decide("sugar", "approve", &body).expect(200);
    agent.until_state("sugar", &["succeeded"]);
    assert_eq!((world.effects_with("flour").len(), world.effects_with("sugar").len()), (1, 1));
}

#[test]
fn a_refused_holder_lets_go_within_its_own_commit() {
    let world = World::forgetful();
    let servers = [world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    let gate = world.supplier.hold(Point::RequestRead, Target::Writes);
    world.supplier.fault(Fault::Status(422)).unwrap();
    agent.put("flour", &about("flour", 0)).expect(202);
    gate.reached_blocking().unwrap();
    agent.put("sugar", &about("sugar", 0)).expect(202);
    assert_eq!(agent.get("sugar").next(), "wait_for_operation");
    assert_eq!(world.effects(), 0);
    drop(gate);
    let began = std::time::Instant::now();
    agent.until_state("flour", &["rejected"]);
    agent.until_state("sugar", &["succeeded"]);
    // Woken, not looked at again by chance.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(world.effects(), 1);
    let listed =
        agent.call("GET", "/v1/operations?subject=kitchen-7%2Forder%2Fweek-32", &Value::Null).expect(200);
    assert_eq!(listed.at("/items").as_array().unwrap().len(), 2);
    let none = agent.call("GET", "/v1/operations?subject=other", &Value::Null).expect(200);
    assert_eq!(none.at("/items"), json!([]));
    let shown =
        world.run(&["op", "list", "--account", "kitchen", "--subject", "kitchen-7/order/week-32"]).expect(0);
    assert!(shown.stdout.contains("flour") && shown.stdout.contains("sugar"), "{shown:?}");
}
