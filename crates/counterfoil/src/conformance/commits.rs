//! What one commit keeps: the operation, its evidence, and everything beside them.

use std::sync::Arc;
use std::time::Duration;

use super::bench::{Bench, Open, account};
use super::verbs::{Append, Insert, Update, attempt};
use crate::error::{Error, Refusal};
use crate::id::{FencingToken, OperationId, WorkerName};
use crate::operation::{Body, Claim, Operation, Receipt, ReceiptSource, ResultBody};
use crate::snapshot::Existing;
use crate::state::State;
use crate::store::Change;

pub(super) async fn exercise(bench: &Bench<'_>) {
    an_operation_reads_back_as_it_was_written(&bench.open("whole.db").await).await;
    a_refusal_writes_nothing(&bench.open("refusal.db").await).await;
    evidence_moves_the_version_one_by_one(&bench.open("versions.db").await).await;
    a_link_stands_on_both_sides(&bench.open("links.db").await).await;
    one_of_many_creators_wins(&bench.open("race.db").await).await;
    waiting_calls_share_commits(&bench.open("group.db").await).await;
    buckets_and_refusals_are_kept(&bench.open("buckets.db").await).await;
    declarations_are_stored_by_version(bench).await;
}

pub(super) async fn stored(open: &Open, id: &str) -> Option<Operation> {
    let id = OperationId::parse(id).unwrap();
    match open.store.snapshot(&account(), &id, open.declared.clone()).await.unwrap().existing {
        Existing::Operation(operation) => Some(*operation),
        Existing::Nothing | Existing::Tombstone(_) => None,
    }
}

async fn an_operation_reads_back_as_it_was_written(open: &Open) {
    let (account, declared) = (account(), &open.declared);
    let mut changes = open.store.changes();
    assert!(open.store.commit(Insert::new(&account, "op-1", declared)).await.unwrap());
    let first = stored(open, "op-1").await.unwrap();
    assert_eq!((first.version, first.created_at), (1, open.store.now()));
    assert_eq!(first.arguments.as_str(), r#"{"item": "flour", "kg": 25}"#);
    let change = Change { account: account.clone(), id: first.id.clone() };
    assert_eq!(changes.recv().await.unwrap(), change);

    open.pass(Duration::from_secs(1));
    let edit = |operation: &mut Operation, now| {
        operation.attempts.push(attempt(1, Some("key-1"), now));
        operation.state = State::InProgress(Claim {
            worker: WorkerName::parse("w1").unwrap(),
            fence: FencingToken(1),
            lease_expires_at: now,
            claim_id: None,
            lease_ms: None,
            held_by: None,
            look_up: None,
        });
    };
    assert_eq!(open.store.commit(Update::new(&account, "op-1", declared, edit)).await.unwrap(), 2);
    let receipt = |now| Receipt {
        reference: Some("order-7".to_owned()),
        result: Some(ResultBody {
            status: Some(201),
            content_type: Some("application/json".to_owned()),
            body: Some(Body::Json(r#"{"id":  "order-7"}"#.to_owned())),
            size: 18,
            digest: "sha256:00".to_owned(),
            truncated: false,
        }),
        source: ReceiptSource::Response,
        recorded_at: now,
    };
    let edit = move |operation: &mut Operation, now| operation.state = State::Succeeded(receipt(now));
    open.store.commit(Update::new(&account, "op-1", declared, edit)).await.unwrap();
    let last = stored(open, "op-1").await.unwrap();
    assert_eq!(last.state, State::Succeeded(receipt(open.store.now())));
    assert_eq!(last.attempts, [attempt(1, Some("key-1"), open.store.now())]);
    assert_eq!((last.version, last.updated_at), (3, open.store.now()));
    assert_eq!(last.accepted_by, first.accepted_by);
    let rows = open.store.evidence(&account, &last.id, None, 50).await.unwrap().items;
    let states: Vec<_> = rows.iter().map(|row| row.state.as_deref().unwrap()).collect();
    assert_eq!(states, ["prepared", "in_progress", "succeeded"]);
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(rows[0].previous, "0".repeat(64));
    assert_eq!(rows[2].previous, rows[1].digest);
}

async fn a_refusal_writes_nothing(open: &Open) {
    let refused = open.store.commit(Append::new(&account(), "nobody", 1, &open.declared)).await.unwrap_err();
    assert_eq!(refused, Error::Refused(Refusal::UnknownOperation));
    assert_eq!(open.store.verify().await.unwrap().rows, 0);
}

async fn evidence_moves_the_version_one_by_one(open: &Open) {
    let (account, declared) = (account(), &open.declared);
    open.store.commit(Insert::new(&account, "op-1", declared)).await.unwrap();
    let commits = open.store.commit_stats().commits;
    open.store.commit(Append::new(&account, "op-1", 3, declared)).await.unwrap();
    assert_eq!(stored(open, "op-1").await.unwrap().version, 4);
    let rows =
        open.store.evidence(&account, &OperationId::parse("op-1").unwrap(), None, 50).await.unwrap().items;
    assert_eq!(rows.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(rows.iter().map(|row| row.position).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // What writes nothing needs no commit.
    open.store.commit(Append::new(&account, "op-1", 0, declared)).await.unwrap();
    assert_eq!(open.store.commit_stats().commits, commits + 1);
}

async fn a_link_stands_on_both_sides(open: &Open) {
    let (account, declared) = (account(), &open.declared);
    open.store.commit(Insert::new(&account, "first", declared)).await.unwrap();
    let first = OperationId::parse("first").unwrap();
    let second = Insert { distinct_from: vec![first.clone()], ..Insert::new(&account, "second", declared) };
    open.store.commit(second).await.unwrap();
    let (one, other) = (stored(open, "first").await.unwrap(), stored(open, "second").await.unwrap());
    assert_eq!(one.distinct_from[0].id, other.id);
    assert_eq!(other.distinct_from[0].id, first);
    assert_eq!((one.version, other.version), (2, 1));
    let named = open.store.snapshot(&account, &other.id, declared.clone()).await.unwrap().named;
    assert_eq!(named[0].id, first);
    assert_eq!(open.store.verify().await.unwrap().faults, []);
}

async fn one_of_many_creators_wins(open: &Open) {
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (store, insert) = (open.store.clone(), Insert::new(&account(), "op-1", &open.declared));
            tokio::spawn(async move { store.commit(insert).await.unwrap() })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        winners += usize::from(task.await.unwrap());
    }
    assert_eq!(winners, 1);
    assert_eq!(open.store.verify().await.unwrap().rows, 1);
}

async fn waiting_calls_share_commits(open: &Open) {
    let gate = Arc::new(crate::faults::Gate::default());
    open.setup.faults.arm("before_begin", 1, 1, crate::faults::Action::Wait(gate.clone()));
    let before = open.store.commit_stats().commits;
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let (store, declared) = (open.store.clone(), open.declared.clone());
            tokio::spawn(async move {
                store.commit(Insert::new(&account(), &format!("op-{number}"), &declared)).await
            })
        })
        .collect();
    let reached = gate.clone();
    tokio::task::spawn_blocking(move || reached.wait_reached()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.open();
    for call in calls {
        assert!(call.await.unwrap().unwrap());
    }
    let stats = open.store.commit_stats();
    assert!(stats.commits - before <= 10, "{stats:?}");
    assert_eq!(open.store.verify().await.unwrap().rows, 100);
}

async fn buckets_and_refusals_are_kept(open: &Open) {
    let (account, declared) = (account(), &open.declared);
    open.store.commit(Insert::new(&account, "op-1", declared)).await.unwrap();
    let step = |level, refusals| Append {
        scope: Some("live".to_owned()),
        bucket: Some(("supplier".to_owned(), level)),
        refusals: Some(refusals),
        ..Append::new(&account, "op-1", 1, declared)
    };
    let first = open.store.commit(step(7, 2)).await.unwrap();
    assert_eq!((first.bucket, first.refusals), (None, 0));
    let second = open.store.commit(step(6, 3)).await.unwrap();
    assert_eq!((second.bucket.unwrap().level, second.refusals), (7, 2));
    open.store.resume(Some(&second.operation().unwrap().tool), "anna", "checked").await.unwrap();
    let third = open.store.commit(step(5, 0)).await.unwrap();
    assert_eq!((third.bucket.unwrap().level, third.refusals), (6, 0));
}

async fn declarations_are_stored_by_version(bench: &Bench<'_>) {
    let open = bench.open("tools.db").await;
    let version = |declared: &crate::snapshot::Declarations| {
        declared.get(&crate::id::ToolName::parse("t.one").unwrap()).unwrap().0
    };
    assert_eq!(version(&open.declared), 1);
    open.store.commit(Insert::new(&account(), "op-1", &open.declared)).await.unwrap();
    let commits = open.store.commit_stats().commits;
    let again = open.store.register(vec![super::tool("t.one")]).await.unwrap();
    assert_eq!((version(&again), open.store.commit_stats().commits), (1, commits));
    let mut changed = super::tool("t.one");
    changed.budget.attempts = 9;
    let next = Arc::new(open.store.register(vec![changed]).await.unwrap());
    assert_eq!(version(&next), 2);
    let id = OperationId::parse("op-1").unwrap();
    let snapshot = open.store.snapshot(&account(), &id, next).await.unwrap();
    assert_eq!(snapshot.stored.unwrap().budget.attempts, 5);
}
