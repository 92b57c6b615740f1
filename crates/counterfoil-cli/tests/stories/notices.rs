//! People are told of what needs them: at least once, under one name, in order, and of nothing that is in an operation.

use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour};

use crate::support::{
    Message, Receiver, SECRET, Server, Setup, ToolText, World, column, count, eventually, now, on_postgres,
    order, pass, relay,
};

const TOOL: &str = "supplier.create_order";

/// What nobody may read on the way to a listener.
const CANARY: &str = "canary-4711";

fn notify(lines: &str) -> String {
    format!("[[notify]]\n{lines}\n")
}

fn webhook(receiver: &Receiver) -> String {
    let url = receiver.url("/hook");
    notify(&format!("kind = \"webhook\"\nurl = \"{url}\"\nsecret = \"${{HOOK_SECRET}}\""))
}

/// A world whose supplier tells nothing afterwards: each lost reply is held.
fn world(listeners: &str) -> World {
    let tool = ToolText::forgetful(TOOL)
        .with_reference()
        .table("sensitive = [\"/sku\"]")
        .recovery("request_lifetime = \"1s\"")
        .recovery("queue_time = \"0s\"");
    World::new(Flavour::Forgetful, &Setup::new().tool(tool.further(listeners)))
}

fn serve(world: &World) -> Server {
    world.serve_with(&[("HOOK_SECRET", SECRET)])
}

fn settle(world: &World, server: &Server, id: &str) {
    let chef = world.approver(server);
    let verdict = json!({ "verdict": "succeeded", "reference": CANARY, "note": CANARY });
    assert_eq!(chef.decide(id, "resolve", &verdict).expect(200).state(), "succeeded");
}

#[test]
fn held_and_settled_are_told_in_order_and_of_nothing_else() {
    let receiver = Receiver::start();
    let world = world(&webhook(&receiver));
    let server = serve(&world);
    let agent = world.agent(&server);
    agent.put("plain", &order(CANARY, 20_000)).expect(200);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order(CANARY, 20_000)).expect(202);
    assert_eq!(agent.until_quiet("a").next(), "review");
    settle(&world, &server, "a");
    let said = receiver.wait(2);
    assert_eq!(said[0].about(), ("held".into(), "a".into()));
    assert_eq!(said[1].about(), ("settled".into(), "a".into()));
    let data = &said[0].json()["data"];
    assert_eq!(
        (&data["account"], &data["tool"], &data["state"]),
        (&json!("kitchen"), &json!(TOOL), &json!("unknown"))
    );
    assert_eq!((&data["next"]["action"], &data["link"]), (&json!("review"), &json!("/console/o/a")));
    assert_eq!(said[1].json()["data"]["state"], "succeeded");
    assert_ne!(said[0].id(), said[1].id());
    for message in &said {
        message.is_signed_with(SECRET);
        for text in [&message.head, &message.body] {
            assert!(!text.contains(CANARY) && !text.contains("whsec_"), "{text}");
        }
    }
    pass(Duration::from_secs(1));
    assert_eq!(receiver.messages().len(), 2, "what simply succeeds is told to nobody");
    assert_eq!((world.effects(), world.writes()), (2, 2));
    world.verify();
}

#[test]
fn a_notice_is_said_again_under_its_name_until_it_arrives() {
    let receiver = Receiver::start();
    let world = world(&webhook(&receiver));
    let server = serve(&world);
    let agent = world.agent(&server);
    // Trouble, a redirect that is not followed, and an answer that is lost.
    receiver.answer(&[500, 503, 302, 0]);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 20_000)).expect(202);
    let said = receiver.wait(5);
    assert!(said.iter().all(|message| message.id() == said[0].id()), "{said:?}");
    assert!(said.iter().all(|message| message.body == said[0].body), "{said:?}");
    pass(Duration::from_secs(1));
    assert_eq!(receiver.messages().len(), 5, "once it arrived it is not said again");
    let page = String::from_utf8(agent.call("GET", "/metrics", &Value::Null).body).unwrap();
    for line in ["delivered\"} 1", "failed\"} 4"] {
        let line = format!("counterfoil_notices_total{{kind=\"webhook\",outcome=\"{line}\n");
        assert!(page.contains(&line), "{line}: {page}");
    }
    // One that is refused as such does not hold up the next.
    receiver.answer(&[422]);
    settle(&world, &server, "a");
    assert_eq!(receiver.wait(6)[5].about(), ("settled".into(), "a".into()));
    let given_up = "SELECT count(*) FROM counterfoil_evidence WHERE kind = 'notice_given_up'";
    eventually("it is recorded", || (count(&world.database(), given_up) == 1).then_some(()));
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("b", &order("salt", 20_000)).expect(202);
    assert_eq!(receiver.wait(7)[6].about(), ("held".into(), "b".into()));
    world.verify();
}

#[test]
fn a_notice_outlives_the_death_of_its_server() {
    let receiver = Receiver::start();
    let world = world(&webhook(&receiver));
    let mut server = serve(&world);
    let agent = world.agent(&server);
    // The receiver has it and the server dies before it knows.
    receiver.answer(&[500, 0, 0]);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 20_000)).expect(202);
    receiver.wait(2);
    server.kill9();
    let before = receiver.messages();
    assert!(before.iter().all(|message| message.about() == ("held".into(), "a".into())));
    let (first, second) = (serve(&world), serve(&world));
    let told = |found: &[Message]| found.iter().any(|message| message.about().0 == "settled");
    settle(&world, &first, "a");
    let said = eventually("the end", || Some(receiver.messages()).filter(|all| told(all)));
    let held: Vec<String> =
        said.iter().filter(|message| message.about().0 == "held").map(|message| message.id()).collect();
    assert!(held.len() > before.len(), "it is said again after the death");
    assert!(held.iter().all(|id| *id == held[0]), "under one name: {held:?}");
    pass(Duration::from_secs(2));
    let settled = receiver.messages().iter().filter(|message| message.about().0 == "settled").count();
    assert_eq!(settled, 1, "two servers speak with one voice");
    drop((first, second));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn approvals_and_reminders_are_told() {
    let receiver = Receiver::start();
    let tool = ToolText::forgetful(TOOL).with_reference().table("approval = \"required\"");
    let world = World::new(Flavour::Forgetful, &Setup::new().tool(tool.further(&webhook(&receiver))));
    let server = serve(&world);
    let (agent, chef) = (world.agent(&server), world.approver(&server));
    agent.put("a", &order("flour", 0)).expect(202);
    assert_eq!(receiver.wait(1)[0].about(), ("approval_wanted".into(), "a".into()));
    assert_eq!(receiver.messages()[0].json()["data"]["next"]["action"], "approve");
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    chef.approve("a").expect(200);
    assert_eq!(receiver.wait(2)[1].about(), ("held".into(), "a".into()));
    let soon = counterfoil::Timestamp::from_millis(now().as_millis() + 500);
    let note = json!({ "text": "I call them", "remind_at": soon.to_string() });
    chef.decide("a", "notes", &note).expect(200);
    assert_eq!(receiver.wait(3)[2].about(), ("reminder".into(), "a".into()));
    pass(Duration::from_secs(1));
    assert_eq!(receiver.messages().len(), 3, "each is told once");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn slack_hears_what_is_inert() {
    let receiver = Receiver::start();
    let lines = "kind = \"slack\"\nurl = \"${SLACK_URL}\"\naccounts = [\"kitchen\"]\nconsole_url = \"https://c.example/\"";
    let world = world(&notify(lines));
    let url = receiver.url("/services/T/B/secret");
    let server = world.serve_with(&[("SLACK_URL", &url)]);
    let agent = world.agent(&server);
    let baker = world.caller(&server, "bakery", "oven", &["agent"]);
    for (caller, id) in [(&baker, "theirs"), (&agent, "%3C!channel%3E*now*")] {
        world.supplier.fault(Fault::ReplyDropped).unwrap();
        caller.put(id, &order(CANARY, 20_000)).expect(202);
    }
    let said = receiver.wait(1);
    let text = said[0].json()["text"].as_str().unwrap().to_owned();
    assert!(said[0].head.starts_with("POST /services/T/B/secret HTTP/1.1"), "{}", said[0].head);
    assert!(text.contains("Operation: &lt;!channel&gt;*now*\n"), "{text}");
    assert!(text.contains("Console: https://c.example/console/o/%3C"), "{text}");
    assert_eq!((said[0].json()["mrkdwn"].clone(), text.contains('<')), (json!(false), false));
    assert!(!said[0].body.contains(CANARY) && !said[0].body.contains("theirs"));
    pass(Duration::from_secs(1));
    assert_eq!(receiver.messages().len(), 1, "another account's are not told");
    assert!(!server.log().contains("secret"), "{}", server.log());
}

#[test]
fn a_mail_goes_through_the_relay() {
    let relay = relay(2);
    let lines = format!(
        "kind = \"email\"\nto = [\"chef@kitchen.example\", \"boss@kitchen.example\"]\nfrom = \"counterfoil@kitchen.example\"\n\
         smtp = \"smtp://{}\"\nusername = \"u\"\npassword = \"${{SMTP_PASSWORD}}\"",
        relay.address
    );
    let world = world(&notify(&lines));
    let server = world.serve_with(&[("SMTP_PASSWORD", "p")]);
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order(CANARY, 20_000)).expect(202);
    let mails = relay.wait(3);
    let (envelope, text) = (&mails[2].head, &mails[2].body);
    for line in [
        "EHLO kitchen.example",
        "AUTH PLAIN AHUAcA==",
        "MAIL FROM:<counterfoil@kitchen.example>",
        "RCPT TO:<chef@kitchen.example>",
        "RCPT TO:<boss@kitchen.example>",
    ] {
        assert!(envelope.contains(line), "{line}: {envelope}");
    }
    assert!(text.contains("\nSubject: [counterfoil] supplier.create_order: somebody must look"), "{text}");
    assert!(text.contains("\nOperation: a\nState: unknown\nNext: review ("), "{text}");
    assert!(!text.contains(CANARY), "{text}");
    let names: Vec<_> =
        mails.iter().map(|mail| mail.body.lines().find(|line| line.starts_with("Message-ID"))).collect();
    assert!(names[0].is_some() && names.iter().all(|name| *name == names[0]), "{names:?}");
    pass(Duration::from_secs(1));
    assert_eq!(relay.messages().len(), 3);
}

#[test]
fn addresses_that_may_not_be_reached_are_not() {
    let receiver = Receiver::start();
    // A name that leads to this machine is as good as a private address.
    let url = format!("https://localhost:{}/hook", receiver.address.port());
    let world = world(&notify("kind = \"webhook\"\nurl = \"${URL}\"\nsecret = \"${HOOK_SECRET}\""));
    let server = world.serve_with(&[("HOOK_SECRET", SECRET), ("URL", &url)]);
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 20_000)).expect(202);
    eventually("a delivery fails", || server.log().contains("a notice did not arrive").then_some(()));
    assert!(receiver.messages().is_empty());
    assert!(!server.log().contains("localhost"), "{}", server.log());
    let waiting = column(&world.database(), "SELECT occasion FROM counterfoil_notices");
    assert_eq!(waiting, ["held"], "it stays until it arrives or is given up");
}

#[test]
fn a_dead_listener_holds_up_nobody() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // It accepts and never answers.
    let dead = format!("http://{}/hook", socket.local_addr().unwrap());
    let section = notify(&format!("kind = \"webhook\"\nurl = \"{dead}\"\nsecret = \"${{HOOK_SECRET}}\""));
    let world = world(&section);
    let server = serve(&world);
    let agent = world.agent(&server);
    for number in 0..5 {
        world.supplier.fault(Fault::ReplyDropped).unwrap();
        let task = format!("run-{number}");
        let mut lost = order("flour", 0);
        lost["task"] = json!(task);
        agent.put(&format!("lost-{number}"), &lost).expect(202);
        agent.until_quiet(&format!("lost-{number}"));
        let mut plain = order("salt", 20_000);
        plain["task"] = json!(task);
        assert_eq!(agent.put(&format!("plain-{number}"), &plain).expect(200).state(), "succeeded");
    }
    // All of it came to its end while not one notice went out.
    let waiting = if on_postgres() {
        "SELECT count(*) FROM counterfoil_notices n, counterfoil_listeners l WHERE n.position > \
             coalesce((SELECT position FROM counterfoil_told t WHERE t.name = l.name AND t.account = n.account), 0)"
    } else {
        "SELECT count(*) FROM counterfoil_notices n, counterfoil_listeners l WHERE n.position > l.position"
    };
    assert_eq!(count(&world.database(), waiting), 5);
    assert_eq!((world.effects(), world.writes()), (10, 10));
    drop(socket);
}
