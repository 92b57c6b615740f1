//! Signatures of webhooks, in both directions: Standard Webhooks and Stripe. Pure; the raw bytes of the body are what
//! is signed, and nothing of a body is read before its signature is good.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::secrets::Secret;
use crate::policy::SignatureScheme;
use crate::time::Timestamp;

/// How far the signed instant may lie from ours, before or after it.
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// Signatures of one webhook that are looked at: a sender that changes its secret signs with both.
pub const MOST_SIGNATURES: usize = 16;

/// Bytes of an event's name.
pub const LONGEST_ID: usize = 255;

/// The headers of Standard Webhooks: name of the event, instant, signatures.
pub const STANDARD_HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// The header of Stripe.
pub const STRIPE_HEADER: &str = "stripe-signature";

/// The fewest bytes of a Standard Webhooks key.
pub const SHORTEST_KEY: usize = 16;

/// Why a webhook is not believed. Neither secret nor signature is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SignatureError {
    /// The headers of the scheme are missing, stand there twice, or cannot be read.
    #[error("the headers of the signature are missing or cannot be read")]
    Unreadable,
    /// The signed instant is too far away from ours: an old webhook sent again, or a clock that is wrong.
    #[error("the signed time is more than five minutes away from this server's")]
    Stale,
    /// No signature is one that the secret makes of these bytes.
    #[error("no signature fits these bytes")]
    Wrong,
    /// The secret is none of this scheme.
    #[error("the secret is none of this scheme")]
    Secret,
}

/// Checks a webhook over its raw bytes. `header` gives the value of a header that stands there once. Gives the name of
/// the event, where the scheme signs one.
///
/// # Errors
/// As [`SignatureError`] lists; nothing of the body may be believed then.
pub fn verify<'h>(
    scheme: SignatureScheme,
    secret: &Secret,
    header: impl Fn(&str) -> Option<&'h str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Option<&'h str>, SignatureError> {
    match scheme {
        SignatureScheme::Standard => {
            let [id, at, signatures] = STANDARD_HEADERS.map(&header);
            let (Some(id), Some(at), Some(signatures)) = (id, at, signatures) else {
                return Err(SignatureError::Unreadable);
            };
            if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(SignatureError::Unreadable);
            }
            check_time(at, now)?;
            let signatures = signatures
                .split(' ')
                .filter_map(|signature| crate::base64::decode(signature.strip_prefix("v1,")?));
            let mac = mac(&standard_key(secret)?, &[id.as_bytes(), at.as_bytes(), body])?;
            check_any(&mac, signatures).map(|()| Some(id))
        }
        SignatureScheme::Stripe => {
            let value = header(STRIPE_HEADER).ok_or(SignatureError::Unreadable)?;
            let parts = || value.split(',').filter_map(|part| part.trim().split_once('='));
            let mut times = parts().filter(|(name, _)| *name == "t").map(|(_, at)| at);
            let (Some(at), None) = (times.next(), times.next()) else {
                return Err(SignatureError::Unreadable);
            };
            check_time(at, now)?;
            let signatures =
                parts().filter(|(name, _)| *name == "v1").filter_map(|(_, text)| crate::hex::decode(text));
            let mac = mac(secret.expose().as_bytes(), &[at.as_bytes(), body])?;
            check_any(&mac, signatures.map(|digest: [u8; 32]| digest.to_vec())).map(|()| None)
        }
    }
}

/// The value of `webhook-signature` of a webhook that we send.
///
/// # Errors
/// [`SignatureError::Secret`].
pub fn sign(secret: &Secret, id: &str, at: Timestamp, body: &[u8]) -> Result<String, SignatureError> {
    let seconds = seconds(at).to_string();
    let mac = mac(&standard_key(secret)?, &[id.as_bytes(), seconds.as_bytes(), body])?;
    Ok(format!("v1,{}", crate::base64::encode(&mac.finalize().into_bytes())))
}

/// Seconds since 1970, as both schemes write an instant.
#[must_use]
pub fn seconds(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(1_000)
}

/// `whsec_` and the key in base64.
fn standard_key(secret: &Secret) -> Result<Vec<u8>, SignatureError> {
    let text = secret.expose();
    let key = crate::base64::decode(text.strip_prefix("whsec_").unwrap_or(text));
    key.filter(|key| key.len() >= SHORTEST_KEY).ok_or(SignatureError::Secret)
}

/// Whether a secret can sign notices: base64 of enough bytes, with or without `whsec_` before it.
#[must_use]
pub fn can_sign(secret: &Secret) -> bool {
    standard_key(secret).is_ok()
}

/// What is signed: the parts with a full stop between them.
fn mac(key: &[u8], parts: &[&[u8]]) -> Result<Hmac<Sha256>, SignatureError> {
    if key.is_empty() {
        return Err(SignatureError::Secret);
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| SignatureError::Secret)?;
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            mac.update(b".");
        }
        mac.update(part);
    }
    Ok(mac)
}

/// Compares in constant time, each with the whole.
fn check_any(mac: &Hmac<Sha256>, signatures: impl Iterator<Item = Vec<u8>>) -> Result<(), SignatureError> {
    let fits = signatures.take(MOST_SIGNATURES).filter(|one| mac.clone().verify_slice(one).is_ok()).count();
    if fits > 0 { Ok(()) } else { Err(SignatureError::Wrong) }
}

fn check_time(text: &str, now: Timestamp) -> Result<(), SignatureError> {
    let digits = !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    let at: i64 = text.parse().ok().filter(|_| digits).ok_or(SignatureError::Unreadable)?;
    let apart = seconds(now).abs_diff(at);
    if apart > TOLERANCE.as_secs() { Err(SignatureError::Stale) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i64 = 1_614_265_330;
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    fn secret() -> Secret {
        Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned())
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(AT * 1_000)
    }

    fn standard(
        id: &str,
        at: &str,
        signatures: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), SignatureError> {
        let table = [("webhook-id", id), ("webhook-timestamp", at), ("webhook-signature", signatures)];
        let header = |name: &str| table.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        let verified = verify(SignatureScheme::Standard, &secret(), header, body, now)?;
        assert_eq!(verified, Some(id));
        Ok(())
    }

    /// The published example of the Standard Webhooks specification.
    #[test]
    fn the_published_example_is_good() {
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(sign(&secret(), ID, now(), BODY).unwrap(), signature);
        let at = AT.to_string();
        assert_eq!(standard(ID, &at, signature, BODY, now()), Ok(()));
        let several = format!("v1a,AAAA v1,AAAA {signature} v1,BBBB");
        assert_eq!(standard(ID, &at, &several, BODY, now()), Ok(()));
    }

    #[test]
    fn whatever_differs_is_refused() {
        let at = AT.to_string();
        let signature = sign(&secret(), ID, now(), BODY).unwrap();
        let other = br#"{"test": 2432232315}"#;
        assert_eq!(standard(ID, &at, &signature, other, now()), Err(SignatureError::Wrong));
        assert_eq!(standard("msg_2", &at, &signature, BODY, now()), Err(SignatureError::Wrong));
        let later = (AT + 1).to_string();
        assert_eq!(standard(ID, &later, &signature, BODY, now()), Err(SignatureError::Wrong));
        for signatures in ["", "v1,", "v1", "v2,AAAA", &signature[3..], &signature.replace(',', "=")] {
            assert_eq!(
                standard(ID, &at, signatures, BODY, now()),
                Err(SignatureError::Wrong),
                "{signatures}"
            );
        }
        for (id, at) in
            [("", at.as_str()), ("a b", &at), (ID, ""), (ID, "-5"), (ID, "+1614265330"), (ID, "1e9")]
        {
            assert_eq!(
                standard(id, at, &signature, BODY, now()),
                Err(SignatureError::Unreadable),
                "{id} {at}"
            );
        }
        let many = format!("{}{signature}", "v1,AAAA ".repeat(MOST_SIGNATURES));
        assert_eq!(standard(ID, &at, &many, BODY, now()), Err(SignatureError::Wrong));
    }

    #[test]
    fn a_signed_time_counts_for_five_minutes_either_way() {
        let signature = sign(&secret(), ID, now(), BODY).unwrap();
        let seen = |after: i64| {
            standard(ID, &AT.to_string(), &signature, BODY, Timestamp::from_millis((AT + after) * 1_000))
        };
        assert_eq!((seen(300), seen(-300)), (Ok(()), Ok(())));
        assert_eq!((seen(301), seen(-301)), (Err(SignatureError::Stale), Err(SignatureError::Stale)));
    }

    #[test]
    fn stripe_signs_time_and_body() {
        let secret = Secret::new("whsec_test_secret".to_owned());
        let mac = mac(secret.expose().as_bytes(), &[AT.to_string().as_bytes(), BODY]).unwrap();
        let good = crate::hex::encode(&mac.finalize().into_bytes());
        let check = |value: &str, body: &[u8]| {
            let header = |name: &str| (name == STRIPE_HEADER).then_some(value);
            verify(SignatureScheme::Stripe, &secret, header, body, now()).map(|id| id.map(str::to_owned))
        };
        let old = "0".repeat(64);
        assert_eq!(check(&format!("t={AT},v1={old},v1={good},v0={old}"), BODY), Ok(None));
        assert_eq!(check(&format!("t={AT}, v1={good}"), BODY), Ok(None));
        assert_eq!(check(&format!("t={AT},v1={good}"), b"{}"), Err(SignatureError::Wrong));
        assert_eq!(check(&format!("t={AT},v0={good}"), BODY), Err(SignatureError::Wrong));
        let later = AT + 1;
        assert_eq!(check(&format!("t={later},v1={good}"), BODY), Err(SignatureError::Wrong));
        assert_eq!(check(&format!("t={},v1={good}", AT - 301), BODY), Err(SignatureError::Stale));
        for unreadable in ["", "v1=00", "t=1,t=2,v1=00", "t=,v1=00", "t"] {
            assert_eq!(check(unreadable, BODY), Err(SignatureError::Unreadable), "{unreadable}");
        }
    }

    #[test]
    fn a_secret_that_is_none_signs_nothing() {
        for text in ["whsec_", "whsec_AAAA", "not base64!", "whsec_!"] {
            let secret = Secret::new(text.to_owned());
            assert_eq!(sign(&secret, ID, now(), BODY), Err(SignatureError::Secret), "{text}");
        }
    }
}
