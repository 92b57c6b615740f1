//! The section `evidence` of a tool: how its destination's webhooks are believed and read.

use counterfoil::policy::{BodyMatch, EvidenceDeclaration, SignatureScheme};
use counterfoil::{Pointer, recovery::Recovery};

use super::file::EvidenceSection;
use super::read::{member, members, pointer};
use super::report::Checks;
use super::shape::At;
use super::template::{Secret, header_secrets};

/// Reads the section; `None` where it does not load.
pub(super) fn read(
    section: &At<EvidenceSection>,
    recovery: Option<&Recovery>,
    key: &str,
    checks: &mut Checks<'_>,
) -> Option<(EvidenceDeclaration, Vec<Secret>)> {
    let sub = |name: &str| format!("{key}.{name}");
    let (at, section) = (section.span(), section.get());
    if recovery.is_some_and(|recovery| recovery.place().is_none()) {
        let message = "a webhook is matched by the key or reference that was sent, and none is declared";
        let hint = "declare `key` or `reference` in `recovery`, or remove the section";
        checks.error(at, key, message, hint);
    }
    let secrets = secret(&section.secret, &sub("secret"), checks);
    let scheme = *section.scheme.get();
    let named = section.event_id.as_ref().map(|text| member(text, &sub("event_id"), checks));
    let event_id = match (named, scheme) {
        (Some(named), _) => Some(named?),
        // Every event of Stripe has its name there; the scheme signs none.
        (None, SignatureScheme::Stripe) => Pointer::parse("/id").ok(),
        (None, SignatureScheme::Standard) => None,
    };
    let reference = member(&section.reference, &sub("reference"), checks);
    let success = pointer(&section.success.pointer, &sub("success.pointer"), checks);
    let receipt_reference = match &section.receipt_reference {
        Some(text) => Some(member(text, &sub("receipt_reference"), checks)?),
        None => None,
    };
    let declaration = EvidenceDeclaration {
        scheme,
        secret: section.secret.get().clone(),
        reference: reference?,
        event_id,
        success: BodyMatch { pointer: success?, equals: section.success.equals.get().0.clone() },
        receipt_reference,
        must_match: section.must_match.as_ref().map(|list| members(Some(list), &sub("must_match"), checks)),
    };
    Some((declaration, secrets?))
}

/// A secret of this server's own: named, never written down.
pub(super) fn secret(text: &At<String>, key: &str, checks: &mut Checks<'_>) -> Option<Vec<Secret>> {
    const HINT: &str = "write \"${NAME}\" for an environment variable or \"${file:PATH}\" for a file";
    match header_secrets(text.get()) {
        Ok(secrets) if secrets.is_empty() || text.get().contains("{account}") => {
            checks.error(text.span(), key, "a secret does not stand in this file", HINT);
            None
        }
        Ok(secrets) => Some(secrets),
        Err(error) => {
            checks.error(text.span(), key, error.message, HINT);
            None
        }
    }
}
