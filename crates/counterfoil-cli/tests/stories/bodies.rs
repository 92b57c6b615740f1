//! Answers of every size and kind: one effect, one receipt, nothing lost and nothing repeated.

use serde_json::json;
use sim::supplier::{Fault, Flavour};
use sim::wire::Reply;

use crate::support::{Setup, ToolText, World, order};

/// A tool that declares no reference, so that an empty answer is a receipt.
fn world() -> World {
    let tool = ToolText::forgetful("supplier.create_order").http("timeout = \"30s\"");
    World::new(Flavour::Forgetful, &Setup::new().tool(tool))
}

#[test]
fn c43_bodies_of_every_size_make_one_receipt() {
    const LIMIT: u64 = 1024 * 1024;
    let null = Reply {
        status: 200,
        headers: vec![("Content-Type".into(), "application/json".into())],
        body: b"null".to_vec(),
    };
    let faults = [
        ("empty", Fault::EmptyBody, false),
        ("no-content", Fault::NoContent204, false),
        ("null", Fault::Custom { reply: null, effect: true }, false),
        ("at-the-limit", Fault::HugeBody(LIMIT), false),
        ("over-the-limit", Fault::HugeBody(LIMIT + 1), true),
        ("huge", Fault::HugeBody(64 * LIMIT), true),
    ];
    let world = world();
    let server = world.serve();
    let agent = world.agent(&server);
    for (name, fault, truncated) in faults {
        world.supplier.fault(fault).unwrap();
        let done = agent.put(name, &order(name, 40_000));
        assert_eq!(done.state(), "succeeded", "{name}: {}", done.json());
        assert_eq!(done.at("/receipt/truncated"), truncated, "{name}");
        assert_eq!(done.at("/receipt/source"), "response");
        let again = agent.execute(name, 1_000).expect(200);
        assert_eq!(
            (again.at("/receipt"), again.at("/replayed")),
            (done.at("/receipt"), json!(true)),
            "{name}"
        );
        assert_eq!(world.effects_with(name).len(), 1, "{name}");
        if truncated {
            let kept = done.at("/receipt/result").to_string();
            assert!(kept.contains("sha256:"), "{name}: a digest stands for what is not kept: {kept}");
            assert!(kept.len() < 4_096, "{name}: {} bytes", kept.len());
        }
    }
    assert_eq!(world.writes(), 6);
    world.verify();
}

#[test]
fn c43_an_answer_without_the_declared_reference_is_no_receipt() {
    for fault in [Fault::EmptyBody, Fault::NoContent204] {
        let world = World::forgetful();
        let server = world.serve();
        let agent = world.agent(&server);
        world.supplier.fault(fault).unwrap();
        agent.put("a", &order("flour", 20_000)).expect(202);
        let held = agent.until_quiet("a");
        assert_eq!(held.state(), "unknown");
        assert!(held.at("/receipt").is_null());
        assert_eq!((world.effects(), world.writes()), (1, 1));
    }
}

#[test]
fn c44_cookies_are_never_kept() {
    let world = world();
    let server = world.serve();
    let agent = world.agent(&server);
    let reply = Reply::json(201, &json!({ "id": "po_1" }))
        .with("Set-Cookie", "session=s3cr3t-of-the-supplier; HttpOnly")
        .with("Location", "/orders/po_1");
    world.supplier.fault(Fault::Custom { reply, effect: true }).unwrap();
    let done = agent.put("a", &order("flour", 20_000)).expect(200);
    assert_eq!(done.at("/receipt/result/body"), json!({ "id": "po_1" }));
    assert!(!String::from_utf8_lossy(&done.body).contains("s3cr3t"));
    for entry in std::fs::read_dir(world.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(6).any(|window| window == b"s3cr3t");
        assert!(!found, "kept in {}", path.display());
    }
    assert_eq!(world.effects(), 1);
}

#[test]
fn c44_every_byte_may_come_back() {
    let world = world();
    let server = world.serve();
    let agent = world.agent(&server);
    let reply = Reply {
        status: 200,
        headers: vec![("Content-Type".into(), "application/octet-stream".into())],
        body: (0..=255).collect(),
    };
    world.supplier.fault(Fault::Custom { reply, effect: true }).unwrap();
    let answer = agent.put("a", &order("flour", 20_000));
    let settled = agent.until_quiet("a");
    assert!(["succeeded", "unknown"].contains(&settled.state().as_str()), "{}", answer.json());
    let again = agent.execute("a", 0);
    assert_eq!(again.at("/receipt"), settled.at("/receipt"));
    assert_eq!((world.effects(), world.writes()), (1, 1), "never executed again");
}
