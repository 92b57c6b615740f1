//! Clocks that jump, and processes that do not agree on the time: no wait is cut short, and no claim is taken for dead
//! in a way that doubles a write.

use serde_json::{Value, json};
use sim::supplier::{Flavour, Point, Target};

use crate::support::{Answer, Api, Clock, Setup, ToolText, World, eventually, on_postgres, order};

const TOOL: &str = "supplier.create_order";
const HOUR: i64 = 3_600;

fn look_ups(world: &World) -> usize {
    world.supplier.requests().iter().filter(|request| request.is_lookup()).count()
}

/// A tool whose sender gives up soon, and whose destination may take a request for a good while.
fn searched() -> ToolText {
    ToolText::searched(TOOL)
        .with_reference()
        .http("timeout = \"300ms\"")
        .http("linger = \"0s\"")
        .recovery("request_lifetime = \"20s\"")
        .recovery("skew = \"1s\"")
}

fn counted(answer: &Answer) -> usize {
    let look_ups = answer.at("/lookups");
    look_ups.as_array().unwrap().iter().filter(|look_up| look_up["counts"] == json!(true)).count()
}

#[test]
fn c61_a_clock_that_jumps_ahead_makes_no_miss_count() {
    let world = World::new(Flavour::Forgetful, &Setup::new().tool(searched()));
    let clock = Clock::new(&world);
    let server = world.serve_with(&clock.variables());
    let agent = world.agent(&server);
    // The request is on its way: the supplier has it, and has done nothing yet.
    let gate = world.supplier.hold(Point::RequestRead, Target::Writes);
    agent.put("a", &order("flour", 0)).expect(202);
    gate.reached_blocking().expect("a request");
    agent.until("a", "its sender gave up", |answer| answer.state() == "unknown");

    clock.set(HOUR);
    let before = look_ups(&world);
    eventually("look-ups that begin an hour later by the clock", || {
        (look_ups(&world) >= before + 3).then_some(())
    });
    let meanwhile = agent.get("a").expect(200);
    assert_eq!((meanwhile.state(), counted(&meanwhile)), ("unknown".into(), 0), "{}", meanwhile.json());
    assert_eq!((world.effects(), world.writes()), (0, 1), "an early miss was believed");

    gate.release();
    let done = agent.until_state("a", &["succeeded", "rejected"]);
    assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn c61_a_process_that_starts_after_the_jump_waits_on_its_own_clock() {
    let world = World::new(Flavour::Forgetful, &Setup::new().tool(searched()));
    let clock = Clock::new(&world);
    let mut server = world.serve_with(&clock.variables());
    let agent = world.agent(&server);
    let gate = world.supplier.hold(Point::RequestRead, Target::Writes);
    agent.put("a", &order("flour", 0)).expect(202);
    gate.reached_blocking().expect("a request");
    server.kill9();

    clock.set(HOUR);
    let server = world.serve_with(&clock.variables());
    let agent = agent.at(server.address);
    let before = look_ups(&world);
    eventually("look-ups of the new process", || (look_ups(&world) >= before + 2).then_some(()));
    let meanwhile = agent.get("a").expect(200);
    assert_eq!((meanwhile.state(), counted(&meanwhile)), ("unknown".into(), 0), "{}", meanwhile.json());
    gate.release();
    let done = agent.until_state("a", &["succeeded", "rejected"]);
    assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c18_a_clock_that_jumps_back_during_a_lease_takes_nothing_over_and_sends_nothing_new() {
    // There the database's clock decides, and a node's own may jump.
    if on_postgres() {
        return;
    }
    let setup = Setup::new().tool(ToolText::forgetful(TOOL).with_reference());
    let world = World::new(Flavour::Forgetful, &setup);
    let clock = Clock::new(&world);
    let server = world.serve_with(&clock.variables());
    let agent = world.agent(&server);
    let gate = world.supplier.hold(Point::RequestRead, Target::Writes);
    agent.put("a", &order("flour", 0)).expect(202);
    gate.reached_blocking().expect("a request");

    clock.set(-600);
    let waiting = agent.put("b", &order("sugar", 300)).expect(202);
    assert_eq!((waiting.next(), waiting.text("/next/reason")), ("retry".into(), "clock-in-doubt".into()));
    gate.release();
    assert_eq!(agent.until_state("a", &["succeeded"]).outcomes(), ["succeeded"]);
    assert_eq!((world.effects(), world.writes()), (1, 1), "it was sent while the clock was in doubt");

    // The clock is set right: what waited runs, and no wait had become ten minutes longer.
    clock.set(0);
    assert_eq!(agent.until_state("b", &["succeeded"]).outcomes(), ["succeeded"]);
    assert_eq!((world.effects(), world.writes()), (2, 2));
    world.verify();
}

/// One process holds a request in its hands while another, ten minutes ahead, works on the same ledger.
fn two_processes(flavour: Flavour, tool: ToolText) -> (World, Answer, usize) {
    let world = World::new(flavour, &Setup::new().tool(tool));
    let clock = Clock::new(&world);
    let server = world.serve();
    let agent = world.agent(&server);
    let gate = world.supplier.hold(Point::RequestRead, Target::Writes);
    agent.put("a", &order("flour", 0)).expect(202);
    gate.reached_blocking().expect("a request");

    clock.set(600);
    let ahead = world.serve_with(&clock.variables());
    let other: Api = agent.at(ahead.address);
    // Whatever it makes of the claim that looks ten minutes old: it was asked for, by retries and by itself.
    for _ in 0..3 {
        other.put("a", &order("flour", 200));
        other.execute("a", 200);
    }
    let held_back = world.writes();
    gate.release();
    let done = other.until_state("a", &["succeeded", "rejected"]);
    assert_eq!(agent.get("a").at("/receipt"), done.at("/receipt"), "both processes show one receipt");
    (world, done, held_back)
}

#[test]
fn c18_two_processes_ten_minutes_apart_make_one_effect_without_any_recovery() {
    let (world, done, sent) = two_processes(Flavour::Forgetful, ToolText::forgetful(TOOL).with_reference());
    assert_eq!((done.state(), sent), ("succeeded".into(), 1));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn c18_two_processes_ten_minutes_apart_make_one_effect_with_a_key() {
    let (world, done, _) = two_processes(Flavour::dedupe(), ToolText::keyed(TOOL).with_reference());
    assert_eq!(done.state(), "succeeded");
    assert_eq!(world.effects(), 1);
    let keys: Value = done.at("/attempts");
    let keys: std::collections::BTreeSet<String> =
        keys.as_array().unwrap().iter().map(|attempt| attempt["key"].to_string()).collect();
    assert_eq!(keys.len(), 1, "one key for all of them");
}

#[test]
fn c18_two_processes_ten_minutes_apart_make_one_effect_with_a_look_up() {
    let (world, done, sent) = two_processes(Flavour::Forgetful, searched().http("timeout = \"20s\""));
    assert_eq!((done.state(), sent), ("succeeded".into(), 1));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}
