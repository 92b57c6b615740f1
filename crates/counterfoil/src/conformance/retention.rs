//! Retention: what stays of an operation, and what every later call with its ID is told.

use std::time::Duration;

use super::bench::{Bench, Open, account};
use super::verbs::{Append, Insert, Update, attempt};
use crate::error::{Error, Refusal};
use crate::guard::Stage;
use crate::id::OperationId;
use crate::operation::{Operation, Receipt, ReceiptSource};
use crate::state::{Open as Unsettled, State};
use crate::store::Filter;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn exercise(bench: &Bench<'_>) {
    let open = bench.open("retention.db").await;
    for (id, flagged) in [("done", false), ("flagged", true)] {
        open.store.commit(Insert::new(&account(), id, &open.declared)).await.unwrap();
        let edit = move |operation: &mut Operation, now: crate::Timestamp| {
            operation.attempts.push(attempt(1, Some("key"), now));
            operation.duplicate_suspected = flagged;
            operation.receipt_expires_at = Some(now.plus(DAY));
            let (reference, source) = (Some("order-1".to_owned()), ReceiptSource::Response);
            operation.state = State::Succeeded(Receipt { reference, result: None, source, recorded_at: now });
        };
        open.store.commit(Update::new(&account(), id, &open.declared, edit)).await.unwrap();
    }
    open.store.commit(Insert::new(&account(), "open", &open.declared)).await.unwrap();
    let edit = |operation: &mut Operation, now| {
        operation.attempts.push(attempt(1, None, now));
        operation.state = State::Unknown(Unsettled::default());
    };
    open.store.commit(Update::new(&account(), "open", &open.declared, edit)).await.unwrap();

    open.pass(DAY - Duration::from_millis(1));
    assert_eq!(open.store.purge(100).await.unwrap(), 0);
    assert!(touch(&open, "done").await.is_ok());
    open.pass(Duration::from_millis(1));
    // Purged or not, the answer is the same.
    let gone = Err(Error::Refused(Refusal::ReceiptExpired { stage: Stage::Succeeded }));
    assert_eq!(touch(&open, "done").await, gone);
    assert_eq!(open.store.purge(100).await.unwrap(), 1, "neither the flagged nor the open one");
    assert_eq!(open.store.purge(100).await.unwrap(), 0);
    assert_eq!(touch(&open, "done").await, gone);
    let again = open.store.commit(Insert::new(&account(), "done", &open.declared)).await.map(drop);
    assert_eq!(again, gone, "the ID stays used up");
    let by_key = Filter { reference: Some("key".to_owned()), limit: 9, ..Filter::default() };
    let listed = open.store.list(Some(&account()), by_key).await.unwrap().items;
    assert_eq!(listed.iter().map(|operation| operation.id.as_str()).collect::<Vec<_>>(), ["flagged"]);
    evidence_outlives_what_it_speaks_of(&open).await;
}

async fn touch(open: &Open, id: &str) -> Result<(), Error> {
    open.store.commit(Append::new(&account(), id, 0, &open.declared)).await.map(drop)
}

async fn evidence_outlives_what_it_speaks_of(open: &Open) {
    let id = OperationId::parse("done").unwrap();
    let rows = open.store.evidence(&account(), &id, None, 50).await.unwrap().items;
    let kinds: Vec<_> = rows.iter().map(|row| (row.kind.as_str(), row.data.as_str())).collect();
    let purged = r#"{"purged":true}"#;
    assert_eq!(kinds, [("prepared", purged), ("changed", purged), ("receipt_expired", "{}")]);
    assert_eq!(open.store.verify().await.unwrap().faults, []);
}
