//! The tools of a folder: those of its file, the practice supplier's, and those that code declares by itself.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use counterfoil::Account;
use serde_json::Value;

use super::practice;
use crate::config::report::Report;
use crate::config::{self, Config, Overrides};

/// How many tools code may declare.
const MOST: usize = 100;

/// Bytes of one declaration.
const LONGEST: usize = 16 * 1024;

/// What the folder's tools are read from.
#[derive(Debug)]
pub struct Tools {
    /// The folder's file; there may be none.
    pub file: PathBuf,
    /// What comes before it.
    pub overrides: Overrides,
    /// The account of this server.
    pub account: Account,
    /// The practice supplier.
    pub supplier: SocketAddr,
    /// Whether the file alone decides, where there is one: no practice tool, no declarations of code.
    pub declared_only: bool,
    /// Where declarations of code are kept from one run to the next: open operations need them.
    pub kept: PathBuf,
    carried: Mutex<BTreeMap<String, String>>,
}

/// What became of a declaration that came with a call.
#[derive(Debug)]
pub enum Carried {
    /// The file has the tool, or nothing is new.
    Known,
    /// It is in force once the ledger has it.
    New(Box<Config>),
}

impl Tools {
    /// Reads what code declared the last time.
    #[must_use]
    pub fn open(
        file: PathBuf,
        overrides: Overrides,
        account: Account,
        supplier: SocketAddr,
        declared_only: bool,
        kept: PathBuf,
    ) -> Self {
        let last = std::fs::read(&kept).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self {
            file,
            overrides,
            account,
            supplier,
            declared_only,
            kept,
            carried: Mutex::new(last.unwrap_or_default()),
        }
    }

    /// Everything that is declared now.
    ///
    /// # Errors
    /// What keeps the file from loading.
    pub fn load(&self) -> Result<Config, Report> {
        let carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.with(&carried)
    }

    /// The file first, then the practice tool, then what code declares: nothing takes a name that is taken.
    fn with(&self, carried: &BTreeMap<String, String>) -> Result<Config, Report> {
        let own = practice::declaration(self.supplier);
        let exists = self.file.exists();
        let mut config = if exists {
            config::load(&self.file, &self.overrides)?
        } else {
            config::parse(&own, &self.file, &self.overrides)?
        };
        let more = std::iter::once(&own).chain(carried.values());
        for text in more.filter(|_| !(self.declared_only && exists)) {
            let more = config::parse(text, &self.file, &self.overrides)?;
            for (name, declared) in more.tools {
                config.tools.entry(name).or_insert(declared);
            }
        }
        // A tool for some accounts belongs to this one here; one for all accounts stays so.
        for declared in config.tools.values_mut().filter(|declared| declared.tool.accounts.is_some()) {
            declared.tool.accounts = Some(vec![self.account.clone()]);
        }
        Ok(config)
    }

    /// Takes up what code declares of `tool`, with the keys of the file. The file decides where it has the tool.
    ///
    /// # Errors
    /// Why it does not load.
    pub fn carry(&self, tool: &str, declaration: &Value) -> Result<Carried, String> {
        let block = block(tool, declaration)?;
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        if carried.get(tool) == Some(&block) || self.in_file(tool).map_err(|report| report.to_string())? {
            return Ok(Carried::Known);
        }
        let mut next = carried.clone();
        next.insert(tool.to_owned(), block);
        if next.len() > MOST {
            return Err(format!("code declares more than {MOST} tools"));
        }
        let config = self.with(&next).map_err(|report| report.to_string())?;
        self.keep(&next).map_err(|error| format!("{}: {error}", self.kept.display()))?;
        *carried = next;
        Ok(Carried::New(Box::new(config)))
    }

    fn in_file(&self, tool: &str) -> Result<bool, Report> {
        if tool == practice::TOOL {
            return Ok(true);
        }
        if !self.file.exists() {
            return Ok(false);
        }
        Ok(config::load(&self.file, &self.overrides)?.tools.keys().any(|name| name.as_str() == tool))
    }

    fn keep(&self, carried: &BTreeMap<String, String>) -> std::io::Result<()> {
        std::fs::write(&self.kept, serde_json::to_vec_pretty(carried)?)
    }

    /// Writes what code declares to the folder's file, which decides from then on, and says how many tools that were.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_down(&self) -> std::io::Result<usize> {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        if carried.is_empty() {
            return Ok(0);
        }
        let mut text = String::new();
        for block in carried.values() {
            text.push_str("\n# Written down from what the code declares; from here on this file decides.\n");
            text.push_str(block);
        }
        let mut file = std::fs::File::options().create(true).append(true).open(&self.file)?;
        file.write_all(text.as_bytes())?;
        let written = carried.len();
        carried.clear();
        self.keep(&carried)?;
        Ok(written)
    }
}

/// The tool's section as it would stand in the file.
fn block(tool: &str, declaration: &Value) -> Result<String, String> {
    let mut section = match plain(declaration) {
        Some(toml::Value::Table(section)) => section,
        Some(_) | None => return Err("a declaration is an object with the keys of the file".to_owned()),
    };
    // Code carries the action out itself, whatever else it says.
    section.entry("worker").or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let Some(toml::Value::Table(recovery)) = section.get_mut("recovery") {
        for member in carried_by_code(recovery.get("kind").and_then(toml::Value::as_str)) {
            recovery.entry(*member).or_insert_with(|| toml::Value::String("worker".to_owned()));
        }
    }
    let mut tools = toml::Table::new();
    tools.insert(tool.to_owned(), toml::Value::Table(section));
    let mut root = toml::Table::new();
    root.insert("tools".to_owned(), toml::Value::Table(tools));
    let text = toml::to_string(&root).map_err(|error| error.to_string())?;
    if text.len() > LONGEST { Err(format!("a declaration is longer than {LONGEST} bytes")) } else { Ok(text) }
}

/// What the file must say of a recovery that the code itself carries out, and the code need not state.
fn carried_by_code(kind: Option<&str>) -> &'static [&'static str] {
    match kind {
        Some("idempotency_key") => &["key"],
        Some("unique_reference" | "lookup") => &["reference", "lookup"],
        Some(_) | None => &[],
    }
}

/// The same value in the file's language, which has no `null`: a member that is null says nothing.
fn plain(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => toml::Value::Integer(whole),
            None => toml::Value::Float(number.as_f64()?),
        },
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(items) => toml::Value::Array(items.iter().filter_map(plain).collect()),
        Value::Object(members) => toml::Value::Table(
            members.iter().filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect(),
        ),
    })
}

/// The declarations in the body of a call: of a prepare with a claim, or of a worker that asks for work.
#[must_use]
pub fn stated(body: &[u8]) -> Vec<(String, Value)> {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let of = |name: Option<&Value>, declaration: Option<&Value>| {
        Some((name?.as_str()?.to_owned(), declaration.filter(|value| value.is_object())?.clone()))
    };
    let claimed = of(body.get("tool"), body.pointer("/claim/declaration"));
    let asked = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let asked = asked.filter_map(|tool| of(tool.get("name"), tool.get("declaration")));
    claimed.into_iter().chain(asked).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(folder: &std::path::Path) -> Tools {
        Tools::open(
            folder.join("counterfoil.toml"),
            Overrides::default(),
            Account::parse("dev").unwrap(),
            SocketAddr::from(([127, 0, 0, 1], 9)),
            false,
            folder.join("declared.json"),
        )
    }

    fn names(config: &Config) -> Vec<&str> {
        config.tools.keys().map(|name| name.as_str()).collect()
    }

    #[test]
    fn code_declares_until_the_file_does() {
        let folder = tempfile::tempdir().unwrap();
        let declaration = json!({ "recovery": { "kind": "none" }, "retention": null });
        let carried = tools(folder.path()).carry("mine.create", &declaration).unwrap();
        let Carried::New(config) = carried else { unreachable!("it is new") };
        assert_eq!(names(&config), ["mine.create", "practice.create_order"]);
        // Another run knows it from the last one.
        let again = tools(folder.path());
        assert!(matches!(again.carry("mine.create", &declaration), Ok(Carried::Known)));
        assert_eq!(names(&again.load().unwrap()), ["mine.create", "practice.create_order"]);
        assert_eq!(again.write_down().unwrap(), 1);
        assert_eq!(again.write_down().unwrap(), 0);
        let other = json!({ "recovery": { "kind": "none" }, "retention": "1d" });
        assert!(matches!(again.carry("mine.create", &other), Ok(Carried::Known)), "the file decides");
        let text = std::fs::read_to_string(&again.file).unwrap();
        assert!(text.contains("[tools.\"mine.create\".recovery]"), "{text}");
    }

    #[test]
    fn what_only_code_can_carry_out_need_not_be_stated() {
        let folder = tempfile::tempdir().unwrap();
        for (recovery, member) in [
            (json!({ "kind": "idempotency_key", "retention": "24h" }), "key = \"worker\""),
            (json!({ "kind": "unique_reference" }), "reference = \"worker\""),
            (json!({ "kind": "lookup", "authoritative": true }), "lookup = \"worker\""),
        ] {
            let tools = tools(folder.path());
            tools.carry("mine.create", &json!({ "recovery": recovery })).unwrap();
            let kept = std::fs::read_to_string(&tools.kept).unwrap();
            assert!(kept.replace("\\\"", "\"").contains(member), "{kept}");
        }
    }

    #[test]
    fn what_does_not_load_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let tools = tools(folder.path());
        for (declaration, why) in [
            (json!({ "recovery": { "kind": "hope" } }), "unknown word"),
            (json!({}), "without `recovery`"),
            (json!({ "recovery": { "kind": "none" }, "server": 1 }), "unknown key"),
            (json!([1]), "is an object"),
        ] {
            let error = tools.carry("mine.create", &declaration).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(names(&tools.load().unwrap()), ["practice.create_order"]);
    }

    #[test]
    fn declarations_are_found_where_the_api_takes_them() {
        let declaration = json!({ "recovery": { "kind": "none" } });
        let put = json!({ "tool": "a", "claim": { "declaration": declaration } }).to_string();
        assert_eq!(stated(put.as_bytes()), [("a".to_owned(), declaration.clone())]);
        let claims = json!({ "tools": ["x", { "name": "b", "declaration": declaration }, { "name": "c" }] });
        assert_eq!(stated(claims.to_string().as_bytes()), [("b".to_owned(), declaration)]);
        assert!(stated(b"{").is_empty() && stated(b"{\"tool\":\"a\",\"claim\":{}}").is_empty());
    }
}
