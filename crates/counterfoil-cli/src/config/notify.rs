//! The sections `[[notify]]`: who is told, and where.

use std::collections::BTreeMap;

use counterfoil::Account;
use counterfoil::http::target::{Host as TargetHost, Target};
use counterfoil::http::webhook;
use sha2::{Digest as _, Sha256};

use super::evidence::secret;
use super::file::{NotifyKind, NotifySection};
use super::report::Checks;
use super::shape::At;
use super::template::{Host, Secret, UrlTemplate, header_secrets};
use crate::notify::{Kind, Listener, Mail, Security};

/// What was read, and where its secrets come from.
pub(super) struct Read {
    pub(super) listener: Listener,
    pub(super) secrets: Vec<Secret>,
}

/// Reads one section; `None` where it does not load.
pub(super) fn read(
    section: &At<NotifySection>,
    variables: &BTreeMap<String, String>,
    checks: &mut Checks<'_>,
) -> Option<Read> {
    let errors = checks.errors();
    let allow_private = section.get().allow_private.unwrap_or(false);
    let kind = *section.get().kind.get();
    refuse_foreign(section, kind, checks);
    let (section, at) = (section.get(), section.span());
    let mut secrets = Vec::new();
    let missing = |key: &str, checks: &mut Checks<'_>| {
        let message = format!("kind `{}` needs `{key}`", kind.label());
        checks.error(at.clone(), &format!("notify.{key}"), message, format!("add `{key}` to this section"));
    };
    let read = match kind {
        NotifyKind::Webhook => {
            let url = section.url.as_ref().or_else(|| {
                missing("url", checks);
                None
            });
            let url = url.and_then(|text| url_of(text, allow_private, variables, &mut secrets, checks));
            let key = section.secret.as_ref().or_else(|| {
                missing("secret", checks);
                None
            });
            let key = key.and_then(|text| {
                secrets.extend(secret(text, "notify.secret", checks)?);
                check_key(text, variables, checks);
                Some(text.get().clone())
            });
            url.zip(key).map(|(url, secret)| Kind::Webhook { url, secret })
        }
        NotifyKind::Slack => {
            let url = section.url.as_ref().or_else(|| {
                missing("url", checks);
                None
            });
            // Whoever knows the URL may post.
            let url = url.filter(|text| secret(text, "notify.url", checks).is_some());
            url.and_then(|text| url_of(text, allow_private, variables, &mut secrets, checks))
                .map(|url| Kind::Slack { url })
        }
        NotifyKind::Email => {
            for (key, there) in [
                ("to", section.to.is_some()),
                ("from", section.from.is_some()),
                ("smtp", section.smtp.is_some()),
            ] {
                if !there {
                    missing(key, checks);
                }
            }
            mail(section, &mut secrets, checks).map(|mail| Kind::Email(Box::new(mail)))
        }
    };
    let accounts = section.accounts.as_ref().map(|list| {
        let parsed = list.iter().filter_map(|text| match Account::parse(text.get()) {
            Ok(account) => Some(account),
            Err(error) => {
                checks.error(text.span(), "notify.accounts", error.to_string(), "as in \"kitchen\"");
                None
            }
        });
        parsed.collect()
    });
    let console = section.console_url.as_ref().and_then(|text| match UrlTemplate::parse(text.get()) {
        Ok(url) if url.slots.is_empty() && url.query_names.is_empty() => {
            Some(text.get().trim_end_matches('/').to_owned())
        }
        Ok(_) | Err(_) => {
            let hint = "as in \"https://counterfoil.example\"";
            checks.error(text.span(), "notify.console_url", "this is no address of a server", hint);
            None
        }
    });
    let kind = read.filter(|_| checks.errors() == errors)?;
    let name = name_of(&kind);
    Some(Read { listener: Listener { name, kind, accounts, console, allow_private }, secrets })
}

/// What one kind has and another has not is refused, never ignored.
fn refuse_foreign(section: &At<NotifySection>, kind: NotifyKind, checks: &mut Checks<'_>) {
    let own: &[&str] = match kind {
        NotifyKind::Webhook => &["url", "secret"],
        NotifyKind::Slack => &["url"],
        NotifyKind::Email => &["to", "from", "smtp", "username", "password"],
    };
    let section = section.get();
    let given = [
        ("url", section.url.as_ref().map(At::span)),
        ("secret", section.secret.as_ref().map(At::span)),
        ("to", section.to.as_ref().map(At::span)),
        ("from", section.from.as_ref().map(At::span)),
        ("smtp", section.smtp.as_ref().map(At::span)),
        ("username", section.username.as_ref().map(At::span)),
        ("password", section.password.as_ref().map(At::span)),
    ];
    for (key, at) in given {
        if let Some(at) = at.filter(|_| !own.contains(&key)) {
            let message = format!("`{key}` is nothing of kind `{}`", kind.label());
            checks.error(at, &format!("notify.{key}"), message, format!("it takes {}", own.join(", ")));
        }
    }
}

/// The value of a text that is a variable's name and nothing else, where it is known already.
fn known<'v>(text: &At<String>, variables: &'v BTreeMap<String, String>) -> Option<&'v String> {
    text.get().strip_prefix("${").and_then(|rest| variables.get(rest.strip_suffix('}')?))
}

/// A secret that can sign nothing is said now, not when a person should have been told.
fn check_key(text: &At<String>, variables: &BTreeMap<String, String>, checks: &mut Checks<'_>) {
    let Some(value) = known(text, variables).filter(|value| !value.is_empty()) else { return };
    if !webhook::can_sign(&counterfoil::http::Secret::new(value.clone())) {
        let message = format!("the variable holds no base64 of at least {} bytes", webhook::SHORTEST_KEY);
        let hint = "`openssl rand -base64 32` makes one; `whsec_` may stand before it";
        checks.error(text.span(), "notify.secret", message, hint);
    }
}

/// A URL, or the name of the variable or file that holds it. Where its value is known already, it is checked now; it is
/// never repeated.
fn url_of(
    text: &At<String>,
    allow_private: bool,
    variables: &BTreeMap<String, String>,
    secrets: &mut Vec<Secret>,
    checks: &mut Checks<'_>,
) -> Option<String> {
    const KEY: &str = "notify.url";
    let (value, hidden) = if text.get().contains("${") {
        match header_secrets(text.get()) {
            Ok(found) => secrets.extend(found),
            Err(error) => {
                checks.error(text.span(), KEY, error.message, error.hint);
                return None;
            }
        }
        match known(text, variables) {
            Some(value) => (value.as_str(), true),
            None => return Some(text.get().clone()),
        }
    } else {
        (text.get().as_str(), false)
    };
    let url = match UrlTemplate::parse(value) {
        Ok(url) if url.slots.is_empty() => url,
        Ok(_) => {
            checks.error(text.span(), KEY, "nothing fills a placeholder here", "write the whole URL");
            return None;
        }
        Err(_) if hidden => {
            checks.error(text.span(), KEY, "the variable holds no absolute URL", "as in https://HOST/PATH");
            return None;
        }
        Err(error) => {
            checks.error(text.span(), KEY, error.message, error.hint);
            return None;
        }
    };
    if url.host == Host::Private && !allow_private {
        let hint = "write allow_private = true in this section if the address is meant";
        checks.error(text.span(), KEY, "a private, link-local or otherwise special address", hint);
    }
    if !url.secure && url.host != Host::Loopback && !allow_private {
        let message = "plain http to a host that is not this machine: notices go out readable";
        checks.error(
            text.span(),
            KEY,
            message,
            "use https; or allow_private = true in a network that you trust",
        );
    }
    Some(text.get().clone())
}

fn mail(section: &NotifySection, secrets: &mut Vec<Secret>, checks: &mut Checks<'_>) -> Option<Mail> {
    const NO_ADDRESS: &str = "this is no mail address";
    const AS_IN: &str = "as in \"orders@kitchen.example\"";
    let (to, from) = (section.to.as_ref()?, section.from.as_ref()?);
    if !to.get().0.iter().all(|text| is_address(text)) {
        checks.error(to.span(), "notify.to", NO_ADDRESS, AS_IN);
    }
    if !is_address(from.get()) {
        checks.error(from.span(), "notify.from", NO_ADDRESS, AS_IN);
    }
    let count = to.get().0.len();
    if count == 0 || count > MOST_RECIPIENTS {
        let message = format!("{count} recipients; it takes 1 to {MOST_RECIPIENTS}");
        checks.error(to.span(), "notify.to", message, "use a list address of the mail server");
    }
    let smtp = section.smtp.as_ref()?;
    let relay = relay(smtp.get());
    if relay.is_none() {
        let hint = "write \"smtps://HOST\" (TLS, port 465) or \"smtp://HOST\" (STARTTLS, port 587)";
        checks.error(smtp.span(), "notify.smtp", "this is no mail relay", hint);
    }
    let login = match (&section.username, &section.password) {
        (None, None) => None,
        (Some(username), Some(password)) => {
            secrets.extend(secret(password, "notify.password", checks)?);
            secrets.extend(header_secrets(username.get()).unwrap_or_default());
            Some((username.get().clone(), password.get().clone()))
        }
        (Some(one), None) | (None, Some(one)) => {
            let message = "`username` and `password` belong together";
            checks.error(one.span(), "notify.username", message, "write both or none");
            None
        }
    };
    let (target, security) = relay?;
    Some(Mail { to: to.get().0.clone(), from: from.get().clone(), target, security, login })
}

/// Nothing that could end a command or a header.
fn is_address(text: &str) -> bool {
    text.len() <= 254
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>()[]\\,;:\"".contains(&byte))
        && text
            .split_once('@')
            .is_some_and(|(name, domain)| !name.is_empty() && !domain.is_empty() && !domain.contains('@'))
}

/// Recipients of one notice.
const MOST_RECIPIENTS: usize = 20;

fn relay(text: &str) -> Option<(Target, Security)> {
    let (secure, rest, port) = match (text.strip_prefix("smtps://"), text.strip_prefix("smtp://")) {
        (Some(rest), _) => (true, rest, 465),
        (None, Some(rest)) => (false, rest, 587),
        (None, None) => return None,
    };
    let url = ["https://", rest].concat();
    let (mut target, behind) = Target::split(&url).ok()?;
    if !matches!(behind, "" | "/") {
        return None;
    }
    if !target.authority.ends_with(&format!(":{}", target.port)) {
        target.port = port;
    }
    let here = match &target.host {
        TargetHost::Address(address) => address.is_loopback(),
        TargetHost::Name(_) => false,
    };
    let security = match (secure, here) {
        (true, _) => Security::Tls,
        (false, true) => Security::None,
        (false, false) => Security::StartTls,
    };
    Some((target, security))
}

/// Who it is to the ledger: another address is another listener, which hears of what happens from then on.
fn name_of(kind: &Kind) -> String {
    let (word, texts): (&str, Vec<&str>) = match kind {
        Kind::Webhook { url, .. } => ("webhook", vec![url]),
        Kind::Slack { url } => ("slack", vec![url]),
        Kind::Email(mail) => {
            ("email", mail.to.iter().chain([&mail.target.authority]).map(String::as_str).collect())
        }
    };
    let digest = Sha256::digest(texts.join("\n").as_bytes());
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{word}:{short}")
}
