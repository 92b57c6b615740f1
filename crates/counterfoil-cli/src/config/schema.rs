//! The JSON schema of the file, for editors. It is made from the very declarations that read the file.

use serde_json::{Map, Value, json};

use super::file::FileSection;
use super::shape::{Definitions, Shape as _};

/// The schema (draft 2020-12), as pretty text with a final line end.
#[must_use]
pub fn text() -> String {
    let mut definitions = Definitions::new();
    let root = FileSection::shape(&mut definitions);
    let mut members = Map::new();
    members.insert("$schema".to_owned(), Value::from("https://json-schema.org/draft/2020-12/schema"));
    members.insert("title".to_owned(), Value::from("counterfoil.toml"));
    members.insert("$ref".to_owned(), root["$ref"].clone());
    members.insert("$defs".to_owned(), Value::Object(definitions));
    format!("{:#}\n", json!(members))
}
