//! The binary itself: what it prints where, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails ends its test"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
    command.args(args).current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn init_writes_a_file_that_loads_and_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(folder.path(), &["init"]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    assert!(stdout(&first).contains("curl -sS -X PUT"));
    let written = fs::read_to_string(folder.path().join("counterfoil.toml")).unwrap();
    let check = run(folder.path(), &["check"]);
    assert_eq!((check.status.code(), stdout(&check).as_str()), (Some(0), ""));
    assert_eq!(stderr(&check), "loads, with 1 tool\n");
    fs::write(folder.path().join("counterfoil.toml"), "# mine\n").unwrap();
    let second = run(folder.path(), &["init"]);
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(stdout(&second), "");
    assert_eq!(
        stderr(&second),
        "error: counterfoil.toml exists already\nhint: edit it, or name another with --config\n"
    );
    assert_eq!(fs::read_to_string(folder.path().join("counterfoil.toml")).unwrap(), "# mine\n");
    let schema = fs::read_to_string(folder.path().join("counterfoil.schema.json")).unwrap();
    assert_eq!(schema, stdout(&run(folder.path(), &["config", "schema"])));
    assert!(written.starts_with("#:schema ./counterfoil.schema.json\n"));
}

#[test]
fn check_reports_with_line_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("counterfoil.toml"), "[server]\nlistne = \"x\"\n").unwrap();
    let text = run(folder.path(), &["check"]);
    assert_eq!(text.status.code(), Some(1));
    assert_eq!(
        stdout(&text),
        "counterfoil.toml:2:1: error: unknown key `listne`\n  hint: did you mean `listen`?\n"
    );
    let report = json(&run(folder.path(), &["check", "--json", "--quiet"]));
    assert_eq!(report["loads"], false);
    assert_eq!(report["findings"][0]["line"], 2);
    assert_eq!(report["findings"][0]["hint"], "did you mean `listen`?");
    let other = run(folder.path(), &["check", "--config", "nowhere.toml"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(stdout(&other).contains("counterfoil init"));
    let plan = run(folder.path(), &["tool", "list"]);
    assert_eq!((plan.status.code(), stdout(&plan).as_str()), (Some(1), ""));
    assert!(stderr(&plan).contains("counterfoil.toml:2:1: error"));
}

#[test]
fn the_environment_reaches_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("counterfoil.toml"), "").unwrap();
    let output = command(folder.path(), &["check"]).env("COUNTERFOIL_SERVER_LISTNE", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).starts_with("environment variable COUNTERFOIL_SERVER_LISTNE: error: "),
        "{output:?}"
    );
}

#[test]
fn tools_are_listed_and_planned() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("counterfoil.toml"), include_str!("configs/two-tools.toml")).unwrap();
    let list = run(folder.path(), &["tool", "list"]);
    assert_eq!(
        stdout(&list),
        "TOOL                   RECOVERY         APPROVAL  SENDS  CARRIED OUT BY\n\
         mail.send              none             none      go on  POST http://127.0.0.1:9091/send\n\
         supplier.create_order  idempotency_key  none      go on  POST http://127.0.0.1:9090/orders\n"
    );
    let items = json(&run(folder.path(), &["tool", "list", "--json"]));
    assert_eq!(items["items"].as_array().unwrap().len(), 2);
    assert_eq!(items["next_cursor"], Value::Null);
    let plan = run(folder.path(), &["tool", "plan", "supplier.create_order"]);
    assert_eq!(plan.status.code(), Some(0));
    insta::assert_snapshot!(stdout(&plan));
    let json = json(&run(folder.path(), &["tool", "plan", "mail.send", "--json"]));
    assert_eq!(json["established_by"], "nobody but a person");
    let none = run(folder.path(), &["tool", "plan", "mail.sent"]);
    assert_eq!(none.status.code(), Some(1));
    assert_eq!(stderr(&none), "error: there is no tool mail.sent\nhint: did you mean `mail.send`?\n");
}

#[test]
fn problems_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let page = run(folder.path(), &["explain", "operation-id-reused"]);
    assert!(stdout(&page).starts_with("# operation-id-reused\n"));
    let whole = run(folder.path(), &["explain", "urn:counterfoil:problem:operation-id-reused"]);
    assert_eq!(stdout(&whole), stdout(&page));
    let one = json(&run(folder.path(), &["explain", "paused", "--json"]));
    assert_eq!(one["status"], 409);
    let none = run(folder.path(), &["explain", "pausd"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("hint: did you mean `paused`?"));
    assert!(stdout(&run(folder.path(), &["explain"])).lines().count() > 30);
}

#[test]
fn a_bad_command_line_ends_with_two_and_says_nothing_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["nonsense"][..],
        &["op", "execute"],
        &["op", "execute", "a b"],
        &["op", "list", "--limit", "201"],
        &["token", "create"],
        &["tool", "pause"],
        &["tool", "pause", "t", "--all"],
        &["demo", "--actions", "0"],
        &["tool", "list", "--server", "http://127.0.0.1:1"],
        &["check", "--server", "http://127.0.0.1:1"],
        &["init", "--server", "http://127.0.0.1:1"],
        &["completions", "bash", "--server", "http://127.0.0.1:1"],
        &["explain", "paused", "--server", "http://127.0.0.1:1"],
        &["config", "schema", "--server", "http://127.0.0.1:1"],
    ] {
        let output = run(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?} {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}

#[test]
fn a_server_is_refused_where_it_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["check"][..], &["init"], &["completions", "bash"], &["explain"], &["config", "schema"]] {
        let output = run(folder.path(), &[args, &["--server", "http://127.0.0.1:1"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains("does not work through a server\nhint: leave --server out"), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn errors_are_json_where_data_is() {
    let folder = tempfile::tempdir().unwrap();
    let error = |args: &[&str], code: i32| -> Value {
        let output = run(folder.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
        let value: Value = serde_json::from_slice(&output.stderr).unwrap();
        let error = value["error"].clone();
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{value}");
        assert!(error["hints"].as_array().is_some_and(|hints| !hints.is_empty()), "{value}");
        error
    };
    assert_eq!(error(&["explain", "pausd", "--json"], 2)["code"], "usage");
    assert_eq!(error(&["op", "list", "--json"], 1)["code"], "configuration");
    assert_eq!(error(&["op", "execute", "--json"], 2)["code"], "usage");
    assert_eq!(error(&["--json", "nonsense"], 2)["code"], "usage");
    fs::write(folder.path().join("counterfoil.toml"), "").unwrap();
    assert_eq!(error(&["op", "list", "--json"], 1)["code"], "environment");
}

#[test]
fn usage_lines_do_not_ask_for_a_token_that_the_environment_holds() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        command(folder.path(), &["op", "execute"]).env("COUNTERFOIL_TOKEN", "cf_canary").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("Usage:") && !said.contains("--token") && !said.contains("canary"), "{said}");
}

#[test]
fn paths_that_cannot_be_used_are_named_with_a_fitting_hint() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("counterfoil.toml"), include_str!("configs/two-tools.toml")).unwrap();
    let serve =
        |database: &str| run(folder.path(), &["serve", "--listen", "127.0.0.1:0", "--database", database]);
    for (database, hint) in [
        ("sqlite:nowhere/ledger.db", "there is no folder nowhere"),
        ("sqlite:.", "this is a folder"),
        ("sqlite:counterfoil.toml", "must be a ledger"),
        ("counterfoil.db", "sqlite:PATH"),
    ] {
        let output = serve(database);
        assert_eq!(output.status.code(), Some(1), "{database}");
        assert!(stderr(&output).contains(hint), "{database}: {}", stderr(&output));
    }
    let args = ["op", "prepare", "mail.send", "--id", "a", "--arguments", "@missing.json", "--account", "k"];
    let output = run(folder.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: missing.json: "), "{}", stderr(&output));
}

#[test]
fn an_id_that_is_personal_data_is_refused_as_by_the_api_and_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["op", "prepare", "mail.send", "--id", "bob@example.com", "--arguments", "{}"];
    let output = run(folder.path(), &args);
    let hint = counterfoil_cli::problems::find("invalid-operation-id").unwrap().hint;
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(&format!("hint: {hint}")), "{}", stderr(&output));
    assert!(!stderr(&output).contains("bob@"));
}

#[test]
fn help_shows_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let help = command(folder.path(), &["op", "show", "--help"])
        .env("COUNTERFOIL_TOKEN", "cf_canary")
        .output()
        .unwrap();
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("COUNTERFOIL_TOKEN") && !stdout(&help).contains("canary"));
}

#[test]
fn completions_name_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(folder.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("withdraw"), "{shell}");
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(folder.path(), &["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
}
