//! As much HTTP/1.1 as the doubles need: framing, replies, and a client for one exchange.
//!
//! Written out by hand because the faults live below what an HTTP library lets one do: half a
//! body, a reset in place of a status line, a request seen before it is read.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest head of a message that is read, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest body that is read, in bytes.
pub const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The head of a request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The request line or the status line.
    pub start: String,
    /// Names as they were sent, in order. Bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of that name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// The first header of that name, whatever its case.
#[must_use]
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// A complete message, with the number of bytes that it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The head.
    pub head: Head,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Bytes of head and body together, as they came.
    pub length: usize,
}

/// How far a buffer has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The head is not complete.
    NeedHead,
    /// The head is complete, the body is not.
    NeedBody(Head),
    /// A response without a length: the body ends with the connection.
    UntilClose(Head, usize),
    /// All there.
    Complete(Message),
}

/// Whose message is read: a request without a length has no body, a response runs to the close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// From a client.
    Request,
    /// From a server.
    Response,
}

/// Looks at what has been read so far of one message.
///
/// # Errors
/// `InvalidData` for what is not HTTP/1.1 and for heads and bodies over the limits.
pub fn frame(buffer: &[u8], role: Role) -> io::Result<Frame> {
    let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else {
        if buffer.len() > HEAD_BYTES_MAX {
            return Err(invalid("the head is too long"));
        }
        return Ok(Frame::NeedHead);
    };
    let body_at = end + 4;
    let head = parse_head(buffer.get(..end).unwrap_or_default())?;
    let rest = buffer.get(body_at..).unwrap_or_default();
    if head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        return Ok(match unchunk(rest)? {
            Some((body, taken)) => Frame::Complete(Message { head, body, length: body_at + taken }),
            None => Frame::NeedBody(head),
        });
    }
    let length = match (head.header("content-length"), role) {
        (Some(text), _) => text.trim().parse::<usize>().map_err(|_| invalid("content-length"))?,
        (None, Role::Request) => 0,
        (None, Role::Response) if bodiless(&head) => 0,
        (None, Role::Response) => return Ok(Frame::UntilClose(head, body_at)),
    };
    if length > BODY_BYTES_MAX {
        return Err(invalid("the body is too long"));
    }
    Ok(match rest.get(..length) {
        Some(body) => Frame::Complete(Message { head, body: body.to_vec(), length: body_at + length }),
        None => Frame::NeedBody(head),
    })
}

fn bodiless(head: &Head) -> bool {
    matches!(status_of(head), Some(100..=199 | 204 | 304))
}

/// The status code of a response's head.
#[must_use]
pub fn status_of(head: &Head) -> Option<u16> {
    head.start.split(' ').nth(1)?.parse().ok()
}

fn parse_head(bytes: &[u8]) -> io::Result<Head> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let start =
        lines.next().filter(|line| line.contains("HTTP/1.")).ok_or_else(|| invalid("the first line"))?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header without a colon"))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(Head { start: start.to_owned(), headers })
}

/// The body of a chunked message and the bytes it took; `None` while some are missing.
fn unchunk(bytes: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(line_end) = rest.windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
        let line = String::from_utf8_lossy(rest.get(..line_end).unwrap_or_default());
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(|_| invalid("a chunk size"))?;
        if body.len().saturating_add(size) > BODY_BYTES_MAX {
            return Err(invalid("the body is too long"));
        }
        let data_at = line_end + 2;
        let Some(data) = rest.get(data_at..data_at + size) else { return Ok(None) };
        if rest.len() < data_at + size + 2 {
            return Ok(None);
        }
        body.extend_from_slice(data);
        at += data_at + size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not the HTTP expected here: {what}"))
}

/// An answer, as it is sent or as it was received.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Headers without `Content-Length`, which follows from the body.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// An answer in JSON.
    #[must_use]
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: body.to_string().into_bytes() }
    }

    /// An answer with one member `error.code`.
    #[must_use]
    pub fn error(status: u16, code: &str) -> Self {
        Self::json(status, &serde_json::json!({ "error": { "code": code } }))
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The first header of that name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The body as JSON; `null` when it is not.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The head, announcing `length` bytes of body. A 204 announces none.
    #[must_use]
    pub fn head_bytes(&self, length: usize) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !matches!(self.status, 100..=199 | 204 | 304) {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Head and body.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes(self.body.len());
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        404 => "Not Found",
        409 => "Conflict",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Answer",
    }
}

/// The bytes of one request. `Host` and, if there is a body, `Content-Length` are added.
#[must_use]
pub fn request_bytes(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Sends one request on a connection of its own and reads the answer. It never repeats anything.
///
/// # Errors
/// Whatever the connection gave; `UnexpectedEof` if it closed before the whole answer was there.
pub async fn exchange(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&request_bytes(method, target, headers, body)).await?;
    read_reply(&mut stream).await
}

/// Reads one answer from `stream`. What came behind it is lost, so only one request may be under way.
///
/// # Errors
/// As [`exchange`].
pub async fn read_reply(stream: &mut TcpStream) -> io::Result<Reply> {
    let mut buffer = Vec::new();
    loop {
        if let Frame::Complete(message) = frame(&buffer, Role::Response)? {
            return reply_of(message.head, message.body);
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return match frame(&buffer, Role::Response)? {
                Frame::UntilClose(head, at) => reply_of(head, buffer.split_off(at)),
                Frame::NeedHead | Frame::NeedBody(_) | Frame::Complete(_) => {
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed within the answer"))
                }
            };
        }
    }
}

fn reply_of(head: Head, body: Vec<u8>) -> io::Result<Reply> {
    let status = status_of(&head).ok_or_else(|| invalid("the status line"))?;
    Ok(Reply { status, headers: head.headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_complete_exactly_at_its_last_byte() {
        let bytes = request_bytes("POST", "/orders", &[("A", "b")], b"{\"n\":1}");
        for cut in 0..bytes.len() {
            assert!(
                !matches!(frame(&bytes[..cut], Role::Request).unwrap(), Frame::Complete(_)),
                "cut at {cut}"
            );
        }
        let Frame::Complete(message) = frame(&bytes, Role::Request).unwrap() else { panic!("complete") };
        assert_eq!((message.body.as_slice(), message.length), (&b"{\"n\":1}"[..], bytes.len()));
        assert_eq!(message.head.header("a"), Some("b"));
    }

    #[test]
    fn chunks_are_joined_and_their_end_is_found() {
        let bytes =
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\nNEXT";
        let Frame::Complete(message) = frame(bytes, Role::Request).unwrap() else { panic!("complete") };
        assert_eq!(message.body, b"abcde");
        assert_eq!(&bytes[message.length..], b"NEXT");
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        assert!(frame(b"hello\r\n\r\n", Role::Request).is_err());
        assert!(frame(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", Role::Request).is_err());
        assert!(frame(&vec![b'a'; HEAD_BYTES_MAX + 1], Role::Request).is_err());
    }

    #[test]
    fn an_answer_without_a_length_runs_to_the_close() {
        let seen = frame(b"HTTP/1.1 200 OK\r\n\r\nabc", Role::Response).unwrap();
        assert!(matches!(seen, Frame::UntilClose(_, 19)), "{seen:?}");
    }
}
