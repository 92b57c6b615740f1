//! A look-up that somebody asks for: it comes at once where it may, counts by the same rule, and never sends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour, SupplierOptions};

use crate::support::{Answer, Api, Setup, ToolText, World, order, pass};

fn searched() -> ToolText {
    ToolText::searched("supplier.create_order").with_reference().http("linger = \"0s\"")
}

/// A world whose supplier's search sees nothing for the first hour.
fn lagging(tool: ToolText) -> World {
    let options =
        SupplierOptions { search_lag: Duration::from_secs(3600), ..SupplierOptions::new(Flavour::Forgetful) };
    World::with_supplier(options, &Setup::new().tool(tool))
}

fn look_ups(world: &World) -> usize {
    world.supplier.requests().iter().filter(|request| request.is_lookup()).count()
}

fn reconcile(caller: &Api) -> Answer {
    caller.decide("a", "reconcile", &Value::Null)
}

#[test]
fn a_hit_on_demand_settles_at_once() {
    // After two seconds nothing is looked up by itself any more.
    let tool = searched().recovery("authoritative = false").recovery("lookup_for = \"2s\"");
    let world = lagging(tool);
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    agent.until("a", "held", |answer| answer.at("/held") == true);
    pass(Duration::from_millis(2_500));
    let quiet = look_ups(&world);
    let missed = reconcile(&agent).expect(202);
    assert_eq!(
        (missed.state(), missed.at("/held"), missed.header("retry-after")),
        ("unknown".into(), json!(true), None)
    );
    assert_eq!(look_ups(&world), quiet + 1);
    world.supplier.advance(Duration::from_secs(4000));
    pass(Duration::from_millis(100));
    assert_eq!(look_ups(&world), quiet + 1);
    let chef = world.approver(&server);
    let began = Instant::now();
    let found = reconcile(&chef).expect(200);
    assert!(began.elapsed() < Duration::from_secs(4), "nobody waits for a look-up that was made");
    assert_eq!((found.at("/receipt/source"), found.at("/replayed")), (json!("lookup"), json!(false)));
    assert_eq!(found.reference(), world.supplier.effects().unwrap()[0].order);
    let again = reconcile(&agent).expect(200);
    assert_eq!((again.at("/replayed"), again.at("/receipt")), (json!(true), found.at("/receipt")));
    assert_eq!((world.effects(), world.writes(), look_ups(&world)), (1, 1, quiet + 2));
    world.verify();
}

/// Sends stand still, also after a restart; look-ups go on, and what they find settles.
#[test]
fn a_pause_of_everything_stops_sends_and_no_look_ups() {
    let world = lagging(searched());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    agent.until("a", "looked up", |answer| answer.at("/lookups/0").is_object());
    world.run(&["tool", "pause", "--all", "--note", "stock-taking"]).expect(0);
    agent.put("b", &order("rice", 0)).expect(202);
    world.supplier.advance(Duration::from_secs(4000));
    let found = agent.until_state("a", &["succeeded", "rejected"]);
    assert_eq!((found.state(), found.text("/receipt/source")), ("succeeded".into(), "lookup".into()));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    assert_eq!(agent.get("b").expect(200).state(), "prepared");
    world.run(&["tool", "resume", "--all", "--note", "done"]).expect(0);
    assert_eq!(agent.until_state("b", &["succeeded", "rejected"]).state(), "succeeded");
    assert_eq!((world.effects(), world.writes()), (2, 2));
    world.verify();
}

#[test]
fn a_miss_on_demand_before_the_wait_counts_for_nothing() {
    let world =
        World::new(Flavour::Forgetful, &Setup::new().tool(searched().recovery("request_lifetime = \"1h\"")));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    agent.until("a", "looked up", |answer| answer.at("/lookups/0").is_object());
    for _ in 0..5 {
        pass(Duration::from_millis(100));
        let missed = reconcile(&agent).expect(202);
        assert_eq!((missed.state(), missed.at("/attempts/0/settled")), ("unknown".into(), json!(false)));
    }
    let seen = agent.get("a").at("/lookups");
    assert!(
        seen.as_array()
            .unwrap()
            .iter()
            .all(|look_up| look_up["answer"] == "absent" && look_up["counts"] == false)
    );
    assert_eq!((world.effects(), world.writes()), (0, 1), "nothing was sent");
}

#[test]
fn however_often_it_is_asked_for_the_supplier_is_asked_once_per_delay() {
    let tool = searched()
        .recovery("authoritative = false")
        .recovery("lookup_for = \"1s\"")
        .budget("first_delay = \"2s\"")
        .budget("max_delay = \"60s\"");
    let world = lagging(tool);
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    agent.until("a", "looked up", |answer| answer.at("/lookups/0").is_object());
    pass(Duration::from_secs(2));
    let (before, began, mut calls) = (look_ups(&world), Instant::now(), 0_u32);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut calls = 0;
                    while began.elapsed() < Duration::from_secs(5) {
                        reconcile(&agent).expect(202);
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        calls = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    });
    let most = usize::try_from(began.elapsed().as_secs() / 2 + 1).unwrap();
    let made = look_ups(&world) - before;
    assert!((2..=most).contains(&made), "{made} look-ups for {calls} calls");
    assert!(calls > 50, "{calls}");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn a_command_on_the_database_asks_too_and_sends_nothing() {
    let world = lagging(searched().recovery("authoritative = false"));
    let mut server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    agent.until("a", "held", |answer| answer.at("/held") == true);
    server.kill9();
    pass(Duration::from_millis(300));
    world.run(&["op", "reconcile", "a", "--account", "kitchen"]).expect(3);
    let counted = world.run(&["op", "reconcile", "--held", "--account", "kitchen"]).expect(6);
    assert!(counted.stderr.contains("1 operations fit"), "{counted:?}");
    let quiet = look_ups(&world);
    world.supplier.advance(Duration::from_secs(4000));
    pass(Duration::from_millis(300));
    let found =
        world.run(&["op", "reconcile", "--held", "--yes", "--json", "--account", "kitchen"]).expect(0);
    assert_eq!(found.json()["receipt"]["source"], "lookup");
    assert_eq!((world.effects(), world.writes(), look_ups(&world)), (1, 1, quiet + 1));
    world.verify();
}
