//! `status`: the screen for whoever is woken.

use std::fs;

use sim::supplier::Fault;

use super::Kitchen;

#[test]
fn nothing_to_do_is_said_in_few_lines() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.create_order", "order-1", "{}").ended(0);
    kitchen.run(&["op", "execute", "order-1"]).ended(0);
    let status = kitchen.run(&["status"]).ended(0);
    assert_eq!(status.stdout, "accounts  kitchen\nmark      current\nopen      nothing\n\nNothing to do.\n");
}

#[test]
fn trouble_is_listed_with_the_commands_to_paste() {
    let kitchen = Kitchen::new();
    kitchen.forgetful.fault(Fault::ReplyDropped).unwrap();
    let args =
        ["op", "prepare", "mail.send", "--arguments", "{}", "--account", "kitchen", "--execute", "--id"];
    kitchen.run(&[&args[..], &["$(reboot)"]].concat()).ended(3);
    kitchen.prepare("supplier.large_order", "order-2", "{}").ended(6);
    kitchen.run(&["tool", "pause", "mail.send", "--note", "incident 7"]).ended(0);
    let status = kitchen.run(&["status"]).ended(0);
    insta::assert_snapshot!("trouble", status.steady());
    let json = kitchen.run(&["status", "--json"]).ended(0).json();
    assert_eq!(json["oldest_unknown"]["id"], "$(reboot)");
    assert_eq!((&json["held"][0]["tool"], &json["held"][0]["count"]), (&"mail.send".into(), &1.into()));
    assert_eq!(json["paused"][0]["note"], "incident 7");
    assert_eq!(json["failing"][0]["tool"], "mail.send");
    let commands: Vec<&str> =
        json["todo"].as_array().unwrap().iter().map(|advice| advice["command"].as_str().unwrap()).collect();
    assert!(commands[0].starts_with("counterfoil tool resume mail.send "), "{commands:?}");
    assert_eq!(commands.iter().collect::<std::collections::BTreeSet<_>>().len(), commands.len());
    // Pasted as they stand, the commands do what they say.
    for advice in json["todo"].as_array().unwrap() {
        let command = advice["command"].as_str().unwrap();
        let program = format!("PATH={}:$PATH; {command}", kitchen.bin().display());
        let ran = std::process::Command::new("/bin/sh")
            .args(["-c", &program])
            .current_dir(kitchen.path())
            .env("USER", "ada")
            .output()
            .unwrap();
        assert!(matches!(ran.status.code(), Some(0 | 3 | 6)), "{command}: {ran:?}");
    }
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
}

#[test]
fn a_server_shows_the_same_screen_of_its_tokens_account() {
    let kitchen = Kitchen::new();
    let token = kitchen.token("ops", &["operator", "auditor"]);
    kitchen.forgetful.fault(Fault::ReplyDropped).unwrap();
    let args =
        ["op", "prepare", "mail.send", "--arguments", "{}", "--account", "kitchen", "--execute", "--id", "m"];
    kitchen.run(&args).ended(3);
    kitchen.run(&["tool", "pause", "mail.send", "--note", "incident 7"]).ended(0);
    let server = kitchen.serve();
    let remote =
        kitchen.run(&["status", "--json", "--server", &server.url, "--token", &token]).ended(0).json();
    let here = kitchen.run(&["status", "--json"]).ended(0).json();
    for member in ["open", "oldest_unknown", "held", "approvals", "paused", "failing", "duplicates_suspected"]
    {
        assert_eq!(here[member], remote[member], "{member}");
    }
}

#[test]
fn a_restored_ledger_is_noticed_everywhere_until_somebody_resumes_it() {
    let kitchen = Kitchen::new();
    let ledger = kitchen.path().join("ledger.db");
    kitchen.prepare("mail.send", "mail-1", "{}").ended(0);
    kitchen.run(&["op", "execute", "mail-1"]).ended(0);
    let copy = fs::read(&ledger).unwrap();
    kitchen.prepare("mail.send", "mail-2", r#"{"n":2}"#).ended(0);
    kitchen.run(&["op", "execute", "mail-2"]).ended(0);
    for beside in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = fs::remove_file(kitchen.path().join(beside));
    }
    fs::write(&ledger, copy).unwrap();
    let status = kitchen.run(&["status"]).ended(0);
    assert!(status.stdout.contains("\nmark      behind\n"), "{}", status.stdout);
    assert!(status.stdout.contains("\ncounterfoil tool resume --all --note "), "{}", status.stdout);
    assert_eq!(kitchen.run(&["audit", "verify", "--json"]).ended(1).json()["mark"], "behind");
    // It may have been sent: the ledger does not know.
    let again = kitchen.prepare("mail.send", "mail-2", r#"{"n":2}"#).ended(1);
    assert!(again.stderr.contains("`counterfoil explain ledger-restored`"), "{}", again.stderr);
    // Nobody is told that the ID is free, whatever is asked about it.
    for asked in [["op", "show"], ["op", "execute"], ["op", "withdraw"]] {
        let answer = kitchen.run(&[asked[0], asked[1], "mail-2"]).ended(1);
        assert!(
            answer.stderr.contains("`counterfoil explain ledger-restored`"),
            "{asked:?} {}",
            answer.stderr
        );
    }
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 2);
    kitchen.run(&["tool", "resume", "--all", "--note", "compared with the supplier"]).ended(0);
    let status = kitchen.run(&["status"]).ended(0);
    assert!(status.stdout.contains("\nmark      current\n"), "{}", status.stdout);
}

#[test]
fn a_missing_mark_is_said_to_be_missing() {
    let kitchen = Kitchen::new();
    kitchen.prepare("mail.send", "mail-1", "{}").ended(0);
    kitchen.run(&["op", "execute", "mail-1"]).ended(0);
    fs::remove_file(kitchen.path().join("ledger.db.mark")).unwrap();
    let status = kitchen.run(&["status"]).ended(0);
    assert!(status.stdout.contains("\nmark      missing\n"), "{}", status.stdout);
    assert!(status.stdout.contains("# The ledger's mark is missing: sends stay paused"), "{}", status.stdout);
    assert!(!status.stdout.contains("older"), "{}", status.stdout);
    assert!(status.stderr.contains("the ledger's mark is missing"), "{}", status.stderr);
    kitchen.run(&["tool", "resume", "--all", "--note", "the file was deleted by hand"]).ended(0);
    let status = kitchen.run(&["status"]).ended(0);
    assert_eq!(status.stdout, "accounts  kitchen\nmark      current\nopen      nothing\n\nNothing to do.\n");
}
