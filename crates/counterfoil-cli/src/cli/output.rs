//! Data goes to stdout, everything else to stderr.

use std::io::{self, Write};

use serde::Serialize;

use super::error::CommandError;

/// The two streams of one command.
pub struct Output<'w> {
    data: &'w mut dyn Write,
    notes: &'w mut dyn Write,
    /// Whether data is JSON.
    pub json: bool,
    /// Whether notes are left out.
    pub quiet: bool,
}

impl<'w> Output<'w> {
    /// Data to `data`, everything else to `notes`.
    pub fn new(data: &'w mut dyn Write, notes: &'w mut dyn Write, json: bool, quiet: bool) -> Self {
        Self { data, notes, json, quiet }
    }

    /// Writes data as text, with a line end.
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), CommandError> {
        Ok(writeln!(self.data, "{}", text.as_ref())?)
    }

    /// Writes data as text exactly as it is.
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn text(&mut self, text: impl AsRef<str>) -> Result<(), CommandError> {
        Ok(self.data.write_all(text.as_ref().as_bytes())?)
    }

    /// Writes data as one line of JSON.
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CommandError> {
        let line = serde_json::to_string(value)?;
        self.line(line)
    }

    /// Writes a whole list as JSON: `{"items": […], "next_cursor": null}`.
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn json_list<T: Serialize>(
        &mut self,
        items: &[T],
        next_cursor: Option<&str>,
    ) -> Result<(), CommandError> {
        self.json(&serde_json::json!({ "items": items, "next_cursor": next_cursor }))
    }

    /// Says something beside the data; nothing with `--quiet`.
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn note(&mut self, text: impl AsRef<str>) -> Result<(), CommandError> {
        if self.quiet { Ok(()) } else { Ok(writeln!(self.notes, "{}", text.as_ref())?) }
    }

    /// Writes rows as columns, the first row being the heads. Cells are made [`visible`].
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn table(&mut self, rows: &[Vec<String>]) -> Result<(), CommandError> {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Hands everything on to the system.
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.data.flush()?;
        self.notes.flush()
    }
}

/// Text from outside as it may be shown on a terminal: control characters, marks that change the direction of writing
/// and characters without width become visible code points.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut marks = 0_usize;
    for character in text.chars() {
        marks = if combining(character) { marks + 1 } else { 0 };
        if hidden(character) || marks > MARKS {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Marks on one letter that are drawn; the further ones of a pile that would reach into other lines are spelled out.
const MARKS: usize = 2;

fn combining(character: char) -> bool {
    matches!(character,
        '\u{0300}'..='\u{036f}' | '\u{0483}'..='\u{0489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// What takes no place, takes a place without showing anything, or changes how its neighbours are drawn.
fn hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Text from outside, made [`visible`], of which at most `most` characters are shown; how long it is in all is said.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => visible(text),
        Some((end, _)) => {
            let all = text.chars().count();
            format!("{}… ({all} characters)", visible(&text[..end]))
        }
    }
}

/// The most characters that a warning names.
const NAMED: usize = 8;

/// Letters and digits that look like plain ones and are not: those of other scripts in a word with Latin letters, wide
/// and mathematical ones, digits of other scripts.
#[must_use]
pub fn look_alikes(text: &str) -> Option<String> {
    let mut found: Vec<char> = Vec::new();
    for word in text.split(|character: char| !character.is_alphanumeric()) {
        let latin = word.chars().any(|character| character.is_ascii_alphabetic());
        found.extend(word.chars().filter(|character| {
            let foreign = matches!(character,
                '\u{0370}'..='\u{052f}' | '\u{0530}'..='\u{058f}' | '\u{10a0}'..='\u{10ff}'
                | '\u{13a0}'..='\u{13ff}' | '\u{1f00}'..='\u{1fff}' | '\u{2c80}'..='\u{2cff}'
                | '\u{ab70}'..='\u{abbf}');
            let dressed = matches!(character,
                '\u{2070}'..='\u{209f}' | '\u{2100}'..='\u{214f}' | '\u{2460}'..='\u{24ff}'
                | '\u{ff00}'..='\u{ff9f}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1f100}'..='\u{1f1ff}');
            let digit = character.is_numeric() && !character.is_ascii();
            (latin && foreign) || dressed || digit
        }));
    }
    found.sort_unstable();
    found.dedup();
    let named: Vec<String> = found
        .iter()
        .take(NAMED)
        .map(|character| format!("{character} (U+{:04X})", u32::from(*character)))
        .collect();
    (!named.is_empty()).then(|| format!("look-alike characters: {}", named.join(", ")))
}

/// A text as one word of a POSIX shell, whatever it holds.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@%+=-,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_cannot_move_the_cursor_or_turn_the_line() {
        assert_eq!(visible("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(visible("x\u{202e}y\u{200b}"), "x\\u{202e}y\\u{200b}");
        assert_eq!(visible("K\u{fc}che 7"), "K\u{fc}che 7");
    }

    #[test]
    fn what_shows_nothing_is_spelled_out_and_piles_of_marks_are_cut() {
        for hidden in ['\u{3164}', '\u{2800}', '\u{180b}', '\u{034f}', '\u{e0041}', '\u{7f}', '\u{9b}'] {
            assert_eq!(visible(&hidden.to_string()), hidden.escape_unicode().to_string());
        }
        assert_eq!(visible("e\u{301}\u{327}"), "e\u{301}\u{327}");
        assert_eq!(visible("e\u{301}\u{301}\u{301}x\u{301}"), "e\u{301}\u{301}\\u{301}x\u{301}");
        assert_eq!(shortened("abcdef", 3), "abc… (6 characters)");
        assert_eq!(shortened("abc", 3), "abc");
    }

    #[test]
    fn look_alikes_are_named() {
        assert_eq!(look_alikes("p\u{430}ypal").unwrap(), "look-alike characters: \u{430} (U+0430)");
        for odd in ["\u{ff11}00", "\u{661}0", "\u{1d5d4}cme", "\u{3b1}lpha", "x\u{b2}"] {
            assert!(look_alikes(odd).is_some(), "{odd}");
        }
        for fine in
            ["paypal", "K\u{fc}che 7", "\u{41c}\u{43e}\u{441}\u{43a}\u{432}\u{430}", "\u{4e2d}", "\u{41c} 7"]
        {
            assert_eq!(look_alikes(fine), None, "{fine}");
        }
    }

    #[test]
    fn an_id_cannot_become_a_command() {
        assert_eq!(quoted("order-17"), "order-17");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("a';reboot;'"), r"'a'\'';reboot;'\'''");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn tables_line_up_and_notes_stay_off_stdout() {
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        let mut out = Output::new(&mut data, &mut notes, false, false);
        out.table(&[vec!["a".into(), "b".into()], vec!["long".into(), "c\u{1b}".into()]]).unwrap();
        out.note("done").unwrap();
        Output::new(&mut Vec::new(), &mut notes, false, true).note("nothing").unwrap();
        assert_eq!(String::from_utf8(data).unwrap(), "a     b\nlong  c\\u{1b}\n");
        assert_eq!(notes, b"done\n");
    }
}
