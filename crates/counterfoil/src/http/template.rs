//! URL templates: literal text of the operator with places for arguments and for the key, which are filled with
//! percent-encoded data only.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::declaration::DeclarationProblem;
use super::request::InvalidArguments;
use super::target::Target;
use crate::json::{Content, Node};
use crate::pointer::Pointer;
use crate::recovery::Place;

/// Everything but the unreserved characters of RFC 3986 section 2.3.
const DATA: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The longest URL that is sent, in bytes; more is refused by many servers.
pub(crate) const MAX_URL: usize = 8 * 1024;

/// Data as it may stand in a path segment, a query or a form.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, DATA).to_string()
}

/// A URL with places to fill.
#[derive(Clone, Debug)]
pub(crate) struct UrlTemplate {
    target: Target,
    scheme: &'static str,
    path: Vec<Piece>,
    query: Option<Vec<Piece>>,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(String),
    Argument(Pointer),
    Key,
}

impl UrlTemplate {
    /// Reads a template. `{reference}`, `{operation_id}` and the `{NAME}` of `path:NAME` stand for the key.
    pub(crate) fn parse(url: &str, place: Option<&Place>) -> Result<Self, DeclarationProblem> {
        let (target, rest) = Target::split(url)?;
        let scheme = if target.tls { "https" } else { "http" };
        let mut template = Self { target, scheme, path: Vec::new(), query: None };
        template.read(rest, place)?;
        if !matches!(template.path.first(), Some(Piece::Literal(text)) if text.starts_with('/')) {
            template.path.insert(0, Piece::Literal("/".to_owned()));
        }
        let static_path = template.fill_path(&mut |_| Ok("x".to_owned()));
        if !static_path.is_ok_and(|path| no_dot_segment(&path)) {
            return Err(DeclarationProblem::DotSegment);
        }
        Ok(template)
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the key stands somewhere in the template.
    pub(crate) fn names_key(&self) -> bool {
        let pieces = self.path.iter().chain(self.query.iter().flatten());
        pieces.into_iter().any(|piece| matches!(piece, Piece::Key))
    }

    /// Whether the key stands in the path: then the URL is the address of one record.
    pub(crate) fn path_names_key(&self) -> bool {
        self.path.iter().any(|piece| matches!(piece, Piece::Key))
    }

    fn read(&mut self, mut rest: &str, place: Option<&Place>) -> Result<(), DeclarationProblem> {
        if rest.contains("${") {
            return Err(DeclarationProblem::SecretInUrl);
        }
        // In a query a place stands for a value: behind the first `=` of its pair.
        let mut in_value = true;
        while let Some(byte) = rest.bytes().next() {
            let piece = match byte {
                b'{' => {
                    let (name, behind) = rest[1..].split_once('}').ok_or(DeclarationProblem::Placeholder)?;
                    rest = behind;
                    if !in_value {
                        return Err(DeclarationProblem::PlaceholderInQueryName);
                    }
                    placeholder(name, place)?
                }
                b'?' if self.query.is_none() => {
                    self.query = Some(Vec::new());
                    in_value = false;
                    rest = &rest[1..];
                    continue;
                }
                b'#' => return Err(DeclarationProblem::Fragment),
                _ => {
                    let end = rest.find(['{', '#', '?', '=', '&']).unwrap_or(rest.len()).max(1);
                    let literal = rest.get(..end).ok_or(DeclarationProblem::UrlCharacter)?;
                    check_literal(literal)?;
                    if self.query.is_some() {
                        in_value = match byte {
                            b'=' => true,
                            b'&' => false,
                            _ => in_value,
                        };
                    }
                    rest = &rest[end..];
                    Piece::Literal(literal.to_owned())
                }
            };
            self.query.as_mut().unwrap_or(&mut self.path).push(piece);
        }
        Ok(())
    }

    /// The URL for these arguments and this key, without what is appended to the query.
    pub(crate) fn fill(&self, arguments: &Node<'_>, key: Option<&str>) -> Result<String, InvalidArguments> {
        let mut value = |piece: &Piece| match piece {
            Piece::Literal(text) => Ok(text.clone()),
            Piece::Argument(pointer) => argument(arguments, pointer),
            Piece::Key => dataful(key.ok_or(InvalidArguments::NoKey)?)
                .map(encoded)
                .ok_or(InvalidArguments::KeyDoesNotFit),
        };
        let path = self.fill_path(&mut value)?;
        if !no_dot_segment(&path) {
            return Err(InvalidArguments::DotSegment);
        }
        let mut url = format!("{}://{}{path}", self.scheme, self.target.authority);
        if let Some(query) = &self.query {
            url.push('?');
            for piece in query {
                url.push_str(&value(piece)?);
            }
        }
        Ok(url)
    }

    fn fill_path(
        &self,
        value: &mut impl FnMut(&Piece) -> Result<String, InvalidArguments>,
    ) -> Result<String, InvalidArguments> {
        self.path
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => Ok(text.clone()),
                Piece::Argument(_) | Piece::Key => value(piece),
            })
            .collect()
    }
}

/// `.` and `..`, also where they are percent-encoded, are resolved away by servers and proxies.
fn no_dot_segment(path: &str) -> bool {
    path.split('/').all(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain != "." && plain != ".."
    })
}

fn placeholder(name: &str, place: Option<&Place>) -> Result<Piece, DeclarationProblem> {
    if name.starts_with('/') {
        return Pointer::parse(name).map(Piece::Argument).map_err(|_| DeclarationProblem::Placeholder);
    }
    let ours = match place {
        Some(Place::Path(path)) => path == name,
        Some(Place::Header(_) | Place::Body(_) | Place::Query(_) | Place::Worker) | None => false,
    };
    let general = matches!(name, "reference" | "operation_id") && place.is_some();
    if ours || general { Ok(Piece::Key) } else { Err(DeclarationProblem::Placeholder) }
}

/// Only what RFC 3986 allows in a path or query, so that nothing is encoded or dropped on the way.
fn check_literal(text: &str) -> Result<(), DeclarationProblem> {
    let bytes = text.as_bytes();
    let fits = bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => bytes.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)),
        _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(byte),
    });
    if fits { Ok(()) } else { Err(DeclarationProblem::UrlCharacter) }
}

fn argument(arguments: &Node<'_>, pointer: &Pointer) -> Result<String, InvalidArguments> {
    let node = pointer.resolve(arguments).ok_or_else(|| InvalidArguments::Missing(pointer.clone()))?;
    let text = scalar(node).ok_or_else(|| InvalidArguments::NotScalar(pointer.clone()))?;
    dataful(text).map(encoded).ok_or_else(|| InvalidArguments::NotAUrlPart(pointer.clone()))
}

/// Text that names something where it stands in a URL.
fn dataful(text: &str) -> Option<&str> {
    (!matches!(text, "" | "." | "..")).then_some(text)
}

/// The text of a scalar, numbers as written. `null` is no scalar here: it has no text.
pub(crate) fn scalar<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    match node.content() {
        Content::String(text) => Some(text),
        Content::Number(text) => Some(text),
        Content::Bool(true) => Some("true"),
        Content::Bool(false) => Some("false"),
        Content::Null | Content::Array(_) | Content::Object(_) => None,
    }
}
