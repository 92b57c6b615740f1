//! Retention: what a receipt's end leaves behind.

use super::flush::searchable;
use super::load::text;
use super::page::Found;
use super::session::Session;
use super::wire::{Bound, Wire};
use crate::guard::Peer;
use crate::id::{Account, OperationId};
use crate::store::Change;
use crate::store::chain::Entry;
use crate::store::commit::News;
use crate::store::failure::{Failure, signed};
use crate::time::Timestamp;

/// Which operations have an end of retention that is over. Held and other open ones have no end and are never touched; a
/// flagged one only once it was released or acknowledged; a success not as long as somebody is prepared who must name it to
/// act on the same subject.
macro_rules! expired {
    () => {
        "o.receipt_expires_at IS NOT NULL AND o.receipt_expires_at <= $1 \
         AND o.stage IN ('succeeded', 'rejected', 'unknown') \
         AND (NOT o.unresolved OR (o.stage = 'rejected' AND NOT o.held)) \
         AND NOT EXISTS (SELECT 1 FROM counterfoil.operations waiting \
             WHERE waiting.account = o.account AND waiting.subject = o.subject AND waiting.stage = 'prepared' \
             AND waiting.created_at <= o.succeeded_at)"
    };
}

/// One operation among those of all accounts.
pub(super) struct Key {
    pub(super) account: Account,
    pub(super) id: OperationId,
}

/// At most `limit` operations whose retention is over at `now`, those first that are over longest.
pub(super) async fn expired(wire: &Wire, now: Timestamp, limit: u32) -> Result<Vec<Key>, Failure> {
    let sql = concat!(
        "SELECT o.account, o.id FROM counterfoil.operations o WHERE ",
        expired!(),
        " ORDER BY o.receipt_expires_at LIMIT $2",
    );
    let rows = wire.rows(sql, Bound::new().number(now.as_millis()).number(i64::from(limit))).await?;
    let key = |row: &tokio_postgres::Row| {
        Ok(Key {
            account: Account::from_stored(&text(row, 0)?),
            id: OperationId::from_stored(&text(row, 1)?),
        })
    };
    rows.iter().map(key).collect()
}

/// Turns one operation into a tombstone, unless it was changed since it was found: proof that came meanwhile may have
/// opened it again.
///
/// The evidence stays, with its texts taken out: the chain covers them by digest. A crash in here leaves the operation
/// as it was, which answers every call as its tombstone would.
pub(super) async fn bury(mut session: Session<'_>, key: &Key) -> Result<Option<News>, Failure> {
    match replace(&mut session, key).await {
        Ok(Some(news)) => session.commit().await.map(|()| Some(news)),
        Ok(None) => {
            session.roll_back().await;
            Ok(None)
        }
        Err(failure) => {
            session.roll_back().await;
            Err(failure)
        }
    }
}

async fn replace(session: &mut Session<'_>, key: &Key) -> Result<Option<News>, Failure> {
    let now = session.inner.clocks.now();
    let named = || Bound::new().text(key.account.as_str()).text(key.id.as_str());
    let sql = concat!(
        "SELECT 1 FROM counterfoil.operations o WHERE o.account = $2 AND o.id = $3 AND ",
        expired!(),
    );
    let bound = Bound::new().number(now.as_millis()).text(key.account.as_str()).text(key.id.as_str());
    if session.wire.row(sql, bound).await?.is_none() {
        return Ok(None);
    }
    let place = (key.account.clone(), key.id.clone());
    session.page.operations.want(place.clone());
    session.load().await?;
    let Found::Operation(operation, _) = session.page.operations.get(&place)?.clone() else {
        return Ok(None);
    };
    let (version, stage) = (operation.version, Peer::from(&*operation).stage.label());
    let receipt = operation.state.receipt().and_then(|receipt| receipt.result.as_ref());
    let digest = receipt.map(|result| result.digest.clone());
    let keys = operation.attempts.iter().filter_map(|attempt| attempt.key.as_deref()).map(searchable);
    let sql = "DELETE FROM counterfoil.keys WHERE account = $1 AND id = $2 AND key = ANY($3)";
    session.change(sql, named().texts(keys.collect())).await?;
    session.change("DELETE FROM counterfoil.operations WHERE account = $1 AND id = $2", named()).await?;
    session.inner.faults.hit("c13_between_body_and_tombstone")?;
    let sql = "INSERT INTO counterfoil.tombstones (account, id, tool, stage, closed_at, receipt_digest) \
         VALUES ($1, $2, $3, $4, $5, $6)";
    let bound = named()
        .text(operation.tool.as_str())
        .text(stage)
        .number(operation.updated_at.as_millis())
        .text_or_null(digest.as_deref());
    session.change(sql, bound).await?;
    let sql = "UPDATE counterfoil.evidence SET data = NULL \
         WHERE account = $1 AND operation_id = $2 AND version <= $3";
    session.change(sql, named().number(signed(version))).await?;
    let ((), mut news) = session
        .with(|commit| {
            commit
                .entry(Entry {
                    account: &key.account,
                    at: now,
                    kind: "receipt_expired",
                    by_name: "counterfoil",
                    by_kind: "rule",
                    operation: Some(&key.id),
                    version: version + 1,
                    state: Some(stage),
                    data: "{}",
                })
                .map(|_| ())
        })
        .await?;
    news.operations.push(Change { account: key.account.clone(), id: key.id.clone() });
    Ok(Some(news))
}
