//! The outbox: how far each listener has been told, in each account.

use std::time::Duration;

use serde_json::json;
use tokio_postgres::Row;

use super::load::{instant, number, perhaps_text, text};
use super::session::Session;
use super::wire::{Bound, Wire};
use crate::id::{Account, OperationId, ToolName};
use crate::notice::{KEPT_FOR, MOST_KEPT, Notice, Occasion};
use crate::store::delivery::{Delivery, Waiting};
use crate::store::failure::{Failure, signed};

fn read(row: &Row) -> Result<Notice, Failure> {
    Ok(Notice {
        position: number(row, 0)?,
        event: text(row, 1)?,
        at: instant(row, 2)?,
        occasion: Occasion::parse(&text(row, 3)?).unwrap_or(Occasion::Held),
        account: Account::from_stored(&text(row, 4)?),
        tool: ToolName::from_stored(&text(row, 5)?),
        operation: OperationId::from_stored(&text(row, 6)?),
        version: number(row, 7)?,
        state: text(row, 8)?,
        next: (text(row, 9)?, perhaps_text(row, 10)?),
    })
}

async fn ended<R>(session: Session<'_>, outcome: Result<R, Failure>) -> Result<R, Failure> {
    match outcome {
        Ok(reply) => session.commit().await.map(|()| reply),
        Err(failure) => {
            session.roll_back().await;
            Err(failure)
        }
    }
}

/// A listener that is new hears of what happens from now on.
pub(super) async fn listen(mut session: Session<'_>, name: &str) -> Result<(), Failure> {
    let outcome = add(&mut session, name).await;
    ended(session, outcome).await
}

async fn add(session: &mut Session<'_>, name: &str) -> Result<(), Failure> {
    let now = session.inner.clocks.now();
    let sql = "INSERT INTO counterfoil.listeners (name, since, tries, next_at, holder, leased_until) \
         VALUES ($1, $2, 0, 0, NULL, 0) ON CONFLICT DO NOTHING";
    let added = session.change(sql, Bound::new().text(name).number(now.as_millis())).await?;
    if added == 0 {
        return Ok(());
    }
    // Accounts that are written to at this moment end where their last commit ended.
    let sql = "INSERT INTO counterfoil.told (name, account, position) \
         SELECT $1, account, position FROM counterfoil.accounts WHERE position > 0 ON CONFLICT DO NOTHING";
    session.change(sql, Bound::new().text(name)).await?;
    Ok(())
}

/// The next notice for a listener, as `holder` sees it.
pub(super) async fn waiting(wire: &Wire, name: &str, holder: &str) -> Result<Option<Waiting>, Failure> {
    next(wire, name, holder, false).await
}

async fn next(wire: &Wire, name: &str, holder: &str, hold: bool) -> Result<Option<Waiting>, Failure> {
    let sql = if hold {
        "SELECT tries, next_at, holder, leased_until FROM counterfoil.listeners WHERE name = $1 FOR UPDATE"
    } else {
        "SELECT tries, next_at, holder, leased_until FROM counterfoil.listeners WHERE name = $1"
    };
    let Some(listener) = wire.row(sql, Bound::new().text(name)).await? else { return Ok(None) };
    let sql = "SELECT n.position, n.event, n.at, n.occasion, n.account, n.tool, n.operation_id, n.version, n.state, \
         n.action, n.reason FROM counterfoil.notices n \
         LEFT JOIN counterfoil.told t ON t.name = $1 AND t.account = n.account \
         WHERE n.position > coalesce(t.position, 0) ORDER BY n.at, n.account, n.position LIMIT 1";
    let found = wire.row(sql, Bound::new().text(name)).await?;
    let Some(notice) = found.map(|row| read(&row)).transpose()? else { return Ok(None) };
    let elsewhere = perhaps_text(&listener, 2)?.is_some_and(|held| held != holder);
    let (again, leased) = (instant(&listener, 1)?, instant(&listener, 3)?);
    let not_before = if elsewhere { again.max(leased) } else { again };
    let tries = u32::try_from(number(&listener, 0)?).unwrap_or(u32::MAX);
    Ok(Some(Waiting { notice, tries, not_before }))
}

/// Takes the next notice for a listener under a lease, unless it is not due or another node speaks to them. A crash
/// after this leaves it to whoever comes once the lease is over.
pub(super) async fn take(
    mut session: Session<'_>,
    name: &str,
    lease: Duration,
) -> Result<Option<Waiting>, Failure> {
    let outcome = taken(&mut session, name, lease).await;
    ended(session, outcome).await
}

async fn taken(session: &mut Session<'_>, name: &str, lease: Duration) -> Result<Option<Waiting>, Failure> {
    let (now, holder) = (session.inner.clocks.now(), session.inner.writer.clone());
    let waiting = next(&session.wire, name, &holder, true).await?;
    let Some(waiting) = waiting.filter(|waiting| waiting.not_before <= now) else { return Ok(None) };
    let sql = "UPDATE counterfoil.listeners SET holder = $2, leased_until = $3 WHERE name = $1";
    let bound = Bound::new().text(name).text(holder).number(now.plus(lease).as_millis());
    session.change(sql, bound).await?;
    Ok(Some(waiting))
}

/// Records how a delivery ended, unless another node took over meanwhile: then it is said twice, under one name.
pub(super) async fn settle(
    mut session: Session<'_>,
    name: &str,
    notice: &Notice,
    delivery: &Delivery,
) -> Result<(), Failure> {
    let outcome = settled(&mut session, name, notice, delivery).await;
    ended(session, outcome).await
}

async fn settled(
    session: &mut Session<'_>,
    name: &str,
    notice: &Notice,
    delivery: &Delivery,
) -> Result<(), Failure> {
    let holder = session.inner.writer.clone();
    let named = || Bound::new().text(name).text(holder.as_str());
    if let Delivery::Failed(again) = delivery {
        let sql = "UPDATE counterfoil.listeners SET tries = tries + 1, next_at = $3, holder = NULL, leased_until = 0 \
             WHERE name = $1 AND holder = $2";
        session.change(sql, named().number(again.as_millis())).await?;
        return Ok(());
    }
    let sql = "UPDATE counterfoil.listeners SET tries = 0, next_at = 0, holder = NULL, leased_until = 0 \
         WHERE name = $1 AND holder = $2";
    if session.change(sql, named()).await? == 0 {
        return Ok(());
    }
    let sql = "INSERT INTO counterfoil.told (name, account, position) VALUES ($1, $2, $3) \
         ON CONFLICT (name, account) DO UPDATE SET position = excluded.position \
         WHERE counterfoil.told.position < excluded.position";
    let bound = Bound::new().text(name).text(notice.account.as_str()).number(signed(notice.position));
    session.change(sql, bound).await?;
    if let Delivery::GivenUp(reason) = delivery {
        let data = json!({
            "listener": name, "event": notice.event, "occasion": notice.occasion.label(),
            "account": notice.account.as_str(), "operation_id": notice.operation.as_str(), "reason": reason,
        });
        session.with(|commit| commit.ledger_entry("notice_given_up", "counterfoil", &data)).await?;
    }
    Ok(())
}

/// Forgets notices that are old, or too many.
pub(super) async fn forget(mut session: Session<'_>) -> Result<(), Failure> {
    let old = session.inner.clocks.now().minus(KEPT_FOR).as_millis();
    let sql = "DELETE FROM counterfoil.notices WHERE at < $1 OR at < \
         coalesce((SELECT at FROM counterfoil.notices ORDER BY at DESC LIMIT 1 OFFSET $2), $1)";
    let outcome = session.change(sql, Bound::new().number(old).number(i64::from(MOST_KEPT))).await;
    ended(session, outcome.map(|_| ())).await
}
