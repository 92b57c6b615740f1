//! Where it is played: the processes, and the scenes of the plan one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::actions::{Action, Supplier};
use super::agent::{Agent, Shown};
use super::naive::Naive;
use super::plan::{Fault, Part, Scene};
use super::product::Product;
use super::story::{Story, Tone};
use super::supplier::Shop;
use super::trace::Trace;

/// How many actions are under way at once.
const AT_ONCE: usize = 12;
/// How many callers ask for the same action in [`Fault::ConcurrentRetries`].
const CALLERS: usize = 8;
/// So many sends of one action get no answer until the kill. On a slow machine the second one may
/// leave before that, and must not bring the receipt.
const HELD_SENDS: u32 = 8;
/// How long a scene waits for what it is about to happen.
const SCENE_LIMIT: Duration = Duration::from_secs(15);
const SCENE_POLL: Duration = Duration::from_millis(20);
/// How long everything that is still open is asked for again in the end.
const HEAL_LIMIT: Duration = Duration::from_secs(30);

/// Who carries the actions out.
#[derive(Debug)]
pub(crate) enum Sender {
    /// An agent, through Counterfoil.
    Guarded { product: Box<Product>, agent: Agent },
    /// A loop without keys.
    Naive(Naive),
}

/// What became of one action, as its sender knows it.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) action: Action,
    /// What Counterfoil says; nothing without it.
    pub(crate) shown: Option<Shown>,
    /// The order that the naive loop was told.
    pub(crate) order: Option<String>,
}

/// What was played.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) ended: Vec<Ended>,
    /// How often each fault struck.
    pub(crate) faults: BTreeMap<Fault, u64>,
}

impl Played {
    fn struck(&mut self, fault: Fault, times: usize) {
        *self.faults.entry(fault).or_default() += times as u64;
    }
}

/// The processes of one run.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) shops: Vec<Shop>,
    pub(crate) sender: Sender,
    story: Story,
}

impl Stage {
    /// Starts the suppliers, and Counterfoil for `actions` if it is `guarded`, in `folder`.
    ///
    /// # Errors
    /// If a process does not start.
    pub(crate) async fn open(
        folder: &Path,
        actions: &[&Action],
        guarded: bool,
        forgets: bool,
        story: Story,
    ) -> anyhow::Result<Self> {
        let mut shops = Vec::new();
        for who in Supplier::ALL {
            shops.push(Shop::start(who, folder, forgets).await?);
        }
        for shop in &shops {
            let habit = match shop.who {
                Supplier::Mill => "answers a repeated idempotency key with its first answer",
                Supplier::Dairy => "takes every request for a new one",
            };
            let pid = shop.pid().await.unwrap_or_default();
            story.event(
                shop.who.label(),
                Tone::Plain,
                &format!("process {pid}, http://{}, {habit}", shop.address),
            );
        }
        let sender = if guarded {
            let product = Box::new(Product::start(folder, actions, &shops).await?);
            let pid = product.pid().await.unwrap_or_default();
            let text = format!("process {pid}, http://{}, on embedded SQLite", product.address);
            story.event("counterfoil", Tone::Plain, &text);
            Sender::Guarded { agent: Agent::new(&product, story), product }
        } else {
            Sender::Naive(Naive::new(story))
        };
        Ok(Self { shops, sender, story })
    }

    /// How effects are traced back to actions here.
    pub(crate) fn trace(&self) -> Trace {
        match self.sender {
            Sender::Guarded { .. } => Trace::Guarded,
            Sender::Naive(_) => Trace::Naive,
        }
    }

    /// Plays all scenes, heals what is open, and ends all processes.
    ///
    /// # Errors
    /// If a process fails, or Counterfoil gives an answer that has no place here.
    pub(crate) async fn play(self: &Arc<Self>, scenes: &[Scene]) -> anyhow::Result<Played> {
        let mut played = Played::default();
        for scene in scenes {
            match scene {
                Scene::Together(parts) => self.together(parts, &mut played).await?,
                Scene::Refused(parts) => self.refused(parts, &mut played).await?,
                Scene::Killed(parts) => self.killed(parts, &mut played).await?,
            }
        }
        if let Sender::Guarded { agent, product } = &self.sender {
            self.settle(agent, &mut played).await?;
            // From here on nothing is sent any more, so what is counted now is all there is.
            product.kill().await?;
        }
        for shop in &self.shops {
            for (fault, times) in shop.end().await? {
                // That one counts where a kill has caught it.
                if fault != Fault::KilledMidway {
                    *played.faults.entry(fault).or_default() += times;
                }
            }
        }
        Ok(played)
    }

    /// Ends all processes, whatever they are doing.
    pub(crate) async fn abandon(&self) {
        for shop in &self.shops {
            shop.abandon().await;
        }
        if let Sender::Guarded { product, .. } = &self.sender {
            drop(product.kill().await);
        }
    }

    async fn together(self: &Arc<Self>, parts: &[Part], played: &mut Played) -> anyhow::Result<()> {
        self.story.heading("Each meets its own fault");
        let mut waiting = parts.iter().cloned();
        let mut tasks = JoinSet::new();
        loop {
            while tasks.len() < AT_ONCE
                && let Some(part) = waiting.next()
            {
                let stage = Arc::clone(self);
                if part.fault == Fault::ConcurrentRetries {
                    played.struck(part.fault, 1);
                }
                tasks.spawn(async move { stage.alone(&part).await });
            }
            match tasks.join_next().await {
                Some(ended) => played.ended.push(ended??),
                None => return Ok(()),
            }
        }
    }

    /// One action with faults that concern nobody else.
    async fn alone(self: &Arc<Self>, part: &Part) -> anyhow::Result<Ended> {
        self.announce(part).await?;
        let ended = if part.fault == Fault::ConcurrentRetries {
            self.all_at_once(&part.action).await?
        } else {
            self.carry(&part.action).await?
        };
        self.tell(&ended);
        Ok(ended)
    }

    async fn all_at_once(self: &Arc<Self>, action: &Action) -> anyhow::Result<Ended> {
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (stage, action) = (Arc::clone(self), action.clone());
            callers.spawn(async move { stage.carry(&action).await });
        }
        let mut answers = Vec::new();
        while let Some(answer) = callers.join_next().await {
            answers.push(answer??);
        }
        let first = answers.first().cloned().context("nobody called")?;
        if first.shown.is_some() {
            let receipts: BTreeSet<Option<&str>> =
                answers.iter().map(|ended| ended.shown.as_ref().and_then(Shown::receipt)).collect();
            ensure!(
                receipts.len() == 1,
                "{}: {CALLERS} callers got different receipts: {receipts:?}",
                action.id
            );
        }
        Ok(first)
    }

    /// The suppliers are down while these are sent.
    async fn refused(self: &Arc<Self>, parts: &[Part], played: &mut Played) -> anyhow::Result<()> {
        self.story.heading("A supplier is down: connections are refused");
        let down: Vec<&Shop> = self.shops.iter().filter(|shop| goes_to(parts, shop.who)).collect();
        for part in parts {
            self.announce(part).await?;
        }
        for shop in &down {
            shop.close().await?;
            self.story.event(shop.who.label(), Tone::Fault, "its process is gone");
        }
        let refused_before = self.refused_so_far();
        let mut tasks = self.start(parts);
        let seen = self.wait_for_refusals(parts, refused_before).await?;
        played.struck(Fault::ConnectionRefused, seen);
        for shop in &down {
            shop.open().await?;
            let text = "is back; a refused connection has sent nothing, so all are tried again";
            self.story.event(shop.who.label(), Tone::Plain, text);
        }
        self.finish(&mut tasks, played).await
    }

    fn refused_so_far(&self) -> usize {
        match &self.sender {
            Sender::Guarded { .. } => 0,
            Sender::Naive(naive) => naive.tally.refused.load(Ordering::Relaxed),
        }
    }

    /// Waits until each of them has met the closed port, and says how many have.
    async fn wait_for_refusals(&self, parts: &[Part], before: usize) -> anyhow::Result<usize> {
        let deadline = Instant::now() + SCENE_LIMIT;
        loop {
            let seen = match &self.sender {
                Sender::Naive(naive) => {
                    parts.len().min(naive.tally.refused.load(Ordering::Relaxed).saturating_sub(before))
                }
                Sender::Guarded { agent, .. } => {
                    let mut seen = 0;
                    for part in parts {
                        let shown = agent.look(&part.action.id).await?;
                        seen += usize::from(
                            shown.is_some_and(|shown| shown.outcomes().contains(&Some("not_sent"))),
                        );
                    }
                    seen
                }
            };
            if seen == parts.len() || Instant::now() >= deadline {
                return Ok(seen);
            }
            tokio::time::sleep(SCENE_POLL).await;
        }
    }

    /// The sender is killed once the suppliers have acted and before it has heard of it.
    async fn killed(self: &Arc<Self>, parts: &[Part], played: &mut Played) -> anyhow::Result<()> {
        self.story.heading("Killed between send and receipt");
        for part in parts {
            self.announce(part).await?;
        }
        let mut tasks = JoinSet::new();
        let mut handles = Vec::new();
        for part in parts {
            handles.push(self.spawn(&mut tasks, part));
        }
        let mut acted = Vec::new();
        for part in parts {
            let (trace, label) = (self.trace(), self.trace().of_action(&part.action));
            let shop = self.shop(part.action.supplier)?;
            acted.push(
                shop.wait_for_effect(SCENE_LIMIT, |effect| trace.of_effect(shop.who, effect) == label)
                    .await?,
            );
        }
        let caught =
            handles.iter().zip(acted).filter(|(handle, acted)| *acted && !handle.is_finished()).count();
        played.struck(Fault::KilledMidway, caught);
        match &self.sender {
            Sender::Guarded { product, .. } => {
                let pid = product.pid().await.unwrap_or_default();
                product.kill().await?;
                let text =
                    format!("kill -9 of process {pid}: {caught} done at the supplier, no receipt here");
                self.story.event("counterfoil", Tone::Fault, &text);
                self.release().await?;
                product.open().await?;
                let pid = product.pid().await.unwrap_or_default();
                let text = format!("is back as process {pid}, on the same ledger");
                self.story.event("counterfoil", Tone::Plain, &text);
            }
            Sender::Naive(naive) => {
                tasks.abort_all();
                while tasks.join_next().await.is_some() {}
                handles.iter().for_each(|_| naive.count_killed());
                let text =
                    format!("dies like by kill -9: {caught} done at the supplier, and it does not know");
                self.story.event("loop", Tone::Fault, &text);
                self.release().await?;
                tasks = self.start(parts);
                self.story.event("loop", Tone::Plain, "is back, and begins its list again");
            }
        }
        self.finish(&mut tasks, played).await
    }

    async fn release(&self) -> anyhow::Result<()> {
        for shop in &self.shops {
            shop.release().await?;
        }
        Ok(())
    }

    fn start(self: &Arc<Self>, parts: &[Part]) -> JoinSet<anyhow::Result<Ended>> {
        let mut tasks = JoinSet::new();
        for part in parts {
            self.spawn(&mut tasks, part);
        }
        tasks
    }

    fn spawn(
        self: &Arc<Self>,
        tasks: &mut JoinSet<anyhow::Result<Ended>>,
        part: &Part,
    ) -> tokio::task::AbortHandle {
        let (stage, action) = (Arc::clone(self), part.action.clone());
        tasks.spawn(async move { stage.carry(&action).await })
    }

    async fn finish(
        &self,
        tasks: &mut JoinSet<anyhow::Result<Ended>>,
        played: &mut Played,
    ) -> anyhow::Result<()> {
        while let Some(ended) = tasks.join_next().await {
            let ended = ended??;
            self.tell(&ended);
            played.ended.push(ended);
        }
        Ok(())
    }

    /// Asks once more for what is still open, and takes down how each action stands.
    async fn settle(&self, agent: &Agent, played: &mut Played) -> anyhow::Result<()> {
        let deadline = Instant::now() + HEAL_LIMIT;
        for ended in &mut played.ended {
            if ended.shown.as_ref().is_some_and(Shown::settled) {
                continue;
            }
            // Out of time: it stays as it is, and is counted as unsettled.
            if let Ok(shown) = tokio::time::timeout_at(deadline, agent.carry(&ended.action)).await {
                ended.shown = shown?;
                self.tell(ended);
            }
        }
        if let Some(held) = played.ended.iter().find(|ended| ended.shown.as_ref().is_some_and(Shown::held)) {
            self.story.heading("Two mistakes of the agent's own");
            agent.make_mistakes(&held.action).await?;
        }
        for ended in &mut played.ended {
            ended.shown = agent.look(&ended.action.id).await?;
        }
        Ok(())
    }

    /// Arms the script of this part and says what is going to happen.
    async fn announce(&self, part: &Part) -> anyhow::Result<()> {
        let shop = self.shop(part.action.supplier)?;
        let mark = self.trace().mark(&part.action);
        for fault in part.faults().filter_map(Fault::at_supplier) {
            shop.arm(&fault, &mark, if part.fault == Fault::KilledMidway { HELD_SENDS } else { 1 }).await?;
        }
        let faults: Vec<&str> = part.faults().map(Fault::words).collect();
        let text = format!("{}: {}", part.action.title, faults.join(", then "));
        self.story.event(&part.action.id, Tone::Fault, &text);
        Ok(())
    }

    async fn carry(&self, action: &Action) -> anyhow::Result<Ended> {
        let mut ended = Ended { action: action.clone(), shown: None, order: None };
        match &self.sender {
            Sender::Guarded { agent, .. } => ended.shown = agent.carry(action).await?,
            Sender::Naive(naive) => {
                ended.order = naive.carry(action, self.shop(action.supplier)?.address).await?;
            }
        }
        Ok(ended)
    }

    fn shop(&self, who: Supplier) -> anyhow::Result<&Shop> {
        self.shops.iter().find(|shop| shop.who == who).context("a supplier that was not started")
    }

    fn tell(&self, ended: &Ended) {
        let (tone, text) = match (&ended.shown, &ended.order) {
            (Some(shown), _) => tell_shown(shown),
            (None, Some(order)) => (Tone::Plain, format!("the loop was told {order}")),
            (None, None) => (Tone::Bad, "no answer".to_owned()),
        };
        self.story.event(&ended.action.id, tone, &text);
    }
}

fn tell_shown(shown: &Shown) -> (Tone, String) {
    let attempts = match shown.outcomes().len() {
        1 => "1 attempt".to_owned(),
        several => format!("{several} attempts"),
    };
    match shown.state() {
        "succeeded" => {
            let receipt = shown.receipt().unwrap_or("none");
            let how = if shown.receipt_recovered() { ", recovered after a lost reply" } else { "" };
            (Tone::Good, format!("done: receipt {receipt}, {attempts}{how}"))
        }
        "rejected" => (Tone::Plain, format!("rejected after {attempts}: nothing happened")),
        _ if shown.held() => (
            Tone::Held,
            format!("held after {attempts}: nobody can say whether it happened, so a person is asked"),
        ),
        state => (Tone::Quiet, format!("still {state} after {attempts}")),
    }
}

fn goes_to(parts: &[Part], who: Supplier) -> bool {
    parts.iter().any(|part| part.action.supplier == who)
}
