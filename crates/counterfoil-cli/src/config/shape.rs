//! One declaration per section of the file gives both the type that reads it and its JSON schema, so the two cannot
//! drift apart.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use toml::Spanned;

use counterfoil::KeyFormat;
use counterfoil::policy::{BodyKind, Meaning, SignatureScheme};
use counterfoil::recovery::StoredErrors;

/// The named schemas that a shape refers to.
pub(super) type Definitions = Map<String, Value>;

/// What the schema says of a type, and whether a value of it is something that this version does not build.
pub(super) trait Shape {
    /// Whether a section that holds it must have it.
    const REQUIRED: bool = true;
    /// Whether the schema keeps silent about it.
    const HIDDEN: bool = false;

    /// The JSON schema; sections add themselves to `definitions` and give a reference.
    fn shape(definitions: &mut Definitions) -> Value;

    /// Where the file says something that this version does not build, with the keys below this value.
    fn not_built(&self) -> Vec<NotBuilt> {
        Vec::new()
    }
}

/// A part of the file that is refused because this version does not build it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotBuilt {
    /// The keys that lead to it.
    pub path: Vec<String>,
    /// Its bytes in the file.
    pub span: Range<usize>,
}

impl NotBuilt {
    /// The same place, seen from one level further out.
    fn below(mut self, key: &str) -> Self {
        self.path.insert(0, key.to_owned());
        self
    }
}

/// The places of `inner`, seen from the section that holds it under `key`.
pub(super) fn below(key: &str, inner: Vec<NotBuilt>) -> Vec<NotBuilt> {
    inner.into_iter().map(|place| place.below(key)).collect()
}

/// A value and its bytes in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At<T>(Spanned<T>);

impl<T> At<T> {
    /// The value.
    pub fn get(&self) -> &T {
        self.0.get_ref()
    }

    /// Its bytes in the file.
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<T: Shape> Shape for At<T> {
    fn shape(definitions: &mut Definitions) -> Value {
        T::shape(definitions)
    }

    fn not_built(&self) -> Vec<NotBuilt> {
        self.get().not_built()
    }
}

impl<T: Shape> Shape for Option<T> {
    const REQUIRED: bool = false;
    const HIDDEN: bool = T::HIDDEN;

    fn shape(definitions: &mut Definitions) -> Value {
        T::shape(definitions)
    }

    fn not_built(&self) -> Vec<NotBuilt> {
        self.as_ref().map(Shape::not_built).unwrap_or_default()
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn shape(definitions: &mut Definitions) -> Value {
        json!({ "type": "array", "items": T::shape(definitions) })
    }

    fn not_built(&self) -> Vec<NotBuilt> {
        self.iter().flat_map(Shape::not_built).collect()
    }
}

impl<T: Shape> Shape for BTreeMap<At<String>, T> {
    fn shape(definitions: &mut Definitions) -> Value {
        json!({ "type": "object", "additionalProperties": T::shape(definitions) })
    }

    fn not_built(&self) -> Vec<NotBuilt> {
        self.iter().flat_map(|(key, value)| below(key.get(), value.not_built())).collect()
    }
}

impl Shape for String {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": "string" })
    }
}

impl Shape for bool {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": "boolean" })
    }
}

impl Shape for u64 {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": "integer", "minimum": 0 })
    }
}

impl Shape for f64 {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": "number", "exclusiveMinimum": 0 })
    }
}

/// A key that the whole product has and this version does not. Its value is read by nothing; that it is there is
/// enough to refuse the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Later(Range<usize>);

impl<'de> Deserialize<'de> for Later {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Spanned::<serde::de::IgnoredAny>::deserialize(deserializer)?.span()))
    }
}

impl Shape for Later {
    const HIDDEN: bool = true;

    fn shape(_: &mut Definitions) -> Value {
        Value::Bool(false)
    }

    fn not_built(&self) -> Vec<NotBuilt> {
        vec![NotBuilt { path: Vec::new(), span: self.0.clone() }]
    }
}

macro_rules! words {
    ($($type:ty: $($word:literal)+;)+) => { $(
        impl Shape for $type {
            fn shape(_: &mut Definitions) -> Value {
                json!({ "enum": [$($word),+] })
            }
        }

        #[cfg(test)]
        impl Words for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
        }
    )+ };
}

#[cfg(test)]
/// A type whose values are words; a test holds the list against what the type reads.
pub(super) trait Words {
    /// Every word.
    const WORDS: &'static [&'static str];
}

words! {
    BodyKind: "json" "form" "none";
    Meaning: "succeeded" "rejected" "not_processed" "throttled" "pending" "duplicate_of_ours" "unknown";
    KeyFormat: "hex32" "uuid" "base64url22" "quoted" "raw";
    SignatureScheme: "standard" "stripe";
    super::file::NotifyKind: "webhook" "slack" "email";
    StoredErrors: "all" "success_only" "reruns";
    super::file::FieldKind: "text" "money" "date";
    super::file::Urgency: "low" "normal" "high" "critical";
    super::file::Kind: "transaction" "idempotency_key" "unique_reference" "lookup" "none";
}

/// Declares a section: the type that serde reads (unknown keys are errors), its keys and its schema.
macro_rules! section {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $about:literal])+ $field:ident: $type:ty,)* }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[doc = $about])+ pub $field: $type,)* }

        impl $name {
            /// Every key of the section, those of later versions included.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($field)),*];
        }

        impl Shape for $name {
            fn shape(definitions: &mut Definitions) -> serde_json::Value {
                let name = stringify!($name).trim_end_matches("Section").to_lowercase();
                if !definitions.contains_key(&name) {
                    definitions.insert(name.clone(), serde_json::Value::Null);
                    let mut properties = serde_json::Map::new();
                    let mut required: Vec<&str> = Vec::new();
                    $(if !<$type as Shape>::HIDDEN {
                        let shape = <$type as Shape>::shape(definitions);
                        let about = concat!($($about),+).trim();
                        let key = $crate::config::shape::key(stringify!($field));
                        properties.insert(key.to_owned(), $crate::config::shape::described(shape, about));
                        if <$type as Shape>::REQUIRED { required.push(key); }
                    })*
                    let about = concat!($($doc),+).trim();
                    let schema = serde_json::json!({
                        "description": about, "type": "object", "properties": properties,
                        "required": required, "additionalProperties": false,
                    });
                    definitions.insert(name.clone(), schema);
                }
                serde_json::json!({ "$ref": format!("#/$defs/{name}") })
            }

            fn not_built(&self) -> Vec<NotBuilt> {
                let mut places = Vec::new();
                $(places.extend($crate::config::shape::below($crate::config::shape::key(stringify!($field)), self.$field.not_built()));)*
                places
            }
        }
    };
}
pub(super) use section;

/// A key as the file spells it: a word that Rust keeps for itself is written `r#word` here.
pub(super) fn key(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// A schema with the words that an editor shows beside it.
pub(super) fn described(mut schema: Value, about: &str) -> Value {
    if let Some(members) = schema.as_object_mut() {
        members.insert("description".to_owned(), Value::from(about));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree<T: Words + for<'de> Deserialize<'de>>() {
        for word in T::WORDS {
            assert!(serde_json::from_value::<T>(Value::from(*word)).is_ok(), "{word}");
        }
        let refused = serde_json::from_value::<T>(Value::from("?")).err().unwrap().to_string();
        assert_eq!(refused.matches('`').count() / 2 - 1, T::WORDS.len(), "{refused}");
    }

    #[test]
    fn the_words_of_the_schema_are_those_that_are_read() {
        agree::<BodyKind>();
        agree::<Meaning>();
        agree::<KeyFormat>();
        agree::<SignatureScheme>();
        agree::<super::super::file::NotifyKind>();
        agree::<StoredErrors>();
        agree::<super::super::file::FieldKind>();
        agree::<super::super::file::Urgency>();
        agree::<super::super::file::Kind>();
    }
}
