//! The writer thread: whatever waits shares one durable commit, and nobody is answered before it.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::SqliteCommit;
use super::rows::SqliteRows;
use crate::error::{Error, StoreError};
use crate::faults::Fault;
use crate::snapshot::Verb;
use crate::store::chain::Tips;
use crate::store::commit::{Commit, News};
use crate::store::failure::Failure;
use crate::store::shared::Shared;

/// Something that waits for the writer. It may run several times, since the commit that it was part of may have to be
/// replayed; it is answered once.
pub(super) trait Job: Send {
    /// Does it inside the running commit and keeps the answer.
    fn run(&mut self, commit: &mut SqliteCommit<'_>) -> Result<(), Failure>;

    /// Replaces the answer.
    fn fail(&mut self, error: StoreError);

    /// Gives the answer to whoever still listens.
    fn answer(self: Box<Self>);
}

/// A verb that waits.
pub(super) struct VerbJob<V: Verb> {
    verb: V,
    outcome: Option<Result<V::Reply, Error>>,
    reply: oneshot::Sender<Result<V::Reply, Error>>,
}

impl<V: Verb> VerbJob<V> {
    /// The job and where its answer arrives.
    pub(super) fn new(verb: V) -> (Self, oneshot::Receiver<Result<V::Reply, Error>>) {
        let (reply, answer) = oneshot::channel();
        (Self { verb, outcome: None, reply }, answer)
    }
}

impl<V: Verb> Job for VerbJob<V> {
    fn run(&mut self, commit: &mut SqliteCommit<'_>) -> Result<(), Failure> {
        self.outcome = Some(commit.run(&self.verb)?);
        Ok(())
    }

    fn fail(&mut self, error: StoreError) {
        self.outcome = Some(Err(error.into()));
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // Whoever hung up stopped listening; the commit stands.
            drop(self.reply.send(outcome));
        }
    }
}

/// Anything else that writes.
pub(super) struct WriteJob<F, R> {
    work: F,
    outcome: Option<Result<R, StoreError>>,
    reply: oneshot::Sender<Result<R, StoreError>>,
}

impl<F, R> WriteJob<F, R>
where
    F: Fn(&mut SqliteCommit<'_>) -> Result<R, Failure> + Send,
    R: Send,
{
    /// The job and where its answer arrives.
    pub(super) fn new(work: F) -> (Self, oneshot::Receiver<Result<R, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Self { work, outcome: None, reply }, answer)
    }
}

impl<F, R> Job for WriteJob<F, R>
where
    F: Fn(&mut SqliteCommit<'_>) -> Result<R, Failure> + Send,
    R: Send,
{
    fn run(&mut self, commit: &mut SqliteCommit<'_>) -> Result<(), Failure> {
        self.outcome = Some(Ok((self.work)(commit)?));
        Ok(())
    }

    fn fail(&mut self, error: StoreError) {
        self.outcome = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            drop(self.reply.send(outcome));
        }
    }
}

/// Why a commit did not come about.
enum Stop {
    /// The job at this place failed alone.
    Job(usize, Error),
    /// Nobody's work was written.
    Batch(StoreError),
    /// Nothing more may be written or read.
    Fatal(StoreError),
}

impl From<Failure> for Stop {
    /// A failure outside any job is everybody's.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Fatal(error) => Self::Fatal(error),
            Failure::Batch(error) => Self::Batch(error),
            Failure::Job(error) => Self::Batch(StoreError::Unavailable(error.to_string())),
            failure @ (Failure::Missing | Failure::Race) => Self::Batch(failure.into_store_error()),
        }
    }
}

/// A commit waits for others for at most this fraction of what the last one took: where the disk is slow, sharing a
/// flush is worth more than beginning at once.
const PATIENCE: u32 = 8;

/// And never longer than this, also after a commit that had to wait for another process.
const PATIENCE_MOST: Duration = Duration::from_millis(2);

/// What the next commit holds, at most `most`: whatever waits already comes along. Those who were just `answered`
/// together tend to come back together, so as many are waited for while time is `left`; a lone caller never waits.
fn gather<T>(
    first: T,
    queue: &Receiver<T>,
    most: usize,
    answered: usize,
    left: impl Fn() -> Duration,
) -> Vec<T> {
    let mut gathered = vec![first];
    while gathered.len() < most {
        if let Ok(next) = queue.try_recv() {
            gathered.push(next);
            continue;
        }
        let left = if gathered.len() < answered { left() } else { Duration::ZERO };
        if left.is_zero() {
            break;
        }
        match queue.recv_timeout(left) {
            Ok(next) => gathered.push(next),
            // Time is up, or nobody is left who could come.
            Err(_) => break,
        }
    }
    gathered
}

/// The thread's belongings.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
    pub(super) batch: usize,
    pub(super) tips: Tips,
}

impl Writer {
    /// Works until every sender is gone and the queue is empty.
    pub(super) fn work(mut self, queue: &Receiver<Box<dyn Job>>) {
        let (mut answered, mut took) = (0, Duration::ZERO);
        while let Ok(first) = queue.recv() {
            let patience = (took / PATIENCE).min(PATIENCE_MOST);
            let until = self.shared.clocks.monotonic() + patience;
            let left = || until.saturating_sub(self.shared.clocks.monotonic());
            let jobs = gather(first, queue, self.batch, answered, left);
            let began = self.shared.clocks.monotonic();
            let settled = self.settle(jobs);
            took = self.shared.clocks.monotonic().saturating_sub(began);
            answered = settled.len();
            for job in settled {
                job.answer();
            }
        }
        let failed = self.shared.fatal().is_some();
        super::file::close(self.connection, failed);
    }

    /// Brings every job to an end, durably, and gives them back with their answers.
    fn settle(&mut self, mut jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        let mut failed = Vec::new();
        let error = loop {
            if let Some(error) = self.shared.fatal() {
                break error;
            }
            if jobs.is_empty() {
                return failed;
            }
            match self.commit(&mut jobs) {
                Ok(news) => {
                    self.shared.announce(news);
                    jobs.append(&mut failed);
                    return jobs;
                }
                Err(Stop::Job(place, error)) => {
                    self.roll_back();
                    let mut job = jobs.remove(place);
                    job.fail(Failure::Job(error).into_store_error());
                    failed.push(job);
                }
                Err(Stop::Batch(error)) => {
                    self.roll_back();
                    break error;
                }
                Err(Stop::Fatal(error)) => {
                    self.roll_back();
                    self.shared.poison(error.clone());
                    break error;
                }
            }
        };
        for job in &mut jobs {
            job.fail(error.clone());
        }
        jobs.append(&mut failed);
        jobs
    }

    /// One attempt at one commit.
    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<News, Stop> {
        let faults = &self.shared.faults;
        faults.hit("before_begin").map_err(Failure::from)?;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(Failure::from)?;
        let mut commit = Commit::begin(
            SqliteRows::of(&self.connection),
            &self.shared.policies,
            &self.shared.clocks,
            &self.name,
            &mut self.tips,
        );
        for (place, job) in jobs.iter_mut().enumerate() {
            faults.hit("job").map_err(Failure::from).and_then(|()| job.run(&mut commit)).map_err(
                |failure| match failure {
                    Failure::Job(error) => Stop::Job(place, error),
                    Failure::Batch(error) => Stop::Batch(error),
                    Failure::Fatal(error) => Stop::Fatal(error),
                    failure @ (Failure::Missing | Failure::Race) => Stop::from(failure),
                },
            )?;
        }
        if !commit.wrote {
            // Refusals and replays: what they rest on is durable already.
            self.connection.execute_batch("ROLLBACK").map_err(Failure::from)?;
            return Ok(News::default());
        }
        let news = commit.finish()?;
        faults.hit("before_commit").map_err(Failure::from)?;
        let fault = faults.hit("commit");
        if let Err(fault @ (Fault::Io | Fault::Full | Fault::Busy | Fault::Job)) = fault {
            return Err(Failure::from(fault).into());
        }
        self.connection.execute_batch("COMMIT").map_err(|error| match Failure::from(error) {
            // The statement is the commit itself: what is not known to have been taken back is in doubt.
            Failure::Job(error) => Stop::Fatal(StoreError::Poisoned(error.to_string())),
            Failure::Batch(error) => Stop::Batch(error),
            failure @ (Failure::Missing | Failure::Race) => Stop::from(failure),
            Failure::Fatal(StoreError::Corrupt(text)) => Stop::Fatal(StoreError::Corrupt(text)),
            Failure::Fatal(error) => Stop::Fatal(StoreError::Poisoned(error.to_string())),
        })?;
        fault.map_err(Failure::from)?;
        self.shared.counters.note(jobs.len());
        faults.hit("after_commit").map_err(Failure::from)?;
        Ok(news)
    }

    /// Takes back whatever the failed commit did. Where that fails too, nobody knows what the file holds.
    fn roll_back(&mut self) {
        self.tips.clear();
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            self.shared.poison(StoreError::Poisoned(error.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Longer than any test may take: whoever waits for this does not end.
    const FOR_EVER: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_lone_caller_never_waits_for_others() {
        let (callers, queue) = channel();
        for answered in [0, 1] {
            assert_eq!(gather(1, &queue, 256, answered, || FOR_EVER), [1]);
        }
        drop(callers);
    }

    #[test]
    fn callers_who_were_answered_together_are_committed_together_again() {
        let (callers, queue) = channel();
        callers.send(2).unwrap();
        let late = std::thread::spawn(move || {
            callers.send(3).unwrap();
            callers
        });
        assert_eq!(gather(1, &queue, 256, 3, || FOR_EVER), [1, 2, 3]);
        let callers = late.join().unwrap();
        assert_eq!(gather(1, &queue, 256, 3, || Duration::ZERO), [1]);
        drop(callers);
        assert_eq!(gather(1, &queue, 256, 3, || FOR_EVER), [1]);
    }

    #[test]
    fn what_waits_comes_along_up_to_the_limit() {
        let (callers, queue) = channel();
        for caller in 2..=5 {
            callers.send(caller).unwrap();
        }
        assert_eq!(gather(1, &queue, 3, 0, || Duration::ZERO), [1, 2, 3]);
        assert_eq!(gather(4, &queue, 256, 0, || Duration::ZERO), [4, 4, 5]);
    }
}
