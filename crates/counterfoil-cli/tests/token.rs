//! `counterfoil token`: a token's text is shown once and kept nowhere.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails ends its test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
    command.args(args).current_dir(folder).env_clear().env("USER", "ada").stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn begun() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("counterfoil.toml"), counterfoil_cli::cli::init::TEMPLATE).unwrap();
    folder
}

#[test]
fn a_token_is_printed_once_alone_and_kept_nowhere() {
    let folder = begun();
    let made = run(folder.path(), &["token", "create", "--account", "kitchen", "--role", "agent"]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let token = text(&made.stdout).trim_end();
    assert!(counterfoil_cli::secret::well_formed(token));
    assert!(text(&made.stderr).contains("account kitchen, roles agent, tools all, expires never"));
    assert!(!text(&made.stderr).contains(token));
    let secret = &token.as_bytes()[3..];
    let mut files = 0;
    for file in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret));
        files += 1;
    }
    assert!(files >= 2, "the configuration and the ledger");
    let listed = run(folder.path(), &["token", "list", "--json"]);
    assert!(!text(&listed.stdout).contains(token));
}

#[test]
fn create_list_and_revoke_tell_the_same_story() {
    let folder = begun();
    let args = [
        "token",
        "create",
        "--json",
        "--account",
        "kitchen",
        "--role",
        "approver",
        "agent",
        "--principal",
        "ann",
    ];
    let made =
        json(&run(folder.path(), &[&args[..], &["--tools", "supplier.*", "--expires", "90d"]].concat()));
    let members: Vec<&String> = made.as_object().unwrap().keys().collect();
    for member in ["id", "token", "principal", "account", "roles", "tools", "expires_at"] {
        assert!(members.iter().any(|name| *name == member), "{member}");
    }
    assert_eq!(made["principal"], "ann");
    assert_eq!(made["roles"], serde_json::json!(["agent", "approver"]));
    // The only account need not be named again.
    let own = json(&run(folder.path(), &["token", "create", "--json", "--role", "auditor"]));
    assert_eq!((&own["account"], &own["principal"]), (&"kitchen".into(), &own["id"]));
    let listed = json(&run(folder.path(), &["token", "list", "--json"]));
    assert_eq!(listed["next_cursor"], Value::Null);
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert!(items.iter().all(|item| item.get("token").is_none() && item["revoked_at"].is_null()));
    let id = made["id"].as_str().unwrap();
    let revoked = run(folder.path(), &["token", "revoke", id]);
    assert_eq!(text(&revoked.stdout), format!("revoked {id}\n"));
    let again = run(folder.path(), &["token", "revoke", id]);
    assert_eq!((again.status.code(), text(&again.stdout)), (Some(0), &*format!("{id} was revoked before\n")));
    let table = run(folder.path(), &["token", "list"]);
    assert!(text(&table.stdout).lines().any(|line| line.starts_with(id) && line.ends_with("  revoked")));
}

#[test]
fn names_and_accounts_are_checked_before_anything_is_written() {
    let folder = begun();
    let refused = |args: &[&str], code: i32, said: &str| {
        let output = run(folder.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
    };
    refused(&["token", "list"], 1, "there is no ledger at counterfoil.db");
    refused(&["token", "create", "--role", "agent"], 2, "name one with --account NAME");
    refused(&["token", "create", "--account", "kit/chen", "--role", "agent"], 2, "account may hold only");
    refused(&["token", "create", "--account", "k", "--role", "king"], 2, "possible values");
    refused(&["token", "create", "--account", "k"], 2, "--role");
    refused(
        &["token", "create", "--account", "k", "--role", "agent", "--principal", "a b"],
        2,
        "principal may hold",
    );
    refused(&["token", "create", "--account", "k", "--role", "agent", "--tools", "a b"], 2, "supplier.*");
    refused(&["token", "create", "--account", "k", "--role", "agent", "--expires", "soon"], 2, "no duration");
    assert_eq!(
        run(folder.path(), &["token", "create", "--account", "k", "--role", "agent"]).status.code(),
        Some(0)
    );
    assert_eq!(
        run(folder.path(), &["token", "create", "--account", "j", "--role", "agent"]).status.code(),
        Some(0)
    );
    refused(&["token", "create", "--role", "agent"], 2, "known are j, k");
    refused(&["token", "revoke", "tok_0"], 1, "there is no such token");
    let server = ["--server", "http://127.0.0.1:1", "--token", "cf_x"];
    refused(&[&["token", "list"], &server[..]].concat(), 2, "without --server");
    let listed = json(&run(folder.path(), &["token", "list", "--json", "--account", "k"]));
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}
