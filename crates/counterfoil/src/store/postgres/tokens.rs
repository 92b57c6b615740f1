//! Tokens: what a caller's secret stands for. The secret itself is never stored.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::load::{hash, instant, perhaps_instant, text};
use super::session::{Session, bytes};
use super::wire::{Bound, Wire};
use crate::id::{Account, Principal};
use crate::store::Token;
use crate::store::commit::News;
use crate::store::failure::Failure;
use crate::time::Timestamp;

fn read(row: &Row) -> Result<Token, Failure> {
    Ok(Token {
        id: text(row, 0)?,
        principal: Principal::from_stored(&text(row, 1)?),
        account: Account::from_stored(&text(row, 2)?),
        roles: serde_json::from_str(&text(row, 3)?)?,
        tools: serde_json::from_str(&text(row, 4)?)?,
        digest: hash(row, 5)?,
        created_at: instant(row, 6)?,
        expires_at: perhaps_instant(row, 7)?,
        revoked_at: perhaps_instant(row, 8)?,
    })
}

/// Keeps a new token; its ID and its digest must be new.
pub(super) async fn create(mut session: Session<'_>, token: &Token) -> Result<News, Failure> {
    let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
    let bound = Bound::new()
        .text(token.id.as_str())
        .text(token.principal.as_str())
        .text(token.account.as_str())
        .text(serde_json::to_string(&token.roles)?)
        .text(serde_json::to_string(&token.tools)?);
    let bound = bytes(bound, &token.digest)
        .number(token.created_at.as_millis())
        .and(millis(token.expires_at), Type::INT8)
        .and(millis(token.revoked_at), Type::INT8);
    let sql = "INSERT INTO counterfoil.tokens (id, principal, account, roles, tools, digest, created_at, expires_at, \
         revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let data = serde_json::json!({
        "id": token.id, "principal": token.principal, "account": token.account, "roles": token.roles,
        "tools": token.tools,
    });
    let done = session.change(sql, bound).await;
    noted(session, done.map(|_| true), "token_created", &data).await.map(|(_, news)| news)
}

/// Revokes a token now; `false` where there is none that is still good.
pub(super) async fn revoke(mut session: Session<'_>, id: &str) -> Result<(bool, News), Failure> {
    let now = session.inner.clocks.now();
    let sql = "UPDATE counterfoil.tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
    let done =
        session.change(sql, Bound::new().text(super::flush::searchable(id)).number(now.as_millis())).await;
    noted(session, done.map(|rows| rows > 0), "token_revoked", &serde_json::json!({ "id": id })).await
}

/// Writes the evidence of a change of tokens and commits both, or takes it back.
async fn noted(
    mut session: Session<'_>,
    done: Result<bool, Failure>,
    kind: &'static str,
    data: &serde_json::Value,
) -> Result<(bool, News), Failure> {
    let noted = match done {
        Ok(true) => {
            let note = session.with(|commit| {
                commit.ledger_entry(kind, "counterfoil", data)?;
                commit.tokens_changed()
            });
            note.await.map(|((), news)| Some(news))
        }
        Ok(false) => Ok(None),
        Err(failure) => Err(failure),
    };
    match noted {
        Ok(Some(news)) => session.commit().await.map(|()| (true, news)),
        Ok(None) => {
            session.roll_back().await;
            Ok((false, News::default()))
        }
        Err(failure) => {
            session.roll_back().await;
            Err(failure)
        }
    }
}

/// Every token, oldest first.
pub(super) async fn all(wire: &Wire) -> Result<Vec<Token>, Failure> {
    let sql = "SELECT id, principal, account, roles, tools, digest, created_at, expires_at, revoked_at \
         FROM counterfoil.tokens ORDER BY created_at, id";
    wire.rows(sql, Bound::new()).await?.iter().map(read).collect()
}

/// The token whose text has this SHA-256, good or not.
pub(super) async fn by_digest(wire: &Wire, digest: &[u8; 32]) -> Result<Option<Token>, Failure> {
    let sql = "SELECT id, principal, account, roles, tools, digest, created_at, expires_at, revoked_at \
         FROM counterfoil.tokens WHERE digest = $1";
    wire.row(sql, bytes(Bound::new(), digest)).await?.map(|row| read(&row)).transpose()
}
