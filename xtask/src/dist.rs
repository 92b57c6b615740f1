//! What is given away: an archive with the binary, a Python wheel with the same binary in it, and their checksums.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use sha2::{Digest as _, Sha256};

/// Files beside the binary.
const BESIDE: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The name of the file with the checksums, as `sha256sum --check` reads it.
const CHECKSUMS: &str = "SHA256SUMS";

/// Where it goes, and how it is built.
#[derive(Args)]
pub(super) struct Dist {
    /// The profile of the binary; `release` builds faster and is a little larger
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The folder for the files; it must be empty or new
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

impl Dist {
    /// Builds and packs.
    pub(super) fn run(&self) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the repository")?;
        std::fs::create_dir_all(&self.out)?;
        ensure!(self.out.read_dir()?.next().is_none(), "{} is not empty", self.out.display());
        let out = self.out.canonicalize()?;
        let binary = build(root, &self.profile)?;
        archive(root, &binary, &out)?;
        let wheel = Command::new(root.join("clients/python/wheel")).arg(&binary).arg(&out).status();
        ensure!(wheel.context("clients/python/wheel")?.success(), "the wheel was not made");
        checksums(&out)
    }
}

/// Builds the binary and says where it lies.
fn build(root: &Path, profile: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--locked", "--package", "counterfoil-cli", "--bin", "counterfoil"])
        .args(["--profile", profile, "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo build")?;
    ensure!(built.status.success(), "the binary does not build");
    let messages = String::from_utf8(built.stdout)?;
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    executable.context("cargo does not say where the binary is")
}

/// The triple of this machine.
fn target() -> Result<String> {
    let told = Command::new("rustc").arg("-vV").output().context("rustc -vV")?;
    let told = String::from_utf8(told.stdout)?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

/// The archive. The same files give the same bytes: no names, no times of this machine are in it.
fn archive(root: &Path, binary: &Path, out: &Path) -> Result<()> {
    let name = format!("counterfoil-{}-{}", env!("CARGO_PKG_VERSION"), target()?);
    let stage = tempfile::tempdir()?;
    let folder = stage.path().join(&name);
    std::fs::create_dir(&folder)?;
    std::fs::copy(binary, folder.join("counterfoil"))?;
    for file in BESIDE {
        std::fs::copy(root.join(file), folder.join(file))?;
    }
    let packed = Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"])
        .args(["--use-compress-program", "gzip -n", "-cf"])
        .arg(out.join(format!("{name}.tar.gz")))
        .arg("-C")
        .arg(stage.path())
        .arg(&name)
        .stderr(Stdio::inherit())
        .status()
        .context("tar")?;
    ensure!(packed.success(), "the archive was not made");
    Ok(())
}

fn checksums(out: &Path) -> Result<()> {
    let mut files: Vec<PathBuf> = out.read_dir()?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut lines = String::new();
    for file in files {
        let bytes = std::fs::read(&file)?;
        let name = file.file_name().context("a file without a name")?.to_string_lossy().into_owned();
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(std::io::stdout(), "{:>9.1} MB  {name}", bytes.len() as f64 / 1e6)?;
        lines.push_str(&format!("{digest}  {name}\n"));
    }
    Ok(std::fs::write(out.join(CHECKSUMS), lines)?)
}
