//! A destination that speaks by itself: webhooks, signed with a secret that the server has too.

use counterfoil::Timestamp;
use counterfoil::http::{Secret, webhook};
use sha2::{Digest as _, Sha256};

use super::{Answer, Api};

/// The secret of the stories' webhooks.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The variables that tell it to a server.
pub(crate) const SECRET_VARIABLES: [(&str, &str); 1] = [("HOOK_SECRET", SECRET)];

/// One webhook in the scheme `standard`.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) id: String,
    pub(crate) body: String,
    /// Seconds away from now.
    pub(crate) age: i64,
    pub(crate) secret: String,
}

impl Hook {
    pub(crate) fn new(id: &str, body: String) -> Self {
        Self { id: id.to_owned(), body, age: 0, secret: SECRET.to_owned() }
    }

    /// Its headers. Each time it is signed anew, as a sender does that says it again.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let at = Timestamp::from_millis(now().as_millis() - self.age * 1_000);
        let secret = Secret::new(self.secret.clone());
        let signature = webhook::sign(&secret, &self.id, at, self.body.as_bytes()).unwrap();
        vec![
            ("webhook-id".to_owned(), self.id.clone()),
            ("webhook-timestamp".to_owned(), webhook::seconds(at).to_string()),
            ("webhook-signature".to_owned(), signature),
        ]
    }

    /// Says it to a server.
    pub(crate) fn try_send(&self, api: &Api, tool: &str) -> std::io::Result<Answer> {
        let path = format!("/v1/evidence/{tool}");
        api.try_call_with("POST", &path, &self.headers(), self.body.as_bytes())
    }

    #[track_caller]
    pub(crate) fn send(&self, api: &Api, tool: &str) -> Answer {
        self.try_send(api, tool).expect("an answer")
    }
}

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    use counterfoil::Clock as _;
    counterfoil::SystemClock::default().now()
}

/// The header of a webhook of Stripe, made by hand.
pub(crate) fn stripe_signature(secret: &str, body: &str) -> String {
    let at = webhook::seconds(now());
    let mut key = [0_u8; 64];
    key[..secret.len()].copy_from_slice(secret.as_bytes());
    let pad = |with: u8| key.map(|byte| byte ^ with);
    let inner = Sha256::digest([&pad(0x36)[..], format!("{at}.{body}").as_bytes()].concat());
    let outer = Sha256::digest([&pad(0x5c)[..], &inner[..]].concat());
    let hex: String = outer.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at},v1={hex}")
}
