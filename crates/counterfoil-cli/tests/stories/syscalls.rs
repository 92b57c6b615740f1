//! Death at the N-th flush of the disk, N until none is left: what no fail point of our own decides.

use std::process::Command;
use std::time::Duration;

use sim::supplier::Flavour;

use crate::support::{Api, Setup, ToolText, World, order, pass};

/// More flushes than one start and one order need in one thread.
const MANY: u32 = 40;

fn tracer_works() -> bool {
    let probe = Command::new("strace").args(["-qq", "-e", "trace=none", "-o", "/dev/null", "true"]).output();
    probe.is_ok_and(|output| output.status.success())
}

fn sweep(keyed: bool) {
    if !tracer_works() {
        println!("skipped: strace is not there or may not attach");
        return;
    }
    let (flavour, tool) = if keyed {
        (Flavour::dedupe(), ToolText::keyed("supplier.create_order"))
    } else {
        (Flavour::Forgetful, ToolText::forgetful("supplier.create_order"))
    };
    let world = World::new(flavour, &Setup::new().server("lease = \"1s\"").tool(tool.with_reference()));
    let token = world.token("kitchen", "app", &["agent"], &[])["token"].as_str().unwrap().to_owned();
    for nth in 1..MANY {
        let deaths = nth - 1;
        let id = format!("flour-{nth}");
        let mut server = world.try_serve_traced(&format!("fsync,fdatasync:signal=KILL:when={nth}"));
        let answered = server.is_ready() && {
            let api = Api { address: server.address, token: token.clone() };
            api.try_put(&id, &order(&id, 5_000)).is_ok()
        };
        if answered {
            // Flushes that follow the answer.
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
        assert!(effects <= 1, "flush {nth}: {effects} effects: {}", rest.json());
        if keyed {
            assert_eq!((rest.state().as_str(), effects), ("succeeded", 1), "flush {nth}: {}", rest.json());
        }
        drop(server);
        world.verify();
        if !died {
            assert!(deaths >= 2, "only {deaths} flushes were there to die at");
            println!("died at each of {deaths} flushes");
            return;
        }
    }
    panic!("more than {MANY} flushes");
}

#[test]
fn death_at_the_nth_flush_keyed() {
    sweep(true);
}

#[test]
fn death_at_the_nth_flush_forgetful() {
    sweep(false);
}
