//! The rules of the tree that no compiler checks.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A longer Rust file has two subjects.
const LINES_MAX: usize = 700;

/// Licences that a linked crate may have; each term of an `AND` must be among them, one term of an `OR`.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "CC0-1.0",
    "Unlicense",
    "0BSD",
    "CDLA-Permissive-2.0",
];

/// Texts that must not be in the tree, and why.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it"),
    (concat!("FIX", "ME"), "fix it"),
    (concat!("unimpl", "emented!("), "implement it"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("../sha", "red"), "outside the repository"),
];

/// Runs every check and fails with all that was found.
pub(crate) fn run() -> Result<()> {
    let mut found = Vec::new();
    for file in tracked()? {
        check_file(&file, &mut found)?;
    }
    check_crates(&mut found)?;
    if found.is_empty() {
        return Ok(());
    }
    bail!("the tree is not tidy:\n{}", found.join("\n"))
}

fn tracked() -> Result<Vec<PathBuf>> {
    let listed = Command::new("git").args(["ls-files"]).output().context("git ls-files")?;
    Ok(String::from_utf8(listed.stdout)?.lines().map(PathBuf::from).collect())
}

fn check_file(file: &Path, found: &mut Vec<String>) -> Result<()> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !["rs", "sh", "toml", "md", "sql", "txt", "py"].contains(&ending) || !file.exists() {
        return Ok(());
    }
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let lines = text.lines().count();
    if ending == "rs" && lines > LINES_MAX {
        found.push(format!(
            "{}: {lines} lines; over {LINES_MAX} there are two subjects in it",
            file.display()
        ));
    }
    if ["md", "txt"].contains(&ending) {
        check_links(file, &text, found);
    }
    for (number, line) in text.lines().enumerate() {
        for (leftover, why) in LEFTOVERS {
            if line.contains(leftover) {
                found.push(format!("{}:{}: {leftover}: {why}", file.display(), number + 1));
            }
        }
    }
    Ok(())
}

/// Every link to a file of the tree leads somewhere.
fn check_links(file: &Path, text: &str, found: &mut Vec<String>) {
    let beside = file.parent().unwrap_or(Path::new(""));
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
    for link in links {
        let path = link.split('#').next().unwrap_or_default();
        let outside = path.is_empty() || path.contains("://") || path.contains(' ');
        if !outside && !beside.join(path).exists() {
            found.push(format!("{}: the link {link} leads nowhere", file.display()));
        }
    }
}

/// Every linked crate comes from the registry and has a licence that we may ship.
fn check_crates(found: &mut Vec<String>) -> Result<()> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    for package in metadata["packages"].as_array().context("packages")? {
        let name = package["name"].as_str().unwrap_or("?");
        match package["source"].as_str() {
            None => continue,
            Some(source) if source.starts_with("registry+") => {}
            Some(_) => found.push(format!("{name}: comes from outside the registry")),
        }
        let licence = package["license"].as_str().unwrap_or_default().replace('/', " OR ");
        if !allowed(&licence) {
            found.push(format!("{name}: licence {licence:?}"));
        }
    }
    Ok(())
}

fn allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ");
    expression.split(" AND ").all(|all| all.split(" OR ").any(|one| LICENCES.contains(&one.trim())))
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn licence_expressions_are_read_as_they_are_meant() {
        assert!(allowed("MIT OR Apache-2.0"));
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(allowed("GPL-3.0 OR MIT"));
        assert!(!allowed("GPL-3.0"));
        assert!(!allowed("MIT AND GPL-3.0"));
    }
}
