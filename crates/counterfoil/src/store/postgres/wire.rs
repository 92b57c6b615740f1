//! Connections: how one is made, what it must lead to, and how statements go over it.
//!
//! Every statement is sent whole with its values, and nothing is kept in the session between transactions, so that a
//! pooler may hand every transaction to another connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row};

use super::address::Address;
use super::failure::failed;
use crate::error::StoreError;
use crate::store::failure::Failure;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// What a transaction of ours may take: nobody waits for one that hangs. A stopped process holds no lock for longer.
pub(super) const LIMITS: &str = "SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; \
     SET LOCAL idle_in_transaction_session_timeout = '5s';";

/// One connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Wire {
    client: Client,
    /// Whether the server said, of the last commit, that it is durable here only: a wait for the standby was cancelled.
    warned: Arc<AtomicBool>,
}

/// The values of a statement, with their types.
#[derive(Default)]
pub(super) struct Bound(Vec<(Box<dyn ToSql + Sync + Send>, Type)>);

impl Bound {
    /// No values.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// One more.
    pub(super) fn and(mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> Self {
        self.push(value, kind);
        self
    }

    /// One more.
    pub(super) fn push(&mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) {
        self.0.push((Box::new(value), kind));
    }

    /// A text.
    pub(super) fn text(self, value: impl Into<String>) -> Self {
        self.and(value.into(), Type::TEXT)
    }

    /// A text that may be absent.
    pub(super) fn text_or_null(self, value: Option<&str>) -> Self {
        self.and(value.map(str::to_owned), Type::TEXT)
    }

    /// A number.
    pub(super) fn number(self, value: i64) -> Self {
        self.and(value, Type::INT8)
    }

    /// Texts.
    pub(super) fn texts(self, values: Vec<String>) -> Self {
        self.and(values, Type::TEXT_ARRAY)
    }

    /// Numbers.
    pub(super) fn numbers(self, values: Vec<i64>) -> Self {
        self.and(values, Type::INT8_ARRAY)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn borrowed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }
}

impl Wire {
    /// Connects.
    pub(super) async fn open(address: &Address) -> Result<Self, StoreError> {
        let opening = async {
            match &address.tls {
                Some(tls) => {
                    let (client, connection) = address.config.connect(tls.clone()).await?;
                    Ok(Self::over(client, connection))
                }
                None => {
                    let (client, connection) = address.config.connect(NoTls).await?;
                    Ok(Self::over(client, connection))
                }
            }
        };
        let opened: Result<Self, tokio_postgres::Error> = tokio::time::timeout(CONNECT, opening)
            .await
            .map_err(|_| unreachable("no answer within five seconds"))?;
        opened.map_err(|error| match error.as_db_error() {
            Some(error) => unreachable(error.message()),
            None => unreachable(&error.to_string()),
        })
    }

    fn over<S, T>(client: Client, mut connection: Connection<S, T>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let warned = Arc::new(AtomicBool::new(false));
        let warning = warned.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notice(notice) = message
                    && *notice.code() == SqlState::WARNING
                {
                    warning.store(true, Ordering::SeqCst);
                }
            }
        });
        Self { client, warned }
    }

    /// Whether it is of no more use.
    pub(super) fn closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether the server warned since the last time this was asked.
    pub(super) fn warned(&self) -> bool {
        self.warned.swap(false, Ordering::SeqCst)
    }

    /// Runs statements without values.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Failure> {
        self.client.batch_execute(sql).await.map_err(failed)
    }

    /// Runs a statement and gives its rows.
    pub(super) async fn rows(&self, sql: &str, bound: Bound) -> Result<Vec<Row>, Failure> {
        self.client.query_typed(sql, &bound.borrowed()).await.map_err(failed)
    }

    /// Runs a statement and gives its first row.
    pub(super) async fn row(&self, sql: &str, bound: Bound) -> Result<Option<Row>, Failure> {
        Ok(self.rows(sql, bound).await?.into_iter().next())
    }

    /// Runs a statement and says how many rows it changed.
    pub(super) async fn change(&self, sql: &str, bound: Bound) -> Result<u64, Failure> {
        self.client.execute_typed(sql, &bound.borrowed()).await.map_err(failed)
    }

    /// Commits.
    pub(super) async fn commit(&self) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute("COMMIT").await
    }
}

/// Work on a connection.
pub(super) type Sent<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Sends everything in order before it waits for the first answer; gives the answers in order, or the first failure.
pub(super) async fn pipelined<T: Send>(mut sent: Vec<Sent<'_, T>>) -> Result<Vec<T>, Failure> {
    let mut answers: Vec<Option<Result<T, Failure>>> = sent.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, answer) in sent.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *answer = Some(ready),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    answers.into_iter().flatten().collect()
}

fn unreachable(what: &str) -> StoreError {
    StoreError::Unavailable(format!("PostgreSQL cannot be reached: {what}"))
}
