//! A worker as a process of its own, which a story may kill, freeze and start again. It is this very test binary, started
//! once more with one test to run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use counterfoil::{Clock as _, SystemClock, Timestamp};
use serde_json::{Value, json};

use super::server::{signal, wait_stopped};
use super::{Answer, Api, PATIENCE, World};

/// The variable that names the file that is there once a stopped worker may go on.
const THAWED: &str = "COUNTERFOIL_STORY_THAWED";

/// The variable that holds a worker's orders.
const ORDERS: &str = "STORY_WORKER";

/// How a worker is to work.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) api: Api,
    pub(crate) name: String,
    pub(crate) supplier: SocketAddr,
    pub(crate) lease_ms: u64,
    /// `PLACE:ACTION` at the first time that it comes there: places are `claimed`, `checked` and `sent`, actions `kill`,
    /// `stop` and `slow`. `every:MILLIS` stays that long at each place.
    pub(crate) fault: String,
}

impl Orders {
    fn text(&self) -> String {
        json!({
            "server": self.api.address.to_string(), "token": self.api.token, "name": self.name,
            "supplier": self.supplier.to_string(), "lease_ms": self.lease_ms, "fault": self.fault,
        })
        .to_string()
    }

    fn parse(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        Self {
            api: Api { address: text("server").parse().unwrap(), token: text("token") },
            name: text("name"),
            supplier: text("supplier").parse().unwrap(),
            lease_ms: value["lease_ms"].as_u64().unwrap(),
            fault: text("fault"),
        }
    }
}

/// A running worker. It is killed when dropped.
pub(crate) struct Worker {
    child: Child,
    log: PathBuf,
}

impl Worker {
    /// Starts a worker of the tool `supplier.create_order`.
    pub(crate) fn start(world: &World, api: &Api, name: &str, lease_ms: u64, fault: &str) -> Self {
        let orders = Orders {
            api: api.clone(),
            name: name.to_owned(),
            supplier: world.supplier.addr(),
            lease_ms,
            fault: fault.to_owned(),
        };
        let log = world.folder.path().join(format!("worker-{name}.log"));
        let file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["workers::the_worker_process", "--exact", "--ignored", "--nocapture"])
            .env(ORDERS, orders.text())
            .env(THAWED, log.with_extension("thawed"))
            .stdin(Stdio::null())
            .stdout(Stdio::from(file.try_clone().unwrap()))
            .stderr(Stdio::from(file))
            .spawn()
            .unwrap();
        Self { child, log }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().ok();
        self.child.wait().unwrap();
    }

    /// Waits until it has killed itself.
    #[track_caller]
    pub(crate) fn wait_ended(&mut self) {
        super::eventually("the worker dies", || self.child.try_wait().unwrap());
    }

    #[track_caller]
    pub(crate) fn wait_frozen(&self) {
        wait_stopped(self.id());
    }

    pub(crate) fn thaw(&self) {
        std::fs::write(self.log.with_extension("thawed"), "").unwrap();
        signal(self.id(), "CONT");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!(
                "--- {} ---\n{}",
                self.log.display(),
                std::fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

/// What a worker process does: takes what is due, carries it out, reports; for as long as the server answers.
pub(crate) fn work() {
    let Ok(text) = std::env::var(ORDERS) else { return };
    let mut orders = Orders::parse(&text);
    let lived = Instant::now();
    while lived.elapsed() < PATIENCE * 2 {
        let ask = json!({
            "worker": orders.name, "tools": [{ "name": "supplier.create_order" }],
            "lease_ms": orders.lease_ms, "wait_ms": 1_000,
        });
        let Ok(answer) = orders.api.try_call("POST", "/v1/claims", ask.to_string().as_bytes()) else {
            return;
        };
        if answer.status != 200 {
            println!("{} {}", answer.status, answer.json());
            return;
        }
        for claim in answer.at("/items").as_array().unwrap() {
            println!("{} {} attempt {}", claim["operation_id"], claim["mode"], claim["attempt"]);
            let told = match claim["mode"].as_str() {
                Some("send") => send(&mut orders, claim),
                _ => investigate(&orders, claim),
            };
            report(&orders, claim, told);
        }
    }
}

/// Comes to a place where the story may want something to happen.
fn pass(orders: &mut Orders, place: &str) {
    let Some((at, action)) =
        orders.fault.split_once(':').map(|(at, action)| (at.to_owned(), action.to_owned()))
    else {
        return;
    };
    if at == "every" {
        super::pass(Duration::from_millis(action.parse().unwrap()));
    }
    if at != place {
        return;
    }
    orders.fault.clear();
    match action.as_str() {
        "kill" => signal(std::process::id(), "KILL"),
        "stop" => {
            signal(std::process::id(), "STOP");
            // The signal may stop this thread a little later than the one that takes it.
            let thawed = std::env::var_os(THAWED).map(std::path::PathBuf::from).unwrap();
            super::eventually("the worker is thawed", || thawed.exists().then_some(()));
        }
        _ => super::pass(Duration::from_millis(orders.lease_ms * 3)),
    }
}

fn send(orders: &mut Orders, claim: &Value) -> Value {
    pass(orders, "claimed");
    let last = Timestamp::parse(claim["send_before"].as_str().unwrap()).unwrap();
    if SystemClock::default().now() >= last {
        return json!({ "outcome": "not_sent" });
    }
    pass(orders, "checked");
    let mut body = claim["arguments"].clone();
    let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    if let Some(key) = claim["key"].as_str() {
        headers.push(("Idempotency-Key".to_owned(), key.to_owned()));
    }
    if claim["reference"].is_string() {
        body["client_reference"] = claim["reference"].clone();
    }
    let supplier = Api { address: orders.supplier, token: String::new() };
    let answer = supplier.try_call_with("POST", "/orders", &headers, body.to_string().as_bytes());
    pass(orders, "sent");
    match answer {
        Ok(answer) if answer.status == 201 => {
            json!({ "outcome": "succeeded", "reference": answer.text("/id"), "result": answer.json() })
        }
        Ok(answer) if answer.status == 422 => json!({ "outcome": "rejected", "reason": "refused as such" }),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            json!({ "outcome": "not_sent" })
        }
        Ok(_) | Err(_) => json!({ "outcome": "unknown", "marker": "bytes_written" }),
    }
}

fn investigate(orders: &Orders, claim: &Value) -> Value {
    let supplier = Api { address: orders.supplier, token: String::new() };
    let path = format!("/orders?client_reference={}", claim["reference"].as_str().unwrap_or_default());
    let Ok(answer) = supplier.try_call_with("GET", &path, &[], b"") else {
        return json!({ "outcome": "unknown" });
    };
    match answer.at("/orders").as_array().filter(|_| answer.status == 200) {
        None => json!({ "outcome": "unknown" }),
        Some(found) if found.is_empty() => json!({ "outcome": "absent" }),
        Some(found) => json!({ "outcome": "found", "reference": found[0]["id"], "count": found.len() }),
    }
}

/// Reports until there is an answer.
fn report(orders: &Orders, claim: &Value, mut told: Value) {
    told["fencing_token"] = claim["fencing_token"].clone();
    let id = claim["operation_id"].as_str().unwrap();
    let path = format!("/v1/operations/{id}/attempts/{}/outcome", claim["attempt"]);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match orders.api.try_call("POST", &path, told.to_string().as_bytes()) {
            Ok(Answer { status: 503, .. }) | Err(_) => super::pass(Duration::from_millis(50)),
            Ok(answer) => {
                println!("{id} {} -> {} {}", told["outcome"], answer.status, answer.problem());
                return;
            }
        }
    }
}
