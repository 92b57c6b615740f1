//! How often and for how long: one retry layer with an end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour, RandomFaults, SupplierOptions, Target};

use crate::support::{Answer, Setup, ToolText, World, eventually, order, pass};

/// A supplier that answers every write with this fault until told otherwise.
fn always(flavour: Flavour, fault: Fault) -> SupplierOptions {
    let mut options = SupplierOptions::new(flavour);
    options.random =
        Some(RandomFaults { seed: 1, per_mille: 1_000, target: Target::Writes, menu: vec![fault] });
    options
}

#[test]
fn c36_throttled_for_good_it_ends_within_its_budget() {
    let tool = ToolText::keyed("supplier.create_order").with_reference().budget("attempts = 3");
    let setup = Setup::new().tool(tool);
    let world = World::with_supplier(always(Flavour::dedupe(), Fault::RetryAfter(429, 2)), &setup);
    let server = world.serve();
    let agent = world.agent(&server);
    let mut wanted = order("flour", 0);
    wanted["task"] = json!("run-41");
    agent.put("a", &wanted).expect(202);
    let waiting = agent.until("a", "throttled", |answer| answer.outcomes() == ["throttled"]);
    assert_eq!((waiting.state(), waiting.next()), ("prepared".into(), "retry".into()));
    // Asking does not bring a send before its time.
    for _ in 0..3 {
        agent.execute("a", 0).expect(202);
    }
    let ended = agent.until_quiet("a");
    assert_eq!(ended.state(), "rejected");
    assert_eq!(ended.text("/rejection/code"), "budget_exhausted");
    assert_eq!(ended.outcomes(), ["throttled", "throttled", "throttled"]);
    let times: Vec<Duration> = world.supplier.requests().iter().map(|request| request.at).collect();
    assert_eq!(times.len(), 3);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(1_990), "{times:?}");
    }
    // A new ID for the same action in that task would be a way around the budget.
    let refused = agent.put("b", &wanted).refused(409, "action-unresolved");
    assert_eq!((refused.text("/operation_id"), refused.state()), ("a".into(), "rejected".into()));
    pass(Duration::from_millis(300));
    assert_eq!((world.effects(), world.writes()), (0, 3));
}

#[test]
fn c36_elapsed_time_ends_it_as_well() {
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .budget("attempts = 100")
        .budget("elapsed = \"3s\"");
    let world =
        World::with_supplier(always(Flavour::dedupe(), Fault::RetryAfter(429, 1)), &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &order("flour", 0)).expect(202);
    let ended = agent.until_quiet("a");
    assert_eq!(ended.text("/rejection/code"), "budget_exhausted");
    assert!((2..=4).contains(&world.writes()), "{} sends in three seconds", world.writes());
    assert_eq!(world.effects(), 0);
}

#[test]
fn c36_delays_are_spread_over_a_thousand_operations() {
    const OPERATIONS: usize = 1_000;
    const CALLERS: usize = 10;
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .budget("attempts = 2")
        .budget("first_delay = \"4s\"")
        .budget("max_delay = \"4s\"");
    let setup = Setup::new().tool(tool);
    let world = World::with_supplier(always(Flavour::dedupe(), Fault::Status(429)), &setup);
    let server = world.serve();
    let agent = world.agent(&server);
    let ids: Vec<String> = (0..OPERATIONS).map(|number| format!("order-{number:04}")).collect();
    std::thread::scope(|scope| {
        for part in ids.chunks(OPERATIONS / CALLERS) {
            let agent = agent.clone();
            scope.spawn(move || {
                for id in part {
                    agent.put(id, &order(id, 0)).expect(202);
                }
            });
        }
    });
    for id in &ids {
        assert_eq!(agent.until_quiet(id).text("/rejection/code"), "budget_exhausted");
    }
    let mut times: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for request in world.supplier.requests() {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        times.entry(body["sku"].as_str().unwrap().to_owned()).or_default().push(request.at);
    }
    assert_eq!(times.len(), OPERATIONS);
    let mut quarters = [0_usize; 4];
    for (id, at) in &times {
        assert_eq!(at.len(), 2, "{id}");
        let gap = (at[1] - at[0]).as_millis();
        quarters[usize::try_from(gap / 1_000).unwrap().min(3)] += 1;
    }
    // Full jitter over four seconds: a quarter of the operations in each. A busy machine makes delays longer, so the
    // last holds what came late; one delay for all would leave the others empty.
    println!("delays by second: {quarters:?}");
    assert!(quarters.iter().all(|share| *share > OPERATIONS / 20), "no jitter visible: {quarters:?}");
    assert_eq!(world.effects(), 0);
}

#[test]
fn c37_retries_of_callers_do_not_multiply() {
    let tool = ToolText::keyed("supplier.create_order").with_reference().budget("attempts = 5");
    let world = World::with_supplier(
        always(Flavour::dedupe(), Fault::StatusAfterEffect(503)),
        &Setup::new().tool(tool),
    );
    let server = world.serve();
    let agent = world.agent(&server);
    // A client library that calls three times, on an HTTP library that repeats each call three times.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..3 {
                    agent.put("a", &order("flour", 100)).expect(202);
                    agent.execute("a", 100).expect(202);
                }
            });
        }
    });
    let ended = agent.until_quiet("a");
    assert_eq!(ended.state(), "unknown");
    pass(Duration::from_millis(500));
    assert!(world.writes() <= 5, "{} requests on the wire", world.writes());
    assert_eq!(world.effects(), 1);
}

#[test]
fn c62_an_expired_credential_pauses_and_rejects_nothing() {
    const ORDERS: usize = 100;
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .http("scope = \"supplier-account-17\"")
        .http("headers = { Authorization = \"Bearer ${file:credential}\" }");
    let setup = Setup::new().tool(tool);
    let world = World::with_supplier(always(Flavour::dedupe(), Fault::Status(401)), &setup);
    std::fs::write(world.folder.path().join("credential"), "expired").unwrap();
    let server = world.serve();
    let agent = world.agent(&server);
    let ids: Vec<String> = (0..ORDERS).map(|number| format!("a{number:03}")).collect();
    // Three refusals in a row pause the tool; the rest of the night's work is accepted and waits.
    for id in ids.iter().take(3) {
        agent.put(id, &order(id, 0)).expect(202);
    }
    eventually("the tool is paused", || {
        (paused(&agent.call("GET", "/v1/tools/supplier.create_order", &json!(null)))).then_some(())
    });
    // What was on its way when the pause came, and the quarter of a second until it is known everywhere.
    pass(Duration::from_millis(600));
    let sent = world.writes();
    assert!((3..=12).contains(&sent), "{sent}");
    for id in ids.iter().skip(3) {
        agent.put(id, &order(id, 0)).expect(202);
    }
    pass(Duration::from_millis(500));
    assert_eq!(world.writes(), sent, "a paused tool sends nothing");
    let listed = agent.call("GET", "/v1/operations?state=prepared&limit=200", &json!(null)).expect(200);
    assert_eq!(listed.at("/items").as_array().unwrap().len(), ORDERS, "none is rejected");
    assert_eq!(world.effects(), 0);

    std::fs::write(world.folder.path().join("credential"), "renewed").unwrap();
    world.supplier.clear_faults();
    world.run(&["tool", "resume", "supplier.create_order", "--note", "credential renewed"]).expect(0);
    for id in &ids {
        assert_eq!(agent.until_quiet(id).state(), "succeeded");
        assert_eq!(world.effects_with(id).len(), 1);
    }
    assert_eq!(world.effects(), ORDERS);
    world.verify();
}

fn paused(tool: &Answer) -> bool {
    match tool.at("/paused") {
        serde_json::Value::Bool(paused) => paused,
        serde_json::Value::Null => false,
        serde_json::Value::Array(pauses) => !pauses.is_empty(),
        serde_json::Value::Object(_) => true,
        serde_json::Value::Number(_) | serde_json::Value::String(_) => panic!("{}", tool.json()),
    }
}

#[test]
fn c38_an_outage_under_ten_thousand_operations_stays_within_the_bucket() {
    const OPERATIONS: usize = 10_000;
    const CALLERS: usize = 8;
    const RATE: f64 = 20.0;
    const BURST: f64 = 5.0;
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .http("destination = \"supplier\"")
        .budget("attempts = 1000")
        .budget("elapsed = \"30m\"")
        .further(&format!("[destinations.supplier]\nrate = {RATE}\nburst = {BURST}\n"));
    let setup = Setup::new().tool(tool);
    let world = World::with_supplier(always(Flavour::dedupe(), Fault::RequestLost), &setup);
    let server = world.serve();
    let agent = world.agent(&server);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let agent = &agent;
            scope.spawn(move || {
                for number in (caller..OPERATIONS).step_by(CALLERS) {
                    let id = format!("a{number}");
                    agent.put(&id, &order(&id, 0)).expect(202);
                }
            });
        }
    });
    // They are all there and all want to go; let the outage last a while longer.
    let (before, called) = (world.writes(), server.figure("counterfoil_ledger_calls_total"));
    eventually("sends go on", || (world.writes() >= before + 40).then_some(()));
    let idle = server.figure("counterfoil_ledger_calls_total") - called;
    let times: Vec<Duration> = world.supplier.requests().iter().map(|request| request.at).collect();
    let lasted = (*times.last().unwrap() - times[0]).as_secs_f64();
    let allowed = BURST + RATE * lasted + 1.0;
    println!(
        "{} requests in {lasted:.1} s of outage, {allowed:.0} allowed; {idle} calls for 40 sends",
        times.len()
    );
    #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
    let sent = times.len() as f64;
    assert!(sent <= allowed, "{sent} requests in {lasted} s");
    assert_eq!(world.effects(), 0);
    // Ten thousand that wait for the bucket do not all ask for each token.
    assert!(idle < 40 * 200, "{idle} calls of the ledger for 40 sends");
}

#[test]
fn a_bucket_is_shared_by_the_processes_of_one_ledger() {
    const RATE: f64 = 10.0;
    const BURST: f64 = 4.0;
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .http("destination = \"supplier\"")
        .budget("elapsed = \"30m\"")
        .further(&format!("[destinations.supplier]\nrate = {RATE}\nburst = {BURST}\n"));
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool));
    let servers = [world.serve(), world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    let ids: Vec<String> = (0..60).map(|number| format!("a{number}")).collect();
    for (id, server) in ids.iter().zip(servers.iter().cycle()) {
        agent.at(server.address).put(id, &order(id, 0));
    }
    for id in &ids {
        assert_eq!(agent.until_state(id, &["succeeded", "rejected"]).state(), "succeeded");
    }
    let times: Vec<Duration> = world.supplier.requests().iter().map(|request| request.at).collect();
    let lasted = (*times.last().unwrap() - times[0]).as_secs_f64();
    let allowed = BURST + RATE * lasted + 1.0;
    println!("{} requests of three processes in {lasted:.1} s, {allowed:.0} allowed", times.len());
    #[allow(clippy::cast_precision_loss, reason = "sixty")]
    let sent = times.len() as f64;
    assert!(sent <= allowed, "{sent} requests in {lasted} s");
    assert_eq!((world.effects(), world.writes()), (ids.len(), ids.len()));
}

#[test]
fn a_budget_is_kept_over_restarts() {
    let tool = ToolText::keyed("supplier.create_order").with_reference().budget("attempts = 4");
    let setup = Setup::new().server("lease = \"1s\"").tool(tool);
    let world = World::with_supplier(always(Flavour::dedupe(), Fault::RequestLost), &setup);
    let mut server = world.serve();
    let mut agent = world.agent(&server);
    agent.put("a", &order("flour", 0)).expect(202);
    // Each process makes an attempt or two and is killed.
    for spent in 1..=3 {
        agent.until("a", "an attempt more", |answer| answer.outcomes().len() >= spent);
        server.kill9();
        server = world.serve();
        agent = agent.at(server.address);
    }
    let ended = agent.until_quiet("a");
    assert_eq!((ended.state(), ended.next()), ("unknown".into(), "review".into()));
    assert_eq!(ended.outcomes().len(), 4);
    assert!(world.writes() <= 4, "{} sends", world.writes());
    // And a further one has no more.
    server.kill9();
    let server = world.serve();
    agent.at(server.address).execute("a", 300).expect(202);
    assert!(world.writes() <= 4, "{} sends", world.writes());
    assert_eq!(world.effects(), 0);
}
