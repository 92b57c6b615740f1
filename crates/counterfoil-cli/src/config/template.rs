//! URLs and header values with placeholders. Host and scheme are fixed by the operator; only path segments and query
//! values take anything from the arguments, and only headers take secrets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use counterfoil::Pointer;

/// Why a template does not load. The template itself is not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

fn wrong<T>(message: impl Into<String>, hint: &'static str) -> Result<T, TemplateError> {
    Err(TemplateError { message: message.into(), hint })
}

/// What stands in a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// `{/pointer}`: a scalar argument.
    Argument(Pointer),
    /// `{reference}` or `{operation_id}`: the key or reference as it was sent.
    Reference,
    /// `{NAME}`: filled by `path:NAME`.
    Named(String),
}

/// Which part of the URL a placeholder stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A path segment.
    Path,
    /// A query value.
    Query,
}

/// What kind of address the host is, as far as its text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name.
    Name,
    /// `localhost`: a name, and this machine.
    Localhost,
    /// A literal loopback address.
    Loopback,
    /// A literal private, link-local, metadata or otherwise special address.
    Private,
    /// A literal public address.
    Public,
}

/// A URL template, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate {
    /// Whether it is `https`.
    pub secure: bool,
    /// The kind of host.
    pub host: Host,
    /// Every placeholder, in order.
    pub slots: Vec<(Slot, Part)>,
    /// The names of the query parameters.
    pub query_names: Vec<String>,
}

const SHAPE: &str =
    "write \"https://HOST/PATH?NAME=VALUE\", with placeholders only in path segments and query values";

impl UrlTemplate {
    /// Takes a URL template apart.
    ///
    /// # Errors
    /// Where it is no http or https URL with a fixed host, or a placeholder stands where none may.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("a URL holds visible ASCII characters only", "percent-encode the others");
        }
        if text.contains("${") {
            return wrong(
                "a URL takes no `${…}`: it is stored and shown",
                "put the secret in `headers`, where it is looked up at send time and never stored",
            );
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong("this is no absolute URL", SHAPE);
        };
        if scheme.contains('{') {
            return wrong("the scheme is fixed: no placeholder may stand in it", SHAPE);
        }
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return wrong("the scheme must be `https` or `http`", SHAPE),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        // A `/` inside a placeholder must not make the authority look shorter than it is.
        let (authority, tail) = rest.split_at(end);
        if authority.contains(['{', '}']) {
            return wrong("the host is fixed: no placeholder may stand in it", SHAPE);
        }
        if tail.contains('#') {
            return wrong(
                "a request has no fragment (`#…`)",
                "leave the fragment out; encode a literal # as %23",
            );
        }
        let host = host(authority)?;
        check_literal(tail)?;
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
        let mut slots = Vec::new();
        for segment in path.split_inclusive('/') {
            let plain = segment.trim_end_matches('/').to_ascii_lowercase().replace("%2e", ".");
            if matches!(plain.as_str(), "." | "..") {
                return wrong("a path segment must not be `.` or `..`", SHAPE);
            }
        }
        collect(path, Part::Path, &mut slots)?;
        let mut query_names = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if name.contains(['{', '}']) {
                return wrong("a placeholder may stand in a query value, not in its name", SHAPE);
            }
            query_names.push(name.to_owned());
            collect(value, Part::Query, &mut slots)?;
        }
        Ok(Self { secure, host, slots, query_names })
    }

    /// Whether the key or reference stands in it as `{reference}`.
    #[must_use]
    pub fn names_reference(&self) -> bool {
        self.slots.iter().any(|(slot, _)| *slot == Slot::Reference)
    }
}

/// Outside placeholders only what RFC 3986 allows, so that nothing is encoded or dropped on the way.
fn check_literal(tail: &str) -> Result<(), TemplateError> {
    let mut inside = false;
    for (at, byte) in tail.bytes().enumerate() {
        let fits = match byte {
            b'{' | b'}' => {
                inside = byte == b'{';
                true
            }
            _ if inside => true,
            b'%' => {
                tail.as_bytes().get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
            }
            _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte),
        };
        if !fits {
            return wrong(
                "the URL holds a character that must be percent-encoded",
                "write it as % and two hex digits",
            );
        }
    }
    Ok(())
}

fn collect(text: &str, part: Part, slots: &mut Vec<(Slot, Part)>) -> Result<(), TemplateError> {
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let Some((inside, after)) = rest[at..].strip_prefix('{').and_then(|open| open.split_once('}')) else {
            return wrong("`{` and `}` do not pair up", "encode a literal brace as %7B or %7D");
        };
        slots.push((slot(inside)?, part));
        rest = after;
    }
    Ok(())
}

fn slot(inside: &str) -> Result<Slot, TemplateError> {
    const HINT: &str =
        "write `{/pointer}` for an argument, `{reference}` for the key or reference as it was sent";
    if inside.starts_with('/') {
        return match Pointer::parse(inside) {
            Ok(pointer) => Ok(Slot::Argument(pointer)),
            Err(error) => wrong(format!("bad placeholder: {error}"), HINT),
        };
    }
    match inside {
        "reference" | "operation_id" => Ok(Slot::Reference),
        "account" => wrong("`{account}` may stand only in a header", HINT),
        name if is_word(name) => Ok(Slot::Named(name.to_owned())),
        _ => wrong("a placeholder is neither a pointer nor a name", HINT),
    }
}

/// Letters, digits and `_`, not beginning with a digit.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.as_bytes()[0].is_ascii_digit()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn host(authority: &str) -> Result<Host, TemplateError> {
    if authority.contains('@') {
        return wrong(
            "a URL holds no user name or password: it is stored and shown",
            "put the credential in `headers`, as in Authorization = \"Bearer ${NAME}\"",
        );
    }
    let (name, port) = match authority.strip_prefix('[').and_then(|open| open.split_once(']')) {
        Some((address, after)) => match address.parse::<Ipv6Addr>() {
            Ok(address) => {
                return port_fits(after.strip_prefix(':'), after).map(|()| kind(IpAddr::V6(address)));
            }
            Err(_) => return wrong("the host is no IPv6 address", SHAPE),
        },
        None => match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, None),
        },
    };
    port_fits(port, if port.is_some() { ":" } else { "" })?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' || byte == b'_';
    if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) {
        return wrong("the host is no name or address", SHAPE);
    }
    if let Ok(address) = name.parse::<Ipv4Addr>() {
        return Ok(kind(IpAddr::V4(address)));
    }
    // Resolvers read `127.1`, `0x7f.1` and `2130706433` as addresses too, past any check of the text.
    let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x") {
        return wrong(
            "the host looks like an address in an unusual spelling",
            "write all four decimal parts: 127.0.0.1",
        );
    }
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    Ok(if lower == "localhost" || lower.ends_with(".localhost") { Host::Localhost } else { Host::Name })
}

fn port_fits(port: Option<&str>, after: &str) -> Result<(), TemplateError> {
    match port {
        None if after.is_empty() => Ok(()),
        Some(port)
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && port.parse::<u16>().is_ok_and(|port| port > 0) =>
        {
            Ok(())
        }
        Some(_) | None => wrong("the port is no number from 1 to 65535", SHAPE),
    }
}

fn kind(address: IpAddr) -> Host {
    match address {
        IpAddr::V4(v4) if v4.is_loopback() => Host::Loopback,
        IpAddr::V4(v4) if special_v4(v4) => Host::Private,
        IpAddr::V6(v6) if v6.is_loopback() => Host::Loopback,
        IpAddr::V6(v6) if special_v6(v6) => Host::Private,
        IpAddr::V4(_) | IpAddr::V6(_) => Host::Public,
    }
}

fn special_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_private()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || a == 0
        || a >= 240
        // Carrier-grade NAT, where some clouds keep their metadata service; and the benchmarking range.
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
}

fn special_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    address.is_unspecified()
        || address.is_multicast()
        || address.to_ipv4_mapped().is_some()
        || (first & 0xfe00) == 0xfc00
        || (first & 0xffc0) == 0xfe80
        || address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0]
        || address.segments()[..6] == [0; 6]
}

/// Where a header takes a secret from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// An environment variable; the name may hold `{account}`.
    Environment(String),
    /// A file; the path may hold `{account}`.
    File(String),
}

/// The secrets of a header value, in order. `{account}` may stand anywhere in it.
///
/// # Errors
/// Where it holds control characters, a `${…}` that is no name and no file, or another placeholder.
pub fn header_secrets(text: &str) -> Result<Vec<Secret>, TemplateError> {
    if text.is_empty() || !text.bytes().all(|byte| byte == b' ' || byte == b'\t' || byte.is_ascii_graphic()) {
        return wrong(
            "a header value holds visible ASCII characters, spaces and tabs only",
            "check the quotes",
        );
    }
    let (mut secrets, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find("${") {
        plain.push_str(&rest[..at]);
        let (inside, after) = secret_text(&rest[at + 2..])?;
        secrets.push(secret(inside)?);
        rest = after;
    }
    plain.push_str(rest);
    if plain.contains("{reference}") || plain.contains("{operation_id}") {
        return wrong(
            "a header is not filled with the key or reference",
            "declare its place in `recovery`, as in key = \"header:Idempotency-Key\"",
        );
    }
    Ok(secrets)
}

/// What an environment variable may be called here, with an account in it.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}

/// Splits after the `}` that closes a `${`, with `{account}` allowed in between.
fn secret_text(text: &str) -> Result<(&str, &str), TemplateError> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Ok((&text[..at], &text[at + 1..])),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    wrong("a `${` is not closed", "write `${NAME}` or `${file:PATH}`")
}

fn secret(inside: &str) -> Result<Secret, TemplateError> {
    const HINT: &str = "write `${NAME}` or `${file:PATH}`; `{account}` may stand inside";
    let named = inside.replace("{account}", "A");
    if named.contains(['{', '}', '$']) {
        return wrong("a `${…}` holds a placeholder other than `{account}`", HINT);
    }
    match inside.strip_prefix("file:") {
        Some("") => wrong("a `${file:…}` has no path", HINT),
        Some(path) => Ok(Secret::File(path.to_owned())),
        None if is_variable(&named) => Ok(Secret::Environment(inside.to_owned())),
        None => wrong("a `${…}` is neither a name nor a file", HINT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        let url =
            UrlTemplate::parse("https://a.example:8443/o/{/order/id}/x-{key}?ref={reference}&z=1").unwrap();
        assert!(url.secure && url.names_reference());
        assert_eq!(url.host, Host::Name);
        assert_eq!(url.query_names, ["ref", "z"]);
        assert_eq!(url.slots[0], (Slot::Argument(Pointer::parse("/order/id").unwrap()), Part::Path));
        assert_eq!(url.slots[1], (Slot::Named("key".to_owned()), Part::Path));
        assert_eq!(url.slots[2], (Slot::Reference, Part::Query));
    }

    #[test]
    fn knows_kinds_of_hosts() {
        for (url, host) in [
            ("http://127.0.0.1:9/a", Host::Loopback),
            ("http://127.8.0.1", Host::Loopback),
            ("http://[::1]:9/a", Host::Loopback),
            ("http://localhost/", Host::Localhost),
            ("http://LOCALHOST./", Host::Localhost),
            ("http://10.1.2.3/", Host::Private),
            ("http://169.254.169.254/latest", Host::Private),
            ("http://100.100.100.200/", Host::Private),
            ("http://0.0.0.0/", Host::Private),
            ("http://[::ffff:127.0.0.1]/", Host::Private),
            ("http://[fe80::1]/", Host::Private),
            ("http://[64:ff9b::a00:1]/", Host::Private),
            ("http://8.8.8.8/", Host::Public),
            ("http://[2001:4860:4860::8888]/", Host::Public),
            ("https://a.example", Host::Name),
        ] {
            assert_eq!(UrlTemplate::parse(url).unwrap().host, host, "{url}");
        }
    }

    #[test]
    fn refuses_what_is_not_fixed_or_not_safe() {
        for url in [
            "",
            "/orders",
            "ftp://a.example/",
            "HTTPS://a.example/",
            "{/scheme}://a.example/",
            "https://{/host}/x",
            "https://a.{/host}/x",
            "https://a.example:{/port}/x",
            "https://user:pass@a.example/",
            "https://a.example/#x",
            "https://a.example/{/a",
            "https://a.example/a}",
            "https://a.example/{}",
            "https://a.example/{/a~2}",
            "https://a.example/{account}",
            "https://a.example/{a b}",
            "https://a.example/?{/name}=1",
            "https://a.example/?token=${TOKEN}",
            "https://a.example/../x",
            "https://a.example/./x",
            "https://a.example/%2E./x",
            "https://a.example/a|b",
            "https://a.example/%zz",
            "https://127.1/",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://a.example:0/",
            "https://a.example:99999/",
            "https://[::1/",
            "https://[::1]x/",
            "https:///x",
            "https://a.example/\u{e9}",
        ] {
            assert!(UrlTemplate::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn finds_the_secrets_of_a_header() {
        let secrets = header_secrets("Bearer ${TOKEN_{account}} ${file:/run/{account}/t} {account}").unwrap();
        assert_eq!(
            secrets,
            [Secret::Environment("TOKEN_{account}".to_owned()), Secret::File("/run/{account}/t".to_owned())]
        );
        for bad in ["", "${", "${}", "${A B}", "${file:}", "{reference}", "a\nb", "${A{/x}}", "\u{e9}"] {
            assert!(header_secrets(bad).is_err(), "{bad:?}");
        }
    }
}
