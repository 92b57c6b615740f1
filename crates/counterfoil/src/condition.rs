//! Conditions on exact arguments: when a person is asked first. Pure.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::fingerprint::compare_numbers;
use crate::json::{Content, Node};
use crate::pointer::Pointer;

/// A condition on one member of the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// Which member. One that is absent, or of another type, counts as met: whoever asks for a check gets it.
    pub at: Pointer,
    /// What is asked of it.
    pub is: Comparison,
}

/// How a member is compared. Numbers are compared by their exact decimal value and given as JSON writes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// A number above this one.
    GreaterThan(String),
    /// A number below this one.
    LessThan(String),
    /// Exactly this.
    Equals(Expected),
}

/// What a member is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// A text.
    Text(String),
    /// A number, as JSON writes it.
    Number(String),
    /// A truth value.
    Bool(bool),
}

impl Condition {
    /// Whether both ask the same of the same member, however their numbers are written.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        let equal = |mine: &str, theirs: &str| compare_numbers(mine, theirs).is_eq();
        self.at == other.at
            && match (&self.is, &other.is) {
                (Comparison::GreaterThan(mine), Comparison::GreaterThan(theirs))
                | (Comparison::LessThan(mine), Comparison::LessThan(theirs))
                | (
                    Comparison::Equals(Expected::Number(mine)),
                    Comparison::Equals(Expected::Number(theirs)),
                ) => equal(mine, theirs),
                (Comparison::GreaterThan(_) | Comparison::LessThan(_) | Comparison::Equals(_), _) => {
                    self.is == other.is
                }
            }
    }

    /// Whether the arguments meet it.
    #[must_use]
    pub fn met(&self, arguments: &Node<'_>) -> bool {
        let Some(member) = self.at.resolve(arguments) else { return true };
        let ordering = |bound: &str| match member.content() {
            Content::Number(written) => Some(compare_numbers(written, bound)),
            Content::Null
            | Content::Bool(_)
            | Content::String(_)
            | Content::Array(_)
            | Content::Object(_) => None,
        };
        match &self.is {
            Comparison::GreaterThan(bound) => ordering(bound).is_none_or(Ordering::is_gt),
            Comparison::LessThan(bound) => ordering(bound).is_none_or(Ordering::is_lt),
            Comparison::Equals(Expected::Number(number)) => ordering(number).is_none_or(Ordering::is_eq),
            Comparison::Equals(Expected::Text(text)) => member.as_str().is_none_or(|value| value == text),
            Comparison::Equals(Expected::Bool(expected)) => match member.content() {
                Content::Bool(value) => value == expected,
                Content::Null
                | Content::Number(_)
                | Content::String(_)
                | Content::Array(_)
                | Content::Object(_) => true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(is: Comparison, arguments: &str) -> bool {
        let at = Pointer::parse("/total").unwrap();
        Condition { at, is }.met(&crate::json::parse_str(arguments, 64).unwrap())
    }

    #[test]
    fn numbers_are_compared_by_their_exact_value() {
        let above = |bound: &str, total: &str| {
            met(Comparison::GreaterThan(bound.to_owned()), &format!(r#"{{"total":{total}}}"#))
        };
        for (bound, total, asked) in [
            ("500", "500", false),
            ("500", "500.0", false),
            ("500", "5e2", false),
            ("500", "500.00000000000000000001", true),
            ("500", "499.99999999999999999999", false),
            ("9007199254740992", "9007199254740993", true),
            ("500", "5000e-1", false),
            ("500", "1e3", true),
            ("500", "60", false),
            ("500", "-1000", false),
            ("-5", "-4.5", true),
            ("-5", "-50", false),
            ("0", "0.0", false),
            ("0", "-0", false),
            ("0", "1e-9999", true),
            ("0.1", "0.11", true),
            ("0.1", "0.09", false),
        ] {
            assert_eq!(above(bound, total), asked, "{total} > {bound}");
        }
        assert!(met(Comparison::LessThan("3".to_owned()), r#"{"total":2.9}"#));
        assert!(!met(Comparison::LessThan("3".to_owned()), r#"{"total":3}"#));
    }

    #[test]
    fn what_cannot_be_compared_is_asked_about() {
        for arguments in [
            "{}",
            r#"{"total":null}"#,
            r#"{"total":"10"}"#,
            r#"{"total":[10]}"#,
            r#"{"total":{"value":10}}"#,
            r#"{"Total":10}"#,
        ] {
            assert!(met(Comparison::GreaterThan("500".to_owned()), arguments), "{arguments}");
        }
    }

    #[test]
    fn equality_is_exact_and_typed() {
        let is = |expected: Expected, total: &str| {
            met(Comparison::Equals(expected), &format!(r#"{{"total":{total}}}"#))
        };
        assert!(is(Expected::Text("EUR".to_owned()), r#""EUR""#));
        assert!(!is(Expected::Text("EUR".to_owned()), r#""eur""#));
        assert!(is(Expected::Text("5".to_owned()), "5"), "of another type");
        assert!(is(Expected::Number("5".to_owned()), "5.0"));
        assert!(!is(Expected::Number("5".to_owned()), "6"));
        assert!(is(Expected::Bool(true), "true") && !is(Expected::Bool(true), "false"));
        assert!(is(Expected::Bool(true), r#""false""#), "of another type");
    }
}
