//! Why a verb did not do what was asked. Typed where code matches on it, with a stable code where a user searches.

use crate::guard::{Peer, Stage};
use crate::id::OperationId;
use crate::state::IllegalEvent;

/// A refusal: nothing was changed by the call, and nothing was sent because of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The account has no operation with this ID.
    #[error("there is no operation with this ID")]
    UnknownOperation,
    /// There is none that a call names beside its own: the one to replace, or one to be distinct from.
    #[error("there is no operation {id}")]
    UnknownNamed {
        /// Which.
        id: OperationId,
    },
    /// The receipt's retention is over; the ID stays used up for ever.
    #[error("the operation ended long ago and its receipt is no longer kept")]
    ReceiptExpired {
        /// How it ended.
        stage: Stage,
    },
    /// The ID was used for another intent.
    #[error("the operation ID was used for another intent")]
    OperationIdReused {
        /// The members that differ, never their values.
        differs: Vec<String>,
        /// What is known of the stored one.
        stage: Stage,
    },
    /// No tool of this name is declared for the account.
    #[error("no such tool is declared")]
    UnknownTool,
    /// The caller may not use the tool.
    #[error("the caller may not use this tool")]
    ToolForbidden,
    /// The caller lacks a role.
    #[error("this needs the role {0}")]
    RoleForbidden(&'static str),
    /// The approver must be another principal than the preparer.
    #[error("whoever prepared an operation cannot approve it")]
    SamePrincipal,
    /// An agent may not declare itself distinct from this operation.
    #[error("only an approver may declare an operation distinct from one that is {}", stage.label())]
    DistinctForbidden {
        /// Which one.
        id: OperationId,
        /// What is known of it.
        stage: Stage,
    },
    /// The same action is unresolved in the same task.
    #[error("the same action is not settled yet")]
    ActionUnresolved {
        /// Every operation that holds it back, newest first.
        blockers: Vec<Peer>,
    },
    /// A start was held back by the guard, or waits for a former proposal or for a subject.
    #[error("another operation must be settled first")]
    BlockedByOperation {
        /// Every operation that holds it back, newest first.
        blockers: Vec<Peer>,
    },
    /// A person must say yes first.
    #[error("a person must approve the operation first")]
    ApprovalRequired,
    /// The operation is past the point where this can be decided.
    #[error("this cannot be decided while the operation is {0}")]
    WrongState(&'static str),
    /// What was approved is not what is stored.
    #[error("the fingerprint is not the stored one")]
    FingerprintMismatch,
    /// The operation changed since it was shown.
    #[error("the operation changed since it was shown")]
    ChangedMeanwhile,
    /// The claim was outranked, or never was.
    #[error("the claim has been outranked")]
    StaleClaim,
    /// The arguments cannot become a request.
    #[error("the arguments do not fit the tool: {0}")]
    InvalidArguments(String),
    /// The tool is paused.
    #[error("sends of this tool are paused")]
    Paused,
    /// The cursor of a list is none that this product gave out.
    #[error("the cursor is none of this list")]
    InvalidCursor,
    /// Another operation replaces that one already.
    #[error("operation {by} took that place already")]
    AlreadyReplaced {
        /// Which.
        by: OperationId,
    },
    /// What was sent could still take effect.
    #[error("it is too early to establish that nothing happened")]
    TooEarly {
        /// From when on it can be established; `None` where nothing bounds the request.
        not_before: Option<crate::time::Timestamp>,
    },
    /// Somebody else holds the claim.
    #[error("another worker holds the claim")]
    InProgress,
    /// The tool is not carried out by workers.
    #[error("this tool is not carried out by workers")]
    NotAWorkerTool,
    /// The worker's code declares something else than the file.
    #[error("the worker's declaration differs from the one in force: {}", .differs.join(", "))]
    DeclarationMismatch {
        /// The members that differ.
        differs: Vec<String>,
    },
    /// The ledger is older than its mark and does not know this ID: it may have been used in the lost part.
    #[error("the ledger was restored from an older copy and does not know this ID")]
    LedgerRestored,
}

impl Refusal {
    /// The stable code that every face shows and documents.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownOperation | Self::UnknownNamed { .. } => "unknown-operation",
            Self::ReceiptExpired { .. } => "receipt-expired",
            Self::OperationIdReused { .. } => "operation-id-reused",
            Self::UnknownTool => "unknown-tool",
            Self::ToolForbidden
            | Self::RoleForbidden(_)
            | Self::SamePrincipal
            | Self::DistinctForbidden { .. } => "forbidden",
            Self::ActionUnresolved { .. } => "action-unresolved",
            Self::BlockedByOperation { .. } => "blocked-by-operation",
            Self::ApprovalRequired => "approval-required",
            Self::WrongState(_) => "wrong-state",
            Self::FingerprintMismatch => "fingerprint-mismatch",
            Self::ChangedMeanwhile => "changed-meanwhile",
            Self::StaleClaim => "stale-claim",
            Self::InvalidArguments(_) => "invalid-arguments",
            Self::Paused => "paused",
            Self::InvalidCursor => "invalid-cursor",
            Self::AlreadyReplaced { .. } => "already-replaced",
            Self::TooEarly { .. } => "too-early",
            Self::InProgress => "in-progress",
            Self::NotAWorkerTool => "not-a-worker-tool",
            Self::DeclarationMismatch { .. } => "declaration-mismatch",
            Self::LedgerRestored => "ledger-restored",
        }
    }
}

impl From<IllegalEvent> for Refusal {
    fn from(illegal: IllegalEvent) -> Self {
        Self::WrongState(illegal.state)
    }
}

/// What the store could not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Busy, closed or not reachable; nothing was written.
    #[error("the ledger is not available: {0}")]
    Unavailable(String),
    /// No room left; nothing was written.
    #[error("the ledger's disk is full")]
    Full,
    /// An input or output error while committing: whether the commit is durable is not known before the file has been
    /// opened anew. Nothing more is read or written through this process.
    #[error("the ledger's disk failed: {0}")]
    Poisoned(String),
    /// The answer to a commit was lost, and the database could not be asked afterwards: it may have been written.
    #[error("nobody knows whether the ledger wrote it: {0}")]
    Uncertain(String),
    /// What was read back is not what was written.
    #[error("the ledger is damaged: {0}")]
    Corrupt(String),
    /// The file cannot be used as a ledger.
    #[error("this cannot be used as a ledger: {0}")]
    Unusable(String),
}

impl StoreError {
    /// Whether it is certain that the call that met it wrote nothing.
    #[must_use]
    pub fn wrote_nothing(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Full | Self::Unusable(_) => true,
            Self::Poisoned(_) | Self::Uncertain(_) | Self::Corrupt(_) => false,
        }
    }

    /// The stable code that every face shows and documents.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full => "store-full",
            Self::Unavailable(_)
            | Self::Poisoned(_)
            | Self::Uncertain(_)
            | Self::Corrupt(_)
            | Self::Unusable(_) => "store-unavailable",
        }
    }
}

/// Why a verb failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ledger says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Error {
    /// The stable code that every face shows and documents.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Store(error) => error.code(),
        }
    }
}
