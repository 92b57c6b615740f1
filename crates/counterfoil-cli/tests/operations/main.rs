//! The commands about operations as real processes, against real suppliers whose effects are counted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails ends its test")]

mod audit;
mod decide;
mod execute;
mod pauses;
mod show;
mod status;
mod verdicts;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use sim::supplier::{Flavour, Supplier, SupplierOptions};

/// A folder with a configuration, and the two suppliers that it names.
pub(crate) struct Kitchen {
    folder: tempfile::TempDir,
    /// Honours idempotency keys.
    pub(crate) dedupe: Supplier,
    /// Makes an effect of every request.
    pub(crate) forgetful: Supplier,
}

impl Kitchen {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dedupe = Supplier::start(SupplierOptions::new(Flavour::dedupe())).unwrap();
        let forgetful = Supplier::start(SupplierOptions::new(Flavour::Forgetful)).unwrap();
        let key = "kind = \"idempotency_key\"\nkey = \"header:Idempotency-Key\"\nretention = \"24h\"\n";
        let none = "kind = \"none\"\n";
        let mut file = "[server]\nlisten = \"127.0.0.1:0\"\ndatabase = \"sqlite:ledger.db\"\n".to_owned();
        for (name, supplier, recovery, more) in [
            ("supplier.create_order", &dedupe, key, ""),
            ("supplier.large_order", &dedupe, key, "approval = \"required\"\n"),
            ("mail.send", &forgetful, none, ""),
        ] {
            file.push_str(&format!(
                "[tools.\"{name}\"]\ndescription = \"A tool\"\n{more}\
                 [tools.\"{name}\".http]\nmethod = \"POST\"\nurl = \"{}/tools/{name}\"\nreceipt_reference = \"/id\"\n\
                 timeout = \"5s\"\nlinger = \"1s\"\n\
                 [tools.\"{name}\".recovery]\n{recovery}\
                 [tools.\"{name}\".budget]\nfirst_delay = \"100ms\"\nmax_delay = \"500ms\"\n",
                supplier.url()
            ));
        }
        fs::write(folder.path().join("counterfoil.toml"), file).unwrap();
        Self { folder, dedupe, forgetful }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the program.
    pub(crate) fn bin(&self) -> &Path {
        Path::new(env!("CARGO_BIN_EXE_counterfoil")).parent().unwrap()
    }

    fn command(&self, user: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
        command.args(args).current_dir(self.path()).env_clear().env("USER", user).stdin(Stdio::null());
        command
    }

    /// Runs as `user` and gives what came of it.
    pub(crate) fn run_as(&self, user: &str, args: &[&str]) -> Ran {
        Ran::of(&self.command(user, args).output().unwrap())
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_as("ada", args)
    }

    /// Starts a command and gives it.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command("ada", args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs with `input` on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command("ada", args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Ran::of(&child.wait_with_output().unwrap())
    }

    /// Prepares an operation in the account `kitchen`.
    pub(crate) fn prepare(&self, tool: &str, id: &str, arguments: &str) -> Ran {
        self.run(&["op", "prepare", tool, "--id", id, "--arguments", arguments, "--account", "kitchen"])
    }

    /// A token of the account `kitchen`.
    pub(crate) fn token(&self, principal: &str, roles: &[&str]) -> String {
        let mut args = vec!["token", "create", "--account", "kitchen", "--principal", principal, "--role"];
        args.extend(roles);
        let made = self.run(&args);
        assert_eq!(made.code, 0, "{}", made.stderr);
        made.stdout.trim_end().to_owned()
    }

    /// A server on this ledger; it ends with the value.
    pub(crate) fn serve(&self) -> Server {
        self.serve_on("127.0.0.1:0")
    }

    pub(crate) fn serve_on(&self, listen: &str) -> Server {
        let mut child =
            self.command("ada", &["serve", "--listen", listen]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("ready on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Server { child, url }
    }
}

pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            code: output.status.code().unwrap(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Ended with this code.
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// With instants, digests and the like as fixed words, for snapshots.
    pub(crate) fn steady(&self) -> String {
        let mut steady = String::new();
        for line in self.stdout.lines() {
            let words: Vec<String> = line.split(' ').map(steady_word).collect();
            steady.push_str(words.join(" ").trim_end());
            steady.push('\n');
        }
        steady
    }
}

fn steady_word(word: &str) -> String {
    let bare = word.trim_end_matches([',', ':', ';']);
    let end = &word[bare.len()..];
    let instant = bare.len() == 24 && bare.ends_with('Z') && bare.as_bytes()[10] == b'T';
    let key = bare.len() == 32 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    let time = bare.len() == 8 && bare.as_bytes()[2] == b':' && bare.as_bytes()[5] == b':';
    match bare {
        _ if time => format!("14:02:11{end}"),
        _ if instant => format!("2026-11-29T14:02:11.020Z{end}"),
        _ if key => format!("{}{end}", "0".repeat(32)),
        _ if bare.starts_with("v1:") => format!("v1:{}{end}", "0".repeat(64)),
        _ if bare.starts_with("sha256:") => format!("sha256:{}{end}", "0".repeat(bare.len() - 7)),
        _ => word.to_owned(),
    }
}
