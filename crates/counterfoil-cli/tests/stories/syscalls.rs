//! Death at the N-th flush of the disk, N until none is left, and at the N-th call of any kind that makes something
//! durable: what no fail point of our own decides.

use std::process::Command;
use std::time::Duration;

use sim::supplier::Flavour;

use crate::support::{Api, Setup, ToolText, World, on_postgres, order, pass};

/// More calls than one start and one order need in one thread.
const MANY: u32 = 400;

fn tracer_works() -> bool {
    let probe = Command::new("strace").args(["-qq", "-e", "trace=none", "-o", "/dev/null", "true"]).output();
    probe.is_ok_and(|output| output.status.success())
}

/// How the destination protects from a second effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Key,
    Reference,
    LookUp,
    Nothing,
}

impl Kind {
    fn world(self) -> World {
        const TOOL: &str = "supplier.create_order";
        let (flavour, tool) = match self {
            Self::Key => (Flavour::dedupe(), ToolText::keyed(TOOL)),
            Self::Reference => {
                let conflict = format!(
                    "[[tools.\"{TOOL}\".outcomes]]\nstatus = 409\n\
                     body = {{ pointer = \"/error/code\", equals = \"already_exists\" }}\n\
                     means = \"duplicate_of_ours\"\n"
                );
                let tool = ToolText::searched(TOOL)
                    .without_recovery("authoritative")
                    .without_recovery("request_lifetime")
                    .recovery("kind = \"unique_reference\"")
                    .further(&conflict);
                (Flavour::UniqueReference, tool)
            }
            Self::LookUp => (Flavour::Forgetful, ToolText::searched(TOOL)),
            Self::Nothing => (Flavour::Forgetful, ToolText::forgetful(TOOL)),
        };
        World::new(flavour, &Setup::new().server("lease = \"1s\"").tool(tool.with_reference()))
    }

    /// Whether something that is declared settles a lost reply without a person.
    fn settles(self) -> bool {
        match self {
            Self::Key | Self::Reference | Self::LookUp => true,
            Self::Nothing => false,
        }
    }
}

/// Whatever makes something durable: writes of the file and its log, flushes, names.
const DURABLE: &str = "pwrite64,fsync,fdatasync,ftruncate,rename,unlink";

/// How many calls lie between two deaths: 1 sweeps them all.
fn stride() -> u32 {
    std::env::var("SWEEP_EVERY").map_or(9, |text| text.parse().expect("SWEEP_EVERY is a number"))
}

fn sweep(kind: Kind, calls: &str, first: u32, stride: u32) {
    // What the disk of a database server does is that server's matter.
    if on_postgres() {
        return;
    }
    if !tracer_works() {
        println!("skipped: strace is not there or may not attach");
        return;
    }
    let world = kind.world();
    let token = world.token("kitchen", "app", &["agent"], &[])["token"].as_str().unwrap().to_owned();
    for (deaths, nth) in (first..MANY).step_by(usize::try_from(stride).unwrap()).enumerate() {
        let id = format!("flour-{nth}");
        let mut server = world.try_serve_traced(&format!("{calls}:signal=KILL:when={nth}"));
        let answered = server.is_ready() && {
            let api = Api { address: server.address, token: token.clone() };
            api.try_put(&id, &order(&id, 5_000)).is_ok()
        };
        if answered {
            // Calls that follow the answer.
            pass(Duration::from_millis(400));
        } else {
            server.wait_ended();
        }
        let died = server.ended().is_some();
        server.kill9();
        drop(server);
        let server = world.serve();
        let api = Api { address: server.address, token: token.clone() };
        api.put(&id, &order(&id, 0));
        let rest = api.until_quiet(&id);
        let effects = world.effects_with(&id).len();
        assert!(effects <= 1, "call {nth}: {effects} effects: {}", rest.json());
        if kind.settles() {
            assert_eq!((rest.state().as_str(), effects), ("succeeded", 1), "call {nth}: {}", rest.json());
        }
        drop(server);
        world.verify();
        if !died {
            assert!(deaths >= 2, "only {deaths} calls were there to die at");
            println!("{kind:?}: died {deaths} times in {nth} calls");
            return;
        }
    }
    panic!("more than {MANY} calls");
}

#[test]
fn death_at_the_nth_flush_keyed() {
    sweep(Kind::Key, "fsync,fdatasync", 1, 1);
}

#[test]
fn death_at_the_nth_flush_forgetful() {
    sweep(Kind::Nothing, "fsync,fdatasync", 1, 1);
}

#[test]
fn death_at_the_nth_durable_call_keyed() {
    sweep(Kind::Key, DURABLE, 1, stride());
}

#[test]
fn death_at_the_nth_durable_call_with_a_unique_reference() {
    sweep(Kind::Reference, DURABLE, 2, stride());
}

#[test]
fn death_at_the_nth_durable_call_with_a_look_up() {
    sweep(Kind::LookUp, DURABLE, 3, stride());
}

#[test]
fn death_at_the_nth_durable_call_forgetful() {
    sweep(Kind::Nothing, DURABLE, 4, stride());
}
