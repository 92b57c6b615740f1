//! The configuration changes between the steps of an operation, and tokens have their limits after its end: whether to
//! send or to show is decided anew each time.

use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour};

use crate::support::{Server, Setup, ToolText, World, eventually, order, pass, signal};

/// Puts another configuration in force and waits until it is.
fn reload(world: &World, server: &Server, setup: &Setup) {
    world.configure(setup);
    signal(server.id(), "HUP");
    pass(Duration::from_millis(700));
}

fn traced(id: u32) -> Value {
    json!({
        "tool": "supplier.create_order", "task": "t",
        "arguments": { "sku": "flour", "trace": id }, "execute": true, "wait_ms": 3_000,
    })
}

#[test]
fn what_is_left_out_of_the_comparison_later_does_not_hide_an_unresolved_action() {
    let plain = ToolText::forgetful("supplier.create_order").with_reference();
    let world = World::new(Flavour::Forgetful, &Setup::new().tool(plain.clone()));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &traced(1));
    assert_eq!(agent.until_quiet("a").state(), "unknown");
    reload(&world, &server, &Setup::new().tool(plain.table("volatile = [\"/trace\"]")));
    let again = agent.put("b", &traced(1));
    assert_eq!(world.effects(), 1, "{}", again.json());
    again.refused(409, "action-unresolved");
}

#[test]
fn an_account_that_lost_a_tool_sends_nothing_more() {
    let plain = ToolText::keyed("supplier.create_order").with_reference();
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(plain.clone()));
    let server = world.serve();
    let agent = world.agent(&server);
    let mut later = order("flour", 0);
    later["execute"] = json!(false);
    agent.put("a", &later).expect(201);
    reload(&world, &server, &Setup::new().tool(plain.clone().table("accounts = [\"other\"]")));
    let held = agent.execute("a", 3_000).expect(202);
    assert_eq!((held.next(), held.text("/next/reason")), ("review".into(), "tool-not-declared".into()));
    pass(Duration::from_millis(400));
    assert_eq!(world.writes(), 0);
    // Given back, the wish that stood since then is carried out.
    reload(&world, &server, &Setup::new().tool(plain));
    assert_eq!(agent.until_quiet("a").state(), "succeeded");
    assert_eq!(world.effects(), 1);
}

#[test]
fn an_approval_under_a_later_declaration_does_not_refuse_an_honest_repeat() {
    let plain = ToolText::keyed("supplier.create_order").with_reference().table("approval = \"required\"");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(plain.clone()));
    let server = world.serve();
    let (agent, approver) = (world.agent(&server), world.approver(&server));
    agent.put("a", &traced(1)).expect(202);
    reload(&world, &server, &Setup::new().tool(plain.table("volatile = [\"/trace\"]")));
    approver.approve("a").expect(200);
    approver.until_state("a", &["succeeded"]);
    let again = agent.put("a", &traced(1));
    assert_eq!(again.expect(200).at("/replayed"), true);
    let mut other = traced(2);
    other["arguments"]["sku"] = json!("sugar");
    agent.put("a", &other).refused(422, "operation-id-reused");
    assert_eq!(world.effects(), 1);
}

#[test]
fn a_token_without_the_tool_does_not_learn_how_it_ended() {
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .table("retention = \"3s\"")
        .budget("elapsed = \"2s\"");
    let setup =
        Setup::new().tool(tool).tool(ToolText::keyed("mail.send")).server("retention_interval = \"1s\"");
    let world = World::new(Flavour::dedupe(), &setup);
    let server = world.serve();
    let agent = world.agent(&server);
    let other = world.token("kitchen", "mailer", &["agent"], &["--tools", "mail.*"]);
    let other =
        crate::support::Api { address: server.address, token: other["token"].as_str().unwrap().into() };
    agent.put("a", &order("flour", 20_000)).expect(200);
    other.get("a").refused(403, "forbidden");
    eventually("the receipt has expired", || (agent.get("a").status == 410).then_some(()));
    // Before it is purged and after.
    let database = world.database();
    let buried = || crate::support::count(&database, "SELECT count(*) FROM counterfoil_tombstones") == 1;
    for after in [false, true] {
        if after {
            eventually("the receipt is purged", || buried().then_some(()));
        }
        let mut mail = order("flour", 0);
        mail["tool"] = json!("mail.send");
        for answer in
            [other.get("a"), other.execute("a", 0), other.put("a", &mail), other.put("a", &order("flour", 0))]
        {
            let answer = answer.refused(403, "forbidden");
            assert!(!answer.json().to_string().contains("succeeded"), "{}", answer.json());
        }
        agent.get("a").refused(410, "receipt-expired");
    }
}
