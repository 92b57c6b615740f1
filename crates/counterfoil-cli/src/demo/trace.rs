//! Whose effect is it? Effects are found in the suppliers' databases, and each is traced back to the
//! action it belongs to by what the supplier recorded of the request.

use counterfoil::keys::{KeyFormat, derive};
use serde_json::Value;
use sim::supplier::Effect;

use super::actions::{Action, Supplier};
use super::naive;
use super::product::ACCOUNT;

/// By what requests are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trace {
    /// By the key that is derived from account and operation ID, and at a supplier that gets none by
    /// the body, which is another one for each action there.
    Guarded,
    /// By the label that the loop sends along.
    Naive,
}

impl Trace {
    /// A text that occurs in every request of this action, and in no other's.
    pub(crate) fn mark(self, action: &Action) -> String {
        match (self, action.supplier) {
            (Self::Naive, _) => naive::label(action),
            (Self::Guarded, Supplier::Mill) => key(action),
            (Self::Guarded, Supplier::Dairy) => action.arguments.clone(),
        }
    }

    /// What the effects of this action are grouped by.
    pub(crate) fn of_action(self, action: &Action) -> String {
        match (self, action.supplier) {
            (Self::Naive, _) => naive::label(action),
            (Self::Guarded, Supplier::Mill) => key(action),
            (Self::Guarded, Supplier::Dairy) => body(&action.path, action.arguments.as_bytes()),
        }
    }

    /// The same, seen from the effect. Empty where the supplier recorded nothing that tells.
    pub(crate) fn of_effect(self, supplier: Supplier, effect: &Effect) -> String {
        match (self, supplier) {
            (Self::Naive, _) => effect.reference.clone().unwrap_or_default(),
            (Self::Guarded, Supplier::Mill) => effect.key.clone().unwrap_or_default(),
            (Self::Guarded, Supplier::Dairy) => body(&effect.path, &effect.body),
        }
    }
}

fn key(action: &Action) -> String {
    derive(ACCOUNT, &action.id, 1, KeyFormat::Hex32)
}

fn body(path: &str, bytes: &[u8]) -> String {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    format!("{path} {value}")
}
