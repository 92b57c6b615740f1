//! `op prepare` and `op execute`, on a ledger and through a server: exit codes, exact bytes, and effects.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use sim::supplier::{Fault, Point};

use super::Kitchen;

const ORDER: &str = r#"{"sku":"flour-25kg","quantity":10}"#;

#[test]
fn prepared_executed_and_replayed_with_one_effect() {
    let kitchen = Kitchen::new();
    let prepared = kitchen.prepare("supplier.create_order", "order-1", ORDER).ended(0);
    insta::assert_snapshot!("prepared", prepared.steady());
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 0);
    // Stored, not over: showing it says that it waits.
    kitchen.run(&["op", "show", "order-1"]).ended(6);
    let done = kitchen.run(&["op", "execute", "order-1", "--json"]).ended(0).json();
    assert_eq!((&done["state"], &done["replayed"]), (&"succeeded".into(), &false.into()));
    let again = kitchen.run(&["op", "execute", "order-1", "--json"]).ended(0).json();
    assert_eq!((&again["receipt"], &again["replayed"]), (&done["receipt"], &true.into()));
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
    assert_eq!(kitchen.dedupe.request_count(), 1);
}

#[test]
fn a_lost_reply_under_a_key_is_retried_in_the_same_process() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.create_order", "order-1", ORDER).ended(0);
    kitchen.dedupe.fault(Fault::ReplyDropped).unwrap();
    kitchen.dedupe.fault(Fault::ReplyReset).unwrap();
    let done = kitchen.run(&["op", "execute", "order-1", "--json"]).ended(0).json();
    assert_eq!(done["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
    assert_eq!(kitchen.dedupe.request_count(), 3);
}

#[test]
fn a_lost_reply_without_recovery_is_held_and_never_sent_again() {
    let kitchen = Kitchen::new();
    kitchen.forgetful.fault(Fault::ReplyDropped).unwrap();
    let args = ["op", "prepare", "mail.send", "--id", "mail-1", "--arguments", "{}", "--account", "kitchen"];
    let held = kitchen.run(&[&args[..], &["--execute"]].concat()).ended(3);
    assert!(held.stdout.starts_with("mail-1  unknown, held\n"), "{}", held.stdout);
    insta::assert_snapshot!("held", held.steady().replace(kitchen.path().to_str().unwrap(), ""));
    kitchen.run(&["op", "execute", "mail-1"]).ended(3);
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
    assert_eq!(kitchen.forgetful.request_count(), 1);
}

#[test]
fn refusals_and_unreachable_destinations_have_their_codes() {
    let kitchen = Kitchen::new();
    kitchen.dedupe.fault(Fault::Status(422)).unwrap();
    let args =
        ["op", "prepare", "supplier.create_order", "--arguments", ORDER, "--account", "kitchen", "--id"];
    let rejected = kitchen.run(&[&args[..], &["order-1", "--execute"]].concat()).ended(4);
    assert!(rejected.stdout.contains("rejection    destination_rejected"), "{}", rejected.stdout);
    let missing = kitchen.run(&["op", "execute", "order-2"]).ended(1);
    assert_eq!(missing.stdout, "");
    assert!(missing.stderr.contains("`counterfoil explain unknown-operation`"), "{}", missing.stderr);
    let reused =
        kitchen.prepare("supplier.create_order", "order-1", r#"{"sku":"secret","quantity":10}"#).ended(1);
    assert!(reused.stderr.contains("differs in: arguments.sku"), "{}", reused.stderr);
    assert!(!reused.stderr.contains("secret"));
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 0);
}

#[test]
fn arguments_come_from_options_files_and_standard_input_as_exact_bytes() {
    let kitchen = Kitchen::new();
    let exact = r#"{ "n": 1.0, "big":123456789012345678901234567890, "e": 1E+2 }"#;
    std::fs::write(kitchen.path().join("order.json"), format!("{exact}\n")).unwrap();
    let args = ["op", "prepare", "supplier.create_order", "--account", "kitchen", "--json"];
    let text = kitchen.run(&[&args[..], &["--id", "a", "--arguments", exact]].concat()).ended(0);
    let file = kitchen.run(&[&args[..], &["--id", "b", "--arguments", "@order.json"]].concat()).ended(0);
    let piped = kitchen
        .run_with(&[&args[..], &["--id", "c", "--arguments", "-"]].concat(), exact.as_bytes())
        .ended(0);
    for ran in [text, file, piped] {
        assert!(ran.stdout.contains(&format!("\"arguments\":{exact}")), "{}", ran.stdout);
    }
    kitchen.run(&["op", "execute", "a"]).ended(0);
    assert!(kitchen.dedupe.requests().iter().any(|request| request.contains(exact)));
    // What is no single JSON object cannot become anything else.
    for bad in [r#"{},"execute":true"#, "{", "[]", r#"{"a":1,"a":2}"#] {
        kitchen.run(&[&args[..], &["--id", "d", "--arguments", bad]].concat()).ended(1);
    }
    kitchen.run(&["op", "show", "d"]).ended(1);
}

#[test]
fn a_dry_run_stores_nothing() {
    let kitchen = Kitchen::new();
    let args = [
        "op",
        "prepare",
        "supplier.create_order",
        "--id",
        "a",
        "--account",
        "kitchen",
        "--dry-run",
        "--arguments",
    ];
    assert_eq!(kitchen.run(&[&args[..], &["{}"]].concat()).ended(0).stdout, "would create\n");
    kitchen.prepare("supplier.create_order", "a", "{}").ended(0);
    assert_eq!(kitchen.run(&[&args[..], &["{}"]].concat()).ended(0).stdout, "would replay\n");
    let refused = kitchen.run(&[&args[..], &[r#"{"x":1}"#]].concat()).ended(1);
    assert!(refused.stdout.starts_with("would refuse\n"), "{}", refused.stdout);
    let items = kitchen.run(&["op", "list", "--json"]).ended(0).json();
    assert_eq!(items["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_server_answers_with_the_same_bytes_as_the_ledger() {
    let kitchen = Kitchen::new();
    let token = kitchen.token("agent-1", &["agent", "approver"]);
    let server = kitchen.serve();
    let remote = ["--server", &server.url, "--token", &token];
    kitchen.dedupe.fault(Fault::ReplyDropped).unwrap();
    let args =
        ["op", "prepare", "supplier.create_order", "--id", "order-1", "--arguments", ORDER, "--execute"];
    let long = kitchen.run(&[&args[..], &remote[..], &["--wait", "3m"]].concat()).ended(2);
    assert!(long.stderr.starts_with("error: --wait is more than 2m, "), "{}", long.stderr);
    assert_eq!(kitchen.dedupe.request_count(), 0);
    kitchen.run(&[&args[..], &remote[..]].concat()).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
    for args in [
        &["op", "show", "order-1", "--json"][..],
        &["op", "show", "order-1"],
        &["op", "show", "order-1", "--evidence"],
        &["op", "list", "--json"],
        &["op", "list"],
        &["op", "execute", "order-1", "--json"],
        &["tool", "list", "--json"],
        &["tool", "list"],
    ] {
        let here = kitchen.run(args).ended(0);
        let there = kitchen.run(&[args, &remote[..]].concat()).ended(0);
        assert_eq!(here.stdout, there.stdout, "{args:?}");
    }
    let (here, there) = (
        kitchen.run(&["op", "show", "order-2"]).ended(1),
        kitchen.run(&[&["op", "show", "order-2"][..], &remote[..]].concat()).ended(1),
    );
    assert_eq!(here.stderr, there.stderr);
}

#[test]
fn a_server_that_is_not_there_or_does_not_know_the_token_is_told_apart() {
    let kitchen = Kitchen::new();
    let nobody = kitchen.run(&["op", "list", "--server", "http://127.0.0.1:1", "--token", "cf_x"]).ended(1);
    assert!(nobody.stderr.contains("cannot be reached"), "{}", nobody.stderr);
    kitchen.token("agent-1", &["agent"]);
    let server = kitchen.serve();
    let stranger = kitchen.run(&["op", "list", "--server", &server.url, "--token", "cf_canary"]).ended(1);
    assert!(
        stranger.stderr.contains("unauthenticated") && !stranger.stderr.contains("canary"),
        "{}",
        stranger.stderr
    );
}

#[test]
fn an_interrupted_command_records_the_attempt_before_it_ends() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.create_order", "order-1", ORDER).ended(0);
    kitchen.dedupe.fault(Fault::SlowReply(Duration::from_secs(1))).unwrap();
    let mut child = kitchen.spawn(&["op", "execute", "order-1"]);
    kitchen.dedupe.wait_for_blocking(Point::EffectCommitted, 1).unwrap();
    let interrupt = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    // Said before it is over.
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let waits = "interrupted: waiting until the attempt on its way is recorded, at most 11s";
    assert!(said.starts_with(waits), "{said}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    kitchen.run(&["op", "show", "order-1"]).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
    assert_eq!(kitchen.dedupe.request_count(), 1);
}

#[test]
fn a_wait_that_is_over_loses_no_outcome_either() {
    let kitchen = Kitchen::new();
    kitchen.prepare("mail.send", "mail-1", "{}").ended(0);
    kitchen.forgetful.fault(Fault::SlowReply(Duration::from_secs(1))).unwrap();
    let ran = kitchen.run(&["op", "execute", "mail-1", "--wait", "100ms", "--json"]).ended(0).json();
    assert_eq!(ran["state"], "succeeded");
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
}

#[test]
fn many_processes_at_once_make_one_effect_and_tell_one_receipt() {
    let kitchen = Kitchen::new();
    kitchen.prepare("mail.send", "mail-1", "{}").ended(0);
    kitchen.forgetful.fault(Fault::SlowReply(Duration::from_millis(300))).unwrap();
    let children: Vec<_> = (0..4).map(|_| kitchen.spawn(&["op", "execute", "mail-1", "--json"])).collect();
    let mut receipts = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        receipts.push(shown["receipt"]["reference"].clone());
    }
    receipts.dedup();
    assert_eq!(receipts.len(), 1);
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
}

#[test]
fn another_due_operation_is_left_to_the_server() {
    let kitchen = Kitchen::new();
    let wished =
        ["op", "prepare", "supplier.large_order", "--id", "wished", "--arguments", "{}", "--execute"];
    kitchen.run(&[&wished[..], &["--account", "kitchen"]].concat()).ended(6);
    let fingerprint = kitchen.run(&["op", "show", "wished", "--json"]).json()["fingerprint"].clone();
    kitchen
        .run_as("bob", &["op", "approve", "wished", "--fingerprint", fingerprint.as_str().unwrap()])
        .ended(0);
    kitchen.prepare("supplier.create_order", "order-1", ORDER).ended(0);
    kitchen.dedupe.fault(Fault::SlowReply(Duration::from_millis(500))).unwrap();
    kitchen.run(&["op", "execute", "order-1"]).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
    kitchen.run(&["op", "execute", "wished"]).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 2);
}

#[test]
fn a_server_on_a_socket_is_reached_by_its_path() {
    let kitchen = Kitchen::new();
    let token = kitchen.token("agent-1", &["agent"]);
    let server = kitchen.serve_on("unix:cf.sock");
    assert!(server.url.starts_with("unix:"), "{}", server.url);
    let args = ["op", "prepare", "mail.send", "--id", "m", "--arguments", "{}", "--execute", "--server"];
    kitchen.run(&[&args[..], &[&server.url, "--token", &token]].concat()).ended(0);
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
}
