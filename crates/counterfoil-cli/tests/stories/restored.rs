//! A ledger that was restored from an older copy has forgotten what it sent. It notices, and sends nothing blindly.

use std::path::{Path, PathBuf};

use sim::supplier::Flavour;

use crate::support::{Server, Setup, ToolText, World, on_postgres, order, signal};

const SEARCHED: &str = "supplier.create_order";
const KEYED: &str = "supplier.create_invoice";

fn stop(mut server: Server) {
    signal(server.id(), "TERM");
    assert!(server.wait_ended().success(), "{}", server.log());
}

fn copy(from: &Path, to: &Path) {
    for end in ["", "-wal", "-shm"] {
        let (from, to) = (with(from, end), with(to, end));
        match from.exists() {
            true => drop(std::fs::copy(from, to).unwrap()),
            false => drop(std::fs::remove_file(to)),
        }
    }
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn invoice(label: &str, wait_ms: u64) -> serde_json::Value {
    let mut wanted = order(label, wait_ms);
    wanted["tool"] = KEYED.into();
    wanted
}

#[test]
fn c42_a_ledger_that_lacks_its_last_hour_starts_paused_and_repeats_nothing_blindly() {
    // It is restored by copying its file.
    if on_postgres() {
        return;
    }
    let setup = Setup::new()
        .tool(ToolText::searched(SEARCHED).with_reference())
        .tool(ToolText::keyed(KEYED).with_reference());
    // It recognises keys; an order without one is a new order each time.
    let world = World::new(Flavour::dedupe(), &setup);
    let server = world.serve();
    let agent = world.agent(&server);
    agent.put("before", &order("flour", 20_000)).expect(200);
    stop(server);
    let backup = world.folder.path().join("backup.db");
    copy(&world.database(), &backup);

    let server = world.serve();
    let agent = agent.at(server.address);
    for (id, wanted) in [("searched", order("sugar", 20_000)), ("keyed", invoice("sugar", 20_000))] {
        assert_eq!(agent.put(id, &wanted).expect(200).state(), "succeeded");
    }
    assert_eq!((world.effects(), world.writes()), (3, 3));
    stop(server);
    copy(&backup, &world.database());

    let server = world.serve();
    let agent = agent.at(server.address);
    // What it knows is as it was. What it does not know may have been done: that is said, for every call.
    assert_eq!(agent.put("before", &order("flour", 0)).expect(200).state(), "succeeded");
    agent.put("searched", &order("sugar", 500)).refused(503, "ledger-restored");
    agent.execute("searched", 500).refused(503, "ledger-restored");
    agent.get("searched").refused(503, "ledger-restored");
    // Where the destination recognises the repeat it is taken in, and waits for a person to end the pause.
    let waiting = agent.put("keyed", &invoice("sugar", 500)).expect(202);
    assert_eq!((waiting.state(), waiting.text("/next/reason")), ("prepared".into(), "paused".into()));
    assert_eq!(
        (world.effects(), world.writes()),
        (3, 3),
        "it was sent although the ledger is older than its mark"
    );

    // The pause is in the ledger: another start changes nothing.
    stop(server);
    let server = world.serve();
    let agent = agent.at(server.address);
    agent.put("searched", &order("sugar", 0)).refused(503, "ledger-restored");
    assert_eq!((world.effects(), world.writes()), (3, 3));

    world.run(&["tool", "resume", "--all", "--note", "compared with the supplier"]).expect(0);
    let done = agent.until_state("keyed", &["succeeded", "rejected"]);
    assert_eq!(done.state(), "succeeded");
    assert_eq!(
        (world.effects(), world.writes()),
        (3, 4),
        "the supplier knows the key: one more send, no more effects"
    );
}
