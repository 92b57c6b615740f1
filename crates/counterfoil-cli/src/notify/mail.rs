//! One mail through a relay: as little of SMTP as that takes. Nothing of it goes out in clear but to this machine.

use counterfoil::base64;
use counterfoil::http::Dialer;
use counterfoil::notice::Notice;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{Mail, Security, Undelivered, message, wire};

/// Bytes of one answer of a relay.
const LONGEST_ANSWER: usize = 16 * 1024;

/// Sends a notice as a mail.
pub(super) async fn send(
    dialer: &Dialer,
    mail: &Mail,
    allow_private: bool,
    notice: &Notice,
    link: &str,
) -> Result<(), Undelivered> {
    let login = match &mail.login {
        None => None,
        Some((user, password)) => {
            let (user, password) = (wire::secret(user).await?, wire::secret(password).await?);
            let plain = format!("\0{}\0{}", user.expose(), password.expose());
            Some(base64::encode(plain.as_bytes()))
        }
    };
    let text = text(mail, notice, link);
    let stream = dialer.plain(&mail.target, allow_private).await.map_err(|_| Undelivered::Connect)?;
    match mail.security {
        Security::None => {
            let mut talk = Talk::new(stream);
            talk.greeted().await?;
            talk.hello(mail).await?;
            talk.hand_over(mail, login.as_deref(), &text).await
        }
        Security::Tls => {
            let stream = dialer.tls(&mail.target, stream).await.map_err(|_| Undelivered::Connect)?;
            let mut talk = Talk::new(stream);
            talk.greeted().await?;
            talk.hello(mail).await?;
            talk.hand_over(mail, login.as_deref(), &text).await
        }
        Security::StartTls => {
            let mut talk = Talk::new(stream);
            talk.greeted().await?;
            talk.hello(mail).await?;
            talk.command("STARTTLS", 220).await?;
            // What came before the handshake could be anybody's: it must not be read as if it came after it.
            if !talk.read.is_empty() {
                return Err(Undelivered::Lost);
            }
            let stream = dialer.tls(&mail.target, talk.stream).await.map_err(|_| Undelivered::Connect)?;
            let mut talk = Talk::new(stream);
            talk.hello(mail).await?;
            talk.hand_over(mail, login.as_deref(), &text).await
        }
    }
}

/// The mail itself. Its name stays the same however often it is sent. IDs are visible ASCII, so nothing in it can end a
/// line.
fn text(mail: &Mail, notice: &Notice, link: &str) -> String {
    let date = jiff::Timestamp::from_millisecond(notice.at.as_millis())
        .map(|at| at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string())
        .unwrap_or_default();
    let domain = mail.from.rsplit('@').next().unwrap_or("localhost");
    let head = [
        format!("From: <{}>", mail.from),
        format!("To: {}", mail.to.iter().map(|to| format!("<{to}>")).collect::<Vec<_>>().join(", ")),
        format!("Subject: [counterfoil] {}", message::headline(notice)),
        format!("Date: {date}"),
        format!("Message-ID: <{}@{domain}>", notice.event),
        "Auto-Submitted: auto-generated".to_owned(),
        "MIME-Version: 1.0".to_owned(),
        "Content-Type: text/plain; charset=us-ascii".to_owned(),
        "Content-Transfer-Encoding: 7bit".to_owned(),
        String::new(),
    ];
    let lines = head.into_iter().chain([message::headline(notice), String::new()]);
    let lines = lines.chain(message::lines(notice, link));
    // A line that begins with a full stop would end the mail.
    lines
        .map(|line| if line.starts_with('.') { format!(".{line}\r\n") } else { format!("{line}\r\n") })
        .collect()
}

/// A talk with a relay.
struct Talk<S> {
    stream: S,
    /// Bytes that came and belong to no answer yet.
    read: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    fn new(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    async fn greeted(&mut self) -> Result<(), Undelivered> {
        self.answer(220).await
    }

    async fn hello(&mut self, mail: &Mail) -> Result<(), Undelivered> {
        let domain = mail.from.rsplit('@').next().unwrap_or("localhost").to_owned();
        self.command(&format!("EHLO {domain}"), 250).await
    }

    async fn hand_over(&mut self, mail: &Mail, login: Option<&str>, text: &str) -> Result<(), Undelivered> {
        if let Some(login) = login {
            self.command(&format!("AUTH PLAIN {login}"), 235).await?;
        }
        self.command(&format!("MAIL FROM:<{}>", mail.from), 250).await?;
        for to in &mail.to {
            self.command(&format!("RCPT TO:<{to}>"), 250).await?;
        }
        self.command("DATA", 354).await?;
        self.command(&format!("{text}."), 250).await?;
        // It has been taken; how the talk ends changes nothing.
        let _ = self.stream.write_all(b"QUIT\r\n").await;
        Ok(())
    }

    async fn command(&mut self, line: &str, expected: u16) -> Result<(), Undelivered> {
        let sent = self.stream.write_all(format!("{line}\r\n").as_bytes()).await;
        sent.map_err(|_| Undelivered::Lost)?;
        self.stream.flush().await.map_err(|_| Undelivered::Lost)?;
        self.answer(expected).await
    }

    /// Reads one answer, of however many lines.
    async fn answer(&mut self, expected: u16) -> Result<(), Undelivered> {
        let mut taken = 0;
        loop {
            let line = self.line(&mut taken).await?;
            let code = line.get(..3).and_then(|code| code.parse::<u16>().ok()).ok_or(Undelivered::Lost)?;
            match line.as_bytes().get(3) {
                Some(b'-') => {}
                Some(_) | None if code == expected => return Ok(()),
                // 251: it will be passed on.
                Some(_) | None if expected == 250 && code == 251 => return Ok(()),
                Some(_) | None => return Err(Undelivered::NotTaken),
            }
        }
    }

    async fn line(&mut self, taken: &mut usize) -> Result<String, Undelivered> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                *taken += line.len();
                if *taken > LONGEST_ANSWER {
                    return Err(Undelivered::Lost);
                }
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.read.len() > LONGEST_ANSWER {
                return Err(Undelivered::Lost);
            }
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes).await {
                Ok(count) if count > 0 => self.read.extend_from_slice(bytes.get(..count).unwrap_or_default()),
                Ok(_) | Err(_) => return Err(Undelivered::Lost),
            }
        }
    }
}
