//! Every problem in one table. The pages under `docs/reference/problems/` are made from it.

/// Whether an attempt may have been recorded when the problem is shown and the server knows nothing better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is known that none was recorded by the call.
    No,
    /// It is not known.
    Maybe,
}

impl Sent {
    /// The word of the member `sent`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Maybe => "maybe",
        }
    }
}

/// One kind of refusal or failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its stable name.
    pub slug: &'static str,
    /// The HTTP status that it is answered with.
    pub status: u16,
    /// One line for people.
    pub title: &'static str,
    /// Whether anything may have been sent, unless the server knows better.
    pub sent: Sent,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it.
    pub hint: &'static str,
}

/// Every problem, by status and slug.
pub const CATALOGUE: &[Problem] = &[
    Problem {
        slug: "invalid-request",
        status: 400,
        title: "The request cannot be read",
        sent: Sent::No,
        meaning: "The body is not the JSON object that this call takes: it is no JSON, a member is unknown or of \
                 another type, a query parameter or `wait_ms` is outside its range, or the body asks for \
                 something that this version does not do. Values over a limit are refused, never cut down.",
        hint: "Correct the member that `detail` names. Unknown members are refused so that a slip of the hand is \
              never ignored.",
    },
    Problem {
        slug: "invalid-operation-id",
        status: 400,
        title: "The operation ID is not usable",
        sent: Sent::No,
        meaning: "An operation ID is 1 to 255 bytes of visible ASCII, not `.` or `..`, and nothing that looks like \
                 a secret or personal data (an e-mail address, a key or token, a payment card), because IDs \
                 appear in logs and at destinations.",
        hint: "Mint an ID when the action is accepted, a UUIDv7 for example, and keep it with the pending work.",
    },
    Problem {
        slug: "invalid-arguments",
        status: 400,
        title: "The arguments are not usable",
        sent: Sent::No,
        meaning: "Arguments are one JSON object without duplicate member names, without lone surrogates, at most \
                 64 levels deep, with numbers of at most 1 000 digits. They must also fit the tool: a member that \
                 the URL or a form needs is missing or no scalar, or they already hold the member that the key or \
                 reference goes into.",
        hint: "Correct what `detail` names and prepare again; nothing was stored under this ID.",
    },
    Problem {
        slug: "invalid-cursor",
        status: 400,
        title: "The cursor is none of this list",
        sent: Sent::No,
        meaning: "The cursor was not given out by this list, or it was changed on the way.",
        hint: "Begin again without a cursor, and hand back `next_cursor` exactly as it came.",
    },
    Problem {
        slug: "idempotency-key-required",
        status: 400,
        title: "This call needs an Idempotency-Key",
        sent: Sent::No,
        meaning: "Transparent mode takes the operation ID from the header `Idempotency-Key`. Without one, two \
                 tries could not be told from two actions.",
        hint: "Send `Idempotency-Key: \"ID\"` with an ID that your application keeps with the pending work and uses \
              for every retry.",
    },
    Problem {
        slug: "unauthenticated",
        status: 401,
        title: "No valid token",
        sent: Sent::No,
        meaning: "The call carries no bearer token, or one that is unknown, expired or revoked. A revocation is in \
                 effect everywhere within a second.",
        hint: "Send `Authorization: Bearer TOKEN`. An operator makes tokens with `counterfoil token create`.",
    },
    Problem {
        slug: "bad-signature",
        status: 401,
        title: "The signature is not good",
        sent: Sent::No,
        meaning: "A webhook of a destination is believed only if it is signed with the tool's secret over the exact \
                 bytes of its body, at a time within five minutes of the server's. Nothing of this one was read.",
        hint: "Compare the secret in `evidence` with the destination's, leave the body unchanged on its way (a proxy \
              must not rewrite it), and check both clocks. The destination's own repeats carry a new signature.",
    },
    Problem {
        slug: "forbidden",
        status: 403,
        title: "This token may not do that",
        sent: Sent::No,
        meaning: "The token is valid and lacks something: the role that the call needs, the tool, or the right to \
                 this very decision. Whoever prepared an operation cannot approve it, and only an approver may \
                 declare an operation distinct from one whose outcome is open.",
        hint: "Use a token with the role that `detail` names, of another principal where a decision is asked for.",
    },
    Problem {
        slug: "not-found",
        status: 404,
        title: "There is nothing at this address",
        sent: Sent::No,
        meaning: "No call of the API has this path.",
        hint: "Compare the path with `/openapi.json`. Operation IDs must be percent-encoded in a path.",
    },
    Problem {
        slug: "unknown-operation",
        status: 404,
        title: "There is no such operation",
        sent: Sent::No,
        meaning: "This account has no operation with this ID. An operation of another account answers exactly like \
                 one that does not exist.",
        hint: "Check ID and account. If your application kept this ID for an accepted action that was never \
              prepared, prepare it under this ID.",
    },
    Problem {
        slug: "unknown-tool",
        status: 404,
        title: "There is no such tool",
        sent: Sent::No,
        meaning: "No tool of this name is declared for this account.",
        hint: "Compare the name with `counterfoil tool list`; declare the tool in the configuration if it is new.",
    },
    Problem {
        slug: "method-not-allowed",
        status: 405,
        title: "This address does not take that method",
        sent: Sent::No,
        meaning: "The path exists, the method does not.",
        hint: "The header `Allow` lists the methods; `/openapi.json` says what each one does.",
    },
    Problem {
        slug: "action-unresolved",
        status: 409,
        title: "The same action is not settled yet",
        sent: Sent::No,
        meaning: "An operation with the same tool and the same arguments, in the same task or where either has no \
                 task, may have happened and is not settled. A new ID for it could do the action a second time. \
                 `operations` lists every operation that stands in the way, `operation_id` the newest.",
        hint: "Ask for the named operation and go on with its ID. If a second action is meant, name the first in \
              `distinct_from` (while its outcome is unknown, only an approver may); an approver's `release` lets \
              later ones pass.",
    },
    Problem {
        slug: "approval-required",
        status: 409,
        title: "A person must approve first",
        sent: Sent::No,
        meaning: "The tool asks for an approval, or an operation with the same action has succeeded since this one \
                 was prepared, and nobody has approved this one with that knowledge. No attempt is recorded \
                 before.",
        hint: "Let another principal with the approver role approve it: `counterfoil op approve ID --fingerprint \
              FINGERPRINT`.",
    },
    Problem {
        slug: "blocked-by-operation",
        status: 409,
        title: "Another operation must be settled first",
        sent: Sent::No,
        meaning: "A start was held back because another operation, with the same action or subject or the proposal \
                 that this one changes, may have happened. It stays prepared; `operations` lists what it waits for. Held \
                 back by the same action, its standing wish has ended; otherwise a wish that stood before stands on.",
        hint: "Settle the named operation, then execute this one again under its own ID.",
    },
    Problem {
        slug: "wrong-state",
        status: 409,
        title: "The operation is past that point",
        sent: Sent::No,
        meaning: "This decision is not possible in the state that the operation is in.",
        hint: "Read the operation; `next` says what can be decided now.",
    },
    Problem {
        slug: "already-replaced",
        status: 409,
        title: "Another operation replaces that one already",
        sent: Sent::No,
        meaning: "An operation has at most one live replacement. Two of them could both be sent once the original \
                 turns out not to have happened. `operation_id` is the one that replaces it, or the newest in its line.",
        hint: "Replace the replacement: name that operation in `replaces`.",
    },
    Problem {
        slug: "fingerprint-mismatch",
        status: 409,
        title: "Something else was approved",
        sent: Sent::No,
        meaning: "The fingerprint in the decision is not the one that is stored: what was looked at is not what \
                 would be sent.",
        hint: "Show the operation again, compare the arguments, and decide with the fingerprint that it shows now.",
    },
    Problem {
        slug: "changed-meanwhile",
        status: 409,
        title: "The operation has changed",
        sent: Sent::No,
        meaning: "The operation has a newer version than the one named in `if_version`.",
        hint: "Read it again and decide on what it says now.",
    },
    Problem {
        slug: "too-early",
        status: 409,
        title: "It is too early to say that nothing happened",
        sent: Sent::No,
        meaning: "What was sent could still take effect. `not_before` says from when on an absence is final; null \
                 means that nothing bounds the request.",
        hint: "Look again after `not_before`. Where nothing bounds it, the verdicts are `succeeded` and \
              `abandoned`.",
    },
    Problem {
        slug: "in-progress",
        status: 409,
        title: "The operation is running",
        sent: Sent::Maybe,
        meaning: "An attempt is under way, or a worker holds the claim.",
        hint: "Wait, then ask again with the same ID.",
    },
    Problem {
        slug: "not-a-worker-tool",
        status: 409,
        title: "No worker carries this tool out",
        sent: Sent::No,
        meaning: "The tool is carried out by the server itself, so its operations cannot be claimed.",
        hint: "Use `execute`.",
    },
    Problem {
        slug: "declaration-mismatch",
        status: 409,
        title: "Code and configuration declare the tool differently",
        sent: Sent::No,
        meaning: "The worker's declaration differs from the one in force; the members are named. The configuration \
                 decides.",
        hint: "Bring the two into line and claim again.",
    },
    Problem {
        slug: "paused",
        status: 409,
        title: "Sends of this tool are paused",
        sent: Sent::No,
        meaning: "An operator paused the tool or everything, the destination refused the credential three times in \
                 a row, or the ledger is older than its mark or has lost it. Preparing and reading go on.",
        hint: "Find out why with `counterfoil status`; only `counterfoil tool resume TOOL --note \"…\"` ends a pause, and \
              `counterfoil tool resume --all --note \"…\"` a pause of everything.",
    },
    Problem {
        slug: "stale-claim",
        status: 409,
        title: "The claim has been outranked",
        sent: Sent::No,
        meaning: "The lease ran out and a newer claim was granted. The report is kept as evidence and moves \
                 nothing. Proof of success is never refused this way.",
        hint: "Stop working on this operation. If the action succeeded, report exactly that.",
    },
    Problem {
        slug: "response-not-kept",
        status: 409,
        title: "It succeeded, and its answer is not kept",
        sent: Sent::Maybe,
        meaning: "The action was carried out under this key earlier; the destination's answer was too large to \
                 keep or came in another way, so it cannot be given back byte for byte.",
        hint: "Do not send it again. Read the operation for its receipt.",
    },
    Problem {
        slug: "receipt-expired",
        status: 410,
        title: "The operation ended long ago",
        sent: Sent::No,
        meaning: "The retention of the receipt is over. The ID stays used up for ever, so the action never runs a \
                 second time under it. `state` says how it ended.",
        hint: "Do not repeat it. If a new action is meant, mint a new ID when it is accepted.",
    },
    Problem {
        slug: "too-large",
        status: 413,
        title: "The request is too large",
        sent: Sent::No,
        meaning: "The arguments or the body are larger than the limit that is named.",
        hint: "Send less, or hand large content over by reference.",
    },
    Problem {
        slug: "unsupported-media-type",
        status: 415,
        title: "The body is not JSON",
        sent: Sent::No,
        meaning: "Bodies are `application/json`.",
        hint: "Send `Content-Type: application/json` and a JSON body.",
    },
    Problem {
        slug: "operation-id-reused",
        status: 422,
        title: "Operation ID reused with a different intent",
        sent: Sent::No,
        meaning: "The ID is stored with another tool or other arguments. `differs` names the top-level members \
                 that differ, never their values. Nothing was executed and the stored receipt is not shown.",
        hint: "A changed action is a new operation: mint a new ID when the change is accepted. If it should be the \
              same action, send the arguments that were stored first.",
    },
    Problem {
        slug: "too-many-requests",
        status: 429,
        title: "Too many requests",
        sent: Sent::No,
        meaning: "This caller asks faster than it may, or too many callers wait.",
        hint: "Wait as long as `Retry-After` says, then repeat the same call with the same ID.",
    },
    Problem {
        slug: "internal-error",
        status: 500,
        title: "Something went wrong here",
        sent: Sent::Maybe,
        meaning: "The server met something that it does not expect. What it had committed before is safe in the \
                 ledger.",
        hint: "Repeat the call with the same ID, never with a new one, and report the `Request-Id`.",
    },
    Problem {
        slug: "ledger-restored",
        status: 503,
        title: "The ledger was restored from an older copy",
        sent: Sent::No,
        meaning: "The ledger is older than its high-water mark, or has lost it, and it does not know this ID: it \
                 may have been used in the part that was lost. Tools whose destination recognises repeats go on.",
        hint: "Restore the newest copy, or find out at the destinations what happened since; then an operator \
              resumes with `counterfoil tool resume --all --note \"…\"`.",
    },
    Problem {
        slug: "store-full",
        status: 503,
        title: "The ledger's disk is full",
        sent: Sent::No,
        meaning: "There is no room to record an attempt, so none is made.",
        hint: "Make room; then repeat the call with the same ID.",
    },
    Problem {
        slug: "store-unavailable",
        status: 503,
        title: "The ledger cannot be used",
        sent: Sent::Maybe,
        meaning: "The database is busy, closed, damaged, or its disk failed. Where a commit failed half-way it is \
                 not known whether it holds before the file was opened anew.",
        hint: "Repeat the call with the same ID, never with a new one. If it lasts, read the server's log and \
              check the disk.",
    },
    Problem {
        slug: "outcome-unknown",
        status: 504,
        title: "The outcome is not known",
        sent: Sent::Maybe,
        meaning: "The request was sent and no answer proves what became of it. The operation is kept and followed \
                 up as its tool declares.",
        hint: "Do not send it again under another key. Ask again with the same key, or read the operation.",
    },
];
