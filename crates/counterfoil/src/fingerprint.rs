//! The fingerprint of an action: a versioned SHA-256 over one canonical form of tool name and arguments.
//!
//! Two proposals are the same action exactly when their fingerprints are equal, so the canonical form erases
//! what carries no meaning in JSON (the order of members, white space, the spelling of a number, escapes) and
//! nothing else: numbers compare by exact decimal value, strings byte for byte without Unicode normalisation,
//! and `null` is not an absent member. Every client computes the same form; the vectors in
//! `tests/vectors/fingerprint.json` hold for all of them.

pub use crate::arguments::{Arguments, ArgumentsError, SpliceError};

use crate::json::{self, Content, Member, Node};
use crate::pointer::Pointer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The identity of an action's content. Prints as `v1:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint {
    version: u8,
    digest: [u8; 32],
}

/// A text that is no fingerprint of a version that this build knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("a fingerprint is `v1:` and 64 lower-case hex digits")]
pub struct FingerprintError;

impl Fingerprint {
    /// The version of the canonical form that this build computes.
    pub const VERSION: u8 = 1;

    /// Reads the printed form.
    ///
    /// # Errors
    ///
    /// Returns an error for another version, for upper-case digits and for everything else.
    pub fn parse(text: &str) -> Result<Self, FingerprintError> {
        let hex = text.strip_prefix("v1:").filter(|hex| hex.len() == 64).ok_or(FingerprintError)?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self { version: Self::VERSION, digest })
    }

    /// The SHA-256 without its version.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Hashes whatever `write` puts out.
    pub(crate) fn of(write: impl FnOnce(&mut dyn FnMut(&str))) -> Self {
        // The canonical form comes in pieces of a few bytes; a block of them per call keeps hashing quick.
        let mut hasher = Sha256::new();
        let mut pending = [0_u8; 512];
        let mut length = 0;
        write(&mut |piece: &str| {
            let bytes = piece.as_bytes();
            if length + bytes.len() > pending.len() {
                hasher.update(&pending[..length]);
                length = 0;
            }
            match pending.get_mut(length..length + bytes.len()) {
                Some(room) => {
                    room.copy_from_slice(bytes);
                    length += bytes.len();
                }
                None => hasher.update(bytes),
            }
        });
        hasher.update(&pending[..length]);
        Self { version: Self::VERSION, digest: hasher.finalize().into() }
    }
}

fn nibble(digit: u8) -> Result<u8, FingerprintError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(FingerprintError),
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:", self.version)?;
        f.write_str(&crate::hex::encode(&self.digest))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        Self::parse(text)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// The members of one document that are left out, by the starts of their values: a start belongs to one value
/// only, so no path is compared on the way.
#[derive(Default)]
pub(crate) struct Omitted(Vec<usize>);

/// The form in which equal values are equal texts: numbers by their exact value, members in one order.
pub(crate) fn canonical_text(node: &Node<'_>) -> String {
    let mut text = String::new();
    let (nothing, mut out) = (Omitted::default(), |piece: &str| text.push_str(piece));
    Canonical::new(&nothing, &mut out).value(node);
    text
}

impl Omitted {
    /// Finds the members that the pointers name. A pointer that names no member of an object is without
    /// effect: the more is compared, the sooner two actions count as different and are refused instead of
    /// merged.
    pub(crate) fn find(document: &Node<'_>, volatile: &[Pointer]) -> Self {
        Self(
            volatile.iter().filter_map(|pointer| pointer.resolve_member(document)).map(Node::start).collect(),
        )
    }

    /// Whether a member with this value is left out.
    pub(crate) fn has(&self, value: &Node<'_>) -> bool {
        self.0.contains(&value.start())
    }
}

/// Writes values in canonical form.
pub(crate) struct Canonical<'o> {
    omitted: &'o Omitted,
    out: &'o mut dyn FnMut(&str),
}

impl<'o> Canonical<'o> {
    pub(crate) fn new(omitted: &'o Omitted, out: &'o mut dyn FnMut(&str)) -> Self {
        Self { omitted, out }
    }

    pub(crate) fn put(&mut self, text: &str) {
        (self.out)(text);
    }

    pub(crate) fn string(&mut self, text: &str) {
        json::write_string(text, &mut self.out);
    }

    /// Writes one value.
    pub(crate) fn value(&mut self, node: &Node<'_>) {
        match node.content() {
            Content::Null | Content::Bool(_) => self.put(node.raw()),
            Content::Number(written) => write_number(written, &mut self.out),
            Content::String(text) => self.string(text),
            Content::Array(elements) => {
                self.put("[");
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        self.put(",");
                    }
                    self.value(element);
                }
                self.put("]");
            }
            Content::Object(members) => self.object(members),
        }
    }

    fn object(&mut self, members: &[Member<'_>]) {
        let mut sorted: Vec<&Member<'_>> =
            members.iter().filter(|member| !self.omitted.has(member.value())).collect();
        sorted.sort_unstable_by(|a, b| utf16_order(a.name(), b.name()));
        self.put("{");
        for (at, member) in sorted.into_iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            self.string(member.name());
            self.put(":");
            self.value(member.value());
        }
        self.put("}");
    }
}

/// The order of names by UTF-16 code units (RFC 8785 section 3.2.3).
///
/// UTF-8 bytes sort by code point, which differs in one place: characters beyond U+FFFF are surrogate pairs in
/// UTF-16 and come before U+E000 to U+FFFF. In UTF-8 the former begin with 0xF0 to 0xF4 and the latter with
/// 0xEE or 0xEF, bytes that never stand elsewhere, so moving those two to the end sorts like UTF-16.
pub(crate) fn utf16_order(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| if matches!(byte, 0xEE | 0xEF) { byte + 0x10 } else { byte };
    a.bytes().map(rank).cmp(b.bytes().map(rank))
}

/// Writes a number by its decimal value: `0`, or an optional `-`, the digits without zeros at either end, `e`
/// and the exponent. Only this keeps 2^53 + 1 apart from 2^53 and `1.0` together with `1`.
fn write_number(written: &str, out: &mut dyn FnMut(&str)) {
    let (sign, unsigned) = match written.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", written),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // The reader bounds the exponent to ±10 000 and the digits to 1 000, so nothing here overflows.
    let exponent: i64 = exponent.parse().unwrap_or_default();

    // The digits of `whole` and `fraction` in a row, from the first that is not zero to the last.
    let whole = whole.trim_start_matches('0');
    let kept_fraction = fraction.trim_end_matches('0');
    let (first, second, exponent) = if kept_fraction.is_empty() {
        let kept = whole.trim_end_matches('0');
        (kept, "", exponent + length(whole) - length(kept))
    } else if whole.is_empty() {
        (kept_fraction.trim_start_matches('0'), "", exponent - length(kept_fraction))
    } else {
        (whole, kept_fraction, exponent - length(kept_fraction))
    };
    if first.is_empty() {
        out("0");
        return;
    }
    out(sign);
    out(first);
    out(second);
    out("e");
    if exponent == 0 {
        out("0");
    } else {
        out(&exponent.to_string());
    }
}

/// The order of two JSON numbers by their exact decimal values.
pub(crate) fn compare_numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (Decimal::of(a), Decimal::of(b));
    let sign = |number: &Decimal| match (number.digits.is_empty(), number.negative) {
        (true, _) => 0,
        (false, true) => -1,
        (false, false) => 1,
    };
    let (a_sign, b_sign) = (sign(&a), sign(&b));
    let by_size = a.magnitude.cmp(&b.magnitude).then_with(|| a.digits.cmp(&b.digits));
    a_sign.cmp(&b_sign).then(if a_sign < 0 { by_size.reverse() } else { by_size })
}

/// A number as its significant digits and the place of the point before them.
struct Decimal {
    negative: bool,
    digits: String,
    magnitude: i64,
}

impl Decimal {
    fn of(written: &str) -> Self {
        let mut text = String::new();
        write_number(written, &mut |piece| text.push_str(piece));
        let (mantissa, exponent) = text.split_once('e').unwrap_or(("", "0"));
        let digits = mantissa.trim_start_matches('-');
        let exponent: i64 = exponent.parse().unwrap_or_default();
        Self {
            negative: mantissa.starts_with('-'),
            digits: digits.to_owned(),
            magnitude: if digits.is_empty() { 0 } else { exponent + length(digits) },
        }
    }
}

fn length(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_it_reads() {
        let text = format!("v1:{}", "0123456789abcdef".repeat(4));
        let fingerprint = Fingerprint::parse(&text).unwrap();
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(fingerprint.digest()[..3], [0x01, 0x23, 0x45]);
        let json = serde_json::to_string(&fingerprint).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), fingerprint);
    }

    #[test]
    fn reads_nothing_else() {
        let hex = "0123456789abcdef".repeat(4);
        let texts = [
            hex.clone(),
            format!("v2:{hex}"),
            format!("V1:{hex}"),
            format!("v1:{}", hex.to_uppercase()),
            format!("v1:{hex}0"),
            format!("v1:{}", &hex[1..]),
            format!("v1:{} ", &hex[1..]),
            format!("v1:{}é", &hex[2..]),
        ];
        for text in texts {
            assert_eq!(Fingerprint::parse(&text), Err(FingerprintError), "{text}");
        }
    }

    #[test]
    fn hashes_the_same_bytes_however_they_are_cut() {
        let text = "0123456789".repeat(300);
        let whole = Fingerprint::of(|out| out(&text));
        assert_eq!(*whole.digest(), <[u8; 32]>::from(Sha256::digest(&text)));
        for size in [1, 7, 511, 512, 513, 1024] {
            let cut = Fingerprint::of(|out| {
                let mut rest = &*text;
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(size.min(rest.len()));
                    out(piece);
                    rest = after;
                }
            });
            assert_eq!(cut, whole, "pieces of {size}");
        }
    }

    #[test]
    fn orders_names_like_utf_16() {
        let mut names = vec![
            "",
            "a",
            "ab",
            "\u{7f}",
            "\u{80}",
            "\u{7ff}",
            "\u{800}",
            "\u{d7ff}",
            "\u{e000}",
            "\u{efff}",
            "\u{f000}",
            "\u{ffff}",
            "\u{10000}",
            "\u{1f600}",
            "\u{10ffff}",
            "a\u{ffff}",
            "a\u{10000}",
            "\u{10000}\u{e000}",
        ];
        let mut expected = names.clone();
        names.sort_by(|a, b| utf16_order(a, b));
        expected.sort_by_key(|name| name.encode_utf16().collect::<Vec<_>>());
        assert_eq!(names, expected);
    }
}
