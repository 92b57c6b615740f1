//! The hash chains of the evidence: one per account and writing process, tied together by their place in the ledger.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::failure::Failure;
use super::rows::Rows;
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

    fn get<R: Rows>(&mut self, rows: &R, account: &Account, writer: &str) -> Result<Tip, Failure> {
        match self.known.get(account) {
            Some(tip) => Ok(*tip),
            None => Ok(rows.tip(account, writer)?.unwrap_or_default()),
        }
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

/// Appends `entry` to `writer`'s chain; gives its place in the ledger and its digest.
pub(super) fn append<R: Rows>(
    rows: &R,
    tips: &mut Tips,
    writer: &str,
    entry: Entry<'_>,
) -> Result<(u64, Hash), Failure> {
    let tip = tips.get(rows, entry.account, writer)?;
    let data_digest = hash_of(entry.data);
    let link = Link {
        position: rows.place(entry.account, entry.at)?,
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
    rows.append(&link, entry.data, &digest)?;
    tips.set(entry.account, Tip { seq: link.seq, digest });
    Ok((link.position, digest))
}
