//! Base64 (RFC 4648 section 4): of bodies that are no text, and of signatures.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes in base64 with padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
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

/// The bytes that this spells, with its padding or without.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let plain = text.trim_end_matches('=').as_bytes();
    // Padding fills a group of four, and one letter alone spells no byte.
    let padded = text.len() != plain.len();
    if plain.len() % 4 == 1 || text.len() - plain.len() > 2 || (padded && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(plain.len() / 4 * 3 + 2);
    for group in plain.chunks(4) {
        let mut bits = 0_u32;
        for letter in group {
            let six = ALPHABET.iter().position(|known| known == letter)?;
            bits = bits << 6 | u32::try_from(six).ok()?;
        }
        bits <<= 6 * (4 - group.len());
        let spelled = bits.to_be_bytes();
        bytes.extend_from_slice(spelled.get(1..group.len())?);
    }
    Some(bytes)
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
            assert_eq!(super::decode(text).unwrap(), plain.as_bytes());
            assert_eq!(super::decode(text.trim_end_matches('=')).unwrap(), plain.as_bytes());
        }
        assert_eq!(super::encode(&[0xFB, 0xFF, 0xBF]), "+/+/");
        assert_eq!(super::decode("+/+/").unwrap(), [0xFB, 0xFF, 0xBF]);
        for bad in ["A", "AAAAA", "Zg=", "Zg===", "====", "Z g=", "_-AA", "Zm9v\n"] {
            assert_eq!(super::decode(bad), None, "{bad:?}");
        }
    }
}
