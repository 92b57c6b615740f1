//! A caller: one request on a connection of its own, never repeated.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than any wait that is asked for.
const CALL_LIMIT: Duration = Duration::from_secs(90);

/// An answer of the server.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body, `null` if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A member of the body.
    pub(crate) fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    /// A member that is text; empty if it is not.
    pub(crate) fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn state(&self) -> String {
        self.text("/state")
    }

    pub(crate) fn next(&self) -> String {
        self.text("/next/action")
    }

    pub(crate) fn reference(&self) -> String {
        self.text("/receipt/reference")
    }

    /// The outcomes of the attempts, in order; `-` for one that runs.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let attempts = self.at("/attempts");
        let attempts = attempts.as_array().cloned().unwrap_or_default();
        attempts.iter().map(|attempt| attempt["outcome"].as_str().unwrap_or("-").to_owned()).collect()
    }

    /// The slug of a problem; empty where the answer is none.
    pub(crate) fn problem(&self) -> String {
        self.text("/type").strip_prefix("urn:counterfoil:problem:").unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Fails unless the status is that; shows the body.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(self.body.get(..self.body.len().min(2_000)).unwrap_or_default());
        assert_eq!(self.status, status, "{body}");
        self
    }

    /// Fails unless it is that problem.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, slug: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.problem(), slug, "{}", answer.json());
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        for member in ["title", "detail", "hint", "sent", "doc"] {
            assert!(answer.at(&format!("/{member}")).is_string(), "{member}: {}", answer.json());
        }
        answer
    }
}

/// A caller with a token.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl Api {
    /// The same caller, at another server.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        Self { address, token: self.token.clone() }
    }

    /// The bytes of a request.
    pub(crate) fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n",
            self.address, self.token
        )
        .into_bytes();
        if !body.is_empty() {
            let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
            bytes.extend_from_slice(head.as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        bytes
    }

    /// Sends a request and leaves the connection to the caller, to be read or dropped.
    pub(crate) fn send(&self, method: &str, path: &str, body: &[u8]) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CALL_LIMIT))?;
        stream.write_all(&self.request(method, path, body))?;
        Ok(stream)
    }

    /// One call; an error if no whole answer came.
    pub(crate) fn try_call(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let mut stream = self.send(method, path, body)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        parse(&bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// One call with these headers and no token.
    pub(crate) fn try_call_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(CALL_LIMIT))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        parse(&bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    #[track_caller]
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.try_call(method, path, &body).expect("an answer")
    }

    /// `PUT /v1/operations/ID` with a body as it is written here.
    #[track_caller]
    pub(crate) fn put_text(&self, id: &str, body: &str) -> Answer {
        self.try_call("PUT", &format!("/v1/operations/{id}"), body.as_bytes()).expect("an answer")
    }

    #[track_caller]
    pub(crate) fn put(&self, id: &str, body: &Value) -> Answer {
        self.put_text(id, &body.to_string())
    }

    pub(crate) fn try_put(&self, id: &str, body: &Value) -> io::Result<Answer> {
        self.try_call("PUT", &format!("/v1/operations/{id}"), body.to_string().as_bytes())
    }

    #[track_caller]
    pub(crate) fn execute(&self, id: &str, wait_ms: u64) -> Answer {
        self.call("POST", &format!("/v1/operations/{id}/execute"), &json!({ "wait_ms": wait_ms }))
    }

    #[track_caller]
    pub(crate) fn get(&self, id: &str) -> Answer {
        self.call("GET", &format!("/v1/operations/{id}"), &Value::Null)
    }

    /// A decision: `approve`, `deny`, `withdraw`.
    #[track_caller]
    pub(crate) fn decide(&self, id: &str, decision: &str, body: &Value) -> Answer {
        self.call("POST", &format!("/v1/operations/{id}/{decision}"), body)
    }

    /// Approves what is stored.
    #[track_caller]
    pub(crate) fn approve(&self, id: &str) -> Answer {
        let fingerprint = self.get(id).text("/fingerprint");
        self.decide(id, "approve", &json!({ "fingerprint": fingerprint }))
    }

    /// The operation, as soon as `enough` of it.
    #[track_caller]
    pub(crate) fn until(&self, id: &str, what: &str, enough: impl Fn(&Answer) -> bool) -> Answer {
        let mut last = None;
        let found = super::eventually_or(|| {
            let answer = self.try_call("GET", &format!("/v1/operations/{id}"), b"").ok()?;
            if enough(&answer) {
                return Some(answer);
            }
            last = Some(answer);
            None
        });
        found.unwrap_or_else(|| panic!("{id} is never {what}: {:?}", last.map(|answer| answer.json())))
    }

    /// The operation, as soon as it is in one of these states.
    #[track_caller]
    pub(crate) fn until_state(&self, id: &str, states: &[&str]) -> Answer {
        self.until(id, &states.join(" or "), |answer| states.contains(&answer.state().as_str()))
    }

    /// The operation, as soon as nothing moves it any more but a person: final, or held.
    #[track_caller]
    pub(crate) fn until_quiet(&self, id: &str) -> Answer {
        self.until(id, "final or held", |answer| {
            matches!(answer.state().as_str(), "succeeded" | "rejected") || answer.at("/held") == true
        })
    }

    /// How many operations the account has, as the list counts them.
    #[track_caller]
    pub(crate) fn listed(&self) -> usize {
        let list = self.call("GET", "/v1/operations?limit=200", &Value::Null).expect(200);
        list.at("/items").as_array().unwrap().len()
    }
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer { status, headers, body: bytes[end + 4..].to_vec() };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunk(&answer.body)?;
    } else if let Some(length) = answer.header("content-length")
        && length.parse() != Ok(answer.body.len())
    {
        return None;
    }
    Some(answer)
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(line + 2..line + 2 + size)?);
        bytes = bytes.get(line + 4 + size..)?;
    }
}
