//! Destinations of every recovery class. Each does exactly what its declaration promises, and nothing better.

use std::collections::HashMap;

use counterfoil::http::classify::{Answer, AnswerBody, BodyEnd};
use counterfoil::operation::LookUpAnswer;
use counterfoil::recovery::StoredErrors;
use counterfoil::time::Timestamp;

use super::agenda::{Instant, Op};
use crate::seed::Seed;

/// How a destination protects from a second effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Class {
    /// Recognises a key for a while.
    Key,
    /// Refuses a second record with the same reference.
    Reference,
    /// Can be asked, and its answer is complete and current.
    LookUp,
    /// Can be asked, and may not know yet.
    Search,
    /// Nothing.
    Nothing,
    /// The ledger's own database.
    Transaction,
}

impl Class {
    /// Every one.
    pub(super) const ALL: [Self; 6] =
        [Self::Key, Self::Reference, Self::LookUp, Self::Search, Self::Nothing, Self::Transaction];

    /// In words.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Reference => "unique reference",
            Self::LookUp => "look-up",
            Self::Search => "lagging search",
            Self::Nothing => "none",
            Self::Transaction => "transaction",
        }
    }
}

/// A request under way.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// What it carries out.
    pub(super) op: Op,
    /// Which attempt.
    pub(super) number: u32,
    /// Which sender waits for the answer: node, incarnation, task. A copy has none.
    pub(super) sender: Option<(usize, u32, u64)>,
    /// The key or reference.
    pub(super) key: Option<String>,
    /// The vendor account of its credential.
    pub(super) vendor: u8,
    /// What is sent.
    pub(super) body: String,
    /// When its first byte went out.
    pub(super) written: Instant,
    /// The network makes a second one of it: then nothing of it is ever answered negatively.
    pub(super) copied: bool,
}

/// What comes back.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// An answer.
    Answer(Box<Answer>),
    /// The connection ended.
    Reset,
    /// Nothing, ever.
    Silence,
}

/// What a destination keeps under one key or reference of one vendor account.
#[derive(Clone, Debug, Default)]
struct Shelf {
    first: Option<Instant>,
    record: Option<String>,
    failure: Option<u16>,
}

/// A record, and from when on a look-up sees it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// What the destination calls it.
    pub(super) reference: String,
    /// From when on a search shows it.
    pub(super) visible_from: Instant,
}

/// One destination and what is true of it.
pub(super) struct Site {
    pub(super) class: Class,
    /// How long a key or reference is remembered from its first arrival.
    pub(super) memory: Option<i64>,
    /// The longest life of a request after its first byte.
    pub(super) lifetime: Option<i64>,
    /// How long an accepted request may wait.
    pub(super) queue: i64,
    /// How long a search lags.
    pub(super) lag: i64,
    pub(super) stored_errors: StoredErrors,
    pub(super) rolls_back: bool,
    /// How many of a thousand requests meet a fault.
    pub(super) faults: u32,
    /// From when to when nothing works there.
    pub(super) outage: (Instant, Instant),
    /// From when to when look-ups fail.
    pub(super) blind: (Instant, Instant),
    /// From when to when the credential is refused.
    pub(super) locked: (Instant, Instant),
    /// Whether the network may copy a request.
    pub(super) copies: bool,
    /// Whether it says by itself what it did.
    pub(super) webhooks: bool,
    shelves: HashMap<(u8, String), Shelf>,
    records: HashMap<(u8, String), Vec<Record>>,
    made: u64,
}

/// What a request led to at its destination.
pub(super) enum Done {
    /// Nothing happens any more.
    Answered(Reply),
    /// It takes effect now, under this name, and this is the answer.
    Effect(String, Reply),
    /// It takes effect after so long, and this is the answer.
    Queued(i64, Reply),
}

impl Site {
    /// A destination of a class, with nothing in it.
    pub(super) fn new(class: Class) -> Self {
        Self {
            class,
            memory: None,
            lifetime: None,
            queue: 0,
            lag: 0,
            stored_errors: StoredErrors::All,
            rolls_back: false,
            faults: 0,
            outage: (0, 0),
            blind: (0, 0),
            locked: (0, 0),
            copies: false,
            webhooks: false,
            shelves: HashMap::new(),
            records: HashMap::new(),
            made: 0,
        }
    }

    fn within(span: (Instant, Instant), now: Instant) -> bool {
        span.0 <= now && now < span.1
    }

    fn name(packet: &Packet) -> (u8, String) {
        (packet.vendor, packet.key.clone().unwrap_or_else(|| format!("{}", packet.op)))
    }

    /// A request arrives.
    pub(super) fn arrives(&mut self, packet: &Packet, refused: bool, now: Instant, seed: &mut Seed) -> Done {
        // A destination that bounds the life of a request drops one that is older.
        if self.lifetime.is_some_and(|most| now - packet.written > most) {
            return Done::Answered(Reply::Silence);
        }
        if Self::within(self.outage, now) && !packet.copied {
            return Done::Answered(if seed.chance(500) { error(503, "down") } else { Reply::Reset });
        }
        if let Some(early) = self.before_work(packet, refused, now, seed) {
            return Done::Answered(early);
        }
        let done = match self.class {
            Class::Key => self.keyed(packet, now, seed),
            Class::Reference => self.referenced(packet, now, seed),
            Class::LookUp | Class::Search | Class::Nothing | Class::Transaction => self.works(packet, seed),
        };
        self.lose_answer(done, packet, seed)
    }

    /// What is answered before anything is looked at. What the network copies meets none of it.
    fn before_work(&self, packet: &Packet, refused: bool, now: Instant, seed: &mut Seed) -> Option<Reply> {
        if packet.copied {
            return None;
        }
        if Self::within(self.locked, now) {
            return Some(error(401, "no"));
        }
        if refused {
            return Some(error(422, "a week that is over"));
        }
        if !seed.chance(self.faults) {
            return None;
        }
        Some(match seed.below(8) {
            0 => Reply::Reset,
            1 => Reply::Silence,
            2 => error(503, "busy"),
            3 => error(502, "bad gateway"),
            4 => error(500, "before anything"),
            5 | 6 => {
                let most = if seed.chance(200) { 200_000 } else { 20_000 };
                let wait = seed.below(most);
                later(429, std::time::Duration::from_millis(wait))
            }
            // A check in front of the memory of keys: a refusal of this copy alone.
            _ => match seed.chance(300) {
                true => error(400, "the schema was changed this minute"),
                false => return None,
            },
        })
    }

    fn keyed(&mut self, packet: &Packet, now: Instant, seed: &mut Seed) -> Done {
        let (memory, stored_errors, rolls_back) = (self.memory, self.stored_errors, self.rolls_back);
        let faults = self.faults;
        let shelf = self.shelves.entry(Self::name(packet)).or_default();
        if memory.zip(shelf.first).is_some_and(|(memory, first)| now >= first + memory) {
            *shelf = Shelf::default();
        }
        shelf.first.get_or_insert(now);
        if let Some(record) = &shelf.record {
            // By design a failed request goes on where it stopped, and stored failures are said again.
            return match (shelf.failure, stored_errors) {
                (Some(status), StoredErrors::All) => Done::Answered(error(status, "stored")),
                (_, StoredErrors::Reruns) | (None, StoredErrors::All | StoredErrors::SuccessOnly) => {
                    Done::Answered(created(record))
                }
                (Some(_), StoredErrors::SuccessOnly) => {
                    shelf.record = None;
                    shelf.failure = None;
                    self.works(packet, seed)
                }
            };
        }
        if let (Some(status), StoredErrors::All) = (shelf.failure, stored_errors) {
            return Done::Answered(error(status, "stored"));
        }
        // In the middle of work.
        if !packet.copied && seed.chance(faults / 4) {
            let status = if seed.chance(500) { 500 } else { 503 };
            let leaves = match stored_errors {
                StoredErrors::SuccessOnly => !rolls_back,
                StoredErrors::All | StoredErrors::Reruns => seed.chance(500),
            };
            shelf.failure = Some(status);
            if !leaves {
                return Done::Answered(error(status, "in the middle"));
            }
            return match self.works(packet, seed) {
                Done::Effect(reference, _) => {
                    Done::Effect(reference, error(status, "in the middle, and it is there"))
                }
                other @ (Done::Answered(_) | Done::Queued(..)) => other,
            };
        }
        shelf.failure = None;
        self.works(packet, seed)
    }

    fn referenced(&mut self, packet: &Packet, now: Instant, seed: &mut Seed) -> Done {
        let memory = self.memory;
        let shelf = self.shelves.entry(Self::name(packet)).or_default();
        if memory.zip(shelf.first).is_some_and(|(memory, first)| now >= first + memory) {
            *shelf = Shelf::default();
        }
        shelf.first.get_or_insert(now);
        if shelf.record.is_some() {
            return Done::Answered(answer(409, r#"{"error":{"code":"already_exists"}}"#));
        }
        self.works(packet, seed)
    }

    /// The request is carried out, now or from a queue.
    fn works(&mut self, packet: &Packet, seed: &mut Seed) -> Done {
        if self.queue > 0 && self.class == Class::LookUp {
            let wait = i64::try_from(seed.below(u64::try_from(self.queue).unwrap_or(0))).unwrap_or(0);
            return Done::Queued(wait, answer(202, r#"{"status":"queued"}"#));
        }
        let reference = self.record_of(packet);
        let reply = created(&reference);
        Done::Effect(reference, reply)
    }

    /// Gives the new record its name.
    pub(super) fn record_of(&mut self, packet: &Packet) -> String {
        self.made += 1;
        let reference = format!("po_{}_{}", packet.op, self.made);
        self.shelves.entry(Self::name(packet)).or_default().record = Some(reference.clone());
        reference
    }

    /// The record is there from `now` on.
    pub(super) fn keep(&mut self, packet: &Packet, reference: &str, now: Instant, seed: &mut Seed) {
        let lag = if self.lag > 0 { seed.below(u64::try_from(self.lag).unwrap_or(0)) } else { 0 };
        let record =
            Record { reference: reference.to_owned(), visible_from: now + i64::try_from(lag).unwrap_or(0) };
        self.records.entry(Self::name(packet)).or_default().push(record);
    }

    fn lose_answer(&self, done: Done, packet: &Packet, seed: &mut Seed) -> Done {
        // What a copy is answered reaches nobody; the first one of two is never answered.
        if packet.sender.is_none() || !seed.chance(self.faults) {
            return done;
        }
        let lost = |reply: Reply, seed: &mut Seed| match seed.below(7) {
            0 => Reply::Reset,
            1 => Reply::Silence,
            2 => error(502, "bad gateway"),
            3 => error(504, "no answer"),
            4 => cut(&reply),
            5 => garbage(),
            _ => reply,
        };
        match done {
            Done::Answered(reply) => Done::Answered(lost(reply, seed)),
            Done::Effect(reference, reply) => Done::Effect(reference, lost(reply, seed)),
            Done::Queued(wait, reply) => Done::Queued(wait, lost(reply, seed)),
        }
    }

    /// A look-up is answered.
    pub(super) fn asked(
        &self,
        vendor: u8,
        key: &str,
        now: Instant,
        seed: &mut Seed,
    ) -> (LookUpAnswer, Option<String>) {
        if Self::within(self.blind, now) || Self::within(self.outage, now) {
            return (LookUpAnswer::Failed, None);
        }
        if seed.chance(self.faults / 3) {
            return (if seed.chance(500) { LookUpAnswer::Failed } else { LookUpAnswer::Unclear }, None);
        }
        let visible: Vec<&Record> = self
            .records
            .get(&(vendor, key.to_owned()))
            .into_iter()
            .flatten()
            .filter(|record| record.visible_from <= now)
            .collect();
        match visible.as_slice() {
            [] => (LookUpAnswer::Absent, None),
            [one] => (LookUpAnswer::Found, Some(one.reference.clone())),
            [_, _, ..] => (LookUpAnswer::Several, None),
        }
    }
}

fn answer(status: u16, body: &str) -> Reply {
    Reply::Answer(Box::new(Answer {
        status,
        content_type: Some("application/json".to_owned()),
        encoded: false,
        retry_after: None,
        body: AnswerBody {
            bytes: body.as_bytes().to_vec(),
            held: true,
            size: body.len() as u64,
            digest: "sha256:of-the-body".to_owned(),
            end: BodyEnd::Complete,
        },
    }))
}

fn error(status: u16, what: &str) -> Reply {
    answer(status, &format!(r#"{{"error":"{what}"}}"#))
}

fn created(reference: &str) -> Reply {
    answer(201, &format!(r#"{{"id":"{reference}"}}"#))
}

fn later(status: u16, wait: std::time::Duration) -> Reply {
    match error(status, "later") {
        Reply::Answer(answer) => Reply::Answer(Box::new(Answer { retry_after: Some(wait), ..*answer })),
        other @ (Reply::Reset | Reply::Silence) => other,
    }
}

fn cut(reply: &Reply) -> Reply {
    match reply {
        Reply::Answer(answer) => {
            let mut answer = answer.clone();
            let half = answer.body.bytes.len() / 2;
            answer.body.bytes.truncate(half);
            answer.body.end = BodyEnd::Cut;
            Reply::Answer(answer)
        }
        Reply::Reset | Reply::Silence => reply.clone(),
    }
}

fn garbage() -> Reply {
    match answer(200, "<html>welcome</html>") {
        Reply::Answer(mut answer) => {
            answer.content_type = Some("text/html".to_owned());
            Reply::Answer(answer)
        }
        other @ (Reply::Reset | Reply::Silence) => other,
    }
}

/// Store time of an instant of the episode, on a clock that is `offset` ahead.
pub(super) fn store_time(now: Instant, offset: i64) -> Timestamp {
    // 2026-11-29T14:02:11.020Z
    Timestamp::from_millis(1_795_960_931_020 + now + offset)
}
