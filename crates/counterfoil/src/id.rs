//! Names that parse and print: every kind of name has a type of its own, and a value of the type is well formed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is not the name it should be. The text itself is never repeated: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct NameError {
    /// Which kind of name was expected.
    pub what: &'static str,
    /// What is wrong with it.
    pub problem: NameProblem,
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// No characters at all.
    #[error("is empty")]
    Empty,
    /// Longer than its limit, in bytes.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    /// Holds a character outside its grammar.
    #[error("may hold only {0}")]
    Character(&'static str),
    /// `.` or `..`, which clients and proxies resolve away as path segments.
    #[error("must not be \".\" or \"..\"")]
    Dots,
    /// Looks like a secret or like personal data.
    #[error("looks like {0}")]
    Sensitive(&'static str),
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Parses the name.
            ///
            /// # Errors
            /// Where the text is outside the grammar; the message never repeats the text.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> Result<(), NameProblem> = $check;
                check(text).map_err(|problem| NameError { what: $what, problem })?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// A name read back from the ledger, where it was checked before it was stored.
            #[allow(dead_code, reason = "not every name is read back by every store")]
            pub(crate) fn from_stored(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}

fn sized(text: &str, limit: usize) -> Result<(), NameProblem> {
    match text.len() {
        0 => Err(NameProblem::Empty),
        length if length > limit => Err(NameProblem::TooLong(limit)),
        _ => Ok(()),
    }
}

fn grammar(text: &str, extra: &[u8], words: &'static str) -> Result<(), NameProblem> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || extra.contains(&byte);
    if text.bytes().all(fits) { Ok(()) } else { Err(NameProblem::Character(words)) }
}

fn insensitive(text: &str) -> Result<(), NameProblem> {
    match crate::secret_shapes::looks_sensitive(text) {
        Some(shape) => Err(NameProblem::Sensitive(shape.text())),
        None => Ok(()),
    }
}

fn who(text: &str) -> Result<(), NameProblem> {
    sized(text, 64)?;
    grammar(text, b"._:-", "letters, digits, and . _ : -")
}

fn free_text(text: &str) -> Result<(), NameProblem> {
    sized(text, 255)?;
    if text.chars().any(char::is_control) {
        return Err(NameProblem::Character("printable characters"));
    }
    insensitive(text)
}

name!(
    /// The tenant that a caller belongs to; it comes from the authenticated token, never from a request body.
    Account,
    "account",
    who
);
name!(
    /// Who acts: the name that a token was created for.
    Principal,
    "principal",
    who
);
name!(
    /// A named kind of write action, such as `supplier.create_order`.
    ToolName,
    "tool",
    |text| {
        sized(text, 128)?;
        grammar(text, b"._-", "letters, digits, and . _ -")
    }
);
name!(
    /// The identity of one intended action, minted by application code when it accepts the proposal.
    ///
    /// 1 to 255 bytes of visible ASCII, not `.` or `..`, and nothing that looks like a secret or personal data.
    /// Unique per account, across all tools. A UUIDv7 is recommended.
    OperationId,
    "operation ID",
    |text| {
        sized(text, 255)?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NameProblem::Character("visible ASCII characters"));
        }
        if text == "." || text == ".." {
            return Err(NameProblem::Dots);
        }
        insensitive(text)
    }
);
name!(
    /// The agent run or conversation that an operation belongs to; at most 255 bytes.
    Task,
    "task",
    free_text
);
name!(
    /// What an operation is about, in the application's words; at most 255 bytes. Of the operations with one subject
    /// only one may be started and unsettled.
    Subject,
    "subject",
    free_text
);
name!(
    /// The process that carries an attempt out.
    WorkerName,
    "worker",
    |text| {
        sized(text, 128)?;
        grammar(text, b"._:-", "letters, digits, and . _ : -")
    }
);

/// Grows with every claim of an operation; what comes with an older one has been outranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// The token of the next claim.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Mints a fresh operation ID (UUIDv7). Call it once per accepted action and keep the result with the pending work;
/// never call it inside a retry.
#[must_use]
pub fn new_operation_id() -> OperationId {
    OperationId::from_stored(&uuid::Uuid::now_v7().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_ids_follow_their_grammar() {
        for good in [
            "a",
            "approved-action-17",
            "kitchen-7/order/week-32",
            "0198f2c1-7d3a-7c11-9a52-3f1f6c0e55aa",
            "...",
        ] {
            assert!(OperationId::parse(good).is_ok(), "{good}");
        }
        let long = "x".repeat(256);
        for bad in [
            "",
            " ",
            ".",
            "..",
            "a b",
            "a\n",
            "é",
            "\u{7f}",
            &long,
            "anna@example.com",
            "sk_live_4242424242424242",
        ] {
            assert!(OperationId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(OperationId::parse(&long[..255]).is_ok());
    }

    #[test]
    fn refusals_never_repeat_the_text() {
        let refused = OperationId::parse("anna@example.com").unwrap_err();
        assert!(!refused.to_string().contains("anna"));
    }
}
