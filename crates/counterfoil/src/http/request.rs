//! How a request is made from the stored argument bytes. Pure, so that every attempt, also one in another process
//! years of versions later, makes the same bytes; the digest proves that it did.

use std::fmt;

use http::{HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::declaration::DeclarationProblem;
use super::secrets;
use super::template::{MAX_URL, UrlTemplate, encoded, scalar};
use crate::fingerprint::Arguments;
use crate::fingerprint::SpliceError;
use crate::id::Account;
use crate::json::Node;
use crate::pointer::Pointer;
use crate::policy::{BodyKind, HttpDeclaration, QueryMode, Tool};
use crate::recovery::Place;

/// A request that is ready but for its secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The whole URL, final.
    pub url: String,
    /// Header names in lower case and in order, with templates: `${…}` is looked up when the request is sent.
    pub headers: Vec<(String, String)>,
    /// The body; `None` where the request has none.
    pub body: Option<Vec<u8>>,
    /// SHA-256 over method, URL, body and every header without `${…}`, as `sha256:` and hexadecimal digits.
    ///
    /// `User-Agent` is left out: it names the version of this product, and an upgrade must not make the resend of an
    /// open operation another request.
    pub digest: String,
}

impl fmt::Debug for Request {
    /// URL and body may hold personal data: only what cannot is printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("digest", &self.digest)
            .field("body_bytes", &self.body.as_ref().map(Vec::len))
            .finish_non_exhaustive()
    }
}

/// Why arguments cannot become a request. Pointers are the operator's; nothing that an agent wrote is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidArguments {
    /// The tool is not carried over HTTP.
    #[error("the tool is not carried over HTTP")]
    NotHttp,
    /// The declaration itself is wrong.
    #[error("the tool's declaration is not valid: {0}")]
    Declaration(DeclarationProblem),
    /// The stored arguments can no longer be read.
    #[error("the stored arguments cannot be read")]
    Unreadable,
    /// A member that the URL needs is absent.
    #[error("{0} is missing; the URL needs it")]
    Missing(Pointer),
    /// A member that the URL needs is no string, number or boolean.
    #[error("{0} must be a string, a number or a boolean; it goes into the URL")]
    NotScalar(Pointer),
    /// A member that the URL needs is empty, `.` or `..`.
    #[error("{0} must not be empty, . or ..; it goes into the URL")]
    NotAUrlPart(Pointer),
    /// Filled in, the path would hold `.` or `..`.
    #[error("the arguments would make . or .. a segment of the path")]
    DotSegment,
    /// The URL is longer than 8 KiB.
    #[error("the URL would be longer than 8192 bytes")]
    UrlTooLong,
    /// The arguments hold the member already that the key or reference goes into.
    #[error("the arguments already hold {0}, where the key or reference goes")]
    KeyPresent(Pointer),
    /// The object that should hold the key or reference is absent.
    #[error("the arguments lack the object that {0} belongs in, where the key or reference goes")]
    NoPlaceForKey(Pointer),
    /// A form takes scalars only.
    #[error("a form takes strings, numbers and booleans only")]
    NotFlat,
    /// The declaration asks for a key or reference and none was derived.
    #[error("the tool needs a key or reference")]
    NoKey,
    /// The key cannot stand where it goes.
    #[error("the key or reference cannot stand where the tool puts it")]
    KeyDoesNotFit,
    /// The tool takes no query string from callers.
    #[error("the tool takes no query string")]
    QueryRefused,
    /// The caller's query string cannot be sent, or holds the key's parameter.
    #[error("the query string cannot be sent")]
    Query,
}

/// Makes the request of an operation: stored bytes, the key or reference spliced in, placeholders filled with
/// percent-encoded data. `query` is a caller's query string without `?`, for tools that pass one.
///
/// # Errors
/// As [`InvalidArguments`] lists; prepare is refused then, so nothing is stored that could never be sent.
pub fn build(
    tool: &Tool,
    account: &Account,
    arguments: &Arguments,
    key: Option<&str>,
    query: Option<&str>,
) -> Result<Request, InvalidArguments> {
    let http = tool.http().ok_or(InvalidArguments::NotHttp)?;
    let place = tool.recovery.place();
    let keyed = match place {
        Some(place) => Some((place, key.ok_or(InvalidArguments::NoKey)?)),
        None => None,
    };
    let node = arguments.node().map_err(|_| InvalidArguments::Unreadable)?;
    let template = UrlTemplate::parse(&http.url, place).map_err(InvalidArguments::Declaration)?;
    if let Some((Place::Path(name), _)) = keyed
        && !template.names_key()
    {
        return Err(InvalidArguments::Declaration(DeclarationProblem::KeyPlaceMissing(name.clone())));
    }
    let mut url = template.fill(&node, keyed.map(|(_, key)| key))?;
    append_query(&mut url, http, keyed, query)?;
    if url.len() > MAX_URL {
        return Err(InvalidArguments::UrlTooLong);
    }
    let body = make_body(http, arguments, &node, keyed)?;
    let headers = make_headers(http, account, keyed, body.is_some())?;
    let digest = digest(&http.method, &url, body.as_deref(), &headers);
    Ok(Request { method: http.method.clone(), url, headers, body, digest })
}

fn append_query(
    url: &mut String,
    http: &HttpDeclaration,
    keyed: Option<(&Place, &str)>,
    query: Option<&str>,
) -> Result<(), InvalidArguments> {
    let own = match keyed {
        Some((Place::Query(name), key)) => Some((encoded(name), encoded(key))),
        Some((Place::Header(_) | Place::Body(_) | Place::Path(_) | Place::Worker, _)) | None => None,
    };
    let mut append = |text: &str| {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(text);
    };
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        if http.query == QueryMode::Refuse {
            return Err(InvalidArguments::QueryRefused);
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte);
        let names_ours = |(name, _): &(String, String)| {
            query.split('&').any(|pair| decoded_name(pair) == decoded_name(name))
        };
        if !query.bytes().all(plain) || own.as_ref().is_some_and(names_ours) {
            return Err(InvalidArguments::Query);
        }
        append(query);
    }
    if let Some((name, key)) = own {
        append(&format!("{name}={key}"));
    }
    Ok(())
}

/// The name of a `name=value` pair as a destination reads it.
pub(super) fn decoded_name(pair: &str) -> Vec<u8> {
    let name = pair.split('=').next().unwrap_or_default().replace('+', " ");
    percent_encoding::percent_decode_str(&name).collect()
}

fn make_body(
    http: &HttpDeclaration,
    arguments: &Arguments,
    node: &Node<'_>,
    keyed: Option<(&Place, &str)>,
) -> Result<Option<Vec<u8>>, InvalidArguments> {
    let member = match keyed {
        Some((Place::Body(pointer), key)) => {
            if pointer.resolve_member(node).is_some() {
                return Err(InvalidArguments::KeyPresent(pointer.clone()));
            }
            Some((pointer, key))
        }
        Some((Place::Header(_) | Place::Query(_) | Place::Path(_) | Place::Worker, _)) | None => None,
    };
    match http.body {
        BodyKind::Json => json_body(http, arguments, member).map(Some),
        BodyKind::Form => form_body(http, node, member).map(Some),
        BodyKind::None if member.is_some() => {
            Err(InvalidArguments::Declaration(DeclarationProblem::KeyInBody))
        }
        BodyKind::None => Ok(None),
    }
}

fn json_body(
    http: &HttpDeclaration,
    arguments: &Arguments,
    member: Option<(&Pointer, &str)>,
) -> Result<Vec<u8>, InvalidArguments> {
    let text = arguments.without_top_level(&http.path_only);
    let Some((pointer, key)) = member else { return Ok(text.into_bytes()) };
    let spliced = Arguments::from_stored(text).splice(pointer, key).map_err(|error| match error {
        SpliceError::Present => InvalidArguments::KeyPresent(pointer.clone()),
        SpliceError::NoParent => InvalidArguments::NoPlaceForKey(pointer.clone()),
    })?;
    Ok(spliced.into_bytes())
}

fn form_body(
    http: &HttpDeclaration,
    node: &Node<'_>,
    member: Option<(&Pointer, &str)>,
) -> Result<Vec<u8>, InvalidArguments> {
    let left_out = |name: &str| http.path_only.iter().any(|pointer| pointer.tokens().eq([name]));
    let mut pairs = Vec::new();
    for argument in node.members().unwrap_or_default() {
        if !left_out(argument.name()) {
            let text = scalar(argument.value()).ok_or(InvalidArguments::NotFlat)?;
            pairs.push(format!("{}={}", encoded(argument.name()), encoded(text)));
        }
    }
    if let Some((pointer, key)) = member {
        let mut tokens = pointer.tokens();
        let (Some(name), None) = (tokens.next(), tokens.next()) else {
            return Err(InvalidArguments::Declaration(DeclarationProblem::KeyInBody));
        };
        pairs.push(format!("{}={}", encoded(name), encoded(key)));
    }
    Ok(pairs.join("&").into_bytes())
}

/// Our own headers first, each only where the declaration does not give another value for it.
pub(super) fn make_headers(
    http: &HttpDeclaration,
    account: &Account,
    keyed: Option<(&Place, &str)>,
    has_body: bool,
) -> Result<Vec<(String, String)>, InvalidArguments> {
    let refuse = |problem| Err(InvalidArguments::Declaration(problem));
    let mut headers = vec![
        ("accept".to_owned(), "application/json, */*;q=0.5".to_owned()),
        ("user-agent".to_owned(), concat!("counterfoil/", env!("CARGO_PKG_VERSION")).to_owned()),
    ];
    if has_body {
        let kind = match http.body {
            BodyKind::Json | BodyKind::None => "application/json",
            BodyKind::Form => "application/x-www-form-urlencoded",
        };
        headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    let own = headers.len();
    for (name, value) in &http.headers {
        let Ok(lower) = HeaderName::from_bytes(name.as_bytes()) else {
            return refuse(DeclarationProblem::HeaderName(name.clone()));
        };
        let Ok(value) = secrets::for_account(value, account) else {
            return refuse(DeclarationProblem::HeaderValue(name.clone()));
        };
        match headers.iter().position(|(known, _)| known == lower.as_str()) {
            Some(at) if at < own => headers[at].1 = value,
            Some(_) => return refuse(DeclarationProblem::HeaderTwice(name.clone())),
            None => headers.push((lower.as_str().to_owned(), value)),
        }
    }
    if let Some((Place::Header(name), key)) = keyed {
        let Ok(lower) = HeaderName::from_bytes(name.as_bytes()) else {
            return refuse(DeclarationProblem::HeaderName(name.clone()));
        };
        if headers.iter().any(|(known, _)| known == lower.as_str()) {
            return refuse(DeclarationProblem::HeaderTwice(name.clone()));
        }
        // A raw key may hold `${`: it would be taken for a secret's name.
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) || key.is_empty() || key.contains("${") {
            return Err(InvalidArguments::KeyDoesNotFit);
        }
        headers.push((lower.as_str().to_owned(), key.to_owned()));
    }
    headers.sort();
    Ok(headers)
}

/// Whether a value can be a header's: visible ASCII with blanks inside. No CR, LF or NUL, no folding, nothing that
/// peers decode differently.
pub(crate) fn header_value(text: &str) -> Option<HeaderValue> {
    let fits = text.bytes().all(|byte| byte == b'\t' || byte == b' ' || byte.is_ascii_graphic());
    if fits && text.trim() == text { HeaderValue::from_str(text).ok() } else { None }
}

fn digest(method: &str, url: &str, body: Option<&[u8]>, headers: &[(String, String)]) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(method.as_bytes());
    part(url.as_bytes());
    part(if body.is_some() { b"body" } else { b"" });
    part(body.unwrap_or_default());
    let fixed = |(name, value): &&(String, String)| !value.contains("${") && name != "user-agent";
    for (name, value) in headers.iter().filter(fixed) {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    format!("sha256:{}", crate::hex::encode(&hash.finalize()))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
