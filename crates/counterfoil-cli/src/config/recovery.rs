//! The section `recovery` of a tool: which facts belong to which kind, and which of them make no sense together.

use std::ops::Range;
use std::time::Duration;

use counterfoil::KeyFormat;
use counterfoil::recovery::{
    ASSUMED_LIFETIME, DEFAULT_LOOKUP_FOR, DEFAULT_SKEW, KeyFacts, LookUpBy, LookUpFacts, LookUpRequest,
    NoneFacts, Place, Recovery, ReferenceFacts, StoredErrors,
};

use super::duration::spell;
use super::file::{Kind, LookUpValue, RecoverySection, UniqueFor};
use super::http::{Request, read_place, read_url};
use super::read::{length, member, members, positive};
use super::report::Checks;
use super::shape::At;
use super::template::Slot;

/// What was read, and which facts are assumed because nothing was declared.
pub struct ReadRecovery {
    /// For the library.
    pub recovery: Recovery,
    /// What `tool plan` must print as assumed.
    pub assumed: Vec<Assumption>,
}

/// A fact that holds by default and that the destination may not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// `request_lifetime` is 15 minutes.
    RequestLifetime,
    /// A used reference stays refused for ever.
    UniqueForEver,
    /// The destination replays stored failures.
    StoredErrors,
}

/// Who carries the tool out, as far as its recovery depends on it.
#[derive(Clone, Copy)]
pub enum Carried<'s> {
    /// This request.
    Http(&'s Request),
    /// The application's own code, which puts key or reference where it belongs and looks up itself.
    Worker,
    /// Nobody that is known: another finding says so.
    Nobody,
}

/// The reader of one section.
struct Reader<'s, 'c, 't> {
    section: &'s RecoverySection,
    carrier: Carried<'s>,
    lease: Duration,
    key: &'s str,
    checks: &'c mut Checks<'t>,
}

/// Reads the section; `None` where a fact without which there is no recovery is missing or unreadable.
pub fn read(
    section: &RecoverySection,
    carrier: Carried<'_>,
    lease: Duration,
    key: &str,
    checks: &mut Checks<'_>,
) -> Option<ReadRecovery> {
    let mut reader = Reader { section, carrier, lease, key, checks };
    reader.refuse_foreign_facts();
    match section.kind.get() {
        Kind::Transaction => Some(ReadRecovery { recovery: Recovery::Transaction, assumed: Vec::new() }),
        Kind::None => Some(ReadRecovery { recovery: reader.none(), assumed: Vec::new() }),
        Kind::IdempotencyKey => reader.idempotency_key(),
        Kind::UniqueReference => reader.unique_reference(),
        Kind::Lookup => reader.lookup_kind(),
    }
}

/// The facts of a kind.
fn facts(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Transaction => &[],
        Kind::None => &["request_lifetime", "queue_time"],
        Kind::IdempotencyKey => &[
            "key",
            "key_format",
            "key_max_len",
            "retention",
            "request_lifetime",
            "stored_errors",
            "rolls_back",
            "skew",
            "lookup",
            "must_match",
            "lookup_for",
        ],
        Kind::UniqueReference => &[
            "reference",
            "key_format",
            "key_max_len",
            "unique_for",
            "request_lifetime",
            "skew",
            "lookup",
            "must_match",
            "lookup_for",
        ],
        Kind::Lookup => &[
            "reference",
            "key_format",
            "key_max_len",
            "authoritative",
            "request_lifetime",
            "queue_time",
            "skew",
            "lookup",
            "must_match",
            "lookup_for",
        ],
    }
}

/// The facts that a section holds, with their places.
fn given(section: &RecoverySection) -> Vec<(&'static str, Range<usize>)> {
    fn span<T>(value: Option<&At<T>>) -> Option<Range<usize>> {
        value.map(At::span)
    }
    let all = [
        ("key", span(section.key.as_ref())),
        ("reference", span(section.reference.as_ref())),
        ("key_format", span(section.key_format.as_ref())),
        ("key_max_len", span(section.key_max_len.as_ref())),
        ("retention", span(section.retention.as_ref())),
        ("request_lifetime", span(section.request_lifetime.as_ref())),
        ("stored_errors", span(section.stored_errors.as_ref())),
        ("rolls_back", span(section.rolls_back.as_ref())),
        ("unique_for", span(section.unique_for.as_ref())),
        ("authoritative", span(section.authoritative.as_ref())),
        ("queue_time", span(section.queue_time.as_ref())),
        ("skew", span(section.skew.as_ref())),
        ("must_match", span(section.must_match.as_ref())),
        ("lookup_for", span(section.lookup_for.as_ref())),
        ("lookup", span(section.lookup.as_ref())),
    ];
    all.into_iter().filter_map(|(name, span)| Some((name, span?))).collect()
}

impl Reader<'_, '_, '_> {
    fn sub(&self, name: &str) -> String {
        format!("{}.{name}", self.key)
    }

    fn error(&mut self, at: Range<usize>, name: &str, message: impl Into<String>, hint: impl Into<String>) {
        let key = self.sub(name);
        self.checks.error(at, &key, message, hint);
    }

    /// A fact that its kind does not know would be accepted and ignored.
    fn refuse_foreign_facts(&mut self) {
        let kind = *self.section.kind.get();
        for (name, span) in given(self.section) {
            if !facts(kind).contains(&name) {
                let hint = match facts(kind) {
                    [] => "this kind takes no facts".to_owned(),
                    known => format!("this kind takes {}", known.join(", ")),
                };
                self.error(span, name, format!("`{name}` is no fact of kind `{}`", kind.label()), hint);
            }
        }
    }

    fn missing(&mut self, name: &str, hint: &str) {
        let message = format!("kind `{}` needs `{name}`", self.section.kind.get().label());
        self.error(self.section.kind.span(), name, message, hint);
    }

    fn none(&mut self) -> Recovery {
        Recovery::None(NoneFacts {
            request_lifetime: self.lifetime(),
            queue_time: length(self.section.queue_time.as_ref(), Duration::ZERO),
        })
    }

    fn idempotency_key(&mut self) -> Option<ReadRecovery> {
        let mut assumed = Vec::new();
        let key = match &self.section.key {
            Some(text) => self.place(text, "key"),
            None => {
                self.missing("key", "say where it goes: key = \"header:Idempotency-Key\"");
                None
            }
        };
        if self.section.retention.is_none() {
            self.missing("retention", "say how long the destination remembers a key: retention = \"24h\"");
        }
        let (key_format, key_max_len) = self.format();
        let lifetime = self.assumed_lifetime(&mut assumed);
        if self.section.stored_errors.is_none() {
            assumed.push(Assumption::StoredErrors);
        }
        let stored_errors = self.section.stored_errors.as_ref().map(|value| *value.get()).unwrap_or_default();
        self.check_rolls_back(stored_errors);
        let (lookup, lookup_for) = self.look_up();
        let retention = self.section.retention.as_ref()?;
        let retention_key = self.sub("retention");
        let remembered = positive(Some(retention), Duration::ZERO, &retention_key, self.checks);
        self.check_window(retention.span(), "retention", remembered, lifetime);
        let facts = KeyFacts {
            key: key?,
            key_format,
            key_max_len,
            retention: remembered,
            request_lifetime: lifetime,
            stored_errors,
            rolls_back: self.section.rolls_back.as_ref().is_some_and(|value| *value.get()),
            skew: length(self.section.skew.as_ref(), DEFAULT_SKEW),
            lookup,
            lookup_for,
        };
        Some(ReadRecovery { recovery: Recovery::IdempotencyKey(facts), assumed })
    }

    fn unique_reference(&mut self) -> Option<ReadRecovery> {
        let mut assumed = Vec::new();
        let reference = self.reference();
        let (key_format, key_max_len) = self.format();
        let lifetime = self.assumed_lifetime(&mut assumed);
        let unique_for = match self.section.unique_for.as_ref().map(|value| (value.get(), value.span())) {
            None => {
                assumed.push(Assumption::UniqueForEver);
                None
            }
            Some((UniqueFor::Forever, _)) => None,
            Some((UniqueFor::Length(unique), at)) => {
                self.check_window(at, "unique_for", unique.0, lifetime);
                Some(unique.0)
            }
        };
        let (lookup, lookup_for) = self.look_up();
        if self.section.lookup.is_none() {
            self.missing(
                "lookup",
                "its conflict answer only says that the record exists: say how to fetch it",
            );
        }
        let facts = ReferenceFacts {
            reference: reference?,
            key_format,
            key_max_len,
            unique_for,
            request_lifetime: lifetime,
            skew: length(self.section.skew.as_ref(), DEFAULT_SKEW),
            lookup,
            lookup_for,
        };
        Some(ReadRecovery { recovery: Recovery::UniqueReference(facts), assumed })
    }

    fn lookup_kind(&mut self) -> Option<ReadRecovery> {
        let reference = self.reference();
        let (key_format, key_max_len) = self.format();
        let (lookup, lookup_for) = self.look_up();
        if self.section.lookup.is_none() {
            self.missing(
                "lookup",
                "lookup = { method = \"GET\", url = \"…{reference}\", found = \"/items/0/id\" }",
            );
        }
        let request_lifetime = self.lifetime();
        if let Some(authoritative) = &self.section.authoritative
            && *authoritative.get()
            && request_lifetime.is_none()
        {
            let key = self.sub("authoritative");
            let message = "without `request_lifetime` nothing bounds a request, so a look-up that finds nothing never counts";
            self.checks.warning(
                authoritative.span(),
                &key,
                message,
                "declare how old a request the destination still executes",
            );
        }
        self.check_miss_can_come(request_lifetime, lookup_for);
        let facts = LookUpFacts {
            reference: reference?,
            key_format,
            key_max_len,
            lookup: lookup?,
            authoritative: self.section.authoritative.as_ref().is_some_and(|value| *value.get()),
            request_lifetime,
            queue_time: length(self.section.queue_time.as_ref(), Duration::ZERO),
            skew: length(self.section.skew.as_ref(), DEFAULT_SKEW),
            lookup_for,
        };
        Some(ReadRecovery { recovery: Recovery::LookUp(facts), assumed: Vec::new() })
    }

    fn place(&mut self, text: &At<String>, name: &str) -> Option<Place> {
        let key = self.sub(name);
        let place = read_place(text, &key, self.checks)?;
        match self.carrier {
            Carried::Http(request) => request.check_place(text, &place, &key, self.checks),
            Carried::Worker if place != Place::Worker => {
                let message = "your own code carries this tool out: only it can put the text anywhere";
                let hint = format!("write {name} = \"worker\"; the claim holds the text to send");
                self.checks.error(text.span(), &key, message, hint);
            }
            Carried::Worker | Carried::Nobody => {}
        }
        Some(place)
    }

    fn reference(&mut self) -> Option<Place> {
        match &self.section.reference {
            Some(text) => self.place(text, "reference"),
            None => {
                self.missing("reference", "say where it goes: reference = \"body:/client_reference\"");
                None
            }
        }
    }

    fn lifetime(&mut self) -> Option<Duration> {
        let key = self.sub("request_lifetime");
        let value = self.section.request_lifetime.as_ref()?;
        Some(positive(Some(value), Duration::ZERO, &key, self.checks))
    }

    fn assumed_lifetime(&mut self, assumed: &mut Vec<Assumption>) -> Duration {
        self.lifetime().unwrap_or_else(|| {
            assumed.push(Assumption::RequestLifetime);
            ASSUMED_LIFETIME
        })
    }

    /// A derived text has one length; one that does not fit would be refused at every prepare.
    fn format(&mut self) -> (KeyFormat, Option<u32>) {
        let format = self.section.key_format.as_ref().map(|value| *value.get()).unwrap_or_default();
        let Some(value) = &self.section.key_max_len else { return (format, None) };
        let most = u32::try_from(*value.get()).unwrap_or(u32::MAX);
        let needs = match format {
            KeyFormat::Hex32 => 32,
            KeyFormat::Uuid => 36,
            KeyFormat::Base64Url22 => 22,
            KeyFormat::Quoted => 34,
            KeyFormat::Raw => 1,
        };
        if most < needs {
            let message = format!("`{format}` is {needs} bytes long, which is more than {most}");
            let hint =
                if most >= 22 { "write key_format = \"base64url22\"" } else { "no format is that short" };
            self.error(value.span(), "key_max_len", message, hint);
        }
        (format, Some(most))
    }

    fn check_rolls_back(&mut self, stored_errors: StoredErrors) {
        let rolls_back = self.section.rolls_back.as_ref();
        match (stored_errors, rolls_back) {
            (StoredErrors::All | StoredErrors::Reruns, Some(value)) => {
                let hint = "remove it, or say what the destination stores";
                self.error(
                    value.span(),
                    "rolls_back",
                    "only `stored_errors = \"success_only\"` asks for it",
                    hint,
                );
            }
            (StoredErrors::SuccessOnly, value) if !value.is_some_and(|value| *value.get()) => {
                let key = self.sub("stored_errors");
                let at = self.section.stored_errors.as_ref().map_or(0..0, At::span);
                let message =
                    "a failed request may leave something behind, so a lost reply is held for a person";
                let hint = "if a failure leaves nothing behind at the destination, write rolls_back = true";
                self.checks.warning(at, &key, message, hint);
            }
            (StoredErrors::SuccessOnly, _) | (StoredErrors::All | StoredErrors::Reruns, None) => {}
        }
    }

    /// Half the lease is the latest first byte; from then on a request may be under way for its whole life.
    fn check_window(&mut self, at: Range<usize>, name: &str, memory: Duration, lifetime: Duration) {
        let skew = length(self.section.skew.as_ref(), DEFAULT_SKEW);
        let needed = lifetime + skew + self.lease / 2;
        if memory <= needed {
            let message = format!(
                "the window for another send never opens: {} is not longer than request_lifetime {} + skew {} + half the lease {}",
                spell(memory),
                spell(lifetime),
                spell(skew),
                spell(self.lease / 2)
            );
            let hint = "declare a shorter request_lifetime if the destination refuses older requests, or another kind";
            self.error(at, name, message, hint);
        }
    }

    fn look_up(&mut self) -> (Option<LookUpBy>, Duration) {
        let lookup_for = length(self.section.lookup_for.as_ref(), DEFAULT_LOOKUP_FOR);
        let Some(value) = &self.section.lookup else {
            for (name, at) in given(self.section) {
                if matches!(name, "must_match" | "lookup_for")
                    && facts(*self.section.kind.get()).contains(&name)
                {
                    self.error(
                        at,
                        name,
                        "there is no look-up that it belongs to",
                        "declare `lookup`, or remove it",
                    );
                }
            }
            return (None, lookup_for);
        };
        let section = match value.get() {
            LookUpValue::Request(section) => section,
            LookUpValue::Worker => return (self.worker_look_up(value.span()), lookup_for),
        };
        if let Carried::Worker = self.carrier {
            let message = "your own code carries this tool out, and only it can look up";
            let hint = "write lookup = \"worker\": a worker asks under a claim in mode `investigate`";
            self.error(value.span(), "lookup", message, hint);
        }
        let method = section.method.as_ref().map_or("GET", |method| method.get());
        if !matches!(method, "GET" | "POST") {
            let at = section.method.as_ref().map_or(value.span(), At::span);
            self.error(at, "lookup.method", "a look-up changes nothing", "write \"GET\" or \"POST\"");
        }
        self.check_look_up_url(&section.url);
        let (found_key, count_key, match_key) =
            (self.sub("lookup.found"), self.sub("lookup.count"), self.sub("must_match"));
        let found = member(&section.found, &found_key, self.checks);
        let count =
            section.count.as_ref().and_then(|text| super::read::pointer(text, &count_key, self.checks));
        let must_match = members(self.section.must_match.as_ref().map(At::get), &match_key, self.checks);
        let request = found.map(|found| {
            LookUpBy::Http(Box::new(LookUpRequest {
                method: method.to_owned(),
                url: section.url.get().clone(),
                found,
                count,
                must_match,
            }))
        });
        (request, lookup_for)
    }

    /// The worker asks, and compares what it finds.
    fn worker_look_up(&mut self, at: Range<usize>) -> Option<LookUpBy> {
        if let Carried::Http(_) = self.carrier {
            let message = "`worker` is for tools that a worker carries out";
            self.error(at, "lookup", message, "declare the request that finds the record");
            return None;
        }
        if let Some(must_match) = &self.section.must_match {
            let message = "a worker looks up itself, so nothing here could compare the record";
            let hint = "compare in your code, and report `unknown` for a record that is not yours";
            self.error(must_match.span(), "must_match", message, hint);
        }
        Some(LookUpBy::Worker)
    }

    /// A miss counts from an instant on; look-ups that end before it can never settle one.
    fn check_miss_can_come(&mut self, lifetime: Option<Duration>, lookup_for: Duration) {
        let authoritative = self.section.authoritative.as_ref().is_some_and(|value| *value.get());
        let Some(lifetime) = lifetime.filter(|_| authoritative) else { return };
        let queue = length(self.section.queue_time.as_ref(), Duration::ZERO);
        let skew = length(self.section.skew.as_ref(), DEFAULT_SKEW);
        let wait = self.lease / 2 + lifetime + queue + skew;
        if lookup_for > wait {
            return;
        }
        let given = self.section.lookup_for.as_ref().map(At::span);
        let at = given.or_else(|| self.section.request_lifetime.as_ref().map(At::span)).unwrap_or(0..0);
        let message = format!(
            "look-ups end before a miss can count: {} is not longer than half the lease {} + request_lifetime {} + \
             queue_time {} + skew {}",
            spell(lookup_for),
            spell(self.lease / 2),
            spell(lifetime),
            spell(queue),
            spell(skew)
        );
        let key = self.sub("lookup_for");
        self.checks.warning(at, &key, message, "declare a longer lookup_for, or a shorter request_lifetime");
    }

    fn check_look_up_url(&mut self, url: &At<String>) {
        let allow_private = match self.carrier {
            Carried::Http(request) => request.declaration.allow_private,
            Carried::Worker | Carried::Nobody => false,
        };
        let key = self.sub("lookup.url");
        let Some(template) = read_url(url, allow_private, &key, self.checks) else { return };
        for (slot, _) in &template.slots {
            if let Slot::Named(name) = slot {
                let hint = "write `{reference}` for the text that was sent, `{/pointer}` for an argument";
                self.checks.error(url.span(), &key, format!("nothing fills `{{{name}}}`"), hint);
            }
        }
        if let Some(authoritative) = &self.section.authoritative
            && *authoritative.get()
            && !template.names_reference()
        {
            let message =
                "a look-up without `{reference}` cannot be authoritative: it does not ask for this operation";
            self.error(
                authoritative.span(),
                "authoritative",
                message,
                "put `{reference}` into the look-up's url",
            );
        }
    }
}
