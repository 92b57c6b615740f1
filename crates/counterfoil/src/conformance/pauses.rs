//! Pauses, and clocks in doubt.

use std::time::Duration;

use super::bench::{Bench, Open, account};
use super::verbs::{Append, Insert, Update, attempt};
use crate::decide::PauseReason;
use crate::id::ToolName;
use crate::operation::Operation;
use crate::snapshot::{PauseDraft, Snapshot};

pub(super) async fn exercise(bench: &Bench<'_>) {
    a_pause_holds_until_somebody_resumes(bench).await;
    a_scoped_pause_holds_its_scope(&bench.open("scopes.db").await).await;
    paused_time_counts_once(&bench.open("time.db").await).await;
    clocks_that_disagree_are_noticed(bench).await;
}

fn draft(tool: Option<&str>, scope: Option<&str>) -> PauseDraft {
    PauseDraft {
        tool: tool.map(|tool| ToolName::parse(tool).unwrap()),
        scope: scope.map(str::to_owned),
        by: "anna".to_owned(),
        note: "looking".to_owned(),
    }
}

async fn look(open: &Open, scope: Option<&str>) -> Snapshot {
    let look =
        Append { scope: scope.map(str::to_owned), ..Append::new(&account(), "op-1", 0, &open.declared) };
    open.store.commit(look).await.unwrap()
}

async fn insert(open: &Open) {
    open.store.commit(Insert::new(&account(), "op-1", &open.declared)).await.unwrap();
}

async fn a_pause_holds_until_somebody_resumes(bench: &Bench<'_>) {
    let open = bench.open("pauses.db").await;
    insert(&open).await;
    let changed = open.store.pauses_changed();
    assert_eq!(look(&open, None).await.paused, None);
    open.store.pause(draft(Some("t.two"), None)).await.unwrap();
    assert!(changed.has_changed().unwrap());
    assert_eq!(look(&open, None).await.paused, None);
    for _ in 0..2 {
        open.store.pause(draft(Some("t.one"), None)).await.unwrap();
    }
    assert_eq!(open.store.pauses().await.unwrap().len(), 2, "the same pause twice is one");
    assert_eq!(look(&open, None).await.paused, Some(PauseReason::Paused));
    open.store.pause(draft(None, None)).await.unwrap();
    // A new process finds it as it was.
    open.store.close().await;
    let open = bench.open("pauses.db").await;
    let tool = ToolName::parse("t.one").unwrap();
    assert_eq!(open.store.resume(Some(&tool), "anna", "done").await.unwrap(), 1);
    assert_eq!(look(&open, None).await.paused, Some(PauseReason::Paused));
    assert_eq!(open.store.resume(None, "anna", "done").await.unwrap(), 1);
    assert_eq!(look(&open, None).await.paused, None);
    assert_eq!(open.store.pauses().await.unwrap().len(), 1, "the pause of the other tool stays");
    assert_eq!(open.store.resume(None, "anna", "done").await.unwrap(), 0);
    assert_eq!(open.store.verify().await.unwrap().faults, []);
}

async fn a_scoped_pause_holds_its_scope(open: &Open) {
    insert(open).await;
    let begins = Append {
        pause: Some(draft(Some("t.one"), Some("live"))),
        ..Append::new(&account(), "op-1", 1, &open.declared)
    };
    open.store.commit(begins).await.unwrap();
    assert_eq!(look(open, Some("live")).await.paused, Some(PauseReason::Paused));
    assert_eq!(look(open, Some("test")).await.paused, None);
    let tool = ToolName::parse("t.one").unwrap();
    assert_eq!(open.store.resume(Some(&tool), "anna", "new credential").await.unwrap(), 1);
    assert_eq!(look(open, Some("live")).await.paused, None);
}

async fn paused_time_counts_once(open: &Open) {
    insert(open).await;
    let (second, tool) = (Duration::from_secs(1), ToolName::parse("t.one").unwrap());
    open.store.pause(draft(Some("t.one"), None)).await.unwrap();
    open.pass(second);
    let edit = |operation: &mut Operation, now| operation.attempts.push(attempt(1, None, now));
    open.store.commit(Update::new(&account(), "op-1", &open.declared, edit)).await.unwrap();
    open.pass(second);
    open.store.pause(draft(None, None)).await.unwrap();
    open.pass(second);
    open.store.resume(Some(&tool), "anna", "").await.unwrap();
    open.pass(second);
    assert_eq!(look(open, None).await.paused_for, 3 * second, "one pause still runs");
    open.store.resume(None, "anna", "").await.unwrap();
    open.pass(second);
    assert_eq!(look(open, None).await.paused_for, 3 * second);
    open.store.pause(draft(Some("t.two"), None)).await.unwrap();
    open.pass(second);
    assert_eq!(look(open, None).await.paused_for, 3 * second);
}

async fn clocks_that_disagree_are_noticed(bench: &Bench<'_>) {
    let open = bench.open("clocks.db").await;
    insert(&open).await;
    open.pass(Duration::from_secs(100_000));
    assert_eq!(look(&open, None).await.paused, None);
    open.setup.clock.jump(59_000);
    assert_eq!(look(&open, None).await.paused, None);
    open.setup.clock.jump(2_000);
    assert_eq!(look(&open, None).await.paused, Some(PauseReason::Clock));
    open.setup.clock.jump(-2_000);
    assert_eq!(look(&open, None).await.paused, None);
    let id = crate::id::OperationId::parse("op-1").unwrap();
    open.setup.clock.jump(-159_000);
    let read = open.store.snapshot(&account(), &id, open.declared.clone()).await.unwrap();
    assert_eq!(read.paused, Some(PauseReason::Clock));
    open.store.close().await;
    // A process that starts later has only the ledger to compare with: its newest instant is the insert's.
    let setup = Bench::setup();
    setup.clock.jump(-61_000);
    let back = bench.open_with("clocks.db", setup).await;
    assert_eq!(look(&back, None).await.paused, Some(PauseReason::Clock));
    back.pass(Duration::from_secs(2));
    assert_eq!(look(&back, None).await.paused, None);
}
