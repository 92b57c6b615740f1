//! Single values out of an answer's body, without a tree of the whole: a body may have 64 MiB.

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::{self, Content};
use crate::pointer::Pointer;

/// The longest scalar that is read out of a body, in bytes as written.
const MAX_SCALAR: usize = 4096;

/// One value of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(String),
    /// An array or object, and whether anything is in it; also a scalar that is too long to be a name or code.
    Other {
        empty: bool,
    },
}

impl Value {
    /// The value as the configuration spells it: as in JSON, strings without quotes.
    pub(super) fn spelled(&self) -> Option<&str> {
        match self {
            Self::Null => Some("null"),
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            Self::Number(text) | Self::Text(text) => Some(text),
            Self::Other { .. } => None,
        }
    }
}

/// A body that is one JSON value.
#[derive(Clone, Copy)]
pub(super) struct Document<'b>(&'b str);

impl<'b> Document<'b> {
    /// The body, if it is UTF-8 and one whole JSON value.
    pub(super) fn read(bytes: &'b [u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        serde_json::from_str::<&RawValue>(text).ok()?;
        Some(Self(text))
    }

    pub(super) fn text(self) -> &'b str {
        self.0
    }

    /// The named value. A name that an object holds twice means two things, so it names nothing.
    pub(super) fn find(self, pointer: &Pointer) -> Option<Value> {
        let tokens: Vec<&str> = pointer.tokens().collect();
        self.raw(&tokens).map(value)
    }

    /// The text of the value at the end of these names and indexes.
    pub(super) fn raw(self, tokens: &[&str]) -> Option<&'b str> {
        let mut reader = serde_json::Deserializer::from_str(self.0);
        Walk { tokens }.deserialize(&mut reader).ok()?
    }
}

pub(super) fn value(raw: &str) -> Value {
    let inside = || raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if raw.starts_with(['{', '[']) {
        return Value::Other { empty: inside().trim().is_empty() };
    }
    if raw.len() > MAX_SCALAR {
        return Value::Other { empty: false };
    }
    let Ok(node) = json::parse_str(raw, 1) else { return Value::Other { empty: false } };
    match node.content() {
        Content::Null => Value::Null,
        Content::Bool(value) => Value::Bool(*value),
        Content::Number(text) => Value::Number((*text).to_owned()),
        Content::String(text) => Value::Text(text.clone().into_owned()),
        Content::Array(_) | Content::Object(_) => Value::Other { empty: false },
    }
}

/// How many elements an array has; `None` for anything else.
pub(super) fn length(raw: &str) -> Option<usize> {
    serde_json::from_str::<Vec<IgnoredAny>>(raw).ok().map(|elements| elements.len())
}

/// Follows the tokens and skips everything beside them.
struct Walk<'t> {
    tokens: &'t [&'t str],
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<&'de str>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.tokens.is_empty() {
            let raw = <&RawValue as serde::Deserialize>::deserialize(deserializer)?;
            return Ok(Some(raw.get()));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<&'de str>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((token, rest)) = self.tokens.split_first() else { return Ok(None) };
        let mut found = None;
        let mut seen = 0_u8;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if name == *token {
                seen = seen.saturating_add(1);
                found = map.next_value_seed(Walk { tokens: rest })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(if seen == 1 { found } else { None })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let Some((token, rest)) = self.tokens.split_first() else { return Ok(None) };
        let canonical = token.len() == 1 || !token.starts_with('0');
        let wanted = token.parse::<usize>().ok().filter(|_| canonical && !token.starts_with('+'));
        let mut found = None;
        let mut at = 0_usize;
        loop {
            if Some(at) == wanted {
                match elements.next_element_seed(Walk { tokens: rest })? {
                    Some(value) => found = value,
                    None => return Ok(found),
                }
            } else if elements.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            at += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_single_values() {
        let body = br#" {"id":"po_1","n":1.50,"big":123456789012345678901234567890,"list":[{"id":7},[]],
            "o":{},"t":true,"z":null,"a/b":"\u0041","twice":1,"twice":2} "#;
        let document = Document::read(body).unwrap();
        let find = |pointer: &str| document.find(&Pointer::parse(pointer).unwrap());
        assert_eq!(find("/id"), Some(Value::Text("po_1".to_owned())));
        assert_eq!(find("/n"), Some(Value::Number("1.50".to_owned())));
        assert_eq!(find("/big"), Some(Value::Number("123456789012345678901234567890".to_owned())));
        assert_eq!(find("/list/0/id"), Some(Value::Number("7".to_owned())));
        assert_eq!(find("/list/1"), Some(Value::Other { empty: true }));
        assert_eq!(find("/list"), Some(Value::Other { empty: false }));
        assert_eq!(find("/o"), Some(Value::Other { empty: true }));
        assert_eq!(find("/t"), Some(Value::Bool(true)));
        assert_eq!(find("/z"), Some(Value::Null));
        assert_eq!(find("/a~1b"), Some(Value::Text("A".to_owned())));
        for absent in ["/twice", "/no", "/id/x", "/n/0", "/list/00", "/list/2", "/list/-", "/list/+0", "/z/x"]
        {
            assert_eq!(find(absent), None, "{absent}");
        }
        assert_eq!(find(""), Some(Value::Other { empty: false }));
    }

    #[test]
    fn reads_only_one_whole_value() {
        for bad in [&b"{\"id\":\"po_"[..], b"", b"{} {}", b"\xFF", b"{\"a\":\"\xFF\"}", b"{'a':1}"] {
            assert!(Document::read(bad).is_none(), "{bad:?}");
        }
        assert_eq!(Document::read(b"null").unwrap().find(&Pointer::default()), Some(Value::Null));
    }
}
