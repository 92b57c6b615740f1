//! Notices to people: what is held, settled, suspected or waits for an approval.
//!
//! A notice lies in the ledger from the commit of its change on. One process at a time speaks to a listener, under a
//! lease; a notice is said until the listener has it, under one name, or given up after a day. Nothing here stands
//! between a caller and a commit: a listener that does not answer only makes its own notices late.

mod mail;
mod message;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use counterfoil::Account;
use counterfoil::StoreError;
use counterfoil::http::Dialer;
use counterfoil::http::target::Target;
use counterfoil::http::webhook::SHORTEST_KEY;
use counterfoil::ledger::Ledger;
use counterfoil::notice::{Later, Notice, after_failure};
use counterfoil::store::sqlite::{Delivery, Waiting};
use tokio_util::sync::CancellationToken;

use crate::api::App;
use crate::api::metrics::NoticeFate;

/// How long one delivery may take.
const DELIVERED_WITHIN: Duration = Duration::from_secs(10);

/// How long connecting may take.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// How long a notice is one process's to deliver: longer than a delivery, so that a slow one is not made twice.
const LEASE: Duration = Duration::from_secs(15);

/// How often the ledger is asked for notices.
const POLL: Duration = Duration::from_millis(500);

/// Somebody who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Who it is to the ledger.
    pub name: String,
    /// How.
    pub kind: Kind,
    /// Of whose operations; `None` means all.
    pub accounts: Option<Vec<Account>>,
    /// What links begin with.
    pub console: Option<String>,
    /// Whether the host may be a private or link-local address.
    pub allow_private: bool,
}

/// How somebody is told. URLs, secrets and passwords are templates, looked up for each notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed webhook.
    Webhook {
        /// Where.
        url: String,
        /// The signing secret.
        secret: String,
    },
    /// An incoming webhook of Slack.
    Slack {
        /// Where.
        url: String,
    },
    /// A mail.
    Email(Box<Mail>),
}

impl Kind {
    fn label(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::Email(_) => "email",
        }
    }
}

/// Where mails go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The recipients.
    pub to: Vec<String>,
    /// The sender's address.
    pub from: String,
    /// The relay.
    pub target: Target,
    /// How the connection is secured.
    pub security: Security,
    /// User name and password.
    pub login: Option<(String, String)>,
}

/// How a connection to a mail relay is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte on.
    Tls,
    /// TLS after STARTTLS; nothing is said without it.
    StartTls,
    /// None: a relay on this machine.
    None,
}

/// Why a notice did not arrive. Neither addresses nor secrets are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Undelivered {
    #[error("a variable or file of its secret or address is missing, or cannot be read")]
    Secret,
    #[error(
        "the signing secret is no base64 of at least {SHORTEST_KEY} bytes: `openssl rand -base64 32` makes one"
    )]
    Key,
    #[error("there is no connection to the host")]
    Connect,
    #[error("the host did not answer in time")]
    Timeout,
    #[error("the connection ended before an answer")]
    Lost,
    #[error("the host did not take it")]
    NotTaken,
    /// This notice will never be taken.
    #[error("the host refuses this notice as such")]
    Refused,
}

/// Tells listeners until `stop`. A failure of the ledger's disk ends it too.
pub async fn run(listeners: Vec<Listener>, ledger: Ledger, app: App, stop: CancellationToken) {
    if listeners.is_empty() {
        return;
    }
    let dialer = match Dialer::new(CONNECTED_WITHIN) {
        Ok(dialer) => Arc::new(dialer),
        Err(error) => {
            tracing::error!(%error, "TLS cannot be set up: nobody is told of anything");
            return;
        }
    };
    let mut told = tokio::task::JoinSet::new();
    for listener in listeners {
        let teller = Teller { listener, ledger: ledger.clone(), app: app.clone(), dialer: dialer.clone() };
        told.spawn(teller.tell(stop.clone()));
    }
    while told.join_next().await.is_some() {}
}

struct Teller {
    listener: Listener,
    ledger: Ledger,
    app: App,
    dialer: Arc<Dialer>,
}

impl Teller {
    async fn tell(self, stop: CancellationToken) {
        let mut known = false;
        while !stop.is_cancelled() {
            let went = async {
                if !known {
                    self.ledger.store().listen(&self.listener.name).await?;
                    known = true;
                }
                self.say_next().await
            };
            let pause = match went.await {
                Ok(true) => continue,
                Ok(false) => POLL,
                Err(StoreError::Poisoned(_) | StoreError::Corrupt(_)) => return,
                Err(error) => {
                    tracing::warn!(code = error.code(), "a notice could not be read or recorded");
                    2 * POLL
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Says the next notice, if one is due. A crash after it was said and before that is recorded means that it is said
    /// again, under the same name.
    async fn say_next(&self) -> Result<bool, StoreError> {
        let (store, name) = (self.ledger.store(), &self.listener.name);
        // A look costs no commit.
        let waiting = store.waiting_notice(name).await?;
        if waiting.is_none_or(|waiting| waiting.not_before > store.now()) {
            return Ok(false);
        }
        let Some(Waiting { notice, tries, .. }) = store.take_notice(name, LEASE).await? else {
            return Ok(false);
        };
        let theirs = self.listener.accounts.as_ref().is_none_or(|own| own.contains(&notice.account));
        let delivery = if theirs { self.deliver(&notice, tries).await } else { Delivery::Done };
        store.notice_delivered(name, notice, delivery).await?;
        Ok(true)
    }

    async fn deliver(&self, notice: &Notice, tries: u32) -> Delivery {
        let said = tokio::time::timeout(DELIVERED_WITHIN, self.say(notice)).await;
        let kind = self.listener.kind.label();
        let (delivery, fate) = match said.unwrap_or(Err(Undelivered::Timeout)) {
            Ok(()) => (Delivery::Done, NoticeFate::Delivered),
            Err(Undelivered::Refused) => {
                (Delivery::GivenUp("the host refuses this notice as such"), NoticeFate::GivenUp)
            }
            Err(error) => {
                let (now, random) = (self.ledger.store().now(), self.ledger.random());
                tracing::warn!(kind, event = notice.event, %error, "a notice did not arrive");
                match after_failure(notice.at, now, tries.saturating_add(1), random) {
                    Later::Again(at) => (Delivery::Failed(at), NoticeFate::Failed),
                    Later::Never => (Delivery::GivenUp("it did not arrive in time"), NoticeFate::GivenUp),
                }
            }
        };
        if fate == NoticeFate::GivenUp {
            tracing::error!(kind, event = notice.event, "a notice was given up");
        }
        self.app.metrics().notice(kind, fate);
        delivery
    }

    async fn say(&self, notice: &Notice) -> Result<(), Undelivered> {
        let (listener, dialer) = (&self.listener, &self.dialer);
        let link = message::link(listener.console.as_deref(), notice);
        match &listener.kind {
            Kind::Webhook { url, secret } => {
                let (url, secret) = (wire::secret(url).await?, wire::secret(secret).await?);
                let body = message::webhook(notice, &link);
                let now = self.ledger.store().now();
                let headers = message::signed(notice, &secret, now, &body).ok_or(Undelivered::Key)?;
                wire::post(dialer, url.expose(), listener.allow_private, &headers, body).await
            }
            Kind::Slack { url } => {
                let url = wire::secret(url).await?;
                let body = message::slack(notice, &link);
                wire::post(dialer, url.expose(), listener.allow_private, &[], body).await
            }
            Kind::Email(mail) => mail::send(dialer, mail, listener.allow_private, notice, &link).await,
        }
    }
}
