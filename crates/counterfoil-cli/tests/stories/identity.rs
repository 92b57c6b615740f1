//! One ID, one intent: what is the same operation and what is refused.

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour};

use crate::support::{Setup, ToolText, World, order};

fn body(arguments: &str) -> String {
    format!(r#"{{"tool":"supplier.create_order","arguments":{arguments},"execute":true,"wait_ms":20000}}"#)
}

#[test]
fn c23_a_changed_amount_is_refused_and_shows_nothing() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!(done.state(), "succeeded");
    let changed = json!({
        "tool": "supplier.create_order",
        "arguments": { "sku": "flour", "quantity": 12 },
        "execute": true,
    });
    let refused = agent.put("a", &changed).refused(422, "operation-id-reused");
    assert_eq!(refused.at("/differs"), json!(["arguments.quantity"]));
    assert_eq!((refused.text("/operation_id"), refused.state()), ("a".into(), "succeeded".into()));
    assert_eq!(refused.text("/sent"), "no");
    let shown = String::from_utf8(refused.body).unwrap();
    assert!(!shown.contains(&done.reference()), "the stored receipt is not shown: {shown}");
    assert!(!shown.contains("12"), "values are not repeated: {shown}");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c24_order_of_members_and_spelling_of_numbers_do_not_matter() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    let spellings = [
        r#"{"a":{"x":1,"y":[{"p":2,"q":3}]},"b":100}"#,
        r#"{"b":1e2,"a":{"y":[{"q":3.0,"p":2e0}],"x":1.0}}"#,
        r#"{"b":100.00,"a":{"y":[{"p":20e-1,"q":0.3E+1}],"x":1e0}}"#,
        "{ \"\\u0062\": 1E2, \"a\": {\"y\": [{\"q\": 3, \"p\": 2}], \"x\": 10e-1} }",
    ];
    let first = agent.put_text("a", &body(spellings[0])).expect(200);
    for spelling in spellings {
        let same = agent.put_text("a", &body(spelling)).expect(200);
        assert_eq!((same.at("/receipt"), same.at("/replayed")), (first.at("/receipt"), json!(true)));
        assert_eq!(same.text("/fingerprint"), first.text("/fingerprint"));
    }
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c25_what_differs_a_little_differs() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    let pairs = [
        (r#"{"n":9007199254740993}"#, r#"{"n":9007199254740992}"#),
        (r#"{"n":1000}"#, r#"{"n":"1000"}"#),
        (r#"{"a":null}"#, r"{}"),
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
        (r#"{"a":"é"}"#, "{\"a\":\"e\u{301}\"}"),
    ];
    for (number, (stored, other)) in pairs.into_iter().enumerate() {
        let id = format!("a{number}");
        agent.put_text(&id, &body(stored)).expect(200);
        agent.put_text(&id, &body(other)).refused(422, "operation-id-reused");
    }
    assert_eq!((world.effects(), world.writes()), (pairs.len(), pairs.len()));
}

#[test]
fn c26_duplicate_names_are_refused_before_anything_is_stored() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    let bad = [
        r#"{"a":1,"a":2}"#,
        r#"{"deep":[{"a":1,"\u0061":2}]}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":1e10001}"#,
        r"[1]",
        r#""text""#,
        r"null",
    ];
    for arguments in bad {
        let refused = agent.put_text("a", &body(arguments)).expect(400);
        assert!(
            ["invalid-arguments", "invalid-request"].contains(&refused.problem().as_str()),
            "{arguments}"
        );
        assert_eq!(refused.text("/sent"), "no");
    }
    // Duplicates outside the arguments are not better.
    let twice = r#"{"tool":"supplier.create_order","arguments":{},"arguments":{"a":1}}"#;
    agent.put_text("a", twice).expect(400);
    assert_eq!((agent.listed(), world.writes()), (0, 0));
    // The ID is still free.
    agent.put_text("a", &body("{}")).expect(200);
    assert_eq!(world.effects(), 1);
}

#[test]
fn c27_one_id_does_not_serve_two_tools() {
    let setup = Setup::keyed().tool(ToolText::keyed("supplier.cancel_order").with_reference());
    let world = World::new(Flavour::dedupe(), &setup);
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("a", &order("flour", 20_000)).expect(200);
    let mut other = order("flour", 0);
    other["tool"] = json!("supplier.cancel_order");
    let refused = agent.put("a", &other).refused(422, "operation-id-reused");
    assert_eq!(refused.at("/differs"), json!(["tool"]));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c28_two_accounts_do_not_see_each_other() {
    let world = World::keyed();
    let server = world.serve();
    let kitchen = world.agent(&server);
    let bakery = world.caller(&server, "bakery", "baker", &["agent", "approver", "auditor"]);
    let hers = kitchen.put("a", &order("kitchen-flour", 20_000)).expect(200);
    // Every way in answers as if there was nothing.
    let nothing = "no-such-operation";
    let ways: [(&str, &str, Value); 7] = [
        ("GET", "", Value::Null),
        ("GET", "/evidence", Value::Null),
        ("POST", "/execute", json!({ "wait_ms": 0 })),
        ("POST", "/approve", json!({ "fingerprint": hers.text("/fingerprint") })),
        ("POST", "/deny", json!({ "reason": "no" })),
        ("POST", "/withdraw", json!({})),
        ("GET", "?wait_ms=0", Value::Null),
    ];
    for (method, end, sent) in &ways {
        let not_his = bakery.call(method, &format!("/v1/operations/a{end}"), sent);
        let not_there = bakery.call(method, &format!("/v1/operations/{nothing}{end}"), sent);
        not_his.clone().refused(404, "unknown-operation");
        assert_eq!(
            not_his.text("/detail").replace('a', ""),
            not_there.text("/detail").replace('a', "").replace(nothing, ""),
            "{end}"
        );
        assert!(!String::from_utf8_lossy(&not_his.body).contains("po_"), "{end}");
    }
    assert_eq!(bakery.listed(), 0);
    // The same ID is free for him, and is an operation of its own.
    let his = bakery.put("a", &order("bakery-flour", 20_000)).expect(200);
    assert_eq!(his.state(), "succeeded");
    assert_ne!(his.reference(), hers.reference());
    assert_eq!((bakery.listed(), kitchen.listed()), (1, 1));
    assert_eq!((world.effects_with("kitchen").len(), world.effects_with("bakery").len()), (1, 1));
}

#[test]
fn c29_ids_that_are_none_are_refused_with_a_hint() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    let long = "x".repeat(256);
    let ids = [
        "%20",
        long.as_str(),
        "a%07b",
        "a%0Ab",
        "a%00b",
        "%2e",
        "%2e%2e",
        "caf%C3%A9",
        "cook@kitchen.example",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "4242424242424242",
        "4242-4242-4242-4242",
        "Bearer%20abcdefghijklmnop",
    ];
    for id in ids {
        let refused = agent.put(id, &order("flour", 0)).refused(400, "invalid-operation-id");
        assert!(!refused.text("/hint").is_empty());
        assert_eq!(refused.text("/sent"), "no");
        let shown = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(
            !shown.contains("4eC39Hq") && !shown.contains("4242424242424242"),
            "repeats a secret: {shown}"
        );
    }
    // No ID at all is no operation without a name.
    let none = agent.put("", &order("flour", 0));
    assert!((400..500).contains(&none.status), "{}", none.status);
    let cli = world.run(&["op", "prepare", "supplier.create_order", "--id", "", "--arguments", "{}"]);
    assert!(cli.code == 1 || cli.code == 2, "{cli:?}");
    assert_eq!((agent.listed(), world.writes()), (0, 0));
    // The longest one that is allowed is not cut: one more character is another ID.
    let longest = "y".repeat(255);
    assert_eq!(agent.put(&longest, &order("flour", 20_000)).expect(200).text("/id"), longest);
    assert_eq!(world.effects(), 1);
}

#[test]
fn c30_a_second_id_after_a_success_is_a_second_action() {
    let world = World::keyed();
    let server = world.serve();
    let agent = world.agent(&server);
    let mut wanted = order("flour", 20_000);
    wanted["task"] = json!("run-41");
    let first = agent.put("a", &wanted).expect(200);
    let second = agent.put("b", &wanted).expect(200);
    assert_eq!((first.state(), second.state()), ("succeeded".into(), "succeeded".into()));
    assert_ne!(first.reference(), second.reference());
    assert_eq!(world.effects(), 2);
}

#[test]
fn c32_what_is_declared_volatile_is_not_compared() {
    let tool = ToolText::keyed("supplier.create_order").with_reference().table("volatile = [\"/reason\"]");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    let first = r#"{"sku":"flour","reason":"we are low on flour"}"#;
    agent.put_text("a", &body(first)).expect(200);
    let same = agent.put_text("a", &body(r#"{"sku":"flour","reason":"flour runs out"}"#)).expect(200);
    assert_eq!(same.at("/replayed"), true);
    agent.put_text("a", &body(r#"{"sku":"sugar","reason":"flour runs out"}"#)).expect(422);
    let effects = world.supplier.effects().unwrap();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].body, first.as_bytes());
}

#[test]
fn c57_one_credential_for_two_accounts_means_two_keys() {
    let world = World::keyed();
    let server = world.serve();
    let kitchen = world.agent(&server);
    let bakery = world.caller(&server, "bakery", "baker", &["agent"]);
    // Each loses its first reply, so that each key is used twice.
    for caller in [&kitchen, &bakery] {
        world.supplier.fault(Fault::ReplyDropped).unwrap();
        let done = caller.put("approved-action-17", &order("flour", 20_000)).expect(200);
        assert_eq!(done.outcomes(), ["unknown", "succeeded"]);
    }
    let effects = world.supplier.effects().unwrap();
    assert_eq!(effects.len(), 2);
    assert!(effects[0].key.is_some() && effects[0].key != effects[1].key);
    // The key of the shared example: it never changes, or a repeat after an upgrade would be a second effect.
    assert_eq!(kitchen.get("approved-action-17").text("/attempts/0/key"), "34709695c54c93bf67da7aa0502747ef");
    let kitchens = kitchen.get("approved-action-17").reference();
    assert_ne!(kitchens, bakery.get("approved-action-17").reference());
}
