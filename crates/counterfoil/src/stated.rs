//! What a worker's own code says of its tool. The configuration decides; where the code says something else, the claim
//! is refused and the members that differ are named. Pure.

use std::time::Duration;

use crate::condition::Condition;
use crate::policy::{ApprovalRule, Tool};
use crate::recovery::{LookUpBy, Recovery, StoredErrors};

/// What kind of value a member takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactKind {
    /// A length of time, as the file spells it (`15m`).
    Length,
    /// A length of time, or `forever`.
    LengthOrForever,
    /// A text.
    Word,
    /// A whole number.
    Number,
    /// Whether it is so.
    Flag,
    /// Texts, in any order.
    Words,
    /// Conditions on arguments, in any order.
    Conditions,
}

/// The members that code may state, spelled as in the file.
pub const MEMBERS: [(&str, FactKind); 28] = [
    ("accounts", FactKind::Words),
    ("approval", FactKind::Word),
    ("approval.when", FactKind::Conditions),
    ("approval_expires", FactKind::Length),
    ("retention", FactKind::Length),
    ("sensitive", FactKind::Words),
    ("volatile", FactKind::Words),
    ("worker.scope", FactKind::Word),
    ("worker.destination", FactKind::Word),
    ("recovery.kind", FactKind::Word),
    ("recovery.key", FactKind::Word),
    ("recovery.reference", FactKind::Word),
    ("recovery.key_format", FactKind::Word),
    ("recovery.key_max_len", FactKind::Number),
    ("recovery.retention", FactKind::Length),
    ("recovery.request_lifetime", FactKind::Length),
    ("recovery.stored_errors", FactKind::Word),
    ("recovery.rolls_back", FactKind::Flag),
    ("recovery.unique_for", FactKind::LengthOrForever),
    ("recovery.authoritative", FactKind::Flag),
    ("recovery.queue_time", FactKind::Length),
    ("recovery.skew", FactKind::Length),
    ("recovery.lookup", FactKind::Word),
    ("recovery.lookup_for", FactKind::Length),
    ("budget.attempts", FactKind::Number),
    ("budget.elapsed", FactKind::Length),
    ("budget.first_delay", FactKind::Length),
    ("budget.max_delay", FactKind::Length),
];

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A length of time.
    Length(Duration),
    /// A text.
    Word(String),
    /// A whole number.
    Number(u64),
    /// Whether it is so.
    Flag(bool),
    /// Texts, sorted.
    Words(Vec<String>),
    /// Conditions, in any order.
    Conditions(Vec<Condition>),
}

impl Fact {
    /// Whether both say the same. Numbers of conditions are compared by their value, not by their spelling.
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Conditions(mine), Self::Conditions(theirs)) => {
                let all_in = |some: &[Condition], others: &[Condition]| {
                    some.iter().all(|one| others.iter().any(|other| one.same(other)))
                };
                all_in(mine, theirs) && all_in(theirs, mine)
            }
            (
                Self::Length(_)
                | Self::Word(_)
                | Self::Number(_)
                | Self::Flag(_)
                | Self::Words(_)
                | Self::Conditions(_),
                _,
            ) => self == other,
        }
    }
}

/// What code states: members and values; it need not state all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated(pub Vec<(&'static str, Fact)>);

impl Stated {
    /// The members of which `tool` says something else, or nothing.
    #[must_use]
    pub fn differs(&self, tool: &Tool) -> Vec<String> {
        let facts = facts(tool);
        let same = |stated: &&(&'static str, Fact)| {
            facts.iter().any(|(member, fact)| *member == stated.0 && fact.same(&stated.1))
        };
        self.0.iter().filter(|stated| !same(stated)).map(|(member, _)| (*member).to_owned()).collect()
    }
}

/// Everything that a declaration says, whether it was written or holds by default.
fn facts(tool: &Tool) -> Vec<(&'static str, Fact)> {
    let length = Fact::Length;
    let word = |text: &str| Fact::Word(text.to_owned());
    let mut facts = vec![
        ("approval", word(approval(tool.approval))),
        ("approval_expires", length(tool.approval_expires)),
        ("retention", length(tool.retention)),
        ("sensitive", words(&tool.sensitive)),
        ("volatile", words(&tool.volatile)),
        ("recovery.kind", word(tool.recovery.kind())),
        ("recovery.lookup_for", length(tool.recovery.lookup_for())),
        ("budget.attempts", Fact::Number(u64::from(tool.budget.attempts))),
        ("budget.elapsed", length(tool.budget.elapsed)),
        ("budget.first_delay", length(tool.budget.first_delay)),
        ("budget.max_delay", length(tool.budget.max_delay)),
    ];
    match tool.approval {
        ApprovalRule::When => facts.push(("approval.when", Fact::Conditions(tool.approval_when.clone()))),
        ApprovalRule::None | ApprovalRule::Required => {}
    }
    if let Some(accounts) = &tool.accounts {
        facts.push(("accounts", words(accounts)));
    }
    if let Some(worker) = tool.worker() {
        facts.extend(worker.scope.as_deref().map(|scope| ("worker.scope", word(scope))));
        facts.extend(worker.destination.as_deref().map(|name| ("worker.destination", word(name))));
    }
    if let Some((format, longest)) = tool.recovery.key_format() {
        facts.push(("recovery.key_format", word(format.label())));
        facts.extend(longest.map(|longest| ("recovery.key_max_len", Fact::Number(u64::from(longest)))));
    }
    facts.extend(tool.recovery.declared_lifetime().map(|life| ("recovery.request_lifetime", length(life))));
    match tool.recovery.lookup() {
        Some(LookUpBy::Worker) => facts.push(("recovery.lookup", word("worker"))),
        Some(LookUpBy::Http(_)) | None => {}
    }
    of_kind(&tool.recovery, &mut facts);
    facts
}

fn of_kind(recovery: &Recovery, facts: &mut Vec<(&'static str, Fact)>) {
    let word = |text: String| Fact::Word(text);
    match recovery {
        Recovery::IdempotencyKey(declared) => facts.extend([
            ("recovery.key", word(declared.key.to_string())),
            ("recovery.retention", Fact::Length(declared.retention)),
            ("recovery.stored_errors", word(stored_errors(declared.stored_errors).to_owned())),
            ("recovery.rolls_back", Fact::Flag(declared.rolls_back)),
            ("recovery.skew", Fact::Length(declared.skew)),
        ]),
        Recovery::UniqueReference(declared) => facts.extend([
            ("recovery.reference", word(declared.reference.to_string())),
            (
                "recovery.unique_for",
                declared.unique_for.map_or_else(|| word("forever".to_owned()), Fact::Length),
            ),
            ("recovery.skew", Fact::Length(declared.skew)),
        ]),
        Recovery::LookUp(declared) => facts.extend([
            ("recovery.reference", word(declared.reference.to_string())),
            ("recovery.authoritative", Fact::Flag(declared.authoritative)),
            ("recovery.queue_time", Fact::Length(declared.queue_time)),
            ("recovery.skew", Fact::Length(declared.skew)),
        ]),
        Recovery::None(declared) => facts.push(("recovery.queue_time", Fact::Length(declared.queue_time))),
        Recovery::Transaction => {}
    }
}

fn words<T: ToString>(items: &[T]) -> Fact {
    let mut words: Vec<String> = items.iter().map(ToString::to_string).collect();
    words.sort();
    Fact::Words(words)
}

fn approval(rule: ApprovalRule) -> &'static str {
    match rule {
        ApprovalRule::None => "none",
        ApprovalRule::When => "when",
        ApprovalRule::Required => "required",
    }
}

fn stored_errors(what: StoredErrors) -> &'static str {
    match what {
        StoredErrors::All => "all",
        StoredErrors::SuccessOnly => "success_only",
        StoredErrors::Reruns => "reruns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ToolName;
    use crate::policy::{Carrier, WorkerDeclaration};
    use crate::recovery::NoneFacts;

    fn tool() -> Tool {
        let worker = WorkerDeclaration { scope: Some("vendor-1".to_owned()), ..WorkerDeclaration::default() };
        let recovery = Recovery::None(NoneFacts::default());
        Tool::new(ToolName::parse("t").unwrap(), Carrier::Worker(worker), recovery)
    }

    fn differs(stated: &[(&'static str, Fact)]) -> Vec<String> {
        Stated(stated.to_vec()).differs(&tool())
    }

    #[test]
    fn what_agrees_or_is_not_stated_does_not_differ() {
        assert!(differs(&[]).is_empty());
        let agreed = [
            ("recovery.kind", Fact::Word("none".to_owned())),
            ("worker.scope", Fact::Word("vendor-1".to_owned())),
            // Not written in the file, and in force by default.
            ("budget.attempts", Fact::Number(5)),
            ("approval", Fact::Word("none".to_owned())),
        ];
        assert!(differs(&agreed).is_empty());
    }

    #[test]
    fn another_value_and_a_fact_that_the_file_lacks_differ() {
        let stated = [
            ("recovery.kind", Fact::Word("idempotency_key".to_owned())),
            ("recovery.key", Fact::Word("worker".to_owned())),
            ("recovery.request_lifetime", Fact::Length(Duration::from_secs(60))),
            ("budget.attempts", Fact::Number(5)),
        ];
        assert_eq!(differs(&stated), ["recovery.kind", "recovery.key", "recovery.request_lifetime"]);
    }

    #[test]
    fn conditions_are_compared_by_what_they_ask() {
        use crate::condition::{Comparison, Condition, Expected};
        let above = |bound: &str| Condition {
            at: crate::pointer::Pointer::parse("/total").unwrap(),
            is: Comparison::GreaterThan(bound.to_owned()),
        };
        let text = Condition { is: Comparison::Equals(Expected::Text("1".to_owned())), ..above("0") };
        let mut tool = tool();
        tool.approval = ApprovalRule::When;
        tool.approval_when = vec![above("500"), text.clone()];
        let differs = |stated: Vec<Condition>| {
            !Stated(vec![("approval.when", Fact::Conditions(stated))]).differs(&tool).is_empty()
        };
        assert!(!differs(vec![text.clone(), above("500.0")]));
        assert!(differs(vec![above("500")]), "the file asks for more");
        assert!(differs(vec![text.clone(), above("500"), above("5")]), "the code asks for more");
        assert!(differs(vec![text, above("500.01")]));
        tool.approval = ApprovalRule::Required;
        assert_eq!(
            Stated(vec![("approval.when", Fact::Conditions(vec![above("5")]))]).differs(&tool),
            ["approval.when"]
        );
    }

    #[test]
    fn every_fact_of_every_kind_has_a_name_that_can_be_stated() {
        for (member, _) in facts(&tool()) {
            assert!(MEMBERS.iter().any(|(known, _)| *known == member), "{member}");
        }
    }
}
