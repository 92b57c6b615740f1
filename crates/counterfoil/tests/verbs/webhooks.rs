//! What a destination says by itself: proof settles whatever is open, nothing rejects, and each event is heard once.

use counterfoil::decide::Action;
use counterfoil::error::Refusal;
use counterfoil::id::ToolName;
use counterfoil::operation::{ReceiptSource, ResultBody};
use counterfoil::policy::{Carrier, Meaning, Tool};
use counterfoil::recovery::{NoneFacts, Recovery};
use counterfoil::verbs::{Begun, Heard, MOST_WEBHOOKS, Offer, Resolve, Said, Verdict, Webhook, Words};
use counterfoil::{Account, Pointer};

use super::support::*;

fn said(kitchen: &Kitchen, event: &str) -> Said {
    Said {
        event: format!("sha256:{event}"),
        reference: key_of(kitchen),
        success: true,
        complete: true,
        names: Some("po_4711".to_owned()),
        record: Vec::new(),
        result: ResultBody {
            status: None,
            content_type: Some("application/json".to_owned()),
            body: None,
            size: 2,
            digest: "sha256:body".to_owned(),
            truncated: true,
        },
    }
}

fn key_of(kitchen: &Kitchen) -> String {
    kitchen.row("a").attempts.last().unwrap().key.clone().unwrap()
}

impl Kitchen {
    fn hear_for(&mut self, account: Account, tool: &str, said: Said) -> Result<Heard, Refusal> {
        let (tool, declared) = (ToolName::parse(tool).unwrap(), self.world.declared());
        self.world.run(&Webhook { account, id: id("a"), tool, said, declared })
    }

    fn hear(&mut self, said: Said) -> Heard {
        self.hear_for(account(), TOOL, said).unwrap()
    }

    fn settle_as(&mut self, verdict: Verdict) -> Result<counterfoil::snapshot::View, Refusal> {
        let verb = Resolve {
            caller: ann(),
            id: id("a"),
            verdict,
            note: Words::parse("looked").unwrap(),
            if_version: None,
            declared: self.world.declared(),
        };
        self.world.run(&verb)
    }
}

/// A tool with a key that is tried once, and whose request is at most five minutes under way.
fn once() -> Tool {
    let mut tool = with_key();
    tool.budget.attempts = 1;
    tool
}

fn begun(tool: Tool) -> Kitchen {
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen
}

fn lost_reply(tool: Tool) -> Kitchen {
    let mut kitchen = begun(tool);
    kitchen.report("a", 1, lost());
    kitchen
}

#[test]
fn proof_settles_whatever_is_open() {
    let held = lost_reply(once());
    assert!(held.hold("a").is_some());
    let running = begun(once());
    let unknown = lost_reply(with_key());
    let mut prepared = begun(with_key());
    prepared.report("a", 1, refused_connection());
    for (mut kitchen, state) in
        [(held, "unknown"), (running, "in_progress"), (unknown, "unknown"), (prepared, "prepared")]
    {
        assert_eq!(kitchen.state("a"), state);
        let event = said(&kitchen, "1");
        assert_eq!(kitchen.hear(event.clone()), Heard::Proof, "{state}");
        let row = kitchen.row("a");
        let receipt = row.state.receipt().expect(state);
        assert_eq!(
            (receipt.source, receipt.reference.as_deref()),
            (ReceiptSource::Evidence, Some("po_4711"))
        );
        assert!(row.receipt_expires_at.is_some() && !row.duplicate_suspected && !row.wish, "{state}");
        let version = row.version;
        assert_eq!(kitchen.hear(event), Heard::Repeated);
        assert_eq!(kitchen.row("a").version, version, "a repeated event writes nothing");
        assert_ne!(kitchen.carry("a"), Begun::Started(2), "what is proved is never sent again");
    }
}

#[test]
fn the_answer_that_comes_after_the_proof_changes_nothing() {
    let mut kitchen = begun(with_key());
    let event = said(&kitchen, "1");
    kitchen.hear(event);
    let before = kitchen.row("a").state.clone();
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    kitchen.report("a", 1, answer(Meaning::Rejected, 422));
    assert_eq!(kitchen.row("a").state, before);
    assert!(!kitchen.row("a").duplicate_suspected);
}

#[test]
fn a_second_success_with_another_name_is_suspected() {
    let mut kitchen = begun(with_key());
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    let again = said(&kitchen, "1");
    assert_eq!(kitchen.hear(again.clone()), Heard::Proof);
    assert!(!kitchen.row("a").duplicate_suspected, "the same name again says nothing new");
    let other = Said { names: Some("po_9".to_owned()), ..said(&kitchen, "2") };
    assert_eq!(kitchen.hear(other), Heard::Proof);
    assert!(kitchen.row("a").duplicate_suspected);
    assert_eq!(kitchen.row("a").state.receipt().unwrap().reference.as_deref(), Some("po_4711"));
    assert_eq!(kitchen.next("a").0, Action::Review);
}

#[test]
fn proof_against_a_rejection_is_looked_at_by_a_person() {
    let mut kitchen = lost_reply(once());
    kitchen.wait(3600);
    kitchen.settle_as(Verdict::ConfirmedAbsent { allow_another_attempt: false }).unwrap();
    let event = said(&kitchen, "1");
    assert_eq!(kitchen.hear(event), Heard::Proof);
    let row = kitchen.row("a");
    assert_eq!(
        (row.state.label(), row.duplicate_suspected, row.receipt_expires_at),
        ("rejected", true, None)
    );
    assert_eq!(kitchen.next("a").0, Action::Review);
    let wrong = Verdict::Succeeded { reference: Words::parse("po_1").unwrap() };
    assert_eq!(kitchen.settle_as(wrong).unwrap_err(), Refusal::WrongState("rejected"));
    kitchen.settle_as(Verdict::Succeeded { reference: Words::parse("po_4711").unwrap() }).unwrap();
    let row = kitchen.row("a");
    assert_eq!((row.state.label(), row.duplicate_suspected), ("succeeded", false));
    assert_eq!(row.state.receipt().unwrap().source, ReceiptSource::Evidence);
}

#[test]
fn what_a_person_closed_is_settled_all_the_same() {
    let mut kitchen = lost_reply(once());
    kitchen.settle_as(Verdict::Abandoned).unwrap();
    let event = said(&kitchen, "1");
    assert_eq!(kitchen.hear(event), Heard::Proof);
    assert_eq!(kitchen.state("a"), "succeeded");
}

#[test]
fn nothing_else_moves_anything() {
    let mut kitchen = lost_reply(once());
    let before = kitchen.row("a").state.clone();
    let sku = (Pointer::parse("/sku").unwrap(), Some("\"flour-25kg\"".to_owned()));
    let quantity = |text: Option<&str>| (Pointer::parse("/quantity").unwrap(), text.map(str::to_owned));
    let base = said(&kitchen, "-");
    for (event, said, heard) in [
        ("1", Said { success: false, ..base.clone() }, Heard::Other),
        ("2", Said { complete: false, ..base.clone() }, Heard::Incomplete),
        ("3", Said { record: vec![sku.clone(), quantity(Some("11e0"))], ..base.clone() }, Heard::Differs),
        ("4", Said { record: vec![quantity(None)], ..base.clone() }, Heard::Differs),
        (
            "5",
            Said { record: vec![(Pointer::parse("/absent").unwrap(), None)], ..base.clone() },
            Heard::Differs,
        ),
        ("6", Said { reference: "another".to_owned(), ..base.clone() }, Heard::Unmatched),
    ] {
        let version = kitchen.row("a").version;
        assert_eq!(kitchen.hear(Said { event: event.to_owned(), ..said }), heard);
        assert_eq!(kitchen.row("a").state, before, "{heard:?}");
        let kept = u64::from(heard != Heard::Unmatched);
        assert_eq!(kitchen.row("a").version, version + kept, "{heard:?}");
    }
    let elsewhere = kitchen.hear_for(Account::parse("bakery").unwrap(), TOOL, base.clone());
    assert_eq!(elsewhere, Ok(Heard::Unmatched));
    assert_eq!(kitchen.hear_for(account(), "other.tool", base.clone()), Ok(Heard::Unmatched));
    assert_eq!(kitchen.row("a").state, before);
    let ours = Said { record: vec![sku, quantity(Some("1e1"))], ..base };
    assert_eq!(kitchen.hear(ours), Heard::Proof);
}

#[test]
fn another_vendor_account_proves_nothing() {
    let mut kitchen = lost_reply(once());
    let mut moved = once();
    if let Carrier::Http(http) = &mut moved.carrier {
        http.scope = Some("vendor-2".to_owned());
    }
    kitchen.world.declare(moved);
    let event = said(&kitchen, "1");
    assert_eq!(kitchen.hear(event), Heard::ScopeChanged);
    assert_eq!(kitchen.state("a"), "unknown");
}

#[test]
fn chatter_is_kept_up_to_a_limit_and_hides_no_proof() {
    let mut kitchen = lost_reply(once());
    let base = Said { success: false, ..said(&kitchen, "-") };
    for number in 0..MOST_WEBHOOKS {
        assert_eq!(kitchen.hear(Said { event: number.to_string(), ..base.clone() }), Heard::Other);
    }
    let version = kitchen.row("a").version;
    assert_eq!(kitchen.hear(Said { event: "more".to_owned(), ..base }), Heard::TooMany);
    assert_eq!(kitchen.row("a").version, version);
    let proof = said(&kitchen, "proof");
    assert_eq!(kitchen.hear(proof), Heard::Proof);
}

#[test]
fn proof_under_an_older_key_does_not_speak_for_the_newer_copy() {
    let mut kitchen = begun(once());
    kitchen.report("a", 1, answer(Meaning::Unknown, 500));
    let older = said(&kitchen, "1");
    kitchen.wait(3600);
    kitchen.settle_as(Verdict::ConfirmedAbsent { allow_another_attempt: true }).unwrap();
    // The request says nothing of what was sent before under another key.
    let offer = Offer { request_digest: "sha256:two".to_owned(), ..kitchen.offer("a") };
    assert_eq!(kitchen.start_as(None, "a", Some(offer)).unwrap().begun, Begun::Started(2));
    assert_ne!(key_of(&kitchen), older.reference, "a stored failure needs a new key");
    assert_eq!(kitchen.hear(older), Heard::Proof);
    let row = kitchen.row("a");
    assert_eq!((row.state.label(), row.duplicate_suspected), ("succeeded", true));
    assert_eq!(row.receipt_expires_at, None);
}

#[test]
fn proof_past_the_end_of_retention_still_counts() {
    let mut tool = once();
    tool.recovery = Recovery::None(NoneFacts { request_lifetime: Some(seconds(1)), queue_time: seconds(0) });
    // Without a key nothing is sent that a webhook could repeat.
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    assert_eq!(kitchen.row("a").attempts[0].key, None);
    let mut kitchen = lost_reply(once());
    kitchen.wait(3600);
    kitchen.settle_as(Verdict::ConfirmedAbsent { allow_another_attempt: false }).unwrap();
    kitchen.wait(91 * 24 * 3600);
    let event = said(&kitchen, "1");
    assert_eq!(kitchen.hear(event), Heard::Proof);
    assert!(
        kitchen.row("a").duplicate_suspected,
        "its receipt was not purged yet, so nothing is thrown away"
    );
}
