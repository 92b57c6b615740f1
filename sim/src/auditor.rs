//! The judge: what the ledger claims, against what happened at the destination.

use std::collections::BTreeMap;
use std::fmt;

use crate::supplier::Effect;

/// What the ledger says about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// There is a receipt: exactly one effect must exist.
    Succeeded,
    /// It is final that nothing happened: no effect may exist.
    Rejected,
    /// Prepared, in progress, unknown or held: none or one effect.
    Open,
}

/// One action as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// What its effects are grouped by: a key, a reference, or a label out of the body.
    pub label: String,
    /// The ledger's claim.
    pub state: State,
    /// The identifier in the receipt, if the ledger holds one. It must be that of the effect.
    pub receipt: Option<String>,
}

impl Expected {
    /// An action without a receipt to compare.
    #[must_use]
    pub fn new(label: impl Into<String>, state: State) -> Self {
        Self { label: label.into(), state, receipt: None }
    }

    /// Adds the identifier that the receipt names.
    #[must_use]
    pub fn with_receipt(mut self, order: impl Into<String>) -> Self {
        self.receipt = Some(order.into());
        self
    }
}

/// A claim that the effects contradict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// The action has more than one effect.
    Duplicate {
        /// The action.
        label: String,
        /// The orders it made.
        orders: Vec<String>,
    },
    /// Called `succeeded`, and nothing happened.
    SucceededWithoutEffect {
        /// The action.
        label: String,
    },
    /// Called `rejected`, and it happened.
    RejectedWithEffect {
        /// The action.
        label: String,
        /// The orders it made.
        orders: Vec<String>,
    },
    /// The receipt names another order than the effect.
    ReceiptDiffers {
        /// The action.
        label: String,
        /// What the receipt says.
        receipt: String,
        /// What the destination says.
        orders: Vec<String>,
    },
    /// Effects that no action accounts for.
    Stray {
        /// What the effects were grouped by.
        label: String,
        /// The orders.
        orders: Vec<String>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { label, orders } => {
                write!(f, "{label}: {} effects: {}", orders.len(), orders.join(", "))
            }
            Self::SucceededWithoutEffect { label } => write!(f, "{label}: succeeded, but there is no effect"),
            Self::RejectedWithEffect { label, orders } => {
                write!(f, "{label}: rejected, but there is {}", orders.join(", "))
            }
            Self::ReceiptDiffers { label, receipt, orders } => {
                write!(f, "{label}: the receipt says {receipt}, the destination {}", orders.join(", "))
            }
            Self::Stray { label, orders } => write!(f, "{label}: no action for {}", orders.join(", ")),
        }
    }
}

/// What the auditor found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Effects in all.
    pub effects: usize,
    /// Effects beyond the first of their label.
    pub duplicates: usize,
    /// Every contradiction, in the order of the labels.
    pub violations: Vec<Violation>,
}

/// The orders made under each label. Effects without a label are grouped under `""`, where they
/// show up as strays.
pub fn group_by(
    effects: &[Effect],
    label: impl Fn(&Effect) -> Option<String>,
) -> BTreeMap<String, Vec<String>> {
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    for effect in effects {
        groups.entry(label(effect).unwrap_or_default()).or_default().push(effect.order.clone());
    }
    groups
}

/// Compares claims with effects. A label claimed twice is judged by each of its claims.
#[must_use]
pub fn audit(expected: &[Expected], groups: &BTreeMap<String, Vec<String>>) -> Report {
    let claims: BTreeMap<&str, Vec<&Expected>> =
        expected.iter().fold(BTreeMap::new(), |mut claims, claim| {
            claims.entry(claim.label.as_str()).or_insert_with(Vec::new).push(claim);
            claims
        });
    let mut violations = Vec::new();
    for (label, orders) in groups {
        if orders.len() > 1 {
            violations.push(Violation::Duplicate { label: label.clone(), orders: orders.clone() });
        }
        if !claims.contains_key(label.as_str()) && !orders.is_empty() {
            violations.push(Violation::Stray { label: label.clone(), orders: orders.clone() });
        }
    }
    for claim in claims.values().flatten() {
        let orders = groups.get(&claim.label).map_or(&[][..], Vec::as_slice);
        violations.extend(judge(claim, orders));
    }
    Report {
        effects: groups.values().map(Vec::len).sum(),
        duplicates: groups.values().map(|orders| orders.len().saturating_sub(1)).sum(),
        violations,
    }
}

fn judge(claim: &Expected, orders: &[String]) -> Option<Violation> {
    let label = claim.label.clone();
    match claim.state {
        State::Succeeded if orders.is_empty() => Some(Violation::SucceededWithoutEffect { label }),
        State::Rejected if !orders.is_empty() => {
            Some(Violation::RejectedWithEffect { label, orders: orders.to_vec() })
        }
        State::Succeeded | State::Rejected | State::Open => {
            let receipt = claim.receipt.clone().filter(|receipt| !orders.contains(receipt))?;
            Some(Violation::ReceiptDiffers { label, receipt, orders: orders.to_vec() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(of: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        of.iter()
            .map(|(label, orders)| ((*label).to_owned(), orders.iter().map(|o| (*o).to_owned()).collect()))
            .collect()
    }

    #[test]
    fn a_true_ledger_has_no_violations() {
        let expected = [
            Expected::new("a", State::Succeeded).with_receipt("po_1"),
            Expected::new("b", State::Rejected),
            Expected::new("c", State::Open),
            Expected::new("d", State::Open),
        ];
        let report = audit(&expected, &groups(&[("a", &["po_1"]), ("c", &["po_2"])]));
        assert_eq!(report, Report { effects: 2, duplicates: 0, violations: vec![] });
    }

    #[test]
    fn each_kind_of_lie_is_found() {
        let expected = [
            Expected::new("a", State::Succeeded),
            Expected::new("b", State::Rejected),
            Expected::new("c", State::Open),
            Expected::new("d", State::Succeeded).with_receipt("po_9"),
        ];
        let groups =
            groups(&[("b", &["po_1"]), ("c", &["po_2", "po_3", "po_4"]), ("d", &["po_5"]), ("e", &["po_6"])]);
        let report = audit(&expected, &groups);
        assert_eq!((report.effects, report.duplicates), (6, 2));
        let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "c: 3 effects: po_2, po_3, po_4",
                "e: no action for po_6",
                "a: succeeded, but there is no effect",
                "b: rejected, but there is po_1",
                "d: the receipt says po_9, the destination po_5",
            ]
        );
    }
}
