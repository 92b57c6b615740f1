//! One wrong line at a time in the decision functions: the tests must go red, and mostly the exhaustive model itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;
use counterfoil::{Clock as _, SystemClock};

mod table;

use table::{MUTANTS, Mutant};

/// How many mutants the model must kill without help.
const BY_THE_MODEL: usize = 10;

/// Changes one line of the decision functions at a time, in a copy of the workspace, and runs the model; what survives
/// it goes to the other tests of the library. Fails if any mutant survives, or a line is no longer there.
#[derive(Debug, Args)]
pub(crate) struct Mutants {
    /// Only mutants whose name contains this text.
    #[arg(long)]
    only: Option<String>,
    /// Only check that every line of the table is still there.
    #[arg(long)]
    check: bool,
}

/// Who noticed.
enum Verdict {
    Killed { by: &'static str, how: String },
    Survived,
}

impl Mutants {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let root = root()?;
        for mutant in MUTANTS {
            mutant.apply(&root)?;
        }
        if self.check {
            return say(&format!("{} mutants fit the code", MUTANTS.len()));
        }
        let tree = target(&root).join("mutants/tree");
        copy(&root, &tree)?;
        let chosen: Vec<&Mutant> = MUTANTS
            .iter()
            .filter(|mutant| self.only.as_ref().is_none_or(|text| mutant.name.contains(text.as_str())))
            .collect();
        ensure!(!chosen.is_empty(), "no mutant of this name");
        let (mut survivors, mut by_the_model) = (Vec::new(), 0);
        for mutant in &chosen {
            let text = mutant.apply(&root)?;
            let path = tree.join(mutant.file);
            std::fs::write(&path, text)?;
            let clock = SystemClock::default();
            let verdict = judge(&tree, &root);
            std::fs::copy(root.join(mutant.file), &path)?;
            let took = clock.monotonic().as_secs();
            match verdict.with_context(|| mutant.name)? {
                Verdict::Killed { by, how } => {
                    by_the_model += usize::from(by == "model");
                    say(&format!("killed by {by:7} {took:>3} s  {:48} {how}", mutant.name))?;
                }
                Verdict::Survived => {
                    survivors.push(mutant.name);
                    say(&format!("SURVIVED          {took:>3} s  {}", mutant.name))?;
                }
            }
        }
        say(&format!("{} mutants, {by_the_model} killed by the model alone", chosen.len()))?;
        ensure!(survivors.is_empty(), "survived: {}", survivors.join(", "));
        ensure!(self.only.is_some() || by_the_model >= BY_THE_MODEL, "the model killed too few");
        Ok(())
    }
}

impl Mutant {
    /// The file with the change.
    fn apply(&self, root: &Path) -> anyhow::Result<String> {
        let text = std::fs::read_to_string(root.join(self.file)).with_context(|| self.file)?;
        let found = text.matches(self.old).count();
        ensure!(found == 1, "{}: {} has {found} places that read\n{}", self.name, self.file, self.old);
        ensure!(self.old != self.new, "{}: changes nothing", self.name);
        Ok(text.replacen(self.old, self.new, 1))
    }
}

fn judge(tree: &Path, root: &Path) -> anyhow::Result<Verdict> {
    for (by, arguments) in [
        ("model", ["--test", "model", "holds_in_every_world"].as_slice()),
        ("stories", ["--test", "verbs"].as_slice()),
        ("library", ["--test", "recovery", "--test", "states", "--lib"].as_slice()),
    ] {
        let (passed, output) = cargo(tree, root, arguments)?;
        // A mutant that no compiler takes shows nothing.
        ensure!(passed || output.contains("panicked at"), "it does not compile:\n{output}");
        if !passed {
            return Ok(Verdict::Killed { by, how: reason(&output) });
        }
    }
    Ok(Verdict::Survived)
}

/// What the test that went red said, in one line.
fn reason(output: &str) -> String {
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at"));
    let place = lines.next().unwrap_or_default();
    let said = lines.next().unwrap_or_default().trim();
    let test = place.split('\'').nth(1).unwrap_or_default();
    let mut line = format!("{test}: {said}");
    if let Some((cut, _)) = line.char_indices().nth(150) {
        line.truncate(cut);
    }
    line
}

fn cargo(tree: &Path, root: &Path, arguments: &[&str]) -> anyhow::Result<(bool, String)> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--quiet", "--offline", "--package", "counterfoil", "--no-default-features"])
        .args(["--features", "testing"])
        .args(arguments)
        .current_dir(tree)
        // Its own: artefacts of two checkouts of one workspace have the same names.
        .env("CARGO_TARGET_DIR", target(root).join("mutants/target"))
        .env("MODEL_FIRST_PROBLEM", "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .context("cargo could not be started")?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((output.status.success(), text.concat()))
}

/// The sources, as they lie there now; what is unchanged keeps its time, so that it is not built again.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(tree)?;
    for name in ["Cargo.toml", "Cargo.lock", "crates", "sim", "xtask", "examples", "tests", "docs"] {
        copy_into(&root.join(name), &tree.join(name))?;
    }
    Ok(())
}

fn copy_into(from: &Path, to: &Path) -> anyhow::Result<()> {
    if from.is_dir() {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_into(&from.join(&name), &to.join(&name))?;
        }
    } else if from.is_file() {
        let new = std::fs::read(from)?;
        if std::fs::read(to).ok().as_ref() != Some(&new) {
            std::fs::write(to, new)?;
        }
    }
    Ok(())
}

fn root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("the workspace")?.to_owned())
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn say(line: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
