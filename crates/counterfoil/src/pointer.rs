//! JSON pointers (RFC 6901): how the configuration names a member of the arguments or of an answer.

use crate::json::{Content, Node};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A path to one value of a JSON document. The empty pointer names the document itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    tokens: Box<[Box<str>]>,
}

/// Why a text is no pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PointerError {
    /// It is not empty and does not begin with `/`.
    #[error("a JSON pointer begins with `/`")]
    NoSlash,
    /// A `~` that is followed neither by `0` nor by `1`.
    #[error("in a JSON pointer `~` is written `~0`, and a `/` inside a name `~1`")]
    BadEscape,
}

impl Pointer {
    /// Reads a pointer in its text form (`/supplier/name`), not in the form of a URI fragment.
    ///
    /// # Errors
    ///
    /// As [`PointerError`] lists.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let path = text.strip_prefix('/').ok_or(PointerError::NoSlash)?;
        let tokens = path.split('/').map(unescape).collect::<Result<_, _>>()?;
        Ok(Self { tokens })
    }

    /// The names and indexes on the way, without escapes.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tokens.iter().map(|token| &**token)
    }

    /// Whether this names the whole document.
    pub fn is_root(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The pointer to what holds the named value, and the last token. `None` for the whole document.
    pub fn split_last(&self) -> Option<(Pointer, &str)> {
        let (last, parents) = self.tokens.split_last()?;
        Some((Pointer { tokens: parents.into() }, last))
    }

    /// The named value, if the document has it.
    pub fn resolve<'n, 'a>(&self, document: &'n Node<'a>) -> Option<&'n Node<'a>> {
        self.tokens.iter().try_fold(document, |node, token| child(node, token))
    }

    /// The named value, if the document has it as a member of an object. An element of an array and the
    /// document itself are no members.
    pub fn resolve_member<'n, 'a>(&self, document: &'n Node<'a>) -> Option<&'n Node<'a>> {
        let (last, parents) = self.tokens.split_last()?;
        parents.iter().try_fold(document, |node, token| child(node, token))?.member(last)
    }
}

fn child<'n, 'a>(node: &'n Node<'a>, token: &str) -> Option<&'n Node<'a>> {
    match node.content() {
        Content::Object(_) => node.member(token),
        Content::Array(elements) => elements.get(index(token)?),
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::String(_) => None,
    }
}

/// RFC 6901 section 4: digits without a leading zero. `-` (past the end) names nothing that exists.
fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (token.len() > 1 && token.starts_with('0')) { None } else { token.parse().ok() }
}

fn unescape(token: &str) -> Result<Box<str>, PointerError> {
    let mut parts = token.split('~');
    let mut name = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let (character, rest) = match part.as_bytes().first() {
            Some(b'0') => ('~', &part[1..]),
            Some(b'1') => ('/', &part[1..]),
            Some(_) | None => return Err(PointerError::BadEscape),
        };
        name.push(character);
        name.push_str(rest);
    }
    Ok(name.into())
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in &self.tokens {
            write!(f, "/{}", token.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        Self::parse(text)
    }
}

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    /// The document and the table of RFC 6901 section 5.
    #[test]
    fn names_the_values_of_the_rfc_example() {
        let text =
            r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#;
        let document = json::parse_str(text, 8).unwrap();
        let table = [
            ("", text),
            ("/foo", r#"["bar","baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ];
        for (pointer, raw) in table {
            let parsed = Pointer::parse(pointer).unwrap();
            assert_eq!(parsed.resolve(&document).map(Node::raw), Some(raw), "{pointer}");
            assert_eq!(parsed.to_string(), pointer);
            let written = serde_json::to_string(&parsed).unwrap();
            assert_eq!(serde_json::from_str::<Pointer>(&written).unwrap(), parsed);
        }
    }

    #[test]
    fn names_nothing_where_nothing_is() {
        let document = json::parse_str(r#"{"foo":["bar"],"n":null}"#, 8).unwrap();
        for pointer in
            ["/bar", "/foo/1", "/foo/-", "/foo/00", "/foo/01", "/foo/+0", "/foo/", "/n/x", "/foo/0/x"]
        {
            assert_eq!(Pointer::parse(pointer).unwrap().resolve(&document), None, "{pointer}");
        }
    }

    #[test]
    fn an_element_and_the_document_are_no_members() {
        let document = json::parse_str(r#"{"l":[{"a":1}]}"#, 8).unwrap();
        let member = |pointer| Pointer::parse(pointer).unwrap().resolve_member(&document).map(Node::raw);
        assert_eq!(member(""), None);
        assert_eq!(member("/l/0"), None);
        assert_eq!(member("/l/0/a"), Some("1"));
    }

    #[test]
    fn refuses_what_is_no_pointer() {
        assert_eq!(Pointer::parse("a"), Err(PointerError::NoSlash));
        assert_eq!(Pointer::parse("#/a"), Err(PointerError::NoSlash));
        assert_eq!(Pointer::parse("/a~"), Err(PointerError::BadEscape));
        assert_eq!(Pointer::parse("/a~2"), Err(PointerError::BadEscape));
        assert_eq!(Pointer::parse("/~01").unwrap().tokens().collect::<Vec<_>>(), ["~1"]);
    }
}
