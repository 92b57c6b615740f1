//! Request bodies: read up to a limit, in bounded time, by the strict reader of the library, and taken apart by hand so
//! that the arguments stay the exact bytes that the caller wrote.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use counterfoil::executor::ClaimAsked;
use counterfoil::fingerprint::ArgumentsError;
use counterfoil::id::{NameError, Subject};
use counterfoil::json::{self, Content, JsonError, JsonReason, Node};
use counterfoil::verbs::{Verdict, Words};
use counterfoil::{Arguments, Fingerprint, OperationId, Task, Timestamp, ToolName};
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;

use super::problem::{Problem, shown};
use super::worker_body;
use crate::config::Limits;

/// Room in a body for everything beside the arguments.
const BESIDE_ARGUMENTS: usize = 64 * 1024;

/// Bytes of a body that carries no arguments.
const SMALL: usize = 16 * 1024;

/// Bytes of a worker's report. A result above the limit of results is kept by its digest, and one above this is refused.
const REPORT: usize = 4 * 1024 * 1024;

/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

/// Bytes of `accepted_by`.
const ACCEPTED_BY: usize = 1024;

/// How many operations one may be declared distinct from.
const DISTINCT: usize = 100;

/// Reads a body that holds arguments.
///
/// # Errors
/// `too-large`, `unsupported-media-type`, or `invalid-request` where it does not arrive, or not in time.
pub(super) async fn large(headers: &HeaderMap, body: Body, limits: &Limits) -> Result<Bytes, Problem> {
    read(headers, body, longest(limits)).await
}

/// The longest body of any call.
pub(super) fn longest(limits: &Limits) -> usize {
    limits.arguments_bytes + BESIDE_ARGUMENTS
}

/// Reads a body that holds no arguments.
///
/// # Errors
/// As [`large`].
pub(super) async fn small(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    read(headers, body, SMALL).await
}

/// Reads the bytes of a webhook, whatever they say they are.
///
/// # Errors
/// `too-large`, or `invalid-request` where it does not arrive, or not in time.
pub(super) async fn raw(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    arrived(headers, body, limit).await
}

/// Reads a worker's report, whose result may be large.
///
/// # Errors
/// As [`large`].
pub(super) async fn report(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    read(headers, body, REPORT).await.map_err(|problem| match problem.code() {
        "too-large" => problem.hint("Report the outcome again without the result: it must not get lost."),
        _ => problem,
    })
}

async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let bytes = arrived(headers, body, limit).await?;
    if !bytes.is_empty() {
        check_type(headers)?;
    }
    Ok(bytes)
}

async fn arrived(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || Problem::new("too-large", format!("The body is larger than {limit} bytes."));
    if declared_length(headers).is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let bytes = tokio::time::timeout(ARRIVES_WITHIN, collect(body, limit)).await;
    match bytes {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(too_large()),
        Ok(Err(_)) => Err(Problem::invalid("The body ended before it was complete.")),
        Err(_) => Err(Problem::invalid("The body did not arrive in time.")),
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The whole body, or nothing where it is larger than `limit`. One that came in one piece is not copied.
async fn collect(mut body: Body, limit: usize) -> Result<Option<Bytes>, axum::Error> {
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len() > limit {
            return Ok(None);
        }
        if first.is_none() {
            first = Some(data);
        } else {
            rest.extend_from_slice(&data);
        }
    }
    let first = first.unwrap_or_default();
    if rest.is_empty() {
        return Ok(Some(first));
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(Some(whole.freeze()))
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    const WRONG: &str = "unsupported-media-type";
    if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(Problem::new(WRONG, "Compressed bodies are not read."));
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut parts = kind.split(';').map(str::trim);
    let json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let utf8 = parts.all(|parameter| {
        parameter.split_once('=').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("charset") && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
    });
    if json && utf8 {
        Ok(())
    } else {
        Err(Problem::new(WRONG, "The body must be application/json in UTF-8."))
    }
}

/// What a prepare asks for.
#[derive(Debug)]
pub(super) struct PutBody {
    /// Which kind of action.
    pub(super) tool: ToolName,
    /// The exact arguments.
    pub(super) arguments: Arguments,
    /// The agent run it belongs to.
    pub(super) task: Option<Task>,
    /// What it is about.
    pub(super) subject: Option<Subject>,
    /// The proposal that it changes.
    pub(super) replaces: Option<OperationId>,
    /// Operations that this is deliberately distinct from.
    pub(super) distinct_from: Vec<OperationId>,
    /// Who or what accepted the proposal, as written.
    pub(super) accepted_by: Option<String>,
    /// Whether it shall run as soon as it may.
    pub(super) execute: bool,
    /// How long to wait.
    pub(super) wait_ms: Option<u64>,
    /// Say what would happen, store nothing.
    pub(super) dry_run: bool,
    /// A worker that carries it out itself, if it may.
    pub(super) claim: Option<ClaimAsked>,
}

impl PutBody {
    /// Takes a prepare apart.
    ///
    /// # Errors
    /// `invalid-request`, `invalid-arguments` or `too-large`.
    pub(super) fn parse(bytes: &[u8], id: &OperationId, limits: &Limits) -> Result<Self, Problem> {
        let root = parse(bytes, limits.depth)?;
        let body = Object::new(
            &root,
            &[
                "tool",
                "arguments",
                "task",
                "subject",
                "replaces",
                "distinct_from",
                "accepted_by",
                "execute",
                "wait_ms",
                "dry_run",
                "claim",
            ],
        )?;
        let tool = body.text("tool")?.ok_or_else(|| Problem::invalid("The member `tool` is missing."))?;
        let tool = ToolName::parse(tool).map_err(|error| {
            Problem::invalid(format!("The member `tool` is no tool's name: {}.", error.problem))
        })?;
        let arguments = body.node("arguments");
        let arguments =
            arguments.ok_or_else(|| Problem::new("invalid-arguments", "There are no arguments."))?;
        let arguments = Arguments::of_node(arguments).and_then(|arguments| {
            let limit = limits.arguments_bytes;
            if arguments.as_str().len() > limit {
                Err(ArgumentsError::TooLarge { limit })
            } else {
                Ok(arguments)
            }
        });
        let claim = body.node("claim").map(worker_body::claim_member).transpose()?;
        let distinct_from = body.ids("distinct_from")?;
        if distinct_from.contains(id) {
            return Err(Problem::invalid("The member `distinct_from` names the operation itself."));
        }
        let replaces = body.text("replaces")?.map(|text| member_id("replaces", text)).transpose()?;
        if replaces.as_ref() == Some(id) {
            return Err(Problem::invalid("The member `replaces` names the operation itself."));
        }
        Ok(Self {
            tool,
            arguments: arguments.map_err(arguments_problem)?,
            task: body.name("task", limits.task_bytes, Task::parse)?,
            subject: body.name("subject", limits.subject_bytes, Subject::parse)?,
            replaces,
            distinct_from,
            accepted_by: body.object("accepted_by", ACCEPTED_BY)?,
            // Whoever claims wants it to run.
            execute: body.flag("execute")? || claim.is_some(),
            wait_ms: body.wait(limits)?,
            dry_run: body.flag("dry_run")?,
            claim,
        })
    }
}

/// The body of an execute.
///
/// # Errors
/// `invalid-request`.
pub(super) fn wait_only(bytes: &[u8], limits: &Limits) -> Result<Option<u64>, Problem> {
    let Some(root) = parse_optional(bytes)? else { return Ok(None) };
    Object::new(&root, &["wait_ms"])?.wait(limits)
}

/// What an approver says yes to.
#[derive(Debug)]
pub(super) struct ApproveBody {
    /// What was shown.
    pub(super) fingerprint: Fingerprint,
    /// A succeeded operation that is no obstacle.
    pub(super) acknowledges: Option<OperationId>,
    /// The version that was shown.
    pub(super) if_version: Option<u64>,
}

impl ApproveBody {
    /// Takes an approval apart.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let root = parse(bytes, SHALLOW)?;
        let body = Object::new(&root, &["fingerprint", "acknowledges", "if_version"])?;
        let text = body.text("fingerprint")?;
        let text = text.ok_or_else(|| Problem::invalid("The member `fingerprint` is missing."))?;
        let fingerprint = Fingerprint::parse(text)
            .map_err(|error| Problem::invalid(format!("The member `fingerprint` is none: {error}.")))?;
        let acknowledges =
            body.text("acknowledges")?.map(|text| member_id("acknowledges", text)).transpose()?;
        Ok(Self { fingerprint, acknowledges, if_version: body.whole("if_version")? })
    }
}

/// What a person settles.
#[derive(Debug)]
pub(super) struct ResolveBody {
    /// What was established.
    pub(super) verdict: Verdict,
    /// How.
    pub(super) note: Words,
    /// The version that was shown.
    pub(super) if_version: Option<u64>,
}

impl ResolveBody {
    /// Takes a verdict apart.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let root = parse(bytes, SHALLOW)?;
        let known = ["verdict", "reference", "note", "allow_another_attempt", "if_version"];
        let body = Object::new(&root, &known)?;
        let text = body.text("verdict")?.unwrap_or_default();
        let (reference, another) = (body.node("reference"), body.flag("allow_another_attempt")?);
        let verdict = match text {
            "succeeded" => Verdict::Succeeded { reference: body.words("reference")? },
            "confirmed_absent" => Verdict::ConfirmedAbsent { allow_another_attempt: another },
            "abandoned" => Verdict::Abandoned,
            "acknowledged" => Verdict::Acknowledged,
            _ => {
                let detail = "The member `verdict` is missing or none of the verdicts.";
                return Err(Problem::invalid(detail)
                    .hint("Verdicts: succeeded, confirmed_absent, abandoned, acknowledged."));
            }
        };
        let (may_name, may_allow) = match verdict {
            Verdict::Succeeded { .. } => (true, false),
            Verdict::ConfirmedAbsent { .. } => (false, true),
            Verdict::Abandoned | Verdict::Acknowledged => (false, false),
        };
        for (stands, name) in [
            (reference.is_some() && !may_name, "reference"),
            (another && !may_allow, "allow_another_attempt"),
        ] {
            if stands {
                return Err(Problem::invalid(format!("The member `{name}` does not go with this verdict.")));
            }
        }
        Ok(Self { verdict, note: body.words("note")?, if_version: body.whole("if_version")? })
    }
}

/// The note of a release, and the version that was shown.
///
/// # Errors
/// `invalid-request`.
pub(super) fn release(bytes: &[u8]) -> Result<(Words, Option<u64>), Problem> {
    let root = parse(bytes, SHALLOW)?;
    let body = Object::new(&root, &["note", "if_version"])?;
    Ok((body.words("note")?, body.whole("if_version")?))
}

/// The text of a note, and when its writer wants to be reminded.
///
/// # Errors
/// `invalid-request`.
pub(super) fn note(bytes: &[u8]) -> Result<(Words, Option<Timestamp>), Problem> {
    let root = parse(bytes, SHALLOW)?;
    let body = Object::new(&root, &["text", "remind_at"])?;
    let remind_at = body.text("remind_at")?.map(|text| {
        Timestamp::parse(text)
            .ok_or_else(|| Problem::invalid("The member `remind_at` is no RFC 3339 time in UTC."))
    });
    Ok((body.words("text")?, remind_at.transpose()?))
}

/// The one text that a denial, a pause or a resume must carry.
///
/// # Errors
/// `invalid-request` where it is missing, empty or too long.
pub(super) fn one_text(bytes: &[u8], name: &'static str) -> Result<String, Problem> {
    let root = parse(bytes, SHALLOW)?;
    let body = Object::new(&root, &[name])?;
    let text = body.text(name)?.filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| Problem::invalid(format!("The member `{name}` is missing or empty.")))?;
    if text.len() > Words::MOST {
        return Err(Problem::invalid(format!("The member `{name}` is longer than {} bytes.", Words::MOST)));
    }
    Ok(text.to_owned())
}

/// A call that takes no members.
///
/// # Errors
/// `invalid-request`.
pub(super) fn nothing(bytes: &[u8]) -> Result<(), Problem> {
    let Some(root) = parse_optional(bytes)? else { return Ok(()) };
    Object::new(&root, &[]).map(|_| ())
}

/// The depth of a body that holds no arguments: nothing in it nests.
pub(super) const SHALLOW: usize = 8;

fn parse_optional(bytes: &[u8]) -> Result<Option<Node<'_>>, Problem> {
    if bytes.is_empty() { Ok(None) } else { parse(bytes, SHALLOW).map(Some) }
}

/// Reads a body whose `arguments` may nest `depth` levels.
///
/// # Errors
/// `invalid-request` or `invalid-arguments`.
pub(super) fn parse(bytes: &[u8], depth: usize) -> Result<Node<'_>, Problem> {
    if bytes.is_empty() {
        return Err(Problem::invalid("There is no body."));
    }
    json::parse(bytes, depth + 1).map_err(|error| refuse(bytes, error))
}

/// A text that is no strict JSON: the arguments' fault where it lies inside them.
fn refuse(bytes: &[u8], error: JsonError) -> Problem {
    let code = if inside_arguments(bytes, error) { "invalid-arguments" } else { "invalid-request" };
    Problem::new(code, format!("The body is refused: {error}."))
}

/// Whether the byte at which the reader stopped belongs to the value of the member `arguments`.
fn inside_arguments(bytes: &[u8], error: JsonError) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let (mut text_from, mut last_text) = (0, 0..0);
    let mut value_of_arguments = false;
    for (at, byte) in bytes.iter().enumerate().take(error.offset) {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    in_text = false;
                    last_text = text_from..at;
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                in_text = true;
                text_from = at + 1;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => value_of_arguments = bytes.get(last_text.clone()) == Some(b"arguments"),
            b',' if depth == 1 => value_of_arguments = false,
            _ => {}
        }
    }
    let of_a_value = error.reason != JsonReason::TrailingData;
    value_of_arguments && of_a_value && depth >= 1
}

fn arguments_problem(error: ArgumentsError) -> Problem {
    match error {
        ArgumentsError::TooLarge { limit } => {
            Problem::new("too-large", format!("The arguments are larger than {limit} bytes."))
        }
        ArgumentsError::NotAnObject => {
            Problem::new("invalid-arguments", "The arguments are not a JSON object.")
        }
        ArgumentsError::Invalid { reason, .. } => {
            Problem::new("invalid-arguments", format!("The arguments are refused: {}.", reason.text()))
        }
    }
}

fn member_id(name: &str, text: &str) -> Result<OperationId, Problem> {
    OperationId::parse(text).map_err(|error| {
        Problem::invalid(format!("The member `{name}` holds no operation ID: it {}.", error.problem))
    })
}

/// The members of a body, all of them known.
pub(super) struct Object<'n, 'a> {
    root: &'n Node<'a>,
}

impl<'n, 'a> Object<'n, 'a> {
    /// The whole body.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn new(root: &'n Node<'a>, known: &[&str]) -> Result<Self, Problem> {
        Self::of(root, "The body is not a JSON object.".to_owned(), known)
    }

    /// A member of it.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn within(root: &'n Node<'a>, name: &str, known: &[&str]) -> Result<Self, Problem> {
        Self::of(root, format!("The member `{name}` is not an object."), known)
    }

    fn of(root: &'n Node<'a>, wrong: String, known: &[&str]) -> Result<Self, Problem> {
        let members = root.members().ok_or_else(|| Problem::invalid(wrong))?;
        let Some(stranger) = members.iter().find(|member| !known.contains(&member.name())) else {
            return Ok(Self { root });
        };
        let name = stranger.name();
        let hint = format!("Known members here: {}.", known.join(", "));
        Err(Problem::invalid(format!("There is an unknown member {}.", shown(name))).hint(hint))
    }

    /// A member that is there and not `null`.
    pub(super) fn node(&self, name: &str) -> Option<&'n Node<'a>> {
        self.root.member(name).filter(|node| *node.content() != Content::Null)
    }

    /// A text.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'n str>, Problem> {
        let wrong = || Problem::invalid(format!("The member `{name}` is not a text."));
        self.node(name).map(|node| node.as_str().ok_or_else(wrong)).transpose()
    }

    /// A text that must be there and say something.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn words(&self, name: &str) -> Result<Words, Problem> {
        Words::parse(self.text(name)?.unwrap_or_default()).ok_or_else(|| {
            Problem::invalid(format!(
                "The member `{name}` is missing, empty or longer than {} bytes.",
                Words::MOST
            ))
        })
    }

    fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.node(name).map(Node::content) {
            None => Ok(false),
            Some(Content::Bool(value)) => Ok(*value),
            Some(
                Content::Null
                | Content::Number(_)
                | Content::String(_)
                | Content::Array(_)
                | Content::Object(_),
            ) => Err(Problem::invalid(format!("The member `{name}` is neither true nor false."))),
        }
    }

    /// A whole number.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>, Problem> {
        let wrong = || Problem::invalid(format!("The member `{name}` is not a whole number."));
        match self.node(name).map(Node::content) {
            None => Ok(None),
            Some(Content::Number(digits)) => digits.parse().map(Some).map_err(|_| wrong()),
            Some(
                Content::Null
                | Content::Bool(_)
                | Content::String(_)
                | Content::Array(_)
                | Content::Object(_),
            ) => Err(wrong()),
        }
    }

    /// How long to wait, in milliseconds.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn wait(&self, limits: &Limits) -> Result<Option<u64>, Problem> {
        let wait = self.whole("wait_ms")?;
        wait.map(|wait| check_wait(wait, limits)).transpose()
    }

    /// A text of the application that names something.
    fn name<T>(
        &self,
        name: &str,
        most: usize,
        read: impl Fn(&str) -> Result<T, NameError>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if text.len() > most {
            return Err(Problem::invalid(format!("The member `{name}` is longer than {most} bytes.")));
        }
        read(text)
            .map(Some)
            .map_err(|error| Problem::invalid(format!("The member `{name}` {}.", error.problem)))
    }

    fn ids(&self, name: &str) -> Result<Vec<OperationId>, Problem> {
        let Some(node) = self.node(name) else { return Ok(Vec::new()) };
        let wrong = || Problem::invalid(format!("The member `{name}` is not a list of operation IDs."));
        let elements = node.elements().ok_or_else(wrong)?;
        if elements.len() > DISTINCT {
            return Err(Problem::invalid(format!(
                "The member `{name}` names more than {DISTINCT} operations."
            )));
        }
        elements.iter().map(|node| member_id(name, node.as_str().ok_or_else(wrong)?)).collect()
    }

    /// A free object, exactly as written.
    fn object(&self, name: &str, limit: usize) -> Result<Option<String>, Problem> {
        let Some(node) = self.node(name) else { return Ok(None) };
        if node.members().is_none() {
            return Err(Problem::invalid(format!("The member `{name}` is not an object.")));
        }
        if node.raw().len() > limit {
            return Err(Problem::invalid(format!("The member `{name}` is larger than {limit} bytes.")));
        }
        Ok(Some(node.raw().to_owned()))
    }
}

/// A wait within the limit; a longer one is refused, not cut.
///
/// # Errors
/// `invalid-request`.
pub(super) fn check_wait(wait: u64, limits: &Limits) -> Result<u64, Problem> {
    let most = u64::try_from(limits.wait.as_millis()).unwrap_or(u64::MAX);
    if wait <= most { Ok(wait) } else { Err(Problem::invalid(format!("`wait_ms` is more than {most}."))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(body: &str) -> Result<PutBody, Problem> {
        PutBody::parse(body.as_bytes(), &OperationId::parse("op-1").unwrap(), &Limits::default())
    }

    #[test]
    fn arguments_are_the_bytes_as_written() {
        let body =
            put(r#"{"tool":"t", "arguments" : { "b":1.50,"a":[ 1 ] } ,"accepted_by":{ "x": 1 }}"#).unwrap();
        assert_eq!(body.arguments.as_str(), r#"{ "b":1.50,"a":[ 1 ] }"#);
        assert_eq!(body.accepted_by.as_deref(), Some(r#"{ "x": 1 }"#));
    }

    #[test]
    fn a_fault_is_attributed_to_the_part_that_has_it() {
        for (body, code) in [
            (r#"{"tool":"t","arguments":{"a":1,"a":2}}"#, "invalid-arguments"),
            (r#"{"tool":"t","arguments":{"a":"\ud800"}}"#, "invalid-arguments"),
            (r#"{"tool":"t","arguments":{"a":1e99999}}"#, "invalid-arguments"),
            (r#"{"tool":"t","arguments":[1]}"#, "invalid-arguments"),
            (r#"{"tool":"t"}"#, "invalid-arguments"),
            (r#"{"tool":"t","arguments":{},"tool":"u"}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"arguments":{}}"#, "invalid-request"),
            (r#"{"tool":"arguments","task":{"a":1,"a":1}}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{}} x"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"wait_ms":120001}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"wait_ms":1e3}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"wait_ms":-1}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"execute":"yes"}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"task":"anna@example.com"}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"distinct_from":["op-1"]}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"subject":"anna@example.com"}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"subject":""}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"replaces":"op-1"}"#, "invalid-request"),
            (r#"{"tool":"t","arguments":{},"replaces":["op-2"]}"#, "invalid-request"),
            (r#"[]"#, "invalid-request"),
            ("", "invalid-request"),
        ] {
            assert_eq!(put(body).unwrap_err().code(), code, "{body}");
        }
    }

    #[test]
    fn names_are_repeated_only_where_they_are_harmless() {
        let refused = |body: &str| serde_json::to_string(&put(body).unwrap_err()).unwrap();
        assert!(refused(r#"{"tool":"t","arguments":{},"retries":3}"#).contains("`retries`"));
        assert!(!refused(r#"{"tool":"t","arguments":{},"<b>anna":3}"#).contains("anna"));
    }
}
