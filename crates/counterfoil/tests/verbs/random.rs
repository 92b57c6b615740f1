//! Any order of calls, reports, decisions and time: nothing panics, nothing final moves, claims only grow.

use counterfoil::destination::Finding;
use counterfoil::id::FencingToken;
use counterfoil::operation::Operation;
use counterfoil::policy::{Meaning, Tool};
use counterfoil::state::State;
use proptest::prelude::*;

use super::support::*;

#[derive(Clone, Debug)]
enum Move {
    Prepare(u8, bool),
    Execute(u8),
    Carry(u8),
    Report(u8, u32, u8),
    Tick(u8),
    Approve(u8),
    Deny(u8),
    Withdraw(u8),
    Wait(u16),
    Declare(u8),
    Undeclare,
    Resume,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let op = 0..3_u8;
    let one = prop_oneof![
        (op.clone(), any::<bool>()).prop_map(|(op, execute)| Move::Prepare(op, execute)),
        op.clone().prop_map(Move::Execute),
        op.clone().prop_map(Move::Execute),
        op.clone().prop_map(Move::Carry),
        (op.clone(), 1..4_u32, 0..9_u8).prop_map(|(op, attempt, found)| Move::Report(op, attempt, found)),
        (op.clone(), 1..4_u32, 0..9_u8).prop_map(|(op, attempt, found)| Move::Report(op, attempt, found)),
        op.clone().prop_map(Move::Tick),
        op.clone().prop_map(Move::Approve),
        op.clone().prop_map(Move::Deny),
        op.prop_map(Move::Withdraw),
        (0..2_000_u16).prop_map(Move::Wait),
        (0..4_u8).prop_map(Move::Declare),
        Just(Move::Undeclare),
        Just(Move::Resume),
    ];
    proptest::collection::vec(one, 1..60)
}

fn declared(which: u8) -> Tool {
    match which {
        0 => with_key(),
        1 => with_nothing(),
        2 => approved(with_key()),
        _ => {
            let mut moved = approved(with_key());
            moved.carrier = http("http://127.0.0.1:9099/orders");
            moved
        }
    }
}

fn found(which: u8, kitchen: &Kitchen) -> Finding {
    match which {
        0 => answer(Meaning::Succeeded, 201),
        1 => answer(Meaning::Rejected, 422),
        2 => answer(Meaning::Throttled, 429),
        3 => answer(Meaning::Pending, 202),
        4 => refused_connection(),
        5 => bad_credential(),
        6 => Finding { lingers_until: Some(kitchen.world.now().plus(seconds(60))), ..lost() },
        7 => answer(Meaning::Unknown, 502),
        _ => lost(),
    }
}

fn apply(kitchen: &mut Kitchen, step: &Move) {
    let name = |op: &u8| format!("op-{op}");
    match step {
        Move::Prepare(op, execute) => {
            let mut verb = kitchen.draft(&name(op), FLOUR);
            (verb.execute, verb.offer) = (*execute, Some(kitchen.offer(&name(op))));
            let _refused = kitchen.world.run(&verb);
        }
        Move::Wait(count) => kitchen.wait(u64::from(*count)),
        Move::Declare(which) => {
            kitchen.world.declare(declared(*which));
        }
        Move::Undeclare => kitchen.world.undeclare(&counterfoil::id::ToolName::parse(TOOL).unwrap()),
        Move::Resume => kitchen.world.resume(Some(&counterfoil::id::ToolName::parse(TOOL).unwrap())),
        Move::Execute(op)
        | Move::Carry(op)
        | Move::Report(op, _, _)
        | Move::Tick(op)
        | Move::Approve(op)
        | Move::Deny(op)
        | Move::Withdraw(op)
            if kitchen.world.operation(&account(), &id(&name(op))).is_none() => {}
        Move::Execute(op) => {
            let _refused = kitchen.execute(&name(op));
        }
        Move::Carry(op) => {
            let offer = kitchen.offer(&name(op));
            let _refused = kitchen.start_as(None, &name(op), Some(offer));
        }
        Move::Report(op, attempt, which) => {
            let finding = found(*which, kitchen);
            let row = kitchen.row(&name(op));
            let fence = row.attempts.get(*attempt as usize - 1).map_or(FencingToken(77), |one| one.fence);
            let _refused = kitchen.report_under(&name(op), *attempt, fence, finding);
        }
        Move::Tick(op) => {
            kitchen.tick(&name(op));
        }
        Move::Approve(op) => {
            let _refused = kitchen.approve_as(ann(), &name(op), None);
        }
        Move::Deny(op) => {
            let _refused = kitchen.deny(&name(op));
        }
        Move::Withdraw(op) => {
            let _refused = kitchen.withdraw(&name(op));
        }
    }
}

fn check(before: Option<&Operation>, after: &Operation) {
    let proofs = after
        .attempts
        .iter()
        .filter(|attempt| attempt.outcome == Some(counterfoil::operation::AttemptOutcome::Succeeded));
    match &after.state {
        State::Succeeded(receipt) => {
            assert!(receipt.reference.is_some() && proofs.count() > 0, "I2: {after:?}");
        }
        State::Rejected(_) => {
            let open = after.attempts.iter().filter(|attempt| !attempt.settled).count();
            assert!(open == 0 || after.duplicate_suspected, "I3: {after:?}");
        }
        State::InProgress(claim) => {
            assert_eq!(claim.fence, after.fence, "one running claim, the newest");
            assert_eq!(after.attempts.last().map(|attempt| attempt.fence), Some(claim.fence));
        }
        State::Prepared(_) => assert_eq!(after.unsettled(), 0, "{after:?}"),
        State::Unknown(_) => {}
    }
    let fences: Vec<_> = after.attempts.iter().map(|attempt| attempt.fence).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "fencing tokens grow: {fences:?}");
    if let Some(before) = before {
        assert!(after.fence >= before.fence && after.version >= before.version);
        assert!(after.version > before.version || after == before, "a change without evidence");
        assert!(!before.state.is_final() || before.state == after.state, "a final state moved");
        let keep = before.attempts.iter().zip(&after.attempts).all(|(old, new)| {
            !old.settled
                || new.settled
                || new.outcome == Some(counterfoil::operation::AttemptOutcome::Succeeded)
        });
        assert!(keep, "a settled attempt opened again without proof");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_keeps_the_invariants(first in 0..4_u8, steps in moves()) {
        let mut kitchen = Kitchen::with(declared(first));
        for step in &steps {
            let before: Vec<Operation> = kitchen.world.operations().cloned().collect();
            apply(&mut kitchen, step);
            for after in kitchen.world.operations() {
                check(before.iter().find(|row| row.id == after.id), after);
            }
            let running = kitchen.world.operations().filter(|row| row.state.claim().is_some()).count();
            prop_assert!(running <= 1, "one action in one task: {:?}", step);
        }
    }
}
