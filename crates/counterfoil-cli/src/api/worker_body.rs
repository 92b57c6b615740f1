//! The bodies of an application's own workers: claims, declarations that come with the code, and reports.

use std::fmt::Write as _;

use counterfoil::destination::Finding;
use counterfoil::executor::{CLAIMS_AT_ONCE, ClaimAsked};
use counterfoil::json::{Content, Node};
use counterfoil::operation::{Body, Marker, ResultBody};
use counterfoil::policy::{Comparison, Condition, DEFAULT_LEASE, Expected, Meaning};
use counterfoil::stated::{Fact, FactKind, MEMBERS, Stated};
use counterfoil::verbs::{LONGEST_LEASE, SHORTEST_LEASE, Told};
use counterfoil::{FencingToken, Pointer, ToolName, WorkerName};
use sha2::{Digest as _, Sha256};

use super::body::{Object, SHALLOW, parse};
use super::millis;
use super::problem::Problem;
use crate::config::Limits;
use crate::config::duration::Length;

/// Bytes of a claim's ID.
const CLAIM_ID: usize = 255;

/// How many tools one call asks for.
const TOOLS: usize = 100;

/// Bytes of what a destination calls the thing that it created.
const REFERENCE: usize = 1024;

/// Levels of nesting in a result.
const RESULT_DEPTH: usize = 128;

/// The longest time that a worker can ask to be left alone for, in milliseconds: a week.
const LONGEST_RETRY_AFTER: u64 = 7 * 24 * 60 * 60 * 1000;

/// The members of a claim.
const CLAIM: [&str; 4] = ["worker", "lease_ms", "claim_id", "declaration"];

/// Reads the body of a claim by ID.
///
/// # Errors
/// `invalid-request`.
pub(super) fn claim(bytes: &[u8]) -> Result<ClaimAsked, Problem> {
    claim_of(&Object::new(&parse(bytes, SHALLOW)?, &CLAIM)?)
}

/// Reads the member `claim` of a prepare.
///
/// # Errors
/// `invalid-request`.
pub(super) fn claim_member(node: &Node<'_>) -> Result<ClaimAsked, Problem> {
    claim_of(&Object::within(node, "claim", &CLAIM)?)
}

fn claim_of(body: &Object<'_, '_>) -> Result<ClaimAsked, Problem> {
    Ok(ClaimAsked {
        worker: worker(body)?,
        lease: lease(body)?,
        claim_id: claim_id(body)?,
        stated: body.node("declaration").map(stated).transpose()?.unwrap_or_default(),
    })
}

fn worker(body: &Object<'_, '_>) -> Result<WorkerName, Problem> {
    let text = body.text("worker")?.ok_or_else(|| Problem::invalid("The member `worker` is missing."))?;
    WorkerName::parse(text)
        .map_err(|error| Problem::invalid(format!("The member `worker` {}.", error.problem)))
}

fn lease(body: &Object<'_, '_>) -> Result<std::time::Duration, Problem> {
    let lease = body.whole("lease_ms")?.map_or(DEFAULT_LEASE, millis);
    if (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
        Ok(lease)
    } else {
        Err(Problem::invalid("The member `lease_ms` is outside 1000 to 3600000."))
    }
}

fn claim_id(body: &Object<'_, '_>) -> Result<Option<String>, Problem> {
    let Some(text) = body.text("claim_id")? else { return Ok(None) };
    if text.is_empty() || text.len() > CLAIM_ID || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail = format!("The member `claim_id` is not 1 to {CLAIM_ID} visible ASCII characters.");
        return Err(Problem::invalid(detail));
    }
    Ok(Some(text.to_owned()))
}

/// What a worker that takes whatever is due asks for.
#[derive(Debug)]
pub(super) struct ClaimsBody {
    /// Who would hold the claims.
    pub(super) asked: ClaimAsked,
    /// Of which tools, each with what the code says of it.
    pub(super) tools: Vec<(ToolName, Stated)>,
    /// How many at the most.
    pub(super) max: usize,
    /// How long to wait.
    pub(super) wait_ms: u64,
}

impl ClaimsBody {
    /// Takes the body apart.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, Problem> {
        let root = parse(bytes, SHALLOW)?;
        let body = Object::new(&root, &["worker", "tools", "lease_ms", "max", "wait_ms"])?;
        let max = body.whole("max")?.unwrap_or(1);
        let max = usize::try_from(max).ok().filter(|max| (1..=CLAIMS_AT_ONCE).contains(max));
        Ok(Self {
            asked: ClaimAsked {
                worker: worker(&body)?,
                lease: lease(&body)?,
                claim_id: None,
                stated: Stated::default(),
            },
            tools: tools(&body)?,
            max: max.ok_or_else(|| {
                Problem::invalid(format!("The member `max` is outside 1 to {CLAIMS_AT_ONCE}."))
            })?,
            wait_ms: body.wait(limits)?.unwrap_or(0),
        })
    }
}

fn tools(body: &Object<'_, '_>) -> Result<Vec<(ToolName, Stated)>, Problem> {
    let wrong = || {
        Problem::invalid("The member `tools` is no list of tools.")
            .hint("As in \"tools\": [{\"name\": \"supplier.create_order\"}].")
    };
    let elements = body.node("tools").and_then(Node::elements).ok_or_else(wrong)?;
    if elements.is_empty() || elements.len() > TOOLS {
        return Err(Problem::invalid(format!("The member `tools` names none, or more than {TOOLS}.")));
    }
    let mut tools: Vec<(ToolName, Stated)> = Vec::with_capacity(elements.len());
    for element in elements {
        let (name, stated) = match element.as_str() {
            Some(name) => (name, Stated::default()),
            None => {
                let tool = Object::within(element, "tools", &["name", "declaration"])?;
                let declared = tool.node("declaration").map(stated).transpose()?;
                (tool.text("name")?.ok_or_else(wrong)?, declared.unwrap_or_default())
            }
        };
        let name = ToolName::parse(name).map_err(|error| {
            Problem::invalid(format!("The member `tools` holds no tool's name: it {}.", error.problem))
        })?;
        if tools.iter().any(|(other, _)| *other == name) {
            return Err(Problem::invalid("The member `tools` names one tool twice."));
        }
        tools.push((name, stated));
    }
    Ok(tools)
}

/// Reads what code says of its tool: the keys of the file's section, any of them.
fn stated(node: &Node<'_>) -> Result<Stated, Problem> {
    let members =
        node.members().ok_or_else(|| Problem::invalid("The member `declaration` is not an object."))?;
    let mut facts = Vec::new();
    for member in members {
        let (name, value) = (member.name(), member.value());
        match value.members() {
            Some(inner) if ["worker", "recovery", "budget", "approval"].contains(&name) => {
                if name == "approval" {
                    facts.push(("approval", Fact::Word("when".to_owned())));
                }
                for member in inner {
                    fact(&format!("{name}.{}", member.name()), member.value(), &mut facts)?;
                }
            }
            Some(_) | None => fact(name, value, &mut facts)?,
        }
    }
    Ok(Stated(facts))
}

fn fact(member: &str, node: &Node<'_>, facts: &mut Vec<(&'static str, Fact)>) -> Result<(), Problem> {
    let Some((member, kind)) = MEMBERS.iter().find(|(known, _)| *known == member) else {
        let hint = "A declaration in code takes the keys of the tool's section in the file: recovery, budget, worker, \
                    approval, retention and the like.";
        return Err(Problem::invalid(
            "The member `declaration` says something that no worker's tool has, or nothing.",
        )
        .hint(hint));
    };
    if *node.content() == Content::Null {
        return Ok(());
    }
    let wrong = || Problem::invalid(format!("The member `declaration.{member}` is of another type."));
    let length = |text: &str| Length::parse(text).map(|length| Fact::Length(length.0)).map_err(|_| wrong());
    let fact = match (kind, node.content()) {
        (FactKind::Length, Content::String(_)) => length(node.as_str().ok_or_else(wrong)?)?,
        (FactKind::LengthOrForever, Content::String(_)) => match node.as_str().ok_or_else(wrong)? {
            "forever" => Fact::Word("forever".to_owned()),
            text => length(text)?,
        },
        (FactKind::Word, Content::String(_)) => Fact::Word(node.as_str().ok_or_else(wrong)?.to_owned()),
        (FactKind::Number, Content::Number(digits)) => Fact::Number(digits.parse().map_err(|_| wrong())?),
        (FactKind::Flag, Content::Bool(flag)) => Fact::Flag(*flag),
        (FactKind::Words, Content::Array(_)) => {
            let texts = node.elements().unwrap_or_default().iter().map(|one| one.as_str().map(str::to_owned));
            let mut words = texts.collect::<Option<Vec<String>>>().ok_or_else(wrong)?;
            words.sort();
            Fact::Words(words)
        }
        (FactKind::Conditions, Content::Array(_)) => {
            let rows = node.elements().unwrap_or_default().iter().map(condition);
            Fact::Conditions(rows.collect::<Option<_>>().ok_or_else(wrong)?)
        }
        (
            FactKind::Length
            | FactKind::LengthOrForever
            | FactKind::Word
            | FactKind::Number
            | FactKind::Flag
            | FactKind::Words
            | FactKind::Conditions,
            _,
        ) => return Err(wrong()),
    };
    facts.push((member, fact));
    Ok(())
}

/// A condition as the file spells it: `at`, and one comparison. A bound may be a text that holds a number.
fn condition(node: &Node<'_>) -> Option<Condition> {
    let members = node.members()?;
    let [one, other] = members else { return None };
    let (at, asked) = if one.name() == "at" { (one, other) } else { (other, one) };
    let bound = |value: &Node<'_>| match value.content() {
        Content::Number(digits) => Some((*digits).to_owned()),
        Content::String(_) => {
            let text = value.as_str()?;
            let read = counterfoil::json::parse_str(text, 1).ok()?;
            matches!(read.content(), Content::Number(_)).then(|| text.to_owned())
        }
        Content::Null | Content::Bool(_) | Content::Array(_) | Content::Object(_) => None,
    };
    let value = asked.value();
    let is = match asked.name() {
        "greater_than" => Comparison::GreaterThan(bound(value)?),
        "less_than" => Comparison::LessThan(bound(value)?),
        "equals" => Comparison::Equals(match value.content() {
            Content::String(_) => Expected::Text(value.as_str()?.to_owned()),
            Content::Number(digits) => Expected::Number((*digits).to_owned()),
            Content::Bool(flag) => Expected::Bool(*flag),
            Content::Null | Content::Array(_) | Content::Object(_) => return None,
        }),
        _ => return None,
    };
    let at = (at.name() == "at").then(|| at.value().as_str()).flatten()?;
    Some(Condition { at: Pointer::parse(at).ok()?, is })
}

/// Reads a heartbeat: the claim that it is for.
///
/// # Errors
/// `invalid-request`.
pub(super) fn heartbeat(bytes: &[u8]) -> Result<FencingToken, Problem> {
    fence(&Object::new(&parse(bytes, SHALLOW)?, &["fencing_token"])?)
}

fn fence(body: &Object<'_, '_>) -> Result<FencingToken, Problem> {
    let token = body.whole("fencing_token")?;
    token.map(FencingToken).ok_or_else(|| Problem::invalid("The member `fencing_token` is missing."))
}

/// Reads a report.
///
/// # Errors
/// `invalid-request`.
pub(super) fn outcome(bytes: &[u8], limits: &Limits) -> Result<(FencingToken, Told), Problem> {
    const ALL: [&str; 8] =
        ["fencing_token", "outcome", "reference", "result", "reason", "retry_after_ms", "marker", "count"];
    let root = parse(bytes, RESULT_DEPTH)?;
    let body = Object::new(&root, &ALL)?;
    let word = body.text("outcome")?.unwrap_or_default();
    let takes: &[&str] = match word {
        "succeeded" => &["reference", "result"],
        "rejected" => &["reason"],
        "not_sent" | "pending" | "absent" => &[],
        "throttled" => &["retry_after_ms"],
        "unknown" => &["marker"],
        "found" => &["reference", "result", "count"],
        _ => {
            return Err(Problem::invalid("The member `outcome` is missing or none of the outcomes.").hint(
                "Outcomes: succeeded, rejected, not_sent, throttled, pending, unknown; for investigations found, \
                 absent, unknown.",
            ));
        }
    };
    let stray = ALL.iter().skip(2).find(|name| body.node(name).is_some() && !takes.contains(name));
    if let Some(stray) = stray {
        return Err(Problem::invalid(format!("The member `{stray}` does not go with this outcome.")));
    }
    let (reference, result) = (reference(&body)?, body.node("result").map(|node| result(node, limits)));
    let sent = |meaning, error: &str| Finding {
        meaning,
        error: Some(error.to_owned()).filter(|error| !error.is_empty()),
        ..Finding::unknown(Marker::BytesWritten, "")
    };
    let told = match word {
        "succeeded" => Told::Sent(Finding { reference, result, ..sent(Meaning::Succeeded, "") }),
        "rejected" => {
            let reason = match body.node("reason") {
                Some(_) => Some(body.words("reason")?.as_str().to_owned()),
                None => None,
            };
            Told::Sent(Finding { reason, ..sent(Meaning::Rejected, "refused by the destination") })
        }
        "not_sent" => {
            Told::Sent(Finding::not_sent(Marker::NotConnected, "the worker reports that nothing was sent"))
        }
        "throttled" => {
            let retry_after = body.whole("retry_after_ms")?;
            if retry_after.is_some_and(|wait| wait > LONGEST_RETRY_AFTER) {
                let detail = format!("The member `retry_after_ms` is more than {LONGEST_RETRY_AFTER}.");
                return Err(Problem::invalid(detail));
            }
            let retry_after = retry_after.map(millis);
            Told::Sent(Finding { retry_after, ..sent(Meaning::Throttled, "refused before work") })
        }
        "pending" => Told::Sent(sent(Meaning::Pending, "accepted, and not done yet")),
        "found" => {
            let count = body.whole("count")?.unwrap_or(1);
            if count == 0 {
                return Err(Problem::invalid("The member `count` is 0: then the outcome is `absent`."));
            }
            Told::Found { reference, result, count }
        }
        "absent" => Told::Absent,
        _ => {
            let marker = marker(&body)?;
            Told::Sent(Finding::unknown(marker, "the worker could not tell"))
        }
    };
    Ok((fence(&body)?, told))
}

fn reference(body: &Object<'_, '_>) -> Result<Option<String>, Problem> {
    let Some(text) = body.text("reference")? else { return Ok(None) };
    if text.is_empty() || text.len() > REFERENCE {
        return Err(Problem::invalid(format!(
            "The member `reference` is empty or longer than {REFERENCE} bytes."
        )));
    }
    Ok(Some(text.to_owned()))
}

fn marker(body: &Object<'_, '_>) -> Result<Marker, Problem> {
    match body.text("marker")? {
        // Whoever does not say how far it came may have written everything.
        None | Some("bytes_written") => Ok(Marker::BytesWritten),
        Some("connected") => Ok(Marker::Connected),
        Some("not_connected") => Ok(Marker::NotConnected),
        Some(_) => Err(Problem::invalid(
            "The member `marker` is none of `not_connected`, `connected` and `bytes_written`.",
        )),
    }
}

/// The result, byte for byte; of one that is too large to keep, digest and size.
fn result(node: &Node<'_>, limits: &Limits) -> ResultBody {
    let text = node.raw();
    let fits = text.len() <= limits.result_bytes;
    ResultBody {
        status: None,
        content_type: Some("application/json".to_owned()),
        body: fits.then(|| Body::Json(text.to_owned())),
        size: text.len() as u64,
        digest: format!("sha256:{}", hex(&Sha256::digest(text.as_bytes()))),
        truncated: !fits,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str) -> Result<(FencingToken, Told), Problem> {
        outcome(body.as_bytes(), &Limits::default())
    }

    #[test]
    fn a_result_is_kept_as_written_and_a_large_one_by_digest() {
        let (fence, kept) =
            told(r#"{"fencing_token":7,"outcome":"succeeded","reference":"po_1","result":{ "b":1.50 }}"#)
                .unwrap();
        let Told::Sent(kept) = kept else { panic!("not a report on an attempt") };
        assert_eq!((fence, kept.reference.as_deref()), (FencingToken(7), Some("po_1")));
        assert_eq!(kept.result.unwrap().body, Some(Body::Json("{ \"b\":1.50 }".to_owned())));
        let large = format!(r#"{{"fencing_token":7,"outcome":"found","result":"{}"}}"#, "x".repeat(2 << 20));
        let (_, Told::Found { result: Some(result), count: 1, .. }) = told(&large).unwrap() else {
            panic!("not found")
        };
        assert_eq!((result.body, result.truncated, result.size), (None, true, (2 << 20) + 2));
    }

    #[test]
    fn a_member_that_does_not_go_with_the_outcome_is_refused() {
        for body in [
            r#"{"fencing_token":7}"#,
            r#"{"outcome":"absent"}"#,
            r#"{"fencing_token":-7,"outcome":"absent"}"#,
            r#"{"fencing_token":7,"outcome":"done"}"#,
            r#"{"fencing_token":7,"outcome":"absent","reference":"po_1"}"#,
            r#"{"fencing_token":7,"outcome":"not_sent","marker":"connected"}"#,
            r#"{"fencing_token":7,"outcome":"unknown","marker":"half"}"#,
            r#"{"fencing_token":7,"outcome":"found","count":0}"#,
            r#"{"fencing_token":7,"outcome":"succeeded","reference":""}"#,
            r#"{"fencing_token":7,"outcome":"throttled","retry_after_ms":604800001}"#,
            r#"{"fencing_token":7,"outcome":"rejected","reason":" "}"#,
        ] {
            assert_eq!(told(body).unwrap_err().code(), "invalid-request", "{body}");
        }
    }

    #[test]
    fn code_states_what_the_file_can_say_and_nothing_else() {
        let asked = claim(
            br#"{"worker":"w1","lease_ms":5000,"claim_id":"c1","declaration":{"approval":"none",
                "recovery":{"kind":"lookup","lookup":"worker","queue_time":"30s","authoritative":true},
                "budget":{"attempts":3},"volatile":["/b","/a"],"retention":null}}"#,
        )
        .unwrap();
        let words = Fact::Words(vec!["/a".to_owned(), "/b".to_owned()]);
        assert_eq!(asked.stated.0.len(), 7);
        assert!(asked.stated.0.contains(&("volatile", words)));
        assert!(
            asked
                .stated
                .0
                .contains(&("recovery.queue_time", Fact::Length(std::time::Duration::from_secs(30))))
        );
        for declaration in
            [r#""x""#, r#"{"http":{}}"#, r#"{"recovery":{"kind":1}}"#, r#"{"budget":{"elapsed":"soon"}}"#]
        {
            let body = format!(r#"{{"worker":"w1","declaration":{declaration}}}"#);
            assert_eq!(claim(body.as_bytes()).unwrap_err().code(), "invalid-request", "{declaration}");
        }
        for lease in ["0", "1", "999", "3600001", "-1", "1e3"] {
            let body = format!(r#"{{"worker":"w1","lease_ms":{lease}}}"#);
            assert_eq!(claim(body.as_bytes()).unwrap_err().code(), "invalid-request", "{lease}");
        }
    }
}
