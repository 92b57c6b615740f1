//! The destination is asked what became of a lost request: a hit settles, a miss only where it may.

use std::time::Duration;

use serde_json::json;
use sim::supplier::{Fault, Flavour, SupplierOptions, Target};

use crate::support::{Setup, ToolText, World, eventually, order, pass};

fn tool() -> ToolText {
    ToolText::looked_up("supplier.create_order").with_reference()
}

/// Complete and current answers, and requests that are over after a second.
fn authoritative() -> ToolText {
    let tool = tool().recovery("authoritative = true").recovery("request_lifetime = \"1s\"");
    tool.recovery("skew = \"200ms\"").budget("elapsed = \"5m\"")
}

fn world(tool: ToolText) -> World {
    World::new(Flavour::Forgetful, &Setup::new().tool(tool))
}

#[test]
fn c01_the_record_is_found_and_the_retry_gets_its_receipt() {
    for tool in [authoritative(), tool()] {
        let world = world(tool);
        let server = world.serve();
        let agent = world.agent(&server);
        world.supplier.fault(Fault::ReplyDropped).unwrap();
        let done = agent.put("a", &order("flour", 20_000)).expect(200);
        assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
        assert_eq!(done.at("/lookups/0/answer"), "found");
        let again = agent.put("a", &order("flour", 20_000)).expect(200);
        assert_eq!(again.at("/receipt"), done.at("/receipt"));
        let effects = world.supplier.effects().unwrap();
        assert_eq!((effects.len(), world.writes()), (1, 1));
        assert_eq!(effects[0].order, done.reference());
        world.verify();
    }
}

#[test]
fn a_lost_request_is_sent_again_once_its_absence_is_certain() {
    let world = world(authoritative());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    let done = agent.put("a", &order("flour", 60_000)).expect(200);
    assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("response")));
    assert_eq!(done.outcomes(), ["unknown", "succeeded"]);
    assert_eq!(done.at("/lookups/0/counts"), false, "the first miss came too early to count");
    assert_eq!((world.effects(), world.writes()), (1, 2));
    world.verify();
}

#[test]
fn an_answer_that_may_be_incomplete_never_proves_absence() {
    let world = world(tool());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    agent.put("a", &order("flour", 500)).expect(202);
    eventually("held after a miss", || (agent.get("a").at("/held") == true).then_some(()));
    let held = agent.get("a");
    assert_eq!((held.next(), held.at("/next/reason")), ("review".into(), json!("not-found")));
    pass(Duration::from_secs(2));
    assert_eq!((world.effects(), world.writes()), (0, 1), "nothing is sent on a guess");
}

#[test]
fn an_error_page_is_no_miss_and_a_later_hit_settles() {
    let world = world(authoritative());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    for _ in 0..2 {
        world.supplier.fault_on(Target::Lookups, Fault::Status(503)).unwrap();
    }
    let done = agent.put("a", &order("flour", 30_000)).expect(200);
    assert_eq!(done.at("/receipt/source"), "lookup");
    assert_eq!(done.at("/lookups/0/answer"), "unclear");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c08_a_receipt_that_was_cut_is_fetched_by_a_look_up() {
    let world = world(tool());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::TruncatedBody).unwrap();
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!((done.at("/receipt/source"), done.at("/attempts/0/status")), (json!("lookup"), json!(201)));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_key_that_may_not_be_sent_again_is_looked_up() {
    let lookup = "lookup = { url = \"{supplier}/orders?client_reference={reference}\", found = \"/orders/0/id\", \
                  count = \"/orders\" }";
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .http("timeout = \"1s\"")
        .http("linger = \"0s\"")
        .recovery("key = \"body:/client_reference\"")
        .recovery("request_lifetime = \"1s\"")
        .recovery("skew = \"0s\"")
        .recovery("retention = \"1h\"")
        .budget("attempts = 1")
        .recovery(lookup);
    let world = World::new(Flavour::Forgetful, &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    let done = agent.put("a", &order("flour", 30_000)).expect(200);
    assert_eq!(done.at("/receipt/source"), "lookup");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_record_that_shows_up_late_is_still_found() {
    let mut options = SupplierOptions::new(Flavour::Forgetful);
    options.search_lag = Duration::from_secs(2);
    let world = World::with_supplier(options, &Setup::new().tool(tool()));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 500)).expect(202);
    eventually("found while it is held", || (agent.get("a").state() == "succeeded").then_some(()));
    assert_eq!(agent.get("a").at("/receipt/source"), "lookup");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}
