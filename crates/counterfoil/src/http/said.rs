//! What a webhook says, read by the tool's declaration. Pure. Nothing is read before the signature is good; what cannot
//! be read proves nothing.

use sha2::{Digest as _, Sha256};

use super::classify::{MAX_KEPT, MAX_KEPT_DEPTH};
use super::found::canonical;
use super::probe::{Document, Value};
use crate::json;
use crate::operation::{Body, ResultBody};
use crate::pointer::Pointer;
use crate::policy::{EvidenceDeclaration, Tool};
use crate::verbs::Said;

/// The most bytes of a webhook.
pub const LONGEST_EVENT: usize = 256 * 1024;

/// Reads a webhook whose signature is good. `signed_id` is the name of the event that the scheme signs. Nothing where it is no JSON
/// or names no reference.
#[must_use]
pub fn hear(
    tool: &Tool,
    declared: &EvidenceDeclaration,
    signed_id: Option<&str>,
    body: &[u8],
) -> Option<Said> {
    let document = Document::read(body)?;
    let reference = name(document, &declared.reference)?;
    let event = match &declared.event_id {
        Some(pointer) => name(document, pointer),
        None => signed_id.map(str::to_owned),
    };
    let event = match event {
        Some(id) => digest(&[b"id", id.as_bytes()]),
        // Without a name it is told from others by what it says.
        None => digest(&[b"body", body]),
    };
    let value = document.find(&declared.success.pointer);
    let success = value.as_ref().and_then(Value::spelled) == Some(declared.success.equals.as_str());
    let names = declared.receipt_reference.as_ref().map(|pointer| name(document, pointer));
    Some(Said {
        event,
        reference,
        success,
        complete: names != Some(None),
        names: names.flatten(),
        record: record(tool, declared, document),
        result: result(document, body),
    })
}

/// What it must share with the arguments. The record is what holds the name of the thing, or the reference where no
/// name is declared.
fn record(
    tool: &Tool,
    declared: &EvidenceDeclaration,
    document: Document<'_>,
) -> Vec<(Pointer, Option<String>)> {
    let looked_up = || tool.recovery.lookup()?.http().map(|request| request.must_match.as_slice());
    let members = declared.must_match.as_deref().or_else(looked_up).unwrap_or_default();
    let named = declared.receipt_reference.as_ref().unwrap_or(&declared.reference);
    let record = named.split_last().map(|(record, _)| record).unwrap_or_default();
    let theirs = |member: &Pointer| {
        let tokens: Vec<&str> = record.tokens().chain(member.tokens()).collect();
        document.raw(&tokens).and_then(canonical)
    };
    members.iter().map(|member| (member.clone(), theirs(member))).collect()
}

/// A text or number that names something.
fn name(document: Document<'_>, pointer: &Pointer) -> Option<String> {
    match document.find(pointer)? {
        Value::Text(text) | Value::Number(text) if !text.trim().is_empty() => Some(text),
        Value::Text(_) | Value::Number(_) | Value::Null | Value::Bool(_) | Value::Other { .. } => None,
    }
}

fn result(document: Document<'_>, body: &[u8]) -> ResultBody {
    let text = document.text();
    let kept = match json::parse_str(text, MAX_KEPT_DEPTH) {
        Ok(_) => Body::Json(text.to_owned()),
        Err(_) => Body::Text(text.to_owned()),
    };
    let truncated = body.len() > MAX_KEPT;
    ResultBody {
        status: None,
        content_type: Some("application/json".to_owned()),
        body: (!truncated).then_some(kept),
        size: body.len() as u64,
        digest: format!("sha256:{}", crate::hex::encode(&Sha256::digest(body))),
        truncated,
    }
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    format!("sha256:{}", crate::hex::encode(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::super::test_tool::{Setup, keyed};
    use super::*;
    use crate::policy::{BodyMatch, SignatureScheme};

    fn declared() -> EvidenceDeclaration {
        let pointer = |text| Pointer::parse(text).unwrap();
        EvidenceDeclaration {
            scheme: SignatureScheme::Standard,
            secret: "${S}".to_owned(),
            reference: pointer("/data/ref"),
            event_id: Some(pointer("/id")),
            success: BodyMatch { pointer: pointer("/type"), equals: "order.created".to_owned() },
            receipt_reference: None,
            must_match: None,
        }
    }

    fn said(declared: &EvidenceDeclaration, signed: Option<&str>, body: &str) -> Option<Said> {
        hear(&keyed(Setup::default()), declared, signed, body.as_bytes())
    }

    const BODY: &str = r#"{"id":"evt_1","type":"order.created","data":{"ref":"k1","order":7,"total":10.0}}"#;

    #[test]
    fn reads_what_is_declared() {
        let read = said(&declared(), None, BODY).unwrap();
        assert_eq!((read.reference.as_str(), read.success, read.complete), ("k1", true, true));
        assert_eq!((read.names, read.record), (None, Vec::new()));
        let named = EvidenceDeclaration {
            receipt_reference: Some(Pointer::parse("/data/order").unwrap()),
            must_match: Some(vec![Pointer::parse("/total").unwrap(), Pointer::parse("/sku").unwrap()]),
            ..declared()
        };
        let read = said(&named, None, BODY).unwrap();
        assert_eq!((read.names.as_deref(), read.complete), (Some("7"), true));
        assert_eq!(read.record[0].1.as_deref(), Some("1e1"));
        assert_eq!(read.record[1].1, None);
        let without = said(&named, None, &BODY.replace("order\":7", "order\":null")).unwrap();
        assert_eq!((without.names, without.complete), (None, false));
    }

    #[test]
    fn an_event_is_told_by_its_name_or_else_by_what_it_says() {
        let event = |signed, body: &str| said(&declared(), signed, body).unwrap().event;
        assert_eq!(event(None, BODY), event(Some("msg_2"), &BODY.replace("k1", "k2")));
        assert_ne!(event(None, BODY), event(None, &BODY.replace("evt_1", "evt_2")));
        let unnamed = BODY.replace("\"evt_1\"", "null");
        assert_eq!(event(Some("a"), &unnamed), event(Some("b"), &unnamed));
        let by_header = EvidenceDeclaration { event_id: None, ..declared() };
        let event = |signed| said(&by_header, Some(signed), BODY).unwrap().event;
        assert_ne!(event("a"), event("b"));
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        for body in [
            "",
            "no",
            "{}",
            r#"{"data":{"ref":null}}"#,
            r#"{"data":{"ref":{}}}"#,
            r#"{"data":{"ref":"  "}}"#,
            r#"{"data":{"ref":"a","ref":"b"}}"#,
            r#"{"data":{"ref":"a"}} {}"#,
        ] {
            assert_eq!(said(&declared(), Some("m"), body), None, "{body}");
        }
        for body in [
            r#"{"type":"order.updated","data":{"ref":"a"}}"#,
            r#"{"type":"order.created","type":"order.created","data":{"ref":"a"}}"#,
            r#"{"type":["order.created"],"data":{"ref":"a"}}"#,
        ] {
            assert!(!said(&declared(), Some("m"), body).unwrap().success, "{body}");
        }
    }
}
