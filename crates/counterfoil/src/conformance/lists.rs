//! Lists, cursors, what is due, and counts.

use std::time::Duration;

use super::bench::{Bench, Open, account};
use super::verbs::{Insert, Update, attempt};
use crate::error::{Error, Refusal};
use crate::guard::Stage;
use crate::id::{Account, OperationId, Task, ToolName};
use crate::operation::Operation;
use crate::recovery::HoldReason;
use crate::state::{Open as Unsettled, State};
use crate::store::{Due, DueOf, Filter};

pub(super) async fn exercise(bench: &Bench<'_>) {
    let open = bench.open("lists.db").await;
    fill(&open).await;
    pages_hold_each_operation_once(&open).await;
    filters_narrow(&open).await;
    evidence_is_paged(&open).await;
    what_is_due_comes_in_order(&open).await;
    the_census_counts(&open).await;
}

/// Thirty operations, ten for each instant; every third one unknown and sent, some of those held; one of another account.
async fn fill(open: &Open) {
    let (account, declared) = (account(), &open.declared);
    for number in 0..30_u32 {
        if number > 0 && number % 10 == 0 {
            open.pass(Duration::from_secs(1));
        }
        let id = format!("op-{number:02}");
        let insert = Insert {
            task: (number % 2 == 0).then(|| Task::parse("even").unwrap()),
            tool: ToolName::parse(if number < 20 { "t.one" } else { "t.two" }).unwrap(),
            wish: number % 3 == 0,
            ..Insert::new(&account, &id, declared)
        };
        open.store.commit(insert).await.unwrap();
        if number % 3 == 0 {
            let hold = (number % 6 == 0).then_some(HoldReason::BudgetSpent);
            let key = format!("key-{number}");
            let edit = move |operation: &mut Operation, now| {
                operation.attempts.push(attempt(1, Some(&key), now));
                operation.state = State::Unknown(Unsettled { hold, ..Unsettled::default() });
            };
            open.store.commit(Update::new(&account, &id, declared, edit)).await.unwrap();
        }
    }
    let other = Account::parse("garden").unwrap();
    open.store.commit(Insert::new(&other, "op-00", declared)).await.unwrap();
}

async fn all(open: &Open, account: Option<&Account>, filter: Filter) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = open.store.list(account, Filter { cursor, limit: 7, ..filter.clone() }).await.unwrap();
        assert!(page.items.len() <= 7);
        ids.extend(page.items.iter().map(|operation| operation.id.to_string()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return ids;
        }
    }
}

async fn pages_hold_each_operation_once(open: &Open) {
    let listed = all(open, Some(&account()), Filter::default()).await;
    let expected: Vec<_> = (0..30).rev().map(|number| format!("op-{number:02}")).collect();
    assert_eq!(listed, expected);
    assert_eq!(all(open, None, Filter::default()).await.len(), 31);
    let hostile = Filter { cursor: Some("1.27.27' OR 1=1 --".to_owned()), limit: 5, ..Filter::default() };
    let refused = open.store.list(None, hostile).await.unwrap_err();
    assert_eq!(refused, Error::Refused(Refusal::InvalidCursor));
}

async fn filters_narrow(open: &Open) {
    let account = account();
    let count = async |filter: Filter| all(open, Some(&account), filter).await.len();
    let stage = |stage| Filter { stage: Some(stage), ..Filter::default() };
    assert_eq!(count(stage(Stage::Unknown)).await, 10);
    assert_eq!(count(stage(Stage::Prepared)).await, 20);
    assert_eq!(count(stage(Stage::Succeeded)).await, 0);
    let tool = ToolName::parse("t.two").unwrap();
    assert_eq!(count(Filter { tool: Some(tool), ..Filter::default() }).await, 10);
    let task = Task::parse("even").unwrap();
    assert_eq!(count(Filter { task: Some(task), ..Filter::default() }).await, 15);
    assert_eq!(count(Filter { held: Some(true), ..Filter::default() }).await, 5);
    assert_eq!(count(Filter { held: Some(false), ..Filter::default() }).await, 25);
    assert_eq!(count(Filter { unresolved: Some(true), ..Filter::default() }).await, 10);
    assert_eq!(count(Filter { text: Some("p-1".to_owned()), ..Filter::default() }).await, 10);
    assert_eq!(count(Filter { text: Some("%".to_owned()), ..Filter::default() }).await, 0);
    let after = Some(open.store.now());
    assert_eq!(count(Filter { created_after: after, ..Filter::default() }).await, 10);
    assert_eq!(count(Filter { created_before: after, ..Filter::default() }).await, 20);
    let by_key = Filter { reference: Some("key-9".to_owned()), ..Filter::default() };
    assert_eq!(all(open, Some(&account), by_key.clone()).await, ["op-09"]);
    assert!(all(open, Some(&Account::parse("garden").unwrap()), by_key).await.is_empty());
}

async fn evidence_is_paged(open: &Open) {
    let id = OperationId::parse("op-03").unwrap();
    let first = open.store.evidence(&account(), &id, None, 1).await.unwrap();
    let next: u64 = first.next_cursor.unwrap().parse().unwrap();
    let second = open.store.evidence(&account(), &id, Some(next), 1).await.unwrap();
    assert_eq!((first.items[0].kind.as_str(), second.items[0].kind.as_str()), ("prepared", "changed"));
    assert_eq!(second.next_cursor, None);
    let stranger = Account::parse("garden").unwrap();
    assert!(open.store.evidence(&stranger, &id, None, 10).await.unwrap().items.is_empty());
    assert_eq!(open.store.events(&account(), None, 200).await.unwrap().items.len(), 40);
    assert_eq!(open.store.events(&stranger, None, 200).await.unwrap().items.len(), 1);
}

async fn what_is_due_comes_in_order(open: &Open) {
    let due = open.store.due(open.store.now(), 100, DueOf::Except(Vec::new())).await.unwrap();
    // Unknown and not held; wishes were only given to those that became unknown, and one operation of the other account.
    assert_eq!(due.len(), 5 + 1, "{due:?}");
    assert!(due.is_sorted_by_key(|due| due.at));
    assert_eq!(open.store.next_due().await.unwrap(), Some(due[0].at));
    let skip = vec![ToolName::parse("t.one").unwrap()];
    let others = open.store.due(open.store.now(), 100, DueOf::Except(skip.clone())).await.unwrap();
    assert!(others.iter().all(|due| due.tool.as_str() == "t.two") && others.len() < due.len());
    // One at a time, each exactly once.
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let of = DueOf::Only { tools: skip.clone(), after };
        let page = open.store.due(open.store.now(), 1, of).await.unwrap();
        after = page.last().cloned();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert!(paged.iter().all(|due| due.tool.as_str() == "t.one"), "{paged:?}");
    let ids = |of: &[Due]| of.iter().map(|due| due.id.to_string()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(paged.len() + others.len(), due.len());
    assert_eq!(ids(&[paged, others].concat()), ids(&due));
    let early = due[0].at.minus(Duration::from_millis(1));
    assert!(open.store.due(early, 100, DueOf::Except(Vec::new())).await.unwrap().is_empty());
}

async fn the_census_counts(open: &Open) {
    let census = open.store.census(Some(&account())).await.unwrap();
    let of = |held: bool, stage: Stage| -> u64 {
        census.by_tool.iter().filter(|row| (row.held, row.stage) == (held, stage)).map(|row| row.count).sum()
    };
    assert_eq!((of(true, Stage::Unknown), of(false, Stage::Unknown), of(false, Stage::Prepared)), (5, 5, 20));
    assert_eq!(census.oldest_unknown, Some(super::bench::START));
    let all: u64 = open.store.census(None).await.unwrap().by_tool.iter().map(|row| row.count).sum();
    assert_eq!(all, 31);
}
