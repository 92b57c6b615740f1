//! What a person sees who has to decide about an operation: the operator's words, filled with what is stored. Pure.

mod amount;
mod date;
mod text;

use counterfoil::Pointer;
use counterfoil::json::{Content, Member, Node};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::text::{Text, TextError};
use crate::cli::output::{look_alikes, visible};

/// The most bytes of one text of the operator.
pub const TEXT_MOST: usize = 500;

/// The most labelled fields of one tool: more would push each other off the screen.
pub const FIELDS_MOST: usize = 20;

/// What a tool says to whoever decides, as the configuration spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Review)]
#[serde(default)]
pub struct Texts {
    /// A headline; `{/pointer}` stands for a scalar argument, `{reference}` for the key or reference that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The question to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The arguments that matter, in order.
    pub fields: Vec<FieldTexts>,
    /// Where to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// A link to there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_url: Option<String>,
    /// `low`, `normal`, `high` or `critical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Whom to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
}

/// A labelled argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewField)]
pub struct FieldTexts {
    /// JSON pointer to the argument.
    pub at: String,
    /// What it is called.
    pub label: String,
    /// What is shown beside the stored value: `text`, `money` or `date`.
    #[serde(rename = "as")]
    pub shown: String,
    /// With `money`: JSON pointer to the currency, or its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// With `money`: whether the amount is in the currency's minor unit.
    #[serde(default)]
    pub minor: bool,
}

impl Texts {
    /// The texts of a declaration.
    #[must_use]
    pub fn of(review: &counterfoil::policy::Review) -> Self {
        use counterfoil::policy::{Currency, ShownAs};
        let field = |field: &counterfoil::policy::ReviewField| {
            let (shown, currency, minor) = match &field.shown {
                ShownAs::Text => ("text", None, false),
                ShownAs::Date => ("date", None, false),
                ShownAs::Money(money) => {
                    let currency = match &money.currency {
                        Currency::At(pointer) => pointer.to_string(),
                        Currency::Fixed(code) => code.clone(),
                    };
                    ("money", Some(currency), money.minor)
                }
            };
            FieldTexts {
                at: field.at.to_string(),
                label: field.label.clone(),
                shown: shown.to_owned(),
                currency,
                minor,
            }
        };
        Self {
            title: review.title.clone(),
            question: review.question.clone(),
            fields: review.fields.iter().map(field).collect(),
            check: review.check.clone(),
            check_url: review.check_url.clone(),
            severity: review.severity.clone(),
            ask: review.ask.clone(),
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How urgent it is: the larger, the sooner. A word that this program does not know is as usual.
    #[must_use]
    pub fn urgency(&self) -> u8 {
        match self.severity.as_deref() {
            Some("critical") => 3,
            Some("high") => 2,
            Some("low") => 0,
            Some(_) | None => 1,
        }
    }
}

/// The texts, filled for one operation. Everything in it can be shown as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The headline.
    pub title: Option<String>,
    /// The question.
    pub question: Option<String>,
    /// The labelled arguments.
    pub fields: Vec<Field>,
    /// Where to look.
    pub check: Option<String>,
    /// A link to there; none where an argument that belongs into it is missing.
    pub check_url: Option<String>,
    /// Whom to ask.
    pub ask: Option<String>,
    /// What looks like something else, anywhere in the arguments.
    pub warning: Option<String>,
}

/// A labelled argument, filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is called.
    pub label: String,
    /// The stored bytes, with hidden characters made visible.
    pub stored: String,
    /// The same, formatted; a second line, never in place of the first.
    pub formatted: Option<String>,
    /// What looks like something else in it.
    pub warning: Option<String>,
}

impl Filled {
    /// Fills `texts` with what is stored. `reference` is what was sent last.
    #[must_use]
    pub fn of(texts: &Texts, arguments: &Node<'_>, reference: Option<&str>) -> Self {
        // A server of another version may say what this program cannot fill: then its own words are shown.
        let fill = |text: &Option<String>| {
            text.as_ref().map(|text| match Text::parse(text) {
                Ok(text) => text.fill(arguments, reference),
                Err(_) => visible(text),
            })
        };
        let url =
            texts.check_url.as_ref().and_then(|url| Text::parse(url).ok()?.fill_url(arguments, reference));
        Self {
            title: fill(&texts.title),
            question: fill(&texts.question),
            fields: texts.fields.iter().map(|field| Field::of(field, arguments)).collect(),
            check: fill(&texts.check),
            check_url: url,
            ask: texts.ask.as_deref().map(visible),
            warning: look_alikes(&words(arguments)),
        }
    }
}

/// Every text of the arguments, names of members among them, as it reads once its escapes are resolved.
fn words(node: &Node<'_>) -> String {
    match node.content() {
        Content::String(text) => text.to_string(),
        Content::Array(elements) => elements.iter().map(|element| words(element) + "\n").collect(),
        Content::Object(members) => {
            let member = |member: &Member<'_>| format!("{}\n{}\n", member.name(), words(member.value()));
            members.iter().map(member).collect()
        }
        Content::Null | Content::Bool(_) | Content::Number(_) => String::new(),
    }
}

impl Field {
    fn of(field: &FieldTexts, arguments: &Node<'_>) -> Self {
        let find = |pointer: &str| Pointer::parse(pointer).ok()?.resolve(arguments);
        let label = visible(&field.label);
        let Some(node) = find(&field.at) else {
            return Self {
                label,
                stored: "(not in the arguments)".to_owned(),
                formatted: None,
                warning: None,
            };
        };
        let formatted = match field.shown.as_str() {
            "money" => {
                let currency = field.currency.as_deref().unwrap_or_default();
                let code = match currency.strip_prefix('/') {
                    Some(_) => find(currency).and_then(Node::as_str).unwrap_or_default(),
                    None => currency,
                };
                Some(amount::formatted(node, code, field.minor))
            }
            "date" => Some(date::formatted(node)),
            _ => None,
        };
        let warning = look_alikes(&words(node));
        Self { label, stored: visible(node.raw()), formatted, warning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(at: &str, shown: &str, currency: Option<&str>) -> FieldTexts {
        FieldTexts {
            at: at.to_owned(),
            label: "L".to_owned(),
            shown: shown.to_owned(),
            currency: currency.map(str::to_owned),
            minor: true,
        }
    }

    #[test]
    fn stored_bytes_stay_and_formatting_is_beside_them() {
        let text = "{\"total\":1.234500e6,\"currency\":\"EUR\",\"to\":\"ann\\u202e\u{202e}\",\"when\":\"2026-11-30\"}";
        let node = counterfoil::json::parse_str(text, 8).unwrap();
        let texts = Texts {
            fields: vec![
                field("/total", "money", Some("/currency")),
                field("/to", "text", None),
                field("/when", "date", None),
                field("/nothing", "money", Some("EUR")),
            ],
            ..Texts::default()
        };
        let filled = Filled::of(&texts, &node, None);
        let shown: Vec<_> =
            filled.fields.iter().map(|field| (field.stored.as_str(), field.formatted.as_deref())).collect();
        assert_eq!(
            shown,
            [
                ("1.234500e6", Some("12 345.00 EUR")),
                ("\"ann\\u202e\\u{202e}\"", None),
                ("\"2026-11-30\"", Some("Monday, 30 November 2026")),
                ("(not in the arguments)", None),
            ]
        );
    }

    #[test]
    fn look_alikes_are_found_behind_escapes_and_in_names() {
        let warned = |text: &str| {
            let node = counterfoil::json::parse_str(text, 8).unwrap();
            Filled::of(&Texts::default(), &node, None).warning
        };
        assert!(warned(r#"{"to":["p\u0430ypal"]}"#).unwrap().contains("U+0430"));
        assert!(warned("{\"p\u{430}yee\":1}").unwrap().contains("U+0430"));
        // The letter of an escape belongs to no word.
        assert_eq!(warned("{\"note\":\"a\\n\u{41c}\u{43e}\"}"), None);
    }

    #[test]
    fn the_worst_comes_first() {
        let of =
            |word: Option<&str>| Texts { severity: word.map(str::to_owned), ..Texts::default() }.urgency();
        assert!(of(Some("critical")) > of(Some("high")) && of(Some("high")) > of(None));
        assert!(of(Some("normal")) == of(None) && of(Some("low")) < of(Some("?")));
    }
}
