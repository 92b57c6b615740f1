//! Base64 (RFC 4648 section 4) of bodies that are no text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes in base64 with padding.
#[must_use]
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let six = ALPHABET[(bits >> (18 - 6 * at) & 0x3F) as usize];
            text.push(if at <= group.len() { char::from(six) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    /// The vectors of RFC 4648 section 10, and the last two letters of the alphabet.
    #[test]
    fn spells_the_vectors_of_the_rfc() {
        let table = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, text) in table {
            assert_eq!(super::encode(plain.as_bytes()), text);
        }
        assert_eq!(super::encode(&[0xFB, 0xFF, 0xBF]), "+/+/");
    }
}
