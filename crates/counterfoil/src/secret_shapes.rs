//! What must not become an operation ID, a task or a subject: those are logged, shown in lists and derive what
//! is sent to others, so a text that looks like a secret or like personal data is refused. The shapes are
//! narrow on purpose: an ID that is refused for nothing is replaced by a fresh one, and a fresh ID is how a
//! second effect begins.

use std::fmt;

/// What a text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// An e-mail address.
    Email,
    /// A credential of an `Authorization` header.
    Bearer,
    /// A secret by which a known vendor's API knows its user.
    ApiKey,
    /// A JSON Web Token.
    Jwt,
    /// The number of a payment card.
    PaymentCard,
}

impl Shape {
    /// Words for a hint; the text itself is never repeated.
    pub fn text(self) -> &'static str {
        match self {
            Shape::Email => "an e-mail address",
            Shape::Bearer => "a bearer token",
            Shape::ApiKey => "an API key",
            Shape::Jwt => "a JSON Web Token",
            Shape::PaymentCard => "a payment card number",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Says what a text looks like, if it looks like a secret or like personal data. A card number counts only if
/// it is the whole text, everything else wherever it stands.
pub fn looks_sensitive(text: &str) -> Option<Shape> {
    if is_payment_card(text) {
        return Some(Shape::PaymentCard);
    }
    if has_authorization(text) {
        return Some(Shape::Bearer);
    }
    if words(text).any(is_jwt) {
        return Some(Shape::Jwt);
    }
    if words(text).any(is_api_key) {
        return Some(Shape::ApiKey);
    }
    has_email(text).then_some(Shape::Email)
}

/// The rest of the text from every place where a row of letters and digits begins.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.char_indices().filter_map(move |(at, character)| {
        let begins = character.is_alphanumeric() && !inside;
        inside = character.is_alphanumeric();
        begins.then(|| &text[at..])
    })
}

/// How many characters at the start of the text are of a kind.
fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|character| !of(character)).unwrap_or(text.len())
}

fn strip_prefix_ignore_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

fn is_token_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~+/=".contains(character)
}

/// `Bearer TOKEN`, `Authorization: Basic TOKEN` and the like. Words that merely follow "bearer" are no token:
/// one has a digit, or is longer than words are.
fn has_authorization(text: &str) -> bool {
    words(text).any(|word| {
        if let Some(rest) = strip_prefix_ignore_case(word, "authorization") {
            return rest.trim_start().starts_with([':', '=']);
        }
        let Some(rest) = strip_prefix_ignore_case(word, "bearer") else { return false };
        let token = rest.trim_start_matches([' ', '\t', ':', '=', '_', '+']);
        let token = &token[..run(token, is_token_char)];
        let tell = token.bytes().any(|byte| byte.is_ascii_digit());
        token.len() < rest.len() && (token.len() >= 24 || (tell && token.len() >= 6))
    })
}

/// Header and claims of a token in base64url: `{"` is always `eyJ`.
fn is_jwt(word: &str) -> bool {
    let base64url = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    if !word.starts_with("eyJ") {
        return false;
    }
    let header = run(word, base64url);
    header >= 10
        && word[header..].strip_prefix('.').is_some_and(|rest| {
            let claims = run(rest, base64url);
            claims >= 4 && (rest.starts_with("eyJ") || rest[claims..].starts_with('.'))
        })
}

/// Prefixes that vendors give their secrets so that scanners find them, and how many letters, digits, `-` and
/// `_` follow at least. `cf_` begins the tokens of this product.
const MARKED: [(&str, usize); 33] = [
    ("cf_", 40),
    ("sk_live_", 4),
    ("sk_test_", 4),
    ("rk_live_", 4),
    ("rk_test_", 4),
    ("whsec_", 8),
    ("sk-ant-", 8),
    ("sk-proj-", 16),
    ("sk-svcacct-", 16),
    ("sk-or-v1-", 16),
    ("ghp_", 8),
    ("gho_", 8),
    ("ghu_", 8),
    ("ghs_", 8),
    ("ghr_", 8),
    ("github_pat_", 8),
    ("glpat-", 8),
    ("xoxb-", 4),
    ("xoxp-", 4),
    ("xoxa-", 4),
    ("xoxr-", 4),
    ("xoxs-", 4),
    ("xapp-", 8),
    ("AIza", 30),
    ("npm_", 30),
    ("pypi-Ag", 16),
    ("hf_", 30),
    ("dop_v1_", 30),
    ("shpat_", 16),
    ("shpss_", 16),
    ("SG.", 16),
    ("sq0csp-", 16),
    ("ya29.", 16),
];

fn is_api_key(word: &str) -> bool {
    let part = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    let plain = |character: char| character.is_ascii_alphanumeric();
    if MARKED
        .iter()
        .any(|(prefix, least)| word.strip_prefix(prefix).is_some_and(|rest| run(rest, part) >= *least))
    {
        return true;
    }
    // Short prefixes need a row that no word, date or UUID gives.
    if let Some(rest) = word.strip_prefix("sk-").or_else(|| word.strip_prefix("cf_")) {
        let row = &rest[..run(rest, plain)];
        return row.len() >= 20 && row.bytes().any(|byte| byte.is_ascii_lowercase()) && has_digit(row);
    }
    let amazon = word.strip_prefix("AKIA").or_else(|| word.strip_prefix("ASIA"));
    amazon.is_some_and(|rest| run(rest, |c| c.is_ascii_uppercase() || c.is_ascii_digit()) == 16)
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// `local@domain.tld`. A version (`package@1.2.3`) or a bare host is no address.
fn has_email(text: &str) -> bool {
    text.match_indices('@').any(|(at, _)| {
        let local = text[..at].chars().next_back();
        let local = local.is_some_and(|c| c.is_alphanumeric() || "._%+-'\"".contains(c));
        let rest = &text[at + 1..];
        let domain = &rest[..run(rest, |c| c.is_alphanumeric() || "-.".contains(c))];
        let mut labels = domain.trim_end_matches(['.', '-']).rsplit('.');
        let top = labels.next().unwrap_or_default();
        let mut below = labels.peekable();
        local
            && top.chars().count() >= 2
            && (top.starts_with("xn--") || top.chars().all(char::is_alphabetic))
            && below.peek().is_some()
            && below.all(|label| !label.is_empty())
    })
}

/// 15 or 16 digits, whatever separates them, of a known issuer and with a valid check digit.
fn is_payment_card(text: &str) -> bool {
    if text.chars().any(char::is_alphabetic) {
        return false;
    }
    let digits: Vec<u32> = text.chars().filter_map(|character| character.to_digit(10)).collect();
    if !matches!(digits.len(), 15 | 16) {
        return false;
    }
    let number = |count: usize| digits.iter().take(count).fold(0, |value, digit| value * 10 + digit);
    let issuer = match digits.len() {
        15 => matches!(number(2), 34 | 37),
        _ => {
            number(1) == 4
                || matches!(number(2), 51..=55 | 62 | 65)
                || matches!(number(3), 644..=649)
                || matches!(number(4), 2200..=2204 | 2221..=2720 | 3528..=3589 | 6011)
        }
    };
    issuer && luhn(&digits)
}

fn luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => *digit,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_looks_sensitive() {
        let table = [
            (Shape::Email, "ann@example.com"),
            (Shape::Email, "order/ann.b+x@mail.example.co.uk/7"),
            (Shape::Email, "for Ann <ann@example.com>."),
            (Shape::Email, "jürgen@bücher.example"),
            (Shape::Email, "a@b.xn--p1ai"),
            (Shape::Bearer, "Bearer abc123"),
            (Shape::Bearer, "bearer:0a1b2c3d4e5f"),
            (Shape::Bearer, "retry with BEARER abcdefghijklmnopqrstuvwx"),
            (Shape::Bearer, "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"),
            (Shape::Bearer, "Authorization: Basic dXNlcjpwYXNz"),
            (Shape::Jwt, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"),
            (Shape::Jwt, "run/eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."),
            (Shape::ApiKey, "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
            (Shape::ApiKey, "order-sk_test_4eC39HqL"),
            (Shape::ApiKey, "rk_live_4eC39HqL"),
            (Shape::ApiKey, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            (Shape::ApiKey, "sk-abcdefghijklmnopqrst1234567890ABCDEFGHIJKLMNOPQR"),
            (Shape::ApiKey, "sk-proj-abcdefghijklmnop1234"),
            (Shape::ApiKey, "sk-ant-api03-abcdefgh"),
            (Shape::ApiKey, "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
            (Shape::ApiKey, "github_pat_11ABCDEFG0abcdefghijkl"),
            (Shape::ApiKey, "glpat-abcdefghij0123456789"),
            (Shape::ApiKey, "xoxb-123456789012-abcdef"),
            (Shape::ApiKey, "AKIAIOSFODNN7EXAMPLE"),
            (Shape::ApiKey, "key=ASIAIOSFODNN7EXAMPLE;"),
            (Shape::ApiKey, "AIzaSyA1234567890abcdefghijklmnopqrstuv"),
            (Shape::ApiKey, "cf_0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
            (Shape::ApiKey, "cf_Zk3-9wQ_tR7mXv-LpB2sYhN5cJfDgKa8Wq0E1uTiO4M"),
            (Shape::ApiKey, "cf_-_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            (Shape::PaymentCard, "4111111111111111"),
            (Shape::PaymentCard, "4242 4242 4242 4242"),
            (Shape::PaymentCard, "4242-4242-4242-4242"),
            (Shape::PaymentCard, "4242.4242/4242_4242"),
            (Shape::PaymentCard, "5555555555554444"),
            (Shape::PaymentCard, "2223003122003222"),
            (Shape::PaymentCard, "378282246310005"),
            (Shape::PaymentCard, "3714-496353-98431"),
            (Shape::PaymentCard, "6011111111111117"),
            (Shape::PaymentCard, "6445644564456445"),
            (Shape::PaymentCard, "6500000000000002"),
            (Shape::PaymentCard, "3566002020360505"),
            (Shape::PaymentCard, "6200000000000005"),
        ];
        for (shape, text) in table {
            assert_eq!(looks_sensitive(text), Some(shape), "{text}");
        }
    }

    #[test]
    fn lets_ordinary_identifiers_pass() {
        let texts = [
            "",
            "approved-action-17",
            "kitchen-7/order/week-32",
            "0198f2c1-7d3a-7c11-9a52-3f1f6c0e55aa",
            "0198F2C1-7D3A-7C11-9A52-3F1F6C0E55AA",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "sk-0198f2c1-7d3a-7c11-9a52-3f1f6c0e55aa",
            "sk-01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "34709695c54c93bf67da7aa0502747ef",
            "NHCWlcVMk79n2nqgUCdH7w",
            "order@v2",
            "package@1.2.3",
            "@example.com",
            "a@b",
            "a@b..com",
            "kitchen-7@2026-08-01T10:00:00.000Z",
            "task-abcdefghijklmnopqrstuvwx1234567890",
            "desk_live_4eC39HqL",
            "bearer bonds for week 32",
            "the forbearer1234567",
            "bearer-7",
            "authorization-request-17",
            "cf_order_17",
            "cf_2026_08_01_kitchen_7",
            "AKIA-17",
            "NAKIAIOSFODNN7EXAMPLE",
            "eyJ.week.32",
            "keyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
            // No issuer begins so, although the check digit is right.
            "1234567890123452",
            "9999999999999995",
            // An issuer begins so, but the check digit is wrong.
            "4111111111111112",
            // A card number in a longer text is a part of an ordinary long number too often.
            "order-4111111111111111",
            "41111111111111111",
            "411111111111111",
            "202608010000000018",
            "2026-08-01 10:00:00.123",
        ];
        for text in texts {
            assert_eq!(looks_sensitive(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_text_is_only_text() {
        for text in ["é", "bearér 1", "ey", "eyJ", "@", "a@", "@.", "sk-", "Bearer", "bearer ", "🂡🂡", "٤١١١"]
        {
            assert_eq!(looks_sensitive(text), None, "{text}");
        }
    }
}
