//! Tokens: what a caller's secret stands for. The secret itself is never stored.

use rusqlite::{Connection, Row};

use super::SqliteCommit;
use crate::id::{Account, Principal};
use crate::store::Token;
use crate::store::failure::Failure;
use crate::time::Timestamp;

const COLUMNS: &str = "id, principal, account, roles, tools, digest, created_at, expires_at, revoked_at";

fn read(row: &Row<'_>) -> Result<Token, Failure> {
    let instant = |column: usize| -> Result<Option<Timestamp>, rusqlite::Error> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    Ok(Token {
        id: row.get(0)?,
        principal: Principal::from_stored(&row.get::<_, String>(1)?),
        account: Account::from_stored(&row.get::<_, String>(2)?),
        roles: serde_json::from_str(&row.get::<_, String>(3)?)?,
        tools: serde_json::from_str(&row.get::<_, String>(4)?)?,
        digest: row.get(5)?,
        created_at: Timestamp::from_millis(row.get(6)?),
        expires_at: instant(7)?,
        revoked_at: instant(8)?,
    })
}

/// Keeps a new token; its ID and its digest must be new.
pub(super) fn create(commit: &mut SqliteCommit<'_>, token: &Token) -> Result<(), Failure> {
    commit.rows.connection.execute(
        "INSERT INTO counterfoil_tokens (id, principal, account, roles, tools, digest, created_at, expires_at, \
         revoked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        (
            &token.id,
            token.principal.as_str(),
            token.account.as_str(),
            serde_json::to_string(&token.roles)?,
            serde_json::to_string(&token.tools)?,
            &token.digest[..],
            token.created_at.as_millis(),
            token.expires_at.map(Timestamp::as_millis),
            token.revoked_at.map(Timestamp::as_millis),
        ),
    )?;
    let data = serde_json::json!({
        "id": token.id, "principal": token.principal, "account": token.account, "roles": token.roles,
        "tools": token.tools,
    });
    commit.ledger_entry("token_created", "counterfoil", &data)?;
    commit.tokens_changed()
}

/// Revokes a token now; `false` where there is none that is still good.
pub(super) fn revoke(commit: &mut SqliteCommit<'_>, id: &str) -> Result<bool, Failure> {
    let now = commit.now();
    let rows = commit.rows.connection.execute(
        "UPDATE counterfoil_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
        (id, now.as_millis()),
    )?;
    if rows == 0 {
        return Ok(false);
    }
    commit.ledger_entry("token_revoked", "counterfoil", &serde_json::json!({ "id": id }))?;
    commit.tokens_changed()?;
    Ok(true)
}

/// Every token, oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<Token>, Failure> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM counterfoil_tokens ORDER BY created_at, id"))?;
    let mut rows = statement.query([])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(read(row)?);
    }
    Ok(tokens)
}

/// The token whose text has this SHA-256, good or not.
pub(super) fn by_digest(connection: &Connection, digest: &[u8; 32]) -> Result<Option<Token>, Failure> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM counterfoil_tokens WHERE digest = ?1"))?;
    let mut rows = statement.query([&digest[..]])?;
    rows.next()?.map(read).transpose()
}
