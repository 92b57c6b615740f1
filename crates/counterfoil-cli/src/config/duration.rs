//! Lengths of time as the file spells them: a number and a unit.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::shape::{Definitions, Shape};

/// The longest length: a hundred years, so that no sum of instants can overflow.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// How to write one, for hints.
pub const HOW: &str = "write a number and a unit: \"500ms\", \"30s\", \"15m\", \"24h\", \"90d\"";

/// A length of time in whole milliseconds, at most a hundred years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(pub Duration);

impl Length {
    /// Reads `500ms`, `30s`, `15m`, `24h` or `90d`.
    ///
    /// # Errors
    /// Where the text is not a whole number and one of the units, or is longer than a hundred years.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let millis = number
            .parse::<u64>()
            .ok()
            .zip(UNITS.iter().find(|(name, _)| *name == unit))
            .and_then(|(number, (_, factor))| number.checked_mul(*factor))
            .ok_or_else(|| format!("\"{}\" is no duration: {HOW}", text.escape_debug()))?;
        let length = Duration::from_millis(millis);
        if length > LONGEST {
            return Err("a duration may be at most a hundred years (36500d)".to_owned());
        }
        Ok(Self(length))
    }
}

/// The shortest spelling in the file's own units: the largest unit that divides it.
pub fn spell(length: Duration) -> String {
    let millis = length.as_millis();
    let (unit, factor) = UNITS
        .iter()
        .rev()
        .find(|(_, factor)| millis != 0 && millis.is_multiple_of(u128::from(*factor)))
        .unwrap_or(&UNITS[1]);
    format!("{}{unit}", millis / u128::from(*factor))
}

/// A length for reading, unit by unit: `23h 43m 45s`.
pub fn spoken(length: Duration) -> String {
    let mut rest = length.as_millis();
    let mut parts = Vec::new();
    for (unit, factor) in UNITS.iter().rev() {
        let number = rest / u128::from(*factor);
        rest %= u128::from(*factor);
        if number > 0 {
            parts.push(format!("{number}{unit}"));
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&spell(self.0))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Shape for Length {
    fn shape(_: &mut Definitions) -> Value {
        json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_spells_the_units() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("24h", 86_400_000), ("90d", 7_776_000_000)]
        {
            assert_eq!(Length::parse(text).unwrap().0, Duration::from_millis(millis), "{text}");
        }
        for (text, spelled) in
            [("24h", "1d"), ("90s", "90s"), ("60s", "1m"), ("0m", "0s"), ("1500ms", "1500ms")]
        {
            assert_eq!(Length::parse(text).unwrap().to_string(), spelled);
        }
        for (millis, words) in [(0, "0s"), (85_425_000, "23h 43m 45s"), (86_400_500, "1d 500ms")] {
            assert_eq!(spoken(Duration::from_millis(millis)), words);
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5h",
            "1 h",
            "1h30m",
            "5w",
            "99999999999999999999s",
            "36501d",
            "+5s",
            "٣s",
        ] {
            assert!(Length::parse(text).is_err(), "{text:?}");
        }
    }
}
