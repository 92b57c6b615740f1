//! Somebody who is told: a receiver of webhooks, and a mail relay, in threads of the story.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use counterfoil::http::{Secret, webhook};
use counterfoil::policy::SignatureScheme;
use serde_json::Value;

/// One message that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Message {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The name of the event.
    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.header("webhook-id").expect("a name").to_owned()
    }

    /// The occasion and the operation.
    pub(crate) fn about(&self) -> (String, String) {
        let text = |pointer: &str| self.json().pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let occasion = text("/type").unwrap_or_default().trim_start_matches("operation.").to_owned();
        (occasion, text("/data/operation_id").unwrap_or_default())
    }

    /// Fails unless the signature is good for that secret.
    #[track_caller]
    pub(crate) fn is_signed_with(&self, secret: &str) {
        let secret = Secret::new(secret.to_owned());
        let now = super::hook::now();
        let header = |name: &str| self.header(name);
        webhook::verify(SignatureScheme::Standard, &secret, header, self.body.as_bytes(), now).unwrap();
    }
}

#[derive(Default)]
struct Heard {
    messages: Vec<Message>,
    /// Statuses of the next answers; 200 after them, 0 means that none comes.
    answers: VecDeque<u16>,
}

/// A receiver of webhooks.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self { address: socket.local_addr().unwrap(), heard: Arc::default() };
        let heard = receiver.heard.clone();
        std::thread::spawn(move || {
            for stream in socket.incoming().flatten() {
                let heard = heard.clone();
                std::thread::spawn(move || answer(stream, &heard));
            }
        });
        receiver
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next answers.
    pub(crate) fn answer(&self, statuses: &[u16]) {
        self.heard.lock().unwrap().answers.extend(statuses);
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.heard.lock().unwrap().messages.clone()
    }

    /// Waits for that many messages.
    #[track_caller]
    pub(crate) fn wait(&self, count: usize) -> Vec<Message> {
        super::eventually("the notices", || Some(self.messages()).filter(|all| all.len() >= count))
    }
}

fn answer(stream: TcpStream, heard: &Mutex<Heard>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let message = Message { head, body: String::new() };
    let mut body = vec![0; message.header("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let message = Message { body: String::from_utf8_lossy(&body).into_owned(), ..message };
    let status = {
        let mut heard = heard.lock().unwrap();
        heard.messages.push(message);
        heard.answers.pop_front().unwrap_or(200)
    };
    if status == 0 {
        // The answer is lost.
        return None;
    }
    let moved = if status == 302 { "Location: http://127.0.0.1:1/\r\n" } else { "" };
    let answer = format!("HTTP/1.1 {status} X\r\n{moved}Content-Length: 0\r\nConnection: close\r\n\r\n");
    reader.get_mut().write_all(answer.as_bytes()).ok()
}

/// A mail relay that takes everything, after it refused the first `refusals` mails.
pub(crate) fn relay(refusals: usize) -> Receiver {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let receiver = Receiver { address: socket.local_addr().unwrap(), heard: Arc::default() };
    receiver.answer(&vec![451; refusals]);
    let heard = receiver.heard.clone();
    std::thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            talk(stream, &heard);
        }
    });
    receiver
}

fn talk(stream: TcpStream, heard: &Mutex<Heard>) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream).lines();
    let mut say = |text: &str| writer.write_all(format!("{text}\r\n").as_bytes()).ok();
    say("220 relay.example ready")?;
    let (mut envelope, mut body) = (String::new(), String::new());
    while let Some(Ok(line)) = lines.next() {
        envelope.push_str(&line);
        envelope.push('\n');
        match line.split([' ', ':']).next().unwrap_or_default() {
            "EHLO" => say("250-relay.example\r\n250-PIPELINING\r\n250 AUTH PLAIN")?,
            "AUTH" => say("235 welcome")?,
            "MAIL" | "RCPT" => say("250 so it is")?,
            "DATA" => {
                say("354 go on")?;
                for line in lines.by_ref() {
                    let line = line.ok()?;
                    if line == "." {
                        break;
                    }
                    body.push_str(line.strip_prefix('.').unwrap_or(&line));
                    body.push('\n');
                }
                let mut heard = heard.lock().unwrap();
                heard.messages.push(Message { head: envelope.clone(), body: std::mem::take(&mut body) });
                let code = heard.answers.pop_front().unwrap_or(250);
                say(&format!("{code} done"))?;
            }
            "QUIT" => return say("221 bye"),
            _ => say("500 what?")?,
        }
    }
    Some(())
}
