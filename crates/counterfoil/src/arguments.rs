//! The arguments of an operation: the exact bytes that were approved, compared by meaning and sent as written.

use crate::fingerprint::{Canonical, Fingerprint, Omitted, utf16_order};
use crate::json::{self, JsonError, JsonReason, Node};
use crate::pointer::Pointer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The exact text of one JSON object. Equal when the bytes are; [`Arguments::fingerprint`] compares by meaning.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Arguments {
    text: Arc<str>,
}

/// Why a text cannot be the arguments of an operation. Nothing of the text is repeated in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ArgumentsError {
    /// More bytes than allowed.
    #[error("the arguments are larger than {limit} bytes")]
    TooLarge {
        /// The most bytes that are accepted.
        limit: usize,
    },
    /// Not JSON, or JSON that two readers may understand differently.
    #[error("the arguments are refused: {reason} (at byte {offset})")]
    Invalid {
        /// What is wrong.
        reason: JsonReason,
        /// Where, counted from 0.
        offset: usize,
    },
    /// JSON, but no object.
    #[error("the arguments are not a JSON object")]
    NotAnObject,
}

/// Why a member cannot be spliced in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SpliceError {
    /// The arguments have this member already, and nothing that was approved is overwritten.
    #[error("the arguments already have the member that the key or reference goes into")]
    Present,
    /// What should hold the member is absent or no object.
    #[error("the arguments lack the object that the key or reference goes into")]
    NoParent,
}

impl Arguments {
    /// The most bytes that are accepted.
    pub const MAX_BYTES: usize = 256 * 1024;
    /// The deepest nesting that is accepted; the arguments object itself is 1.
    pub const MAX_DEPTH: usize = 64;
    /// The most names that [`Arguments::differing_members`] returns.
    pub const MAX_DIFFERING: usize = 100;

    /// Takes arguments from outside, white space around them included.
    ///
    /// # Errors
    ///
    /// As [`ArgumentsError`] lists; the size is checked before anything is read.
    pub fn parse(bytes: &[u8]) -> Result<Self, ArgumentsError> {
        if bytes.len() > Self::MAX_BYTES {
            return Err(ArgumentsError::TooLarge { limit: Self::MAX_BYTES });
        }
        let invalid =
            |error: JsonError| ArgumentsError::Invalid { reason: error.reason, offset: error.offset };
        let text = std::str::from_utf8(bytes).map_err(|error| ArgumentsError::Invalid {
            reason: JsonReason::InvalidUtf8,
            offset: error.valid_up_to(),
        })?;
        let node = json::parse_str(text, Self::MAX_DEPTH).map_err(invalid)?;
        node.members().ok_or(ArgumentsError::NotAnObject)?;
        Ok(Self { text: text.into() })
    }

    /// Takes arguments out of a larger text that was read already, exactly as written.
    ///
    /// # Errors
    ///
    /// As [`Arguments::parse`]; what the reader refuses was refused before.
    pub fn of_node(node: &Node<'_>) -> Result<Self, ArgumentsError> {
        if node.raw().len() > Self::MAX_BYTES {
            return Err(ArgumentsError::TooLarge { limit: Self::MAX_BYTES });
        }
        node.members().ok_or(ArgumentsError::NotAnObject)?;
        if node.depth() > Self::MAX_DEPTH {
            return Err(ArgumentsError::Invalid { reason: JsonReason::TooDeep, offset: node.span().start });
        }
        Ok(Self { text: node.raw().into() })
    }

    /// Takes a text that [`Arguments::parse`] accepted before, from the ledger.
    ///
    /// A text that was damaged since is carried along and equals no other action: see
    /// [`Arguments::fingerprint`].
    pub fn from_stored(text: String) -> Self {
        Self { text: text.into() }
    }

    /// The text as the caller wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text as a tree.
    ///
    /// # Errors
    ///
    /// Only a text that did not come through [`Arguments::parse`] gives an error.
    pub fn node(&self) -> Result<Node<'_>, JsonError> {
        json::parse_str(&self.text, Self::MAX_DEPTH)
    }

    /// The identity of this action, without the members that the tool declares volatile. A pointer that names
    /// no member of an object (an element of an array, the whole arguments) leaves nothing out.
    ///
    /// Stored text that can no longer be read is hashed as a string, which no readable arguments can equal: a
    /// repeat is then refused as different, and nothing is sent on the strength of it.
    pub fn fingerprint(&self, tool: &str, volatile: &[Pointer]) -> Fingerprint {
        Fingerprint::of(|out| self.write_canonical(tool, volatile, out))
    }

    /// The text that [`Arguments::fingerprint`] hashes.
    pub fn canonical(&self, tool: &str, volatile: &[Pointer]) -> String {
        let mut text = String::with_capacity(self.text.len() + tool.len() + 32);
        self.write_canonical(tool, volatile, &mut |piece| text.push_str(piece));
        text
    }

    fn write_canonical(&self, tool: &str, volatile: &[Pointer], out: &mut dyn FnMut(&str)) {
        match self.node() {
            Ok(node) => {
                let omitted = Omitted::find(&node, volatile);
                let mut canonical = Canonical::new(&omitted, out);
                canonical.put("{\"arguments\":");
                canonical.value(&node);
                canonical.put(",\"tool\":");
                canonical.string(tool);
                canonical.put("}");
            }
            Err(_) => self.write_unreadable("arguments", tool, out),
        }
    }

    /// The digest of the members that make two calls of a tool the same action (its `guard_on`): the canonical
    /// form of `{"guard": {"/pointer": value, …}, "tool": name}`, where members that are absent are left out, and so is
    /// what is volatile inside them.
    pub fn digest_of_members(&self, tool: &str, members: &[Pointer], volatile: &[Pointer]) -> Fingerprint {
        let Ok(node) = self.node() else {
            return Fingerprint::of(|out| self.write_unreadable("guard", tool, out));
        };
        let mut named: Vec<(String, &Node<'_>)> = members
            .iter()
            .filter_map(|pointer| Some((pointer.to_string(), pointer.resolve(&node)?)))
            .collect();
        named.sort_unstable_by(|a, b| utf16_order(&a.0, &b.0));
        named.dedup_by(|a, b| a.0 == b.0);
        Fingerprint::of(|out| {
            let omitted = Omitted::find(&node, volatile);
            let mut canonical = Canonical::new(&omitted, out);
            canonical.put("{\"guard\":{");
            for (at, (pointer, value)) in named.into_iter().enumerate() {
                if at > 0 {
                    canonical.put(",");
                }
                canonical.string(&pointer);
                canonical.put(":");
                canonical.value(value);
            }
            canonical.put("},\"tool\":");
            canonical.string(tool);
            canonical.put("}");
        })
    }

    fn write_unreadable(&self, kind: &str, tool: &str, out: &mut dyn FnMut(&str)) {
        let mut put = |text: &str| out(text);
        put("{\"");
        put(kind);
        put("\":");
        json::write_string(&self.text, &mut put);
        put(",\"tool\":");
        json::write_string(tool, &mut put);
        put("}");
    }

    /// The top-level members in which two calls differ, as `arguments.NAME`, sorted, at most
    /// [`Arguments::MAX_DIFFERING`] of them. Values are never named; names are an agent's text and are shown
    /// with control and invisible characters escaped, and cut where they have more than 64 bytes.
    pub fn differing_members(&self, other: &Arguments, volatile: &[Pointer]) -> Vec<String> {
        let (Ok(mine), Ok(theirs)) = (self.node(), other.node()) else {
            return vec![String::from("arguments")];
        };
        let (mine, theirs) = (canonical_members(&mine, volatile), canonical_members(&theirs, volatile));
        let names: BTreeSet<&str> = mine.keys().chain(theirs.keys()).copied().collect();
        names
            .into_iter()
            .filter(|name| mine.get(name) != theirs.get(name))
            .take(Self::MAX_DIFFERING)
            .map(|name| format!("arguments.{}", shown(name)))
            .collect()
    }

    /// The text with a string member added as the last one of the object that the pointer's parent names.
    /// Every other byte stays as it was: what goes out is what was approved, and the key.
    ///
    /// # Errors
    ///
    /// As [`SpliceError`] lists. The whole document and the elements of an array have no place for a member.
    pub fn splice(&self, at: &Pointer, text: &str) -> Result<String, SpliceError> {
        let node = self.node().map_err(|_| SpliceError::NoParent)?;
        let (parent, name) = at.split_last().ok_or(SpliceError::NoParent)?;
        let parent = parent.resolve(&node).ok_or(SpliceError::NoParent)?;
        let members = parent.members().ok_or(SpliceError::NoParent)?;
        if parent.member(name).is_some() {
            return Err(SpliceError::Present);
        }
        let (place, comma) = match members.last() {
            Some(last) => (last.span().end, ","),
            None => (parent.span().start + 1, ""),
        };
        let mut spliced = String::with_capacity(self.text.len() + name.len() + text.len() + 8);
        spliced.push_str(&self.text[..place]);
        spliced.push_str(comma);
        json::write_string(name, &mut |piece| spliced.push_str(piece));
        spliced.push(':');
        json::write_string(text, &mut |piece| spliced.push_str(piece));
        spliced.push_str(&self.text[place..]);
        Ok(spliced)
    }

    /// The text without the named members of the arguments object, for a body that leaves out what went into
    /// the path. The other members stay in their order and as written; if all stay, so does every byte.
    /// A pointer of more than one step names no member of the arguments object and is without effect.
    pub fn without_top_level(&self, pointers: &[Pointer]) -> String {
        let text = self.as_str();
        let Ok(node) = self.node() else { return text.to_owned() };
        let members = node.members().unwrap_or_default();
        let named = |name: &str| pointers.iter().any(|pointer| pointer.tokens().eq([name]));
        let kept: Vec<&str> = members
            .iter()
            .filter(|member| !named(member.name()))
            .map(|member| &text[member.span()])
            .collect();
        if kept.len() == members.len() { text.to_owned() } else { format!("{{{}}}", kept.join(",")) }
    }
}

/// The top-level members by name, each in canonical form, without the volatile ones.
fn canonical_members<'n>(document: &'n Node<'_>, volatile: &[Pointer]) -> BTreeMap<&'n str, String> {
    let omitted = Omitted::find(document, volatile);
    let members = document.members().unwrap_or_default().iter();
    members
        .filter(|member| !omitted.has(member.value()))
        .map(|member| {
            let mut text = String::with_capacity(member.value().raw().len());
            Canonical::new(&omitted, &mut |piece| text.push_str(piece)).value(member.value());
            (member.name(), text)
        })
        .collect()
}

/// A member name as it may stand in an answer or on a page.
fn shown(name: &str) -> String {
    const MAX: usize = 64;
    let mut shown = String::with_capacity(name.len().min(MAX));
    for character in name.chars() {
        let length = shown.len();
        match character {
            // These are escaped by `escape_debug` for the sake of Rust's literals only.
            '"' | '\'' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
        if shown.len() > MAX {
            shown.truncate(length);
            shown.push('…');
            break;
        }
    }
    shown
}

impl fmt::Debug for Arguments {
    /// Arguments may hold secrets and personal data, so only the length is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arguments({} bytes)", self.text.len())
    }
}

impl Serialize for Arguments {
    /// Writes the text as one string, so that no writer on the way re-spells what is in it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    /// Reads the text from a string, under the rules of [`Arguments::parse`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(text.as_bytes()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: &str = "supplier.create_order";

    fn arguments(text: &str) -> Arguments {
        Arguments::parse(text.as_bytes()).unwrap()
    }

    fn pointers<const N: usize>(texts: [&str; N]) -> [Pointer; N] {
        texts.map(|text| Pointer::parse(text).unwrap())
    }

    #[test]
    fn keeps_every_byte_and_shows_none() {
        let text = " {\"card\" : \"4111\", \"total\":1.50}\n";
        let taken = arguments(text);
        assert_eq!(taken.as_str(), text);
        assert_eq!(format!("{taken:?}"), format!("Arguments({} bytes)", text.len()));
        let json = serde_json::to_string(&taken).unwrap();
        assert_eq!(json, serde_json::to_string(text).unwrap());
        assert_eq!(serde_json::from_str::<Arguments>(&json).unwrap(), taken);
        assert!(serde_json::from_str::<Arguments>(r#""{\"a\":1,\"a\":2}""#).is_err());
        assert_ne!(taken, arguments(text.trim()));
    }

    #[test]
    fn size_is_checked_to_the_byte() {
        let of = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
        assert!(Arguments::parse(of(Arguments::MAX_BYTES).as_bytes()).is_ok());
        let error = Arguments::parse(of(Arguments::MAX_BYTES + 1).as_bytes()).unwrap_err();
        assert_eq!(error, ArgumentsError::TooLarge { limit: Arguments::MAX_BYTES });
        assert_eq!(error.to_string(), "the arguments are larger than 262144 bytes");
    }

    #[test]
    fn errors_repeat_nothing_of_the_text() {
        let error = Arguments::parse(br#"{"hunter2":"hunter2","hunter2":1}"#).unwrap_err();
        assert!(!error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"));
        let shown = error.to_string();
        assert_eq!(shown, "the arguments are refused: a member name is repeated in its object (at byte 21)");
    }

    #[test]
    fn damaged_text_equals_no_action_and_is_never_spliced() {
        let damaged = Arguments::from_stored(String::from("{\"a\":1"));
        let whole = arguments("{\"a\":1}");
        assert_ne!(damaged.fingerprint(TOOL, &[]), whole.fingerprint(TOOL, &[]));
        let guard = pointers(["/a"]);
        assert_ne!(damaged.digest_of_members(TOOL, &guard, &[]), whole.digest_of_members(TOOL, &guard, &[]));
        assert_eq!(damaged.canonical("t", &[]), r#"{"arguments":"{\"a\":1","tool":"t"}"#);
        assert_eq!(damaged.differing_members(&whole, &[]), ["arguments"]);
        assert_eq!(damaged.splice(&pointers(["/key"])[0], "k"), Err(SpliceError::NoParent));
        let deep = Arguments::from_stored("{\"a\":".repeat(100_000));
        assert_ne!(deep.fingerprint(TOOL, &[]), damaged.fingerprint(TOOL, &[]));
    }

    #[test]
    fn the_guard_sees_only_its_members() {
        let guard = pointers(["/week", "/supplier", "/nested/x"]);
        let one = arguments(r#"{"supplier":"north","week":32,"total":1}"#);
        let digest = one.digest_of_members(TOOL, &guard, &[]);
        let expected = r#"{"guard":{"/supplier":"north","/week":32e0},"tool":"supplier.create_order"}"#;
        assert_eq!(digest, Fingerprint::of(|out| out(expected)));

        let respelled = arguments(r#"{"total":2,"week":3.2e1,"supplier":"\u006eorth"}"#);
        assert_eq!(respelled.digest_of_members(TOOL, &guard, &[]), digest);
        let reordered = pointers(["/nested/x", "/supplier", "/week", "/week"]);
        assert_eq!(one.digest_of_members(TOOL, &reordered, &[]), digest);
        for other in [
            r#"{"supplier":"north","week":33}"#,
            r#"{"supplier":"north"}"#,
            r#"{"supplier":"north","week":null}"#,
            r#"{"supplier":"north","week":32,"nested":{"x":null}}"#,
        ] {
            assert_ne!(arguments(other).digest_of_members(TOOL, &guard, &[]), digest, "{other}");
        }
        assert_ne!(one.digest_of_members("supplier.cancel_order", &guard, &[]), digest);
        assert_ne!(one.digest_of_members(TOOL, &[], &[]), one.fingerprint(TOOL, &[]));
    }

    #[test]
    fn names_what_differs_and_no_value() {
        let one = arguments(r#"{"total":1,"note":"a","same":[1.0],"old":1,"meta":{"at":1,"who":2}}"#);
        let two = arguments(r#"{"same":[1],"total":2,"note":null,"new":1,"meta":{"who":2,"at":9}}"#);
        let volatile = pointers(["/meta/at"]);
        let expected = ["arguments.new", "arguments.note", "arguments.old", "arguments.total"];
        assert_eq!(one.differing_members(&two, &volatile), expected);
        assert_eq!(two.differing_members(&one, &volatile), expected);
        assert_eq!(one.differing_members(&two, &[]).len(), 5);
    }

    #[test]
    fn names_are_shown_safely() {
        let table = [
            ("größe", "größe"),
            ("it's \"x\"", "it's \"x\""),
            ("a\nb\u{0}", "a\\nb\\0"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
            ("a\\b", "a\\\\b"),
        ];
        for (name, expected) in table {
            assert_eq!(shown(name), expected);
        }
        assert_eq!(shown(&"x".repeat(64)), "x".repeat(64));
        assert_eq!(shown(&"x".repeat(65)), "x".repeat(64) + "…");
        assert_eq!(shown(&"é".repeat(40)), "é".repeat(32) + "…");
        assert_eq!(shown(&"\n".repeat(100_000)), "\\n".repeat(32) + "…");
    }

    #[test]
    fn many_differences_are_cut() {
        let members = |from: usize| {
            let members: Vec<String> = (from..from + 5_000).map(|at| format!("\"m{at:05}\":{at}")).collect();
            arguments(&format!("{{{}}}", members.join(",")))
        };
        let differing = members(0).differing_members(&members(10_000), &[]);
        assert_eq!(differing.len(), Arguments::MAX_DIFFERING);
        assert_eq!(differing[0], "arguments.m00000");
    }

    #[test]
    fn splices_into_the_named_object_only() {
        let table = [
            ("{}", "/key", r#"{"key":"k"}"#),
            (" { } ", "/key", r#" {"key":"k" } "#),
            ("{\"a\" : 1.50\n}", "/key", "{\"a\" : 1.50,\"key\":\"k\"\n}"),
            (r#"{"m":{},"z":1}"#, "/m/key", r#"{"m":{"key":"k"},"z":1}"#),
            (r#"{"m":{"a":"}"},"z":1}"#, "/m/key", r#"{"m":{"a":"}","key":"k"},"z":1}"#),
            (r#"{"l":[{"a":1},{"a":1}]}"#, "/l/1/key", r#"{"l":[{"a":1},{"a":1,"key":"k"}]}"#),
            (r#"{"x\/y":{"a":1}}"#, "/x~1y/k~0", r#"{"x\/y":{"a":1,"k~":"k"}}"#),
            ("{}", "/a\"b", r#"{"a\"b":"k"}"#),
        ];
        for (text, at, expected) in table {
            let spliced = arguments(text).splice(&Pointer::parse(at).unwrap(), "k");
            assert_eq!(spliced.as_deref(), Ok(expected), "{text} {at}");
        }
        let quoted = arguments("{}").splice(&pointers(["/key"])[0], "\"ab\"");
        assert_eq!(quoted.as_deref(), Ok(r#"{"key":"\"ab\""}"#));
    }

    #[test]
    fn refuses_a_splice_that_would_overwrite_or_invent() {
        let table = [
            (r#"{"key":null}"#, "/key", SpliceError::Present),
            (r#"{"\u006bey":"x"}"#, "/key", SpliceError::Present),
            (r#"{"m":{"key":{}}}"#, "/m/key", SpliceError::Present),
            ("{}", "/m/key", SpliceError::NoParent),
            (r#"{"m":"x"}"#, "/m/key", SpliceError::NoParent),
            (r#"{"m":[]}"#, "/m/0", SpliceError::NoParent),
            (r#"{"m":[]}"#, "/m/-", SpliceError::NoParent),
            ("{}", "", SpliceError::NoParent),
        ];
        for (text, at, expected) in table {
            assert_eq!(
                arguments(text).splice(&Pointer::parse(at).unwrap(), "k"),
                Err(expected),
                "{text} {at}"
            );
        }
    }

    #[test]
    fn leaves_members_out_and_the_others_as_written() {
        let text = "{ \"id\" : 7 , \"a\" :1.50,\n\"\\u0062\":{\"id\":[ 1 ]} }";
        let table: [(&[&str], &str); 5] = [
            (&["/id"], "{\"a\" :1.50,\"\\u0062\":{\"id\":[ 1 ]}}"),
            (&["/b", "/id"], "{\"a\" :1.50}"),
            (&["/id", "/a", "/b"], "{}"),
            (&["/none", "/b/id", ""], text),
            (&[], text),
        ];
        for (leave_out, expected) in table {
            let leave_out: Vec<_> = leave_out.iter().map(|text| Pointer::parse(text).unwrap()).collect();
            assert_eq!(arguments(text).without_top_level(&leave_out), expected);
        }
    }
}
