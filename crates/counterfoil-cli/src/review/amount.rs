//! Amounts of money, exactly as stored but easier to read.

use counterfoil::json::{Content, Node};

/// The most digits that are written out; a longer number is no amount.
const DIGITS: usize = 30;

/// The amount with its currency, digits in groups of three, or why it is none.
pub(super) fn formatted(node: &Node<'_>, currency: &str, minor: bool) -> String {
    let text = match node.content() {
        Content::Number(_) => node.raw(),
        Content::String(text) => text,
        Content::Null | Content::Bool(_) | Content::Array(_) | Content::Object(_) => return NONE.to_owned(),
    };
    let Some(places) = places(currency) else { return "not an amount: the currency is no code".to_owned() };
    let shift = if minor { places } else { 0 };
    match decimal(text, shift) {
        Some((sign, whole, part)) => {
            let mut part = part;
            while part.len() < places {
                part.push('0');
            }
            let point = if part.is_empty() { "" } else { "." };
            format!("{sign}{}{point}{part} {currency}", grouped(&whole))
        }
        None => NONE.to_owned(),
    }
}

const NONE: &str = "not an amount";

/// How many digits the minor unit of a currency has (ISO 4217). None for what is no code.
fn places(currency: &str) -> Option<usize> {
    let code = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    code.then_some(match currency {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "UYI"
        | "VND" | "VUV" | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        "CLF" | "UYW" => 4,
        _ => 2,
    })
}

/// Sign, digits before the point and digits behind it, with the point moved `shift` places to the left. Nothing is
/// rounded; zeros at the end of the fraction go.
fn decimal(text: &str, shift: usize) -> Option<(&'static str, String, String)> {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    if whole.is_empty() || digits.len() > DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let point = i64::try_from(whole.len()).ok()? + exponent - i64::try_from(shift).ok()?;
    let most = i64::try_from(DIGITS).ok()?;
    if !(-most..=most).contains(&point) {
        return None;
    }
    let (mut before, mut behind) = (String::new(), String::new());
    let length = i64::try_from(digits.len()).ok()?;
    for place in point.min(0)..point.max(length) {
        let digit = usize::try_from(place).ok().and_then(|place| digits.as_bytes().get(place));
        let digit = digit.map_or('0', |byte| char::from(*byte));
        if place < point { before.push(digit) } else { behind.push(digit) }
    }
    let before = before.trim_start_matches('0');
    let before = if before.is_empty() { "0" } else { before };
    Some((sign, before.to_owned(), behind.trim_end_matches('0').to_owned()))
}

fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, currency, minor, shown) in [
            ("1234567", "EUR", true, "12 345.67 EUR"),
            ("1234567", "EUR", false, "1 234 567.00 EUR"),
            ("0.1", "EUR", false, "0.10 EUR"),
            ("0.105", "EUR", false, "0.105 EUR"),
            ("5", "EUR", true, "0.05 EUR"),
            ("-5", "KWD", true, "-0.005 KWD"),
            ("500", "JPY", true, "500 JPY"),
            ("1e3", "USD", true, "10.00 USD"),
            ("1.5E-1", "USD", false, "0.15 USD"),
            ("9007199254740993", "USD", true, "90 071 992 547 409.93 USD"),
            ("\"12.50\"", "CHF", false, "12.50 CHF"),
            ("0", "EUR", true, "0.00 EUR"),
            ("100e-2", "EUR", false, "1.00 EUR"),
            ("\"12,50\"", "CHF", false, "not an amount"),
            ("\"\"", "CHF", false, "not an amount"),
            ("\"\u{661}\u{662}\"", "CHF", false, "not an amount"),
            ("1e999", "CHF", false, "not an amount"),
            ("true", "CHF", false, "not an amount"),
            ("{\"redacted\":true}", "CHF", false, "not an amount"),
            ("1", "euro", false, "not an amount: the currency is no code"),
        ] {
            let node = counterfoil::json::parse_str(text, 8).unwrap();
            assert_eq!(formatted(&node, currency, minor), shown, "{text}");
        }
    }
}
