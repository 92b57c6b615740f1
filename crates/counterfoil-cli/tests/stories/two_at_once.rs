//! Many callers, several processes, one effect.

use sim::supplier::{Flavour, Point, Target};

use crate::support::{Answer, Setup, ToolText, World, column, count, eventually, finish, order, spawn};

/// Fails unless every answer is the one receipt, or says that it is not there yet.
fn agree(answers: &[Answer], reference: &str) {
    for answer in answers {
        match answer.status {
            200 => assert_eq!(answer.reference(), reference),
            202 => assert_eq!(answer.state(), "in_progress", "{}", answer.json()),
            _ => panic!("{}", answer.json()),
        }
    }
}

#[test]
fn c13_a_hundred_first_calls_with_one_id() {
    for wait_ms in [0, 20_000] {
        let world = World::forgetful();
        let server = world.serve();
        let agent = world.agent(&server);
        let wanted = order("flour", wait_ms);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..100).map(|_| scope.spawn(|| agent.put("a", &wanted))).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let done = agent.until_state("a", &["succeeded"]);
        agree(&answers, &done.reference());
        assert_eq!((world.effects(), world.writes()), (1, 1));
        if wait_ms > 0 {
            assert!(answers.iter().all(|answer| answer.status == 200), "all waited for the receipt");
        }
    }
}

#[test]
fn c13_first_calls_from_several_processes() {
    let world = World::forgetful();
    let servers = [world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    let folder = world.folder.path();
    let prepare: Vec<&str> = vec![
        "op",
        "prepare",
        "supplier.create_order",
        "--account",
        "kitchen",
        "--id",
        "a",
        "--arguments",
        r#"{"quantity":10,"sku":"flour"}"#,
        "--json",
    ];
    let (answers, commands) = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..60)
            .map(|number: usize| {
                let caller = agent.at(servers[number % 2].address);
                scope.spawn(move || caller.put("a", &order("flour", 20_000)))
            })
            .collect();
        let commands: Vec<_> = (0..4).map(|_| finish(spawn(folder, &prepare))).collect();
        (calls.into_iter().map(|call| call.join().unwrap()).collect::<Vec<_>>(), commands)
    });
    for command in commands {
        // Prepared, in progress or done: the one operation, whoever made it.
        assert!([0, 5, 6].contains(&command.code), "{command:?}");
    }
    let done = agent.until_state("a", &["succeeded"]);
    agree(&answers, &done.reference());
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn c13_the_command_line_and_servers_execute_at_once() {
    let world = World::forgetful();
    let servers = [world.serve(), world.serve()];
    let agent = world.agent(&servers[0]);
    let mut prepared = order("flour", 0);
    prepared["execute"] = serde_json::json!(false);
    agent.put("a", &prepared).expect(201);
    let folder = world.folder.path();
    let execute = ["op", "execute", "a", "--account", "kitchen", "--json"];
    let (answers, outputs) = std::thread::scope(|scope| {
        let commands: Vec<_> = (0..6).map(|_| spawn(folder, &execute)).collect();
        let calls: Vec<_> = (0..20)
            .map(|number: usize| {
                let caller = agent.at(servers[number % 2].address);
                scope.spawn(move || caller.execute("a", 20_000))
            })
            .collect();
        let outputs: Vec<_> = commands.into_iter().map(finish).collect();
        (calls.into_iter().map(|call| call.join().unwrap()).collect::<Vec<_>>(), outputs)
    });
    let done = agent.until_state("a", &["succeeded"]);
    agree(&answers, &done.reference());
    for output in outputs {
        assert!([0, 5].contains(&output.code), "{output:?}");
        if output.code == 0 {
            assert_eq!(output.json()["receipt"]["reference"], done.reference());
        }
    }
    assert_eq!((world.effects(), world.writes()), (1, 1));
    world.verify();
}

#[test]
fn c17_a_slow_worker_keeps_its_claim_and_nobody_sends_beside_it() {
    let tool = ToolText::forgetful("supplier.create_order").with_reference().http("timeout = \"20s\"");
    let world = World::new(Flavour::Forgetful, &Setup::new().server("lease = \"1s\"").tool(tool));
    let (server, second) = (world.serve(), world.serve());
    let agent = world.agent(&server);
    let gate = world.supplier.hold(Point::ReplyReady, Target::Writes);
    agent.put("a", &order("flour", 0)).expect(202);
    gate.reached_blocking().unwrap();
    // Well past the lease: it is renewed while the sender waits.
    crate::support::pass(std::time::Duration::from_millis(2_500));
    assert_eq!(agent.at(second.address).execute("a", 100).expect(202).state(), "in_progress");
    gate.release();
    assert_eq!(agent.until_state("a", &["succeeded"]).at("/receipt/source"), "response");
    assert_eq!((world.effects(), world.writes()), (1, 1));
}

#[test]
fn c22_a_claim_and_its_deadline_are_one() {
    let world = World::forgetful();
    let server = world.serve();
    let agent = world.agent(&server);
    let database = world.database();
    let done = std::sync::atomic::AtomicBool::new(false);
    let claims = "SELECT body FROM counterfoil_operations WHERE stage = 'in_progress'";
    let undated =
        "SELECT count(*) FROM counterfoil_operations WHERE stage = 'in_progress' AND due_at IS NULL";
    let seen = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                for body in column(&database, claims) {
                    assert!(body.contains("lease_expires_at"), "a claim without a deadline: {body}");
                    seen += 1;
                }
                assert_eq!(count(&database, undated), 0);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            seen
        });
        for number in 0..40 {
            let label = format!("flour-{number}");
            let gate = world.supplier.hold(Point::RequestRead, Target::Writes);
            agent.put(&label, &order(&label, 0)).expect(202);
            gate.reached_blocking().unwrap();
            eventually("a claim on the disk", || (!column(&database, claims).is_empty()).then_some(()));
            gate.release();
            agent.until_state(&label, &["succeeded"]);
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        watcher.join().unwrap()
    });
    assert!(seen > 0, "no claim was ever seen");
    assert_eq!(world.effects(), 40);
}

#[test]
fn c22_a_lease_of_nothing_or_of_ages_is_refused() {
    for lease in ["0s", "1ms", "999ms", "61m", "400d"] {
        let setup = Setup::forgetful().server(&format!("lease = \"{lease}\""));
        let world = World::new(Flavour::Forgetful, &setup);
        let checked = world.run(&["check"]);
        assert_eq!(checked.code, 1, "{lease}: {checked:?}");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(said.contains("lease"), "{lease}: {said}");
        assert_eq!(world.run(&["serve"]).code, 1, "{lease}");
        assert!(!world.database().exists(), "{lease}: nothing was opened");
    }
}
