//! What the demo says while it runs: one line per event, with who it concerns in the first column.

use std::io::{self, IsTerminal as _, Write as _};

/// Room for the longest ID of an action.
const NAME_COLUMNS: usize = 14;

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Less important than the others.
    Quiet,
    /// Something goes wrong outside, as planned.
    Fault,
    /// An action is settled.
    Good,
    /// A person is needed.
    Held,
    /// What must not happen.
    Bad,
    Heading,
}

impl Tone {
    /// Colour, and a sign that says the same without it.
    fn style(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain => ("", " "),
            Self::Quiet => ("\x1b[2m", " "),
            Self::Fault => ("\x1b[33m", "!"),
            Self::Good => ("\x1b[32m", "+"),
            Self::Held => ("\x1b[36m", "?"),
            Self::Bad => ("\x1b[1;31m", "x"),
            Self::Heading => ("\x1b[1m", " "),
        }
    }
}

/// Where the story goes. Shared by everything that runs at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Story {
    to_stderr: bool,
    silent: bool,
    colour: bool,
}

impl Story {
    /// To stdout, or to stderr where stdout is kept for the JSON object. Colour on a terminal only,
    /// and not under `NO_COLOR`.
    pub(crate) fn new(to_stderr: bool, silent: bool) -> Self {
        let terminal = if to_stderr { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { to_stderr, silent, colour: terminal && !unwanted }
    }

    /// One event.
    pub(crate) fn event(&self, name: &str, tone: Tone, text: &str) {
        let (_, sign) = tone.style();
        self.line(tone, &format!("  {sign} {name:<NAME_COLUMNS$}  {text}"));
    }

    /// A line of its own.
    pub(crate) fn line(&self, tone: Tone, text: &str) {
        if self.silent {
            return;
        }
        let (colour, _) = tone.style();
        let line = if self.colour && !colour.is_empty() {
            format!("{colour}{text}\x1b[0m\n")
        } else {
            format!("{text}\n")
        };
        // Nobody reads on (`demo | head`): the run and its exit code are still worth finishing.
        let written = if self.to_stderr {
            io::stderr().write_all(line.as_bytes())
        } else {
            io::stdout().write_all(line.as_bytes())
        };
        drop(written);
    }

    /// An empty line before a heading.
    pub(crate) fn heading(&self, text: &str) {
        self.line(Tone::Plain, "");
        self.line(Tone::Heading, text);
    }
}
