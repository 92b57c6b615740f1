//! The committed artefacts are what the program makes: the schema of the configuration, the reference of the command
//! line, the pages of the problems, the description of the API, the list of metrics. `UPDATE_ARTEFACTS=1 cargo test` rewrites them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails ends its test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use counterfoil_cli::config::schema;
use counterfoil_cli::problems::{self, CATALOGUE};
use counterfoil_cli::{cli, config};
use serde_json::Value;

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

/// Compares a committed file with what the program makes, or rewrites it where that is asked for.
fn same(path: &Path, made: &str) {
    if std::env::var_os("UPDATE_ARTEFACTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, made).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == made,
        "{} is not what the program makes; rewrite it with UPDATE_ARTEFACTS=1 cargo test",
        path.display()
    );
}

#[test]
fn the_schema_is_committed() {
    same(&reference().join("counterfoil.schema.json"), &schema::text());
}

#[test]
fn the_reference_of_the_command_line_is_committed() {
    same(&reference().join("cli.md"), &cli::reference::text());
}

#[test]
fn the_pages_of_the_problems_are_committed() {
    let folder = reference().join("problems");
    let mut made = BTreeSet::from(["README.md".to_owned()]);
    same(&folder.join("README.md"), &problems::index());
    for problem in CATALOGUE {
        let name = format!("{}.md", problem.slug);
        same(&folder.join(&name), &problems::page(problem));
        made.insert(name);
    }
    let there: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, made, "pages without a problem");
}

#[test]
fn the_description_of_the_api_is_committed() {
    same(&reference().join("openapi.json"), &counterfoil_cli::api::document());
}

#[test]
fn the_list_of_metrics_is_committed() {
    same(&reference().join("metrics.md"), &counterfoil_cli::api::metrics::reference());
}

/// The part of JSON schema that ours uses; `None` where the value fits.
fn misfit(value: &Value, schema: &Value, root: &Value, at: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.trim_start_matches('#')).expect(name);
        return misfit(value, target, root, at);
    }
    let of_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("a type that this test does not know: {other}"),
    };
    if let Some(ways) = schema["anyOf"].as_array() {
        let misfits: Vec<_> = ways.iter().filter_map(|way| misfit(value, way, root, at)).collect();
        return misfits.into_iter().nth(ways.len() - 1);
    }
    let listed = schema["type"].as_array().into_iter().flatten();
    let types: Vec<&str> = listed.chain([&schema["type"]]).filter_map(Value::as_str).collect();
    let fits = types.is_empty() || types.into_iter().any(of_type);
    if !fits {
        return Some(format!("{at}: not of type {}", schema["type"]));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Some(format!("{at}: not one of {words:?}"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(misfit) = misfit(item, &schema["items"], root, &format!("{at}/{index}")) {
            return Some(misfit);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Some(format!("{at}: {name} is missing"));
        }
    }
    for (key, member) in value.as_object().into_iter().flatten() {
        let inner = match schema["properties"].get(key) {
            Some(inner) => inner,
            None if schema["additionalProperties"].is_object() => &schema["additionalProperties"],
            None => return Some(format!("{at}: {key} is unknown")),
        };
        if let Some(misfit) = misfit(member, inner, root, &format!("{at}/{key}")) {
            return Some(misfit);
        }
    }
    None
}

fn against_schema(text: &str) -> Option<String> {
    let value: Value = toml::from_str(text).unwrap();
    let schema: Value = serde_json::from_str(&schema::text()).unwrap();
    misfit(&value, &schema, &schema, "")
}

/// Every example in the repository, by path: the tests' own, and what `init` writes.
fn examples() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let mut examples: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap()))
        .collect();
    examples.push(("init".to_owned(), cli::init::TEMPLATE.to_owned()));
    examples
}

#[test]
fn every_example_fits_reader_and_schema() {
    let examples = examples();
    assert!(examples.len() >= 3);
    for (path, text) in examples {
        let read = config::parse(&text, Path::new("counterfoil.toml"), &config::Overrides::default());
        assert!(read.is_ok(), "{path}: {}", read.unwrap_err());
        assert_eq!(against_schema(&text), None, "{path}");
    }
}

/// The largest example has every key of the schema, so that a key which only one of the two knows is seen.
#[test]
fn the_largest_example_uses_every_key_of_the_schema() {
    let schema: Value = serde_json::from_str(&schema::text()).unwrap();
    let text = include_str!("configs/every-key.toml");
    for (section, shape) in schema["$defs"].as_object().unwrap() {
        for key in shape["properties"].as_object().unwrap().keys() {
            let written = text.lines().any(|line| {
                let code = line.split(" #").next().unwrap();
                let assigned = code.contains(&format!("{key} ="));
                let header = code.starts_with('[') && code.contains(key.as_str());
                assigned || header
            });
            assert!(written, "{section}.{key} is in no example");
        }
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    for text in [
        "[sever]\n",
        "[server]\nlisten = 5\n",
        "[mcp]\n",
        "[tools.t.recovery]\nkind = \"lookups\"\n",
        "[tools.t.http]\nmethod = \"POST\"\n",
        "[tools.t]\nguard_on = \"/a\"\n",
        "[tools.t]\napproval = { when = [{ greater_than = 5 }] }\n",
        "[limits]\nwaiters = \"many\"\n",
    ] {
        assert!(config::parse(text, Path::new("c.toml"), &config::Overrides::default()).is_err(), "{text}");
        assert!(against_schema(text).is_some(), "{text}");
    }
}
