//! What can go wrong with one request, and at which place.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire::Reply;

/// One fault. Each doc comment says what becomes of the effect.
///
/// In JSON (the control endpoint) a fault is `"reply_dropped"`, `{"slow_reply": 250}` (milliseconds),
/// `{"status": 503}`, `{"retry_after": [429, 2]}` and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The connection is closed with the request unread in its buffer (the system then answers with
    /// a reset). No effect, and the request is not among those seen.
    CloseBeforeRead,
    /// Reset once the head is read. No effect.
    ResetAfterHeadersRead,
    /// The whole request is read, then the connection closes without an answer. No effect.
    RequestLost,
    /// An error status. No effect.
    Status(u16),
    /// An error status with `Retry-After` in seconds. No effect.
    RetryAfter(u16, u64),
    /// A redirect to a location. No effect.
    Redirect(u16, String),
    /// Nothing happens until released; then the request is carried out and answered.
    HangBeforeEffect,
    /// Effect committed, then the connection closes before any byte of the answer.
    ReplyDropped,
    /// Effect committed, then a reset before any byte of the answer.
    ReplyReset,
    /// Effect committed, the answer comes after this time.
    SlowReply(#[serde(with = "millis")] Duration),
    /// Effect committed, the answer comes when released.
    Hang,
    /// Effect committed, an error status is answered.
    StatusAfterEffect(u16),
    /// Effect committed; status and head are whole, the body stops half way and the connection closes.
    TruncatedBody,
    /// Effect committed; a successful status whose body is not JSON, whatever its type says.
    GarbageBody,
    /// Effect committed; a successful status with a page of HTML, as an intermediary would answer.
    WrongContentType,
    /// Answered 202; the effect comes later, or never.
    Accepted202(Later),
    /// Effect committed; the answer is JSON of this many bytes.
    HugeBody(u64),
    /// Effect committed; a successful status with nothing in it.
    EmptyBody,
    /// Effect committed; 204.
    NoContent204,
    /// Carried out twice, as if the network had delivered a copy; the first answer is given. What the
    /// copy does depends on the flavour. It is among the requests seen.
    DeliveredTwice,
    /// Effect committed and answered, then the connection closes although it promised to stay.
    CloseAfterReply,
    /// An answer of one's own.
    Custom {
        /// What is answered.
        reply: Reply,
        /// Whether the effect is committed first.
        effect: bool,
    },
}

/// When an accepted request takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Later {
    /// Never: lost in the queue.
    Never,
    /// When the accepted requests are released.
    OnRelease,
    /// After this time, in milliseconds of real time in JSON.
    After(#[serde(with = "millis")] Duration),
}

/// Where a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The first byte of a request is there and unread.
    BeforeRead,
    /// Head read, body not.
    HeadRead,
    /// Request read.
    Read,
}

impl Fault {
    pub(super) fn stage(&self) -> Stage {
        match self {
            Self::CloseBeforeRead => Stage::BeforeRead,
            Self::ResetAfterHeadersRead => Stage::HeadRead,
            Self::RequestLost
            | Self::Status(_)
            | Self::RetryAfter(..)
            | Self::Redirect(..)
            | Self::HangBeforeEffect
            | Self::ReplyDropped
            | Self::ReplyReset
            | Self::SlowReply(_)
            | Self::Hang
            | Self::StatusAfterEffect(_)
            | Self::TruncatedBody
            | Self::GarbageBody
            | Self::WrongContentType
            | Self::Accepted202(_)
            | Self::HugeBody(_)
            | Self::EmptyBody
            | Self::NoContent204
            | Self::DeliveredTwice
            | Self::CloseAfterReply
            | Self::Custom { .. } => Stage::Read,
        }
    }

    /// Whether the write still takes effect (at once or later) under this fault.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        match self {
            Self::CloseBeforeRead
            | Self::ResetAfterHeadersRead
            | Self::RequestLost
            | Self::Status(_)
            | Self::RetryAfter(..)
            | Self::Redirect(..)
            | Self::Accepted202(Later::Never) => false,
            Self::Custom { effect, .. } => *effect,
            Self::HangBeforeEffect
            | Self::ReplyDropped
            | Self::ReplyReset
            | Self::SlowReply(_)
            | Self::Hang
            | Self::StatusAfterEffect(_)
            | Self::TruncatedBody
            | Self::GarbageBody
            | Self::WrongContentType
            | Self::Accepted202(Later::OnRelease | Later::After(_))
            | Self::HugeBody(_)
            | Self::EmptyBody
            | Self::NoContent204
            | Self::DeliveredTwice
            | Self::CloseAfterReply => true,
        }
    }

    /// The answer that replaces the flavour's own, and is what a supplier that stores errors stores.
    pub(super) fn answer_in_place(&self) -> Option<Reply> {
        match self {
            Self::Status(status) | Self::StatusAfterEffect(status) => Some(Reply::error(*status, "injected")),
            Self::RetryAfter(status, seconds) => {
                Some(Reply::error(*status, "injected").with("Retry-After", &seconds.to_string()))
            }
            Self::Redirect(status, location) => {
                Some(Reply::error(*status, "moved").with("Location", location))
            }
            Self::Custom { reply, .. } => Some(reply.clone()),
            Self::CloseBeforeRead
            | Self::ResetAfterHeadersRead
            | Self::RequestLost
            | Self::HangBeforeEffect
            | Self::ReplyDropped
            | Self::ReplyReset
            | Self::SlowReply(_)
            | Self::Hang
            | Self::TruncatedBody
            | Self::GarbageBody
            | Self::WrongContentType
            | Self::Accepted202(_)
            | Self::HugeBody(_)
            | Self::EmptyBody
            | Self::NoContent204
            | Self::DeliveredTwice
            | Self::CloseAfterReply => None,
        }
    }
}

/// Durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_a_short_spelling_in_json() {
        for (fault, json) in [
            (Fault::ReplyDropped, r#""reply_dropped""#),
            (Fault::SlowReply(Duration::from_millis(250)), r#"{"slow_reply":250}"#),
            (Fault::RetryAfter(429, 2), r#"{"retry_after":[429,2]}"#),
            (Fault::Accepted202(Later::OnRelease), r#"{"accepted202":"on_release"}"#),
            (Fault::Accepted202(Later::After(Duration::from_secs(1))), r#"{"accepted202":{"after":1000}}"#),
        ] {
            assert_eq!(serde_json::to_string(&fault).unwrap(), json);
            assert_eq!(serde_json::from_str::<Fault>(json).unwrap(), fault);
        }
    }
}
