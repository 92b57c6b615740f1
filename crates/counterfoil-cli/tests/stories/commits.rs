//! Faults of single commits, numbered from the start of the process until none is left to fail: an error at COMMIT
//! says nothing about what is on the disk, and a death around it neither.

use serde_json::Value;
use sim::supplier::Flavour;

use crate::support::{Api, Server, Setup, ToolText, World, order, pass};

/// More commits than one start and one order need.
const MANY: u32 = 40;

struct Sweep {
    world: World,
    token: String,
    keyed: bool,
}

impl Sweep {
    fn new(keyed: bool) -> Self {
        let (flavour, tool) = if keyed {
            (Flavour::dedupe(), ToolText::keyed("supplier.create_order"))
        } else {
            (Flavour::Forgetful, ToolText::forgetful("supplier.create_order"))
        };
        let setup = Setup::new().server("lease = \"1s\"").tool(tool.with_reference());
        let world = World::new(flavour, &setup);
        let token = world.token("kitchen", "app", &["agent"], &[])["token"].as_str().unwrap().to_owned();
        Self { world, token, keyed }
    }

    fn api(&self, server: &Server) -> Api {
        Api { address: server.address, token: self.token.clone() }
    }

    /// The answer to an order while the `nth` commit fails so; `None` when no commit of that number came.
    fn fail(&self, id: &str, point: &str, nth: u32, action: &str) -> Option<Option<crate::support::Answer>> {
        let fail_point = format!("{point}:{nth}:{action}");
        let hits = self.world.folder.path().join(format!("hits-{id}"));
        let variables = [
            ("COUNTERFOIL_FAILPOINT", fail_point.as_str()),
            ("COUNTERFOIL_FAILPOINT_HITS", hits.to_str().unwrap()),
        ];
        let mut server = self.world.try_serve_with(&variables);
        let answer =
            server.is_ready().then(|| self.api(&server).try_put(id, &order(id, 5_000)).ok()).flatten();
        if !hits.exists() {
            assert!(server.ended().is_none(), "{}", server.log());
            return None;
        }
        // An error at COMMIT poisons the ledger: the process ends by itself, and says that it failed.
        let status = server.wait_ended();
        assert!(!status.success(), "{fail_point}: {status}");
        Some(answer)
    }

    /// After the restart: found, not guessed; at most one effect.
    fn judge(&self, id: &str) {
        let server = self.world.serve();
        let api = self.api(&server);
        let found = api.get(id);
        if found.status == 404 {
            assert_eq!(self.world.effects_with(id).len(), 0, "{id}: an effect without an operation");
        }
        api.put(id, &order(id, 0));
        let rest = api.until_quiet(id);
        let effects = self.world.effects_with(id);
        assert!(effects.len() <= 1, "{id}: {} effects: {}", effects.len(), rest.json());
        if self.keyed {
            assert_eq!((rest.state().as_str(), effects.len()), ("succeeded", 1), "{id}: {}", rest.json());
        }
        match rest.state().as_str() {
            "succeeded" => assert_eq!(rest.reference(), effects[0].order),
            "unknown" => assert_eq!(rest.at("/held"), Value::Bool(true)),
            state => panic!("{id} ends {state}"),
        }
        // The guard would not let a second one through that is not settled: each order has a name of its own.
        drop(server);
    }

    fn run(
        &self,
        point: &str,
        action: &str,
        judge_answer: impl Fn(&str, Option<crate::support::Answer>, usize),
    ) {
        let mut told = 0;
        for nth in 1..MANY {
            let failed = nth - 1;
            let id = format!("{point}-{action}-{nth}");
            let Some(answer) = self.fail(&id, point, nth, action) else {
                assert!(failed >= 2, "only {failed} commits were there to fail");
                // A process that fails in order tells its callers first; one that dies cannot.
                assert_eq!(told > 0, action != "abort", "{told} callers were told");
                self.world.verify();
                return;
            };
            told += u32::from(answer.as_ref().is_some_and(|answer| answer.status == 503));
            judge_answer(&id, answer, self.world.effects_with(&id).len());
            self.judge(&id);
        }
        panic!("an order takes more than {MANY} commits");
    }
}

/// What a caller is told while the ledger fails: that it may have been sent, never that it was not if it was.
fn honest(id: &str, answer: Option<crate::support::Answer>, effects: usize) {
    let Some(answer) = answer else { return };
    match answer.status {
        503 => {
            let sent = answer.text("/sent");
            assert!(
                sent == "maybe" || (sent == "no" && effects == 0),
                "{id}: sent is {sent}, {effects} effects"
            );
            assert_eq!(answer.problem(), "store-unavailable", "{id}: {}", answer.json());
        }
        200 => assert_eq!((answer.state().as_str(), effects), ("succeeded", 1), "{id}"),
        202 => assert_ne!(answer.state(), "succeeded", "{id}"),
        status => panic!("{id}: {status}: {}", answer.json()),
    }
}

#[test]
fn c20_an_io_error_before_the_commit_is_durable_keyed() {
    Sweep::new(true).run("commit", "io", honest);
}

#[test]
fn c20_an_io_error_before_the_commit_is_durable_forgetful() {
    Sweep::new(false).run("commit", "io", honest);
}

#[test]
fn c20_an_io_error_after_the_commit_is_durable_keyed() {
    Sweep::new(true).run("commit", "io-late", honest);
}

#[test]
fn c20_an_io_error_after_the_commit_is_durable_forgetful() {
    Sweep::new(false).run("commit", "io-late", honest);
}

#[test]
fn c19_a_death_before_each_commit() {
    for keyed in [true, false] {
        Sweep::new(keyed).run("before_commit", "abort", |id, answer, _| {
            assert!(answer.is_none_or(|answer| answer.status >= 200), "{id}");
        });
    }
}

#[test]
fn c19_a_death_after_each_commit() {
    for keyed in [true, false] {
        Sweep::new(keyed).run("after_commit", "abort", |id, answer, effects| {
            assert!(answer.is_none_or(|answer| answer.status != 200 || effects == 1), "{id}");
        });
    }
}

#[test]
fn c21_a_full_disk_under_a_receipt_is_waited_for() {
    // The third commit of the process at the latest is the receipt's; whichever fails, the order ends well.
    for nth in 1..=5 {
        let sweep = Sweep::new(false);
        let points = format!("commit:{nth}:full");
        let mut server = sweep.world.try_serve_with(&[("COUNTERFOIL_FAILPOINT", points.as_str())]);
        if !server.is_ready() {
            assert!(!server.wait_ended().success());
            continue;
        }
        let api = sweep.api(&server);
        let answer = api.put("a", &order("flour", 10_000));
        if answer.status == 503 {
            // Nothing was created, nothing was sent, and the same ID is safe.
            assert_eq!((answer.problem(), answer.text("/sent")), ("store-full".into(), "no".into()));
            assert_eq!(sweep.world.effects(), 0);
            assert_eq!(api.put("a", &order("flour", 10_000)).expect(200).state(), "succeeded");
        } else {
            api.until_state("a", &["succeeded"]);
        }
        pass(std::time::Duration::from_millis(200));
        assert_eq!(sweep.world.effects(), 1, "commit {nth}");
        assert!(server.ended().is_none(), "a full disk is no reason to end");
    }
}
