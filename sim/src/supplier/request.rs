//! A request as the supplier saw it, and what it finds in it.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::fault::Fault;
use crate::wire;

/// A request whose head, at least, was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenRequest {
    /// Counts the requests of which a first byte arrived, from 1. A request that was closed before
    /// it was read leaves a gap.
    pub number: u64,
    /// Counts the connections, from 1.
    pub connection: u64,
    /// The method.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// Headers in their order.
    pub headers: Vec<(String, String)>,
    /// The body as sent, without chunk framing. Empty when it was not read.
    pub body: Vec<u8>,
    /// Whether the body was read to its end.
    pub complete: bool,
    /// When, in the supplier's time.
    pub at: Duration,
    /// What befell it.
    pub fault: Option<Fault>,
}

impl SeenRequest {
    /// The first header of that name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        wire::header(&self.headers, name)
    }

    /// The target without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Whether the method promises to change nothing.
    #[must_use]
    pub fn is_lookup(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    /// Whether the text occurs in the target (as sent or decoded), a header's value or the body.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.target.contains(text)
            || percent_decode_str(&self.target).decode_utf8_lossy().contains(text)
            || self.headers.iter().any(|(_, value)| value.contains(text))
            || (!text.is_empty() && self.body.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    /// A named value, wherever the caller was told to put it: a header, the query, a member of a
    /// JSON body (a pointer if the name starts with `/`), a field of a form.
    pub(super) fn named(&self, name: &str) -> Option<String> {
        self.header(name)
            .map(str::to_owned)
            .or_else(|| form_field(self.target.split_once('?')?.1, name))
            .or_else(|| self.body_member(name))
    }

    fn body_member(&self, name: &str) -> Option<String> {
        let kind = self.header("content-type").unwrap_or_default();
        if kind.starts_with("application/x-www-form-urlencoded") {
            return form_field(std::str::from_utf8(&self.body).ok()?, name);
        }
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let member = if name.starts_with('/') { body.pointer(name) } else { body.get(name) }?;
        match member {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The last segment of the path, for destinations that take the key there.
    pub(super) fn last_segment(&self) -> Option<String> {
        let (_, last) = self.path().rsplit_once('/')?;
        Some(percent_decode_str(last).decode_utf8_lossy().into_owned()).filter(|last| !last.is_empty())
    }
}

fn form_field(text: &str, name: &str) -> Option<String> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(own, value)| (decode(own) == name).then(|| decode(value)))
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
