//! `op show` and `op list`: by reference, with evidence, and with hostile text.

use super::Kitchen;

#[test]
fn an_operation_is_found_by_what_the_destination_calls_it_and_by_its_key() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.create_order", "order-1", "{}").ended(0);
    let done = kitchen.run(&["op", "execute", "order-1", "--json"]).ended(0).json();
    let reference = done["receipt"]["reference"].as_str().unwrap();
    let key = done["attempts"][0]["key"].as_str().unwrap();
    for name in [reference, key] {
        let found = kitchen.run(&["op", "show", name, "--json"]).ended(0).json();
        assert_eq!(found["id"], "order-1", "{name}");
    }
    let none = kitchen.run(&["op", "show", "no such thing"]).ended(2);
    assert!(none.stderr.contains("as a reference or key either"), "{}", none.stderr);
    let listed = kitchen.run(&["op", "list", "--reference", reference, "--json"]).ended(0).json();
    assert_eq!(listed["items"][0]["id"], "order-1");
}

#[test]
fn evidence_is_shown_as_rows_and_as_a_list() {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.create_order", "order-1", "{}").ended(0);
    kitchen.run(&["op", "execute", "order-1"]).ended(0);
    let list = kitchen.run(&["op", "show", "order-1", "--evidence", "--json"]).ended(0).json();
    let items = list["items"].as_array().unwrap();
    assert!(items.len() >= 3 && list["next_cursor"].is_null(), "{list}");
    assert_eq!(items[0]["by"]["principal"], "os:ada");
    let text = kitchen.run(&["op", "show", "order-1", "--evidence"]).ended(0);
    assert!(text.stdout.contains("\nSEQ  AT "), "{}", text.stdout);
}

#[test]
fn lists_page_and_filter() {
    let kitchen = Kitchen::new();
    for id in ["a", "b", "c"] {
        kitchen.prepare("supplier.create_order", id, &format!("{{\"id\":\"{id}\"}}")).ended(0);
    }
    kitchen.run(&["op", "execute", "b"]).ended(0);
    let first = kitchen.run(&["op", "list", "--limit", "2", "--json"]).ended(0).json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = kitchen.run(&["op", "list", "--limit", "2", "--cursor", cursor, "--json"]).ended(0).json();
    let ids = |page: &serde_json::Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    let mut all = [ids(&first), ids(&second)].concat();
    all.sort();
    assert_eq!(all, ["a", "b", "c"]);
    assert_eq!(second["next_cursor"], serde_json::Value::Null);
    let done = kitchen.run(&["op", "list", "--state", "succeeded", "--json"]).ended(0).json();
    assert_eq!(ids(&done), ["b"]);
    let bad = kitchen.run(&["op", "list", "--created-after", "yesterday"]).ended(1);
    assert!(bad.stderr.contains("created_after"), "{}", bad.stderr);
    let paged = kitchen.run(&["op", "list", "--limit", "1"]).ended(0);
    assert!(paged.stderr.contains("--cursor "), "{}", paged.stderr);
}

#[test]
fn hostile_text_cannot_change_the_terminal() {
    let kitchen = Kitchen::new();
    let hostile = "{\"note\":\"safe\u{202e}\u{200b}\u{7f}\u{9b}31m\u{1b}\"}".replace('\u{1b}', "\\u001b");
    kitchen.prepare("supplier.create_order", "order-1", &hostile).ended(0);
    let deny = "no\u{1b}[2J\u{202e}";
    kitchen.run_as("bob", &["op", "withdraw", "order-1"]).ended(0);
    kitchen.prepare("supplier.large_order", "order-2", "{}").ended(6);
    kitchen.run_as("bob", &["op", "deny", "order-2", "--reason", deny]).ended(0);
    for args in [
        &["op", "show", "order-1"][..],
        &["op", "show", "order-2"],
        &["op", "show", "order-1", "--evidence"],
        &["op", "show", "order-2", "--evidence"],
        &["op", "list"],
        &["status"],
    ] {
        let shown = kitchen.run(args).stdout;
        let bad = |character: char| {
            character != '\n' && (character.is_control() || "\u{202e}\u{200b}".contains(character))
        };
        assert!(!shown.contains(bad), "{args:?}: {shown:?}");
    }
    let shown = kitchen.run(&["op", "show", "order-1"]).stdout;
    assert!(shown.contains(r"safe\u{202e}\u{200b}\u{7f}\u{9b}31m\u001b"), "{shown}");
}
