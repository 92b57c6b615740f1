//! The operation ID as the key itself: not scoped to an account, so only one account may ever have used the tool.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{LedgerOptions, NewOperation};
use counterfoil::policy::{Carrier, Tool};
use counterfoil::recovery::{KeyFacts, Place, Recovery, StoredErrors};
use counterfoil::{Arguments, KeyFormat, Ledger, StoreError};

fn tool(key_format: KeyFormat, accounts: Option<&str>) -> Tool {
    let recovery = Recovery::IdempotencyKey(KeyFacts {
        key: Place::Header("Idempotency-Key".to_owned()),
        key_format,
        key_max_len: None,
        retention: Duration::from_secs(86_400),
        request_lifetime: Duration::from_secs(900),
        stored_errors: StoredErrors::All,
        rolls_back: false,
        skew: Duration::from_secs(60),
        lookup: None,
        lookup_for: Duration::from_secs(86_400),
    });
    let mut tool = Tool::new("t".parse().unwrap(), Carrier::Transaction, recovery);
    tool.accounts = accounts.map(|account| vec![account.parse().unwrap()]);
    tool
}

#[tokio::test]
async fn raw_keys_load_only_for_the_one_account_that_ever_used_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    let open = |tool: Tool| Ledger::open(file.clone(), vec![tool], LedgerOptions::default());
    let ledger = open(tool(KeyFormat::Hex32, None)).await.unwrap();
    let caller = Caller {
        account: "kitchen".parse().unwrap(),
        principal: "planner".parse().unwrap(),
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    };
    let arguments = Arguments::parse(b"{}").unwrap();
    let new = NewOperation::new("o".parse().unwrap(), "t".parse().unwrap(), arguments);
    ledger.prepare(&caller, new).await.unwrap();
    let refused = open(tool(KeyFormat::Raw, Some("bar"))).await.err();
    assert!(matches!(refused, Some(StoreError::Unusable(_))), "{refused:?}");
    open(tool(KeyFormat::Raw, Some("kitchen"))).await.unwrap();
}
