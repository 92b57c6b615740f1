-- The ledger's tables, in a schema of their own. Every key of an account's rows begins with the account, and nothing here
-- rests on a sequence, a session or what another account holds.
-- Instants are milliseconds since 1970-01-01T00:00:00Z of store time; digests are 32 bytes.

CREATE TABLE counterfoil.meta (
    key   text PRIMARY KEY,
    value bytea NOT NULL
);

-- How often pauses and tokens changed: what every node looks at to notice it.
CREATE TABLE counterfoil.head (
    one    integer PRIMARY KEY CHECK (one = 1),
    pauses bigint NOT NULL,
    tokens bigint NOT NULL
);
INSERT INTO counterfoil.head (one, pauses, tokens) VALUES (1, 0, 0);

-- One row per account: where its evidence ends. Whoever changes anything of an account holds this row.
CREATE TABLE counterfoil.accounts (
    account  text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL,
    newest   bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX accounts_newest ON counterfoil.accounts (newest);

-- One row per node: how many commits it made. Whether one of them came about is read here when its answer was lost.
CREATE TABLE counterfoil.nodes (
    writer  text COLLATE "C" PRIMARY KEY,
    commits bigint NOT NULL,
    seen_at bigint NOT NULL
) WITH (fillfactor = 50);

-- One row per operation: what is queried has a column, the rest is in body.
CREATE TABLE counterfoil.operations (
    account            text COLLATE "C" NOT NULL,
    id                 text COLLATE "C" NOT NULL,
    tool               text COLLATE "C" NOT NULL,
    action             text COLLATE "C" NOT NULL,
    fingerprint        text COLLATE "C" NOT NULL,
    task               text COLLATE "C",
    subject            text COLLATE "C",
    stage              text COLLATE "C" NOT NULL
        CHECK (stage IN ('prepared', 'in_progress', 'succeeded', 'rejected', 'unknown')),
    held               boolean NOT NULL,
    unresolved         boolean NOT NULL,
    released           boolean NOT NULL,
    open               boolean NOT NULL,
    suspected          boolean NOT NULL,
    succeeded_at       bigint,
    rejected_as        text COLLATE "C",
    replaces           text COLLATE "C",
    replaced_by        text COLLATE "C",
    wish               boolean NOT NULL,
    due_at             bigint,
    work_at            bigint,
    receipt_expires_at bigint,
    created_at         bigint NOT NULL,
    updated_at         bigint NOT NULL,
    version            bigint NOT NULL,
    policy_version     bigint NOT NULL,
    attempts           bigint NOT NULL,
    reference          text COLLATE "C",
    body               text NOT NULL,
    arguments          text NOT NULL,
    result             text,
    PRIMARY KEY (account, id)
);
CREATE INDEX operations_time ON counterfoil.operations (account, created_at, id);
CREATE INDEX operations_census ON counterfoil.operations (account, tool, stage, held);
CREATE INDEX operations_peers ON counterfoil.operations (account, tool, action) WHERE open;
CREATE INDEX operations_subject ON counterfoil.operations (account, subject) WHERE subject IS NOT NULL;
CREATE INDEX operations_held ON counterfoil.operations (account, created_at, id) WHERE held;
CREATE INDEX operations_due ON counterfoil.operations (due_at, account, id) WHERE due_at IS NOT NULL;
CREATE INDEX operations_work ON counterfoil.operations (account, tool, work_at, id) WHERE work_at IS NOT NULL;
CREATE INDEX operations_unknown ON counterfoil.operations (account, created_at) WHERE stage = 'unknown';
CREATE INDEX operations_expiry ON counterfoil.operations (receipt_expires_at) WHERE receipt_expires_at IS NOT NULL;
CREATE INDEX operations_reference ON counterfoil.operations (account, reference) WHERE reference IS NOT NULL;

-- Which operation a key or reference was sent for.
CREATE TABLE counterfoil.keys (
    account text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    PRIMARY KEY (account, key, id)
);
CREATE INDEX keys_key ON counterfoil.keys (key);

CREATE TABLE counterfoil.evidence (
    account      text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    writer       text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    at           bigint NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    by_name      text COLLATE "C" NOT NULL,
    by_kind      text COLLATE "C" NOT NULL,
    operation_id text COLLATE "C",
    version      bigint NOT NULL,
    state        text COLLATE "C",
    data         text,
    data_digest  bytea NOT NULL,
    digest       bytea NOT NULL,
    previous     bytea NOT NULL,
    PRIMARY KEY (account, position),
    UNIQUE (account, writer, seq)
);
CREATE INDEX evidence_operation ON counterfoil.evidence (account, operation_id, position);

CREATE TABLE counterfoil.policies (
    tool       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    digest     bytea NOT NULL,
    body       text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (tool, version)
);

-- Pauses in force and past ones: budgets do not count the time between began_at and ended_at.
CREATE TABLE counterfoil.pauses (
    number   bigint PRIMARY KEY,
    tool     text COLLATE "C",
    scope    text COLLATE "C",
    began_at bigint NOT NULL,
    by_name  text NOT NULL,
    note     text NOT NULL,
    restored boolean NOT NULL,
    ended_at bigint,
    ended_by text,
    end_note text
);

-- Credential refusals in a row.
CREATE TABLE counterfoil.refusals (
    tool    text COLLATE "C" NOT NULL,
    scope   text COLLATE "C" NOT NULL,
    refused bigint NOT NULL,
    PRIMARY KEY (tool, scope)
);

CREATE TABLE counterfoil.buckets (
    name  text COLLATE "C" PRIMARY KEY,
    level bigint NOT NULL,
    at    bigint NOT NULL
);

CREATE TABLE counterfoil.tokens (
    id         text COLLATE "C" PRIMARY KEY,
    principal  text COLLATE "C" NOT NULL,
    account    text COLLATE "C" NOT NULL,
    roles      text NOT NULL,
    tools      text NOT NULL,
    digest     bytea NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);

-- What is left of an operation after its retention: enough to refuse its ID for ever.
CREATE TABLE counterfoil.tombstones (
    account        text COLLATE "C" NOT NULL,
    id             text COLLATE "C" NOT NULL,
    tool           text COLLATE "C" NOT NULL,
    stage          text COLLATE "C" NOT NULL,
    closed_at      bigint NOT NULL,
    receipt_digest text,
    PRIMARY KEY (account, id)
);

-- What people are told of: one row per notable change, written in its commit. position is that of the change's last
-- evidence; event is the name under which it is said, however often.
CREATE TABLE counterfoil.notices (
    account      text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    event        text NOT NULL,
    at           bigint NOT NULL,
    occasion     text NOT NULL,
    tool         text NOT NULL,
    operation_id text NOT NULL,
    version      bigint NOT NULL,
    state        text NOT NULL,
    action       text NOT NULL,
    reason       text,
    PRIMARY KEY (account, position)
);
CREATE INDEX notices_at ON counterfoil.notices (at);

-- Who is told, and how far in each account: everything up to position was said to them, or given up. Whoever holds the
-- lease is the one node that speaks to them.
CREATE TABLE counterfoil.listeners (
    name         text COLLATE "C" PRIMARY KEY,
    since        bigint NOT NULL,
    tries        bigint NOT NULL,
    next_at      bigint NOT NULL,
    holder       text,
    leased_until bigint NOT NULL
);
CREATE TABLE counterfoil.told (
    name     text COLLATE "C" NOT NULL,
    account  text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (name, account)
);
