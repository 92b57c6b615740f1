//! What is wrong with a configuration: where, what, and what to do about it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::environment::{Setting, origin_of};

/// The fixed words for what this version refuses to accept and ignore.
pub const NOT_IN_THIS_VERSION: &str = "not in this version";

/// Whether a finding keeps the configuration from loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It does not load.
    Error,
    /// It loads; somebody should look at it.
    Warning,
}

/// Where the text came from that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file; line and column count from 1.
    File {
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// The file as a whole: it is missing or unreadable.
    Whole,
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

/// One thing that is wrong, or at least doubtful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it keeps the configuration from loading.
    pub severity: Severity,
    /// Where the text stands.
    pub origin: Origin,
    /// The keys that lead there (`tools.mail.send.recovery`); empty where the text could not be read so far.
    pub key: String,
    /// What is wrong. Values that may be secret are never repeated.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Finding {
    /// The line, where the text stands in the file.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match &self.origin {
            Origin::File { line, .. } => Some(*line),
            Origin::Whole | Origin::Environment(_) | Origin::Flag(_) => None,
        }
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut line, mut column, mut environment, mut flag) = (None, None, None, None);
        match &self.origin {
            Origin::File { line: at, column: from } => (line, column) = (Some(*at), Some(*from)),
            Origin::Whole => {}
            Origin::Environment(name) => environment = Some(name),
            Origin::Flag(name) => flag = Some(name),
        }
        serde_json::json!({
            "severity": self.severity, "line": line, "column": column, "environment": environment, "flag": flag,
            "key": self.key, "message": self.message, "hint": self.hint,
        })
        .serialize(serializer)
    }
}

/// The findings of one configuration, errors first and then in the order of the file.
#[derive(Clone, Debug)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether anything keeps the configuration from loading.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, finding) in self.findings.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write_finding(f, &self.path, finding)?;
        }
        Ok(())
    }
}

fn write_finding(f: &mut fmt::Formatter<'_>, path: &Path, finding: &Finding) -> fmt::Result {
    match &finding.origin {
        Origin::File { line, column } => write!(f, "{}:{line}:{column}: ", path.display())?,
        Origin::Whole => write!(f, "{}: ", path.display())?,
        Origin::Environment(name) => write!(f, "environment variable {name}: ")?,
        Origin::Flag(name) => write!(f, "{name}: ")?,
    }
    let word = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    write!(f, "{word}: ")?;
    if !finding.key.is_empty() {
        write!(f, "{}: ", finding.key)?;
    }
    write!(f, "{}", finding.message)?;
    if !finding.hint.is_empty() {
        write!(f, "\n  hint: {}", finding.hint)?;
    }
    Ok(())
}

/// Line and column of a byte of a text, both from 1; the column counts characters.
#[must_use]
pub fn position(text: &str, byte: usize) -> (usize, usize) {
    let mut end = byte.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}

/// Collects what is wrong while the sections of one file are checked.
pub struct Checks<'t> {
    text: &'t str,
    settings: &'t [Setting],
    findings: Vec<Finding>,
}

impl<'t> Checks<'t> {
    /// Nothing found yet in `text` and in the settings that were put over it.
    #[must_use]
    pub fn new(text: &'t str, settings: &'t [Setting]) -> Self {
        Self { text, settings, findings: Vec::new() }
    }

    /// Adds something that keeps the configuration from loading.
    pub fn error(
        &mut self,
        at: Range<usize>,
        key: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Error, at, key, message.into(), hint.into());
    }

    /// Adds something that somebody should look at.
    pub fn warning(
        &mut self,
        at: Range<usize>,
        key: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Warning, at, key, message.into(), hint.into());
    }

    fn add(&mut self, severity: Severity, at: Range<usize>, key: &str, message: String, hint: String) {
        let origin = origin_of(self.text, self.settings, at.start);
        self.findings.push(Finding { severity, origin, key: key.to_owned(), message, hint });
    }

    /// How many errors there are so far.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
    }

    /// What was found.
    #[must_use]
    pub fn into_findings(self) -> Vec<Finding> {
        self.findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_and_characters_from_one() {
        let text = "a = 1\n\u{e9} = x\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 6), (2, 1));
        assert_eq!(position(text, 11), (2, 5));
        assert_eq!(position(text, 7), (2, 1), "inside a character");
        assert_eq!(position(text, 999), (3, 1));
    }
}
