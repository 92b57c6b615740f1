//! What a person says, over HTTP, and what they are told.

use serde_json::{Value, json};
use sim::supplier::Fault;

use super::support::{House, refused};

const PATH: &str = "/v1/operations/mail-1";

/// An operation that nobody can tell anything of.
async fn held(house: &House) -> String {
    let agent = house.token("kitchen", "planner", &["agent"]).await;
    house.supplier.fault(Fault::ReplyDropped).unwrap();
    let body = json!({ "tool": "mail.send", "arguments": { "to": "x" }, "execute": true });
    let reply = house.call(&agent, "PUT", PATH, &body).await;
    assert_eq!((reply.status, &reply.value()["state"]), (202, &json!("unknown")));
    agent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_are_told_apart_and_the_first_one_wins() {
    let house = House::build().await;
    let agent = held(&house).await;
    let ann = house.token("kitchen", "ann", &["approver"]).await;
    let resolve = format!("{PATH}/resolve");
    let abandoned = json!({ "verdict": "abandoned", "note": "nobody knows" });
    let call = async |token: &str, body: &Value| house.call(token, "POST", &resolve, body).await;
    assert_eq!(refused(&call(&agent, &abandoned).await), (403, "forbidden".to_owned()));
    for body in [
        json!({ "verdict": "abandoned" }),
        json!({ "verdict": "abandoned", "note": " " }),
        json!({ "verdict": "maybe", "note": "n" }),
        json!({ "verdict": "succeeded", "note": "n" }),
        json!({ "verdict": "abandoned", "note": "n", "reference": "po_1" }),
        json!({ "verdict": "abandoned", "note": "n", "allow_another_attempt": true }),
        json!({ "verdict": "abandoned", "note": "n", "state": "rejected" }),
    ] {
        assert_eq!(refused(&call(&ann, &body).await), (400, "invalid-request".to_owned()), "{body}");
    }
    let absent = json!({ "verdict": "confirmed_absent", "note": "not there" });
    assert_eq!(refused(&call(&ann, &absent).await), (409, "too-early".to_owned()));
    let stale = json!({ "verdict": "abandoned", "note": "n", "if_version": 1 });
    assert_eq!(refused(&call(&ann, &stale).await), (409, "changed-meanwhile".to_owned()));
    let early = house.call(&ann, "POST", &format!("{PATH}/notes"), &json!({ "text": "called" })).await;
    assert_eq!((early.status, &early.value()["state"]), (200, &json!("unknown")));
    for _ in 0..2 {
        let reply = call(&ann, &abandoned).await;
        let value = reply.value();
        assert_eq!((reply.status, &value["next"]["action"]), (200, &json!("none")));
        assert_eq!(
            (&value["closed"]["by"], &value["closed"]["risk_accepted"]),
            (&json!("ann"), &json!(true))
        );
    }
    let bob = house.token("kitchen", "bob", &["approver"]).await;
    assert_eq!(refused(&call(&bob, &abandoned).await), (409, "wrong-state".to_owned()));
    let release = format!("{PATH}/release");
    let reply = house.call(&ann, "POST", &release, &json!({ "note": "go on" })).await;
    assert_eq!(reply.status, 200);
    assert!(reply.value()["receipt_expires_at"].is_string());
    assert_eq!(house.supplier.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declaration_is_shown_by_its_version() {
    let house = House::build().await;
    let agent = house.token("kitchen", "planner", &["agent"]).await;
    let now = house.get(&agent, "/v1/tools/mail.send").await.value();
    let first = house.get(&agent, "/v1/tools/mail.send?policy_version=1").await;
    assert_eq!((first.status, first.value()), (200, now));
    for (query, status, slug) in [
        ("policy_version=2", 404, "unknown-tool"),
        ("policy_version=0", 404, "unknown-tool"),
        ("policy_version=x", 400, "invalid-request"),
        ("policy_version=4294967296", 400, "invalid-request"),
        ("version=1", 400, "invalid-request"),
    ] {
        let reply = house.get(&agent, &format!("/v1/tools/mail.send?{query}")).await;
        assert_eq!(refused(&reply), (status, slug.to_owned()), "{query}");
    }
    let reply = house.get(&agent, "/v1/tools/no.such?policy_version=1").await;
    assert_eq!(refused(&reply), (404, "unknown-tool".to_owned()));
}
