//! The command line, as a process.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Fails unless the command ended with that code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A command that runs in `folder`, where the configuration lies.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).env_remove("COUNTERFOIL_FAILPOINT");
    command
}

/// Starts a command and lets it run.
#[track_caller]
pub(crate) fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = command(folder, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

/// A command that somebody talks to: what it has said so far, and its standard input.
#[derive(Debug)]
pub(crate) struct Talk {
    child: Child,
    input: std::process::ChildStdin,
    said: std::sync::Arc<std::sync::Mutex<String>>,
    reader: std::thread::JoinHandle<()>,
}

impl Talk {
    /// Starts a command.
    #[track_caller]
    pub(crate) fn begin(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let (input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let said = std::sync::Arc::<std::sync::Mutex<String>>::default();
        let heard = said.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut more = [0_u8; 4096];
            while let Ok(count @ 1..) = std::io::Read::read(&mut output, &mut more) {
                bytes.extend_from_slice(&more[..count]);
                *heard.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
            }
        });
        Self { child, input, said, reader }
    }

    /// Says a line.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) {
        std::io::Write::write_all(&mut self.input, format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits until it has said this.
    #[track_caller]
    pub(crate) fn hears(&self, text: &str) {
        let heard = super::eventually_or(|| self.said.lock().unwrap().contains(text).then_some(()));
        assert!(heard.is_some(), "never {text:?}: {}", self.said.lock().unwrap());
    }

    /// Says nothing more and waits for its end.
    #[track_caller]
    pub(crate) fn end(self) -> Output {
        drop(self.input);
        self.reader.join().unwrap();
        let ended = self.child.wait_with_output().expect("the command ends");
        let said = self.said.lock().unwrap().clone();
        Output {
            code: ended.status.code().unwrap_or(-1),
            stdout: said,
            stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
        }
    }
}

/// Waits for a command.
#[track_caller]
pub(crate) fn finish(child: Child) -> Output {
    let output = child.wait_with_output().expect("the command ends");
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
