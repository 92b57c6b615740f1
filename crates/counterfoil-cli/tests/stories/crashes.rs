//! `kill -9` at every named point between a prepare and the caller's answer. After a restart there is at most one
//! effect, exactly one where the destination knows the key, and nothing is stuck.
//!
//! ```text
//! C1 prepare ─ C2 committed ─ (C3 lease ran out) ─ C4 recorded ─ C5 partly written ─ C6 written ─ C7 answer read
//!    ─ C8 receipt committed, not acknowledged ─ C9 caller not told
//! ```

use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use sim::proxy::{Limit, Plan, Proxy, Then};
use sim::seed::Seed;
use sim::supplier::{Flavour, Point, Target};

use crate::support::{Api, Replay, Server, Setup, ToolText, World, eventually, order, pass, seeds};

const SEEDS: [u64; 5] = [11, 23, 37, 41, 59];

/// How the destination remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Keyed,
    Forgetful,
}

/// Where the process ends.
#[derive(Clone, Copy, Debug)]
enum Crash {
    /// At a fail point; with what it does there.
    At(&'static str, &'static str),
    /// By `kill -9` from outside, when the request stands at this place in the supplier.
    Held(Point),
    /// By `kill -9` from outside, when a part of the request has reached the supplier's side.
    Partly,
}

/// What is true right after the crash, beside "at most one effect".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then1 {
    /// Nothing was sent, and it is known: it runs after the restart, whatever the destination is.
    Runs,
    /// The attempt counts as sent: without a key it is held.
    InDoubt,
    /// The receipt is there.
    Done,
}

/// One crash of one kind with one seed.
struct Run {
    seed: u64,
    kind: Kind,
    world: World,
    proxy: Proxy,
    token: String,
    prior: u64,
}

impl Run {
    fn new(kind: Kind, seed: u64) -> Self {
        let flavour = match kind {
            Kind::Keyed => Flavour::dedupe(),
            Kind::Forgetful => Flavour::Forgetful,
        };
        let world = World::new(flavour, &Setup::new());
        let proxy = Proxy::start(world.supplier.addr()).unwrap();
        let tool = match kind {
            Kind::Keyed => ToolText::keyed("supplier.create_order"),
            Kind::Forgetful => ToolText::forgetful("supplier.create_order"),
        };
        let tool = tool.with_reference().url(format!("{}/orders", proxy.url()));
        world.configure(&Setup::new().server("lease = \"1s\"").tool(tool));
        let token = world.token("kitchen", "app", &["agent"], &[])["token"].as_str().unwrap().to_owned();
        let prior = Seed::new(seed).below(3);
        Self { seed, kind, world, proxy, token, prior }
    }

    fn api(&self, server: &Server) -> Api {
        Api { address: server.address, token: self.token.clone() }
    }

    fn hits(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.world.folder.path().join("hits")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A server that ends where it is told, at the visit after those of the earlier orders.
    fn serve_until(&self, points: &str) -> Server {
        let hits = self.world.folder.path().join("hits");
        self.world.serve_with(&[
            ("COUNTERFOIL_FAILPOINT", points),
            ("COUNTERFOIL_FAILPOINT_HITS", hits.to_str().unwrap()),
        ])
    }

    /// Orders that are done before the crash, and must not be touched by it.
    fn earlier_orders(&self, api: &Api) {
        for number in 0..self.prior {
            let id = format!("earlier-{number}");
            assert_eq!(api.put(&id, &order(&id, 20_000)).expect(200).state(), "succeeded");
        }
    }

    /// The call that does not survive.
    fn call(&self, api: &Api) -> JoinHandle<Option<u16>> {
        let api = api.clone();
        std::thread::spawn(move || api.try_put("victim", &order("victim", 20_000)).ok().map(|a| a.status))
    }

    /// Brings the server to its end there and gives the number of effects of the order by then.
    fn crash(&self, crash: Crash) {
        match crash {
            Crash::At(name, action) => {
                // Orders that run pass every point but that of a mere prepare.
                let visit = if name == "c2_prepare_committed" { 1 } else { self.prior + 1 };
                let mut server = self.serve_until(&format!("{name}:{visit}:{action}"));
                let api = self.api(&server);
                self.earlier_orders(&api);
                let call = if name == "c2_prepare_committed" {
                    let mut wanted = order("victim", 0);
                    wanted["execute"] = json!(false);
                    let api = api.clone();
                    std::thread::spawn(move || api.try_put("victim", &wanted).ok().map(|a| a.status))
                } else {
                    self.call(&api)
                };
                let status = server.wait_ended();
                assert!(!status.success(), "{status}");
                assert_eq!(call.join().unwrap(), None, "the caller was told something");
                assert_eq!(self.hits().first().map(String::as_str), Some(name), "the point was missed");
            }
            Crash::Held(point) => {
                let mut server = self.world.serve();
                let api = self.api(&server);
                self.earlier_orders(&api);
                let gate = self.world.supplier.hold(point, Target::WritesContaining("victim".to_owned()));
                let call = self.call(&api);
                gate.reached_blocking().expect("the point was missed");
                server.kill9();
                assert_eq!(call.join().unwrap(), None);
                gate.release();
            }
            Crash::Partly => {
                let mut server = self.world.serve();
                let api = self.api(&server);
                // No earlier orders: they would leave a connection that does not meet the plan.
                let bytes = 1 + Seed::new(self.seed).below(180);
                let limit_request = Some(Limit { bytes, then: Then::Swallow });
                self.proxy.plan(Plan { limit_request, ..Plan::default() });
                let call = self.call(&api);
                eventually("a part of the request", || {
                    (self.proxy.traffic().first()?.request_bytes == bytes).then_some(())
                });
                server.kill9();
                assert_eq!(call.join().unwrap(), None);
                assert_eq!(self.world.effects_with("victim").len(), 0);
            }
        }
    }

    /// Starts again, retries as an application does, and judges.
    fn recover(&self, then: Then1) {
        let server = self.world.serve();
        let api = self.api(&server);
        // It comes to rest by itself, or with the retry of a caller who never learned that it was stored.
        if self.seed.is_multiple_of(2) || api.get("victim").status == 404 {
            api.put("victim", &order("victim", 0));
        } else {
            pass(Duration::from_millis(100));
            api.execute("victim", 0);
        }
        let rest = api.until_quiet("victim");
        let effects = self.world.effects_with("victim").len();
        let context = format!("{:?}, seed {}: {}", self.kind, self.seed, rest.json());
        match (self.kind, then) {
            (Kind::Keyed, _) | (Kind::Forgetful, Then1::Runs | Then1::Done) => {
                assert_eq!(rest.state(), "succeeded", "{context}");
                assert_eq!(effects, 1, "{context}");
                assert_eq!(rest.reference(), self.world.effects_with("victim")[0].order, "{context}");
            }
            (Kind::Forgetful, Then1::InDoubt) => {
                assert_eq!((rest.state(), rest.next()), ("unknown".into(), "review".into()), "{context}");
                assert!(effects <= 1, "{context}");
                // Whatever anybody asks, it is not sent again.
                let writes = self.world.writes();
                api.put("victim", &order("victim", 300));
                api.execute("victim", 300);
                assert_eq!(self.world.writes(), writes, "{context}");
            }
        }
        if then == Then1::Done {
            assert_eq!(rest.at("/attempts").as_array().unwrap().len(), 1, "{context}");
        }
        for number in 0..self.prior {
            let id = format!("earlier-{number}");
            assert_eq!(api.get(&id).state(), "succeeded");
            assert_eq!(self.world.effects_with(&id).len(), 1);
        }
        let running = api.call("GET", "/v1/operations?state=in_progress", &Value::Null).expect(200);
        assert_eq!(running.at("/items"), json!([]), "{context}");
        self.world.verify();
    }
}

/// Every seed at once: most of the time is spent waiting for leases.
fn tell(story: &'static str, kind: Kind, crash: Crash, then: Then1) {
    std::thread::scope(|scope| {
        for seed in seeds(&SEEDS) {
            scope.spawn(move || {
                let replay = Replay::new(story, seed);
                let mut run = Run::new(kind, seed);
                if matches!(crash, Crash::Partly) {
                    run.prior = 0;
                }
                run.crash(crash);
                run.recover(then);
                drop(replay);
            });
        }
    });
}

macro_rules! crashes {
    ($($keyed:ident $forgetful:ident: $crash:expr, $then:expr;)*) => {
        $(
            #[test]
            fn $keyed() {
                tell(stringify!($keyed), Kind::Keyed, $crash, $then);
            }

            #[test]
            fn $forgetful() {
                tell(stringify!($forgetful), Kind::Forgetful, $crash, $then);
            }
        )*
    };
}

crashes! {
    c19_c1_keyed c19_c1_forgetful: Crash::At("c1_before_prepare_commit", "abort"), Then1::Runs;
    c19_c2_keyed c19_c2_forgetful: Crash::At("c2_prepare_committed", "abort"), Then1::Runs;
    c19_c4_keyed c19_c4_forgetful: Crash::At("c4_recorded_not_sent", "abort"), Then1::InDoubt;
    c19_c5_keyed c19_c5_forgetful: Crash::Partly, Then1::InDoubt;
    c19_c6_before_the_effect_keyed c19_c6_before_the_effect_forgetful:
        Crash::Held(Point::RequestRead), Then1::InDoubt;
    c19_c6_after_the_effect_keyed c19_c6_after_the_effect_forgetful:
        Crash::Held(Point::EffectCommitted), Then1::InDoubt;
    c19_c7_keyed c19_c7_forgetful: Crash::At("c7_answer_read", "abort"), Then1::InDoubt;
    c19_c8_keyed c19_c8_forgetful: Crash::At("c8_commit_sent", "arm-after_commit"), Then1::Done;
    c19_c9_keyed c19_c9_forgetful: Crash::At("c9_committed_not_told", "abort"), Then1::Done;
}

/// C3 needs two crashes: one that leaves a claim, and one between the commit that ends the claim and what follows.
fn tell_c3(story: &'static str, kind: Kind) {
    std::thread::scope(|scope| {
        for seed in seeds(&SEEDS) {
            scope.spawn(move || {
                let replay = Replay::new(story, seed);
                let run = Run::new(kind, seed);
                run.crash(Crash::Held(Point::RequestRead));
                let mut second = run.serve_until("c3_lease_expired:1:abort");
                assert!(!second.wait_ended().success());
                assert_eq!(run.hits(), ["c3_lease_expired"], "the point was missed");
                run.recover(Then1::InDoubt);
                drop(replay);
            });
        }
    });
}

#[test]
fn c19_c3_keyed() {
    tell_c3("c19_c3_keyed", Kind::Keyed);
}

#[test]
fn c19_c3_forgetful() {
    tell_c3("c19_c3_forgetful", Kind::Forgetful);
}

#[test]
fn a_server_that_is_told_to_end_loses_no_outcome() {
    for seed in seeds(&[3, 5]) {
        let replay = Replay::new("a_server_that_is_told_to_end_loses_no_outcome", seed);
        let run = Run::new(Kind::Forgetful, seed);
        let mut server = run.world.serve();
        let api = run.api(&server);
        let gate = run.world.supplier.hold(Point::EffectCommitted, Target::Writes);
        let call = run.call(&api);
        gate.reached_blocking().unwrap();
        crate::support::signal(server.id(), "TERM");
        pass(Duration::from_millis(200 + 50 * seed));
        assert!(server.ended().is_none(), "it waits for the outcome");
        gate.release();
        assert!(server.wait_ended().success());
        call.join().unwrap();
        let again = run.world.serve();
        let done = run.api(&again).get("victim").expect(200);
        assert_eq!((done.state(), done.at("/receipt/source")), ("succeeded".into(), json!("response")));
        assert_eq!(run.world.effects_with("victim").len(), 1);
        drop(replay);
    }
}

#[test]
fn a_command_that_is_killed_in_its_send_is_followed_up_by_a_server() {
    for kind in [Kind::Keyed, Kind::Forgetful] {
        let run = Run::new(kind, 0);
        let mut server = run.world.serve();
        let mut wanted = order("victim", 0);
        wanted["execute"] = json!(false);
        run.api(&server).put("victim", &wanted).expect(201);
        server.kill9();
        let gate = run.world.supplier.hold(Point::EffectCommitted, Target::Writes);
        let mut command = crate::support::spawn(
            run.world.folder.path(),
            &["op", "execute", "victim", "--account", "kitchen"],
        );
        gate.reached_blocking().unwrap();
        command.kill().unwrap();
        command.wait().unwrap();
        gate.release();
        // Nobody asks for it again: the wish stands, and the server finds the claim run out.
        let server = run.world.serve();
        let rest = run.api(&server).until_quiet("victim");
        match kind {
            // Nobody reported of the first attempt: its lease ran out.
            Kind::Keyed => assert_eq!(rest.outcomes(), ["unknown", "succeeded"], "{}", rest.json()),
            Kind::Forgetful => assert_eq!((rest.state(), rest.next()), ("unknown".into(), "review".into())),
        }
        assert_eq!(run.world.effects_with("victim").len(), 1);
        run.world.verify();
    }
}
