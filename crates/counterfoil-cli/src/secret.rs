//! The text of a token: made here, shown once, and known to the ledger by its digest alone.

use sha2::{Digest as _, Sha256};

/// How every token begins, so that scanners find one that leaked.
pub const PREFIX: &str = "cf_";

/// Random bytes of a token.
const BYTES: usize = 32;

/// Characters that spell them.
const SPELLED: usize = (BYTES * 8).div_ceil(6);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A new token: its text, to be shown once, and the digest to keep.
///
/// # Errors
/// The system has no randomness to give.
pub fn mint() -> Result<(String, [u8; 32]), getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    let text = format!("{PREFIX}{}", base64url(&bytes));
    let digest = digest(&text);
    Ok((text, digest))
}

/// Whether a text could be a token at all.
#[must_use]
pub fn well_formed(token: &str) -> bool {
    let spelled = |rest: &str| rest.len() == SPELLED && rest.bytes().all(|byte| ALPHABET.contains(&byte));
    token.strip_prefix(PREFIX).is_some_and(spelled)
}

/// What is kept of a token: SHA-256 of its whole text.
#[must_use]
pub fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A new ID for a token; it is no secret.
///
/// # Errors
/// The system has no randomness to give.
pub fn new_id() -> Result<String, getrandom::Error> {
    Ok(format!("tok_{:016x}", getrandom::u64()?))
}

/// Base64 with the alphabet for URLs, without padding.
fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity((bytes.len() * 8).div_ceil(6));
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let digit = bits >> (18 - 6 * place) & 63;
            text.push(char::from(ALPHABET[digit as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_carry_256_random_bits_and_their_prefix() {
        let (one, two) = (mint().unwrap(), mint().unwrap());
        assert_ne!(one.0, two.0);
        assert!(well_formed(&one.0) && one.0.starts_with("cf_") && one.0.len() == 46);
        assert_eq!(digest(&one.0), one.1);
        for bad in
            ["", "cf_", &one.0[..45], &format!("{}A", one.0), &one.0.replace("cf_", "fc_"), &" ".repeat(46)]
        {
            assert!(!well_formed(bad), "{bad}");
        }
    }

    #[test]
    fn the_spelling_is_that_of_rfc_4648() {
        for (bytes, text) in
            [(&b"f"[..], "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (b"foob", "Zm9vYg"), (b"\xfb\xff", "-_8")]
        {
            assert_eq!(base64url(bytes), text);
        }
    }
}
