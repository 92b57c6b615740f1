//! A strict reader for JSON text (RFC 8259) that keeps what was written.
//!
//! The arguments of an operation are compared, stored and sent as the caller wrote them, so this reader hands
//! out what a general-purpose one throws away: the bytes of every value, the spelling of every number, the
//! order of members. It refuses what two readers may understand differently (a member named twice, a lone
//! surrogate), because an approver and a destination must never see two actions in one text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// The most digits that a number may have before its exponent, as written.
pub const MAX_DIGITS: usize = 1_000;
/// The largest exponent, positive or negative, that a number may carry, as written.
pub const MAX_EXPONENT: i64 = 10_000;
/// The deepest nesting that any caller may ask for: the reader is recursive, and this keeps its stack small.
pub const DEEPEST: usize = 128;

/// One value and where it stands in the text it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    start: usize,
    raw: &'a str,
    content: Content<'a>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written: a value of any size keeps every digit.
    Number(&'a str),
    /// A string without its escapes.
    String(Cow<'a, str>),
    /// The elements of an array.
    Array(Vec<Node<'a>>),
    /// The members of an object in the order of the text. No two have the same name.
    Object(Vec<Member<'a>>),
}

/// One member of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member<'a> {
    start: usize,
    name: Cow<'a, str>,
    value: Node<'a>,
}

impl<'a> Member<'a> {
    /// The name without its escapes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value.
    pub fn value(&self) -> &Node<'a> {
        &self.value
    }

    /// The bytes from the quote that opens the name to the end of the value.
    pub fn span(&self) -> Range<usize> {
        self.start..self.value.end()
    }
}

impl<'a> Node<'a> {
    /// What the value is.
    pub fn content(&self) -> &Content<'a> {
        &self.content
    }

    /// The value exactly as written, without the white space around it.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// The bytes of the value in the text. No two values of one text start at the same byte.
    pub fn span(&self) -> Range<usize> {
        self.start..self.end()
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    fn end(&self) -> usize {
        self.start + self.raw.len()
    }

    /// How deeply it nests: 0 for a scalar, 1 for an array or object of scalars.
    pub fn depth(&self) -> usize {
        let inner = match &self.content {
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::String(_) => return 0,
            Content::Array(elements) => elements.iter().map(Node::depth).max(),
            Content::Object(members) => members.iter().map(|member| member.value.depth()).max(),
        };
        inner.unwrap_or(0) + 1
    }

    /// The members, if this is an object.
    pub fn members(&self) -> Option<&[Member<'a>]> {
        match &self.content {
            Content::Object(members) => Some(members),
            Content::Null
            | Content::Bool(_)
            | Content::Number(_)
            | Content::String(_)
            | Content::Array(_) => None,
        }
    }

    /// The elements, if this is an array.
    pub fn elements(&self) -> Option<&[Node<'a>]> {
        match &self.content {
            Content::Array(elements) => Some(elements),
            Content::Null
            | Content::Bool(_)
            | Content::Number(_)
            | Content::String(_)
            | Content::Object(_) => None,
        }
    }

    /// The text without escapes, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::String(text) => Some(text),
            Content::Null
            | Content::Bool(_)
            | Content::Number(_)
            | Content::Array(_)
            | Content::Object(_) => None,
        }
    }

    /// The value of the member of this name, if this is an object that has it.
    pub fn member(&self, name: &str) -> Option<&Node<'a>> {
        self.members()?.iter().find(|member| member.name == name).map(Member::value)
    }
}

/// Why a text was refused. The words are fixed: nothing of the text is repeated in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonReason {
    /// The text ends before the value does.
    UnexpectedEnd,
    /// A byte that cannot stand here.
    UnexpectedByte,
    /// The text begins with a byte order mark.
    ByteOrderMark,
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// A number that is not spelled as RFC 8259 asks (`01`, `1.`, `+1`, `.5`).
    InvalidNumber,
    /// More than [`MAX_DIGITS`] digits.
    TooManyDigits,
    /// An exponent beyond [`MAX_EXPONENT`].
    ExponentTooLarge,
    /// A control character that is not escaped.
    ControlCharacter,
    /// A backslash that does not begin an escape of RFC 8259.
    InvalidEscape,
    /// Half of a surrogate pair: it stands for no character.
    LoneSurrogate,
    /// A name that the same object already has.
    DuplicateMember,
    /// Nested more deeply than allowed.
    TooDeep,
    /// Something follows the value.
    TrailingData,
}

impl JsonReason {
    /// A phrase that is safe to show and to log.
    pub fn text(self) -> &'static str {
        match self {
            JsonReason::UnexpectedEnd => "the text ends too early",
            JsonReason::UnexpectedByte => "not JSON",
            JsonReason::ByteOrderMark => "a byte order mark is not JSON",
            JsonReason::InvalidUtf8 => "not UTF-8",
            JsonReason::InvalidNumber => "not a JSON number",
            JsonReason::TooManyDigits => "a number of more than 1000 digits",
            JsonReason::ExponentTooLarge => "an exponent beyond 10000",
            JsonReason::ControlCharacter => "a control character in a string is not escaped",
            JsonReason::InvalidEscape => "an escape that JSON does not know",
            JsonReason::LoneSurrogate => "a lone surrogate in a string",
            JsonReason::DuplicateMember => "a member name is repeated in its object",
            JsonReason::TooDeep => "nested too deeply",
            JsonReason::TrailingData => "something follows the value",
        }
    }
}

/// A text that was refused, and the byte at which this was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{} (at byte {offset})", .reason.text())]
pub struct JsonError {
    /// Why.
    pub reason: JsonReason,
    /// The byte, counted from 0, at which the reader stopped.
    pub offset: usize,
}

/// Reads one JSON value. The outermost array or object has depth 1; `max_depth` is at most [`DEEPEST`], a
/// larger one counts as that.
///
/// # Errors
///
/// Returns the first thing that is wrong, where invalid UTF-8 anywhere comes before everything else and a
/// repeated name is noticed at the end of its object.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Node<'_>, JsonError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| JsonError { reason: JsonReason::InvalidUtf8, offset: error.valid_up_to() })?;
    parse_str(text, max_depth)
}

/// Like [`parse`], for text that is already known to be UTF-8.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_str(text: &str, max_depth: usize) -> Result<Node<'_>, JsonError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, depth_left: max_depth.min(DEEPEST) };
    if reader.bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(reader.error(JsonReason::ByteOrderMark));
    }
    reader.skip_space();
    let node = reader.value()?;
    reader.skip_space();
    if reader.at < reader.bytes.len() {
        return Err(reader.error(JsonReason::TrailingData));
    }
    Ok(node)
}

/// Writes a string with its quotes and the escapes of RFC 8785: the short form where there is one, `\u00xx` in
/// lower case for the other control characters, everything else byte for byte.
pub fn write_string(text: &str, out: &mut impl FnMut(&str)) {
    const CONTROL: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t",
        "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013",
        "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c",
        "\\u001d", "\\u001e", "\\u001f",
    ];
    out("\"");
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            other => match CONTROL.get(usize::from(other)) {
                Some(escape) => escape,
                None => continue,
            },
        };
        if written < at {
            out(&text[written..at]);
        }
        out(escape);
        written = at + 1;
    }
    if written < text.len() {
        out(&text[written..]);
    }
    out("\"");
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth_left: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, reason: JsonReason) -> JsonError {
        JsonError { reason, offset: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// What stands here is not what the grammar asks for.
    fn unexpected(&self) -> JsonError {
        self.error(if self.at < self.bytes.len() {
            JsonReason::UnexpectedByte
        } else {
            JsonReason::UnexpectedEnd
        })
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self) -> Result<Node<'a>, JsonError> {
        let start = self.at;
        let content = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Content::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Content::Number(self.number()?),
            Some(b't') => self.word("true", Content::Bool(true))?,
            Some(b'f') => self.word("false", Content::Bool(false))?,
            Some(b'n') => self.word("null", Content::Null)?,
            Some(_) | None => return Err(self.unexpected()),
        };
        Ok(Node { start, raw: &self.text[start..self.at], content })
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Content<'a>, JsonError>,
    ) -> Result<Content<'a>, JsonError> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(self.error(JsonReason::TooDeep))?;
        self.at += 1;
        let content = read(self)?;
        self.depth_left += 1;
        Ok(content)
    }

    fn word(&mut self, word: &str, content: Content<'a>) -> Result<Content<'a>, JsonError> {
        for byte in word.bytes() {
            self.expect(byte)?;
        }
        Ok(content)
    }

    fn array(&mut self) -> Result<Content<'a>, JsonError> {
        let mut elements = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Content::Array(elements));
        }
        loop {
            self.skip_space();
            elements.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Content::Array(elements));
                }
                Some(_) | None => return Err(self.unexpected()),
            }
        }
    }

    fn object(&mut self) -> Result<Content<'a>, JsonError> {
        let mut members = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Content::Object(members));
        }
        loop {
            self.skip_space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let value = self.value()?;
            members.push(Member { start, name, value });
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    refuse_duplicates(&members)?;
                    return Ok(Content::Object(members));
                }
                Some(_) | None => return Err(self.unexpected()),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let mut run = self.at;
        let mut unescaped: Option<String> = None;
        loop {
            match self.peek() {
                None => return Err(self.error(JsonReason::UnexpectedEnd)),
                Some(b'"') => {
                    let rest = &self.text[run..self.at];
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(rest),
                        Some(mut text) => {
                            text.push_str(rest);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(&self.text[run..self.at]);
                    text.push(self.escape()?);
                    run = self.at;
                }
                Some(0..=0x1F) => return Err(self.error(JsonReason::ControlCharacter)),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Reads one escape, or the two that make a surrogate pair. On an error the offset is the backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let backslash = self.at;
        let at_backslash = |reason| JsonError { reason, offset: backslash };
        self.at += 1;
        let letter = self.peek().ok_or(self.error(JsonReason::UnexpectedEnd))?;
        self.at += 1;
        let unit = match letter {
            b'"' => return Ok('"'),
            b'\\' => return Ok('\\'),
            b'/' => return Ok('/'),
            b'b' => return Ok('\u{8}'),
            b'f' => return Ok('\u{c}'),
            b'n' => return Ok('\n'),
            b'r' => return Ok('\r'),
            b't' => return Ok('\t'),
            b'u' => self.four_hex(backslash)?,
            _ => return Err(at_backslash(JsonReason::InvalidEscape)),
        };
        if (0xD800..=0xDBFF).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
            let second = self.at;
            self.at += 2;
            let low = self.four_hex(second)?;
            if (0xDC00..=0xDFFF).contains(&low) {
                let scalar = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return char::from_u32(scalar).ok_or(at_backslash(JsonReason::LoneSurrogate));
            }
        }
        char::from_u32(unit).ok_or(at_backslash(JsonReason::LoneSurrogate))
    }

    fn four_hex(&mut self, backslash: usize) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.peek().ok_or(self.error(JsonReason::UnexpectedEnd))?;
            let digit = char::from(byte)
                .to_digit(16)
                .ok_or(JsonError { reason: JsonReason::InvalidEscape, offset: backslash })?;
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        let refuse = |reason| JsonError { reason, offset: start };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits()?;
        if leading_zero && whole > 1 {
            return Err(refuse(JsonReason::InvalidNumber));
        }
        let mut fraction = 0;
        if self.peek() == Some(b'.') {
            self.at += 1;
            fraction = self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            let first = self.at;
            self.digits()?;
            if magnitude(&self.text[first..self.at]) > MAX_EXPONENT {
                return Err(refuse(JsonReason::ExponentTooLarge));
            }
        }
        if whole + fraction > MAX_DIGITS {
            return Err(refuse(JsonReason::TooManyDigits));
        }
        Ok(&self.text[start..self.at])
    }

    /// Reads one or more digits and says how many.
    fn digits(&mut self) -> Result<usize, JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match self.at - start {
            0 if self.at < self.bytes.len() => Err(self.error(JsonReason::InvalidNumber)),
            0 => Err(self.error(JsonReason::UnexpectedEnd)),
            count => Ok(count),
        }
    }
}

/// The value of a row of digits, or something above every limit where it has too many of them.
fn magnitude(digits: &str) -> i64 {
    digits.bytes().fold(0_i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit.wrapping_sub(b'0')))
    })
}

/// Refuses a name that an earlier member has, at the first byte of the later name.
fn refuse_duplicates(members: &[Member<'_>]) -> Result<(), JsonError> {
    // Most objects are small, and comparing pairs needs no memory; a large one from outside must not cost its
    // square.
    const PAIRWISE: usize = 12;
    let repeated = if members.len() <= PAIRWISE {
        members
            .iter()
            .enumerate()
            .find(|(at, member)| members[..*at].iter().any(|earlier| earlier.name == member.name))
            .map(|(_, member)| member.start)
    } else {
        let mut names: Vec<(&str, usize)> =
            members.iter().map(|member| (&*member.name, member.start)).collect();
        names.sort_unstable();
        names.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).min()
    };
    match repeated {
        Some(offset) => Err(JsonError { reason: JsonReason::DuplicateMember, offset }),
        None => Ok(()),
    }
}

impl fmt::Display for JsonReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests;
