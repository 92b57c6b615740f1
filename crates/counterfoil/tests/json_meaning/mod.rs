//! JSON by meaning, random values of it, and random spellings of one value.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::fmt::Write as _;

/// A JSON value by meaning. A number is `digits × 10^exponent`.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number { negative: bool, digits: u128, exponent: i32 },
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn number() -> impl Strategy<Value = Json> {
    let digits = prop_oneof![0_u128..1000, any::<u64>().prop_map(u128::from), any::<u128>()];
    (any::<bool>(), digits, -40_i32..40).prop_map(|(negative, digits, exponent)| Json::Number {
        negative,
        digits,
        exponent,
    })
}

/// Names and texts, many of them short so that they collide, many with characters that need escapes or sort
/// differently in UTF-8 and UTF-16.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let awkward =
        vec!['\0', '\u{1f}', '\n', '"', '\\', '/', '~', '\u{e000}', '\u{ffff}', '\u{10000}', 'é', 'a'];
    prop_oneof![
        vec(prop::sample::select(vec!['a', 'b', 'c']), 0..3).prop_map(String::from_iter),
        vec(any::<char>(), 0..6).prop_map(String::from_iter),
        vec(prop::sample::select(awkward), 0..4).prop_map(String::from_iter),
    ]
}

pub(crate) fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number(),
        text().prop_map(Json::String)
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Json::Array), members(inner).prop_map(Json::Object)]
    })
}

fn members(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Vec<(String, Json)>> {
    btree_map(text(), value, 0..16).prop_map(|members| members.into_iter().collect())
}

pub(crate) fn object() -> impl Strategy<Value = Json> {
    members(json()).prop_map(Json::Object)
}

/// One spelling of the value; `choices` decides about order, white space, escapes and numbers.
pub(crate) fn spelled(value: &Json, choices: &[u8]) -> String {
    let mut text = String::new();
    spell(value, &mut Choices { bytes: choices, at: 0 }, &mut text);
    text
}

struct Choices<'c> {
    bytes: &'c [u8],
    at: usize,
}

impl Choices<'_> {
    fn next(&mut self, below: usize) -> usize {
        let length = self.bytes.len().max(1);
        let byte = self.bytes.get(self.at % length).copied().unwrap_or(0);
        // Each turn through the row shifts it, so that a short row does not repeat in step with the text.
        let choice = usize::from(byte) + self.at / length;
        self.at += 1;
        choice % below
    }
}

fn spell(value: &Json, choices: &mut Choices<'_>, out: &mut String) {
    space(choices, out);
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => write!(out, "{value}").unwrap(),
        Json::Number { negative, digits, exponent } => {
            spell_number(*negative, *digits, *exponent, choices, out);
        }
        Json::String(text) => spell_string(text, choices, out),
        Json::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                spell(element, choices, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for at in (1..members.len()).rev() {
                members.swap(at, choices.next(at + 1));
            }
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                space(choices, out);
                spell_string(name, choices, out);
                space(choices, out);
                out.push(':');
                spell(value, choices, out);
            }
            out.push('}');
        }
    }
    space(choices, out);
}

fn space(choices: &mut Choices<'_>, out: &mut String) {
    out.push_str(["", "", "", " ", "\n\t", "\r\n"][choices.next(6)]);
}

fn spell_number(negative: bool, digits: u128, exponent: i32, choices: &mut Choices<'_>, out: &mut String) {
    out.push_str(if negative { "-" } else { "" });
    let zeros = choices.next(4);
    let written = if digits == 0 { "0".into() } else { format!("{digits}{}", "0".repeat(zeros)) };
    let mut exponent = if digits == 0 { exponent } else { exponent - i32::try_from(zeros).unwrap() };
    match choices.next(written.len() + 3) {
        point @ 1.. if point < written.len() => {
            write!(out, "{}.{}", &written[..point], &written[point..]).unwrap();
            exponent += i32::try_from(written.len() - point).unwrap();
        }
        point if point == written.len() => {
            write!(out, "0.00{written}").unwrap();
            exponent += i32::try_from(written.len()).unwrap() + 2;
        }
        _ => out.push_str(&written),
    }
    if exponent != 0 || choices.next(2) == 0 {
        out.push(['e', 'E'][choices.next(2)]);
        out.push_str(if exponent < 0 { "-" } else { ["", "+"][choices.next(2)] });
        write!(out, "{}{}", ["", "00"][choices.next(2)], exponent.unsigned_abs()).unwrap();
    }
}

fn spell_string(text: &str, choices: &mut Choices<'_>, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let short = match character {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\n' => Some("\\n"),
            _ => None,
        };
        let plain = character >= ' ' && character != '"' && character != '\\';
        match (choices.next(4), short) {
            (0 | 1, Some(escape)) => out.push_str(escape),
            (1..=3, _) if plain => out.push(character),
            (style, _) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let escape = if style == 0 { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") };
                    out.push_str(&escape);
                }
            }
        }
    }
    out.push('"');
}
