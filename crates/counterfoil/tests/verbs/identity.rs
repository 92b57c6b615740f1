//! One ID, one intent, for ever.

use counterfoil::error::Refusal;
use counterfoil::guard::Stage;
use counterfoil::id::{Account, ToolName};
use counterfoil::pointer::Pointer;
use counterfoil::policy::Meaning;

use super::support::*;

#[test]
fn the_same_intent_finds_the_operation_and_another_one_is_refused_by_member() {
    let mut kitchen = Kitchen::with(with_key());
    assert!(kitchen.prepare("a").unwrap().created);
    let spelled = kitchen.draft("a", r#"{"quantity":1e1,"sku":"flour-25kg"}"#);
    assert!(!kitchen.world.run(&spelled).unwrap().created);
    assert_eq!(kitchen.row("a").arguments.as_str(), FLOUR, "the first bytes stay");
    let changed = kitchen.draft("a", r#"{"sku":"flour-25kg","quantity":12}"#);
    let refused = kitchen.world.run(&changed).unwrap_err();
    let differs = vec!["arguments.quantity".to_owned()];
    assert_eq!(refused, Refusal::OperationIdReused { differs, stage: Stage::Prepared });
}

#[test]
fn another_tool_or_another_distinction_is_another_intent() {
    let mut kitchen = Kitchen::with(with_key());
    let mut mail = with_nothing();
    mail.name = ToolName::parse("mail.send").unwrap();
    kitchen.world.declare(mail);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let mut other = kitchen.draft("a", FLOUR);
    other.tool = ToolName::parse("mail.send").unwrap();
    assert!(matches!(kitchen.world.run(&other), Err(Refusal::OperationIdReused { .. })));
    let mut second = kitchen.draft("b", FLOUR);
    second.distinct_from = vec![id("a")];
    kitchen.world.run(&second).unwrap();
    assert!(matches!(kitchen.prepare("b"), Err(Refusal::OperationIdReused { .. })));
}

#[test]
fn after_retention_every_call_is_gone_before_arguments_are_compared() {
    let mut tool = with_key();
    tool.retention = seconds(3600);
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    kitchen.wait(3599);
    assert!(kitchen.prepare("a").unwrap().view.replayed);
    kitchen.wait(1);
    let gone = Refusal::ReceiptExpired { stage: Stage::Succeeded };
    for purged in [false, true] {
        if purged {
            kitchen.world.purge();
            assert_eq!(kitchen.world.tombstone(&account(), &id("a")), Some(Stage::Succeeded));
        }
        assert_eq!(kitchen.prepare("a").unwrap_err(), gone);
        let changed = kitchen.draft("a", r#"{"sku":"sugar"}"#);
        assert_eq!(kitchen.world.run(&changed).unwrap_err(), gone);
        assert_eq!(kitchen.execute("a").unwrap_err(), gone);
    }
    kitchen.wait(10 * 365 * 24 * 3600);
    assert_eq!(kitchen.prepare("a").unwrap_err(), gone);
}

#[test]
fn two_accounts_with_one_id_have_two_operations_and_two_keys() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    let mut theirs = kitchen.draft("a", FLOUR);
    theirs.caller.account = Account::parse("bakery").unwrap();
    theirs.execute = true;
    theirs.offer = Some(kitchen.offer("a"));
    assert!(kitchen.world.run(&theirs).unwrap().created);
    kitchen.begin("a", 1);
    let bakery = kitchen.world.operation(&Account::parse("bakery").unwrap(), &id("a")).unwrap();
    assert_ne!(bakery.attempts[0].key, kitchen.row("a").attempts[0].key);
}

#[test]
fn a_later_change_of_volatile_members_refuses_no_honest_retry() {
    let mut tool = with_key();
    tool.volatile = vec![Pointer::parse("/why").unwrap()];
    let mut kitchen = Kitchen::with(tool);
    let first = kitchen.draft("a", r#"{"sku":"flour","why":"low"}"#);
    kitchen.world.run(&first).unwrap();
    kitchen.world.declare(with_key());
    let again = kitchen.draft("a", r#"{"sku":"flour","why":"nearly out"}"#);
    assert!(!kitchen.world.run(&again).unwrap().created);
}

#[test]
fn a_dry_run_stores_nothing_and_a_forbidden_tool_shows_nothing() {
    let mut kitchen = Kitchen::with(with_key());
    let mut dry = kitchen.draft("a", FLOUR);
    (dry.dry_run, dry.execute, dry.offer) = (true, true, Some(kitchen.offer("a")));
    assert!(kitchen.world.run(&dry).unwrap().created);
    assert!(kitchen.world.operation(&account(), &id("a")).is_none() && kitchen.world.evidence().is_empty());
    kitchen.prepare("a").unwrap();
    let mut narrow = kitchen.draft("a", FLOUR);
    narrow.caller.tools = vec!["mail.*".to_owned()];
    assert_eq!(kitchen.world.run(&narrow).unwrap_err(), Refusal::ToolForbidden);
    narrow.caller = ann();
    assert_eq!(kitchen.world.run(&narrow).unwrap_err(), Refusal::RoleForbidden("agent"));
}
