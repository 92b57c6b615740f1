//! What kind of supplier this is.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::fault::Later;
use super::script::RandomFaults;

/// What the supplier does with a write that it may have seen before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flavour {
    /// Answers the same key with the stored answer, and the same key with another body with 422.
    /// A write without a key is always a new effect.
    Dedupe {
        /// Where the key comes: the name of a header, a query parameter, or a member of the body
        /// (a JSON pointer if it starts with `/`). For PUT the last path segment, failing those.
        key_header: String,
        /// How long a key is kept, from its first arrival, in the supplier's time. `None`: until
        /// it is told to forget.
        retention: Option<Duration>,
        /// Whether an error answer is stored with the key and repeated, or forgotten.
        stored_errors: bool,
    },
    /// Every write is a new effect, whatever comes with it.
    Forgetful,
    /// Answers 409 `already_exists` to a client reference that was used under the same path.
    UniqueReference,
}

impl Flavour {
    /// Dedupes on `Idempotency-Key`, keeps keys until told to forget, stores no errors.
    #[must_use]
    pub fn dedupe() -> Self {
        Self::Dedupe { key_header: "Idempotency-Key".to_owned(), retention: None, stored_errors: false }
    }

    pub(super) fn key_name(&self) -> &str {
        match self {
            Self::Dedupe { key_header, .. } => key_header,
            Self::Forgetful | Self::UniqueReference => "Idempotency-Key",
        }
    }

    pub(super) fn stores_errors(&self) -> bool {
        match self {
            Self::Dedupe { stored_errors, .. } => *stored_errors,
            Self::Forgetful | Self::UniqueReference => false,
        }
    }
}

impl FromStr for Flavour {
    type Err = io::Error;

    /// `dedupe` (as [`Flavour::dedupe`]), `forgetful` or `unique-reference`.
    fn from_str(name: &str) -> io::Result<Self> {
        match name {
            "dedupe" => Ok(Self::dedupe()),
            "forgetful" => Ok(Self::Forgetful),
            "unique-reference" => Ok(Self::UniqueReference),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the flavour is dedupe, forgetful or unique-reference",
            )),
        }
    }
}

/// How a supplier is set up.
#[derive(Debug, Clone)]
pub struct SupplierOptions {
    /// What it does with repeats.
    pub flavour: Flavour,
    /// The database file; `None` keeps it in memory.
    pub database: Option<PathBuf>,
    /// The port on `127.0.0.1`; 0 takes a free one. Used by [`super::Supplier::start`] only.
    pub port: u16,
    /// The name of the client reference: a header, a query parameter or a member of the body.
    pub reference: String,
    /// How long an effect stays invisible to the search, in the supplier's time.
    pub search_lag: Duration,
    /// Accept every write with 202 and let it take effect later.
    pub queue: Option<Later>,
    /// Faults for the requests that no scripted fault is meant for.
    pub random: Option<RandomFaults>,
    /// Whether `/sim/…` steers the supplier from outside: for one that runs as its own process.
    pub control: bool,
    /// How many of the latest requests are kept for inspection.
    pub requests_kept: usize,
}

impl SupplierOptions {
    /// A supplier of that flavour, in memory, on a free port, without faults.
    #[must_use]
    pub fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            database: None,
            port: 0,
            reference: "client_reference".to_owned(),
            search_lag: Duration::ZERO,
            queue: None,
            random: None,
            control: false,
            requests_kept: 100_000,
        }
    }

    /// Keeps the effects in a file, which a later supplier or another process can open.
    #[must_use]
    pub fn with_database(mut self, path: impl Into<PathBuf>) -> Self {
        self.database = Some(path.into());
        self
    }
}
