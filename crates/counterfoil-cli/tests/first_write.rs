//! What `init` prints runs as it is printed: against its own configuration, a server and a supplier that counts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails ends its test")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use sim::supplier::{Flavour, Supplier, SupplierOptions};

/// A shell in `folder` that finds the program, as a newcomer's does. What the caller's environment says of Counterfoil
/// stays outside; Python may need its home.
fn shell(folder: &Path, listen: &str, script: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_counterfoil")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-e", "-c", script]).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("PATH", format!("{}:{path}", bin.display())).env("USER", "ada");
    command.env("HOME", std::env::var("HOME").unwrap_or_default());
    command.env("COUNTERFOIL_SERVER_LISTEN", listen);
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn done(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The printed lines from the step of one number to that of another.
fn steps(printed: &str, from: u32, before: u32) -> &str {
    let start = printed.find(&format!("# {from}. ")).unwrap();
    let end = printed.find(&format!("# {before}. ")).unwrap_or(printed.len());
    &printed[start..end]
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_write(arguments: &str, file: &str) {
    let supplier = Supplier::start(SupplierOptions::new(Flavour::dedupe())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The port is free again when the server takes it.
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let sh = |script: &str| shell(folder.path(), &listen, script);
    let made = sh(&format!("counterfoil init {arguments}")).output().unwrap();
    let printed = done(&made).to_owned();
    let path = folder.path().join(file);
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("http://127.0.0.1:9090/orders"));
    fs::write(&path, written.replace("http://127.0.0.1:9090", &supplier.url())).unwrap();
    done(&sh(steps(&printed, 1, 2)).output().unwrap());
    let serve = steps(&printed, 2, 3).replace("counterfoil ", "exec counterfoil ");
    let mut server = Ended(sh(&serve).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("ready on http://{listen}\n"));
    let ran = sh(steps(&printed, 3, 99)).output().unwrap();
    let said = done(&ran);
    assert_eq!(said.matches("\"state\":\"succeeded\"").count(), 2, "two answers to curl: {said}");
    assert!(
        said.contains("200 {'id': 'approved-action-17'") && said.contains("'state': 'succeeded'"),
        "{said}"
    );
    assert_eq!(supplier.effect_count().unwrap(), 1);
    assert_eq!(supplier.request_count(), 1);
}

#[test]
fn every_printed_line_runs_as_it_is_printed() {
    first_write("", "counterfoil.toml");
}

#[test]
fn also_with_another_file_and_account() {
    first_write("--config 'my file.toml' --account bar", "my file.toml");
}

#[test]
fn a_ledger_that_has_tokens_gets_no_other_and_the_lines_still_run() {
    let folder = tempfile::tempdir().unwrap();
    let sh = |script: &str| shell(folder.path(), "127.0.0.1:1", script).output().unwrap();
    let first = done(&sh("counterfoil init")).to_owned();
    let token = first.split("COUNTERFOIL_TOKEN=").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(counterfoil_cli::secret::well_formed(&token), "{first}");
    assert_eq!(first.matches(&token).count(), 1);
    let listed = done(&sh("counterfoil token list --json")).to_owned();
    assert!(
        listed.contains("\"account\":\"kitchen\"") && listed.contains("\"roles\":[\"agent\"]"),
        "{listed}"
    );
    fs::remove_file(folder.path().join("counterfoil.toml")).unwrap();
    let second = sh("counterfoil init");
    let printed = done(&second).to_owned();
    assert!(text(&second.stderr).contains("has tokens already"), "{}", text(&second.stderr));
    assert_eq!(done(&sh("counterfoil token list --json")), listed);
    let export = steps(&printed, 3, 4).to_owned();
    let made = sh(&format!("{export}\necho \"$COUNTERFOIL_TOKEN\""));
    assert!(counterfoil_cli::secret::well_formed(done(&made).trim_end()));
}

/// A repository file, as its readers see it.
fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

#[test]
fn the_page_shows_the_lines_that_are_printed() {
    let printed = include_str!("../src/cli/init.txt").replace("{url}", "http://127.0.0.1:8787");
    let page = page("docs/use/first-write.md");
    let python = printed.split("<<'END'\n").nth(1).unwrap().strip_suffix("END\n").unwrap();
    assert!(page.contains(python));
    let curl =
        printed.split("# 4. ").nth(1).unwrap().split_once('\n').unwrap().1.split("\n\n").next().unwrap();
    assert!(page.contains(curl));
}

#[test]
fn a_resume_that_somebody_is_told_of_runs_as_it_is_told() {
    let mut texts = vec![page("docs/operate/README.md"), page("docs/use/recovery.md")];
    texts.extend(counterfoil_cli::problems::CATALOGUE.iter().map(|problem| problem.hint.to_owned()));
    let mut found = 0;
    for text in texts {
        for rest in text.split("tool resume --all").skip(1) {
            assert!(rest.starts_with(" --note \""), "{rest:.40}");
            found += 1;
        }
    }
    assert!(found >= 4, "{found}");
}
