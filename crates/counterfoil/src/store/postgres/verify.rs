//! Walks the whole evidence and says where it is not what was written.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;

use super::load::{hash, instant, number, perhaps_text, text};
use super::wire::{Bound, Wire};
use crate::store::chain::{Hash, Link, Tip, hash_of};
use crate::store::failure::{Failure, signed};
use crate::store::{AuditFault, AuditReport};
use crate::time::Timestamp;

/// How many broken places are listed; the first ones tell where to look.
const FAULTS: usize = 1_000;

/// How many rows are read at once.
const ROWS: usize = 1_000;

struct Stored {
    position: u64,
    account: String,
    writer: String,
    seq: u64,
    at: Timestamp,
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
    buried: bool,
}

impl Stored {
    fn read(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            account: text(row, 0)?,
            position: number(row, 1)?,
            writer: text(row, 2)?,
            seq: number(row, 3)?,
            at: instant(row, 4)?,
            kind: text(row, 5)?,
            by_name: text(row, 6)?,
            by_kind: text(row, 7)?,
            operation: perhaps_text(row, 8)?,
            version: number(row, 9)?,
            state: perhaps_text(row, 10)?,
            data: perhaps_text(row, 11)?,
            data_digest: hash(row, 12)?,
            digest: hash(row, 13)?,
            previous: hash(row, 14)?,
            buried: super::load::flag(row, 15)?,
        })
    }

    /// Whether the row says what it said when it was written.
    fn intact(&self) -> bool {
        let link = Link {
            position: self.position,
            account: &self.account,
            writer: &self.writer,
            seq: self.seq,
            at: self.at,
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

    /// What is wrong with it, after `tip` of its chain.
    fn problem(&self, tip: Tip) -> Option<&'static str> {
        if !self.intact() {
            Some("the row was changed")
        } else if self.seq != tip.seq + 1 {
            Some("a row of this chain before it is missing, or it was moved")
        } else if self.previous != tip.digest {
            Some("the row before it in this chain is not the one that it followed")
        } else if self.data.is_none() && !self.buried {
            Some("its details were taken out before the retention was over")
        } else {
            None
        }
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

/// Checks every row, every chain, the places in each account, its end, and that each operation stands where its newest
/// evidence says.
pub(super) async fn verify(wire: &Wire) -> Result<AuditReport, Failure> {
    wire.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let outcome = walk(wire).await;
    let ended = wire.run("ROLLBACK").await;
    let report = outcome?;
    ended.map(|()| report)
}

async fn walk(wire: &Wire) -> Result<AuditReport, Failure> {
    let mut report = AuditReport { rows: 0, chains: 0, faults: Vec::new() };
    let mut chains: HashSet<(String, String)> = HashSet::new();
    let accounts = wire
        .rows("SELECT account, position FROM counterfoil.accounts ORDER BY account", Bound::new())
        .await?;
    let mut known = HashSet::new();
    for row in &accounts {
        let (account, end) = (text(row, 0)?, number(row, 1)?);
        let last = one_account(wire, &account, &mut chains, &mut report).await?;
        if last != end {
            cut(
                &mut report,
                &account,
                last + 1,
                "the newest rows are not the ones that the account ended with",
            );
        }
        known.insert(account);
    }
    let sql = "SELECT DISTINCT account FROM counterfoil.evidence";
    for row in wire.rows(sql, Bound::new()).await? {
        let account = text(&row, 0)?;
        if !known.contains(&account) {
            cut(&mut report, &account, 1, "evidence of an account that is not there");
        }
    }
    report.chains = chains.len() as u64;
    operations(wire, &mut report).await?;
    Ok(report)
}

fn cut(report: &mut AuditReport, account: &str, position: u64, problem: &'static str) {
    let (account, writer) = (account.to_owned(), String::new());
    report.faults.push(AuditFault { position, account, writer, seq: 0, problem });
}

/// Walks one account; gives the place of its last row.
async fn one_account(
    wire: &Wire,
    account: &str,
    chains: &mut HashSet<(String, String)>,
    report: &mut AuditReport,
) -> Result<u64, Failure> {
    let sql = "SELECT e.account, e.position, e.writer, e.seq, e.at, e.kind, e.by_name, e.by_kind, e.operation_id, \
         e.version, e.state, e.data, e.data_digest, e.digest, e.previous, \
         e.data IS NULL AND EXISTS (SELECT 1 FROM counterfoil.tombstones t \
         WHERE t.account = e.account AND t.id = e.operation_id) \
         FROM counterfoil.evidence e WHERE e.account = $1 AND e.position > $2 ORDER BY e.position LIMIT $3";
    let mut tips: HashMap<String, Tip> = HashMap::new();
    let mut last = 0;
    loop {
        let bound = Bound::new().text(account).number(signed(last)).number(ROWS as i64);
        let rows = wire.rows(sql, bound).await?;
        for row in &rows {
            let Ok(stored) = Stored::read(row) else {
                last = number(row, 1)?;
                cut(report, account, last, "the row cannot be read");
                continue;
            };
            report.rows += 1;
            let gap = (stored.position != last + 1).then_some("rows before this one are missing");
            let tip = tips.entry(stored.writer.clone()).or_default();
            let broken = stored.problem(*tip);
            *tip = Tip { seq: stored.seq, digest: stored.digest };
            last = stored.position;
            if report.faults.len() < FAULTS {
                let problems = [gap, broken].into_iter().flatten();
                report.faults.extend(problems.map(|problem| stored.fault(problem)));
            }
        }
        if rows.len() < ROWS {
            chains.extend(tips.into_keys().map(|writer| (account.to_owned(), writer)));
            return Ok(last);
        }
    }
}

/// A row of evidence cannot be taken out or put in at the end of a chain without the operation standing elsewhere.
async fn operations(wire: &Wire, report: &mut AuditReport) -> Result<(), Failure> {
    let sql = "SELECT o.account, o.id, e.position, e.writer, e.seq FROM counterfoil.operations o \
         LEFT JOIN LATERAL (SELECT position, writer, seq, version, state FROM counterfoil.evidence \
         WHERE account = o.account AND operation_id = o.id ORDER BY position DESC LIMIT 1) e ON true \
         WHERE (e.version, e.state) IS DISTINCT FROM (o.version, o.stage) ORDER BY o.account, o.id LIMIT $1";
    for row in wire.rows(sql, Bound::new().number(FAULTS as i64)).await? {
        if report.faults.len() < FAULTS {
            report.faults.push(AuditFault {
                position: super::load::perhaps_number(&row, 2)?.map_or(0, crate::store::failure::unsigned),
                account: text(&row, 0)?,
                writer: perhaps_text(&row, 3)?.unwrap_or_default(),
                seq: super::load::perhaps_number(&row, 4)?.map_or(0, crate::store::failure::unsigned),
                problem: "the operation does not stand where its newest evidence says",
            });
        }
    }
    Ok(())
}
