//! What a caller sees of look-ups, and the kinds that are asked only once nothing may be sent any more.

use serde_json::json;
use sim::supplier::{Fault, Flavour, Target};

use crate::support::{Setup, ToolText, World, order};

fn world(tool: ToolText) -> World {
    World::new(Flavour::Forgetful, &Setup::new().tool(tool.with_reference()))
}

fn searched() -> ToolText {
    ToolText::searched("supplier.create_order").http("timeout = \"1s\"").http("linger = \"0s\"")
}

#[test]
fn look_ups_are_shown_with_what_they_were_told() {
    let world = world(searched());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    for _ in 0..2 {
        world.supplier.fault_on(Target::Lookups, Fault::Status(503)).unwrap();
    }
    let done = agent.put("a", &order("flour", 30_000)).expect(200);
    assert_eq!(
        (done.at("/receipt/source"), done.at("/lookups/0/answer")),
        (json!("lookup"), json!("unclear"))
    );
    assert_eq!((done.at("/lookups/2/answer"), done.at("/lookups/2/counts")), (json!("found"), json!(true)));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_key_that_may_not_be_sent_again_is_looked_up() {
    let tool = ToolText::keyed("supplier.create_order")
        .http("timeout = \"1s\"")
        .http("linger = \"0s\"")
        .recovery("key = \"body:/client_reference\"")
        .recovery("request_lifetime = \"1s\"")
        .recovery("skew = \"0s\"")
        .recovery("retention = \"1h\"")
        .budget("attempts = 1")
        .search("/orders/0/id");
    let world = world(tool);
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    let done = agent.put("a", &order("flour", 30_000)).expect(200);
    assert_eq!(done.at("/receipt/source"), "lookup");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}
