//! What is wrong with a declaration of a tool over HTTP, said when the file is loaded and not at the first send.

use std::collections::BTreeSet;

use super::request::decoded_name;
use super::secrets;
use super::target::Host;
use super::template::UrlTemplate;
use crate::policy::{BodyKind, HttpDeclaration, Tool};
use crate::recovery::Place;

/// One problem of a declaration. The words are fixed but for names that the operator wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DeclarationProblem {
    /// The URL begins with neither `https://` nor `http://`, in lower case.
    #[error("the URL must begin with https:// or http://, in lower case")]
    Scheme,
    /// A placeholder or secret stands in the host or port.
    #[error("the host and port of the URL are fixed: they take no placeholder")]
    HostNotFixed,
    /// `user@` stands before the host.
    #[error("the URL must not hold a user name or password; use a header")]
    UserInfo,
    /// The host or port cannot be read.
    #[error("the host or port of the URL is not valid")]
    Host,
    /// An IP address in a spelling that resolvers and readers understand differently.
    #[error("the host is an address in an unusual spelling; write four decimal numbers or a name")]
    NumericHost,
    /// `#` in the URL: it would never be sent.
    #[error("a fragment (#) of a URL is never sent")]
    Fragment,
    /// A character that RFC 3986 does not allow there.
    #[error("the URL holds a character that must be percent-encoded")]
    UrlCharacter,
    /// `${…}` in the URL: URLs are stored and shown.
    #[error("secrets do not belong in the URL; use a header")]
    SecretInUrl,
    /// `.` or `..` as a path segment.
    #[error("the URL must not hold . or .. as a path segment")]
    DotSegment,
    /// A placeholder that names neither an argument nor the key.
    #[error("a placeholder is {{/pointer}}, or the name that the key or reference goes by")]
    Placeholder,
    /// A placeholder outside a query value.
    #[error("in a query a placeholder may stand only in a value")]
    PlaceholderInQueryName,
    /// `path:NAME` without `{NAME}`.
    #[error("the key or reference goes into {{{0}}}, which the URL does not hold")]
    KeyPlaceMissing(String),
    /// No method, not upper case, or one that cannot carry a write.
    #[error("the method is not one that can be sent")]
    Method,
    /// A body that the method does not have.
    #[error("a {0} request has no body; write body = \"none\"")]
    BodyOfMethod(String),
    /// The key goes into a body that does not exist or cannot hold it there.
    #[error("the key or reference does not fit the declared body")]
    KeyInBody,
    /// `path_only` names something that is no member of the arguments object.
    #[error("path_only takes members of the arguments object, such as /order_id")]
    PathOnly,
    /// The name of a query parameter is empty.
    #[error("the query parameter of the key or reference has no name")]
    QueryName,
    /// The URL has the query parameter already that the key or reference goes into.
    #[error("the URL has the query parameter {0} already, where the key or reference goes")]
    QueryTwice(String),
    /// A header name outside the grammar.
    #[error("{0:?} is not a header name")]
    HeaderName(String),
    /// A header that the sender writes itself.
    #[error("the header {0} is set by the sender")]
    HeaderReserved(String),
    /// A header that is named twice, or is also where the key goes.
    #[error("the header {0} is given twice")]
    HeaderTwice(String),
    /// A header value that cannot be sent, or a `${…}` that cannot be read.
    #[error("the value of the header {0} cannot be sent or read")]
    HeaderValue(String),
    /// Plain HTTP to another host: secrets and arguments can be read on the way.
    #[error("plain http to another host: use https")]
    PlainHttp,
}

impl DeclarationProblem {
    /// Whether the tool still works: to be reported, not refused.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        *self == Self::PlainHttp
    }
}

/// Headers that a declaration may not set: they frame or route the message, or would make the answer unreadable.
pub const RESERVED_HEADERS: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Checks what can be known of a tool's HTTP declaration without arguments. Empty for a tool that the executor does
/// not carry.
#[must_use]
pub fn check_declaration(tool: &Tool) -> Vec<DeclarationProblem> {
    let Some(http) = tool.http() else { return Vec::new() };
    let place = tool.recovery.place();
    let mut problems = Vec::new();
    check_method(http, &mut problems);
    check_url(http, place, &mut problems);
    check_body(http, place, &mut problems);
    check_headers(http, place, &mut problems);
    problems
}

fn check_method(http: &HttpDeclaration, problems: &mut Vec<DeclarationProblem>) {
    let method = http.method.as_str();
    let plain =
        !method.is_empty() && method.len() <= 32 && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !plain || matches!(method, "CONNECT" | "TRACE") {
        problems.push(DeclarationProblem::Method);
    }
    if matches!(method, "GET" | "HEAD") && http.body != BodyKind::None {
        problems.push(DeclarationProblem::BodyOfMethod(method.to_owned()));
    }
}

fn check_url(http: &HttpDeclaration, place: Option<&Place>, problems: &mut Vec<DeclarationProblem>) {
    let template = match UrlTemplate::parse(&http.url, place) {
        Ok(template) => template,
        Err(problem) => return problems.push(problem),
    };
    match place {
        Some(Place::Path(name)) if !template.names_key() => {
            problems.push(DeclarationProblem::KeyPlaceMissing(name.clone()));
        }
        Some(Place::Query(name)) if name.is_empty() => problems.push(DeclarationProblem::QueryName),
        // A destination that reads the first of two would take the other one for the key.
        Some(Place::Query(name)) if names_parameter(&http.url, name) => {
            problems.push(DeclarationProblem::QueryTwice(name.clone()));
        }
        Some(Place::Path(_) | Place::Query(_) | Place::Header(_) | Place::Body(_) | Place::Worker) | None => {
        }
    }
    let local = match &template.target().host {
        Host::Address(address) => address.is_loopback(),
        Host::Name(_) => false,
    };
    if !template.target().tls && !local {
        problems.push(DeclarationProblem::PlainHttp);
    }
}

fn names_parameter(url: &str, name: &str) -> bool {
    let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
    query.split('&').any(|pair| decoded_name(pair) == name.as_bytes())
}

fn check_body(http: &HttpDeclaration, place: Option<&Place>, problems: &mut Vec<DeclarationProblem>) {
    if http.path_only.iter().any(|pointer| pointer.tokens().len() != 1) {
        problems.push(DeclarationProblem::PathOnly);
    }
    let Some(Place::Body(pointer)) = place else { return };
    let fits = match http.body {
        BodyKind::Json => !pointer.is_root() && !http.path_only.contains(pointer),
        BodyKind::Form => pointer.tokens().len() == 1 && !http.path_only.contains(pointer),
        BodyKind::None => false,
    };
    if !fits {
        problems.push(DeclarationProblem::KeyInBody);
    }
}

fn check_headers(http: &HttpDeclaration, place: Option<&Place>, problems: &mut Vec<DeclarationProblem>) {
    let mut seen = BTreeSet::new();
    if let Some(Place::Header(name)) = place {
        seen.insert(name.to_ascii_lowercase());
        check_header_name(name, true, problems);
    }
    for (name, value) in &http.headers {
        check_header_name(name, false, problems);
        if !seen.insert(name.to_ascii_lowercase()) {
            problems.push(DeclarationProblem::HeaderTwice(name.clone()));
        }
        if secrets::parse(&value.replace("{account}", "account")).is_err() {
            problems.push(DeclarationProblem::HeaderValue(name.clone()));
        }
    }
}

fn check_header_name(name: &str, for_key: bool, problems: &mut Vec<DeclarationProblem>) {
    let lower = name.to_ascii_lowercase();
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        problems.push(DeclarationProblem::HeaderName(name.to_owned()));
    }
    let of_body = for_key && matches!(&*lower, "content-type" | "accept" | "user-agent");
    if RESERVED_HEADERS.contains(&&*lower) || of_body {
        problems.push(DeclarationProblem::HeaderReserved(name.to_owned()));
    }
}
