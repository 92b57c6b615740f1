//! Walks the whole evidence and says where it is not what was written.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::head::Head;
use super::mark::Found;
use crate::store::chain::{Hash, Link, Tip, hash_of};
use crate::store::failure::{Failure, unsigned};
use crate::store::{AuditFault, AuditReport};
use crate::time::Timestamp;

/// How many broken places are listed; the first ones tell where to look.
const FAULTS: usize = 1_000;

struct Stored {
    position: u64,
    account: String,
    writer: String,
    seq: u64,
    at: i64,
    kind: String,
    by_name: String,
    by_kind: String,
    operation: Option<String>,
    version: u64,
    state: Option<String>,
    data: Option<String>,
    data_digest: Hash,
    digest: Hash,
    previous: Hash,
}

impl Stored {
    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            position: unsigned(row.get(0)?),
            account: row.get(1)?,
            writer: row.get(2)?,
            seq: unsigned(row.get(3)?),
            at: row.get(4)?,
            kind: row.get(5)?,
            by_name: row.get(6)?,
            by_kind: row.get(7)?,
            operation: row.get(8)?,
            version: unsigned(row.get(9)?),
            state: row.get(10)?,
            data: row.get(11)?,
            data_digest: row.get(12)?,
            digest: row.get(13)?,
            previous: row.get(14)?,
        })
    }

    /// Whether the row says what it said when it was written.
    fn intact(&self) -> bool {
        let link = Link {
            position: self.position,
            account: &self.account,
            writer: &self.writer,
            seq: self.seq,
            at: Timestamp::from_millis(self.at),
            kind: &self.kind,
            by_name: &self.by_name,
            by_kind: &self.by_kind,
            operation: self.operation.as_deref(),
            version: self.version,
            state: self.state.as_deref(),
            data_digest: &self.data_digest,
            previous: &self.previous,
        };
        let data = self.data.as_deref().is_none_or(|data| hash_of(data) == self.data_digest);
        data && link.digest() == self.digest
    }

    fn fault(&self, problem: &'static str) -> AuditFault {
        AuditFault {
            position: self.position,
            account: self.account.clone(),
            writer: self.writer.clone(),
            seq: self.seq,
            problem,
        }
    }
}

/// Checks every row, every chain, the places in the ledger, the ledger's end, and that each operation stands where its
/// newest evidence says.
pub(super) fn verify(connection: &Connection, mark: Option<&Found>) -> Result<AuditReport, Failure> {
    let mut statement = connection.prepare(
        "SELECT position, account, writer, seq, at, kind, by_name, by_kind, operation_id, version, state, data, \
         data_digest, digest, previous FROM counterfoil_evidence ORDER BY position",
    )?;
    let mut rows = statement.query([])?;
    let mut chains: HashMap<(String, String), Tip> = HashMap::new();
    let mut report = AuditReport { rows: 0, chains: 0, faults: Vec::new() };
    let mut last = 0;
    while let Some(row) = rows.next()? {
        let stored = match Stored::read(row) {
            Ok(stored) => stored,
            Err(_) => {
                last = unsigned(row.get(0)?);
                report.faults.push(unreadable(last));
                continue;
            }
        };
        report.rows += 1;
        let tip = chains.entry((stored.account.clone(), stored.writer.clone())).or_default();
        let gap = (stored.position != last + 1).then_some("rows before this one are missing");
        let broken = check(connection, &stored, *tip)?;
        *tip = Tip { seq: stored.seq, digest: stored.digest };
        last = stored.position;
        if report.faults.len() < FAULTS {
            report.faults.extend([gap, broken].into_iter().flatten().map(|problem| stored.fault(problem)));
        }
    }
    report.chains = chains.len() as u64;
    end(connection, mark, last, &mut report)?;
    operations(connection, &mut report)?;
    Ok(report)
}

fn unreadable(position: u64) -> AuditFault {
    let (account, writer) = (String::new(), String::new());
    AuditFault { position, account, writer, seq: 0, problem: "the row cannot be read" }
}

fn check(connection: &Connection, stored: &Stored, tip: Tip) -> Result<Option<&'static str>, Failure> {
    if !stored.intact() {
        return Ok(Some("the row was changed"));
    }
    if stored.seq != tip.seq + 1 {
        return Ok(Some("a row of this chain before it is missing, or it was moved"));
    }
    if stored.previous != tip.digest {
        return Ok(Some("the row before it in this chain is not the one that it followed"));
    }
    if stored.data.is_none() && !buried(connection, stored)? {
        return Ok(Some("its details were taken out before the retention was over"));
    }
    Ok(None)
}

fn buried(connection: &Connection, stored: &Stored) -> Result<bool, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM counterfoil_tombstones WHERE account = ?1 AND id = ?2")?;
    Ok(statement.exists((&stored.account, stored.operation.as_deref().unwrap_or_default()))?)
}

fn end(
    connection: &Connection,
    mark: Option<&Found>,
    last: u64,
    report: &mut AuditReport,
) -> Result<(), Failure> {
    let mut cut = |position: u64, problem: &'static str| {
        let (account, writer) = (String::new(), String::new());
        report.faults.push(AuditFault { position, account, writer, seq: 0, problem });
    };
    let head = Head::read(connection)?;
    if head.position != last {
        cut(last + 1, "the newest rows are not the ones that the ledger ended with");
    }
    if let Some(Found::Mark(mark)) = mark
        && !mark.stands(connection)?
    {
        cut(mark.position, "the row that the high-water mark was made from is missing, or another");
    }
    Ok(())
}

/// A row of evidence cannot be taken out or put in at the end of a chain without the operation standing elsewhere.
fn operations(connection: &Connection, report: &mut AuditReport) -> Result<(), Failure> {
    let mut newest = connection.prepare(
        "SELECT position, writer, seq, version, state FROM counterfoil_evidence \
         WHERE account = ?1 AND operation_id = ?2 ORDER BY position DESC LIMIT 1",
    )?;
    let mut statement = connection
        .prepare("SELECT account, id, version, stage FROM counterfoil_operations ORDER BY rowid")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (account, id): (String, String) = (row.get(0)?, row.get(1)?);
        let (version, stage): (i64, String) = (row.get(2)?, row.get(3)?);
        let found = newest
            .query_row((&account, &id), |row| {
                let state: Option<String> = row.get(4)?;
                let stands = (row.get::<_, i64>(3)?, state.as_deref()) == (version, Some(stage.as_str()));
                Ok((unsigned(row.get(0)?), row.get::<_, String>(1)?, unsigned(row.get(2)?), stands))
            })
            .optional()?;
        let (position, writer, seq) = match found {
            Some((_, _, _, true)) => continue,
            Some((position, writer, seq, false)) => (position, writer, seq),
            None => (0, String::new(), 0),
        };
        if report.faults.len() < FAULTS {
            let problem = "the operation does not stand where its newest evidence says";
            report.faults.push(AuditFault { position, account, writer, seq, problem });
        }
    }
    Ok(())
}
