//! What the proxy does to one connection.

use std::time::Duration;

/// What happens to a direction that has carried its share of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Both connections close in order: what came through looks truncated.
    Close,
    /// Both connections are reset.
    Reset,
    /// Nothing more comes through, and nobody is told: a partition.
    Swallow,
}

/// A direction carries this many bytes and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Bytes that come through. With 0 the first byte that arrives sets off the end.
    pub bytes: u64,
    /// What follows, as soon as the last of them is through.
    pub then: Then,
}

impl Limit {
    /// Nothing comes through, and the first byte that tries ends both connections.
    pub const NOTHING: Self = Self { bytes: 0, then: Then::Close };
}

/// Where a connection is held until [`super::Proxy::release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// With the first bytes of the request in the proxy's hands. Released after the client has gone,
    /// they are the request that arrives late.
    Request,
    /// With the first bytes of the answer in the proxy's hands.
    Reply,
}

/// When a second copy of the first whole request is delivered, on a connection of its own. Its answer
/// goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// Beside the original.
    AtOnce,
    /// When the first bytes of the answer to the original have come back.
    AfterReply,
    /// When [`super::Proxy::deliver_copies`] is called.
    Kept,
}

/// What happens to one connection. The default passes everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Waits before the first bytes of the request are passed on.
    pub delay_request: Duration,
    /// Waits before the first bytes of the answer are passed on.
    pub delay_reply: Duration,
    /// How much of what the client sends comes through.
    pub limit_request: Option<Limit>,
    /// How much of what the server answers comes through.
    pub limit_reply: Option<Limit>,
    /// Holds the connection.
    pub hold: Option<Hold>,
    /// Delivers the request a second time.
    pub copy: Option<Copy>,
}

impl Plan {
    /// Passes everything.
    #[must_use]
    pub fn pass() -> Self {
        Self::default()
    }

    /// The request goes through, no byte of the answer comes back, and the connection closes.
    #[must_use]
    pub fn drop_reply() -> Self {
        Self { limit_reply: Some(Limit::NOTHING), ..Self::default() }
    }

    /// As [`Plan::drop_reply`], with a reset.
    #[must_use]
    pub fn reset_reply() -> Self {
        Self { limit_reply: Some(Limit { bytes: 0, then: Then::Reset }), ..Self::default() }
    }

    /// `bytes` of the answer come back, then the connection closes.
    #[must_use]
    pub fn truncate_reply(bytes: u64) -> Self {
        Self { limit_reply: Some(Limit { bytes, then: Then::Close }), ..Self::default() }
    }

    /// `bytes` of the request go through, then the connection closes.
    #[must_use]
    pub fn truncate_request(bytes: u64) -> Self {
        Self { limit_request: Some(Limit { bytes, then: Then::Close }), ..Self::default() }
    }

    /// The request goes through and the answer never comes.
    #[must_use]
    pub fn swallow_reply() -> Self {
        Self { limit_reply: Some(Limit { bytes: 0, then: Then::Swallow }), ..Self::default() }
    }

    /// Holds the connection there.
    #[must_use]
    pub fn hold(at: Hold) -> Self {
        Self { hold: Some(at), ..Self::default() }
    }

    /// Delivers the request twice.
    #[must_use]
    pub fn duplicate(copy: Copy) -> Self {
        Self { copy: Some(copy), ..Self::default() }
    }
}
