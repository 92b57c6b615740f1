//! The configuration file `counterfoil.toml`: read as one typed tree, checked as a whole, turned into what the ledger
//! and the server need. Flags come before the environment, the environment before the file.
//!
//! It is all or nothing: [`load`] gives a configuration without errors, or the report of everything that is wrong.

pub mod duration;
pub mod environment;
mod evidence;
pub mod file;
mod http;
pub mod limits;
mod notify;
mod read;
pub mod recovery;
pub mod report;
mod review;
pub mod schema;
mod server;
mod shape;
pub mod template;
mod tool;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use counterfoil::ToolName;
use counterfoil::policy::DEFAULT_LEASE;
use serde::Deserialize as _;
use toml::de::{DeTable, Deserializer};

use self::environment::{Setting, origin_of};
use self::file::{DestinationSection, FileSection, LimitsSection, ServerSection};
use self::report::{Checks, Finding, NOT_IN_THIS_VERSION, Origin, Report, Severity};
use self::shape::{At, Shape as _};
use self::template::Secret;
use crate::notify::Listener;
use crate::suggest::nearest;

pub use self::limits::Limits;
pub use self::recovery::Assumption;
pub use self::server::{Database, Listen, PostgresAddress, Server};
pub use self::tool::DeclaredTool;

/// The file that is read where none is named.
pub const DEFAULT_PATH: &str = "counterfoil.toml";

/// A configuration that loads.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read from.
    pub path: PathBuf,
    /// Where to listen and where the ledger lies.
    pub server: Server,
    /// The limits in force.
    pub limits: Limits,
    /// Who is told of what needs a person.
    pub listeners: Vec<Listener>,
    /// The declared tools.
    pub tools: BTreeMap<ToolName, DeclaredTool>,
    /// What somebody should look at.
    pub warnings: Vec<Finding>,
}

/// What comes before the file.
#[derive(Clone, Default)]
pub struct Overrides {
    /// The environment.
    pub variables: BTreeMap<String, String>,
    /// Flags that stand for a key: section, key, value, and the flag as the user writes it.
    pub flags: Vec<(&'static str, &'static str, String, &'static str)>,
}

impl fmt::Debug for Overrides {
    /// Names only: the environment holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags: Vec<&str> = self.flags.iter().map(|(.., flag)| *flag).collect();
        f.debug_struct("Overrides").field("flags", &flags).finish_non_exhaustive()
    }
}

impl Overrides {
    /// The environment of this process; what is not Unicode is left out.
    #[must_use]
    pub fn from_process() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { variables: std::env::vars_os().filter_map(unicode).collect(), flags: Vec::new() }
    }
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// Everything that keeps it from loading, with line and hint, and the warnings beside it.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Config, Report> {
    let whole = |message: String, hint: &str| Report {
        path: path.to_owned(),
        findings: vec![Finding {
            severity: Severity::Error,
            origin: Origin::Whole,
            key: String::new(),
            message,
            hint: hint.to_owned(),
        }],
    };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(whole(
                "there is no such file".to_owned(),
                "write one with `counterfoil init`, or name another with --config",
            ));
        }
        Err(error) => return Err(whole(format!("cannot be read: {error}"), "check its permissions")),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(whole("is not UTF-8".to_owned(), "save it as UTF-8"));
    };
    parse(&text, path, overrides)
}

/// Checks a text as if it stood in the file at `path`.
///
/// # Errors
/// As for [`load`].
pub fn parse(text: &str, path: &Path, overrides: &Overrides) -> Result<Config, Report> {
    let (mut settings, mut findings) = environment::settings(&overrides.variables);
    settings.extend(overrides.flags.iter().map(|(section, key, value, flag)| Setting {
        section: (*section).to_owned(),
        key: (*key).to_owned(),
        value: value.clone(),
        origin: Origin::Flag((*flag).to_owned()),
    }));
    let file = match read_tree(text, &settings) {
        Ok(file) => file,
        Err(finding) => {
            findings.push(*finding);
            return Err(Report { path: path.to_owned(), findings });
        }
    };
    let mut checks = Checks::new(text, &settings);
    let config = check(&file, path, &overrides.variables, &mut checks);
    findings.extend(checks.into_findings());
    findings.sort_by_key(|finding| (finding.severity == Severity::Warning, finding.line()));
    let report = Report { path: path.to_owned(), findings };
    match config {
        Some(config) if !report.has_errors() => Ok(Config { warnings: report.findings, ..config }),
        Some(_) | None => Err(report),
    }
}

/// Reads the typed tree; the first thing that does not fit it ends the reading.
fn read_tree(text: &str, settings: &[Setting]) -> Result<FileSection, Box<Finding>> {
    let refuse = |error: &toml::de::Error| Box::new(finding(text, settings, error));
    let mut root = DeTable::parse(text).map_err(|error| refuse(&error))?;
    environment::put_over(root.get_mut(), text, settings);
    FileSection::deserialize(Deserializer::from(root)).map_err(|error| refuse(&error))
}

/// A reading error in our words, with the nearest known word as hint.
fn finding(text: &str, settings: &[Setting], error: &toml::de::Error) -> Finding {
    let said = error.message();
    let words: Vec<&str> = said.split('`').skip(1).step_by(2).collect();
    let (word, known) = words.split_first().map_or(("", &[][..]), |(word, known)| (*word, known));
    let listed = || match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", known.join(", ")),
    };
    let (message, hint) = if said.starts_with("unknown field") {
        (format!("unknown key `{word}`"), listed())
    } else if said.starts_with("unknown variant") {
        (format!("unknown word `{word}`"), listed())
    } else if said.starts_with("missing field") {
        (format!("`{word}` is missing"), format!("add `{word}` to this section"))
    } else if let Some((message, hint)) = said.split_once(duration::HOW) {
        (message.trim_end_matches([':', ' ']).to_owned(), format!("{}{hint}", duration::HOW))
    } else {
        (without_text(said), "`counterfoil config schema` says what each key takes".to_owned())
    };
    let origin = match error.span() {
        Some(span) => origin_of(text, settings, span.start),
        None => Origin::Whole,
    };
    Finding { severity: Severity::Error, origin, key: String::new(), message, hint }
}

/// Leaves out a text that stands where another type belongs: it may be a secret.
fn without_text(said: &str) -> String {
    let first = said.lines().next().unwrap_or_default();
    match (first.find(" string \""), first.rfind('"')) {
        (Some(from), Some(to)) => format!("{} text{}", &first[..from], &first[to + 1..]),
        _ => said.trim().replace('\n', "; "),
    }
}

fn check(
    file: &FileSection,
    path: &Path,
    variables: &BTreeMap<String, String>,
    checks: &mut Checks<'_>,
) -> Option<Config> {
    for place in file.not_built() {
        let what = place.path.last().map_or("", String::as_str);
        let hint = format!("remove `{what}`: what is not built is refused, never ignored");
        checks.error(place.span, &place.path.join("."), NOT_IN_THIS_VERSION, hint);
    }
    let server = server::read(file.server.as_ref().unwrap_or(&ServerSection::EMPTY), path, checks);
    let limits = Limits::read(file.limits.as_ref().unwrap_or(&LimitsSection::EMPTY), checks);
    let no_destinations = BTreeMap::new();
    let destinations = file.destinations.as_ref().unwrap_or(&no_destinations);
    check_destinations(destinations, file, checks);
    let around = tool::Surroundings {
        lease: server.as_ref().map_or(DEFAULT_LEASE, |server| server.lease),
        destinations,
    };
    let mut tools = BTreeMap::new();
    for (name, section) in file.tools.iter().flatten() {
        if let Some(declared) = tool::read(name, section, &around, checks) {
            check_secrets(name, &declared, variables, checks);
            tools.insert(declared.tool.name.clone(), declared);
        }
    }
    let listeners = read_listeners(file, variables, checks);
    let path = path.to_owned();
    Some(Config { path, server: server?, limits, listeners, tools, warnings: Vec::new() })
}

fn read_listeners(
    file: &FileSection,
    variables: &BTreeMap<String, String>,
    checks: &mut Checks<'_>,
) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    for section in file.notify.iter().flatten() {
        let Some(read) = notify::read(section, variables, checks) else { continue };
        let at = &section.get().kind;
        missing(&read.secrets, at.span(), "notify", "no notice goes out without it", variables, checks);
        if listeners.iter().any(|known| known.name == read.listener.name) {
            checks.error(at.span(), "notify", "the same address is there twice", "remove one");
        } else {
            listeners.push(read.listener);
        }
    }
    listeners
}

fn check_destinations(
    destinations: &BTreeMap<At<String>, DestinationSection>,
    file: &FileSection,
    checks: &mut Checks<'_>,
) {
    for (name, section) in destinations {
        let key = format!("destinations.{}", name.get());
        if http::bucket(section).is_none() {
            let message = "rate is 0.001 or more sends per second, burst a whole number from 1 on";
            checks.error(section.rate.span(), &key, message, "as in rate = 10, burst = 20");
        }
        let named = |section: &file::ToolSection| {
            let http = section.http.as_ref().and_then(|http| http.get().destination.as_ref());
            let worker = section.worker.as_ref().and_then(|worker| worker.get().destination.as_ref());
            [http, worker].into_iter().flatten().any(|named| named.get() == name.get())
        };
        if !file.tools.iter().flatten().any(|(_, section)| named(section)) {
            checks.warning(
                name.span(),
                &key,
                "no tool names it",
                "write destination = \"…\" in a tool's `http` or `worker`",
            );
        }
    }
}

/// A secret that is not there yet is no reason not to load, but every send would fail.
fn check_secrets(
    name: &At<String>,
    declared: &DeclaredTool,
    variables: &BTreeMap<String, String>,
    checks: &mut Checks<'_>,
) {
    let key = format!("tools.{}.http.headers", name.get());
    missing(&declared.secrets, name.span(), &key, "nothing is sent without it", variables, checks);
    let key = format!("tools.{}.evidence.secret", name.get());
    missing(
        &declared.webhook_secrets,
        name.span(),
        &key,
        "no webhook is believed without it",
        variables,
        checks,
    );
}

fn missing(
    secrets: &[Secret],
    at: std::ops::Range<usize>,
    key: &str,
    without: &str,
    variables: &BTreeMap<String, String>,
    checks: &mut Checks<'_>,
) {
    for secret in secrets {
        match secret {
            Secret::Environment(variable) if !variable.contains('{') && !variables.contains_key(variable) => {
                let hint = format!("set it for the server; {without}");
                checks.warning(at.clone(), key, format!("the environment has no {variable}"), hint);
            }
            Secret::File(file) if !file.contains('{') && !Path::new(file).is_file() => {
                let hint = format!("create it, readable for the server; {without}");
                checks.warning(at.clone(), key, format!("there is no file {file}"), hint);
            }
            Secret::Environment(_) | Secret::File(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod worker_tests;
