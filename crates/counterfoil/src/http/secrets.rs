//! Secrets are named in the file and looked up when a request is sent. Their values live in the sender's memory for
//! the time of one send; they are never stored, logged or put into an error.

use std::fmt;
use std::io::Read as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::request::header_value;
use crate::id::Account;
use crate::policy::Tool;

/// The most bytes of a file that holds a secret.
pub const MAX_FILE: u64 = 64 * 1024;

/// The value of a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value, for the wire only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why a header's secret could not be had. Neither names nor values are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// `${…}` that is not closed, is empty, or names what cannot be a variable or file.
    #[error("a ${{…}} in a header cannot be read")]
    Template,
    /// The variable or file is missing or cannot be read as text.
    #[error("a secret of the tool is missing or cannot be read")]
    Missing,
    /// The value cannot stand in a header.
    #[error("a secret of the tool cannot stand in a header")]
    NotAHeader,
}

/// Where secrets come from. For a send they are read off the async threads; for an undeclared scope a small local file
/// may be read on one.
pub trait Secrets: Send + Sync + 'static {
    /// The value of an environment variable.
    ///
    /// # Errors
    /// Where it is not set or is no text.
    fn variable(&self, name: &str) -> Result<Secret, SecretError>;

    /// The text of a file, without line ends at its end.
    ///
    /// # Errors
    /// Where it cannot be read, is no text, or is larger than [`MAX_FILE`].
    fn file(&self, path: &str) -> Result<Secret, SecretError>;
}

/// The process's environment and the host's files, read anew for each send so that a rotated secret is picked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSecrets;

impl Secrets for SystemSecrets {
    fn variable(&self, name: &str) -> Result<Secret, SecretError> {
        std::env::var(name).map(Secret).map_err(|_| SecretError::Missing)
    }

    fn file(&self, path: &str) -> Result<Secret, SecretError> {
        // A pipe or device could keep a reader for ever.
        if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
            return Err(SecretError::Missing);
        }
        let file = std::fs::File::open(path).map_err(|_| SecretError::Missing)?;
        let mut text = String::new();
        let read = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|_| SecretError::Missing)?;
        if read as u64 > MAX_FILE {
            return Err(SecretError::Missing);
        }
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
        Ok(Secret(text))
    }
}

/// A piece of a header template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    Literal(&'t str),
    Variable(&'t str),
    File(&'t str),
}

/// Whether a header template needs a secret.
pub(crate) fn is_secret(template: &str) -> bool {
    template.contains("${")
}

/// Puts the account into a template and checks the result. An account's grammar has no `$`, `{`, `}` or `/`, so it
/// cannot name another secret; as `.` or `..` it could leave a folder.
pub(crate) fn for_account(template: &str, account: &Account) -> Result<String, SecretError> {
    if !template.contains("{account}") {
        parse(template)?;
        return Ok(template.to_owned());
    }
    if matches!(account.as_str(), "." | "..") {
        return Err(SecretError::Template);
    }
    let filled = template.replace("{account}", account.as_str());
    parse(&filled)?;
    Ok(filled)
}

/// Takes a template (with the account in place) apart.
pub(crate) fn parse(template: &str) -> Result<Vec<Part<'_>>, SecretError> {
    if template.is_empty() || header_value(template).is_none() {
        return Err(SecretError::NotAHeader);
    }
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, behind)) = rest.split_once("${") {
        let (name, behind) = behind.split_once('}').ok_or(SecretError::Template)?;
        parts.push(Part::Literal(literal));
        parts.push(match name.strip_prefix("file:") {
            Some("") => return Err(SecretError::Template),
            Some(path) => Part::File(path),
            None if variable_name(name) => Part::Variable(name),
            None => return Err(SecretError::Template),
        });
        rest = behind;
    }
    parts.push(Part::Literal(rest));
    Ok(parts)
}

fn variable_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    !name.is_empty() && name.bytes().all(fits)
}

/// The value of a template with secrets in it, for the wire or for a signature.
///
/// # Errors
/// Where a secret cannot be had, or the value could not stand in a header.
pub fn resolve(template: &str, secrets: &dyn Secrets) -> Result<Secret, SecretError> {
    let mut value = String::new();
    for part in parse(template)? {
        match part {
            Part::Literal(text) => value.push_str(text),
            Part::Variable(name) => value.push_str(secrets.variable(name)?.expose()),
            Part::File(path) => value.push_str(secrets.file(path)?.expose()),
        }
    }
    // An empty secret, or one with a line break, is a mistake that must not become a request without credential.
    if value.is_empty() || header_value(&value).is_none() {
        return Err(SecretError::NotAHeader);
    }
    Ok(Secret(value))
}

/// A header that is a credential, for the wire: its name in lower case and its value.
pub(crate) type Credential = (String, Secret);

/// The vendor account that the tool's credential belongs to: the declared scope, else `scope_digest`. Reads secrets
/// only in the second case.
///
/// # Errors
/// Where a secret cannot be had: then nothing may be sent.
pub fn scope(
    tool: &Tool,
    account: &Account,
    ledger_secret: &[u8; 32],
    secrets: &dyn Secrets,
) -> Result<String, SecretError> {
    let Some(http) = tool.http() else { return Ok("none".to_owned()) };
    if let Some(scope) = &http.scope {
        return Ok(scope.clone());
    }
    let mut credentials: Vec<Credential> = Vec::new();
    for (name, template) in http.headers.iter().filter(|(_, template)| is_secret(template)) {
        let template = for_account(template, account)?;
        credentials.push((name.to_ascii_lowercase(), resolve(&template, secrets)?));
    }
    scope_digest(credentials, ledger_secret)
}

/// A digest of the credential headers, keyed by the ledger's own secret so that nobody can test guesses against it.
pub(crate) fn scope_digest(
    mut credentials: Vec<Credential>,
    ledger_secret: &[u8; 32],
) -> Result<String, SecretError> {
    credentials.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut mac = Hmac::<Sha256>::new_from_slice(ledger_secret).map_err(|_| SecretError::Missing)?;
    let mut part = |text: &str| {
        mac.update(&(text.len() as u64).to_be_bytes());
        mac.update(text.as_bytes());
    };
    part("counterfoil scope");
    for (name, value) in &credentials {
        part(name);
        part(value.expose());
    }
    let digest = mac.finalize().into_bytes();
    Ok(format!("hmac:{}", crate::hex::encode(&digest[..16])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::test_tool::{Setup, account, keyed};

    /// Names stand for themselves, but for a few.
    struct Named;

    impl Secrets for Named {
        fn variable(&self, name: &str) -> Result<Secret, SecretError> {
            match name {
                "EMPTY" => Ok(Secret::new(String::new())),
                "BREAK" => Ok(Secret::new("a\r\nX-Evil: 1".to_owned())),
                "NESTED" => Ok(Secret::new("${TOKEN}".to_owned())),
                "MISSING" => Err(SecretError::Missing),
                other => Ok(Secret::new(format!("value-of-{other}"))),
            }
        }

        fn file(&self, path: &str) -> Result<Secret, SecretError> {
            Ok(Secret::new(format!("file-{path}")))
        }
    }

    #[test]
    fn values_are_put_in_when_a_request_is_sent() {
        let get = |template: &str| resolve(template, &Named).map(|secret| secret.expose().to_owned());
        assert_eq!(get("Bearer ${TOKEN}"), Ok("Bearer value-of-TOKEN".to_owned()));
        assert_eq!(get("${A}:${file:/run/b}!"), Ok("value-of-A:file-/run/b!".to_owned()));
        assert_eq!(get("plain {x}"), Ok("plain {x}".to_owned()));
        assert_eq!(get("${NESTED}"), Ok("${TOKEN}".to_owned()), "a value is never a template");
        assert_eq!(get("Bearer ${EMPTY}"), Err(SecretError::NotAHeader));
        assert_eq!(get("x${BREAK}"), Err(SecretError::NotAHeader));
        assert_eq!(get("x${MISSING}"), Err(SecretError::Missing));
        assert_eq!(get("${OPEN"), Err(SecretError::Template));
    }

    #[test]
    fn files_lose_their_line_end_and_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = || SystemSecrets.file(path.to_str().unwrap()).map(|secret| secret.expose().to_owned());
        assert_eq!(read(), Err(SecretError::Missing));
        std::fs::write(&path, "canary\r\n\n").unwrap();
        assert_eq!(read(), Ok("canary".to_owned()));
        std::fs::write(&path, vec![b'x'; 64 * 1024 + 1]).unwrap();
        assert_eq!(read(), Err(SecretError::Missing));
        std::fs::write(&path, [0xFF]).unwrap();
        assert_eq!(read(), Err(SecretError::Missing));
    }

    #[test]
    fn a_scope_is_declared_or_a_keyed_digest_of_the_credential() {
        let of = |headers: Vec<(&'static str, &'static str)>, declared, key: u8| {
            scope(
                &keyed(Setup { headers, scope: declared, ..Setup::default() }),
                &account(),
                &[key; 32],
                &Named,
            )
        };
        assert_eq!(of(vec![("A", "${T}")], Some("supplier-17"), 1), Ok("supplier-17".to_owned()));
        let digest = of(vec![("A", "${T}")], None, 1).unwrap();
        assert!(digest.starts_with("hmac:") && digest.len() == 5 + 32, "{digest}");
        assert_eq!(of(vec![("A", "${T}"), ("X", "plain")], None, 1), Ok(digest.clone()));
        assert_ne!(of(vec![("A", "${U}")], None, 1), Ok(digest.clone()));
        assert_ne!(of(vec![("B", "${T}")], None, 1), Ok(digest.clone()));
        assert_ne!(of(vec![("A", "${T}")], None, 2), Ok(digest.clone()));
        assert_ne!(of(vec![("A", "${T_{account}}")], None, 1), Ok(digest));
        assert_eq!(of(vec![("A", "${MISSING}")], None, 1), Err(SecretError::Missing));
    }

    #[test]
    fn values_are_not_printed() {
        let secret = Secret::new("canary".to_owned());
        assert!(!format!("{secret:?}").contains("canary"));
    }
}
