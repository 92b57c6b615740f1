//! What a tool says to whoever decides: every text and pointer is checked when the file is read, not when somebody is
//! woken at night.

use counterfoil::Pointer;
use counterfoil::policy::{Currency, Money, Review, ReviewField, ShownAs};

use super::file::{FieldKind, ReviewFieldSection, ReviewSection};
use super::read::member;
use super::report::Checks;
use super::shape::At;
use super::template::{Slot, UrlTemplate};
use crate::review::{FIELDS_MOST, TEXT_MOST, Text};

/// What texts are read against.
struct Reader<'r> {
    /// Whether the tool sends a key or reference.
    sent: bool,
    sensitive: &'r [Pointer],
    key: &'r str,
}

/// Reads the section.
pub(super) fn read(
    section: &ReviewSection,
    sent: bool,
    sensitive: &[Pointer],
    key: &str,
    checks: &mut Checks<'_>,
) -> Review {
    let reader = Reader { sent, sensitive, key };
    let mut text = |text: &Option<At<String>>, part: &str| reader.text(text.as_ref()?, part, checks);
    let (title, question) = (text(&section.title, "title"), text(&section.question, "question"));
    let (check, ask) = (text(&section.check, "check"), text(&section.ask, "ask"));
    Review {
        title,
        question,
        fields: reader.fields(section, checks),
        check,
        check_url: section.check_url.as_ref().and_then(|url| reader.url(url, checks)),
        severity: section.severity.as_ref().map(|word| word.get().label().to_owned()),
        ask,
    }
}

impl Reader<'_> {
    fn sub(&self, part: &str) -> String {
        format!("{}.{part}", self.key)
    }

    fn text(&self, text: &At<String>, part: &str, checks: &mut Checks<'_>) -> Option<String> {
        let key = self.sub(part);
        if text.get().trim().is_empty() || text.get().len() > TEXT_MOST {
            let message = format!("a text has 1 to {TEXT_MOST} bytes");
            checks.error(text.span(), &key, message, "say it, or remove the key");
            return None;
        }
        match Text::parse(text.get()) {
            Ok(parsed) => self.fillable(text, &parsed, &key, checks).then(|| text.get().clone()),
            Err(error) => {
                checks.error(text.span(), &key, error.message, error.hint);
                None
            }
        }
    }

    /// Whether everything that the text asks for may be shown in it.
    fn fillable(&self, at: &At<String>, text: &Text, key: &str, checks: &mut Checks<'_>) -> bool {
        let hidden = |pointer: &Pointer| {
            let inside = |outer: &Pointer, inner: &Pointer| {
                inner.tokens().len() >= outer.tokens().len()
                    && outer.tokens().zip(inner.tokens()).all(|(one, other)| one == other)
            };
            self.sensitive.iter().any(|secret| inside(secret, pointer))
        };
        if let Some(pointer) = text.arguments().find(|pointer| hidden(pointer)) {
            let message = format!("{pointer} is sensitive: no text shows it");
            checks.error(
                at.span(),
                key,
                message,
                "leave it out, or name it in `fields`, where it is shown as redacted",
            );
            return false;
        }
        if text.names_reference() && !self.sent {
            let message = "`{reference}` needs a declared `key` or `reference`";
            checks.error(at.span(), key, message, "declare it in `recovery`, or leave the placeholder out");
            return false;
        }
        true
    }

    fn url(&self, url: &At<String>, checks: &mut Checks<'_>) -> Option<String> {
        let key = self.sub("check_url");
        let text = self.text(url, "check_url", checks)?;
        match UrlTemplate::parse(&text) {
            Err(error) => checks.error(url.span(), &key, error.message, error.hint),
            Ok(template) => {
                let named = |slot: &Slot| match slot {
                    Slot::Named(_) => true,
                    Slot::Argument(_) | Slot::Reference => false,
                };
                if !template.slots.iter().any(|(slot, _)| named(slot)) {
                    return Some(text);
                }
                let hint = "write `{/pointer}` for an argument, `{reference}` for what was sent";
                checks.error(url.span(), &key, "a placeholder stands for nothing", hint);
            }
        }
        None
    }

    fn fields(&self, section: &ReviewSection, checks: &mut Checks<'_>) -> Vec<ReviewField> {
        let Some(fields) = &section.fields else { return Vec::new() };
        if fields.get().len() > FIELDS_MOST {
            let message = format!("more than {FIELDS_MOST} fields");
            checks.error(fields.span(), &self.sub("fields"), message, "keep those that decide");
        }
        fields.get().iter().filter_map(|field| self.field(field.get(), checks)).collect()
    }

    fn field(&self, field: &ReviewFieldSection, checks: &mut Checks<'_>) -> Option<ReviewField> {
        let key = self.sub("fields");
        let at = member(&field.at, &format!("{key}.at"), checks);
        let label = self.text(&field.label, "fields.label", checks);
        let kind = field.r#as.as_ref().map_or(FieldKind::Text, |kind| *kind.get());
        let shown = match (kind, &field.currency) {
            (FieldKind::Money, Some(currency)) => {
                let minor = field.minor.as_ref().is_some_and(|minor| *minor.get());
                currency_of(currency, &key, checks).map(|currency| ShownAs::Money(Money { currency, minor }))
            }
            (FieldKind::Money, None) => {
                let message = "money needs a currency";
                let hint = "as in currency = \"/currency\", or currency = \"EUR\"";
                checks.error(field.at.span(), &format!("{key}.currency"), message, hint);
                None
            }
            (FieldKind::Text | FieldKind::Date, currency) => {
                let surplus = currency.as_ref().map(At::span).or(field.minor.as_ref().map(At::span));
                if let Some(span) = surplus {
                    let message = "`currency` and `minor` belong to money";
                    checks.error(span, &key, message, "write as = \"money\", or remove them");
                }
                Some(if kind == FieldKind::Date { ShownAs::Date } else { ShownAs::Text })
            }
        };
        Some(ReviewField { at: at?, label: label?, shown: shown? })
    }
}

fn currency_of(text: &At<String>, key: &str, checks: &mut Checks<'_>) -> Option<Currency> {
    let key = format!("{key}.currency");
    if text.get().starts_with('/') {
        return member(text, &key, checks).map(Currency::At);
    }
    if text.get().len() == 3 && text.get().bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Some(Currency::Fixed(text.get().clone()));
    }
    let hint = "write \"/currency\" for an argument, or \"EUR\"";
    checks.error(text.span(), &key, "this is neither a pointer nor a currency code", hint);
    None
}
