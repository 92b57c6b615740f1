//! A process that is stopped between connecting and its first byte, and wakes up too late.

use std::time::Duration;

use sim::raw::{RawListener, Step};
use sim::supplier::Flavour;

use crate::support::{Setup, ToolText, World, eventually, order, pass};

const CREATED: &[u8] =
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"id\":\"po_1\"}";

fn world_with(raw: &RawListener, lease: &str) -> World {
    raw.script_for_all(vec![Step::ReadRequest, Step::Write(CREATED.to_vec())]);
    let tool = ToolText::forgetful("supplier.create_order")
        .with_reference()
        .url(format!("http://{}/orders", raw.addr()));
    World::new(Flavour::Forgetful, &Setup::new().server(&format!("lease = \"{lease}\"")).tool(tool))
}

#[test]
fn frozen_past_its_last_moment_it_writes_nothing() {
    let raw = RawListener::start().unwrap();
    let world = world_with(&raw, "6s");
    let agent_token = world.token("kitchen", "app", &["agent"], &[]);
    let server = world.serve_with(&[("COUNTERFOIL_FAILPOINT", "connected_unchecked:1:stop")]);
    let agent = crate::support::Api {
        address: server.address,
        token: agent_token["token"].as_str().unwrap().to_owned(),
    };
    let call = std::thread::spawn({
        let agent = agent.clone();
        move || agent.put("a", &order("flour", 30_000))
    });
    server.wait_frozen();
    assert_eq!(raw.received().len(), 1, "it is connected");
    // Past half the lease, within the lease: no other worker has looked at it.
    pass(Duration::from_millis(3_600));
    server.thaw();
    eventually("the first attempt ends", || {
        agent.get("a").outcomes().first().filter(|outcome| *outcome != "-").cloned()
    });
    let done = call.join().unwrap();
    assert_eq!(done.outcomes(), ["not_sent", "succeeded"], "{}", done.json());
    assert_eq!(done.at("/attempts/0/settled"), true);
    let received = raw.received();
    assert_eq!(received[0].bytes.len(), 0, "bytes of a frozen sender");
    assert_eq!(received.iter().map(sim::raw::Received::requests).sum::<usize>(), 1);
}

#[test]
fn c16_frozen_past_its_lease_it_wakes_beside_another_worker() {
    let raw = RawListener::start().unwrap();
    let world = world_with(&raw, "2s");
    let second = world.serve();
    let agent = world.agent(&second);
    let frozen = world.serve_with(&[("COUNTERFOIL_FAILPOINT", "connected_unchecked:1:stop")]);
    let call = std::thread::spawn({
        let agent = agent.at(frozen.address);
        move || agent.put("a", &order("flour", 30_000))
    });
    frozen.wait_frozen();
    // The other one finds the claim run out; nobody can say whether something was sent, so it is held.
    let held = agent.until_quiet("a");
    assert_eq!((held.state(), held.next()), ("unknown".into(), "review".into()));
    frozen.thaw();
    // The sender itself knows: nothing was sent. That settles its attempt, late as it is, and the order runs.
    let done = agent.until_state("a", &["succeeded"]);
    assert_eq!(done.outcomes(), ["not_sent", "succeeded"]);
    call.join().unwrap();
    let received = raw.received();
    assert_eq!(received[0].bytes.len(), 0, "bytes of a frozen sender");
    assert_eq!(received.iter().map(sim::raw::Received::requests).sum::<usize>(), 1);
    world.verify();
}

#[test]
fn c16_frozen_with_the_answer_in_hand_its_proof_counts() {
    let raw = RawListener::start().unwrap();
    let world = world_with(&raw, "2s");
    let second = world.serve();
    let agent = world.agent(&second);
    let frozen = world.serve_with(&[("COUNTERFOIL_FAILPOINT", "c7_answer_read:1:stop")]);
    let call = std::thread::spawn({
        let agent = agent.at(frozen.address);
        move || agent.put("a", &order("flour", 30_000))
    });
    frozen.wait_frozen();
    agent.until_quiet("a");
    frozen.thaw();
    let done = agent.until_state("a", &["succeeded"]);
    assert_eq!((done.at("/receipt/source"), done.reference()), ("late_report".into(), "po_1".into()));
    // Its own caller was told what was known when it woke; the next call gets the receipt.
    let told = call.join().unwrap();
    assert!(told.status == 202 || told.reference() == "po_1", "{}", told.json());
    assert_eq!(agent.at(frozen.address).execute("a", 0).expect(200).reference(), "po_1");
    assert_eq!(raw.request_count(), 1);
    world.verify();
}
