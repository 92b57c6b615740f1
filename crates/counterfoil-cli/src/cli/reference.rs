//! The reference of the whole command line as one document, so that no flag changes unnoticed.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::Cli;

const ROOT: &str = "counterfoil";

/// The reference as Markdown.
#[must_use]
pub fn text() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text = String::from(
        "# Command line\n\nWhat `counterfoil help` and `counterfoil COMMAND --help` print. The \
                                 global options are listed once, here.\n",
    );
    describe(&root, ROOT, &mut text);
    text
}

fn describe(command: &Command, path: &str, text: &mut String) {
    // A fixed width and no terminal: the same text everywhere.
    let mut command = command.clone();
    if path != ROOT {
        command = command.mut_args(|argument| {
            let hide = argument.is_global_set() || argument.is_hide_set();
            argument.hide(hide)
        });
    }
    let help = command.clone().term_width(100).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing into a string cannot fail.
    let _ = write!(text, "\n## {path}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
    {
        describe(inner, &format!("{path} {}", inner.get_name()), text);
    }
}
