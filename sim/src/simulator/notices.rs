//! Webhooks: what destinations say by themselves, early, late, twice, or long after anybody waits; and what they say that
//! proves nothing, though it carries a good signature.

use counterfoil::operation::ResultBody;
use counterfoil::pointer::Pointer;
use counterfoil::state::State;
use counterfoil::verbs::{Heard, Said, Webhook};

use super::agenda::{Event, Op};
use super::episode::{Episode, account};
use super::site::Packet;
use super::tools::scope;

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;

/// A webhook on its way.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    /// What was sent under the reference that it repeats.
    op: Op,
    /// The tool whose secret signed it.
    signed_for: usize,
    event: u64,
    key: String,
    /// What it calls the record.
    names: String,
    vendor: u8,
    says: Says,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// The effect exists.
    Success,
    /// The request was received, whatever becomes of it.
    Received,
    /// Success, without the members that were declared.
    Half,
    /// Success, of a record with other values.
    Another,
}

impl Episode {
    /// The destination tells of an effect: mostly at once, now and then long after, twice, or not at all.
    pub(super) fn tell_of_effect(&mut self, packet: &Packet, reference: &str) {
        let Some(key) = self.listens(packet) else { return };
        if self.seed.chance(200) {
            return;
        }
        let (op, signed_for) = (packet.op, self.truths[packet.op].plan);
        let event = self.seed.next_u64();
        let (vendor, names) = (packet.vendor, reference.to_owned());
        let notice = Notice { op, signed_for, event, key, names, vendor, says: Says::Success };
        for _ in 0..=usize::from(self.seed.chance(300)) {
            let late = match self.seed.below(10) {
                0 => self.below(60 * HOUR),
                1 | 2 => self.below(HOUR),
                _ => self.below(10 * SECOND),
            };
            self.agenda.at(self.now + late, Event::Notified(Box::new(notice.clone())));
        }
    }

    /// The destination says something that proves nothing.
    pub(super) fn tell_of_request(&mut self, packet: &Packet) {
        let Some(key) = self.listens(packet) else { return };
        if !self.seed.chance(250) {
            return;
        }
        let says = [Says::Received, Says::Half, Says::Another, Says::Success];
        let says = self.seed.pick(&says).copied().unwrap_or(Says::Received);
        let own = self.truths[packet.op].plan;
        // Success is what another tool's destination says, which repeats our reference.
        let signed_for = if says == Says::Success { (own + 1) % self.plans.len() } else { own };
        let (event, names) = (self.seed.next_u64(), format!("po_of_somebody_else_{}", packet.op));
        let (op, vendor) = (packet.op, packet.vendor);
        let after = self.below(30 * SECOND);
        let notice = Notice { op, signed_for, event, key, names, vendor, says };
        self.agenda.at(self.now + after, Event::Notified(Box::new(notice)));
    }

    fn listens(&self, packet: &Packet) -> Option<String> {
        let site = &self.plans[self.truths[packet.op].plan].site;
        packet.key.clone().filter(|_| site.webhooks)
    }

    /// A webhook arrives, at whichever node is up.
    pub(super) fn notified(&mut self, notice: Box<Notice>) {
        let Some(node) = self.some_node() else {
            return self.agenda.at(self.now + SECOND, Event::Notified(notice));
        };
        let op = notice.op;
        let sku = self.truths[op].sku.clone();
        let theirs = if notice.says == Says::Another { "\"sugar\"".to_owned() } else { format!("\"{sku}\"") };
        let verb = Webhook {
            account: account(),
            id: self.truths[op].id.clone(),
            tool: self.plans[notice.signed_for].tool.name.clone(),
            said: Said {
                event: format!("sha256:{}", notice.event),
                reference: notice.key.clone(),
                success: notice.says != Says::Received,
                complete: notice.says != Says::Half,
                names: Some(notice.names.clone()),
                record: vec![(Pointer::parse("/sku").unwrap(), Some(theirs))],
                result: ResultBody {
                    status: None,
                    content_type: Some("application/json".to_owned()),
                    body: None,
                    size: 2,
                    digest: "sha256:of-the-webhook".to_owned(),
                    truncated: true,
                },
            },
            declared: self.world.declared(),
        };
        self.figures.webhooks += 1;
        let before = self.stored(op).cloned();
        let known = self.truths[op].heard.contains(&notice.event);
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| format!("a webhook says {:?}: {done:?}", notice.says));
        let Some(before) = before else { return };
        let Ok(heard) = done else { return self.fail(op, "a webhook was refused") };
        if known && heard != Heard::Repeated && heard != Heard::Unmatched {
            return self.fail(op, format!("one event was heard twice, the second time as {heard:?}"));
        }
        if heard != Heard::Unmatched {
            self.truths[op].heard.push(notice.event);
        }
        let Some(after) = self.stored(op) else { return };
        let proved = matches!(after.state, State::Succeeded(_)) || after.duplicate_suspected;
        let moved = after.state != before.state || after.unsettled() != before.unsettled();
        if notice.says != Says::Success || notice.signed_for != self.truths[op].plan {
            if moved || heard == Heard::Proof {
                self.fail(op, format!("a webhook that says {:?} proved something: {heard:?}", notice.says));
            }
            return;
        }
        let elsewhere = self.plans[self.truths[op].plan].vendor != notice.vendor
            || before.sent_scope() != Some(scope(notice.vendor).as_str());
        let past = before.receipt_expires_at.is_some_and(|end| self.store_now() >= end);
        // What is heard again was judged when it was heard first.
        if !proved && !elsewhere && !past && heard != Heard::Repeated {
            self.fail(op, format!("proof of success by a webhook was lost: {heard:?}"));
        }
    }
}
