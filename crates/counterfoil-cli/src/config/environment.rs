//! What the environment and the command line put over the file: scalars of `[server]`, `[limits]` and `[mcp]`.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::{LimitsSection, ServerSection};
use super::report::{Finding, NOT_IN_THIS_VERSION, Origin, Severity, position};
use crate::suggest::nearest;

/// A value for one key of one section, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The section: `server`, `limits` or `mcp`.
    pub section: String,
    /// The key.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// A variable or a flag.
    pub origin: Origin,
}

/// The settings in the environment; a variable of ours that names no key is an error, others are ignored.
pub fn settings(variables: &BTreeMap<String, String>) -> (Vec<Setting>, Vec<Finding>) {
    let (mut settings, mut findings) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let Some((section, key)) = ["server", "limits", "mcp"].into_iter().find_map(|section| {
            let prefix = format!("COUNTERFOIL_{}_", section.to_ascii_uppercase());
            Some((section, name.strip_prefix(&prefix)?.to_ascii_lowercase()))
        }) else {
            continue;
        };
        let origin = Origin::Environment(name.clone());
        let refuse = |message: String, hint: String| Finding {
            severity: Severity::Error,
            origin: origin.clone(),
            key: format!("{section}.{key}"),
            message,
            hint,
        };
        let known: &[&str] = match section {
            "server" => ServerSection::KEYS,
            "limits" => LimitsSection::KEYS,
            _ => {
                findings.push(refuse(NOT_IN_THIS_VERSION.to_owned(), "unset the variable".to_owned()));
                continue;
            }
        };
        if !known.contains(&key.as_str()) {
            let hint = match nearest(&key, known.iter().copied()) {
                Some(near) => format!(
                    "did you mean COUNTERFOIL_{}_{}?",
                    section.to_ascii_uppercase(),
                    near.to_ascii_uppercase()
                ),
                None => format!("[{section}] knows {}", known.join(", ")),
            };
            findings.push(refuse("this variable names no key of the file".to_owned(), hint));
            continue;
        }
        settings.push(Setting { section: section.to_owned(), key, value: value.clone(), origin });
    }
    (settings, findings)
}

/// The bytes that stand for a setting, past the end of the file: a finding about them leads back to the setting.
pub fn span_of(text: &str, index: usize) -> Range<usize> {
    text.len() + 1 + index..text.len() + 1 + index
}

/// Where a byte comes from: the setting that it stands for, or the file.
pub fn origin_of(text: &str, settings: &[Setting], byte: usize) -> Origin {
    match byte.checked_sub(text.len() + 1).and_then(|index| settings.get(index)) {
        Some(setting) => setting.origin.clone(),
        None => {
            let (line, column) = position(text, byte);
            Origin::File { line, column }
        }
    }
}

/// Puts settings over the file; later ones win.
pub fn put_over<'s>(root: &mut DeTable<'s>, text: &str, settings: &'s [Setting]) {
    for (index, setting) in settings.iter().enumerate() {
        let at = span_of(text, index);
        let section = root
            .entry(Spanned::new(at.clone(), setting.section.clone().into()))
            .or_insert_with(|| Spanned::new(at.clone(), DeValue::Table(DeTable::new())));
        // Anything but a table is an error of its own when the section is read.
        if let DeValue::Table(table) = section.get_mut() {
            let name = Spanned::new(at.clone(), setting.key.clone().into());
            table.remove(setting.key.as_str());
            table.insert(name, Spanned::new(at, value(&setting.value)));
        }
    }
}

/// A whole number is a number, `true` and `false` are truth values, the rest is text.
fn value(text: &str) -> DeValue<'_> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "true" => DeValue::Boolean(true),
        "false" => DeValue::Boolean(false),
        _ if plain => DeValue::parse(text).map_or_else(|_| DeValue::String(text.into()), Spanned::into_inner),
        _ => DeValue::String(text.into()),
    }
}
