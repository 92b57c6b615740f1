-- The ledger's tables. All begin with counterfoil_, so that they may live in an application's own file.
-- Instants are milliseconds since 1970-01-01T00:00:00Z of store time; digests are 32 bytes.

CREATE TABLE counterfoil_meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- Where the ledger ends: one row, read and written in every commit.
CREATE TABLE counterfoil_head (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    position INTEGER NOT NULL,
    newest   INTEGER NOT NULL,
    pauses   INTEGER NOT NULL,
    tokens   INTEGER NOT NULL
);
INSERT INTO counterfoil_head (one, position, newest, pauses, tokens) VALUES (1, 0, 0, 0, 0);

-- One row per operation: what is queried has a column, the rest is in body. The two large texts come last, so that
-- lists never read them.
CREATE TABLE counterfoil_operations (
    account            TEXT NOT NULL,
    id                 TEXT NOT NULL,
    tool               TEXT NOT NULL,
    action             TEXT NOT NULL,
    fingerprint        TEXT NOT NULL,
    task               TEXT,
    subject            TEXT,
    stage              TEXT NOT NULL
        CHECK (stage IN ('prepared', 'in_progress', 'succeeded', 'rejected', 'unknown')),
    held               INTEGER NOT NULL,
    unresolved         INTEGER NOT NULL,
    released           INTEGER NOT NULL,
    open               INTEGER NOT NULL,
    succeeded_at       INTEGER,
    rejected_as        TEXT,
    replaced_by        TEXT,
    wish               INTEGER NOT NULL,
    due_at             INTEGER,
    receipt_expires_at INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    version            INTEGER NOT NULL,
    policy_version     INTEGER NOT NULL,
    attempts           INTEGER NOT NULL,
    reference          TEXT,
    body               TEXT NOT NULL,
    arguments          TEXT NOT NULL,
    result             TEXT,
    PRIMARY KEY (account, id)
);
CREATE INDEX counterfoil_operations_time ON counterfoil_operations (account, created_at, id);
CREATE INDEX counterfoil_operations_census ON counterfoil_operations (account, tool, stage, held);
CREATE INDEX counterfoil_operations_peers ON counterfoil_operations (account, tool, action) WHERE open = 1;
CREATE INDEX counterfoil_operations_subject ON counterfoil_operations (account, subject) WHERE subject IS NOT NULL;
CREATE INDEX counterfoil_operations_held ON counterfoil_operations (account, created_at, id) WHERE held = 1;
CREATE INDEX counterfoil_operations_due ON counterfoil_operations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX counterfoil_operations_unknown ON counterfoil_operations (account, created_at) WHERE stage = 'unknown';
CREATE INDEX counterfoil_operations_expiry ON counterfoil_operations (receipt_expires_at)
    WHERE receipt_expires_at IS NOT NULL;
CREATE INDEX counterfoil_operations_reference ON counterfoil_operations (account, reference)
    WHERE reference IS NOT NULL;

-- Which operation a key or reference was sent for.
CREATE TABLE counterfoil_keys (
    account TEXT NOT NULL,
    key     TEXT NOT NULL,
    id      TEXT NOT NULL,
    PRIMARY KEY (account, key, id)
) WITHOUT ROWID;

CREATE TABLE counterfoil_evidence (
    position     INTEGER PRIMARY KEY,
    account      TEXT NOT NULL,
    writer       TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    by_name      TEXT NOT NULL,
    by_kind      TEXT NOT NULL,
    operation_id TEXT,
    version      INTEGER NOT NULL,
    state        TEXT,
    data         TEXT,
    data_digest  BLOB NOT NULL,
    digest       BLOB NOT NULL,
    previous     BLOB NOT NULL,
    UNIQUE (account, writer, seq)
);
CREATE INDEX counterfoil_evidence_account ON counterfoil_evidence (account, position);
CREATE INDEX counterfoil_evidence_operation ON counterfoil_evidence (account, operation_id, position);

CREATE TABLE counterfoil_policies (
    tool       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    digest     BLOB NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tool, version)
) WITHOUT ROWID;

-- Pauses in force and past ones: budgets do not count the time between began_at and ended_at.
CREATE TABLE counterfoil_pauses (
    number   INTEGER PRIMARY KEY,
    tool     TEXT,
    scope    TEXT,
    began_at INTEGER NOT NULL,
    by_name  TEXT NOT NULL,
    note     TEXT NOT NULL,
    restored INTEGER NOT NULL,
    ended_at INTEGER,
    ended_by TEXT,
    end_note TEXT
);

-- Credential refusals in a row.
CREATE TABLE counterfoil_refusals (
    tool    TEXT NOT NULL,
    scope   TEXT NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (tool, scope)
) WITHOUT ROWID;

CREATE TABLE counterfoil_buckets (
    name  TEXT PRIMARY KEY,
    level INTEGER NOT NULL,
    at    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE counterfoil_tokens (
    id         TEXT PRIMARY KEY,
    principal  TEXT NOT NULL,
    account    TEXT NOT NULL,
    roles      TEXT NOT NULL,
    tools      TEXT NOT NULL,
    digest     BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;

-- What is left of an operation after its retention: enough to refuse its ID for ever.
CREATE TABLE counterfoil_tombstones (
    account        TEXT NOT NULL,
    id             TEXT NOT NULL,
    tool           TEXT NOT NULL,
    stage          TEXT NOT NULL,
    closed_at      INTEGER NOT NULL,
    receipt_digest TEXT,
    PRIMARY KEY (account, id)
) WITHOUT ROWID;
