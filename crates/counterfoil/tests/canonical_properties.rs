//! Properties of reading, comparing and splicing arguments that tables cannot cover.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod json_meaning;

use counterfoil::json::{self, Content, JsonReason, Node};
use counterfoil::{Arguments, Pointer};
use json_meaning::{Json, json, object, spelled, text};
use proptest::collection::vec;
use proptest::prelude::*;

const TOOL: &str = "supplier.create_order";

fn choices() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..40)
}

fn read(value: &Json, choices: &[u8]) -> Arguments {
    Arguments::parse(spelled(value, choices).as_bytes()).unwrap()
}

fn top_level(name: &str) -> Pointer {
    Pointer::parse(&format!("/{}", name.replace('~', "~0").replace('/', "~1"))).unwrap()
}

/// The decimal value in the one form that equal values share.
fn decimal((negative, mut digits, mut exponent): (bool, u128, i32)) -> (bool, u128, i32) {
    if digits == 0 {
        return (false, 0, 0);
    }
    while digits.is_multiple_of(10) {
        digits /= 10;
        exponent += 1;
    }
    (negative, digits, exponent)
}

/// Whether what was read is what was meant, not looking at the values of numbers.
fn same(node: &Node<'_>, value: &Json) -> bool {
    match (node.content(), value) {
        (Content::Null, Json::Null) | (Content::Number(_), Json::Number { .. }) => true,
        (Content::Bool(read), Json::Bool(meant)) => read == meant,
        (Content::String(read), Json::String(meant)) => read == meant,
        (Content::Array(read), Json::Array(meant)) => {
            read.len() == meant.len() && read.iter().zip(meant).all(|(node, value)| same(node, value))
        }
        (Content::Object(read), Json::Object(meant)) => {
            read.len() == meant.len()
                && meant.iter().all(|(name, value)| node.member(name).is_some_and(|node| same(node, value)))
        }
        _ => false,
    }
}

/// The rules that are stricter than RFC 8259 asks, which the other reader does not have.
fn stricter(reason: JsonReason) -> bool {
    matches!(
        reason,
        JsonReason::DuplicateMember
            | JsonReason::LoneSurrogate
            | JsonReason::TooDeep
            | JsonReason::TooManyDigits
            | JsonReason::ExponentTooLarge
    )
}

fn agrees_with_serde_json(text: &str) {
    let other = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match json::parse_str(text, 64) {
        Ok(_) => assert!(other, "accepted, but serde_json refuses: {text:?}"),
        Err(error) => {
            assert!(!other || stricter(error.reason), "{error}, but serde_json accepts: {text:?}");
            assert!(error.offset <= text.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn spelling_never_changes_the_fingerprint(value in object(), one in choices(), two in choices()) {
        let (one, two) = (read(&value, &one), read(&value, &two));
        prop_assert_eq!(one.canonical(TOOL, &[]), two.canonical(TOOL, &[]));
        prop_assert_eq!(one.fingerprint(TOOL, &[]), two.fingerprint(TOOL, &[]));
        prop_assert!(one.differing_members(&two, &[]).is_empty());
    }

    #[test]
    fn the_canonical_form_is_its_own_canonical_form(value in object(), choices in choices()) {
        let canonical = read(&value, &choices).canonical(TOOL, &[]);
        let node = json::parse_str(&canonical, 65).unwrap();
        let inner = Arguments::parse(node.member("arguments").unwrap().raw().as_bytes()).unwrap();
        prop_assert_eq!(inner.canonical(TOOL, &[]), canonical);
    }

    #[test]
    fn reading_gives_back_what_was_written(value in object(), choices in choices()) {
        let text = spelled(&value, &choices);
        let node = json::parse_str(&text, 64).unwrap();
        prop_assert!(same(&node, &value), "{}", text);
        prop_assert_eq!(&text[node.span()], node.raw());
    }

    #[test]
    fn different_values_have_different_fingerprints(one in object(), two in object(), choices in choices()) {
        let (first, second) = (read(&one, &choices), read(&two, &choices));
        let equal = first.fingerprint(TOOL, &[]) == second.fingerprint(TOOL, &[]);
        prop_assert_eq!(first.differing_members(&second, &[]).is_empty(), equal);
        if !same(&first.node().unwrap(), &two) {
            prop_assert!(!equal);
        }
    }

    #[test]
    fn a_volatile_member_never_counts(
        value in object(), name in text(), noise in json(), one in choices(), two in choices(),
    ) {
        let Json::Object(mut members) = value else { unreachable!() };
        members.retain(|(present, _)| *present != name);
        let without = read(&Json::Object(members.clone()), &one);
        members.push((name.clone(), noise));
        let with = read(&Json::Object(members), &two);
        let volatile = [top_level(&name)];
        prop_assert_eq!(with.fingerprint(TOOL, &volatile), without.fingerprint(TOOL, &volatile));
        prop_assert_ne!(with.fingerprint(TOOL, &[]), without.fingerprint(TOOL, &[]));
        prop_assert!(with.differing_members(&without, &volatile).is_empty());
        prop_assert_eq!(with.differing_members(&without, &[]).len(), 1);
    }

    #[test]
    fn a_splice_adds_one_last_member_and_nothing_else(
        value in object(), name in text(), key in text(), choices in choices(),
    ) {
        let arguments = read(&value, &choices);
        let present = arguments.node().unwrap().member(&name).is_some();
        match arguments.splice(&top_level(&name), &key) {
            Err(error) => prop_assert!(present, "{}", error),
            Ok(spliced) => {
                prop_assert!(!present);
                let node = json::parse_str(&spliced, 64).unwrap();
                let members = node.members().unwrap();
                let last = members.last().unwrap();
                prop_assert_eq!((last.name(), last.value().as_str()), (name.as_str(), Some(key.as_str())));
                let comma = usize::from(members.len() > 1);
                let span = last.span();
                let rest = [&spliced[..span.start - comma], &spliced[span.end..]].concat();
                prop_assert_eq!(&rest, arguments.as_str());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn numbers_are_equal_exactly_when_their_values_are(
        negative: bool,
        digits in prop_oneof![0_u128..200, any::<u64>().prop_map(u128::from), any::<u128>().prop_map(|d| d >> 10)],
        exponent in -30_i32..30,
        change in 0..6,
        one in choices(),
        two in choices(),
    ) {
        let this = (negative, digits, exponent);
        let other = match change {
            0 => (negative, digits + 1, exponent),
            1 => (negative, digits * 10, exponent - 1),
            2 => (negative, digits * 10 + 1, exponent - 1),
            3 => (!negative, digits, exponent),
            4 => (negative, digits, exponent + 1),
            _ => (negative, digits * 100, exponent - 1),
        };
        let print = |(negative, digits, exponent), choices: &[u8]| {
            let value = Json::Object(vec![("n".into(), Json::Number { negative, digits, exponent })]);
            read(&value, choices).fingerprint(TOOL, &[])
        };
        let equal = decimal(this) == decimal(other);
        prop_assert_eq!(print(this, &one) == print(other, &two), equal, "{:?} {:?}", this, other);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        if let Err(error) = json::parse(&bytes, 64) {
            prop_assert!(error.offset <= bytes.len());
        }
    }

    #[test]
    fn agrees_on_text_that_is_nearly_json(
        value in json(),
        choices in choices(),
        at in any::<prop::sample::Index>(),
        kind in 0..3,
        with in prop::sample::select("{}[],:\"\\/ue+-.0127 tfn\0\né\u{10000}".chars().collect::<Vec<_>>()),
    ) {
        let text = spelled(&value, &choices);
        agrees_with_serde_json(&text);
        let mut characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len());
        match kind {
            0 => characters[at] = with,
            1 => characters.insert(at, with),
            _ => { characters.remove(at); }
        }
        agrees_with_serde_json(&characters.into_iter().collect::<String>());
    }

    #[test]
    fn agrees_on_words_of_json(
        words in vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"\\u0061\"", "\"\\ud800\"", "1", "-0", "01", "1e5",
            "1.", "true", "null", "nul", " ", "\"", "\\",
        ]), 0..12),
    ) {
        agrees_with_serde_json(&words.concat());
    }
}
