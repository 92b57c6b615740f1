//! An application's own workers, as real processes: slow, frozen, killed, many. The supplier counts.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use sim::seed::Seed;
use sim::supplier::Flavour;

use crate::support::{
    Answer, Api, Replay, Server, Setup, ToolText, Worker, World, order, pass, seeds, worker_process,
};

/// The process that the other stories start.
#[test]
#[ignore = "a worker of another story, as a process of its own"]
fn the_worker_process() {
    worker_process();
}

/// A tool whose worker can look at the supplier's orders, all of them, about requests that live for a second.
fn searched() -> ToolText {
    ToolText::worker("supplier.create_order")
        .recovery("kind = \"lookup\"")
        .recovery("reference = \"worker\"")
        .recovery("lookup = \"worker\"")
        .recovery("authoritative = true")
        .recovery("request_lifetime = \"1s\"")
        .recovery("skew = \"0s\"")
        .budget("attempts = 50")
}

fn world(flavour: Flavour, tool: ToolText) -> (World, Server, Api, Api) {
    let world = World::new(flavour, &Setup::new().tool(tool));
    let server = world.serve();
    let (agent, hand) = (world.agent(&server), world.caller(&server, "kitchen", "hand", &["worker"]));
    (world, server, agent, hand)
}

/// A wish that nobody waits for.
fn wish(agent: &Api, id: &str) {
    agent.put(id, &order(id, 0)).expect(202);
}

fn claim(hand: &Api, id: &str, lease_ms: u64) -> Answer {
    let body = json!({ "worker": "by-hand", "claim_id": id, "lease_ms": lease_ms });
    hand.call("POST", &format!("/v1/operations/{id}/claim"), &body)
}

fn sources(answer: &Answer) -> (String, String) {
    (answer.state(), answer.text("/receipt/source"))
}

#[test]
fn c16_a_frozen_worker_wakes_after_another_has_investigated_and_sent() {
    let (world, _server, agent, hand) = world(Flavour::Forgetful, searched());
    let frozen = Worker::start(&world, &hand, "a", 2_000, "claimed:stop");
    wish(&agent, "order-1");
    frozen.wait_frozen();
    let _second = Worker::start(&world, &hand, "b", 2_000, "");
    let done = agent.until_state("order-1", &["succeeded"]);
    assert_eq!(done.outcomes(), ["unknown", "succeeded"], "{}", done.json());
    assert!(done.at("/lookups").as_array().unwrap().iter().any(|look| look["counts"] == true));
    frozen.thaw();
    // It sees that its moment has passed, sends nothing and says so.
    let told = agent.until("order-1", "told by the first", |answer| answer.outcomes()[0] == "not_sent");
    assert_eq!(sources(&told), ("succeeded".into(), "response".into()), "state never goes back");
    assert_eq!((told.at("/duplicate_suspected"), world.effects(), world.writes()), (json!(false), 1, 1));
    world.verify();
}

#[test]
fn c16_frozen_with_the_answer_in_hand_its_proof_settles() {
    let (world, _server, agent, hand) =
        world(Flavour::Forgetful, ToolText::worker("supplier.create_order").recovery("kind = \"none\""));
    let frozen = Worker::start(&world, &hand, "a", 1_000, "sent:stop");
    wish(&agent, "order-1");
    frozen.wait_frozen();
    let _second = Worker::start(&world, &hand, "b", 1_000, "");
    let held = agent.until_quiet("order-1");
    assert_eq!((held.state(), held.next()), ("unknown".into(), "review".into()));
    pass(Duration::from_millis(1_500));
    assert_eq!(world.writes(), 1, "the second worker was given nothing");
    frozen.thaw();
    let done = agent.until_state("order-1", &["succeeded"]);
    assert_eq!(sources(&done).1, "late_report");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn stopped_in_the_middle_of_a_send_the_second_effect_is_found_out() {
    // What `tool plan` says it rests on: a worker that is stopped between its last look at the time and its first byte,
    // longer than `request_lifetime` says, at a destination that takes late requests all the same.
    let (world, _server, agent, hand) = world(Flavour::Forgetful, searched());
    let frozen = Worker::start(&world, &hand, "a", 2_000, "checked:stop");
    wish(&agent, "order-1");
    frozen.wait_frozen();
    let _second = Worker::start(&world, &hand, "b", 2_000, "");
    agent.until_state("order-1", &["succeeded"]);
    assert_eq!(world.effects(), 1);
    frozen.thaw();
    let flagged = agent.until("order-1", "flagged", |answer| answer.at("/duplicate_suspected") == true);
    assert_eq!((flagged.state(), flagged.next(), world.effects()), ("succeeded".into(), "review".into(), 2));
}

#[test]
fn c17_a_merely_slow_worker_without_heartbeats_is_not_followed_by_a_second_send() {
    let (world, _server, agent, hand) =
        world(Flavour::Forgetful, ToolText::worker("supplier.create_order").recovery("kind = \"none\""));
    let _slow = Worker::start(&world, &hand, "a", 1_000, "sent:slow");
    wish(&agent, "order-1");
    world.wait_effects(1);
    let _others: Vec<Worker> =
        ["b", "c"].iter().map(|name| Worker::start(&world, &hand, name, 1_000, "")).collect();
    let held = agent.until_quiet("order-1");
    assert_eq!(held.state(), "unknown");
    let done = agent.until_state("order-1", &["succeeded"]);
    assert_eq!((done.outcomes(), world.effects(), world.writes()), (vec!["succeeded".into()], 1, 1));
}

#[test]
fn killed_between_effect_and_report_the_record_is_found() {
    let (world, _server, agent, hand) = world(Flavour::Forgetful, searched());
    let mut killed = Worker::start(&world, &hand, "a", 1_000, "sent:kill");
    wish(&agent, "order-1");
    killed.wait_ended();
    assert_eq!(agent.get("order-1").state(), "in_progress");
    let _second = Worker::start(&world, &hand, "b", 1_000, "");
    let done = agent.until_state("order-1", &["succeeded"]);
    assert_eq!((sources(&done).1, done.outcomes().len()), ("lookup".into(), 1));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn killed_between_effect_and_report_the_same_key_collapses() {
    let keyed = ToolText::worker("supplier.create_order")
        .recovery("kind = \"idempotency_key\"")
        .recovery("key = \"worker\"")
        .recovery("retention = \"24h\"");
    let (world, _server, agent, hand) = world(Flavour::dedupe(), keyed);
    let mut killed = Worker::start(&world, &hand, "a", 1_000, "sent:kill");
    wish(&agent, "order-1");
    killed.wait_ended();
    let _second = Worker::start(&world, &hand, "b", 1_000, "");
    let done = agent.until_state("order-1", &["succeeded"]);
    assert_eq!(done.outcomes(), ["unknown", "succeeded"]);
    assert_eq!(done.at("/attempts/0/key"), done.at("/attempts/1/key"));
    assert_eq!((world.effects(), world.writes()), (1, 2));
}

#[test]
fn two_workers_share_a_queue_and_a_killed_server_changes_nothing() {
    let (world, mut server, agent, hand) = world(Flavour::Forgetful, searched());
    for number in 0..12 {
        wish(&agent, &format!("order-{number}"));
    }
    server.kill9();
    let server = world.serve();
    let (agent, hand) = (agent.at(server.address), hand.at(server.address));
    let _both: Vec<Worker> =
        ["a", "b"].iter().map(|name| Worker::start(&world, &hand, name, 10_000, "")).collect();
    let mut by = BTreeMap::<String, usize>::new();
    for number in 0..12 {
        let done = agent.until_state(&format!("order-{number}"), &["succeeded"]);
        assert_eq!(done.outcomes(), ["succeeded"]);
        *by.entry(done.text("/attempts/0/worker")).or_default() += 1;
    }
    assert_eq!((world.effects(), world.writes()), (12, 12), "{by:?}");
    world.verify();
}

#[test]
fn a_hundred_operations_through_four_workers_that_are_killed() {
    for seed in seeds(&[3]) {
        let _replay = Replay::new("a_hundred_operations_through_four_workers_that_are_killed", seed);
        let mut seed = Seed::for_item(seed, 0);
        let (world, _server, agent, hand) = world(Flavour::Forgetful, searched());
        for number in 0..100 {
            wish(&agent, &format!("order-{number:03}"));
        }
        let names = ["a", "b", "c", "d"];
        // So long at each place that most kills strike between two of them.
        let start = |name: &str| Worker::start(&world, &hand, name, 1_000, "every:30");
        let mut workers: Vec<Worker> = names.iter().map(|name| start(name)).collect();
        for _ in 0..20 {
            pass(Duration::from_millis(60 + seed.below(120)));
            let which = seed.below(4) as usize;
            workers[which].kill9();
            workers[which] = start(names[which]);
        }
        let mut attempts = 0;
        for number in 0..100 {
            let id = format!("order-{number:03}");
            let done = agent.until_state(&id, &["succeeded", "rejected"]);
            assert_eq!(done.state(), "succeeded", "{}", done.json());
            assert_eq!(world.effects_with(&format!("\"{id}\"")).len(), 1, "{id}: {}", done.json());
            attempts += done.outcomes().len();
        }
        println!("{attempts} attempts for 100 operations, {} writes", world.writes());
        assert!(attempts > 100, "no kill struck");
        assert_eq!(world.effects(), 100);
        world.verify();
    }
}

#[test]
fn a_pause_stops_claims_and_lets_the_running_one_end() {
    let (world, _server, agent, hand) = world(Flavour::Forgetful, searched());
    for id in ["order-1", "order-2"] {
        wish(&agent, id);
    }
    let running = claim(&hand, "order-1", 30_000).expect(200);
    world.run(&["tool", "pause", "supplier.create_order", "--note", "stocktaking"]).expect(0);
    let _worker = Worker::start(&world, &hand, "a", 2_000, "");
    claim(&hand, "order-2", 2_000).refused(409, "paused");
    let done =
        json!({ "fencing_token": running.at("/fencing_token"), "outcome": "succeeded", "reference": "po_1" });
    let ended = hand.call("POST", "/v1/operations/order-1/attempts/1/outcome", &done).expect(200);
    assert_eq!(ended.state(), "succeeded", "what was granted before may be used");
    pass(Duration::from_millis(800));
    let waits = agent.get("order-2");
    assert_eq!(
        (waits.state(), waits.text("/next/reason"), world.writes()),
        ("prepared".into(), "paused".into(), 0)
    );
    world.run(&["tool", "resume", "supplier.create_order", "--note", "counted"]).expect(0);
    agent.until_state("order-2", &["succeeded"]);
    assert_eq!(world.effects(), 1);
}

#[test]
fn a_revoked_token_claims_and_reports_no_more() {
    let (world, server, agent, _) = world(Flavour::Forgetful, searched());
    let token = world.token("kitchen", "hand", &["worker"], &[]);
    let hand = Api { address: server.address, token: token["token"].as_str().unwrap().to_owned() };
    let mut worker = Worker::start(&world, &hand, "a", 2_000, "");
    wish(&agent, "order-1");
    agent.until_state("order-1", &["succeeded"]);
    world.run(&["token", "revoke", token["id"].as_str().unwrap()]).expect(0);
    worker.wait_ended();
    wish(&agent, "order-2");
    pass(Duration::from_millis(1_500));
    claim(&hand, "order-2", 2_000).refused(401, "unauthenticated");
    assert_eq!((agent.get("order-2").state(), world.effects()), ("prepared".into(), 1));
    // A new token of the same principal goes on.
    let _worker =
        Worker::start(&world, &world.caller(&server, "kitchen", "hand", &["worker"]), "b", 2_000, "");
    agent.until_state("order-2", &["succeeded"]);
    assert_eq!(world.effects(), 2);
}

#[test]
fn c22_a_claim_has_a_deadline_or_is_refused() {
    let (world, _server, agent, hand) = world(Flavour::Forgetful, searched());
    wish(&agent, "order-1");
    for lease in [json!(0), json!(1), json!(999), json!(3_600_001), json!(-1), json!("2s"), json!(1.5)] {
        let body = json!({ "worker": "w", "claim_id": "c", "lease_ms": lease });
        hand.call("POST", "/v1/operations/order-1/claim", &body).refused(400, "invalid-request");
    }
    assert_eq!(agent.get("order-1").at("/attempts"), json!([]));
    let granted = hand.call("POST", "/v1/operations/order-1/claim", &json!({ "worker": "w" })).expect(200);
    assert!(granted.text("/lease_expires_at") > granted.text("/send_before"), "{}", granted.json());
    assert_eq!(world.effects(), 0);
}

#[test]
fn work_that_nobody_takes_stands_in_no_ones_way() {
    let keyed =
        ToolText::keyed("mail.send").with_reference().budget("elapsed = \"10m\"").budget("attempts = 100");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(searched()).tool(keyed));
    let server = world.serve();
    let (agent, hand) = (world.agent(&server), world.caller(&server, "kitchen", "hand", &["worker"]));
    // More than one look at the queue reads.
    for number in 0..300 {
        wish(&agent, &format!("order-{number}"));
    }
    // Longer due than the mail, and with a lease that ends behind all of them.
    claim(&hand, "order-299", 1_000).expect(200);
    world.supplier.fault(sim::supplier::Fault::Status(503)).unwrap();
    let mail = json!({ "tool": "mail.send", "arguments": { "to": "anna" }, "execute": true, "wait_ms": 0 });
    agent.put("mail-1", &mail).expect(202);
    let sent = agent.until_state("mail-1", &["succeeded"]);
    assert_eq!(sent.outcomes(), ["unknown", "succeeded"], "sent again by the executor's rounds");
    let silent = agent.until_state("order-299", &["unknown"]);
    assert_eq!(silent.outcomes(), ["unknown"]);
    assert_eq!(agent.get("order-0").state(), "prepared");
}

/// The shell lines of the page, in order.
fn lines_of_the_page() -> (String, String) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/workers.md");
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = |kind: &str| -> String {
        let fence = format!("```{kind}\n");
        page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
    };
    (blocks("toml"), blocks("sh"))
}

#[test]
fn the_page_runs_as_it_is_written() {
    let (tool, script) = lines_of_the_page();
    let world = World::new(Flavour::dedupe(), &Setup::new());
    let path = world.folder.path().join("counterfoil.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n{tool}")).unwrap();
    let server = world.serve();
    let script = script
        .replace("http://127.0.0.1:8787", &format!("http://{}", server.address))
        .replace("http://127.0.0.1:9090", &world.supplier.url());
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_counterfoil")).parent().unwrap();
    let search = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let ran = Command::new("/bin/sh")
        .args(["-e", "-c", &script])
        .current_dir(world.folder.path())
        .env("PATH", search)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(
        said.contains("\"state\":\"succeeded\"") && said.contains("\"reference\":\"order-18\""),
        "{said}"
    );
    assert_eq!((world.effects(), world.writes()), (1, 1));
    let agent = world.agent(&server);
    let done = agent.get("approved-order-18").expect(200);
    assert!(!done.text("/receipt/result/body/id").is_empty(), "the supplier's own answer is the receipt");
}
