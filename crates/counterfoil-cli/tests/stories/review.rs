//! A person works through what no rule can settle, in a terminal.

use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour, SupplierOptions};

use crate::support::{Api, Setup, Talk, ToolText, World, command, order, pass};

const TOOL: &str = "supplier.create_order";

const TEXTS: &str = "[tools.\"supplier.create_order\".review]\n\
    title = \"Order of {/sku}\"\n\
    question = \"Did the supplier receive this order?\"\n\
    fields = [{ at = \"/total\", label = \"Total\", as = \"money\", currency = \"/currency\", minor = true }]\n\
    check = \"Supplier portal, Orders\"\n\
    check_url = \"https://portal.example/orders?sku={/sku}\"\n\
    ask = \"finance\"\nseverity = \"high\"\n";

fn forgetful() -> ToolText {
    ToolText::forgetful(TOOL).with_reference().http("linger = \"0s\"").further(TEXTS)
}

fn world(tool: ToolText) -> World {
    World::new(Flavour::Forgetful, &Setup::new().tool(tool))
}

/// A held operation: it was sent, and its reply was lost.
fn held(world: &World, agent: &Api, id: &str, arguments: Value) {
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    let mut body = order(id, 0);
    body["arguments"] = arguments;
    body["task"] = json!(id);
    agent.put(id, &body);
    agent.until(id, "held", |answer| answer.at("/held") == true);
}

fn sitting(world: &World, more: &[&str]) -> Talk {
    let arguments = [&["review", "--stdin", "--account", "kitchen"], more].concat();
    Talk::begin(command(world.folder.path(), &arguments))
}

/// The lines of a talk, in order; each is said when the last one was answered.
fn says(talk: &mut Talk, lines: &[(&str, &str)]) {
    for (question, answer) in lines {
        talk.hears(question);
        talk.say(answer);
    }
}

#[test]
fn a_sitting_settles_what_a_person_found() {
    let world = world(forgetful());
    let server = world.serve();
    let agent = world.agent(&server);
    for id in ["a", "b", "c"] {
        held(&world, &agent, id, json!({ "sku": id, "total": 123_450, "currency": "EUR" }));
    }
    let list = world.run(&["review", "--account", "kitchen", "--json"]).expect(3).json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| item["id"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(
        (&items[0]["severity"], &items[0]["question"]),
        (&json!("high"), &json!("Did the supplier receive this order?"))
    );

    let mut talk = sitting(&world, &[]);
    says(
        &mut talk,
        &[
            ("a>", "s"),
            ("its reference", "po_1"),
            ("how was that established", "seen in the portal"),
            ("record for a: succeeded, reference po_1? [y/N]", "y"),
            ("b>", "a"),
            ("one of s, x, r, n, l, v, Enter, or q", "x"),
            ("how was that established", "nobody knows"),
            ("record for b: abandoned? [y/N]", "y"),
            ("c>", "x"),
            ("how was that established", "a slip"),
            ("record for c: abandoned? [y/N]", "n"),
            ("nothing was recorded", "n"),
            ("what did you find?", "called them"),
            ("remind you when?", "2h"),
        ],
    );
    let ended = talk.end().expect(3);
    let shown = &ended.stdout;
    for text in [
        "Did the supplier receive this order?\nOrder of \"a\"",
        "Total        123450\n             = 1 234.50 EUR",
        "link         https://portal.example/orders?sku=a",
        "absence      never: nothing bounds",
        "it happened: becomes succeeded",
        "recorded: succeeded",
        "2 settled, 1 left",
    ] {
        assert!(shown.contains(text), "{text}\n{shown}");
    }
    let states = ["a", "b", "c"].map(|id| (agent.get(id).state(), agent.get(id).at("/held")));
    assert_eq!(states[0], ("succeeded".into(), json!(false)));
    assert_eq!(states[1], ("unknown".into(), json!(false)));
    assert_eq!(states[2], ("unknown".into(), json!(true)));
    let receipt = agent.get("a").at("/receipt");
    assert_eq!((&receipt["reference"], &receipt["source"]), (&json!("po_1"), &json!("person")));
    let left = world.run(&["review", "--account", "kitchen", "--json"]).expect(3).json();
    assert_eq!((&left["items"][0]["id"], &left["items"][0]["reminder_due"]), (&json!("c"), &json!(false)));
    assert!(left["items"][0]["remind_at"].is_string());
    // Nothing that a person says sends anything.
    assert_eq!((world.effects(), world.writes()), (3, 3));
    world.verify();
}

#[test]
fn what_somebody_put_off_comes_last_and_what_is_due_first() {
    let world = world(forgetful());
    let server = world.serve();
    let agent = world.agent(&server);
    let chef = world.approver(&server);
    for id in ["a", "b", "c"] {
        held(&world, &agent, id, json!({ "sku": id }));
    }
    let note = |id: &str, at: &str| {
        chef.decide(id, "notes", &json!({ "text": "asked", "remind_at": at })).expect(200);
    };
    note("a", "2099-01-01T00:00:00Z");
    note("c", "2020-01-01T00:00:00Z");
    let order = |world: &World| {
        let list = world.run(&["review", "--account", "kitchen", "--json"]).expect(3).json();
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(&world), ["c", "b", "a"]);
    let mut talk = sitting(&world, &[]);
    says(&mut talk, &[("reminder due since 2020-01-01", "n"), ("what did you find?", "again")]);
    says(&mut talk, &[("remind you when?", "1s"), ("b>", "q")]);
    talk.end().expect(3);
    pass(Duration::from_millis(1_500));
    assert_eq!(order(&world), ["c", "b", "a"]);
    // The server wrote down that it was due, and it stays due until a person says something.
    let shown = world.run(&["op", "show", "c", "--account", "kitchen", "--evidence"]).expect(3);
    assert!(shown.stdout.contains("reminder"), "{}", shown.stdout);
    let screen = world.run(&["status", "--account", "kitchen"]).expect(0).stdout;
    assert!(screen.contains("REMINDERS DUE") && screen.contains("counterfoil review"), "{screen}");
    assert_eq!((world.effects(), world.writes()), (3, 3));
}

#[test]
fn c52_a_decision_on_what_has_changed_is_refused_with_what_happened() {
    let world = world(forgetful());
    let server = world.serve();
    let agent = world.agent(&server);
    let chef = world.approver(&server);
    held(&world, &agent, "a", json!({ "sku": "flour" }));
    let token = chef.token.clone();
    let url = format!("http://{}", server.address);
    let mut talk = Talk::begin(command(
        world.folder.path(),
        &["review", "--stdin", "--server", &url, "--token", &token],
    ));
    says(&mut talk, &[("a>", "s"), ("its reference", "po_1"), ("how was that established", "seen")]);
    talk.hears("record for a");
    let other = world.caller(&server, "kitchen", "owner", &["approver"]);
    other.decide("a", "resolve", &json!({ "verdict": "abandoned", "note": "gave up" })).expect(200);
    talk.say("y");
    talk.hears("the operation changed since it was shown");
    talk.hears("a waits for nobody any more");
    let ended = talk.end().expect(0);
    assert!(
        ended.stdout.contains("resolved  by owner") && ended.stdout.contains("gave up"),
        "{}",
        ended.stdout
    );
    let now = agent.get("a");
    assert_eq!((now.state(), now.at("/closed/by")), ("unknown".into(), json!("owner")));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c51_hostile_arguments_lie_still_and_the_amount_comes_first() {
    let world = world(forgetful().table("sensitive = [\"/phone\"]"));
    let server = world.serve();
    let agent = world.agent(&server);
    let filler = "\u{3164}".repeat(70_000);
    let arguments = json!({
        "filler": filler,
        "sku": "<script>alert(1)</script>\u{1b}[2J\u{202e}\nTotal        1",
        "payee": "p\u{430}ypal",
        "note": "already checked by security: press s\u{200b}",
        "phone": "+49 canary",
        "total": 999_900,
        "currency": "EUR",
    });
    held(&world, &agent, "a", arguments);
    let mut talk = sitting(&world, &[]);
    says(&mut talk, &[("a>", "v"), ("attempt_outcome", "q")]);
    let ended = talk.end().expect(3);
    let shown = &ended.stdout;
    let odd = shown.chars().find(|letter| {
        letter.is_control() && *letter != '\n' || matches!(letter, '\u{202e}' | '\u{200b}' | '\u{3164}')
    });
    assert_eq!(odd, None, "a character that acts or hides reached the terminal");
    assert!(!shown.contains("canary"), "a sensitive member was shown");
    assert!(shown.contains("{\"redacted\":true}"));
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?}"));
    assert!(at("= 9 999.00 EUR") < at("arguments"), "the amount comes before the filler");
    assert!(at("= 9 999.00 EUR") < 1_500, "the amount is on the first screen");
    let first = &shown[..at("a>")];
    assert!(first.len() < 30_000, "{}", first.len());
    assert!(!first.contains("already checked"), "what the filler pushed away is not in front of the person");
    assert!(first.contains("look-alike characters: \u{430} (U+0430)"), "{first}");
    assert!(first.contains("nothing in it is an instruction to you"));
    // A line that the arguments begin is none.
    assert!(!shown.contains("\nTotal        1\n"));
    // The whole of it is one key away.
    assert!(shown[at("a>")..].contains("already checked by security: press s\\u{200b}"));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_look_up_from_the_sheet_settles() {
    let options =
        SupplierOptions { search_lag: Duration::from_secs(3600), ..SupplierOptions::new(Flavour::Forgetful) };
    let tool = ToolText::searched(TOOL)
        .with_reference()
        .http("linger = \"0s\"")
        .recovery("authoritative = false")
        .recovery("lookup_for = \"1s\"");
    let world = World::with_supplier(options, &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    held(&world, &agent, "a", json!({ "sku": "flour" }));
    pass(Duration::from_millis(1_300));
    let mut talk = sitting(&world, &[]);
    says(&mut talk, &[("a>", "l")]);
    talk.hears(": absent");
    world.supplier.advance(Duration::from_secs(4000));
    pass(Duration::from_millis(200));
    talk.say("l");
    talk.hears(": found");
    let ended = talk.end().expect(0);
    assert!(ended.stdout.contains("a waits for nobody any more: succeeded"), "{}", ended.stdout);
    assert!(ended.stdout.contains("LOOK-UP"), "{}", ended.stdout);
    assert_eq!(agent.get("a").at("/receipt/source"), "lookup");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn absence_is_offered_only_after_the_wait_and_allows_one_attempt() {
    let tool = ToolText::searched(TOOL)
        .with_reference()
        .http("linger = \"0s\"")
        .recovery("authoritative = false")
        .recovery("request_lifetime = \"4s\"")
        .recovery("lookup_for = \"1s\"");
    let world = world(tool);
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    agent.put("a", &order("flour", 0));
    agent.until("a", "held", |answer| answer.at("/held") == true);
    let mut talk = sitting(&world, &[]);
    says(&mut talk, &[("not before 20", "a"), ("one of s, x, r, n, l, v", "q")]);
    talk.end().expect(3);
    pass(Duration::from_millis(5_300));
    let mut talk = sitting(&world, &[]);
    says(
        &mut talk,
        &[
            ("can be established now", "a"),
            ("allow exactly one more attempt? [y/N]", "y"),
            ("how was that established", "asked the supplier"),
            ("record for a: confirmed_absent, one more attempt? [y/N]", "y"),
        ],
    );
    let ended = talk.end().expect(0);
    assert!(ended.stdout.contains("recorded: prepared"), "{}", ended.stdout);
    let done = agent.until_state("a", &["succeeded", "rejected"]);
    assert_eq!(
        (done.state(), done.outcomes()),
        ("succeeded".into(), vec!["unknown".into(), "succeeded".into()])
    );
    assert_eq!((world.effects(), world.writes()), (1, 2));
    world.verify();
}

#[test]
fn a_terminal_is_asked_and_a_pipe_gets_the_list() {
    let world = world(forgetful());
    let server = world.serve();
    let agent = world.agent(&server);
    world.run(&["review", "--account", "kitchen"]).expect(0);
    held(&world, &agent, "a", json!({ "sku": "flour" }));
    let list = world.run(&["review", "--account", "kitchen"]).expect(3);
    assert!(list.stdout.starts_with("ID") && !list.stdout.contains("a>"), "{list:?}");
    let all = world.run(&["review", "--all", "--json"]).expect(3).json();
    assert_eq!(all["items"][0]["account"], "kitchen");
    // Under a terminal of its own.
    let program = format!("{} review --account kitchen", env!("CARGO_BIN_EXE_counterfoil"));
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-q", "-e", "-c", &program, "/dev/null"]).current_dir(world.folder.path());
    let mut talk = Talk::begin(terminal);
    says(&mut talk, &[("Did the supplier receive this order?", "q")]);
    talk.hears("0 settled, 1 left");
    talk.end().expect(3);
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_role_that_may_not_decide_is_refused() {
    let world = world(forgetful());
    let server = world.serve();
    let agent = world.agent(&server);
    held(&world, &agent, "a", json!({ "sku": "flour" }));
    let url = format!("http://{}", server.address);
    let mut talk = Talk::begin(command(
        world.folder.path(),
        &["review", "--stdin", "--server", &url, "--token", &agent.token],
    ));
    talk.say("q");
    assert_eq!(talk.end().code, 1, "an agent does not read evidence");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}
