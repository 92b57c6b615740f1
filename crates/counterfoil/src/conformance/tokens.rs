//! Tokens.

use super::bench::{Bench, START, account};
use crate::id::Principal;
use crate::store::Token;

pub(super) async fn exercise(bench: &Bench<'_>) {
    let open = bench.open("tokens.db").await;
    let token = Token {
        id: "tok-1".to_owned(),
        principal: Principal::parse("cook").unwrap(),
        account: account(),
        roles: vec!["agent".to_owned(), "approver".to_owned()],
        tools: vec!["t.*".to_owned()],
        digest: [7; 32],
        created_at: START,
        expires_at: Some(START),
        revoked_at: None,
    };
    let changed = open.store.tokens_changed();
    open.store.create_token(token.clone()).await.unwrap();
    assert!(changed.has_changed().unwrap());
    assert!(open.store.create_token(token.clone()).await.is_err(), "an ID stands for one token");
    assert_eq!(open.store.token_by_digest(&[7; 32]).await.unwrap(), Some(token.clone()));
    assert_eq!(open.store.token_by_digest(&[8; 32]).await.unwrap(), None);
    assert!(open.store.revoke_token("tok-1").await.unwrap());
    assert!(!open.store.revoke_token("tok-1").await.unwrap());
    assert!(!open.store.revoke_token("tok-2").await.unwrap());
    let revoked = Token { revoked_at: Some(open.store.now()), ..token };
    assert_eq!(open.store.tokens().await.unwrap(), [revoked]);
    let report = open.store.verify().await.unwrap();
    assert_eq!((report.rows, report.faults), (2, vec![]));
    assert_eq!(open.store.ledger_secret(), bench.open("tokens.db").await.store.ledger_secret());
    assert_ne!(open.store.ledger_secret(), bench.open("others.db").await.store.ledger_secret());
}
