//! The destination speaks by itself: a webhook settles what is open, contradicts what is rejected, and is believed only
//! where signature, time, reference and record are ours.

use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Fault, Flavour};

use crate::support::{
    Answer, Api, Hook, SECRET_VARIABLES, Server, Setup, ToolText, World, column, count, on_postgres, order,
    pass, stripe_signature,
};

const TOOL: &str = "supplier.create_order";

const EVIDENCE: &str = "[tools.\"supplier.create_order\".evidence]\nscheme = \"standard\"\nsecret = \"${HOOK_SECRET}\"\n\
    reference = \"/data/client_reference\"\nsuccess = { pointer = \"/type\", equals = \"order.created\" }\n\
    receipt_reference = \"/data/id\"\nmust_match = [\"/quantity\"]\n";

/// A tool with a key that is tried once: after a lost reply only a person or the destination can tell.
fn tool() -> ToolText {
    ToolText::keyed(TOOL).with_reference().budget("attempts = 1").further(EVIDENCE)
}

fn world() -> World {
    World::new(Flavour::dedupe(), &Setup::new().tool(tool()))
}

fn serve(world: &World) -> Server {
    world.serve_with(&SECRET_VARIABLES)
}

/// An operation whose reply was lost, and the key that it was sent under.
fn lost(world: &World, agent: &Api, id: &str) -> String {
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put(id, &order("flour", 20_000)).expect(202);
    let held = agent.until_quiet(id);
    assert_eq!((held.state(), held.next()), ("unknown".into(), "review".into()));
    held.text("/attempts/0/key")
}

fn created(reference: &str, number: &str) -> String {
    let data = json!({ "client_reference": reference, "id": number, "quantity": 10, "account": "bakery" });
    json!({ "type": "order.created", "account": "bakery", "data": data }).to_string()
}

fn flagged(answer: &Answer) -> bool {
    answer.at("/duplicate_suspected") == true
}

#[test]
fn a_webhook_settles_an_unknown_without_a_look_up() {
    let world = world();
    let mut server = serve(&world);
    let agent = world.agent(&server);
    let key = lost(&world, &agent, "a");
    let number = world.supplier.effects().unwrap()[0].order.clone();
    let listener = {
        let agent = agent.clone();
        std::thread::spawn(move || agent.call("GET", "/v1/operations/a?wait_ms=30000", &Value::Null))
    };
    let hook = Hook::new("msg_1", created(&key, &number));
    let answer = hook.send(&agent, TOOL).expect(202);
    assert_eq!(answer.json(), json!({ "status": "accepted" }));
    listener.join().unwrap().expect(200);
    let done = agent.get("a").expect(200);
    assert_eq!((done.state(), done.reference(), done.next()), ("succeeded".into(), number, "none".into()));
    assert_eq!(done.at("/receipt/source"), "evidence");
    assert_eq!(done.at("/receipt/result/body/data/quantity"), 10);

    // The same event again: here, from another server on the ledger, and after a death.
    let version = done.at("/version");
    hook.send(&agent, TOOL).expect(202);
    let second = serve(&world);
    hook.send(&agent.at(second.address), TOOL).expect(202);
    server.kill9();
    let server = serve(&world);
    let agent = agent.at(server.address);
    hook.send(&agent, TOOL).expect(202);
    let again = agent.execute("a", 20_000).expect(200);
    assert_eq!((again.at("/version"), again.at("/receipt")), (version, done.at("/receipt")));
    assert_eq!((world.effects(), world.writes()), (1, 1));
    assert_eq!(world.supplier.requests().len(), 1, "nobody looked it up");
    world.verify();
}

#[test]
fn a_webhook_that_nobody_signed_is_not_read() {
    let world = world();
    let server = serve(&world);
    let agent = world.agent(&server);
    let key = lost(&world, &agent, "a");
    let good = Hook::new("msg_1", created(&key, "po_1"));
    let before = agent.get("a").at("/version");
    let refused = |answer: Answer| answer.refused(401, "bad-signature");

    let other = Hook { secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(), ..good.clone() };
    refused(other.send(&agent, TOOL));
    for age in [301, 86_400, -302] {
        refused(Hook { age, ..good.clone() }.send(&agent, TOOL));
    }
    let path = format!("/v1/evidence/{TOOL}");
    let send = |headers: &[(String, String)], body: &str| {
        refused(agent.try_call_with("POST", &path, headers, body.as_bytes()).unwrap())
    };
    send(&good.headers(), &good.body.replace("po_1", "po_2"));
    send(&good.headers(), &format!("{} ", good.body));
    send(&[], &good.body);
    let mut twice = good.headers();
    twice.push(twice[2].clone());
    send(&twice, &good.body);
    let renamed =
        [("webhook-id".to_owned(), "msg_2".to_owned()), good.headers()[1].clone(), good.headers()[2].clone()];
    send(&renamed, &good.body);
    // A token proves nothing here.
    agent.try_call("POST", &path, good.body.as_bytes()).unwrap().refused(401, "bad-signature");
    good.send(&agent, "supplier.other").refused(404, "unknown-tool");
    let large = Hook::new("msg_3", " ".repeat(256 * 1024 + 1));
    large.send(&agent, TOOL).refused(413, "too-large");

    let after = agent.get("a");
    assert_eq!((after.state(), after.at("/version")), ("unknown".into(), before));
    good.send(&agent, TOOL).expect(202);
    assert_eq!(agent.get("a").state(), "succeeded");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    assert!(!server.log().contains("whsec_"), "{}", server.log());
}

#[test]
fn a_webhook_is_about_the_operation_that_its_reference_was_sent_for() {
    let world = world();
    let server = serve(&world);
    let agent = world.agent(&server);
    let baker = world.caller(&server, "bakery", "oven", &["agent"]);
    let ours = lost(&world, &agent, "a");
    let theirs = lost(&world, &baker, "a");
    assert_ne!(ours, theirs);
    // The body names another account; what counts is what was sent.
    Hook::new("msg_1", created(&ours, "po_1")).send(&agent, TOOL).expect(202);
    assert_eq!((agent.get("a").state(), baker.get("a").state()), ("succeeded".into(), "unknown".into()));
    let rows = count(&world.database(), "SELECT count(*) FROM counterfoil_evidence");
    let unknown = "0".repeat(32);
    for (number, reference) in [unknown.as_str(), "a", "", "%", "' OR 1=1 --"].iter().enumerate() {
        let answer = Hook::new(&format!("msg_x{number}"), created(reference, "po_9")).send(&agent, TOOL);
        assert_eq!(answer.expect(202).json(), json!({ "status": "accepted" }), "{reference}");
    }
    Hook::new("msg_y", "not JSON".to_owned()).send(&agent, TOOL).expect(202);
    assert_eq!(count(&world.database(), "SELECT count(*) FROM counterfoil_evidence"), rows);
    assert_eq!((agent.get("a").state(), baker.get("a").state()), ("succeeded".into(), "unknown".into()));
    let figures = agent.call("GET", "/metrics", &Value::Null).body;
    let figures = String::from_utf8(figures).unwrap();
    for line in ["answer=\"proof\"} 1", "answer=\"unmatched\"} 4", "answer=\"unreadable\"} 2"] {
        assert!(figures.contains(&format!("counterfoil_webhooks_total{{{line}\n")), "{line}: {figures}");
    }
    assert_eq!((world.effects(), world.writes()), (2, 2));
}

#[test]
fn what_differs_or_says_something_else_is_kept_and_moves_nothing() {
    let world = world();
    let server = serve(&world);
    let agent = world.agent(&server);
    let key = lost(&world, &agent, "a");
    let good = created(&key, "po_1");
    for (number, body) in [
        good.replace("order.created", "order.failed"),
        good.replace("\"quantity\":10", "\"quantity\":11"),
        good.replace("\"quantity\":10", "\"quantity\":\"10\""),
        good.replace(",\"quantity\":10", ""),
        good.replace("\"po_1\"", "null"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_ne!(body, good);
        Hook::new(&format!("msg_{number}"), body).send(&agent, TOOL).expect(202);
        let after = agent.get("a");
        assert_eq!((after.state(), after.at("/held")), ("unknown".into(), json!(true)), "{number}");
    }
    let answers = column(
        &world.database(),
        if on_postgres() {
            "SELECT data::json ->> 'answer' FROM counterfoil_evidence WHERE kind = 'webhook' ORDER BY position"
        } else {
            "SELECT json_extract(data, '$.answer') FROM counterfoil_evidence WHERE kind = 'webhook' ORDER BY position"
        },
    );
    assert_eq!(answers, ["other", "differs", "differs", "differs", "incomplete"]);
    // Equal is what is the same number, however it is written.
    let spelled = good.replace("\"quantity\":10", "\"quantity\":1.0e1");
    Hook::new("msg_good", spelled).send(&agent, TOOL).expect(202);
    assert_eq!(agent.get("a").state(), "succeeded");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn c60_proof_against_a_rejection_is_settled_by_a_person() {
    let tool = tool().recovery("request_lifetime = \"1s\"").recovery("skew = \"0s\"");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool));
    let server = serve(&world);
    let (agent, chef) = (world.agent(&server), world.approver(&server));
    let key = lost(&world, &agent, "a");
    let absent = json!({ "verdict": "confirmed_absent", "note": "the portal shows nothing" });
    let mut rejected = chef.decide("a", "resolve", &absent);
    while rejected.status == 409 {
        pass(Duration::from_millis(200));
        rejected = chef.decide("a", "resolve", &absent);
    }
    let rejected = rejected.expect(200);
    assert_eq!(
        (rejected.state(), rejected.text("/rejection/code")),
        ("rejected".into(), "confirmed_absent".into())
    );

    Hook::new("msg_1", created(&key, "po_000001")).send(&agent, TOOL).expect(202);
    let against = agent.get("a");
    assert_eq!(
        (against.state(), against.next(), flagged(&against)),
        ("rejected".into(), "review".into(), true)
    );
    assert_eq!(against.at("/receipt_expires_at"), Value::Null);
    // The same action under another ID waits for whoever looks.
    agent.put("b", &order("flour", 0)).refused(409, "action-unresolved");

    let named =
        |reference: &str| json!({ "verdict": "succeeded", "reference": reference, "note": "it is there" });
    agent.decide("a", "resolve", &named("po_000001")).refused(403, "forbidden");
    chef.decide("a", "resolve", &named("po_2")).refused(409, "wrong-state");
    let done = chef.decide("a", "resolve", &named("po_000001")).expect(200);
    assert_eq!((done.state(), done.next(), flagged(&done)), ("succeeded".into(), "none".into(), false));
    assert_eq!((done.reference(), done.at("/receipt/source")), ("po_000001".into(), json!("evidence")));
    assert_eq!(agent.execute("a", 0).expect(200).reference(), "po_000001");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn a_death_before_the_commit_is_said_again() {
    let world = world();
    let mut server = serve(&world);
    let agent = world.agent(&server);
    let key = lost(&world, &agent, "a");
    server.kill9();
    let mut dying =
        world.serve_with(&[SECRET_VARIABLES[0], ("COUNTERFOIL_FAILPOINT", "before_commit:1:abort")]);
    let hook = Hook::new("msg_1", created(&key, "po_1"));
    assert!(hook.try_send(&agent.at(dying.address), TOOL).is_err(), "nobody is answered before the commit");
    dying.wait_ended();
    let server = serve(&world);
    let agent = agent.at(server.address);
    assert_eq!(agent.get("a").state(), "unknown");
    for _ in 0..2 {
        hook.send(&agent, TOOL).expect(202);
    }
    assert_eq!(agent.get("a").state(), "succeeded");
    let heard = "SELECT count(*) FROM counterfoil_evidence WHERE kind = 'webhook'";
    assert_eq!(count(&world.database(), heard), 1);
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn an_event_in_the_manner_of_stripe() {
    let evidence = EVIDENCE.replace("\"standard\"", "\"stripe\"");
    let tool = ToolText::keyed(TOOL).with_reference().budget("attempts = 1").further(&evidence);
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool));
    let server = serve(&world);
    let agent = world.agent(&server);
    let key = lost(&world, &agent, "a");
    let body = created(&key, "po_1").replacen('{', "{\"id\":\"evt_1\",", 1);
    let send = |secret: &str| {
        let header = [("Stripe-Signature".to_owned(), stripe_signature(secret, &body))];
        agent.try_call_with("POST", &format!("/v1/evidence/{TOOL}"), &header, body.as_bytes()).unwrap()
    };
    send("whsec_other").refused(401, "bad-signature");
    assert_eq!(agent.get("a").state(), "unknown");
    let secret = SECRET_VARIABLES[0].1;
    send(secret).expect(202);
    let done = agent.get("a");
    assert_eq!((done.state(), done.reference()), ("succeeded".into(), "po_1".into()));
    send(secret).expect(202);
    assert_eq!(agent.get("a").at("/version"), done.at("/version"));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn without_its_secret_a_server_believes_nothing() {
    let world = world();
    let server = world.serve();
    let agent = world.agent(&server);
    let key = lost(&world, &agent, "a");
    let hook = Hook::new("msg_1", created(&key, "po_1"));
    let answer = hook.send(&agent, TOOL).refused(500, "internal-error");
    assert_eq!(answer.text("/sent"), "no");
    assert_eq!(agent.get("a").state(), "unknown");
}
