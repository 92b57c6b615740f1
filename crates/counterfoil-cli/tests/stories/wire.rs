//! What is on the wire, byte for byte: nothing underneath sends by itself.

use serde_json::json;
use sim::raw::{RawListener, Step};
use sim::supplier::Flavour;

use crate::support::{Setup, ToolText, World, eventually, order};

const CREATED: &[u8] =
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"id\":\"po_1\"}";

fn requests(raw: &RawListener) -> Vec<usize> {
    raw.received().iter().map(sim::raw::Received::requests).collect()
}

fn world_with(raw: &RawListener, tool: ToolText) -> World {
    let tool = tool.with_reference().url(format!("http://{}/orders", raw.addr()));
    World::new(Flavour::Forgetful, &Setup::new().tool(tool))
}

#[test]
fn c07_a_reset_after_the_body_was_read_is_not_repeated() {
    for end in [Step::Reset, Step::Close] {
        let raw = RawListener::start().unwrap();
        raw.script_for_all(vec![Step::ReadRequest, end]);
        let world = world_with(&raw, ToolText::forgetful("supplier.create_order"));
        let server = world.serve();
        let agent = world.agent(&server);
        agent.put("a", &order("flour", 20_000)).expect(202);
        let held = agent.until_quiet("a");
        assert_eq!((held.state(), held.outcomes()), ("unknown".into(), vec!["unknown".to_owned()]));
        assert_eq!(requests(&raw), [1]);
    }
}

#[test]
fn c07_a_pooled_connection_that_is_reset_carries_one_request() {
    let raw = RawListener::start().unwrap();
    // The first order leaves a connection that may be kept; it is reset under the second order.
    let kept = vec![Step::ReadRequest, Step::Write(CREATED.to_vec()), Step::ReadRequest, Step::Reset];
    raw.script_for_all(kept);
    let tool = ToolText::keyed("supplier.create_order").budget("attempts = 1");
    let world = world_with(&raw, tool);
    let server = world.serve();
    let agent = world.agent(&server);
    assert_eq!(agent.put("a", &order("flour", 20_000)).expect(200).state(), "succeeded");
    agent.put("b", &order("sugar", 20_000)).expect(202);
    let held = agent.until_quiet("b");
    assert_eq!((held.state(), held.outcomes()), ("unknown".into(), vec!["unknown".to_owned()]));
    assert_eq!(requests(&raw), [2], "one request an order, on one connection");
    let bytes = raw.received()[0].bytes.clone();
    assert_eq!(String::from_utf8_lossy(&bytes).matches("sugar").count(), 1);
}

#[test]
fn a_destination_that_cannot_be_asked_gets_a_new_connection_each_time() {
    let raw = RawListener::start().unwrap();
    raw.script_for_all(vec![Step::ReadRequest, Step::Write(CREATED.to_vec())]);
    let world = world_with(&raw, ToolText::forgetful("supplier.create_order"));
    let server = world.serve();
    let agent = world.agent(&server);
    for number in 0..3 {
        let label = format!("flour-{number}");
        assert_eq!(agent.put(&label, &order(&label, 20_000)).expect(200).state(), "succeeded");
    }
    assert_eq!(requests(&raw), [1, 1, 1]);
}

#[test]
fn a_redirect_is_not_followed() {
    for status in ["307 Temporary Redirect", "308 Permanent Redirect", "302 Found"] {
        let elsewhere = RawListener::start().unwrap();
        let raw = RawListener::start().unwrap();
        let answer = format!(
            "HTTP/1.1 {status}\r\nLocation: http://{}/orders\r\nContent-Length: 0\r\n\r\n",
            elsewhere.addr()
        );
        raw.script_for_all(vec![Step::ReadRequest, Step::Write(answer.into_bytes())]);
        let world = world_with(&raw, ToolText::forgetful("supplier.create_order"));
        let server = world.serve();
        let agent = world.agent(&server);
        let answer = agent.put("a", &order("flour", 20_000));
        assert_ne!(answer.state(), "succeeded", "{status}");
        agent.until_quiet("a");
        assert_eq!(requests(&raw), [1]);
        assert!(elsewhere.received().is_empty(), "{status} was followed");
    }
}

#[test]
fn c63_the_first_bytes_are_the_ones_that_are_sent() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    let first = r#"{ "quantity" : 10.0,   "sku":"flour\u002d25kg" }"#;
    let other = r#"{"sku":"flour-25kg","quantity":1e1}"#;
    let body = |arguments: &str, execute: bool| {
        format!(r#"{{"tool":"supplier.create_order","arguments":{arguments},"execute":{execute}}}"#)
    };
    agent.put_text("a", &body(first, false)).expect(201);
    agent.put_text("a", &body(other, false)).expect(200);
    let done = agent.put_text("a", &body(other, true)).expect(200);
    assert_eq!(done.state(), "succeeded");
    let effects = world.supplier.effects().unwrap();
    assert_eq!(effects.len(), 1);
    assert_eq!(String::from_utf8_lossy(&effects[0].body), first);
}

#[test]
fn c63_arguments_that_already_hold_the_reference_are_refused() {
    let tool = ToolText::keyed("supplier.create_order").with_reference();
    let tool = tool.recovery("key = \"body:/client_reference\"");
    let world = World::new(Flavour::Forgetful, &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    let mine = json!({
        "tool": "supplier.create_order",
        "arguments": { "sku": "flour", "client_reference": "mine" },
        "execute": true,
    });
    agent.put("a", &mine).refused(400, "invalid-arguments");
    assert_eq!((agent.listed(), world.writes()), (0, 0));
    // Elsewhere in the arguments the name is nobody's business.
    let nested =
        r#"{"tool":"supplier.create_order","arguments":{"note":{"client_reference":"mine"}},"execute":true}"#;
    let done = agent.put_text("b", nested).expect(200);
    let key = done.text("/attempts/0/key");
    assert_eq!(key.len(), 32, "{key}");
    let sent = String::from_utf8(world.supplier.effects().unwrap()[0].body.clone()).unwrap();
    assert_eq!(sent, format!(r#"{{"note":{{"client_reference":"mine"}},"client_reference":"{key}"}}"#));
}

#[test]
fn nothing_reaches_a_destination_before_its_attempt_is_durable() {
    let raw = RawListener::start().unwrap();
    raw.script_for_all(vec![Step::ReadRequest, Step::Hold]);
    let world = world_with(&raw, ToolText::forgetful("supplier.create_order"));
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &order("flour", 0)).expect(202);
    eventually("the request", || (requests(&raw) == [1]).then_some(()));
    let recorded = crate::support::count(
        &world.database(),
        "SELECT attempts FROM counterfoil_operations WHERE id = 'a' AND stage = 'in_progress'",
    );
    assert_eq!(recorded, 1);
}
