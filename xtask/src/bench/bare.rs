//! The loop without a ledger: one thread with SQLite that drains a queue into one commit, and says what the store
//! says. Nothing decides, nothing is hashed, nothing is made of what is read.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use counterfoil::{Clock as _, SystemClock};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use super::fixture;
use super::load::{Load, Pace};
use super::script::{Scripts, Slot, Statement};

/// As many jobs as the store lets share a commit, and as many as it lets wait.
const BATCH: usize = 256;
const QUEUE: usize = 4_096;

/// The fraction of a commit that the next one waits for others, and the most.
const PATIENCE: u32 = 8;
const PATIENCE_MOST: Duration = Duration::from_millis(2);

struct Job {
    number: u64,
    second: bool,
    reply: oneshot::Sender<()>,
}

/// The loop's way in.
pub(super) struct Bare {
    queue: SyncSender<Job>,
    thread: std::thread::JoinHandle<Result<()>>,
    commits: Arc<AtomicU64>,
    next: AtomicU64,
}

impl Bare {
    /// Starts the thread on a new file in `folder`.
    pub(super) fn start(folder: &Path, scripts: Scripts) -> Result<Self> {
        let connection = connect(&folder.join("bare.db"))?;
        let (queue, jobs) = sync_channel(QUEUE);
        let commits = Arc::new(AtomicU64::new(0));
        let counter = commits.clone();
        let thread = std::thread::Builder::new().name("bare-writer".to_owned()).spawn(move || {
            let worked = Writer { connection, scripts, next: 0 }.work(&jobs, &counter);
            // The callers only see that nobody answers.
            worked.inspect_err(|error| drop(writeln!(std::io::stderr(), "the bare loop: {error:#}")))
        })?;
        Ok(Self { queue, thread, commits, next: AtomicU64::new(0) })
    }

    /// Lifecycles by so many callers.
    pub(super) async fn run(self: &Arc<Self>, callers: usize, pace: Pace) -> Result<Load> {
        let bare = self.clone();
        super::load::run(callers, pace, move || {
            let bare = bare.clone();
            async move {
                let number = bare.next.fetch_add(1, Ordering::Relaxed);
                bare.step(number, false).await?;
                bare.step(number, true).await
            }
        })
        .await
    }

    async fn step(&self, number: u64, second: bool) -> Result<()> {
        let (reply, done) = oneshot::channel();
        self.queue.try_send(Job { number, second, reply }).ok().context("the queue is full")?;
        done.await.context("the bare loop ended")
    }

    /// How many durable commits there were.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Ends the thread.
    pub(super) fn stop(self) -> Result<()> {
        drop(self.queue);
        self.thread.join().ok().context("the bare loop broke")?
    }
}

/// A connection set as the store sets its own, and the store's tables.
fn connect(path: &Path) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(64);
    let journal: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    ensure!(journal == "wal", "no write-ahead log");
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
         PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -8000",
    )?;
    let _pages: i64 = connection.query_row("PRAGMA wal_autocheckpoint = 2000", [], |row| row.get(0))?;
    connection.execute_batch(&counterfoil::store::sqlite::sql())?;
    Ok(connection)
}

/// Whoever waits, and for a moment those who were just answered: as the store does it.
fn gather(
    first: Job,
    jobs: &Receiver<Job>,
    answered: usize,
    until: Duration,
    clock: &SystemClock,
) -> Vec<Job> {
    let mut batch = vec![first];
    while batch.len() < BATCH {
        if let Ok(next) = jobs.try_recv() {
            batch.push(next);
            continue;
        }
        let left = until.saturating_sub(clock.monotonic());
        if batch.len() >= answered || left.is_zero() {
            break;
        }
        match jobs.recv_timeout(left) {
            Ok(next) => batch.push(next),
            Err(_) => break,
        }
    }
    batch
}

struct Writer {
    connection: Connection,
    scripts: Scripts,
    /// The last place that was given out.
    next: i64,
}

impl Writer {
    fn work(mut self, jobs: &Receiver<Job>, commits: &AtomicU64) -> Result<()> {
        let scripts = self.scripts.clone();
        let clock = SystemClock::default();
        let (mut answered, mut took) = (0, Duration::ZERO);
        while let Ok(first) = jobs.recv() {
            let batch = gather(
                first,
                jobs,
                answered,
                clock.monotonic() + (took / PATIENCE).min(PATIENCE_MOST),
                &clock,
            );
            let began = clock.monotonic();
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.raw_execute()?;
            self.say(&scripts.prepare.opening, 0)?;
            for job in &batch {
                let script = if job.second { &scripts.report } else { &scripts.prepare };
                self.say(&script.job, job.number)?;
            }
            self.say(&scripts.prepare.closing, 0)?;
            self.connection.prepare_cached("COMMIT")?.raw_execute()?;
            commits.fetch_add(1, Ordering::Relaxed);
            took = clock.monotonic() - began;
            answered = batch.len();
            for job in batch {
                // Whoever measured stopped listening when time was up.
                let _gone = job.reply.send(());
            }
        }
        Ok(())
    }

    fn say(&mut self, statements: &[Statement], number: u64) -> Result<()> {
        for Statement { sql, slots } in statements {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut next = self.next;
            for (index, slot) in slots {
                let value = match slot {
                    Slot::Fixed(value) => ToSqlOutput::Borrowed(ValueRef::from(value)),
                    Slot::Id => owned(fixture::id("bare", number)),
                    Slot::Reference => owned(fixture::reference(number)),
                    // As spread out as the digests that they stand for.
                    Slot::Key => owned(spread(number, 1)),
                    Slot::Fingerprint => owned(format!("cf1:{}{}", spread(number, 2), spread(number, 3))),
                    Slot::Next => {
                        next = self.next + 1;
                        ToSqlOutput::Owned(Value::Integer(next))
                    }
                };
                statement.raw_bind_parameter(*index, value)?;
            }
            if statement.column_count() == 0 {
                statement.raw_execute()?;
            } else {
                let columns = statement.column_count();
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    for column in 0..columns {
                        std::hint::black_box(row.get_ref(column)?);
                    }
                }
            }
            self.next = next;
        }
        Ok(())
    }
}

fn owned(text: String) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(Value::Text(text))
}

/// 32 hexadecimal digits that differ for every number and follow no order.
fn spread(number: u64, kind: u64) -> String {
    let mut mixed = (number << 2 | kind).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{mixed:016x}{:016x}", mixed.rotate_left(31))
}
