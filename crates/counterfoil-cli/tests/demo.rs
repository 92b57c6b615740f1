//! The demo as it is shipped: the real binary with its real processes, judged by its summary.

#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

#[cfg(target_os = "linux")]
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const FAULTS: [&str; 8] = [
    "concurrent_retries",
    "connection_refused",
    "connection_reset",
    "duplicate_delivery",
    "kill_9",
    "reply_dropped",
    "slow_reply",
    "unavailable_after_commit",
];

/// One run, with its temporary files in a folder of its own.
struct Run {
    output: Output,
    folder: tempfile::TempDir,
}

impl Run {
    fn of(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_counterfoil"))
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        Self { output, folder }
    }

    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The one object on stdout.
    fn summary(&self) -> Value {
        let text = String::from_utf8(self.output.stdout.clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}\n{}", self.stderr());
        serde_json::from_str(&text).unwrap()
    }

    fn left_behind(&self) -> usize {
        self.folder.path().read_dir().unwrap().count()
    }
}

fn count(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap()
}

fn all_faults_struck(summary: &Value) {
    let faults = summary["faults"].as_object().unwrap();
    assert_eq!(faults.keys().collect::<Vec<_>>(), FAULTS);
    assert!(faults.values().all(|times| times.as_u64() > Some(0)), "{summary}");
}

#[test]
fn no_action_is_done_twice_whatever_the_seed() {
    for (seed, actions) in [(1, 8), (2, 9), (3, 16), (4, 30)] {
        let run = Run::of(&["--json", "--seed", &seed.to_string(), "--actions", &actions.to_string()]);
        assert_eq!(run.code(), Some(0), "seed {seed}:\n{}", run.stderr());
        let summary = run.summary();
        all_faults_struck(&summary);
        let told = (count(&summary, "seed"), count(&summary, "actions"), &summary["mode"]);
        assert_eq!(told, (seed, actions, &json!("counterfoil")));
        assert_eq!((count(&summary, "duplicates"), &summary["violations"]), (0, &json!([])));
        let (succeeded, held) = (count(&summary, "succeeded"), count(&summary, "held"));
        assert_eq!(count(&summary, "unsettled"), 0, "{summary}");
        assert_eq!(succeeded + held + count(&summary, "rejected"), actions, "{summary}");
        // The supplier that knows no keys lost a reply: that one is held, and nobody guessed.
        assert!(held >= 1, "{summary}");
        // Every receipt has its effect, and a held action at most one.
        let effects = count(&summary, "effects");
        assert!((succeeded..=succeeded + held).contains(&effects), "{summary}");
        assert!(count(&summary, "receipts_recovered") >= 3, "{summary}");
        assert!(count(&summary, "replies_lost") >= 4, "{summary}");
        assert!(count(&summary, "attempts") > actions, "{summary}");
        assert!(count(&summary, "elapsed_ms") > 0);
        assert_eq!(run.left_behind(), 0);
    }
}

#[test]
fn the_story_is_on_stdout_and_says_what_happened() {
    let run = Run::of(&["--seed", "5", "--actions", "10"]);
    let story = String::from_utf8(run.output.stdout.clone()).unwrap();
    assert_eq!(run.code(), Some(0), "{story}\n{}", run.stderr());
    for words in [
        "Seed 5.",
        "reply dropped after the commit",
        "kill -9 of process",
        "is back as process",
        "its process is gone",
        "recovered after a lost reply",
        "so a person is asked",
        "refused (action-unresolved)",
        "refused (operation-id-reused)",
        "No action was done twice",
    ] {
        assert!(story.contains(words), "{words:?} is not in\n{story}");
    }
    assert!(!story.contains('\u{1b}'), "colour although it is no terminal");
}

#[test]
fn a_quiet_demo_prints_the_summary_alone() {
    let run = Run::of(&["-q", "--seed", "5", "--actions", "8"]);
    let told = String::from_utf8(run.output.stdout.clone()).unwrap();
    assert_eq!(run.code(), Some(0), "{told}\n{}", run.stderr());
    assert!(told.trim_start().starts_with("What went wrong\n"), "{told}");
    assert!(told.contains("No action was done twice"), "{told}");
}

#[test]
fn a_supplier_that_breaks_its_promise_is_found_out() {
    let run = Run::of(&["--json", "--seed", "6", "--actions", "12", "--forget-keys"]);
    assert_eq!(run.code(), Some(1), "{}", run.stderr());
    let summary = run.summary();
    assert!(count(&summary, "duplicates") > 0, "{summary}");
    assert!(!summary["violations"].as_array().unwrap().is_empty());
}

#[test]
fn without_counterfoil_the_same_script_makes_duplicates() {
    for seed in ["1", "2", "3"] {
        let run = Run::of(&["--json", "--seed", seed, "--actions", "16", "--without-counterfoil"]);
        assert_eq!(run.code(), Some(0), "{}", run.stderr());
        let summary = run.summary();
        all_faults_struck(&summary);
        assert_eq!((&summary["mode"], count(&summary, "actions")), (&json!("naive"), 16));
        let (effects, duplicates) = (count(&summary, "effects"), count(&summary, "duplicates"));
        // Seven of them are the eight retries at once.
        assert!(duplicates > 7, "{summary}");
        assert_eq!(effects - duplicates, 16, "the loop goes on until everything is done: {summary}");
        assert_eq!(run.left_behind(), 0);
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused_with_a_hint() {
    for actions in ["0", "7", "263"] {
        let run = Run::of(&["--json", "--actions", actions]);
        assert_eq!(run.code(), Some(2));
        let error: Value = serde_json::from_str(&run.stderr()).unwrap();
        assert!(error["error"]["message"].as_str().unwrap().contains("8 to 262"), "{error}");
        assert_eq!(error["error"]["hints"].as_array().unwrap().len(), 1, "{error}");
        assert!(run.output.stdout.is_empty());
    }
}

#[test]
fn what_is_kept_can_be_looked_at() {
    let run =
        Run::of(&["--json", "--quiet", "--seed", "7", "--actions", "8", "--without-counterfoil", "--keep"]);
    assert_eq!((run.code(), run.stderr().as_str()), (Some(0), ""));
    assert_eq!(run.left_behind(), 1);
    let kept = run.folder.path().read_dir().unwrap().next().unwrap().unwrap().path();
    let effects = |name: &str| sim::supplier::read_effects(&kept.join(name)).unwrap().len() as u64;
    assert_eq!(effects("mill.db") + effects("dairy.db"), count(&run.summary(), "effects"));
}

/// A run that is on its way: its server is up.
#[cfg(target_os = "linux")]
fn under_way(folder: &Path) -> std::process::Child {
    let demo = Command::new(env!("CARGO_BIN_EXE_counterfoil"))
        .args(["demo", "--json", "--seed", "8"])
        .env("TMPDIR", folder)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| processes(folder, "serve") == 1 && processes(folder, "demo-supplier") == 2);
    demo
}

/// Its processes go with it, even when it gets no chance to end them.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_demo_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = under_way(folder.path());
    demo.kill().unwrap();
    demo.wait().unwrap();
    wait_until(|| processes(folder.path(), "") == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_demo_leaves_nothing_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = under_way(folder.path());
    let signalled = Command::new("kill").args(["-TERM", &demo.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    assert_eq!(processes(folder.path(), ""), 0);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// How many processes have that folder and that word in their arguments.
#[cfg(target_os = "linux")]
fn processes(folder: &Path, word: &str) -> usize {
    let folder = folder.to_str().unwrap();
    let ours = |entry: &std::io::Result<std::fs::DirEntry>| {
        let line = std::fs::read(entry.as_ref().unwrap().path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains(folder) && line.contains(word)
    };
    std::fs::read_dir("/proc").unwrap().filter(ours).count()
}

#[cfg(target_os = "linux")]
fn wait_until(condition: impl Fn() -> bool) {
    const TRIES: u32 = 3_000;
    let done = (0..TRIES).any(|_| {
        let done = condition();
        if !done {
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        done
    });
    assert!(done, "it did not come to that");
}
