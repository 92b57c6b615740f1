//! The request of a tool: what is read, and what is refused before anything could be sent with it.

use std::collections::BTreeMap;

use counterfoil::Pointer;
use counterfoil::http::RESERVED_HEADERS;
use counterfoil::policy::{BodyKind, Bucket, DEFAULT_LINGER, DEFAULT_TIMEOUT, HttpDeclaration, QueryMode};
use counterfoil::recovery::Place;

use super::file::{DestinationSection, HttpSection, QueryValue};
use super::read::{length, member, members, positive};
use super::report::{Checks, NOT_IN_THIS_VERSION};
use super::shape::At;
use super::template::{Host, Part, Secret, Slot, UrlTemplate, header_secrets};
use crate::suggest::nearest;

/// A request as declared, with what later checks need of it.
pub struct Request {
    /// The declaration for the library.
    pub declaration: HttpDeclaration,
    /// Its URL, where that could be read.
    pub url: Option<UrlTemplate>,
    /// Where its headers take secrets from.
    pub secrets: Vec<Secret>,
}

/// Reads the section `http` of a tool.
pub(super) fn read(
    section: &HttpSection,
    destinations: &BTreeMap<At<String>, DestinationSection>,
    key: &str,
    checks: &mut Checks<'_>,
) -> Request {
    let sub = |name: &str| format!("{key}.{name}");
    let body = section.body.as_ref().map(|body| *body.get()).unwrap_or_default();
    check_method(&section.method, body, &sub("method"), checks);
    let url = read_url(&section.url, section.allow_private.unwrap_or(false), &sub("url"), checks);
    let secrets = read_headers(section, &sub("headers"), checks);
    if let Some(query) = &section.query
        && *query.get() == QueryValue::Pass
    {
        let hint = "remove it: a caller's query string is refused";
        checks.error(query.span(), &sub("query"), NOT_IN_THIS_VERSION, hint);
    }
    let path_only = members(section.path_only.as_ref(), &sub("path_only"), checks);
    for (pointer, text) in path_only.iter().zip(section.path_only.iter().flatten()) {
        if pointer.tokens().len() != 1 {
            let hint = "write \"/order_id\"; a member inside a member stays in the body";
            checks.error(text.span(), &sub("path_only"), "takes members of the arguments object only", hint);
        }
    }
    if let Some(url) = &url {
        for (pointer, text) in path_only.iter().zip(section.path_only.iter().flatten()) {
            if !url.slots.contains(&(Slot::Argument(pointer.clone()), Part::Path)) {
                let message = format!("{pointer} does not stand in the URL's path");
                let hint =
                    format!("put `{{{pointer}}}` into a path segment of `url`, or leave it in the body");
                checks.error(text.span(), &sub("path_only"), message, hint);
            }
        }
    }
    check_scope(section.scope.as_ref(), &sub("scope"), checks);
    Request {
        declaration: HttpDeclaration {
            method: section.method.get().clone(),
            url: section.url.get().clone(),
            body,
            path_only,
            headers: section
                .headers
                .iter()
                .flatten()
                .map(|(name, value)| (name.get().clone(), value.get().clone()))
                .collect(),
            query: QueryMode::Refuse,
            scope: section.scope.as_ref().map(|scope| scope.get().clone()),
            destination: section.destination.as_ref().map(|name| name.get().clone()),
            bucket: read_bucket(section.destination.as_ref(), destinations, &sub("destination"), checks),
            timeout: positive(section.timeout.as_ref(), DEFAULT_TIMEOUT, &sub("timeout"), checks),
            linger: length(section.linger.as_ref(), DEFAULT_LINGER),
            receipt_reference: section
                .receipt_reference
                .as_ref()
                .and_then(|text| member(text, &sub("receipt_reference"), checks)),
            allow_private: section.allow_private.unwrap_or(false),
        },
        url,
        secrets,
    }
}

/// A scope that names nothing tells no vendor account from another.
pub(super) fn check_scope(scope: Option<&At<String>>, key: &str, checks: &mut Checks<'_>) {
    if let Some(scope) = scope
        && scope.get().trim().is_empty()
    {
        checks.error(scope.span(), key, "an empty scope", "name the vendor account, or leave it out");
    }
}

fn check_method(method: &At<String>, body: BodyKind, key: &str, checks: &mut Checks<'_>) {
    const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];
    if !METHODS.contains(&method.get().as_str()) {
        let message = "this is no method that a write is sent with";
        checks.error(
            method.span(),
            key,
            message,
            "write \"POST\", \"PUT\", \"PATCH\", \"DELETE\" or \"GET\"",
        );
    } else if method.get() == "GET" {
        match body {
            BodyKind::None => checks.warning(
                method.span(),
                key,
                "proxies and clients in between may repeat a GET by themselves",
                "prefer POST where the destination has it",
            ),
            BodyKind::Json | BodyKind::Form => {
                checks.error(method.span(), key, "a GET has no body", "write body = \"none\"");
            }
        }
    }
}

/// Reads a URL and checks that it may be called.
pub(super) fn read_url(
    text: &At<String>,
    allow_private: bool,
    key: &str,
    checks: &mut Checks<'_>,
) -> Option<UrlTemplate> {
    let url = match UrlTemplate::parse(text.get()) {
        Ok(url) => url,
        Err(error) => {
            checks.error(text.span(), key, error.message, error.hint);
            return None;
        }
    };
    if url.host == Host::Private && !allow_private {
        let hint = "write allow_private = true in the section `http` if this address is meant";
        checks.error(text.span(), key, "a private, link-local or otherwise special address", hint);
    }
    if url.host == Host::Localhost && !allow_private {
        let message =
            "localhost is a name, and names that lead to this machine are refused when something is sent";
        checks.error(
            text.span(),
            key,
            message,
            "write 127.0.0.1, or allow_private = true in the section `http`",
        );
    }
    let local = matches!(url.host, Host::Loopback | Host::Localhost);
    if !url.secure && !local {
        let message =
            "plain http to a host that is not this machine: credentials and arguments go out readable";
        if allow_private {
            checks.warning(text.span(), key, message, "use https");
        } else {
            let hint = "use https; inside a private network that you trust, write allow_private = true";
            checks.error(text.span(), key, message, hint);
        }
    }
    Some(url)
}

fn read_headers(section: &HttpSection, key: &str, checks: &mut Checks<'_>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in section.headers.iter().flatten() {
        let lower = name.get().to_ascii_lowercase();
        if !is_token(name.get()) {
            checks.error(name.span(), key, "this is no header name", "letters, digits and - make a name");
        } else if RESERVED_HEADERS.contains(&lower.as_str()) {
            checks.error(name.span(), key, format!("the sender writes {lower} itself"), "remove it");
        } else if seen.contains(&lower) {
            checks.error(name.span(), key, format!("{lower} is there twice"), "header names ignore case");
        }
        seen.push(lower);
        match header_secrets(value.get()) {
            Ok(found) => secrets.extend(found),
            Err(error) => checks.error(value.span(), key, error.message, error.hint),
        }
    }
    secrets
}

fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The bucket of the section of `[destinations]` that a tool names.
pub(super) fn read_bucket(
    name: Option<&At<String>>,
    destinations: &BTreeMap<At<String>, DestinationSection>,
    key: &str,
    checks: &mut Checks<'_>,
) -> Option<Bucket> {
    let name = name?;
    let Some((_, declared)) = destinations.iter().find(|(declared, _)| declared.get() == name.get()) else {
        let hint = match nearest(name.get(), destinations.keys().map(|known| known.get().as_str())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("declare [destinations.{}] with rate and burst", name.get().escape_debug()),
        };
        checks.error(name.span(), key, "no such section of [destinations]", hint);
        return None;
    };
    bucket(declared)
}

/// A bucket, where rate and burst make one.
pub(super) fn bucket(section: &DestinationSection) -> Option<Bucket> {
    let rate_milli = (section.rate.get() * 1_000.0).round();
    let fits = (1.0..=1e12).contains(&rate_milli);
    let burst = u32::try_from(*section.burst.get()).ok().filter(|burst| *burst > 0)?;
    // In range, so neither sign nor fraction is lost.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fits.then_some(Bucket { rate_milli: rate_milli as u64, burst })
}

impl Request {
    /// Checks that the key or reference has a place in this request, and that nothing else is in it.
    pub fn check_place(&self, text: &At<String>, place: &Place, key: &str, checks: &mut Checks<'_>) {
        let mut clash = |message: String, hint: &str| checks.error(text.span(), key, message, hint);
        match place {
            Place::Header(name) => {
                if self.declaration.headers.keys().any(|header| header.eq_ignore_ascii_case(name)) {
                    clash(format!("`headers` sets {name} too"), "remove it from `headers`");
                } else if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str())
                    || ["content-type", "accept", "user-agent"].contains(&name.to_ascii_lowercase().as_str())
                {
                    clash(
                        format!("the sender writes {name} itself"),
                        "name a header that the destination reads",
                    );
                }
            }
            Place::Body(pointer) => self.check_body_place(pointer, &mut clash),
            Place::Worker => clash(
                "`worker` is for tools that a worker carries out".to_owned(),
                "say where the text goes in the request",
            ),
            Place::Query(name) => {
                if self.url.as_ref().is_some_and(|url| url.query_names.contains(name)) {
                    clash(
                        format!("the URL has a parameter {name} already"),
                        "the text is appended: remove it there",
                    );
                }
            }
            Place::Path(name) => {
                let stands = (Slot::Named(name.clone()), Part::Path);
                if self.url.as_ref().is_some_and(|url| !url.slots.contains(&stands)) {
                    let hint = "put it into a path segment of `url`";
                    clash(format!("`{{{name}}}` does not stand in the URL's path"), hint);
                }
            }
        }
    }

    fn check_body_place(&self, pointer: &Pointer, clash: &mut impl FnMut(String, &str)) {
        match self.declaration.body {
            BodyKind::None => {
                clash("there is no body to put it in".to_owned(), "use `header:NAME`, or another `body`")
            }
            BodyKind::Form if pointer.tokens().len() != 1 => {
                clash("a form is flat: it has no member inside a member".to_owned(), "write `body:/NAME`");
            }
            BodyKind::Form | BodyKind::Json => {}
        }
        let takes = |other: &Pointer| other.to_string() == pointer.to_string();
        let in_url = self.url.iter().flat_map(|url| &url.slots).any(|(slot, _)| match slot {
            Slot::Argument(argument) => takes(argument),
            Slot::Reference | Slot::Named(_) => false,
        });
        if in_url || self.declaration.path_only.iter().any(takes) {
            clash(
                format!("{pointer} is an argument that the URL uses"),
                "name a member that no argument has",
            );
        }
    }

    /// Checks that every placeholder of the request has something that fills it.
    pub fn check_slots(
        &self,
        place: Option<&Place>,
        section: &HttpSection,
        key: &str,
        checks: &mut Checks<'_>,
    ) {
        for (slot, part) in self.url.iter().flat_map(|url| &url.slots) {
            let message = match (slot, place) {
                (Slot::Argument(_), _) | (Slot::Reference, Some(_)) => continue,
                (Slot::Reference, None) => {
                    "`{reference}` stands for a declared key or reference, and there is none".to_owned()
                }
                (Slot::Named(name), Some(Place::Path(filled))) if name == filled && *part == Part::Path => {
                    continue;
                }
                (Slot::Named(name), _) => format!("nothing fills `{{{name}}}`"),
            };
            let hint = "write `{/pointer}` for an argument, or declare the key as `path:NAME`";
            checks.error(section.url.span(), &format!("{key}.url"), message, hint);
        }
    }
}

/// Reads where a key or reference goes.
pub(super) fn read_place(text: &At<String>, key: &str, checks: &mut Checks<'_>) -> Option<Place> {
    const HINT: &str = "write \"header:NAME\", \"body:/pointer\", \"query:NAME\" or \"path:NAME\"";
    if text.get() == "worker" {
        return Some(Place::Worker);
    }
    let (kind, name) = text.get().split_once(':').unwrap_or((text.get(), ""));
    let plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~[]".contains(&byte))
    };
    let place = match kind {
        "header" if is_token(name) => Some(Place::Header(name.to_owned())),
        "query" if plain(name) => Some(Place::Query(name.to_owned())),
        "path"
            if super::template::is_word(name)
                && !matches!(name, "reference" | "operation_id" | "account") =>
        {
            Some(Place::Path(name.to_owned()))
        }
        "body" => match Pointer::parse(name) {
            Ok(pointer) if !pointer.is_root() => Some(Place::Body(pointer)),
            Ok(_) | Err(_) => None,
        },
        _ => None,
    };
    if place.is_none() {
        checks.error(text.span(), key, "this is no place in a request", HINT);
    }
    place
}
