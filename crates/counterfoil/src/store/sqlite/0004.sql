-- What people are told of: one row per notable change, written in its commit. position is that of the change's last
-- evidence; event is the name under which it is said, however often.
CREATE TABLE counterfoil_notices (
    position     INTEGER PRIMARY KEY,
    event        TEXT NOT NULL,
    at           INTEGER NOT NULL,
    occasion     TEXT NOT NULL,
    account      TEXT NOT NULL,
    tool         TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    version      INTEGER NOT NULL,
    state        TEXT NOT NULL,
    action       TEXT NOT NULL,
    reason       TEXT
);

-- Who is told, and how far: everything up to position was said to them, or given up. Whoever holds the lease is the one
-- process that speaks to them.
CREATE TABLE counterfoil_listeners (
    name         TEXT PRIMARY KEY,
    position     INTEGER NOT NULL,
    tries        INTEGER NOT NULL,
    next_at      INTEGER NOT NULL,
    holder       TEXT,
    leased_until INTEGER NOT NULL
) WITHOUT ROWID;
