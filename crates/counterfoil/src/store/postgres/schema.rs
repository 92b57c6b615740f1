//! The schema and its migrations: embedded, checked by digest, one node at a time.

use super::load::{hash, number};
use super::session::bytes;
use super::wire::{Bound, LIMITS, Wire};
use crate::error::StoreError;
use crate::store::chain::hash_of;
use crate::store::failure::Failure;
use crate::time::Timestamp;

/// Every migration, oldest first. A published one never changes.
const MIGRATIONS: [&str; 1] = [include_str!("0001.sql")];

/// Whoever migrates holds this.
const MIGRATION_LOCK: i64 = 0x006d_6967_7261_7465;

/// The whole schema as SQL, for whoever applies it by hand.
#[must_use]
pub fn sql() -> String {
    MIGRATIONS.join("\n")
}

/// Brings the database to this build's schema.
pub(super) async fn migrate(wire: &Wire, now: Timestamp) -> Result<(), Failure> {
    wire.run(&format!("BEGIN; {LIMITS}")).await?;
    let outcome = apply(wire, now).await;
    match outcome {
        Ok(()) => wire.run("COMMIT").await,
        Err(failure) => {
            wire.run("ROLLBACK").await?;
            Err(failure)
        }
    }
}

async fn apply(wire: &Wire, now: Timestamp) -> Result<(), Failure> {
    wire.rows("SELECT pg_advisory_xact_lock($1)", Bound::new().number(MIGRATION_LOCK)).await?;
    let there = wire.row("SELECT to_regclass('counterfoil.migrations') IS NOT NULL", Bound::new()).await?;
    let there = there.map(|row| super::load::flag(&row, 0)).transpose()?.unwrap_or(false);
    if !there {
        wire.run(
            "CREATE SCHEMA IF NOT EXISTS counterfoil; CREATE TABLE counterfoil.migrations \
             (number bigint PRIMARY KEY, digest bytea NOT NULL, applied_at bigint NOT NULL)",
        )
        .await?;
    }
    let applied =
        wire.rows("SELECT number, digest FROM counterfoil.migrations ORDER BY number", Bound::new()).await?;
    if applied.len() > MIGRATIONS.len() {
        let text = "the ledger was made by a newer version; this one would not understand it";
        return Err(Failure::Batch(StoreError::Unusable(text.to_owned())));
    }
    for (place, migration) in MIGRATIONS.iter().enumerate() {
        let digest = hash_of(migration);
        match applied.get(place) {
            Some(row) if number(row, 0)? == place as u64 + 1 && hash(row, 1)? == digest => {}
            Some(_) => {
                let text = "the ledger's schema was made by another program";
                return Err(Failure::Batch(StoreError::Unusable(text.to_owned())));
            }
            None => {
                wire.run(migration).await?;
                let bound = bytes(Bound::new().number(place as i64 + 1), &digest).number(now.as_millis());
                let sql =
                    "INSERT INTO counterfoil.migrations (number, digest, applied_at) VALUES ($1, $2, $3)";
                wire.change(sql, bound).await?;
            }
        }
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|_| Failure::damaged("the system has no randomness"))?;
    let sql = "INSERT INTO counterfoil.meta (key, value) VALUES ('secret', $1), ('ledger', $2) ON CONFLICT DO NOTHING";
    let name = uuid::Uuid::now_v7().to_string();
    wire.change(sql, bytes(bytes(Bound::new(), &secret), name.as_bytes())).await?;
    Ok(())
}

/// A value that was made with the ledger.
pub(super) async fn meta(wire: &Wire, key: &'static str) -> Result<Vec<u8>, Failure> {
    let row = wire.row("SELECT value FROM counterfoil.meta WHERE key = $1", Bound::new().text(key)).await?;
    let row = row.ok_or_else(|| Failure::damaged("the ledger's own values are missing"))?;
    row.try_get(0).map_err(|_| Failure::damaged("the ledger's own values are none"))
}
