//! What goes wrong with which action, and in which order: drawn from the seed, before anything runs.

use std::collections::VecDeque;

use anyhow::ensure;
use serde_json::{Value, json};
use sim::seed::Seed;

use super::actions::{Action, Supplier};

/// One action in this many goes to the supplier that forgets, as far as there are any.
const ONE_IN_DAIRY: usize = 8;
/// One action in this many is caught by a kill of the server, and as many by a closed port.
const ONE_IN_OUTAGE: usize = 15;
/// How many actions one outage catches at once.
const OUTAGE_SIZE: usize = 4;
/// How long the slow answer takes: longer than the tool's timeout, shorter than timeout and linger.
pub(crate) const SLOW_REPLY_MS: u64 = 1_300;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The supplier does it, and its answer is lost.
    ReplyDropped,
    /// The supplier does it, and answers after the caller's patience.
    SlowReply,
    /// The supplier does it, and the connection is reset in place of an answer.
    ConnectionReset,
    /// Nobody listens at the supplier's port.
    ConnectionRefused,
    /// The supplier does it, and something in between answers 503.
    UnavailableAfterCommit,
    /// The network delivers the request twice.
    DuplicateDelivery,
    /// The sender is killed with `kill -9` between the send and the receipt.
    KilledMidway,
    /// Eight callers ask for the same action at once.
    ConcurrentRetries,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::ReplyDropped,
        Self::SlowReply,
        Self::ConnectionReset,
        Self::ConnectionRefused,
        Self::UnavailableAfterCommit,
        Self::DuplicateDelivery,
        Self::KilledMidway,
        Self::ConcurrentRetries,
    ];

    /// The name in the JSON summary.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReplyDropped => "reply_dropped",
            Self::SlowReply => "slow_reply",
            Self::ConnectionReset => "connection_reset",
            Self::ConnectionRefused => "connection_refused",
            Self::UnavailableAfterCommit => "unavailable_after_commit",
            Self::DuplicateDelivery => "duplicate_delivery",
            Self::KilledMidway => "kill_9",
            Self::ConcurrentRetries => "concurrent_retries",
        }
    }

    /// What the story says about it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::ReplyDropped => "reply dropped after the commit",
            Self::SlowReply => "reply comes too late",
            Self::ConnectionReset => "connection reset after the commit",
            Self::ConnectionRefused => "connection refused",
            Self::UnavailableAfterCommit => "503 after the commit",
            Self::DuplicateDelivery => "delivered twice by the network",
            Self::KilledMidway => "kill -9 between send and receipt",
            Self::ConcurrentRetries => "8 retries at once",
        }
    }

    /// The supplier's own name for its part in it; `None` where the supplier plays none.
    pub(crate) fn at_supplier(self) -> Option<Value> {
        match self {
            Self::ReplyDropped => Some(json!("reply_dropped")),
            Self::SlowReply => Some(json!({ "slow_reply": SLOW_REPLY_MS })),
            Self::ConnectionReset => Some(json!("reply_reset")),
            Self::UnavailableAfterCommit => Some(json!({ "status_after_effect": 503 })),
            Self::DuplicateDelivery => Some(json!("delivered_twice")),
            // The answer waits until the kill has happened.
            Self::KilledMidway => Some(json!("hang")),
            Self::ConnectionRefused | Self::ConcurrentRetries => None,
        }
    }

    /// Whether the first sender is left without knowing, so that a second fault can follow.
    fn leaves_unknown(self) -> bool {
        match self {
            Self::ReplyDropped | Self::SlowReply | Self::ConnectionReset | Self::UnavailableAfterCommit => {
                true
            }
            Self::ConnectionRefused
            | Self::DuplicateDelivery
            | Self::KilledMidway
            | Self::ConcurrentRetries => false,
        }
    }
}

/// One action with its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) action: Action,
    pub(crate) fault: Fault,
    /// What befalls the next try.
    pub(crate) then: Option<Fault>,
}

impl Part {
    /// The script in the order in which it strikes.
    pub(crate) fn faults(&self) -> impl Iterator<Item = Fault> {
        std::iter::once(self.fault).chain(self.then)
    }
}

/// Actions that are carried out together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Several at a time; each meets its own fault.
    Together(Vec<Part>),
    /// Sent while the suppliers are down.
    Refused(Vec<Part>),
    /// Sent, and then the sender is killed.
    Killed(Vec<Part>),
}

impl Scene {
    pub(crate) fn parts(&self) -> &[Part] {
        match self {
            Self::Together(parts) | Self::Refused(parts) | Self::Killed(parts) => parts,
        }
    }
}

/// Draws `count` of the `actions` and a script for each. Every fault strikes at least once.
///
/// # Errors
/// If `count` is too small for that, or more than there are.
pub(crate) fn draw(seed: u64, actions: Vec<Action>, count: usize) -> anyhow::Result<Vec<Scene>> {
    let (least, most) = (Fault::ALL.len(), actions.len());
    ensure!(
        (least..=most).contains(&count),
        "--actions {count} is outside {least} to {most}: each of the {least} faults strikes at least once, and there are {most} actions"
    );
    let mut seed = Seed::new(seed);
    let (mut dairy, mut mill): (Vec<Action>, Vec<Action>) =
        actions.into_iter().partition(|action| action.supplier == Supplier::Dairy);
    let dairy_count = (count / ONE_IN_DAIRY).max(count.saturating_sub(mill.len())).clamp(1, dairy.len());
    let mill_count = count - dairy_count;
    choose(&mut seed, &mut mill, mill_count);
    choose(&mut seed, &mut dairy, dairy_count);
    let outages = (count / ONE_IN_OUTAGE).max(1);
    let mut parts = script(mill, mill_faults(mill_count, outages));
    parts.extend(script(dairy, dairy_faults(&mut seed, dairy_count)));
    seed.shuffle(&mut parts);
    for part in &mut parts {
        // A supplier that forgets is asked once and never again, so nothing could strike there.
        if part.action.supplier == Supplier::Mill && part.fault.leaves_unknown() && seed.chance(250) {
            part.then = seed.pick(&[Fault::ReplyDropped, Fault::ConnectionReset]).copied();
        }
    }
    Ok(arrange(parts))
}

/// Keeps `count` of them: purchase orders and agent actions as they come.
fn choose(seed: &mut Seed, actions: &mut Vec<Action>, count: usize) {
    seed.shuffle(actions);
    // About a third of a short run are purchase orders, which read more easily.
    let mut orders = count.div_ceil(3);
    actions.sort_by_cached_key(|action| {
        let early = action.path == "/orders" && orders > 0;
        orders -= usize::from(early);
        !early
    });
    actions.truncate(count);
}

/// The two outages first, then the others in turn. Of eight actions the mill gets seven, and the
/// dropped reply falls to the dairy.
fn mill_faults(count: usize, outages: usize) -> Vec<Fault> {
    const IN_TURN: [Fault; 6] = [
        Fault::SlowReply,
        Fault::ConnectionReset,
        Fault::UnavailableAfterCommit,
        Fault::DuplicateDelivery,
        Fault::ConcurrentRetries,
        Fault::ReplyDropped,
    ];
    let killed = std::iter::repeat_n(Fault::KilledMidway, outages);
    let refused = std::iter::repeat_n(Fault::ConnectionRefused, outages);
    killed.chain(refused).chain(IN_TURN.into_iter().cycle()).take(count).collect()
}

/// No copy by the network here: against that one nobody can protect a supplier that forgets.
fn dairy_faults(seed: &mut Seed, count: usize) -> Vec<Fault> {
    let mut others = [
        Fault::ConnectionReset,
        Fault::UnavailableAfterCommit,
        Fault::SlowReply,
        Fault::ConcurrentRetries,
        Fault::ConnectionRefused,
        Fault::KilledMidway,
    ];
    seed.shuffle(&mut others);
    std::iter::once(Fault::ReplyDropped).chain(others.into_iter().cycle()).take(count).collect()
}

fn script(actions: Vec<Action>, faults: Vec<Fault>) -> Vec<Part> {
    actions.into_iter().zip(faults).map(|(action, fault)| Part { action, fault, then: None }).collect()
}

/// Outages concern everybody who is under way, so each has a scene of its own, between stretches of
/// the others.
fn arrange(parts: Vec<Part>) -> Vec<Scene> {
    let (killed, rest): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| part.fault == Fault::KilledMidway);
    let (refused, together): (Vec<Part>, Vec<Part>) =
        rest.into_iter().partition(|part| part.fault == Fault::ConnectionRefused);
    let mut kills: VecDeque<Scene> = batches(killed, OUTAGE_SIZE).map(Scene::Killed).collect();
    let mut closures: VecDeque<Scene> = batches(refused, OUTAGE_SIZE).map(Scene::Refused).collect();
    let stretches = kills.len() + closures.len() + 1;
    let stretch = together.len().div_ceil(stretches).max(1);
    let mut scenes = Vec::new();
    for parts in batches(together, stretch) {
        scenes.push(Scene::Together(parts));
        let next = if scenes.len() % 4 == 1 { kills.pop_front() } else { closures.pop_front() };
        scenes.extend(next.or_else(|| kills.pop_front()).or_else(|| closures.pop_front()));
    }
    scenes.extend(kills.into_iter().chain(closures));
    scenes
}

fn batches(parts: Vec<Part>, size: usize) -> impl Iterator<Item = Vec<Part>> {
    let mut parts = parts.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<Part> = parts.by_ref().take(size).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::actions;
    use super::*;

    fn parts(seed: u64, count: usize) -> Vec<Part> {
        let scenes = draw(seed, actions::all().unwrap(), count).unwrap();
        scenes.iter().flat_map(|scene| scene.parts().to_vec()).collect()
    }

    #[test]
    fn every_fault_strikes_on_every_seed_and_every_action_runs_once() {
        let actions = actions::all().unwrap();
        for seed in 0..50 {
            for count in [8, 9, 10, 15, 16, 17, 60, 61, 261, 262] {
                let scenes = draw(seed, actions.clone(), count).unwrap();
                let parts: Vec<&Part> = scenes.iter().flat_map(Scene::parts).collect();
                let faults: BTreeSet<Fault> = parts.iter().map(|part| part.fault).collect();
                assert_eq!(faults.len(), Fault::ALL.len(), "seed {seed}, {count} actions: {faults:?}");
                let ids: BTreeSet<&str> = parts.iter().map(|part| part.action.id.as_str()).collect();
                assert_eq!(ids.len(), count, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_forgetful_supplier_loses_a_reply_and_never_gets_a_copy() {
        for seed in 0..20 {
            let parts = parts(seed, 60);
            let dairy = || parts.iter().filter(|part| part.action.supplier == Supplier::Dairy);
            assert!(dairy().any(|part| part.fault == Fault::ReplyDropped));
            assert!(dairy().all(|part| part.fault != Fault::DuplicateDelivery && part.then.is_none()));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_one_another() {
        let of = |seed| draw(seed, actions::all().unwrap(), 60).unwrap();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn too_few_and_too_many_are_refused_with_the_bounds() {
        for count in [0, 7, 263] {
            let error = draw(1, actions::all().unwrap(), count).unwrap_err().to_string();
            assert!(error.contains("8 to 262"), "{error}");
        }
    }

    #[test]
    fn a_run_has_purchase_orders_and_agent_actions() {
        let parts = parts(3, 60);
        let orders = parts.iter().filter(|part| part.action.path == "/orders").count();
        assert!((10..=20).contains(&orders), "{orders}");
    }
}
