//! What is said: account, tool, operation, how it stands, and a link. Never arguments, receipts, notes or anything else
//! that somebody outside wrote, but for the operation's ID, which is made inert. Pure.

use counterfoil::Timestamp;
use counterfoil::http::{Secret, webhook};
use counterfoil::notice::{Notice, Occasion};
use serde_json::json;

use crate::api::segment;

/// A link to the operation: absolute where the console's address is known.
pub(super) fn link(console: Option<&str>, notice: &Notice) -> String {
    format!("{}/console/o/{}", console.unwrap_or_default(), segment(&notice.operation))
}

/// The body of a webhook. The same for each time it is said.
pub(super) fn webhook(notice: &Notice, link: &str) -> Vec<u8> {
    let body = json!({
        "type": format!("operation.{}", notice.occasion.label()),
        "timestamp": notice.at.to_string(),
        "data": {
            "account": notice.account.as_str(),
            "tool": notice.tool.as_str(),
            "operation_id": notice.operation.as_str(),
            "version": notice.version,
            "state": notice.state,
            "next": { "action": notice.next.0, "reason": notice.next.1 },
            "link": link,
        },
    });
    body.to_string().into_bytes()
}

/// The headers of a webhook, signed for this time of saying it; nothing where the secret is none.
pub(super) fn signed(
    notice: &Notice,
    secret: &Secret,
    now: Timestamp,
    body: &[u8],
) -> Option<Vec<(&'static str, String)>> {
    let signature = webhook::sign(secret, &notice.event, now, body).ok()?;
    let [id, at, signatures] = webhook::STANDARD_HEADERS;
    Some(vec![(id, notice.event.clone()), (at, webhook::seconds(now).to_string()), (signatures, signature)])
}

/// The body for an incoming webhook of Slack: nothing in it is formatted, linked or unfolded.
pub(super) fn slack(notice: &Notice, link: &str) -> Vec<u8> {
    let text = format!("{}\n{}", headline(notice), lines(notice, link).join("\n"));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let body = json!({
        "text": text,
        "mrkdwn": false,
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
    });
    body.to_string().into_bytes()
}

/// One line for people.
pub(super) fn headline(notice: &Notice) -> String {
    let tool = &notice.tool;
    match notice.occasion {
        Occasion::Held => format!("{tool}: somebody must look, no rule can tell what became of it"),
        Occasion::Settled => format!("{tool}: settled, {}", notice.state),
        Occasion::DuplicateSuspected => format!("{tool}: a second effect is suspected"),
        Occasion::ApprovalWanted => format!("{tool}: an approval is wanted"),
        Occasion::Reminder => format!("{tool}: the reminder that was asked for"),
    }
}

/// The facts.
pub(super) fn lines(notice: &Notice, link: &str) -> Vec<String> {
    let next = match &notice.next {
        (action, Some(reason)) => format!("{action} ({reason})"),
        (action, None) => action.clone(),
    };
    vec![
        format!("Account: {}", notice.account),
        format!("Operation: {}", notice.operation),
        format!("State: {}", notice.state),
        format!("Next: {next}"),
        format!("Console: {link}"),
    ]
}

#[cfg(test)]
mod tests {
    use counterfoil::{Account, OperationId, ToolName};

    use super::*;

    fn notice(id: &str) -> Notice {
        Notice {
            position: 7,
            event: "evt_1".to_owned(),
            at: Timestamp::from_millis(1_795_960_931_020),
            occasion: Occasion::Held,
            account: Account::parse("kitchen").unwrap(),
            tool: ToolName::parse("supplier.create_order").unwrap(),
            operation: OperationId::parse(id).unwrap(),
            version: 4,
            state: "unknown".to_owned(),
            next: ("review".to_owned(), Some("no-recovery".to_owned())),
        }
    }

    #[test]
    fn a_webhook_says_where_it_stands_and_nothing_else() {
        let notice = notice("a/b?c");
        let body = webhook(&notice, &link(Some("https://c.example"), &notice));
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(said["type"], "operation.held");
        assert_eq!(said["timestamp"], "2026-11-29T14:02:11.020Z");
        assert_eq!(said["data"]["link"], "https://c.example/console/o/a%2Fb%3Fc");
        assert_eq!(said["data"]["next"], json!({ "action": "review", "reason": "no-recovery" }));
        let members: Vec<&String> = said["data"].as_object().unwrap().keys().collect();
        assert_eq!(members, ["account", "link", "next", "operation_id", "state", "tool", "version"]);
    }

    #[test]
    fn hostile_ids_are_inert_in_slack() {
        let notice = notice("<!channel>&*_~`<http://evil.example|Approve>");
        let body = slack(&notice, &link(None, &notice));
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let text = said["text"].as_str().unwrap();
        assert!(!text.contains(['<', '>']), "{text}");
        assert!(text.contains("&lt;!channel&gt;&amp;*_~`"), "{text}");
        assert_eq!((&said["mrkdwn"], &said["parse"]), (&json!(false), &json!("none")));
        assert_eq!(text.lines().count(), 6, "nothing adds a line");
    }
}
