//! `tool pause` and `tool resume`: nothing is sent in between.

use super::Kitchen;

#[test]
fn nothing_is_sent_while_a_tool_is_paused() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.create_order", "order-1", "{}").ended(0);
    let paused =
        kitchen.run(&["tool", "pause", "supplier.create_order", "--note", "supplier\u{1b} is down"]).ended(0);
    assert!(paused.stdout.contains(r"by os:ada: supplier\u{1b} is down"), "{}", paused.stdout);
    let waits = kitchen.run(&["op", "execute", "order-1", "--wait", "1s", "--json"]).ended(6).json();
    assert_eq!(waits["attempts"].as_array().unwrap().len(), 0);
    assert_eq!(kitchen.dedupe.request_count(), 0);
    let resumed =
        kitchen.run(&["tool", "resume", "supplier.create_order", "--note", "up", "--json"]).ended(0).json();
    assert_eq!(
        (&resumed["name"], &resumed["paused"]),
        (&"supplier.create_order".into(), &serde_json::json!([]))
    );
    kitchen.run(&["op", "execute", "order-1"]).ended(0);
    assert_eq!(kitchen.dedupe.effect_count().unwrap(), 1);
}

#[test]
fn a_pause_of_everything_is_ended_by_a_resume_of_everything_only() {
    let kitchen = Kitchen::new();
    kitchen.prepare("mail.send", "mail-1", "{}").ended(0);
    let paused = kitchen.run(&["tool", "pause", "--all", "--note", "incident 7", "--json"]).ended(0).json();
    assert!(paused["items"].as_array().unwrap().iter().all(|tool| tool["paused"][0]["everything"] == true));
    let one = kitchen.run(&["tool", "resume", "mail.send", "--note", "no"]).ended(0);
    assert!(one.stderr.contains("mail.send still stands still: everything paused since "), "{}", one.stderr);
    assert!(one.stderr.contains("`counterfoil tool resume --all --note"), "{}", one.stderr);
    kitchen.run(&["op", "execute", "mail-1", "--wait", "1s"]).ended(6);
    assert_eq!(kitchen.forgetful.request_count(), 0);
    kitchen.run(&["tool", "resume", "--all", "--note", "over"]).ended(0);
    kitchen.run(&["op", "execute", "mail-1"]).ended(0);
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
}

#[test]
fn a_second_pause_says_that_the_first_one_stands() {
    let kitchen = Kitchen::new();
    for which in ["mail.send", "--all"] {
        let pause = |note: &str| kitchen.run(&["tool", "pause", which, "--note", note]).ended(0).stderr;
        assert_eq!(pause("incident 7"), "");
        assert_eq!(pause("incident 7"), "");
        let again = pause("incident 8");
        let stands = again.contains("the earlier pause stands: ") && again.contains("by os:ada: incident 7");
        assert!(stands && again.lines().count() == if which == "--all" { 2 } else { 1 }, "{again}");
    }
}

#[test]
fn through_a_server_every_tool_is_paused_and_resumed() {
    let kitchen = Kitchen::new();
    let operator = kitchen.token("ops", &["operator"]);
    let agent = kitchen.token("agent-1", &["agent"]);
    let server = kitchen.serve();
    let remote = ["--server", &server.url, "--token", &operator];
    kitchen.run(&[&["tool", "pause", "--all", "--note", "drill"][..], &remote[..]].concat()).ended(0);
    let as_agent = ["--server", &server.url, "--token", &agent];
    let refused =
        kitchen.run(&[&["tool", "pause", "mail.send", "--note", "x"][..], &as_agent[..]].concat()).ended(1);
    assert!(refused.stderr.contains("operator"), "{}", refused.stderr);
    let args = ["op", "prepare", "mail.send", "--id", "m", "--arguments", "{}", "--execute", "--wait", "1s"];
    kitchen.run(&[&args[..], &as_agent[..]].concat()).ended(6);
    assert_eq!(kitchen.forgetful.request_count(), 0);
    kitchen.run(&[&["tool", "resume", "--all", "--note", "over"][..], &remote[..]].concat()).ended(0);
    kitchen.run(&[&["op", "execute", "m"][..], &as_agent[..]].concat()).ended(0);
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
}

#[test]
fn unknown_tools_and_empty_notes_are_refused() {
    let kitchen = Kitchen::new();
    kitchen.run(&["tool", "pause", "nobody.knows", "--note", "x"]).ended(1);
    kitchen.run(&["tool", "pause", "mail.send"]).ended(2);
    kitchen.run(&["tool", "pause", "mail.send", "--note", " "]).ended(2);
}
