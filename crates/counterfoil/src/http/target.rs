//! The fixed part of a URL: scheme, host and port. It comes from the operator's file alone, so nothing that an agent
//! writes can move a request to another host.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::declaration::DeclarationProblem;

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Whom to connect to.
    pub host: Host,
    /// The port, 80 or 443 where none is written.
    pub port: u16,
    /// Host and port as they were written, for the `Host` header.
    pub authority: String,
}

/// A host as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name that has to be resolved.
    Name(String),
    /// An address that was written as such.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Target {
    /// Splits a URL into its target and the rest, which begins with `/`, `?` or `#` or is empty.
    ///
    /// # Errors
    /// Where scheme, host or port are not fixed texts of the plain form.
    pub fn split(url: &str) -> Result<(Self, &str), DeclarationProblem> {
        let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(DeclarationProblem::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains(['{', '}', '$']) {
            return Err(DeclarationProblem::HostNotFixed);
        }
        if authority.contains('@') {
            return Err(DeclarationProblem::UserInfo);
        }
        let (host, port) = split_port(authority)?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Ok((Self { tls, host: parse_host(host)?, port, authority: authority.to_owned() }, rest))
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), DeclarationProblem> {
    let colon = match authority.rfind(']') {
        Some(bracket) => authority[bracket..].find(':').map(|at| bracket + at),
        None => authority.find(':'),
    };
    let Some(colon) = colon else { return Ok((authority, None)) };
    let digits = &authority[colon + 1..];
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DeclarationProblem::Host);
    }
    match digits.parse() {
        Ok(port) if port > 0 => Ok((&authority[..colon], Some(port))),
        Ok(_) | Err(_) => Err(DeclarationProblem::Host),
    }
}

fn parse_host(host: &str) -> Result<Host, DeclarationProblem> {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or(DeclarationProblem::Host)?;
        return inner
            .parse::<Ipv6Addr>()
            .map(|address| Host::Address(IpAddr::V6(address)))
            .map_err(|_| DeclarationProblem::Host);
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Address(IpAddr::V4(address)));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() || host.len() > 253 || host.starts_with('.') || !host.bytes().all(plain) {
        return Err(DeclarationProblem::Host);
    }
    // Resolvers read `127.1`, `0x7f.1`, `2130706433` and `0177.0.0.1` as addresses, readers of the file do not.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let numeric = match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    if numeric { Err(DeclarationProblem::NumericHost) } else { Ok(Host::Name(host.to_ascii_lowercase())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_plain_hosts_apart() {
        let (target, rest) = Target::split("https://Supplier.example:8443/orders?x=1").unwrap();
        assert_eq!(target.host, Host::Name("supplier.example".to_owned()));
        assert_eq!((target.tls, target.port, rest), (true, 8443, "/orders?x=1"));
        assert_eq!(target.authority, "Supplier.example:8443");
        let (target, rest) = Target::split("http://[::1]").unwrap();
        assert_eq!(target.host, Host::Address("::1".parse().unwrap()));
        assert_eq!((target.tls, target.port, rest), (false, 80, ""));
    }

    #[test]
    fn refuses_hosts_that_are_not_what_they_look_like() {
        let table = [
            ("ftp://a.example/", DeclarationProblem::Scheme),
            ("HTTPS://a.example/", DeclarationProblem::Scheme),
            ("//a.example/", DeclarationProblem::Scheme),
            ("{/scheme}://a.example/", DeclarationProblem::Scheme),
            ("https://{/host}/", DeclarationProblem::HostNotFixed),
            ("https://a.example{/x}/", DeclarationProblem::HostNotFixed),
            ("https://${HOST}/", DeclarationProblem::HostNotFixed),
            ("https://user@a.example/", DeclarationProblem::UserInfo),
            ("https://a.example@127.0.0.1/", DeclarationProblem::UserInfo),
            ("https:///orders", DeclarationProblem::Host),
            ("https://a.example:0/", DeclarationProblem::Host),
            ("https://a.example:99999/", DeclarationProblem::Host),
            ("https://a.example:+1/", DeclarationProblem::Host),
            ("https://a.example:/", DeclarationProblem::Host),
            ("https://a b/", DeclarationProblem::Host),
            ("https://a\\b/", DeclarationProblem::Host),
            ("https://a.example\r\nX: 1/", DeclarationProblem::Host),
            ("https://[::1/", DeclarationProblem::Host),
            ("https://[fe80::1%25eth0]/", DeclarationProblem::Host),
            ("https://ｅxample/", DeclarationProblem::Host),
            ("http://127.1/", DeclarationProblem::NumericHost),
            ("http://2130706433/", DeclarationProblem::NumericHost),
            ("http://0x7f000001/", DeclarationProblem::NumericHost),
            ("http://0x7F.1/", DeclarationProblem::NumericHost),
            ("http://0x7f.0x0.0x0.0x1/", DeclarationProblem::NumericHost),
            ("http://0177.0.0.1/", DeclarationProblem::NumericHost),
            ("http://017700000001/", DeclarationProblem::NumericHost),
            ("http://127.0.0.1./", DeclarationProblem::NumericHost),
        ];
        for (url, problem) in table {
            assert_eq!(Target::split(url).map(|(target, _)| target), Err(problem), "{url}");
        }
    }
}
