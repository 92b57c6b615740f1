//! Instants and days, with the day of the week that a person thinks in.

use counterfoil::json::{Content, Node};
use jiff::civil::Date;

/// The instant or day in words, in UTC, or why it is none.
pub(super) fn formatted(node: &Node<'_>) -> String {
    let read = match node.content() {
        Content::String(text) => of_text(text),
        Content::Number(_) => of_number(node.raw()),
        Content::Null | Content::Bool(_) | Content::Array(_) | Content::Object(_) => None,
    };
    read.unwrap_or_else(|| "not a date".to_owned())
}

fn of_text(text: &str) -> Option<String> {
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(spelled(instant));
    }
    // What carries a time without a zone names no instant, and no day alone either.
    let plain = text.len() == "2026-11-30".len();
    let day = text.parse::<Date>().ok().filter(|_| plain)?;
    Some(day.strftime("%A, %-d %B %Y").to_string())
}

/// Seconds since 1970, or milliseconds where seconds would lie beyond the year 5138.
fn of_number(text: &str) -> Option<String> {
    let number: i64 = text.parse().ok()?;
    let instant = match number {
        -99_999_999_999..=99_999_999_999 => jiff::Timestamp::from_second(number),
        _ => jiff::Timestamp::from_millisecond(number),
    };
    instant.ok().map(spelled)
}

fn spelled(instant: jiff::Timestamp) -> String {
    let utc = jiff::tz::Offset::UTC.to_datetime(instant);
    utc.strftime("%A, %-d %B %Y, %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_spelled_out() {
        for (text, shown) in [
            ("\"2026-11-30\"", "Monday, 30 November 2026"),
            ("\"2026-11-30T23:30:00-05:00\"", "Tuesday, 1 December 2026, 04:30:00 UTC"),
            ("1795960931", "Sunday, 29 November 2026, 14:02:11 UTC"),
            ("1795960931020", "Sunday, 29 November 2026, 14:02:11 UTC"),
            ("\"2026-11-30T08:00\"", "not a date"),
            ("\"2026-02-30\"", "not a date"),
            ("\"soon\"", "not a date"),
            ("1.5", "not a date"),
            ("9223372036854775807", "not a date"),
            ("null", "not a date"),
        ] {
            let node = counterfoil::json::parse_str(text, 8).unwrap();
            assert_eq!(formatted(&node), shown, "{text}");
        }
    }
}
