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
    let hidden = |character: char| {
        character.is_control()
            || matches!(character,
                '\u{061c}' | '\u{00ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}')
    };
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
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
