//! Opens a ledger: what the database must be, whether it is older than this node's mark, and this node's row.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::clock::DatabaseClock;
use super::committer::Job;
use super::identity::Identity;
use super::load::instant;
use super::session::{Reach, Session};
use super::wire::{Bound, LIMITS, Wire};
use super::wires::Wires;
use super::{Inner, PostgresOptions, mark, schema};
use crate::error::StoreError;
use crate::snapshot::PauseDraft;
use crate::store::clocks::Clocks;
use crate::store::failure::Failure;
use crate::store::shared::Shared;
use crate::store::{MarkState, in_force};
use crate::time::{Clock, Timestamp};

/// How long it is tried to learn whether a commit came about whose answer was lost.
const CAME_ABOUT: Duration = Duration::from_secs(30);

/// How long lies between two tries.
const AGAIN: Duration = Duration::from_millis(200);

type Opened = (Inner, mpsc::Receiver<Box<dyn Job>>, usize);

/// Opens it; gives the queue for the committer.
pub(super) async fn start(url: &str, options: PostgresOptions) -> Result<Opened, Failure> {
    let address = Address::parse(url)?;
    let wire = Wire::open(&address).await?;
    let identity = Identity::read(&wire).await?;
    let now = database_time(&wire).await?;
    schema::migrate(&wire, now).await?;
    let ledger = String::from_utf8(schema::meta(&wire, "ledger").await?)
        .map_err(|_| Failure::damaged("the ledger's name is no text"))?;
    let secret = schema::meta(&wire, "secret")
        .await?
        .try_into()
        .map_err(|_| Failure::damaged("the ledger's secret is not 32 bytes"))?;
    let kept = options.mark.as_deref().map(mark::read).transpose()?.flatten();
    let mark_state = mark::compare(&wire, &ledger, &identity, kept.as_ref()).await?;
    let clock = (!options.clock_decides).then(|| Arc::new(DatabaseClock::new(options.clock.clone(), now)));
    let store_time: Arc<dyn Clock> = match &clock {
        Some(clock) => clock.clone(),
        None => options.clock.clone(),
    };
    wire.change(
        "INSERT INTO counterfoil.nodes (writer, commits, seen_at) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING",
        Bound::new().text(options.writer.as_str()).number(now.as_millis()),
    )
    .await?;
    let (queue, jobs) = mpsc::channel(options.queue.max(1));
    let inner = Inner {
        shared: Arc::new(Shared::new(Clocks::start(store_time, options.skew), options.faults)),
        clock,
        address,
        identity: Mutex::new(identity),
        wires: Wires::new(4),
        reads: Wires::new(options.readers),
        tips: Mutex::default(),
        queue: RwLock::new(Some(queue)),
        tasks: Mutex::default(),
        stopping: CancellationToken::new(),
        mark_state,
        mark: options.mark,
        ledger,
        secret,
        writer: options.writer,
    };
    match mark_state {
        MarkState::Current => {}
        MarkState::Missing | MarkState::Behind => quarantine(&inner).await?,
    }
    Ok((inner, jobs, options.batch.max(1)))
}

async fn database_time(wire: &Wire) -> Result<Timestamp, Failure> {
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let row = wire.row(sql, Bound::new()).await?.ok_or_else(|| Failure::damaged("a server knows no time"))?;
    instant(&row, 0)
}

/// Pauses everything: IDs that the ledger does not know may have been used in the part that was lost. Only a person
/// who resumes everything ends it.
async fn quarantine(inner: &Inner) -> Result<(), Failure> {
    let draft = PauseDraft {
        tool: None,
        scope: None,
        by: in_force::BY_LEDGER.to_owned(),
        note: in_force::OLDER_THAN_MARK.to_owned(),
    };
    let mut session = Session::begin(inner, &Reach::ledger()).await?;
    match session.with(|commit| commit.pause(&draft, true)).await {
        Ok(_) => session.commit().await,
        Err(failure) => {
            session.roll_back().await;
            Err(failure)
        }
    }
}

impl Inner {
    /// Whether this node's commit of this number came about, where nobody said so. It asks in a transaction that waits for
    /// the one in question to end, and that is itself durable only once everything before it is.
    pub(super) async fn came_about(&self, commits: u64) -> Result<bool, Failure> {
        let until = tokio::time::Instant::now() + CAME_ABOUT;
        loop {
            match self.ask_node().await {
                Ok(made) => return Ok(made >= commits),
                Err(_) if tokio::time::Instant::now() < until => tokio::time::sleep(AGAIN).await,
                Err(failure) => {
                    let why = failure.into_store_error();
                    return Err(Failure::Batch(StoreError::Uncertain(why.to_string())));
                }
            }
        }
    }

    async fn ask_node(&self) -> Result<u64, Failure> {
        let wire = self.connect().await?;
        wire.run(&format!("BEGIN; {LIMITS}")).await?;
        let sql = "UPDATE counterfoil.nodes SET seen_at = seen_at + 1 WHERE writer = $1 RETURNING commits";
        let row = wire.row(sql, Bound::new().text(self.writer.as_str())).await?;
        let made = row.map(|row| super::load::number(&row, 0)).transpose()?.unwrap_or(0);
        wire.commit().await.map_err(super::failure::failed)?;
        if wire.warned() {
            let text = "the standby does not confirm what is committed";
            return Err(Failure::Batch(StoreError::Unavailable(text.to_owned())));
        }
        Ok(made)
    }
}
