//! The text of a token: made here, shown once, and known to the ledger by its digest alone.

use sha2::{Digest as _, Sha256};

/// How every token begins, so that scanners find one that leaked.
pub const PREFIX: &str = "cf_";

/// Random bytes of a token.
const BYTES: usize = 32;

/// A new token: its text, to be shown once, and the digest to keep.
///
/// # Errors
/// The system has no randomness to give.
pub fn mint() -> Result<(String, [u8; 32]), getrandom::Error> {
    let text = format!("{PREFIX}{}", random_hex::<BYTES>()?);
    let digest = digest(&text);
    Ok((text, digest))
}

/// What is kept of a token: SHA-256 of its whole text.
#[must_use]
pub fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// As many random bytes, as hex digits.
///
/// # Errors
/// The system has no randomness to give.
pub fn random_hex<const N: usize>() -> Result<String, getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(nibbles.map(|nibble| char::from_digit(u32::from(nibble), 16).unwrap_or('0')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_carry_256_random_bits_and_their_prefix() {
        let (one, two) = (mint().unwrap(), mint().unwrap());
        assert_ne!(one.0, two.0);
        assert!(one.0.starts_with(PREFIX) && one.0.len() == PREFIX.len() + 64);
        assert_eq!(digest(&one.0), one.1);
    }
}
