//! The network between nodes and destinations: it delays, loses and, where that is promised to do no harm, copies.

use super::agenda::{Event, Work};
use super::episode::Episode;
use super::site::{Done, Packet, Reply};
use super::worker::Step;

/// The longest life of a request that nothing bounds.
const UNBOUNDED: i64 = 2 * 3_600 * 1_000;

impl Episode {
    /// The network: late, lost, or twice.
    pub(super) fn transmit(&mut self, packet: Packet) {
        let site = &self.plans[self.truths[packet.op].plan].site;
        let (faults, life, copies) = (site.faults, site.lifetime.unwrap_or(UNBOUNDED), site.copies);
        if self.seed.chance(faults / 10) {
            return;
        }
        let first = self.transit(life);
        if !copies || !self.seed.chance(faults / 4) {
            return self.agenda.at(self.now + first, Event::Arrives(Box::new(packet)));
        }
        self.figures.copies += 1;
        let second = self.transit(life);
        let second = if self.seed.chance(500) { life - 1 - self.below(life / 4) } else { second };
        let answered_first = self.seed.chance(500);
        let one = Packet { copied: true, ..packet };
        let other = Packet { sender: None, ..one.clone() };
        let (early, late) = if answered_first { (one, other) } else { (other, one) };
        self.agenda.at(self.now + first, Event::Arrives(Box::new(early)));
        self.agenda.at(self.now + second.max(first), Event::Arrives(Box::new(late)));
    }

    fn transit(&mut self, life: i64) -> i64 {
        // Above all while the clock of the host is wrong: that is when a wait may be cut short.
        let slow = if self.clock_was_wrong && self.offset != 0 { 40 } else { 5 };
        match self.seed.below(100) {
            0 => life - 1 - self.below(life / 8),
            roll if roll < slow => self.below(life.min(10 * 60_000)),
            roll if roll < slow + 10 => self.below(5_000).min(life - 1),
            _ => 1 + self.below(80),
        }
    }

    /// A request reaches its destination.
    pub(super) fn arrives(&mut self, packet: Packet) {
        let (plan, refused) = (self.truths[packet.op].plan, self.truths[packet.op].refused);
        self.tell_of_request(&packet);
        let site = &mut self.plans[plan].site;
        let done = site.arrives(&packet, refused, self.now, &mut self.seed);
        match done {
            Done::Answered(reply) => self.reply(&packet, reply),
            Done::Effect(reference, reply) => {
                self.effect(&packet, &reference);
                self.reply(&packet, reply);
            }
            Done::Queued(wait, reply) => {
                self.reply(&packet, reply);
                self.agenda.at(self.now + wait, Event::Applies(Box::new(packet)));
            }
        }
    }

    /// What was accepted takes effect.
    pub(super) fn applies(&mut self, packet: &Packet) {
        let plan = self.truths[packet.op].plan;
        let reference = self.plans[plan].site.record_of(packet);
        self.effect(packet, &reference);
    }

    fn effect(&mut self, packet: &Packet, reference: &str) {
        let (plan, now) = (self.truths[packet.op].plan, self.now);
        self.plans[plan].site.keep(packet, reference, now, &mut self.seed);
        self.figures.effects += 1;
        self.tell_of_effect(packet, reference);
        let (number, vendor) = (packet.number, packet.vendor);
        self.note(Some(packet.op), |_| format!("EFFECT {reference} by attempt {number} at vendor {vendor}"));
        self.judge_effect(packet.op, reference, &packet.body);
    }

    fn reply(&mut self, packet: &Packet, reply: Reply) {
        let Some((node, incarnation, task)) = packet.sender else { return };
        if let Reply::Silence = reply {
            return;
        }
        let after = match self.seed.below(20) {
            0 => self.below(90_000),
            1 => self.below(25_000),
            _ => 1 + self.below(80),
        };
        let by_worker = self.plans[self.truths[packet.op].plan].wire.is_some();
        let event = match by_worker {
            true => Event::Worker(node, incarnation, Step::Answer(task, reply)),
            false => Event::Node(node, incarnation, Work::Answer(task, reply)),
        };
        self.agenda.at(self.now + after, event);
    }
}
