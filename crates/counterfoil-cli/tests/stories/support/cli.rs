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
