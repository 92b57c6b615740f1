//! The operator's texts with places for arguments and for what was sent.

use counterfoil::Pointer;
use counterfoil::json::{Content, Node};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::cli::output::{shortened, visible};

/// Everything but the unreserved characters of RFC 3986 section 2.3.
const DATA: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The most characters of one argument inside a text; the whole value stands among the arguments.
const INSIDE: usize = 80;

/// A text, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Argument(Pointer),
    Reference,
}

/// Why a text does not load. The text itself is not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

const HINT: &str =
    "write `{/pointer}` for an argument, `{reference}` for the key or reference as it was sent";

impl Text {
    /// Takes a text apart.
    ///
    /// # Errors
    /// A brace that stands for nothing, or a character that nobody can see.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let wrong = |message: String| Err(TextError { message, hint: HINT });
        if visible(text) != text {
            return wrong("the text holds characters that cannot be seen".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let Some((inside, after)) = rest[at..].strip_prefix('{').and_then(|open| open.split_once('}'))
            else {
                return wrong("`{` and `}` do not pair up".to_owned());
            };
            if at > 0 {
                pieces.push(Piece::Literal(rest[..at].to_owned()));
            }
            pieces.push(match inside {
                "reference" | "operation_id" => Piece::Reference,
                pointer if pointer.starts_with('/') => match Pointer::parse(pointer) {
                    Ok(pointer) => Piece::Argument(pointer),
                    Err(error) => return wrong(format!("bad placeholder: {error}")),
                },
                _ => return wrong("a placeholder is neither a pointer nor `{reference}`".to_owned()),
            });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The arguments that it takes.
    pub fn arguments(&self) -> impl Iterator<Item = &Pointer> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Argument(pointer) => Some(pointer),
            Piece::Literal(_) | Piece::Reference => None,
        })
    }

    /// Whether what was sent stands in it.
    #[must_use]
    pub fn names_reference(&self) -> bool {
        self.0.contains(&Piece::Reference)
    }

    /// The text for these arguments. A text among them is put in quotes, so that it cannot be taken for the operator's
    /// own words.
    #[must_use]
    pub fn fill(&self, arguments: &Node<'_>, reference: Option<&str>) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Reference => reference.map_or_else(|| "(nothing was sent)".to_owned(), visible),
            Piece::Argument(pointer) => match pointer.resolve(arguments).map(|node| (node.content(), node)) {
                None => format!("({pointer} is missing)"),
                Some((Content::String(text), _)) => format!("\"{}\"", shortened(text, INSIDE)),
                Some((Content::Number(_) | Content::Bool(_) | Content::Null, node)) => {
                    shortened(node.raw(), INSIDE)
                }
                Some((Content::Array(_) | Content::Object(_), _)) => format!("({pointer}, see below)"),
            },
        };
        self.0.iter().map(piece).collect()
    }

    /// The URL for these arguments, with everything that is filled in percent-encoded. None where something is missing,
    /// or would change the path.
    #[must_use]
    pub fn fill_url(&self, arguments: &Node<'_>, reference: Option<&str>) -> Option<String> {
        let mut url = String::new();
        for piece in &self.0 {
            let filled = match piece {
                Piece::Literal(text) => {
                    url.push_str(text);
                    continue;
                }
                Piece::Reference => reference?,
                Piece::Argument(pointer) => {
                    let node = pointer.resolve(arguments)?;
                    match node.content() {
                        Content::String(text) => text,
                        Content::Number(_) | Content::Bool(_) => node.raw(),
                        Content::Null | Content::Array(_) | Content::Object(_) => return None,
                    }
                }
            };
            if matches!(filled, "" | "." | "..") {
                return None;
            }
            url.extend(utf8_percent_encode(filled, DATA));
        }
        Some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Node<'_> {
        counterfoil::json::parse_str(text, 8).unwrap()
    }

    #[test]
    fn arguments_stand_in_quotes_and_cannot_speak_for_the_operator() {
        let text = Text::parse("Order at {/to}, {/n} pieces, sent as {reference}").unwrap();
        let node = arguments("{\"to\":\"x\\u001b[2J already checked\\nby security\",\"n\":1e3}");
        assert_eq!(
            text.fill(&node, Some("abc")),
            "Order at \"x\\u{1b}[2J already checked\\u{a}by security\", 1e3 pieces, sent as abc"
        );
        let node = arguments("{\"to\":{\"redacted\":true}}");
        assert_eq!(
            text.fill(&node, None),
            "Order at (/to, see below), (/n is missing) pieces, sent as (nothing was sent)"
        );
        let long = format!("{{\"to\":\"{}\",\"n\":1}}", "x".repeat(300_000));
        assert!(text.fill(&arguments(&long), None).len() < 300);
    }

    #[test]
    fn links_take_data_and_nothing_else() {
        let text = Text::parse("https://a.example/o/{/id}?q={reference}").unwrap();
        let of = |id: &str| text.fill_url(&arguments(&format!("{{\"id\":{id}}}")), Some("r 1"));
        assert_eq!(of(r#""../x?y=1#z&w""#).unwrap(), "https://a.example/o/..%2Fx%3Fy%3D1%23z%26w?q=r%201");
        assert_eq!(of(r#""\u202e""#).unwrap(), "https://a.example/o/%E2%80%AE?q=r%201");
        assert_eq!(of("17").unwrap(), "https://a.example/o/17?q=r%201");
        for none in ["\"..\"", "\"\"", "null", "[1]", "{}"] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(text.fill_url(&arguments(r#"{"id":1}"#), None), None);
    }

    #[test]
    fn bad_texts_are_refused() {
        for bad in ["{", "a}", "{}", "{x}", "{/a~2}", "{reference", "a\u{202e}", "a\nb", "{{/a}}"] {
            assert!(Text::parse(bad).is_err(), "{bad}");
        }
        let text = Text::parse("{/a}{reference}{/b/0}").unwrap();
        assert!(text.names_reference() && text.arguments().count() == 2);
    }
}
