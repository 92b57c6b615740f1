//! Loads what verbs asked for: every kind of question in one statement with arrays, all of them in one round trip.

use tokio_postgres::Row;

use super::page::{End, Found, Page};
use super::wire::{Bound, Sent, Wire, pipelined};
use crate::backoff::BucketLevel;
use crate::fingerprint::Arguments;
use crate::guard::Peer;
use crate::id::{Account, OperationId, ToolName};
use crate::operation::Operation;
use crate::snapshot::{Grave, Webhooks};
use crate::store::Pause;
use crate::store::cells::{self, Stored, StoredPeer, Times, stage};
use crate::store::chain::{Hash, Tip};
use crate::store::failure::{Failure, unsigned};
use crate::store::in_force::InForce;
use crate::time::Timestamp;

/// The columns that [`operation`] expects, in its order.
macro_rules! columns {
    () => {
        "o.account, o.id, o.tool, o.action, o.fingerprint, o.task, o.wish, o.receipt_expires_at, o.created_at, \
         o.updated_at, o.version, o.policy_version, o.body, o.arguments, o.subject"
    };
}
pub(super) use columns;

/// The columns that [`peer`] expects, in its order.
macro_rules! peer_columns {
    () => {
        "o.id, o.task, o.stage, o.unresolved, o.released, o.created_at, o.succeeded_at, o.rejected_as, \
         o.replaced_by, o.replaces, o.suspected"
    };
}

fn read<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Failure> {
    row.try_get(column).map_err(|_| Failure::damaged("a column holds what was never written"))
}

pub(super) fn text(row: &Row, column: usize) -> Result<String, Failure> {
    read(row, column)
}

pub(super) fn perhaps_text(row: &Row, column: usize) -> Result<Option<String>, Failure> {
    read(row, column)
}

pub(super) fn number(row: &Row, column: usize) -> Result<u64, Failure> {
    Ok(unsigned(read(row, column)?))
}

pub(super) fn perhaps_number(row: &Row, column: usize) -> Result<Option<i64>, Failure> {
    read(row, column)
}

pub(super) fn flag(row: &Row, column: usize) -> Result<bool, Failure> {
    read(row, column)
}

pub(super) fn instant(row: &Row, column: usize) -> Result<Timestamp, Failure> {
    Ok(Timestamp::from_millis(read(row, column)?))
}

pub(super) fn perhaps_instant(row: &Row, column: usize) -> Result<Option<Timestamp>, Failure> {
    Ok(read::<Option<i64>>(row, column)?.map(Timestamp::from_millis))
}

pub(super) fn hash(row: &Row, column: usize) -> Result<Hash, Failure> {
    let bytes: &[u8] = read(row, column)?;
    bytes.try_into().map_err(|_| Failure::damaged("a digest is not 32 bytes"))
}

fn small(row: &Row, column: usize) -> Result<u32, Failure> {
    u32::try_from(read::<i64>(row, column)?).map_err(|_| Failure::damaged("a number is out of range"))
}

/// Reads an operation from a row of [`columns`] and its result.
pub(super) fn operation(row: &Row) -> Result<Operation, Failure> {
    cells::operation(Stored {
        account: read(row, 0)?,
        id: read(row, 1)?,
        tool: read(row, 2)?,
        action: read(row, 3)?,
        fingerprint: read(row, 4)?,
        task: read(row, 5)?,
        wish: read(row, 6)?,
        receipt_expires_at: perhaps_instant(row, 7)?,
        created_at: instant(row, 8)?,
        updated_at: instant(row, 9)?,
        version: number(row, 10)?,
        policy_version: small(row, 11)?,
        body: read(row, 12)?,
        arguments: read(row, 13)?,
        subject: read(row, 14)?,
        result: read(row, 15)?,
    })
}

fn peer(row: &Row) -> Result<Peer, Failure> {
    cells::peer(StoredPeer {
        id: read(row, 0)?,
        task: read(row, 1)?,
        stage: read(row, 2)?,
        unresolved: read(row, 3)?,
        released: read(row, 4)?,
        created_at: instant(row, 5)?,
        succeeded_at: perhaps_instant(row, 6)?,
        rejected_as: read(row, 7)?,
        replaced_by: read(row, 8)?,
        replaces: read(row, 9)?,
        suspected: read(row, 10)?,
    })
}

/// Which shelf an answer belongs to.
enum Shelved {
    Operations(Vec<(Account, OperationId)>),
    Tombstones,
    Peers(Vec<super::page::Action>),
    Others(Vec<super::page::Action>),
    Subjects(Vec<(Account, crate::id::Subject, Timestamp)>),
    Wishes((Account, crate::id::Subject, u32)),
    Policies(Vec<(ToolName, u32)>),
    NewestPolicies(Vec<ToolName>),
    Users(ToolName),
    Pauses,
    Paused((ToolName, Option<String>, Timestamp)),
    Webhooks((Account, OperationId, String)),
    Refusals(Vec<(ToolName, String)>),
    Buckets(Vec<String>),
    /// Buckets that are held now and read next.
    Held(Vec<String>),
    Tips(Vec<(Account, String)>),
}

fn names<T>(keys: &[T], name: impl for<'k> Fn(&'k T) -> &'k str) -> Vec<String> {
    keys.iter().map(|key| name(key).to_owned()).collect()
}

/// Loads what is missing on `page`. With `hold`, buckets and refusals are held until the transaction ends.
pub(super) async fn load(wire: &Wire, page: &mut Page, hold: bool) -> Result<(), Failure> {
    let mut shelves = Vec::new();
    let mut sent: Vec<Sent<'_, Vec<Row>>> = Vec::new();
    let mut ask = |shelf: Shelved, sql: &'static str, bound: Bound| {
        shelves.push(shelf);
        sent.push(Box::pin(wire.rows(sql, bound)));
    };
    let keys = page.operations.take_missing();
    if !keys.is_empty() {
        let bound = || {
            Bound::new()
                .texts(names(&keys, |(account, _)| account.as_str()))
                .texts(names(&keys, |(_, id)| id.as_str()))
        };
        let (operations, tombstones) = (bound(), bound());
        ask(
            Shelved::Operations(keys.clone()),
            concat!(
                "SELECT ",
                columns!(),
                ", o.result, o.due_at, o.work_at FROM unnest($1, $2) AS k (account, id) \
                 JOIN counterfoil.operations o ON o.account = k.account AND o.id = k.id",
            ),
            operations,
        );
        ask(
            Shelved::Tombstones,
            "SELECT t.account, t.id, t.tool, t.stage, t.closed_at FROM unnest($1, $2) AS k (account, id) \
             JOIN counterfoil.tombstones t ON t.account = k.account AND t.id = k.id",
            tombstones,
        );
    }
    let actions = |keys: &[super::page::Action]| {
        Bound::new()
            .texts(names(keys, |(account, _, _)| account.as_str()))
            .texts(names(keys, |(_, tool, _)| tool.as_str()))
            .texts(names(keys, |(_, _, action)| action.as_str()))
    };
    let keys = page.peers.take_missing();
    if !keys.is_empty() {
        let bound = actions(&keys);
        ask(
            Shelved::Peers(keys),
            concat!(
                "SELECT ",
                peer_columns!(),
                ", k.n FROM unnest($1, $2, $3) WITH ORDINALITY AS k (account, tool, action, n) \
                 JOIN counterfoil.operations o ON o.account = k.account AND o.tool = k.tool \
                 AND o.action = k.action AND o.open",
            ),
            bound,
        );
    }
    let keys = page.others.take_missing();
    if !keys.is_empty() {
        let bound = actions(&keys);
        ask(
            Shelved::Others(keys),
            concat!(
                "SELECT ",
                peer_columns!(),
                ", k.n, o.arguments, o.policy_version \
                 FROM unnest($1, $2, $3) WITH ORDINALITY AS k (account, tool, action, n) \
                 JOIN counterfoil.operations o ON o.account = k.account AND o.tool = k.tool \
                 AND o.action <> k.action AND o.open",
            ),
            bound,
        );
    }
    let keys = page.subjects.take_missing();
    if !keys.is_empty() {
        let bound = Bound::new()
            .texts(names(&keys, |(account, _, _)| account.as_str()))
            .texts(names(&keys, |(_, subject, _)| subject.as_str()))
            .numbers(keys.iter().map(|(_, _, since)| since.as_millis()).collect());
        ask(
            Shelved::Subjects(keys),
            concat!(
                "SELECT ",
                peer_columns!(),
                ", k.n FROM unnest($1, $2, $3) WITH ORDINALITY AS k (account, subject, since, n) \
                 JOIN counterfoil.operations o ON o.account = k.account AND o.subject = k.subject \
                 AND (o.open OR o.succeeded_at >= k.since)",
            ),
            bound,
        );
    }
    for key in page.wishes.take_missing() {
        let bound = Bound::new().text(key.0.as_str()).text(key.1.as_str()).number(i64::from(key.2));
        ask(
            Shelved::Wishes(key),
            "SELECT o.created_at, o.id FROM counterfoil.operations o \
             WHERE o.account = $1 AND o.subject = $2 AND o.stage = 'prepared' AND o.wish \
             ORDER BY o.created_at, o.id LIMIT $3",
            bound,
        );
    }
    let keys = page.policies.take_missing();
    if !keys.is_empty() {
        let bound = Bound::new()
            .texts(names(&keys, |(tool, _)| tool.as_str()))
            .numbers(keys.iter().map(|(_, version)| i64::from(*version)).collect());
        ask(
            Shelved::Policies(keys),
            "SELECT p.tool, p.version, p.body FROM unnest($1, $2) AS k (tool, version) \
             JOIN counterfoil.policies p ON p.tool = k.tool AND p.version = k.version",
            bound,
        );
    }
    let keys = page.newest_policies.take_missing();
    if !keys.is_empty() {
        let bound = Bound::new().texts(names(&keys, |tool| tool.as_str()));
        ask(
            Shelved::NewestPolicies(keys),
            "SELECT k.tool, p.version, p.digest FROM unnest($1) AS k (tool) CROSS JOIN LATERAL \
             (SELECT version, digest FROM counterfoil.policies WHERE tool = k.tool ORDER BY version DESC LIMIT 1) p",
            bound,
        );
    }
    for tool in page.users.take_missing() {
        let bound = Bound::new().text(tool.as_str());
        ask(
            Shelved::Users(tool),
            "SELECT account FROM counterfoil.operations WHERE tool = $1 \
             UNION SELECT account FROM counterfoil.tombstones WHERE tool = $1",
            bound,
        );
    }
    if !page.pauses.take_missing().is_empty() {
        ask(
            Shelved::Pauses,
            "SELECT tool, scope, began_at, by_name, note, restored FROM counterfoil.pauses \
             WHERE ended_at IS NULL ORDER BY number",
            Bound::new(),
        );
    }
    for key in page.paused.take_missing() {
        let bound =
            Bound::new().text(key.0.as_str()).text_or_null(key.1.as_deref()).number(key.2.as_millis());
        ask(
            Shelved::Paused(key),
            "SELECT began_at, ended_at FROM counterfoil.pauses \
             WHERE (tool IS NULL OR tool = $1) AND (scope IS NULL OR scope = $2) \
             AND (ended_at IS NULL OR ended_at > $3) ORDER BY began_at",
            bound,
        );
    }
    for key in page.webhooks.take_missing() {
        let bound = Bound::new().text(key.0.as_str()).text(key.1.as_str());
        ask(
            Shelved::Webhooks(key),
            "SELECT data FROM counterfoil.evidence \
             WHERE account = $1 AND operation_id = $2 AND kind = 'webhook'",
            bound,
        );
    }
    let keys = page.refusals.take_missing();
    if !keys.is_empty() {
        let bound = Bound::new()
            .texts(names(&keys, |(tool, _)| tool.as_str()))
            .texts(names(&keys, |(_, scope)| scope.as_str()));
        // Not held: a count that is lost to another node only puts the pause off.
        let sql = "SELECT r.tool, r.scope, r.refused FROM unnest($1, $2) AS k (tool, scope) \
             JOIN counterfoil.refusals r ON r.tool = k.tool AND r.scope = k.scope";
        ask(Shelved::Refusals(keys), sql, bound);
    }
    let keys = page.buckets.take_missing();
    if !keys.is_empty() {
        let bound = Bound::new().texts(keys.clone());
        if hold {
            // A bucket that is new has no row that could be held.
            ask(Shelved::Held(keys), HOLD_BUCKETS, bound);
        } else {
            ask(Shelved::Buckets(keys), BUCKETS, bound);
        }
    }
    let keys = page.tips.take_missing();
    if !keys.is_empty() {
        let bound = Bound::new()
            .texts(names(&keys, |(account, _)| account.as_str()))
            .texts(names(&keys, |(_, writer)| writer.as_str()));
        ask(
            Shelved::Tips(keys),
            "SELECT k.account, k.writer, e.seq, e.digest FROM unnest($1, $2) AS k (account, writer) \
             CROSS JOIN LATERAL (SELECT seq, digest FROM counterfoil.evidence \
             WHERE account = k.account AND writer = k.writer ORDER BY seq DESC LIMIT 1) e",
            bound,
        );
    }
    let answers = pipelined(sent).await?;
    let mut held = Vec::new();
    for (shelf, rows) in shelves.into_iter().zip(answers) {
        if let Shelved::Held(names) = shelf {
            held.extend(names);
        } else {
            keep(page, shelf, &rows)?;
        }
    }
    if !held.is_empty() {
        // Read after the lock, in a statement of its own: one statement sees nothing that was committed after it began.
        let rows = wire.rows(BUCKETS, Bound::new().texts(held.clone())).await?;
        keep(page, Shelved::Buckets(held), &rows)?;
    }
    Ok(())
}

const BUCKETS: &str = "SELECT name, level, at FROM counterfoil.buckets WHERE name = ANY($1)";

const HOLD_BUCKETS: &str = "SELECT pg_advisory_xact_lock(hashtextextended('counterfoil bucket ' || name, 0)) \
     FROM (SELECT name FROM unnest($1) AS k (name) ORDER BY name) AS named";

fn keep(page: &mut Page, shelf: Shelved, rows: &[Row]) -> Result<(), Failure> {
    match shelf {
        Shelved::Operations(keys) => {
            for key in keys {
                page.operations.put(key, Found::Nothing);
            }
            for row in rows {
                let operation = operation(row)?;
                let times = Times { due_at: perhaps_instant(row, 16)?, work_at: perhaps_instant(row, 17)? };
                let key = (operation.account.clone(), operation.id.clone());
                page.operations.put(key, Found::Operation(Box::new(operation), times));
            }
        }
        Shelved::Tombstones => {
            for row in rows {
                let key = (Account::from_stored(read(row, 0)?), OperationId::from_stored(read(row, 1)?));
                let grave =
                    Grave { tool: ToolName::from_stored(read(row, 2)?), stage: stage(read(row, 3)?)? };
                page.operations.put(key, Found::Tombstone(grave, instant(row, 4)?));
            }
        }
        Shelved::Peers(keys) => {
            for (key, peers) in sorted(keys, rows, peer)? {
                page.peers.put(key, peers);
            }
        }
        Shelved::Others(keys) => {
            let other = |row: &Row| Ok((peer(row)?, Arguments::from_stored(text(row, 12)?), small(row, 13)?));
            for (key, others) in sorted(keys, rows, other)? {
                page.others.put(key, others);
            }
        }
        Shelved::Subjects(keys) => {
            for (key, peers) in sorted(keys, rows, peer)? {
                page.subjects.put(key, peers);
            }
        }
        Shelved::Wishes(key) => {
            let wish = |row: &Row| Ok((instant(row, 0)?, OperationId::from_stored(read(row, 1)?)));
            page.wishes.put(key, rows.iter().map(wish).collect::<Result<_, Failure>>()?);
        }
        Shelved::Policies(keys) => {
            for key in keys {
                page.policies.put(key, None);
            }
            for row in rows {
                let key = (ToolName::from_stored(read(row, 0)?), small(row, 1)?);
                page.policies.put(key, Some(text(row, 2)?));
            }
        }
        Shelved::NewestPolicies(keys) => {
            for key in keys {
                page.newest_policies.put(key, None);
            }
            for row in rows {
                let tool = ToolName::from_stored(read(row, 0)?);
                page.newest_policies.put(tool, Some((small(row, 1)?, hash(row, 2)?)));
            }
        }
        Shelved::Users(tool) => {
            let user = |row: &Row| Ok(Account::from_stored(read(row, 0)?));
            page.users.put(tool, rows.iter().map(user).collect::<Result<_, Failure>>()?);
        }
        Shelved::Pauses => {
            page.pauses.put((), rows.iter().map(in_force).collect::<Result<_, Failure>>()?);
        }
        Shelved::Paused(key) => {
            let span = |row: &Row| Ok((instant(row, 0)?, perhaps_instant(row, 1)?));
            page.paused.put(key, rows.iter().map(span).collect::<Result<_, Failure>>()?);
        }
        Shelved::Webhooks(key) => {
            let mut heard = Webhooks { kept: rows.len() as u64, this_one: false };
            for row in rows {
                // Read here: the server's own JSON refuses some texts that a destination may send.
                let data = perhaps_text(row, 0)?.unwrap_or_default();
                heard.this_one |= super::written::event_of(&data).as_deref() == Some(key.2.as_str());
            }
            page.webhooks.put(key, heard);
        }
        Shelved::Refusals(keys) => {
            for key in keys {
                page.refusals.put(key, 0);
            }
            for row in rows {
                page.refusals.put((ToolName::from_stored(read(row, 0)?), text(row, 1)?), small(row, 2)?);
            }
        }
        Shelved::Held(_) => {}
        Shelved::Buckets(keys) => {
            for key in keys {
                page.buckets.put(key, None);
            }
            for row in rows {
                if let Some(level) = perhaps_number(row, 1)? {
                    let level = BucketLevel { level: unsigned(level), at: instant(row, 2)? };
                    page.buckets.put(text(row, 0)?, Some(level));
                }
            }
        }
        Shelved::Tips(keys) => {
            for key in keys {
                page.tips.put(key, None);
            }
            for row in rows {
                let key = (Account::from_stored(read(row, 0)?), text(row, 1)?);
                page.tips.put(key, Some(Tip { seq: number(row, 2)?, digest: hash(row, 3)? }));
            }
        }
    }
    Ok(())
}

/// Gives each question its rows; the column after a peer's says which one a row answers, from 1.
fn sorted<K, V>(
    keys: Vec<K>,
    rows: &[Row],
    value: impl Fn(&Row) -> Result<V, Failure>,
) -> Result<Vec<(K, Vec<V>)>, Failure> {
    let mut answers: Vec<(K, Vec<V>)> = keys.into_iter().map(|key| (key, Vec::new())).collect();
    for row in rows {
        let place = usize::try_from(read::<i64>(row, 11)?.saturating_sub(1)).ok();
        let answer = place.and_then(|place| answers.get_mut(place));
        let (_, values) = answer.ok_or_else(|| Failure::damaged("an answer to no question"))?;
        values.push(value(row)?);
    }
    Ok(answers)
}

/// Reads a pause in force.
pub(super) fn in_force(row: &Row) -> Result<InForce, Failure> {
    Ok(InForce {
        pause: Pause {
            tool: perhaps_text(row, 0)?.map(|tool| ToolName::from_stored(&tool)),
            scope: perhaps_text(row, 1)?,
            at: instant(row, 2)?,
            by: text(row, 3)?,
            note: text(row, 4)?,
        },
        restored: flag(row, 5)?,
    })
}

/// Where an account's evidence ends, as far as it has any.
pub(super) async fn end_of(wire: &Wire, account: &Account) -> Result<Option<End>, Failure> {
    let sql = "SELECT position, newest FROM counterfoil.accounts WHERE account = $1";
    let row = wire.row(sql, Bound::new().text(account.as_str())).await?;
    row.map(|row| Ok(End { position: number(&row, 0)?, newest: instant(&row, 1)? })).transpose()
}
