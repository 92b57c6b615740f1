//! The hash chains of the evidence as rows.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::id::Account;
use crate::store::chain::{Hash, Link, Tip};
use crate::store::failure::{Failure, signed, unsigned};

/// The last row of `writer`'s chain.
pub(super) fn tip(connection: &Connection, account: &Account, writer: &str) -> Result<Option<Tip>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, digest FROM counterfoil_evidence WHERE account = ?1 AND writer = ?2 \
         ORDER BY seq DESC LIMIT 1",
    )?;
    let tip = statement.query_row((account.as_str(), writer), |row| {
        Ok(Tip { seq: unsigned(row.get(0)?), digest: row.get(1)? })
    });
    Ok(tip.optional()?)
}

/// Appends a row.
pub(super) fn append(
    connection: &Connection,
    link: &Link<'_>,
    data: &str,
    digest: &Hash,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO counterfoil_evidence (position, account, writer, seq, at, kind, by_name, by_kind, operation_id, \
         version, state, data, data_digest, digest, previous) \
         VALUES (:position, :account, :writer, :seq, :at, :kind, :by_name, :by_kind, :operation_id, :version, :state, \
         :data, :data_digest, :digest, :previous)",
    )?;
    statement.execute(named_params! {
        ":position": signed(link.position),
        ":account": link.account,
        ":writer": link.writer,
        ":seq": signed(link.seq),
        ":at": link.at.as_millis(),
        ":kind": link.kind,
        ":by_name": link.by_name,
        ":by_kind": link.by_kind,
        ":operation_id": link.operation,
        ":version": signed(link.version),
        ":state": link.state,
        ":data": data,
        ":data_digest": link.data_digest,
        ":digest": digest,
        ":previous": link.previous,
    })?;
    Ok(())
}
