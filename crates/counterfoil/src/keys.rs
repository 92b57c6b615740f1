//! The text that goes out with a send and by which the destination knows the operation again: its idempotency
//! key or its reference. Derived from account and operation ID alone, so every process at every time after a
//! crash derives the same one, and two accounts never share one.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// How the derived text is spelled, to suit what a destination accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyFormat {
    /// 128 bits as 32 hex digits.
    #[default]
    Hex32,
    /// The same bits as a UUID, with version 4 and the variant of RFC 9562 set.
    Uuid,
    /// The same bits in 22 characters of base64url without padding.
    Base64Url22,
    /// The hex digits in double quotes, for destinations that read the header as a structured field string.
    Quoted,
    /// The operation ID itself. Not scoped to the account: only safe where one account uses the tool.
    Raw,
}

impl KeyFormat {
    /// Every format.
    pub const ALL: [KeyFormat; 5] =
        [KeyFormat::Hex32, KeyFormat::Uuid, KeyFormat::Base64Url22, KeyFormat::Quoted, KeyFormat::Raw];

    /// The word in the configuration.
    pub fn label(self) -> &'static str {
        match self {
            KeyFormat::Hex32 => "hex32",
            KeyFormat::Uuid => "uuid",
            KeyFormat::Base64Url22 => "base64url22",
            KeyFormat::Quoted => "quoted",
            KeyFormat::Raw => "raw",
        }
    }

    /// The format that a word of the configuration names.
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.label() == label)
    }
}

impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Derives the key or reference of an operation.
///
/// Generation 1 (0 counts as 1) is the one that every send uses; a later one exists only where a person
/// established that nothing happened and the earlier key may no longer be used, and then has to be another
/// text. `Raw` cannot give one, so from generation 2 on it is spelled like `Hex32`.
pub fn derive(account: &str, operation_id: &str, generation: u32, format: KeyFormat) -> String {
    let bits = || first_bits(account, operation_id, generation);
    match format {
        KeyFormat::Raw if generation <= 1 => operation_id.to_owned(),
        KeyFormat::Hex32 | KeyFormat::Raw => format!("{:032x}", bits()),
        KeyFormat::Quoted => format!("\"{:032x}\"", bits()),
        KeyFormat::Uuid => {
            uuid::Builder::from_random_bytes(bits().to_be_bytes()).into_uuid().hyphenated().to_string()
        }
        KeyFormat::Base64Url22 => base64url(bits()),
    }
}

/// The first 128 bits of SHA-256 over the parts with zero bytes between them. Neither an account nor an
/// operation ID can hold a zero byte, so no two operations give the same input.
fn first_bits(account: &str, operation_id: &str, generation: u32) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update(account);
    hasher.update([0]);
    hasher.update(operation_id);
    if generation > 1 {
        hasher.update([0]);
        hasher.update(generation.to_string());
    }
    hasher.finalize().iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte))
}

fn base64url(bits: u128) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 21 characters of six bits from the top; the last character holds two bits and four zeros.
    (0..22)
        .map(|at| {
            let six = if at < 21 { bits >> (122 - 6 * at) } else { bits << 4 };
            char::from(ALPHABET[(six & 0x3F) as usize])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_configuration_and_formats_agree() {
        for format in KeyFormat::ALL {
            assert_eq!(KeyFormat::parse(format.label()), Some(format));
            assert_eq!(serde_json::to_string(&format).unwrap(), format!("\"{format}\""));
        }
        assert_eq!(KeyFormat::parse("HEX32"), None);
    }

    #[test]
    fn raw_is_the_id_and_never_the_same_text_twice() {
        assert_eq!(derive("kitchen", "approved-action-17", 1, KeyFormat::Raw), "approved-action-17");
        let second = derive("kitchen", "approved-action-17", 2, KeyFormat::Raw);
        assert_eq!(second, derive("kitchen", "approved-action-17", 2, KeyFormat::Hex32));
        assert_ne!(second, derive("kitchen", "approved-action-17", 3, KeyFormat::Raw));
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(derive("ab", "c", 1, KeyFormat::Hex32), derive("a", "bc", 1, KeyFormat::Hex32));
    }
}
