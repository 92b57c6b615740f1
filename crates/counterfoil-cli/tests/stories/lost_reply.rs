//! The reply is lost, late, cut or wrong: what is known afterwards, and what may be sent.

use serde_json::json;
use sim::proxy::Proxy;
use sim::supplier::{Fault, Flavour, Later, Point, Target};

use crate::support::{Setup, ToolText, World, eventually, order, pass};
use std::time::Duration;

#[test]
fn c01_the_retry_gets_the_receipt_of_the_one_effect() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();

    let first = agent.put("approved-action-17", &order("flour", 0)).expect(202);
    assert_eq!(first.state(), "in_progress");
    let retry = agent.execute("approved-action-17", 20_000).expect(200);
    assert_eq!((retry.state(), retry.at("/receipt/source")), ("succeeded".into(), json!("response")));
    let again = agent.put("approved-action-17", &order("flour", 20_000)).expect(200);
    assert_eq!(again.at("/receipt"), retry.at("/receipt"));
    assert_eq!(again.at("/replayed"), true);

    let effects = world.supplier.effects().unwrap();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].order, retry.reference());
    assert!(retry.at("/attempts/0/error").is_string());
    assert_eq!(retry.at("/attempts/0/marker"), "bytes_written");
    world.verify();
}

#[test]
fn c02_without_recovery_it_is_held_and_calls_change_nothing() {
    let world = World::forgetful();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();

    agent.put("a", &order("flour", 20_000)).expect(202);
    let held = agent.until_quiet("a");
    assert_eq!((held.state(), held.next()), ("unknown".into(), "review".into()));
    let version = held.at("/version");
    for _ in 0..3 {
        let again = agent.put("a", &order("flour", 500)).expect(202);
        assert_eq!((again.state(), again.at("/version")), ("unknown".into(), version.clone()));
        assert_eq!(again.header("retry-after"), None, "only a person can move it");
        assert_eq!(agent.execute("a", 500).expect(202).next(), "review");
    }
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c03_a_repeat_carries_the_same_key_and_makes_no_second_effect() {
    for fault in [Fault::ReplyDropped, Fault::ReplyReset] {
        let world = World::keyed();
        let server = world.serve();
        let agent = world.agent(&server);
        world.supplier.fault(fault).unwrap();
        let done = agent.put("a", &order("flour", 20_000)).expect(200);
        assert_eq!(done.state(), "succeeded");
        assert_eq!(done.outcomes(), ["unknown", "succeeded"]);
        let requests = world.supplier.requests();
        assert_eq!(requests.len(), 2);
        let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key")).collect();
        assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
        assert_eq!(requests[0].body, requests[1].body);
        assert_eq!(done.at("/attempts/0/request_digest"), done.at("/attempts/1/request_digest"));
        assert_eq!(world.effects(), 1);
    }
}

#[test]
fn c05_a_503_after_the_effect_is_no_refusal() {
    for status in [500, 502, 503, 504] {
        let world = World::forgetful();
        let server = world.serve();
        let agent = world.agent(&server);
        world.supplier.fault(Fault::StatusAfterEffect(status)).unwrap();
        agent.put("a", &order("flour", 20_000)).expect(202);
        let held = agent.until_quiet("a");
        assert_eq!((held.state(), held.at("/attempts/0/status")), ("unknown".into(), json!(status)));
        pass(Duration::from_millis(600));
        assert_eq!((world.effects(), world.writes()), (1, 1), "a blind resend after {status}");
    }
}

#[test]
fn c05_with_a_key_a_503_is_repeated_under_it() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::StatusAfterEffect(503)).unwrap();
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!(done.outcomes(), ["unknown", "succeeded"]);
    assert_eq!((world.effects(), world.writes()), (1, 2));
}

#[test]
fn c06_accepted_is_not_succeeded() {
    let world = World::forgetful();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::Accepted202(Later::OnRelease)).unwrap();
    let accepted = agent.put("a", &order("flour", 20_000)).expect(202);
    assert_eq!((accepted.state(), accepted.next()), ("unknown".into(), "review".into()));
    assert_eq!(accepted.outcomes(), ["pending"]);
    assert!(accepted.at("/receipt").is_null());
    assert_eq!(world.effects(), 0);
    world.supplier.release();
    world.wait_effects(1);
    assert_eq!(agent.execute("a", 300).expect(202).state(), "unknown");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c06_with_a_key_accepted_has_a_next_step_and_still_is_no_receipt() {
    let tool = ToolText::keyed("supplier.create_order").with_reference().budget("first_delay = \"10s\"");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool.budget("max_delay = \"10s\"")));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::Accepted202(Later::Never)).unwrap();
    let accepted = agent.put("a", &order("flour", 600)).expect(202);
    let accepted =
        if accepted.state() == "unknown" { accepted } else { agent.until_state("a", &["unknown"]) };
    assert_eq!(accepted.next(), "reconcile");
    assert!(accepted.outcomes().iter().all(|outcome| outcome == "pending"), "{}", accepted.json());
    assert!(accepted.at("/receipt").is_null());
    assert_eq!(world.effects(), 0);
}

#[test]
fn c08_half_a_body_is_no_receipt() {
    let world = World::forgetful();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::TruncatedBody).unwrap();
    agent.put("a", &order("flour", 20_000)).expect(202);
    let held = agent.until_quiet("a");
    assert_eq!((held.state(), held.at("/attempts/0/status")), ("unknown".into(), json!(201)));
    assert!(held.at("/receipt").is_null());
    assert_eq!((world.effects(), world.writes()), (1, 1));
    // The status is kept as evidence.
    let auditor = world.caller(&server, "kitchen", "books", &["auditor"]);
    let evidence = auditor.call("GET", "/v1/operations/a/evidence", &json!(null)).expect(200);
    let rows = evidence.at("/items");
    let outcome = rows.as_array().unwrap().iter().find(|row| row["kind"] == "attempt_outcome").unwrap();
    assert_eq!(outcome["data"]["status"], 201);
}

#[test]
fn c08_with_a_key_the_whole_receipt_follows() {
    for fault in [Fault::TruncatedBody, Fault::GarbageBody, Fault::WrongContentType] {
        let world = World::keyed();
        let server = world.serve();
        let agent = world.agent(&server);
        world.supplier.fault(fault.clone()).unwrap();
        let done = agent.put("a", &order("flour", 20_000)).expect(200);
        assert_eq!(done.outcomes(), ["unknown", "succeeded"], "{fault:?}");
        assert_eq!(world.effects(), 1);
        assert_eq!(done.reference(), world.supplier.effects().unwrap()[0].order);
    }
}

#[test]
fn c09_an_answer_after_the_timeout_is_proof() {
    let tool = ToolText::forgetful("supplier.create_order").with_reference();
    let tool = tool.http("timeout = \"300ms\"").http("linger = \"30s\"");
    let world = World::new(Flavour::Forgetful, &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    let gate = world.supplier.hold(Point::ReplyReady, Target::Writes);
    let first = agent.put("a", &order("flour", 20_000)).expect(202);
    assert_eq!(first.state(), "unknown");
    assert_eq!(first.at("/held"), false, "it is not over yet");
    gate.release();
    let done = agent.until_state("a", &["succeeded"]);
    assert_eq!(done.at("/receipt/source"), "late_report");
    assert_eq!(agent.execute("a", 0).expect(200).reference(), done.reference());
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c10_a_refusal_of_the_second_attempt_says_nothing_about_the_first() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    world.supplier.fault(Fault::Status(400)).unwrap();
    agent.put("a", &order("flour", 20_000)).expect(202);
    let held = agent.until_quiet("a");
    assert_eq!(held.state(), "unknown");
    assert_eq!(held.outcomes(), ["unknown", "rejected"]);
    pass(Duration::from_millis(800));
    assert_eq!(agent.execute("a", 300).expect(202).state(), "unknown");
    assert_eq!((world.effects(), world.writes()), (1, 2), "no third send");
}

#[test]
fn c11_a_refused_connection_sent_nothing() {
    let world = World::forgetful();
    let proxy = Proxy::start(world.supplier.addr()).unwrap();
    proxy.refuse().unwrap();
    let tool = ToolText::forgetful("supplier.create_order")
        .with_reference()
        .url(format!("{}/orders", proxy.url()))
        .budget("attempts = 50")
        .budget("first_delay = \"250ms\"");
    world.configure(&Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &order("flour", 0)).expect(202);
    agent.until("a", "refused three times", |answer| {
        answer.outcomes().iter().filter(|outcome| *outcome == "not_sent").count() >= 3
    });
    assert_eq!(world.writes(), 0);
    proxy.reopen().unwrap();
    let done = agent.until_state("a", &["succeeded"]);
    let outcomes = done.outcomes();
    let (last, earlier) = outcomes.split_last().unwrap();
    assert_eq!(last, "succeeded");
    assert!(earlier.len() >= 3 && earlier.iter().all(|outcome| outcome == "not_sent"), "{earlier:?}");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c12_a_caller_that_hangs_up_changes_nothing() {
    let world = World::forgetful();
    let server = world.serve();
    let agent = world.agent(&server);
    let points = [Point::RequestRead, Point::EffectCommitted, Point::ReplyReady, Point::ReplySent];
    for (number, point) in points.into_iter().enumerate() {
        let id = format!("a{number}");
        let gate = world.supplier.hold(point, Target::WritesContaining(id.clone()));
        let body = order(&id, 30_000).to_string();
        let call = agent.send("PUT", &format!("/v1/operations/{id}"), body.as_bytes()).unwrap();
        gate.reached_blocking().unwrap();
        drop(call);
        gate.release();
        let done = agent.until_state(&id, &["succeeded"]);
        assert_eq!(done.at("/receipt/source"), "response", "{point:?}");
        assert_eq!(world.effects_with(&id).len(), 1, "{point:?}");
    }
    // At once, before anything was read, and in the middle of the request.
    for (number, share) in [(10, 1), (11, 2), (12, 3)] {
        let id = format!("b{number}");
        let body = order(&id, 30_000).to_string();
        let request = agent.request("PUT", &format!("/v1/operations/{id}"), body.as_bytes());
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        std::io::Write::write_all(&mut stream, &request[..request.len() * share / 3]).unwrap();
        drop(stream);
        let retry = agent.put(&id, &order(&id, 20_000));
        assert_eq!(retry.state(), "succeeded");
        assert_eq!(world.effects_with(&id).len(), 1);
    }
    eventually("every effect", || (world.effects() == 7).then_some(()));
    world.verify();
}
