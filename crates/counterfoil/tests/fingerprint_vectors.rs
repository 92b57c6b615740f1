//! The vectors that the library and every client share.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use counterfoil::arguments::ArgumentsError;
use counterfoil::json::JsonReason;
use counterfoil::keys::{KeyFormat, derive};
use counterfoil::{Arguments, Fingerprint, Pointer};
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
struct Vectors {
    tool: String,
    fingerprints: Vec<Expected>,
    refused: Vec<Refused>,
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Expected {
    #[serde(default)]
    why: String,
    tool: Option<String>,
    arguments: String,
    #[serde(default)]
    volatile: Vec<Pointer>,
    canonical: String,
    fingerprint: Fingerprint,
}

#[derive(Deserialize)]
struct Refused {
    why: String,
    reason: String,
    arguments: Option<String>,
    arguments_hex: Option<String>,
}

#[derive(Deserialize)]
struct Key {
    account: String,
    operation_id: String,
    generation: u32,
    #[serde(flatten)]
    texts: HashMap<String, String>,
}

fn vectors() -> Vectors {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/fingerprint.json");
    let vectors: Vectors = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    // An emptied file must not pass.
    assert!(vectors.fingerprints.len() >= 100 && vectors.refused.len() >= 100 && vectors.keys.len() >= 10);
    vectors
}

fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn fingerprints_and_canonical_forms() {
    let vectors = vectors();
    for expected in &vectors.fingerprints {
        let tool = expected.tool.as_ref().unwrap_or(&vectors.tool);
        let context = format!("{}: {}", expected.why, expected.arguments);
        let arguments = Arguments::parse(expected.arguments.as_bytes()).expect(&context);
        assert_eq!(arguments.as_str(), expected.arguments);
        assert_eq!(arguments.canonical(tool, &expected.volatile), expected.canonical, "{context}");
        assert_eq!(arguments.fingerprint(tool, &expected.volatile), expected.fingerprint, "{context}");
    }
}

#[test]
fn fingerprints_differ_where_the_actions_do() {
    let mut texts = HashMap::new();
    for expected in vectors().fingerprints {
        let seen = texts.entry(expected.fingerprint).or_insert_with(|| expected.canonical.clone());
        assert_eq!(*seen, expected.canonical);
    }
    assert!(texts.len() > 80, "only {} different actions", texts.len());
}

#[test]
fn refused_arguments() {
    for refused in vectors().refused {
        let bytes = match (&refused.arguments, &refused.arguments_hex) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(hex)) => unhex(hex),
            _ => panic!("{}: one of arguments and arguments_hex", refused.why),
        };
        let error = Arguments::parse(&bytes).expect_err(&refused.why);
        assert_eq!(reason(error), refused.reason, "{}: {:?}", refused.why, refused.arguments);
    }
}

/// The word of the vectors for an error. Clients read with their own platform's reader, so what is simply not
/// JSON has one word.
fn reason(error: ArgumentsError) -> &'static str {
    match error {
        ArgumentsError::NotAnObject => "not_an_object",
        ArgumentsError::Invalid { reason, .. } => match reason {
            JsonReason::UnexpectedEnd | JsonReason::UnexpectedByte | JsonReason::InvalidNumber => "syntax",
            JsonReason::ByteOrderMark => "byte_order_mark",
            JsonReason::InvalidUtf8 => "invalid_utf8",
            JsonReason::TooManyDigits => "too_many_digits",
            JsonReason::ExponentTooLarge => "exponent_too_large",
            JsonReason::ControlCharacter => "control_character",
            JsonReason::InvalidEscape => "invalid_escape",
            JsonReason::LoneSurrogate => "lone_surrogate",
            JsonReason::DuplicateMember => "duplicate_member",
            JsonReason::TooDeep => "too_deep",
            JsonReason::TrailingData => "trailing_data",
        },
        ArgumentsError::TooLarge { .. } => panic!("the vectors hold no text that is too large"),
    }
}

#[test]
fn derived_keys() {
    for key in vectors().keys {
        assert_eq!(key.texts.len(), 4, "hex32, uuid, base64url22, quoted");
        for (format, text) in &key.texts {
            let format = KeyFormat::parse(format).unwrap();
            let derived = derive(&key.account, &key.operation_id, key.generation, format);
            assert_eq!(&derived, text, "{format} of {} generation {}", key.operation_id, key.generation);
        }
    }
}
