//! Query strings: every parameter known, given once, and in range, or the call is refused.

use std::borrow::Cow;

use counterfoil::guard::Stage;
use counterfoil::id::Subject;
use counterfoil::store::Filter;
use counterfoil::{Task, Timestamp, ToolName};
use percent_encoding::percent_decode_str;

use super::body::check_wait;
use super::problem::{Problem, shown};
use crate::config::Limits;

/// Items on a page where the caller names no number.
const DEFAULT_PAGE: u32 = 50;

/// The longest value of a parameter, in bytes.
const LONGEST: usize = 512;

/// The parameters of one call.
pub(super) struct Query<'a> {
    parameters: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Takes a query string apart.
    ///
    /// # Errors
    /// `invalid-request` for what is unknown, repeated, too long or not UTF-8.
    pub(super) fn parse(query: Option<&'a str>, known: &[&str]) -> Result<Self, Problem> {
        let mut parameters: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if !known.contains(&&*name) {
                let hint = format!("Known parameters here: {}.", known.join(", "));
                return Err(
                    Problem::invalid(format!("There is an unknown parameter {}.", shown(&name))).hint(hint)
                );
            }
            if parameters.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Problem::invalid(format!("The parameter `{name}` is given twice.")));
            }
            if value.len() > LONGEST {
                return Err(Problem::invalid(format!(
                    "The parameter `{name}` is longer than {LONGEST} bytes."
                )));
            }
            parameters.push((name, value));
        }
        Ok(Self { parameters })
    }

    /// The text of a parameter; an empty one counts as absent.
    #[must_use]
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// A whole number.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>, Problem> {
        let wrong = || Problem::invalid(format!("The parameter `{name}` is not a whole number."));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        self.text(name).map(|text| text.parse().ok().filter(|_| digits(text)).ok_or_else(wrong)).transpose()
    }

    /// A position in a feed or in a chain.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn position(&self, name: &str) -> Result<u64, Problem> {
        let position = self.whole(name)?.unwrap_or(0);
        // What the store keeps is a signed number.
        match i64::try_from(position) {
            Ok(_) => Ok(position),
            Err(_) => Err(Problem::invalid(format!("The parameter `{name}` is no cursor."))),
        }
    }

    /// The version of a declaration.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn policy_version(&self) -> Result<Option<u32>, Problem> {
        let wrong = |_| Problem::invalid("The parameter `policy_version` is no version.");
        self.whole("policy_version")?.map(|version| u32::try_from(version).map_err(wrong)).transpose()
    }

    /// How long to wait, in milliseconds.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn wait(&self, limits: &Limits) -> Result<Option<u64>, Problem> {
        self.whole("wait_ms")?.map(|wait| check_wait(wait, limits)).transpose()
    }

    /// How many items a page may have.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn limit(&self, limits: &Limits) -> Result<u32, Problem> {
        let most = u32::try_from(limits.list_page).unwrap_or(u32::MAX);
        let Some(limit) = self.whole("limit")? else { return Ok(DEFAULT_PAGE.min(most)) };
        match u32::try_from(limit) {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            Ok(_) | Err(_) => Err(Problem::invalid(format!("The parameter `limit` is outside 1 to {most}."))),
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Problem::invalid(format!("The parameter `{name}` is neither true nor false."))),
        }
    }

    fn instant(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let wrong = || Problem::invalid(format!("The parameter `{name}` is no instant of RFC 3339."));
        self.text(name).map(|text| Timestamp::parse(text).ok_or_else(wrong)).transpose()
    }

    /// The conditions of a list of operations.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn filter(&self, limits: &Limits) -> Result<Filter, Problem> {
        let state = self.text("state").map(|text| {
            Stage::parse(text).ok_or_else(|| {
                Problem::invalid("The parameter `state` is none of the five states.")
                    .hint("Known states: prepared, in_progress, succeeded, rejected, unknown.")
            })
        });
        let name = |parameter: &str, error: counterfoil::id::NameError| {
            Problem::invalid(format!("The parameter `{parameter}` {}.", error.problem))
        };
        Ok(Filter {
            stage: state.transpose()?,
            tool: self.text("tool").map(ToolName::parse).transpose().map_err(|error| name("tool", error))?,
            task: self.text("task").map(Task::parse).transpose().map_err(|error| name("task", error))?,
            subject: self
                .text("subject")
                .map(Subject::parse)
                .transpose()
                .map_err(|error| name("subject", error))?,
            held: self.flag("held")?,
            unresolved: self.flag("unresolved")?,
            reference: self.text("reference").map(str::to_owned),
            created_after: self.instant("created_after")?,
            created_before: self.instant("created_before")?,
            text: self.text("q").map(str::to_owned),
            limit: self.limit(limits)?,
            cursor: self.text("cursor").map(str::to_owned),
        })
    }
}

/// The parameters of a list of operations.
pub(super) const FILTERS: [&str; 12] = [
    "state",
    "tool",
    "task",
    "subject",
    "held",
    "unresolved",
    "reference",
    "created_after",
    "created_before",
    "q",
    "limit",
    "cursor",
];

fn decode(text: &str) -> Result<Cow<'_, str>, Problem> {
    let wrong = |_| Problem::invalid("The query string is not UTF-8.");
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return Ok(Cow::Owned(percent_decode_str(&spaced).decode_utf8().map_err(wrong)?.into_owned()));
    }
    percent_decode_str(text).decode_utf8().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(query: &str) -> Result<Filter, Problem> {
        Query::parse(Some(query), &FILTERS)?.filter(&Limits::default())
    }

    #[test]
    fn conditions_are_read_and_anything_else_is_refused() {
        let read =
            filter("state=unknown&held=true&q=a%2Fb&limit=7&created_after=2026-11-29T14:02:12.300Z").unwrap();
        assert_eq!(
            (read.stage, read.held, read.text.as_deref(), read.limit),
            (Some(Stage::Unknown), Some(true), Some("a/b"), 7)
        );
        for bad in [
            "state=open",
            "held=yes",
            "limit=0",
            "limit=201",
            "limit=+5",
            "limit=99999999999999999999",
            "sort=id",
            "state=unknown&state=unknown",
            "subject=anna%40example.com",
            "created_after=yesterday",
            "q=%ff",
            "tool=a%20b",
        ] {
            assert_eq!(filter(bad).unwrap_err().code(), "invalid-request", "{bad}");
        }
    }
}
