//! The hash chains of the evidence: one per account and writing process, tied together by their place in the ledger.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, named_params};
use sha2::{Digest as _, Sha256};

use super::failure::{Failure, signed, unsigned};
use crate::id::{Account, OperationId};
use crate::time::Timestamp;

/// A SHA-256.
pub(super) type Hash = [u8; 32];

/// The chain of what concerns the ledger itself. No account can have this name.
pub(super) const LEDGER: &str = "*";

/// The last row of a chain; sequence 0 and zeroes where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tip {
    /// Its sequence number.
    pub(super) seq: u64,
    /// Its digest.
    pub(super) digest: Hash,
}

/// The tips of this writer's chains. Only this writer appends to them, so what was read once stays true until a
/// rollback takes rows back.
#[derive(Debug, Default)]
pub(super) struct Tips {
    known: HashMap<Account, Tip>,
}

impl Tips {
    /// How many tips are remembered; reading one anew costs one look into an index.
    const LIMIT: usize = 10_000;

    /// Forgets everything: what was appended may not have been committed.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    fn get(&mut self, connection: &Connection, account: &Account, writer: &str) -> Result<Tip, Failure> {
        if let Some(tip) = self.known.get(account) {
            return Ok(*tip);
        }
        let mut statement = connection.prepare_cached(
            "SELECT seq, digest FROM counterfoil_evidence WHERE account = ?1 AND writer = ?2 \
             ORDER BY seq DESC LIMIT 1",
        )?;
        let tip = statement
            .query_row((account.as_str(), writer), |row| {
                Ok(Tip { seq: unsigned(row.get(0)?), digest: row.get(1)? })
            })
            .optional()?;
        Ok(tip.unwrap_or_default())
    }

    fn set(&mut self, account: &Account, tip: Tip) {
        if self.known.len() >= Self::LIMIT {
            self.known.clear();
        }
        self.known.insert(account.clone(), tip);
    }
}

/// A row before it has its digest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link<'a> {
    pub(super) position: u64,
    pub(super) account: &'a str,
    pub(super) writer: &'a str,
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) kind: &'a str,
    pub(super) by_name: &'a str,
    pub(super) by_kind: &'a str,
    pub(super) operation: Option<&'a str>,
    pub(super) version: u64,
    pub(super) state: Option<&'a str>,
    pub(super) data_digest: &'a Hash,
    pub(super) previous: &'a Hash,
}

impl Link<'_> {
    /// The digest: SHA-256 over every field with its length before it, so that no two rows share an encoding.
    pub(super) fn digest(&self) -> Hash {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(b"counterfoil evidence 1");
        part(self.previous);
        part(self.account.as_bytes());
        part(self.writer.as_bytes());
        part(&self.seq.to_be_bytes());
        part(&self.position.to_be_bytes());
        part(&self.at.as_millis().to_be_bytes());
        part(self.kind.as_bytes());
        part(self.by_name.as_bytes());
        part(self.by_kind.as_bytes());
        for optional in [self.operation, self.state] {
            // One byte more than the text, so that no text and an empty text differ.
            match optional {
                None => part(&[]),
                Some(text) => part(&[&[1], text.as_bytes()].concat()),
            }
        }
        part(&self.version.to_be_bytes());
        part(self.data_digest);
        hash.finalize().into()
    }
}

/// The SHA-256 of a text.
pub(super) fn hash_of(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

/// What a new row says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) account: &'a Account,
    pub(super) at: Timestamp,
    pub(super) kind: &'a str,
    pub(super) by_name: &'a str,
    pub(super) by_kind: &'a str,
    pub(super) operation: Option<&'a OperationId>,
    pub(super) version: u64,
    pub(super) state: Option<&'a str>,
    pub(super) data: &'a str,
}

/// Appends `entry` to `writer`'s chain at `position`; gives the row's digest.
pub(super) fn append(
    connection: &Connection,
    tips: &mut Tips,
    writer: &str,
    position: u64,
    entry: Entry<'_>,
) -> Result<Hash, Failure> {
    let tip = tips.get(connection, entry.account, writer)?;
    let data_digest = hash_of(entry.data);
    let link = Link {
        position,
        account: entry.account.as_str(),
        writer,
        seq: tip.seq + 1,
        at: entry.at,
        kind: entry.kind,
        by_name: entry.by_name,
        by_kind: entry.by_kind,
        operation: entry.operation.map(OperationId::as_str),
        version: entry.version,
        state: entry.state,
        data_digest: &data_digest,
        previous: &tip.digest,
    };
    let digest = link.digest();
    let mut statement = connection.prepare_cached(
        "INSERT INTO counterfoil_evidence (position, account, writer, seq, at, kind, by_name, by_kind, operation_id, \
         version, state, data, data_digest, digest, previous) \
         VALUES (:position, :account, :writer, :seq, :at, :kind, :by_name, :by_kind, :operation_id, :version, :state, \
         :data, :data_digest, :digest, :previous)",
    )?;
    statement.execute(named_params! {
        ":position": signed(position),
        ":account": link.account,
        ":writer": writer,
        ":seq": signed(link.seq),
        ":at": link.at.as_millis(),
        ":kind": link.kind,
        ":by_name": link.by_name,
        ":by_kind": link.by_kind,
        ":operation_id": link.operation,
        ":version": signed(link.version),
        ":state": link.state,
        ":data": entry.data,
        ":data_digest": data_digest,
        ":digest": digest,
        ":previous": tip.digest,
    })?;
    tips.set(entry.account, Tip { seq: link.seq, digest });
    Ok(digest)
}
