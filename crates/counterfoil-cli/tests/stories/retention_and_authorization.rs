//! Who may see what, and for how long an ID is refused: for ever.

use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::Flavour;

use crate::support::{Setup, ToolText, World, eventually, order, pass};

#[test]
fn c39_after_its_retention_an_id_answers_410_and_never_runs() {
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .table("retention = \"3s\"")
        .budget("elapsed = \"2s\"");
    let setup = Setup::new().tool(tool).server("retention_interval = \"1s\"");
    let world = World::new(Flavour::dedupe(), &setup);
    let server = world.serve();
    let agent = world.agent(&server);
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!(done.state(), "succeeded");
    assert!(done.at("/receipt_expires_at").is_string());
    eventually("the receipt has expired", || (agent.get("a").status == 410).then_some(()));
    // Before it is purged and after: the same answer, also for other arguments, which are not compared.
    let database = world.database();
    let mut purged = false;
    for _ in 0..40 {
        let changed =
            json!({ "tool": "supplier.create_order", "arguments": { "other": 1 }, "execute": true });
        for answer in [
            agent.put("a", &order("flour", 0)),
            agent.put("a", &changed),
            agent.execute("a", 0),
            agent.get("a"),
        ] {
            let answer = answer.refused(410, "receipt-expired");
            assert_eq!(answer.state(), "succeeded");
            assert!(!String::from_utf8_lossy(&answer.body).contains(&done.reference()));
        }
        if purged {
            break;
        }
        purged = crate::support::count(&database, "SELECT count(*) FROM counterfoil_tombstones") == 1;
        pass(Duration::from_millis(200));
    }
    assert!(purged, "the bodies are gone after the retention");
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn c40_the_end_of_the_retention_races_with_retries_of_two_processes_and_nothing_runs() {
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .table("retention = \"3s\"")
        .budget("elapsed = \"2s\"");
    let setup = Setup::new().tool(tool).server("retention_interval = \"1s\"");
    let world = World::new(Flavour::Forgetful, &setup);
    // Both purge, and both are asked.
    let (server, other) = (world.serve(), world.serve());
    let agent = world.agent(&server);
    let agents = [agent.clone(), agent.at(other.address)];
    let ids: Vec<String> = (0..12).map(|number| format!("a{number}")).collect();
    for id in &ids {
        agent.put(id, &order(id, 20_000)).expect(200);
    }
    std::thread::scope(|scope| {
        for id in &ids {
            let (world, agents) = (&world, &agents);
            scope.spawn(move || {
                let database = world.database();
                let query = format!("SELECT count(*) FROM counterfoil_tombstones WHERE id = '{id}'");
                eventually("the tombstone", || {
                    for agent in agents.iter().cycle().take(6) {
                        let status = agent.put(id, &order(id, 0)).status;
                        assert!([200, 410].contains(&status), "{status}");
                    }
                    (crate::support::count(&database, &query) == 1).then_some(())
                });
                for agent in agents {
                    agent.put(id, &order(id, 0)).refused(410, "receipt-expired");
                }
            });
        }
    });
    assert_eq!((world.effects(), world.writes()), (ids.len(), ids.len()));
    world.verify();
}

#[test]
fn a_crash_in_the_middle_of_a_purge_leaves_the_operation_or_its_tombstone() {
    let tool = ToolText::keyed("supplier.create_order")
        .with_reference()
        .table("retention = \"3s\"")
        .budget("elapsed = \"2s\"");
    let setup = Setup::new().tool(tool).server("retention_interval = \"1s\"");
    let world = World::new(Flavour::Forgetful, &setup);
    let mut server = world.serve_with(&[("COUNTERFOIL_FAILPOINT", "c13_between_body_and_tombstone:2:abort")]);
    let agent = world.agent(&server);
    for id in ["a", "b", "c"] {
        agent.put(id, &order(id, 20_000)).expect(200);
    }
    assert!(!server.wait_ended().success(), "the point was missed");
    let database = world.database();
    let kept = |id: &str| {
        ["counterfoil_operations", "counterfoil_tombstones"].map(|table| {
            crate::support::count(&database, &format!("SELECT count(*) FROM {table} WHERE id = '{id}'"))
        })
    };
    for id in ["a", "b", "c"] {
        assert!([[1, 0], [0, 1]].contains(&kept(id)), "{id}: {:?}", kept(id));
    }
    let server = world.serve();
    let agent = agent.at(server.address);
    for id in ["a", "b", "c"] {
        agent.put(id, &order(id, 0)).refused(410, "receipt-expired");
        eventually("the tombstone", || (kept(id) == [0, 1]).then_some(()));
        agent.put(id, &order(id, 0)).refused(410, "receipt-expired");
    }
    assert_eq!((world.effects(), world.writes()), (3, 3));
    world.verify();
}

#[test]
fn c41_a_token_that_lost_its_right_gets_no_receipt() {
    let setup = Setup::keyed().tool(ToolText::keyed("supplier.cancel_order").with_reference());
    let world = World::new(Flavour::dedupe(), &setup);
    let server = world.serve();
    let mut agent = world.agent(&server);
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!(done.state(), "succeeded");

    // The same principal with a token that no longer covers the tool.
    let narrow = world.token("kitchen", "app", &["agent"], &["--tools", "supplier.cancel_*"]);
    let all = std::mem::replace(&mut agent.token, narrow["token"].as_str().unwrap().to_owned());
    for answer in [agent.put("a", &order("flour", 0)), agent.execute("a", 0), agent.get("a")] {
        let answer = answer.refused(403, "forbidden");
        assert!(!String::from_utf8_lossy(&answer.body).contains(&done.reference()));
    }
    assert_eq!(agent.listed(), 0);

    // What is not there and what is somebody else's answer alike.
    let bakery = world.caller(&server, "bakery", "baker", &["agent"]);
    let (not_his, not_there) = (bakery.get("a"), bakery.get("b"));
    assert_eq!((not_his.status, not_there.status), (404, 404));
    let without_id = |answer: &crate::support::Answer, id: &str| {
        let mut body = answer.json();
        if let Value::Object(members) = &mut body {
            members.remove("operation_id");
        }
        body.to_string().replace(&format!("{id} "), "ID ").replace(&format!("\"{id}\""), "ID")
    };
    assert_eq!(without_id(&not_his, "a"), without_id(&not_there, "b"));

    // No token, a wrong one, one that never was.
    for token in ["", "cf_0000000000000000000000000000000000000000000", "not-a-token"] {
        agent.token = token.to_owned();
        agent.get("a").refused(401, "unauthenticated");
    }
    agent.token = all;
    assert_eq!(agent.get("a").expect(200).reference(), done.reference());
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_token_revoked_by_another_process_is_refused_within_a_second() {
    let world = World::keyed();
    let (server, second) = (world.serve(), world.serve());
    let made = world.token("kitchen", "app", &["agent"], &[]);
    let token = made["token"].as_str().unwrap().to_owned();
    let agent = crate::support::Api { address: server.address, token };
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!(agent.at(second.address).get("a").expect(200).reference(), done.reference());
    world.run(&["token", "revoke", made["id"].as_str().unwrap()]).expect(0);
    pass(Duration::from_secs(1));
    for caller in [agent.clone(), agent.at(second.address)] {
        for answer in
            [caller.put("a", &order("flour", 0)), caller.get("a"), caller.put("b", &order("sugar", 0))]
        {
            let answer = answer.refused(401, "unauthenticated");
            assert!(!String::from_utf8_lossy(&answer.body).contains(&done.reference()));
        }
    }
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn a_token_does_only_what_its_roles_say() {
    let world = World::keyed();
    let server = world.serve();
    let auditor = world.caller(&server, "kitchen", "books", &["auditor"]);
    let approver = world.approver(&server);
    let agent = world.agent(&server);
    for caller in [&auditor, &approver] {
        caller.put("a", &order("flour", 0)).refused(403, "forbidden");
        caller.execute("a", 0).refused(403, "forbidden");
    }
    agent.put("a", &order("flour", 20_000)).expect(200);
    agent.decide("a", "approve", &json!({ "fingerprint": "v1:00" })).refused(403, "forbidden");
    agent
        .call("POST", "/v1/tools/supplier.create_order/pause", &json!({ "note": "no" }))
        .refused(403, "forbidden");
    assert_eq!(auditor.get("a").expect(200).state(), "succeeded");
    assert_eq!(world.effects(), 1);
}
