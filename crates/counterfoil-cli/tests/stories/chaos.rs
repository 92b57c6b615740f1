//! Everything at once, from a seed: a supplier that fails in every way, callers that retry, and two servers on one
//! ledger that are killed and started again. Then everything heals, and the auditor compares what the ledger claims
//! with what the supplier did.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use sim::auditor::{self, Expected, State};
use sim::seed::Seed;
use sim::supplier::{Fault, Flavour, RandomFaults, SupplierOptions, Target};

use crate::support::{Api, Replay, Setup, ToolText, World, eventually, order, pass, seeds};

const OPERATIONS: u64 = 60;
const CALLERS: u64 = 6;
const KILLS: u64 = 6;

fn menu() -> Vec<Fault> {
    vec![
        Fault::CloseBeforeRead,
        Fault::ResetAfterHeadersRead,
        Fault::RequestLost,
        Fault::ReplyDropped,
        Fault::ReplyReset,
        Fault::StatusAfterEffect(503),
        Fault::StatusAfterEffect(500),
        Fault::Status(503),
        Fault::Status(400),
        Fault::RetryAfter(429, 1),
        Fault::TruncatedBody,
        Fault::GarbageBody,
        Fault::SlowReply(Duration::from_millis(700)),
        Fault::CloseAfterReply,
    ]
}

fn world(keyed: bool, seed: u64) -> World {
    let (flavour, tool) = if keyed {
        (Flavour::dedupe(), ToolText::keyed("supplier.create_order"))
    } else {
        (Flavour::Forgetful, ToolText::forgetful("supplier.create_order"))
    };
    let mut options = SupplierOptions::new(flavour);
    options.random = Some(RandomFaults { seed, per_mille: 450, target: Target::Writes, menu: menu() });
    // Some answers come after the timeout, some after the linger.
    let tool = tool.with_reference().http("timeout = \"400ms\"").http("linger = \"200ms\"");
    World::with_supplier(options, &Setup::new().server("lease = \"1s\"").tool(tool))
}

/// A caller that retries with the same ID, at whichever server answers, until nothing more is to come.
fn call(agent: &Api, addresses: &Mutex<[SocketAddr; 2]>, id: &str, seed: &mut Seed) {
    eventually("an answer", || {
        let address = addresses.lock().unwrap()[usize::try_from(seed.below(2)).unwrap()];
        let answer = agent.at(address).try_put(id, &order(id, seed.below(900))).ok()?;
        match answer.status {
            200 => Some(()),
            202 => (answer.at("/held") == true).then_some(()),
            503 => None,
            status => panic!("{id}: {status}: {}", answer.json()),
        }
    });
}

fn run(story: &'static str, keyed: bool, seed: u64) {
    let _replay = Replay::new(story, seed);
    let world = world(keyed, seed);
    let mut servers = [world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    let addresses = Mutex::new([servers[0].address, servers[1].address]);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (agent, addresses) = (&agent, &addresses);
            scope.spawn(move || {
                let mut seed = Seed::for_item(seed, caller);
                for number in (0..OPERATIONS).filter(|number| number % CALLERS == caller) {
                    call(agent, addresses, &format!("order-{number:03}"), &mut seed);
                }
            });
        }
        let mut seed = Seed::for_item(seed, CALLERS);
        for _ in 0..KILLS {
            pass(Duration::from_millis(150 + seed.below(500)));
            let victim = usize::try_from(seed.below(2)).unwrap();
            servers[victim].kill9();
            servers[victim] = world.serve();
            addresses.lock().unwrap()[victim] = servers[victim].address;
        }
    });
    world.supplier.clear_faults();
    let agent = agent.at(servers[0].address);
    let claims: Vec<Expected> = (0..OPERATIONS)
        .map(|number| {
            let id = format!("order-{number:03}");
            let rest = agent.until_quiet(&id);
            let state = match rest.state().as_str() {
                "succeeded" => State::Succeeded,
                "rejected" => State::Rejected,
                _ => State::Open,
            };
            let claim = Expected::new(id, state);
            if state == State::Succeeded { claim.with_receipt(rest.reference()) } else { claim }
        })
        .collect();
    let effects = world.supplier.effects().unwrap();
    let groups = auditor::group_by(&effects, |effect| effect.value()["sku"].as_str().map(str::to_owned));
    let report = auditor::audit(&claims, &groups);
    assert_eq!(report.violations, [], "seed {seed}");
    assert!(world.supplier.faults_struck().len() > 10, "few faults struck");
    let running = agent.call("GET", "/v1/operations?state=in_progress", &Value::Null).expect(200);
    assert_eq!(running.at("/items"), json!([]));
    world.verify();
}

#[test]
fn everything_at_once_keyed() {
    for seed in seeds(&[7, 19]) {
        run("everything_at_once_keyed", true, seed);
    }
}

#[test]
fn everything_at_once_forgetful() {
    for seed in seeds(&[7, 19]) {
        run("everything_at_once_forgetful", false, seed);
    }
}
