//! The statements of one lifecycle, as the store really executes them: seen by a trace, not copied by hand, so that
//! the loop without a ledger does the same work also after the store was changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use counterfoil::snapshot::Verb;
use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};
use rusqlite::types::Value;

use super::fixture::{self, Orders};

/// Callers of the burst from which it is learnt what belongs to a commit and what to a job.
const BURST: u64 = 32;

/// A statement with where its values come from.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// The text as it was prepared.
    pub(super) sql: String,
    /// By the number of each parameter.
    pub(super) slots: Vec<(usize, Slot)>,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// As it was recorded.
    Fixed(Value),
    /// The operation's ID.
    Id,
    /// The key that was derived for it.
    Key,
    /// The fingerprint of its arguments.
    Fingerprint,
    /// What the destination calls it.
    Reference,
    /// The next place in the evidence, and in its chain.
    Next,
}

/// Everything that is said for one kind of commit.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Once, at the beginning.
    pub(super) opening: Vec<Statement>,
    /// For every job.
    pub(super) job: Vec<Statement>,
    /// Once, at the end.
    pub(super) closing: Vec<Statement>,
}

/// Both commits of a lifecycle.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    /// Write 1.
    pub(super) prepare: Script,
    /// Write 2.
    pub(super) report: Script,
}

type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Runs lifecycles on a ledger in memory and writes down what the store said to SQLite.
pub(super) async fn record() -> Result<Scripts> {
    let seen = Seen::default();
    let trace = seen.clone();
    let see = move |sql: &str, expanded: &str| {
        let mut seen = trace.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((sql.to_owned(), expanded.to_owned()));
    };
    let options = SqliteOptions { trace: Some(Arc::new(see)), ..SqliteOptions::default() };
    let store = SqliteStore::open(":memory:", options)?;
    let declared = Arc::new(store.register(vec![fixture::tool("http://127.0.0.1:1/orders")?]).await?);
    let orders = Orders::new(declared, "traced")?;
    let take = || std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));

    // The first ones read declarations and the ends of chains, which stay known.
    lifecycle(&store, &orders, 0).await?;
    take();
    let prepared = store.commit(orders.prepare(1)?).await?;
    let first = take();
    let reported = store.commit(orders.report(1, &prepared)?).await?;
    let second = take();
    let (mut shared, mut number) = (Vec::new(), 2);
    while shared.len() < 2 {
        ensure!(number < 100 * BURST, "no two calls ever shared a commit");
        shared.clear();
        take();
        let prepared = burst(number, |number| Ok(commit(&store, orders.prepare(number)?))).await?;
        shared.extend(shared_commit(take()));
        let reports = prepared.into_iter().zip(number..).map(|(reply, number)| orders.report(number, &reply));
        let mut reports = reports.collect::<Result<Vec<_>>>()?.into_iter();
        burst(number, |_| Ok(commit(&store, reports.next().context("a report")?))).await?;
        shared.extend(shared_commit(take()));
        number += BURST;
    }
    store.close().await;
    let operation = &reported.view.operation;
    let known = [
        (operation.id.as_str().to_owned(), Slot::Id),
        (operation.fingerprint.to_string(), Slot::Fingerprint),
        (fixture::reference(1), Slot::Reference),
        (operation.attempts[0].key.clone().context("a key")?, Slot::Key),
    ];
    Ok(Scripts { prepare: script(&first, &shared[0], &known)?, report: script(&second, &shared[1], &known)? })
}

async fn lifecycle(store: &SqliteStore, orders: &Orders, number: u64) -> Result<()> {
    let prepared = store.commit(orders.prepare(number)?).await?;
    store.commit(orders.report(number, &prepared)?).await?;
    Ok(())
}

/// A call that does not depend on its caller.
fn commit<V: Verb>(
    store: &SqliteStore,
    verb: V,
) -> impl Future<Output = Result<V::Reply, counterfoil::Error>> + use<V> {
    let store = store.clone();
    async move { store.commit(verb).await }
}

/// Calls that wait at the same time.
async fn burst<F, R>(from: u64, mut call: impl FnMut(u64) -> Result<F>) -> Result<Vec<R>>
where
    F: Future<Output = Result<R, counterfoil::Error>> + Send + 'static,
    R: Send + 'static,
{
    let calls: Vec<_> =
        (from..from + BURST).map(|number| Ok(tokio::spawn(call(number)?))).collect::<Result<_>>()?;
    let mut replies = Vec::new();
    for call in calls {
        replies.push(call.await??);
    }
    Ok(replies)
}

/// The texts of a commit with several jobs: how often each occurs.
type Counts = BTreeMap<String, usize>;

fn shared_commit(seen: Vec<(String, String)>) -> Option<Counts> {
    let mut commit = Vec::new();
    for (sql, _) in seen {
        match sql.as_str() {
            "BEGIN IMMEDIATE" => commit.clear(),
            "COMMIT" => {
                let mut counts = Counts::new();
                for sql in std::mem::take(&mut commit) {
                    *counts.entry(sql).or_default() += 1;
                }
                // Every job writes its operation once, whatever else it says twice.
                let jobs = counts.iter().filter(|(sql, _)| writes_operation(sql)).map(|(_, count)| count);
                if jobs.sum::<usize>() >= 2 {
                    return Some(counts);
                }
            }
            _ => commit.push(sql),
        }
    }
    None
}

fn writes_operation(sql: &str) -> bool {
    ["INSERT INTO counterfoil_operations", "UPDATE counterfoil_operations"]
        .into_iter()
        .any(|write| sql.starts_with(write))
}

/// Tells what a commit says once from what it says for every job.
fn script(alone: &[(String, String)], shared: &Counts, known: &[(String, Slot)]) -> Result<Script> {
    let mut script = Script { opening: Vec::new(), job: Vec::new(), closing: Vec::new() };
    for (sql, expanded) in alone {
        if ["BEGIN IMMEDIATE", "COMMIT"].contains(&sql.as_str()) {
            continue;
        }
        let statement = statement(sql, expanded, known)?;
        let once = shared.get(sql).with_context(|| format!("not said in a shared commit: {sql}"))? == &1;
        match (once, script.job.is_empty()) {
            (true, true) => script.opening.push(statement),
            (true, false) => script.closing.push(statement),
            (false, _) => script.job.push(statement),
        }
    }
    Ok(script)
}

fn statement(sql: &str, expanded: &str, known: &[(String, Slot)]) -> Result<Statement> {
    let mut slots: Vec<(usize, Slot)> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (name, value) in values(sql, expanded)? {
        if names.contains(&name) {
            continue;
        }
        let number = match name.strip_prefix('?') {
            Some(number) => number.parse()?,
            None => names.len() + 1,
        };
        let slot = match (&value, name.as_str()) {
            (_, ":position" | ":seq") => Slot::Next,
            (Value::Text(text), _) => {
                let found = known.iter().find(|(known, _)| known == text);
                found.map_or_else(|| Slot::Fixed(value.clone()), |(_, slot)| slot.clone())
            }
            (Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_), _) => Slot::Fixed(value),
        };
        slots.push((number, slot));
        names.push(name);
    }
    Ok(Statement { sql: sql.to_owned(), slots })
}

/// The value of each parameter, from a text with parameters and the same text with values.
fn values(sql: &str, expanded: &str) -> Result<Vec<(String, Value)>> {
    let (mut template, mut text) = (sql, expanded);
    let mut values = Vec::new();
    while let Some(at) = parameter(template) {
        let (before, rest) = template.split_at(at);
        text = text.strip_prefix(before).with_context(|| format!("not the same text: {expanded}"))?;
        let end = rest[1..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(rest.len(), |end| end + 1);
        let (name, after) = rest.split_at(end);
        let (value, left) = literal(text)?;
        values.push((name.to_owned(), value));
        (template, text) = (after, left);
    }
    ensure!(template == text, "not the same text: {expanded}");
    Ok(values)
}

/// Where the next parameter begins, outside of quotes.
fn parameter(sql: &str) -> Option<usize> {
    let mut quoted = false;
    sql.char_indices().find_map(|(at, c)| {
        quoted ^= c == '\'';
        (!quoted && (c == ':' || c == '?')).then_some(at)
    })
}

/// Reads one SQL literal.
fn literal(text: &str) -> Result<(Value, &str)> {
    if let Some(rest) = text.strip_prefix("NULL") {
        return Ok((Value::Null, rest));
    }
    if let Some(rest) = text.strip_prefix("x'") {
        let (digits, rest) = rest.split_once('\'').context("an open blob")?;
        let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
        return Ok((Value::Blob(bytes.collect::<Result<_, _>>()?), rest));
    }
    if let Some(mut rest) = text.strip_prefix('\'') {
        let mut value = String::new();
        loop {
            let (part, after) = rest.split_once('\'').context("an open text")?;
            value.push_str(part);
            match after.strip_prefix('\'') {
                Some(more) => {
                    value.push('\'');
                    rest = more;
                }
                None => return Ok((Value::Text(value), after)),
            }
        }
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    match text[..end].parse() {
        Ok(number) => Ok((Value::Integer(number), &text[end..])),
        Err(_) => bail!("no literal: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_from_the_text_that_has_them() {
        let sql = "UPDATE t SET a = :a, b = ?2 WHERE c = 'x:y' AND d = ?3 AND e = :e";
        let with = "UPDATE t SET a = 'it''s', b = x'0aff' WHERE c = 'x:y' AND d = -7 AND e = NULL";
        let found = values(sql, with).unwrap();
        let name = |name: &str| name.to_owned();
        assert_eq!(
            found,
            [
                (name(":a"), Value::Text("it's".to_owned())),
                (name("?2"), Value::Blob(vec![10, 255])),
                (name("?3"), Value::Integer(-7)),
                (name(":e"), Value::Null),
            ]
        );
        assert!(values("SELECT ?1", "SELECT 1, 2").is_err());
    }

    #[tokio::test]
    async fn a_lifecycle_is_recorded_whole() {
        let scripts = record().await.unwrap();
        for (script, write) in [
            (&scripts.prepare, "INSERT INTO counterfoil_operations"),
            (&scripts.report, "UPDATE counterfoil_operations"),
        ] {
            let writes = script.job.iter().filter(|statement| statement.sql.starts_with(write)).count();
            assert_eq!(writes, 1, "{script:?}");
            assert!(script.opening.iter().chain(&script.closing).all(|once| !writes_operation(&once.sql)));
            assert!(script.job.iter().any(|statement| statement.sql.contains("INTO counterfoil_evidence")));
            assert!(script.closing.iter().any(|statement| statement.sql.contains("counterfoil_head")));
        }
    }
}
