//! The reply is lost and the supplier can be asked: a hit settles, a miss only where it proves something.

use std::time::Duration;

use serde_json::json;
use sim::supplier::{Fault, Flavour, Later, SupplierOptions, Target};
use sim::wire::Reply;

use crate::support::{Answer, Setup, ToolText, World, order, pass, signal};

const TOOL: &str = "supplier.create_order";

fn searched() -> ToolText {
    ToolText::searched(TOOL).with_reference()
}

fn world(tool: ToolText) -> World {
    World::new(Flavour::Forgetful, &Setup::new().tool(tool))
}

fn look_ups(world: &World) -> usize {
    world.supplier.requests().iter().filter(|request| request.is_lookup()).count()
}

fn reason(answer: &Answer) -> String {
    answer.text("/next/reason")
}

/// Every look-up is answered so until the faults are cleared.
fn always(world: &World, fault: &Fault) {
    for _ in 0..200 {
        world.supplier.fault_on(Target::Lookups, fault.clone()).unwrap();
    }
}

#[test]
fn c01_a_look_up_finds_the_one_effect() {
    let world = world(searched());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();

    let first = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!((first.state(), first.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
    let again = agent.execute("a", 20_000).expect(200);
    assert_eq!(again.at("/receipt"), first.at("/receipt"));
    assert_eq!(first.reference(), world.supplier.effects().unwrap()[0].order);
    assert_eq!((world.effects(), world.writes()), (1, 1));
    let question = world.supplier.requests().into_iter().find(|request| request.is_lookup()).unwrap();
    let sent: serde_json::Value = serde_json::from_slice(&world.supplier.effects().unwrap()[0].body).unwrap();
    let reference = sent["client_reference"].as_str().unwrap();
    assert_eq!(question.target, format!("/orders?client_reference={reference}"));
    world.verify();
}

#[test]
fn a_lost_request_is_sent_again_once_the_miss_counts() {
    let world = world(searched());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    let began = std::time::Instant::now();
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!(done.outcomes(), ["unknown", "succeeded"]);
    // Half the lease until the first byte, and the declared second.
    assert!(began.elapsed() > Duration::from_secs(2), "an early miss was believed");
    assert!(look_ups(&world) >= 2, "it asked before the wait was over, too");
    assert_eq!((world.effects(), world.writes()), (1, 2));
    world.verify();
}

#[test]
fn what_waits_in_a_queue_is_waited_for() {
    let world = world(searched().recovery("queue_time = \"3s\""));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::Accepted202(Later::After(Duration::from_millis(3_200)))).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    let done = agent.until_state("a", &["succeeded", "rejected"]);
    assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c04_after_the_retention_it_is_looked_up_and_not_sent() {
    let tool = ToolText::keyed(TOOL)
        .with_reference()
        .http("timeout = \"20s\"")
        .recovery("retention = \"4s\"")
        .recovery("request_lifetime = \"1s\"")
        .recovery("skew = \"0s\"")
        .budget("elapsed = \"4s\"")
        .recovery("lookup = { url = \"{supplier}/orders/{/number}\", found = \"/id\" }");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(tool));
    let mut server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::Hang).unwrap();
    let mut first = order("flour", 0);
    // The first order of this supplier gets this number.
    first["arguments"]["number"] = json!("po_000001");
    agent.put("a", &first).expect(202);
    world.wait_effects(1);
    let number = world.supplier.effects().unwrap()[0].order.clone();
    server.kill9();
    pass(Duration::from_secs(4));
    world.supplier.forget_keys().unwrap();
    let server = world.serve();
    let agent = agent.at(server.address);
    assert_eq!(number, "po_000001");
    let done = agent.until_state("a", &["succeeded"]);
    assert_eq!((done.at("/receipt/source"), done.reference()), (json!("lookup"), number));
    assert_eq!((world.effects(), world.writes()), (1, 1), "a key that was forgotten protects nothing");
}

#[test]
fn c08_half_a_body_is_settled_by_a_look_up() {
    let tool = searched().search("/orders/0/order/client_reference").recovery("must_match = [\"/quantity\"]");
    let world = world(tool);
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::TruncatedBody).unwrap();
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
    assert_eq!(done.at("/attempts/0/status"), 201);
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

fn unique() -> ToolText {
    let conflict = format!(
        "[[tools.\"{TOOL}\".outcomes]]\nstatus = 409\nbody = {{ pointer = \"/error/code\", equals = \"already_exists\" }}\n\
         means = \"duplicate_of_ours\"\n"
    );
    ToolText::searched(TOOL)
        .with_reference()
        .recovery("kind = \"unique_reference\"")
        .without_recovery("authoritative")
        .further(&conflict)
}

#[test]
fn a_conflict_over_our_reference_is_looked_up() {
    let world = World::new(Flavour::UniqueReference, &Setup::new().tool(unique()));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
    assert_eq!(done.outcomes(), ["unknown", "unknown"]);
    assert_eq!(done.reference(), world.supplier.effects().unwrap()[0].order);
    assert_eq!((world.effects(), world.writes()), (1, 2));
}

#[test]
fn a_miss_after_a_conflict_is_looked_up_again_and_never_sent() {
    let options = SupplierOptions {
        search_lag: Duration::from_secs(3600),
        ..SupplierOptions::new(Flavour::UniqueReference)
    };
    let world = World::with_supplier(options, &Setup::new().tool(unique()));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    pass(Duration::from_millis(3_500));
    assert!(look_ups(&world) >= 2);
    assert_eq!((agent.get("a").state(), world.effects(), world.writes()), ("unknown".into(), 1, 2));
    world.supplier.advance(Duration::from_secs(4000));
    assert_eq!(agent.until_state("a", &["succeeded"]).at("/receipt/source"), "lookup");
    assert_eq!((world.effects(), world.writes()), (1, 2));
}

#[test]
fn a_miss_of_a_search_that_may_lag_is_held() {
    let options =
        SupplierOptions { search_lag: Duration::from_secs(3600), ..SupplierOptions::new(Flavour::Forgetful) };
    let tool = searched().recovery("authoritative = false");
    let world = World::with_supplier(options, &Setup::new().tool(tool));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    let held = agent.until("a", "held", |answer| answer.at("/held") == true && reason(answer) == "not-found");
    assert_eq!((held.state(), held.next()), ("unknown".into(), "review".into()));
    pass(Duration::from_millis(2_500));
    assert_eq!((world.effects(), world.writes()), (1, 1), "it was there all the time");
    world.supplier.advance(Duration::from_secs(4000));
    assert_eq!(agent.until_state("a", &["succeeded"]).at("/receipt/source"), "lookup");
}

#[test]
fn without_a_lifetime_no_miss_counts() {
    let world = world(searched().without_recovery("request_lifetime"));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::RequestLost).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    agent.until("a", "held", |answer| answer.at("/held") == true && reason(answer) == "not-found");
    pass(Duration::from_millis(2_500));
    assert_eq!((world.effects(), world.writes()), (0, 1));
}

#[test]
fn two_records_are_no_receipt() {
    let world = world(searched());
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    let two = Reply::json(200, &json!({ "orders": [{ "id": "po_1" }, { "id": "po_2" }] }));
    always(&world, &Fault::Custom { reply: two, effect: false });
    agent.put("a", &order("flour", 0)).expect(202);
    let held = agent.until_quiet("a");
    assert_eq!((held.state(), reason(&held)), ("unknown".into(), "duplicate-suspected".into()));
    assert_eq!(held.at("/duplicate_suspected"), true);
    assert!(held.at("/receipt").is_null());
    pass(Duration::from_millis(2_500));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_record_with_other_values_is_not_ours() {
    // The supplier's own document has no `sku` beside its `id`.
    let world = world(searched().recovery("must_match = [\"/sku\"]"));
    let server = world.serve();
    let agent = world.agent(&server);
    world.supplier.fault(Fault::ReplyDropped).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    let held = agent.until_quiet("a");
    assert_eq!((held.state(), reason(&held)), ("unknown".into(), "found-differs".into()));
    assert!(held.at("/receipt").is_null());
    pass(Duration::from_millis(2_500));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn an_error_page_is_no_miss() {
    let page = Reply::json(200, &json!({ "maintenance": true }));
    let refused = Reply::json(404, &json!({ "orders": [] }));
    let replies = [page, refused].map(|reply| Fault::Custom { reply, effect: false });
    for fault in replies.into_iter().chain([Fault::Status(500), Fault::RequestLost]) {
        let world = world(searched().without_recovery("queue_time"));
        let server = world.serve();
        let agent = world.agent(&server);
        world.supplier.fault(Fault::RequestLost).unwrap();
        always(&world, &fault);
        agent.put("a", &order("flour", 0)).expect(202);
        pass(Duration::from_millis(3_000));
        assert!(look_ups(&world) >= 2, "{fault:?}");
        assert_eq!((agent.get("a").state(), world.writes()), ("unknown".into(), 1), "{fault:?}");
        // Once it says so itself, the order is not there.
        world.supplier.clear_faults();
        assert_eq!(agent.until_state("a", &["succeeded"]).outcomes(), ["unknown", "succeeded"]);
        assert_eq!((world.effects(), world.writes()), (1, 2), "{fault:?}");
    }
}

/// The reply is lost, the server dies, and another one goes on with `token` and `later`.
fn goes_on_with(world: &World, token: &str, later: &ToolText) -> Answer {
    let mut server = world.serve_with(&[("SUPPLIER_TOKEN", "first")]);
    let agent = world.agent(&server);
    world.supplier.fault(Fault::Hang).unwrap();
    agent.put("a", &order("flour", 0)).expect(202);
    world.wait_effects(1);
    server.kill9();
    world.configure(&Setup::new().tool(later.clone()));
    let server = world.serve_with(&[("SUPPLIER_TOKEN", token)]);
    let agent = agent.at(server.address);
    let settled = agent.until_quiet("a");
    pass(Duration::from_millis(2_500));
    signal(server.id(), "TERM");
    settled
}

#[test]
fn c58_under_another_vendor_account_nothing_is_asked() {
    let with = searched().http("headers = { Authorization = \"Bearer ${SUPPLIER_TOKEN}\" }");
    let world = world(with.clone());
    let held = goes_on_with(&world, "second", &with);
    assert_eq!((held.state(), reason(&held)), ("unknown".into(), "scope-changed".into()));
    assert_eq!((world.effects(), world.writes(), look_ups(&world)), (1, 1, 0));
}

#[test]
fn c58_another_declared_scope_is_another_vendor_account() {
    let with = searched().http("headers = { Authorization = \"Bearer ${SUPPLIER_TOKEN}\" }");
    let world = world(with.clone().http("scope = \"seventeen\""));
    let held = goes_on_with(&world, "second", &with.http("scope = \"eighteen\""));
    assert_eq!((held.state(), reason(&held)), ("unknown".into(), "scope-changed".into()));
    assert_eq!((world.effects(), world.writes(), look_ups(&world)), (1, 1, 0));
}

#[test]
fn c58_a_rotated_secret_of_one_scope_changes_nothing() {
    let with = searched().http("headers = { Authorization = \"Bearer ${SUPPLIER_TOKEN}\" }");
    let with = with.http("scope = \"seventeen\"");
    let world = world(with.clone());
    let done = goes_on_with(&world, "second", &with);
    assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("lookup")));
    let asked = world.supplier.requests().into_iter().find(|request| request.is_lookup()).unwrap();
    assert_eq!(asked.header("authorization"), Some("Bearer second"));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c58_a_key_is_not_sent_again_under_another_declared_scope() {
    let with = ToolText::keyed(TOOL).http("headers = { Authorization = \"Bearer ${SUPPLIER_TOKEN}\" }");
    let world = World::new(Flavour::dedupe(), &Setup::new().tool(with.clone().http("scope = \"seventeen\"")));
    let held = goes_on_with(&world, "second", &with.http("scope = \"eighteen\""));
    assert_eq!((held.state(), reason(&held)), ("unknown".into(), "scope-changed".into()));
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

/// The process dies while it asks, and again after it was told: the next one asks anew.
#[test]
fn a_death_during_a_look_up_changes_nothing() {
    for (point, effect) in [
        ("c10_look_up_begun", true),
        ("c10_look_up_begun", false),
        ("c11_look_up_answered", true),
        ("c11_look_up_answered", false),
    ] {
        let world = world(searched());
        let fault = if effect { Fault::ReplyDropped } else { Fault::RequestLost };
        world.supplier.fault(fault).unwrap();
        // The second time is in the recovery of the first.
        let mut server = world.serve_with(&[("COUNTERFOIL_FAILPOINT", &format!("{point}:1:abort"))]);
        let mut agent = world.agent(&server);
        agent.try_put("a", &order("flour", 20_000)).unwrap_err();
        assert!(!server.wait_ended().success(), "{point} was missed");
        let mut server = world.serve_with(&[("COUNTERFOIL_FAILPOINT", &format!("{point}:1:abort"))]);
        agent = agent.at(server.address);
        assert!(!server.wait_ended().success(), "{point} was missed");
        assert_eq!(
            world.writes(),
            1,
            "{point}: nothing was sent on the word of a look-up that nobody recorded"
        );
        let server = world.serve();
        agent = agent.at(server.address);
        let done = agent.until_state("a", &["succeeded", "rejected"]);
        assert_eq!(done.state(), "succeeded", "{point}");
        assert_eq!(done.reference(), world.supplier.effects().unwrap()[0].order);
        assert_eq!((world.effects(), world.writes()), (1, if effect { 1 } else { 2 }), "{point}");
        world.verify();
    }
}
