//! The committer: whatever waits shares one transaction, and nobody is answered before it is durable.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::Inner;
use super::session::{Reach, Session};
use super::written::{PageRows, Written};
use crate::error::{Error, StoreError};
use crate::id::{Account, OperationId};
use crate::snapshot::Verb;
use crate::store::chain::Tips;
use crate::store::commit::{Commit, News};
use crate::store::failure::Failure;

/// How often a transaction that lost a race is begun anew.
const RACES: u32 = 5;

/// A verb that waits for the committer. It may run several times; it is answered once.
pub(super) trait Job: Send {
    /// Whose operation it is about, and which.
    fn subject(&self) -> (Account, OperationId);

    /// Does it against the page and keeps the answer.
    fn run(&mut self, commit: &mut Commit<'_, PageRows<'_>>) -> Result<(), Failure>;

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
    fn subject(&self) -> (Account, OperationId) {
        let (account, id) = self.verb.subject();
        (account.clone(), id.clone())
    }

    fn run(&mut self, commit: &mut Commit<'_, PageRows<'_>>) -> Result<(), Failure> {
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

/// Works until every sender is gone and the queue is empty.
pub(super) async fn work(inner: Arc<Inner>, mut queue: mpsc::Receiver<Box<dyn Job>>, batch: usize) {
    while let Some(first) = queue.recv().await {
        let mut jobs = vec![first];
        while jobs.len() < batch {
            match queue.try_recv() {
                Ok(next) => jobs.push(next),
                Err(_) => break,
            }
        }
        for job in settle(&inner, jobs).await {
            job.answer();
        }
    }
}

/// Brings every job to an end, durably, and gives them back with their answers.
async fn settle(inner: &Inner, mut jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
    let mut failed = Vec::new();
    let (mut exclusive, mut races) = (false, 0);
    let error = loop {
        if let Some(error) = inner.fatal() {
            break error;
        }
        if jobs.is_empty() {
            return failed;
        }
        match commit(inner, &mut jobs, exclusive).await {
            Ok(news) => {
                inner.announce(news);
                jobs.append(&mut failed);
                return jobs;
            }
            Err(Stop::Exclusive) => exclusive = true,
            Err(Stop::Job(place, error)) => {
                let mut job = jobs.remove(place);
                job.fail(Failure::Job(error).into_store_error());
                failed.push(job);
            }
            Err(Stop::All(Failure::Race)) if races < RACES => races += 1,
            Err(Stop::All(Failure::Job(_))) if jobs.len() > 1 => {
                // The server says which statement failed, not whose values: everybody goes alone.
                let mut alone = Vec::with_capacity(jobs.len());
                for job in jobs {
                    alone.extend(Box::pin(settle(inner, vec![job])).await);
                }
                alone.append(&mut failed);
                return alone;
            }
            Err(Stop::All(Failure::Fatal(error))) => {
                inner.poison(error.clone());
                break error;
            }
            Err(Stop::All(failure)) => break failure.into_store_error(),
        }
    };
    for job in &mut jobs {
        job.fail(error.clone());
    }
    jobs.append(&mut failed);
    jobs
}

/// Why a commit did not come about.
enum Stop {
    /// It must be alone with the ledger.
    Exclusive,
    /// The job at this place failed alone.
    Job(usize, Error),
    /// Nobody's work was written.
    All(Failure),
}

/// One attempt at one commit.
async fn commit(inner: &Inner, jobs: &mut [Box<dyn Job>], exclusive: bool) -> Result<News, Stop> {
    let subjects: Vec<_> = jobs.iter().map(|job| job.subject()).collect();
    let accounts: BTreeSet<Account> = subjects.iter().map(|(account, _)| account.clone()).collect();
    let reach = Reach { accounts, ledger: exclusive };
    let mut session = Session::begin(inner, &reach).await.map_err(Stop::All)?;
    for subject in subjects {
        session.page.operations.want(subject);
    }
    session.page.pauses.want(());
    loop {
        if let Err(failure) = session.load().await {
            session.roll_back().await;
            return Err(Stop::All(failure));
        }
        match decide(&mut session, jobs) {
            Ok(Some(news)) => {
                let count = jobs.len();
                let wrote = session.wrote;
                session.commit().await.map_err(Stop::All)?;
                if wrote {
                    inner.counters.note(count);
                }
                return Ok(news);
            }
            Ok(None) if session.page.wants_exclusive.get() => {
                session.roll_back().await;
                return Err(Stop::Exclusive);
            }
            Ok(None) => {}
            Err(stop) => {
                session.roll_back().await;
                return Err(stop);
            }
        }
    }
}

/// Runs every job against the page; `None` where something was missing.
fn decide(session: &mut Session<'_>, jobs: &mut [Box<dyn Job>]) -> Result<Option<News>, Stop> {
    let inner = session.inner;
    let written = RefCell::new(Written::default());
    let mut tips = Tips::default();
    let rows = PageRows { page: &session.page, written: &written };
    let mut commit = Commit::begin(rows, &inner.policies, &inner.clocks, &inner.writer, &mut tips);
    let mut missing = false;
    for (place, job) in jobs.iter_mut().enumerate() {
        let ran = inner.faults.hit("job").map_err(Failure::from).and_then(|()| job.run(&mut commit));
        match ran {
            Ok(()) => {}
            Err(Failure::Missing) => missing = true,
            // What a job says while the page has holes may come from them.
            Err(Failure::Job(_)) if missing => {}
            Err(Failure::Job(error)) => return Err(Stop::Job(place, error)),
            Err(failure) => return Err(Stop::All(failure)),
        }
    }
    if missing {
        return Ok(None);
    }
    let wrote = commit.wrote;
    let news = commit.finish().map_err(Stop::All)?;
    session.wrote = wrote;
    *session.written = written.into_inner();
    Ok(Some(news))
}
