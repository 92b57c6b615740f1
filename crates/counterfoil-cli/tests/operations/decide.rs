//! Approvals: two principals, and what each is told.

use sim::supplier::{Point, Target};

use super::Kitchen;

fn fingerprint(kitchen: &Kitchen, id: &str) -> String {
    kitchen.run(&["op", "show", id, "--json"]).json()["fingerprint"].as_str().unwrap().to_owned()
}

#[test]
fn another_user_approves_and_only_then_it_is_sent() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.large_order", "order-1", "{}").ended(6);
    let early = kitchen.run(&["op", "execute", "order-1"]).ended(6);
    assert!(early.stderr.contains("`counterfoil explain approval-required`"), "{}", early.stderr);
    let fingerprint = fingerprint(&kitchen, "order-1");
    let command = format!("counterfoil op approve order-1 --fingerprint {fingerprint}\n");
    let shown = kitchen.run(&["op", "show", "order-1"]).stdout;
    assert!(shown.contains(&command), "{shown}");
    let own = kitchen.run(&["op", "approve", "order-1", "--fingerprint", &fingerprint]).ended(1);
    assert!(own.stderr.contains("on this database you are os:ada, who prepared it"), "{}", own.stderr);
    assert!(own.stderr.contains("token create --account kitchen --role approver"), "{}", own.stderr);
    let other = format!("v1:{}", "0".repeat(64));
    kitchen.run_as("bob", &["op", "approve", "order-1", "--fingerprint", &other]).ended(1);
    assert_eq!(kitchen.dedupe.request_count(), 0);
    let approved =
        kitchen.run_as("bob", &["op", "approve", "order-1", "--fingerprint", &fingerprint]).ended(0);
    assert!(approved.stdout.contains("approval     by os:bob at "), "{}", approved.stdout);
    assert!(approved.stderr.contains("`counterfoil op execute order-1`"), "{}", approved.stderr);
    assert_eq!(kitchen.dedupe.request_count(), 0);
    kitchen.run(&["op", "execute", "order-1"]).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
}

/// Two of one action are prepared and the first succeeds: whoever approves the second must have seen that.
#[test]
fn the_approval_of_a_second_of_its_kind_is_printed_with_the_one_to_acknowledge() {
    let kitchen = Kitchen::new();
    for id in ["order-1", "order-2"] {
        let args =
            ["op", "prepare", "supplier.create_order", "--id", id, "--arguments", "{}", "--task", "run-1"];
        kitchen.run(&[&args[..], &["--account", "kitchen"]].concat()).ended(0);
    }
    // The second is held back while the first is on its way.
    let gate = kitchen.dedupe.hold(Point::EffectCommitted, Target::Writes);
    let mut first = kitchen.spawn(&["op", "execute", "order-1"]);
    kitchen.dedupe.wait_for_blocking(Point::EffectCommitted, 1).unwrap();
    let blocked = kitchen.run(&["op", "execute", "order-2"]).ended(6);
    assert!(blocked.stderr.contains("`counterfoil explain blocked-by-operation`"), "{}", blocked.stderr);
    drop(gate);
    kitchen.dedupe.release();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let refused = kitchen.run(&["op", "execute", "order-2", "--json"]).ended(6);
    let error: serde_json::Value = serde_json::from_str(&refused.stderr).unwrap();
    let fingerprint = fingerprint(&kitchen, "order-2");
    let command =
        format!("counterfoil op approve order-2 --fingerprint {fingerprint} --acknowledges order-1");
    assert_eq!(error["error"]["code"], "approval-required");
    assert_eq!(error["error"]["next"]["operation"], "order-1");
    assert_eq!(error["error"]["sent"], "no");
    assert!(error["error"]["hints"][0].as_str().unwrap().contains(&command), "{error}");
    let shown = kitchen.run(&["op", "show", "order-2"]).ended(6).stdout;
    assert!(shown.contains(&command), "{shown}");
    let status = kitchen.run(&["status"]).ended(0).stdout;
    assert!(
        status.contains(&format!("--fingerprint {fingerprint} --acknowledges=order-1 order-2")),
        "{status}"
    );
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    kitchen.run_as("bob", &words).ended(0);
    kitchen.run(&["op", "execute", "order-2"]).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 2);
}

#[test]
fn an_approver_with_a_token_starts_what_carries_a_wish_on_a_server() {
    let kitchen = Kitchen::new();
    let (agent, approver) = (kitchen.token("agent-1", &["agent"]), kitchen.token("ann", &["approver"]));
    let server = kitchen.serve();
    let as_agent = ["--server", &server.url, "--token", &agent];
    let as_approver = ["--server", &server.url, "--token", &approver];
    let args = ["op", "prepare", "supplier.large_order", "--id", "order-1", "--arguments", "{}", "--execute"];
    kitchen.run(&[&args[..], &as_agent[..]].concat()).ended(6);
    let fingerprint = fingerprint(&kitchen, "order-1");
    let approve = ["op", "approve", "order-1", "--fingerprint", &fingerprint];
    let agent_may_not = kitchen.run(&[&approve[..], &as_agent[..]].concat()).ended(1);
    assert!(agent_may_not.stderr.contains("approver"), "{}", agent_may_not.stderr);
    kitchen.run(&[&approve[..], &as_approver[..]].concat()).ended(0);
    kitchen.run(&[&["op", "execute", "order-1"][..], &as_agent[..]].concat()).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
}

#[test]
fn an_approval_on_the_ledger_sends_nothing_even_under_a_wish() {
    let kitchen = Kitchen::new();
    let args = ["op", "prepare", "supplier.large_order", "--id", "order-1", "--arguments", "{}", "--execute"];
    kitchen.run(&[&args[..], &["--account", "kitchen"]].concat()).ended(6);
    let fingerprint = fingerprint(&kitchen, "order-1");
    kitchen.run_as("bob", &["op", "approve", "order-1", "--fingerprint", &fingerprint]).ended(0);
    assert_eq!(kitchen.dedupe.request_count(), 0);
    let shown = kitchen.run(&["op", "show", "order-1", "--json"]).ended(6).json();
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 0);
}

#[test]
fn denied_and_withdrawn_end_rejected_and_cannot_start() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.large_order", "order-1", "{}").ended(6);
    let denied = kitchen.run_as("bob", &["op", "deny", "order-1", "--reason", "too much"]).ended(0);
    assert!(denied.stdout.contains("rejection    approval_denied"), "{}", denied.stdout);
    assert!(!denied.stdout.contains("wanted"), "{}", denied.stdout);
    kitchen.prepare("supplier.create_order", "order-2", "{}").ended(0);
    let withdrawn = kitchen.run(&["op", "withdraw", "order-2", "--json"]).ended(0).json();
    assert_eq!(withdrawn["rejection"]["code"], "withdrawn");
    for id in ["order-1", "order-2"] {
        kitchen.run(&["op", "execute", id]).ended(4);
        kitchen.run(&["op", "show", id]).ended(4);
    }
    assert_eq!(kitchen.dedupe.request_count(), 0);
}

#[test]
fn several_accounts_must_be_chosen_from() {
    let kitchen = Kitchen::new();
    let unknown = kitchen.run(&["op", "prepare", "mail.send", "--id", "a", "--arguments", "{}"]).ended(2);
    assert!(unknown.stderr.contains("--account"), "{}", unknown.stderr);
    for account in ["kitchen", "bar"] {
        let args = ["op", "prepare", "mail.send", "--id", "a", "--arguments", "{}", "--account", account];
        kitchen.run(&args).ended(0);
    }
    let which = kitchen.run(&["op", "show", "a"]).ended(2);
    assert!(which.stderr.contains("known are bar, kitchen"), "{}", which.stderr);
    let one = kitchen.run(&["op", "show", "a", "--account", "bar", "--json"]).ended(6).json();
    assert_eq!(one["account"], "bar");
}

#[test]
fn a_token_for_other_tools_is_told_of_its_patterns_and_not_of_a_role() {
    let kitchen = Kitchen::new();
    let args = ["token", "create", "--account", "kitchen", "--role", "agent", "--tools", "supplier.*"];
    let token = kitchen.run(&args).ended(0).stdout.trim_end().to_owned();
    let server = kitchen.serve();
    let args = ["op", "prepare", "mail.send", "--id", "m", "--arguments", "{}", "--execute", "--json"];
    let refused = kitchen.run(&[&args[..], &["--server", &server.url, "--token", &token]].concat()).ended(1);
    let error: serde_json::Value = serde_json::from_str(&refused.stderr).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["status"]), (&"forbidden".into(), &403.into()));
    let hint = error["error"]["hints"][0].as_str().unwrap();
    assert!(hint.contains("--tools PATTERN") && !hint.contains("role"), "{hint}");
    assert_eq!(refused.stdout, "");
}
