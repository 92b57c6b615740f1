//! The smallest HTTP/1.1 on both sides, so that what is measured is the server between them: connections stay open,
//! bodies have a length, one request at a time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A message as it came.
struct Message {
    start: String,
    body: Vec<u8>,
}

/// One end of a connection.
struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(8_192) })
    }

    /// The next message; `None` where the other end closed between two.
    async fn read(&mut self) -> Result<Option<Message>> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                ensure!(self.buffer.is_empty(), "closed inside a message");
                return Ok(None);
            }
        };
        let head = std::str::from_utf8(&self.buffer[..head_end])?;
        let (start, fields) = head.split_once("\r\n").context("a message without a first line")?;
        let start = start.to_owned();
        let length = fields.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let end = head_end + length.transpose()?.unwrap_or(0);
        while self.buffer.len() < end {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "closed inside a body");
        }
        let body = self.buffer[head_end..end].to_vec();
        self.buffer.drain(..end);
        Ok(Some(Message { start, body }))
    }
}

/// A client's connection.
pub(super) struct Client(Wire);

impl Client {
    /// Connects.
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self(Wire::new(TcpStream::connect(address).await?)?))
    }

    /// Sends a whole request and gives the status and body of the answer.
    pub(super) async fn call(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>)> {
        self.0.stream.write_all(request).await?;
        let answer = self.0.read().await?.context("the server closed the connection")?;
        let status = answer.start.split(' ').nth(1).context("an answer without a status")?;
        Ok((status.parse()?, answer.body))
    }
}

/// A request with a body.
pub(super) fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A destination that takes every order at once and counts them.
pub(super) struct Destination {
    /// Where it listens.
    pub(super) address: SocketAddr,
    effects: Arc<AtomicU64>,
}

impl Destination {
    /// Listens on a free port, until the runtime ends.
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let effects = Arc::new(AtomicU64::new(0));
        let counter = effects.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counter = counter.clone();
                // A connection that breaks shows as an attempt that did not succeed.
                tokio::spawn(async move { serve(stream, &counter).await });
            }
        });
        Ok(Self { address, effects })
    }

    /// Orders so far.
    pub(super) fn effects(&self) -> u64 {
        self.effects.load(Ordering::Relaxed)
    }
}

async fn serve(stream: TcpStream, effects: &AtomicU64) -> Result<()> {
    let mut wire = Wire::new(stream)?;
    while let Some(request) = wire.read().await? {
        if !request.start.starts_with("POST ") || request.body.is_empty() {
            bail!("not an order");
        }
        let number = effects.fetch_add(1, Ordering::Relaxed);
        let body = format!(r#"{{"id":"order-{number:08}","status":"accepted"}}"#);
        let answer = format!(
            "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        wire.stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}
