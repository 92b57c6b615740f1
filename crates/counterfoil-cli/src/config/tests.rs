//! The examples load, every bad file is refused at the right line with a hint, and the environment comes first.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use counterfoil::policy::{ApprovalRule, BodyKind, Bucket, Carrier, Meaning};
use counterfoil::recovery::{Place, Recovery, StoredErrors};
use counterfoil::{KeyFormat, ToolName};

use super::*;

const TWO_TOOLS: &str = include_str!("../../tests/configs/two-tools.toml");
const EVERY_KEY: &str = include_str!("../../tests/configs/every-key.toml");

pub(super) fn read(text: &str) -> Result<Config, Report> {
    parse(text, Path::new("counterfoil.toml"), &Overrides::default())
}

fn with(text: &str, variables: &[(&str, &str)]) -> Result<Config, Report> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    parse(text, Path::new("counterfoil.toml"), &Overrides { variables, flags: Vec::new() })
}

pub(super) fn tool<'c>(config: &'c Config, name: &str) -> &'c DeclaredTool {
    &config.tools[&ToolName::parse(name).unwrap()]
}

#[test]
fn the_small_example_loads_with_the_defaults() {
    let config = read(TWO_TOOLS).unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.server.listen, Listen::Tcp("127.0.0.1:8787".parse().unwrap()));
    assert_eq!(config.server.lease, Duration::from_secs(30));
    assert_eq!(config.server.retention_interval, Duration::from_secs(60));
    let order = tool(&config, "supplier.create_order");
    assert_eq!(order.assumed, [Assumption::RequestLifetime, Assumption::StoredErrors]);
    let Recovery::IdempotencyKey(facts) = &order.tool.recovery else { panic!() };
    assert_eq!(facts.key, Place::Header("Idempotency-Key".to_owned()));
    assert_eq!(facts.key_format, KeyFormat::Hex32);
    assert_eq!(facts.retention, Duration::from_secs(86_400));
    assert_eq!(facts.request_lifetime, Duration::from_secs(900));
    assert_eq!(facts.skew, Duration::from_secs(60));
    assert_eq!(facts.stored_errors, StoredErrors::All);
    assert_eq!(order.tool.approval, ApprovalRule::None);
    assert_eq!(order.tool.approval_expires, Duration::from_secs(86_400));
    assert_eq!(order.tool.retention, Duration::from_secs(90 * 86_400));
    assert_eq!(order.tool.budget, counterfoil::policy::Budget::default());
    let http = order.tool.http().unwrap();
    assert_eq!((http.timeout, http.linger), (Duration::from_secs(20), Duration::from_secs(60)));
    assert_eq!(http.body, BodyKind::Json);
    assert!(matches!(tool(&config, "mail.send").tool.recovery, Recovery::None(_)));
}

#[test]
fn the_large_example_loads_key_by_key() {
    let config = with(
        EVERY_KEY,
        &[
            ("SUPPLIER_TOKEN", "secret"),
            ("SUPPLIER_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            ("NOTIFY_URL", "https://hooks.example"),
        ],
    )
    .unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.limits.depth, 32);
    assert_eq!(config.limits.wait, Duration::from_secs(60));
    let order = &tool(&config, "supplier.create_order").tool;
    assert_eq!(order.approval, ApprovalRule::Required);
    assert_eq!(order.http().unwrap().bucket, Some(Bucket { rate_milli: 10_000, burst: 20 }));
    let Recovery::LookUp(facts) = &order.recovery else { panic!() };
    assert!(facts.authoritative);
    assert_eq!(facts.lookup.http().unwrap().must_match.len(), 1);
    assert_eq!(facts.lookup.http().unwrap().count.as_ref().unwrap().to_string(), "/orders");
    assert_eq!(order.outcomes[0].means, Meaning::DuplicateOfOurs);
    let cancel = &tool(&config, "orders.cancel").tool;
    assert_eq!(cancel.http().unwrap().bucket, Some(Bucket { rate_milli: 500, burst: 1 }));
    let Recovery::IdempotencyKey(facts) = &cancel.recovery else { panic!() };
    assert_eq!((facts.key_format, facts.key_max_len), (KeyFormat::Raw, Some(64)));
    assert!(facts.rolls_back && facts.lookup.is_some());
    assert_eq!(cancel.guard_on.as_ref().unwrap().len(), 2);
    assert_eq!(cancel.approval, ApprovalRule::When);
    let asks = |text: &str| cancel.asks_for(&counterfoil::Arguments::parse(text.as_bytes()).unwrap());
    assert!(!asks(r#"{"total":500.25,"days":3,"express":false}"#));
    for more in [
        r#"{"total":500.26,"days":3,"express":false}"#,
        r#"{"total":1,"days":2,"express":false}"#,
        r#"{"total":1,"days":3,"express":true}"#,
        r#"{"total":1,"days":3}"#,
    ] {
        assert!(asks(more), "{more}");
    }
    let invoice = &tool(&config, "invoice.create").tool;
    let Recovery::UniqueReference(facts) = &invoice.recovery else { panic!() };
    assert_eq!(facts.unique_for, Some(Duration::from_secs(365 * 86_400)));
    assert_eq!(invoice.outcomes[1].body.as_ref().unwrap().equals, "false");
    assert_eq!(tool(&config, "work_items.create").tool.carrier, Carrier::Transaction);
}

#[test]
fn a_missing_secret_is_a_warning() {
    let config = read(EVERY_KEY).unwrap();
    let names = ["SUPPLIER_TOKEN", "SUPPLIER_WEBHOOK_SECRET"];
    let in_notices = ["SUPPLIER_WEBHOOK_SECRET", "NOTIFY_URL", "SUPPLIER_TOKEN"];
    for (warning, name) in config.warnings.iter().zip(names.into_iter().chain(in_notices)) {
        assert!(warning.message.contains(name), "{warning:?}");
    }
    assert_eq!(config.warnings.len(), 5);
}

/// A tool whose sections are the given ones, beginning on line 1.
pub(super) fn order(http: &str, recovery: &str, more: &str) -> String {
    format!(
        "[tools.t]\n{more}\n[tools.t.http]\nmethod = \"POST\"\nurl = \"https://a.example/o\"\n{http}\n[tools.t.recovery]\n{recovery}\n"
    )
}

pub(super) const KEYED: &str =
    "kind = \"idempotency_key\"\nkey = \"header:Idempotency-Key\"\nretention = \"24h\"";

/// The sole error of a text: line, message and hint.
fn refused(text: &str) -> (usize, String, String) {
    let report = read(text).expect_err(text);
    let errors: Vec<_> =
        report.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert_eq!(errors.len(), 1, "{text}\n{report}");
    (errors[0].line().unwrap_or(0), errors[0].message.clone(), errors[0].hint.clone())
}

#[test]
fn the_frame_of_the_bad_files_is_good() {
    read(&order("", KEYED, "")).unwrap();
}

#[test]
fn bad_files_are_refused_at_their_line_with_a_hint() {
    let with_url = |url: &str, recovery: &str| order("", recovery, "").replace("https://a.example/o", url);
    let look = "kind = \"lookup\"\nreference = \"body:/ref\"\nlookup = { url = \"https://a.example/o?r={reference}\", found = \"/id\" }";
    let table: Vec<(String, usize, &str, &str)> = vec![
        // What cannot be read.
        ("[server\n".into(), 1, "", ""),
        ("[server]\nlisten = 5\n".into(), 2, "invalid type", "config schema"),
        ("[server]\nlistne = \"x\"\n".into(), 2, "unknown key `listne`", "did you mean `listen`?"),
        ("[sever]\n".into(), 1, "unknown key `sever`", "did you mean `server`?"),
        ("[limits]\ncolour = 5\n".into(), 2, "unknown key `colour`", "known here: arguments_bytes"),
        (order("mehtod = \"x\"", KEYED, ""), 6, "unknown key `mehtod`", "did you mean `method`?"),
        (
            order("", "kind = \"idempotency-key\"", ""),
            8,
            "unknown word `idempotency-key`",
            "did you mean `idempotency_key`?",
        ),
        (order("", "kind = \"none\"\nrequest_lifetime = \"1w\"", ""), 9, "\"1w\" is no duration", "\"24h\""),
        ("[tools.t]\n[tools.t.http]\nmethod = \"POST\"\n".into(), 2, "`url` is missing", "add `url`"),
        (order("", "key = \"header:K\"", ""), 7, "`kind` is missing", "add `kind`"),
        (order("", KEYED, "approval = \"yes\""), 2, "unknown word `yes`", "required"),
        (order("", KEYED, "approval = { when = [] }"), 2, "nobody would ever be asked", "condition"),
        (
            order("", KEYED, "approval = { when = [{ at = \"/total\" }] }"),
            2,
            "exactly one of `greater_than`",
            "greater_than = 500",
        ),
        (
            order("", KEYED, "approval = { when = [{ at = \"/a\", less_than = 1, equals = 2 }] }"),
            2,
            "exactly one of `greater_than`",
            "greater_than = 500",
        ),
        (
            order("", KEYED, "approval = { when = [{ at = \"/total\", greater_than = \"a lot\" }] }"),
            2,
            "no number",
            "500.25",
        ),
        (
            order("", KEYED, "approval = { when = [{ at = \"total\", less_than = 1 }] }"),
            2,
            "begins with `/`",
            "/member",
        ),
        (order("", KEYED, "approval = { if = [] }"), 2, "unknown key `if`", "when"),
        (order("", KEYED, "guard_on = []"), 2, "every call of the tool", "all arguments"),
        (order("", KEYED, "guard_on = [\"week\"]"), 2, "begins with `/`", "/member"),
        // The server and its limits.
        ("[server]\nlisten = \"localhost\"\n".into(), 2, "no address with a port", "127.0.0.1:8787"),
        ("[server]\nlease = \"100ms\"\n".into(), 2, "100ms is outside 1s to 1h", "in between"),
        ("[server]\ndatabase = \"sqlite::memory:\"\n".into(), 2, "forgets", "sqlite:PATH"),
        ("[server]\ndatabase = \"mysql://x\"\n".into(), 2, "no ledger", "sqlite:PATH"),
        ("[limits]\narguments_bytes = 262145\n".into(), 2, "outside 2 to 262144", "never raised"),
        ("[limits]\nwaiters = 0\n".into(), 2, "outside 1 to 1000", "never raised"),
        ("[limits]\nsubject_bytes = 256\n".into(), 2, "outside 1 to 255", "never raised"),
        // Names and carriers.
        (
            "[tools.\"a b\"]\n[tools.\"a b\".recovery]\nkind = \"transaction\"\n".into(),
            1,
            "tool may hold only",
            "supplier",
        ),
        (
            "\n[tools.t]\n[tools.t.http]\nmethod=\"POST\"\nurl=\"https://a.example\"\n".into(),
            2,
            "without `recovery`",
            "idempotency_key",
        ),
        (
            "[tools.t]\n[tools.t.recovery]\nkind = \"none\"\n".into(),
            1,
            "nobody carries",
            "[tools.\"t\".http]",
        ),
        (order("", "kind = \"transaction\"", ""), 3, "own transaction", "remove the section"),
        (order("", KEYED, "accounts = []"), 2, "empty list", "for all"),
        (order("", KEYED, "accounts = [\"a/b\"]"), 2, "account may hold only", "kitchen"),
        (order("", KEYED, "accounts = [\"a\", \"a\"]"), 2, "twice", "remove one"),
        // Cross checks.
        (
            order("", KEYED, "retention = \"10m\""),
            2,
            "shorter than the retry window (budget.elapsed 15m)",
            "at least 15m",
        ),
        (
            order("", KEYED, "approval = \"required\"\nretention = \"24h\""),
            3,
            "approval_expires 1d",
            "at least 1455m",
        ),
        (
            order("headers = { Authorization = \"Bearer ${TOKEN}\" }", KEYED, "approval = \"required\""),
            2,
            "needs a declared scope",
            "scope = ",
        ),
        (order("", &KEYED.replace("24h", "16m"), ""), 10, "never opens: 16m", "request_lifetime"),
        (order("", &KEYED.replace("24h", "975s"), ""), 10, "never opens", "request_lifetime"),
        (order("", &format!("{KEYED}\nkey_format = \"raw\""), ""), 11, "not scoped", "exactly one account"),
        (
            order("", &format!("{KEYED}\nkey_format = \"raw\""), "accounts = [\"a\", \"b\"]"),
            11,
            "not scoped",
            "exactly one account",
        ),
        (order("", &format!("{KEYED}\nkey_max_len = 25"), ""), 11, "32 bytes long", "base64url22"),
        (order("", &format!("{KEYED}\nkey_max_len = 10"), ""), 11, "32 bytes long", "no format"),
        (order("", &format!("{KEYED}\nrolls_back = true"), ""), 11, "success_only", "remove it"),
        (order("", &format!("{KEYED}\nmust_match = [\"/a\"]"), ""), 11, "no look-up", "declare `lookup`"),
        (
            order("", &format!("{KEYED}\nunique_for = \"1d\""), ""),
            11,
            "`unique_for` is no fact of kind `idempotency_key`",
            "takes key",
        ),
        (order("", "kind = \"none\"\nskew = \"1s\"", ""), 9, "no fact of kind `none`", "request_lifetime"),
        (order("", "kind = \"idempotency_key\"\nretention = \"1d\"", ""), 8, "needs `key`", "header:"),
        (order("", "kind = \"idempotency_key\"\nkey = \"header:K\"", ""), 8, "needs `retention`", "24h"),
        (order("", "kind = \"lookup\"\nreference = \"body:/r\"", ""), 8, "needs `lookup`", "url"),
        (
            order("", &look.replace("lookup\"", "unique_reference\""), ""),
            8,
            "conflict answer",
            "duplicate_of_ours",
        ),
        (
            order(
                "",
                &format!("{look}\nauthoritative = true\nrequest_lifetime = \"5m\"")
                    .replace("?r={reference}", ""),
                "",
            ),
            11,
            "cannot be authoritative",
            "{reference}",
        ),
        (order("", &look.replace("{reference}", "{ref}"), ""), 10, "nothing fills `{ref}`", "{reference}"),
        (
            order("", &look.replace("url = \"https", "method = \"DELETE\", url = \"https"), ""),
            10,
            "changes nothing",
            "GET",
        ),
        (order("", &look.replace("https", "http"), ""), 10, "plain http", "https"),
        (order("", &look.replace("\"/id\"", "\"id\""), ""), 10, "begins with `/`", "/member"),
        // Places.
        (order("", &KEYED.replace("header:Idempotency-Key", "cookie:x"), ""), 9, "no place", "header:NAME"),
        (order("", &KEYED.replace("header:Idempotency-Key", "header:a b"), ""), 9, "no place", "header:NAME"),
        (order("", &KEYED.replace("header:Idempotency-Key", "body:x"), ""), 9, "no place", "body:/pointer"),
        (order("", &KEYED.replace("Idempotency-Key", "Host"), ""), 9, "writes Host itself", "name a header"),
        (
            order("headers = { idempotency-key = \"1\" }", KEYED, ""),
            9,
            "sets Idempotency-Key too",
            "remove it",
        ),
        (
            order("body = \"none\"", &KEYED.replace("header:Idempotency-Key", "body:/k"), ""),
            9,
            "no body",
            "header:NAME",
        ),
        (
            order("body = \"form\"", &KEYED.replace("header:Idempotency-Key", "body:/a/k"), ""),
            9,
            "a form is flat",
            "body:/NAME",
        ),
        (
            with_url("https://a.example/o?k=1", &KEYED.replace("header:Idempotency-Key", "query:k")),
            9,
            "parameter k already",
            "appended",
        ),
        (
            order("", &KEYED.replace("header:Idempotency-Key", "path:k"), ""),
            9,
            "does not stand in the URL's path",
            "path segment",
        ),
        (
            with_url("https://a.example/{/k}", &KEYED.replace("header:Idempotency-Key", "body:/k")),
            9,
            "argument that the URL uses",
            "no argument has",
        ),
        // The request.
        (with_url("http://a.example/o", KEYED), 5, "plain http", "https"),
        (with_url("http://localhost:9/o", KEYED), 5, "localhost is a name", "127.0.0.1"),
        (with_url("https://10.0.0.1/o", KEYED), 5, "private, link-local", "allow_private"),
        (with_url("https://{/host}/o", KEYED), 5, "host is fixed", ""),
        (with_url("{/s}://a.example/o", KEYED), 5, "scheme is fixed", ""),
        (with_url("https://a.example/{/a~2}", KEYED), 5, "bad placeholder", ""),
        (with_url("https://a.example/{reference}", "kind = \"none\""), 5, "there is none", "declare the key"),
        (with_url("https://a.example/{name}", KEYED), 5, "nothing fills `{name}`", "path:NAME"),
        (order("headers = { X = \"{reference}\" }", "kind = \"none\"", ""), 6, "not filled", "header:"),
        (order("headers = { X = \"${\" }", KEYED, ""), 6, "not closed", "${NAME}"),
        (order("headers = { Host = \"a\" }", KEYED, ""), 6, "itself", "remove"),
        (order("headers = { X-A = \"1\", x-a = \"2\" }", KEYED, ""), 6, "twice", "case"),
        (
            order("destination = \"suplier\"", KEYED, "") + "[destinations.supplier]\nrate = 1\nburst = 1\n",
            6,
            "no such section",
            "did you mean `supplier`?",
        ),
        (order("path_only = [\"/id\"]", KEYED, ""), 6, "does not stand", "path segment"),
        (
            with_url("https://a.example/{/a/b}", KEYED)
                .replace("\n\n[tools.t.rec", "\npath_only = [\"/a/b\"]\n[tools.t.rec"),
            6,
            "members of the arguments object",
            "/order_id",
        ),
        (order("timeout = \"0s\"", KEYED, ""), 6, "length of zero", "30s"),
        (order("receipt_reference = \"id\"", KEYED, ""), 6, "begins with `/`", "/member"),
        (order("", KEYED, "sensitive = [\"phone\"]"), 2, "begins with `/`", "/member"),
        (order("", KEYED, "volatile = [\"\"]"), 2, "whole document", "/total"),
        (order("", KEYED, "").replace("POST", "post"), 4, "no method", "POST"),
        (order("", KEYED, "").replace("POST", "GET"), 4, "a GET has no body", "none"),
        // Budget, outcomes, buckets.
        (order("", KEYED, "") + "[tools.t.budget]\nattempts = 0\n", 12, "1 to 1000", "single try"),
        (
            order("", KEYED, "") + "[tools.t.budget]\nfirst_delay = \"2m\"\n",
            12,
            "longer than the longest",
            "max_delay",
        ),
        (
            order("", KEYED, "") + "[[tools.t.outcomes]]\nmeans = \"rejected\"\n",
            11,
            "every answer",
            "which answers",
        ),
        (
            order("", KEYED, "") + "[[tools.t.outcomes]]\nstatus = 42\nmeans = \"rejected\"\n",
            12,
            "200 to 599",
            "409",
        ),
        (
            order("destination = \"s\"", KEYED, "") + "[destinations.s]\nrate = 0\nburst = 1\n",
            12,
            "sends per second",
            "rate = 10",
        ),
    ];
    for (text, line, message, hint) in table {
        let (at, said, hinted) = refused(&text);
        assert!(said.contains(message), "{text}\nsaid: {said}\nnot: {message}");
        assert!(hinted.contains(hint) && !hinted.is_empty(), "{text}\nhint: {hinted}\nnot: {hint}");
        assert_eq!(at, line, "{text}\n{said}");
    }
}

#[test]
fn listeners_are_read_and_doubtful_ones_refused() {
    let section = |lines: &str| format!("[[notify]]\n{lines}\n");
    let hook = "kind = \"webhook\"\nurl = \"${URL}\"\nsecret = \"${KEY}\"";
    let mail =
        "kind = \"email\"\nto = \"a@b.example\"\nfrom = \"c@b.example\"\nsmtp = \"smtp://mail.example\"";
    let variables = [("URL", "https://hooks.example/x"), ("KEY", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")];
    let slack = "kind = \"slack\"\nurl = \"${URL}\"";
    let text = format!("{}{}{}", section(hook), section(slack), section(mail));
    let config = with(&text, &variables).unwrap();
    assert_eq!((config.listeners.len(), config.warnings.as_slice()), (3, &[][..]));
    let names: Vec<&str> = config.listeners.iter().map(|one| one.name.split(':').next().unwrap()).collect();
    assert_eq!(names, ["webhook", "slack", "email"]);
    let crate::notify::Kind::Email(read) = &config.listeners[2].kind else { panic!() };
    assert_eq!((read.security, read.target.port), (crate::notify::Security::StartTls, 587));
    assert!(!with(&section(hook), &[("URL", "https://a.example")]).unwrap().warnings.is_empty());
    for (lines, said) in [
        ("kind = \"pager\"".to_owned(), "unknown word `pager`"),
        ("kind = \"webhook\"\nurl = \"https://a.example\"".to_owned(), "needs `secret`"),
        (hook.replace("${KEY}", "whsec_abc"), "does not stand in this file"),
        (
            "kind = \"slack\"\nurl = \"https://hooks.example/secret\"".to_owned(),
            "does not stand in this file",
        ),
        (format!("{hook}\nto = \"a@b.example\""), "`to` is nothing of kind `webhook`"),
        (hook.replace("${URL}", "http://a.example/x"), "plain http"),
        (hook.replace("${URL}", "https://10.0.0.1/x"), "special address"),
        (hook.replace("${URL}", "https://a.example/{/x}"), "placeholder"),
        (mail.replace("\"a@b.example\"", "\"a@b.example>\""), "no mail address"),
        (mail.replace("smtp://mail.example", "mail.example"), "no mail relay"),
        (format!("{mail}\nusername = \"u\""), "belong together"),
        (format!("{mail}\nusername = \"u\"\npassword = \"p\""), "does not stand in this file"),
        (format!("{hook}\n[[notify]]\n{hook}"), "there twice"),
        (format!("{hook}\naccounts = [\"a/b\"]"), "account may hold only"),
    ] {
        let report = with(&section(&lines), &variables).expect_err(&lines);
        assert!(report.findings[0].message.contains(said), "{lines}: {report}");
        assert!(!report.to_string().contains("whsec_abc"), "{report}");
    }
    for short in ["canary", "whsec_Y2FuYXJ5", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa canary"] {
        let report = with(&section(hook), &[("URL", "https://a.example"), ("KEY", short)]).unwrap_err();
        assert!(report.findings[0].message.contains("base64 of at least 16 bytes"), "{report}");
        assert!(!report.to_string().contains(short), "{report}");
    }
    let hidden =
        with(&section(hook), &[("URL", "hooks.example/canary"), ("KEY", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")])
            .unwrap_err();
    assert!(hidden.findings[0].message.contains("no absolute URL"), "{hidden}");
    assert!(!hidden.to_string().contains("canary"), "{hidden}");
}

/// A section `evidence` behind a tool with this recovery, with one line in place of its own.
fn webhooks(recovery: &str, line: &str) -> String {
    let mut lines = vec![
        "scheme = \"standard\"",
        "secret = \"${HOOK_SECRET}\"",
        "reference = \"/data/ref\"",
        "success = { pointer = \"/type\", equals = \"order.created\" }",
    ];
    let key = line.split('=').next().unwrap();
    lines.retain(|own| own.split('=').next() != Some(key));
    lines.push(line);
    format!("{}[tools.t.evidence]\n{}\n", order("", recovery, ""), lines.join("\n"))
}

#[test]
fn webhooks_are_believed_as_declared() {
    let variables = [("HOOK_SECRET", "whsec_x")];
    let config = with(&webhooks(KEYED, "must_match = [\"/total\"]"), &variables).unwrap();
    assert_eq!(config.warnings, []);
    let declared = tool(&config, "t").tool.evidence.clone().unwrap();
    assert_eq!((declared.event_id, declared.receipt_reference), (None, None));
    assert_eq!(declared.must_match.unwrap().len(), 1);
    assert_eq!(declared.secret, "${HOOK_SECRET}", "never the value");
    let stripe = with(&webhooks(KEYED, "scheme = \"stripe\""), &variables).unwrap();
    let declared = tool(&stripe, "t").tool.evidence.clone().unwrap();
    assert_eq!(declared.event_id.unwrap().to_string(), "/id");
    let missing = read(&webhooks(KEYED, "receipt_reference = \"/data/id\"")).unwrap();
    assert!(missing.warnings[0].message.contains("HOOK_SECRET"), "{:?}", missing.warnings);
    for (recovery, line, said) in [
        (KEYED, "secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"", "does not stand in this file"),
        (KEYED, "secret = \"${HOOK_{account}}\"", "does not stand in this file"),
        (KEYED, "scheme = \"basic\"", "unknown word `basic`"),
        (KEYED, "reference = \"data\"", "begins with `/`"),
        (KEYED, "event_id = \"\"", "whole document"),
        (KEYED, "succes = \"x\"", "unknown key `succes`"),
        ("kind = \"none\"", "receipt_reference = \"/data/id\"", "none is declared"),
    ] {
        let report = with(&webhooks(recovery, line), &variables).expect_err(line);
        let first = &report.findings[0];
        assert!(first.message.contains(said), "{line}: {report}");
        assert!(!report.to_string().contains("MfKQ9r8"), "{report}");
    }
}

#[test]
fn what_this_version_does_not_build_is_refused() {
    let look = "kind = \"lookup\"\nreference = \"body:/ref\"\n";
    let table: Vec<(String, usize, &str)> = vec![
        (order("", KEYED, "") + "[mcp]\naccount = \"a\"\n", 11, "mcp"),
        (order("", KEYED, "") + "[mcp.tools.x]\n", 11, "mcp"),
        (order("", KEYED, "profile = \"stripe.payment_intents.create\""), 2, "tools.t.profile"),
        (order("query = \"pass\"", KEYED, ""), 6, "tools.t.http.query"),
    ];
    for (text, line, key) in table {
        let report = read(&text).expect_err(&text);
        let (finding, rest) = report.findings.split_first().unwrap();
        assert_eq!(finding.message, "not in this version", "{text}\n{report}");
        assert_eq!((finding.key.as_str(), finding.line()), (key, Some(line)), "{text}\n{report}");
        assert!(!finding.hint.is_empty() && rest.is_empty(), "{text}\n{report}");
    }
    let lookup = "lookup = { tool = \"search\", arguments = { a = 1 }, url = \"https://a.example/{reference}\", found = \"/0\" }";
    let report = read(&order("", &format!("{look}{lookup}"), "")).unwrap_err();
    assert!(report.findings.iter().all(|finding| finding.message == "not in this version"), "{report}");
    assert_eq!(report.findings[0].line(), Some(10));
}

#[test]
fn what_a_person_is_told_is_checked_when_the_file_is_read() {
    use counterfoil::policy::{Currency, Money, ShownAs};
    let with =
        |lines: &str| order("", KEYED, "sensitive = [\"/delivery\"]") + "[tools.t.review]\n" + lines + "\n";
    let config = read(&with(
        "title = \"Order at {/supplier/name}\"\nquestion = \"Did they receive it?\"\nseverity = \"high\"\nask = \"finance\"\n\
         check = \"Portal, search for {reference}\"\ncheck_url = \"https://portal.example/o/{/supplier/id}?q={reference}\"\n\
         fields = [{ at = \"/total\", label = \"Total\", as = \"money\", currency = \"/currency\", minor = true }, { at = \"/delivery\", label = \"To\" }]",
    ))
    .unwrap();
    let review = &tool(&config, "t").tool.review;
    let currency = Currency::At(counterfoil::Pointer::parse("/currency").unwrap());
    assert_eq!(review.fields[0].shown, ShownAs::Money(Money { currency, minor: true }));
    assert_eq!((review.fields[1].shown.clone(), review.severity.as_deref()), (ShownAs::Text, Some("high")));
    let field = |more: &str| format!("fields = [{{ at = \"/total\", label = \"Total\"{more} }}]");
    let many = vec!["{ at = \"/a\", label = \"A\" }"; 21].join(", ");
    for (lines, message) in [
        ("title = \" \"".to_owned(), "1 to 500 bytes"),
        (format!("title = \"{}\"", "x".repeat(501)), "1 to 500 bytes"),
        ("title = \"Order {supplier}\"".to_owned(), "neither a pointer nor"),
        ("title = \"Order {/a~2}\"".to_owned(), "bad placeholder"),
        ("question = \"Did it {\"".to_owned(), "do not pair up"),
        ("ask = \"fin\u{202e}ance\"".to_owned(), "cannot be seen"),
        ("title = \"To {/delivery/phone}\"".to_owned(), "/delivery/phone is sensitive"),
        ("severity = \"terrible\"".to_owned(), "unknown word"),
        ("check_url = \"ftp://a.example/{reference}\"".to_owned(), "the scheme must be"),
        ("check_url = \"https://{/host}/\"".to_owned(), "the host is fixed"),
        ("check_url = \"https://a.example/{key}\"".to_owned(), "neither a pointer nor"),
        ("check_url = \"https://a.example/{account}\"".to_owned(), "neither a pointer nor"),
        ("check_url = \"https://a.example/?q={/delivery}\"".to_owned(), "sensitive"),
        (format!("fields = [{many}]"), "more than 20 fields"),
        ("fields = [{ at = \"total\", label = \"Total\" }]".to_owned(), "bad pointer"),
        ("fields = [{ at = \"/total\" }]".to_owned(), "`label` is missing"),
        (field(", as = \"money\""), "money needs a currency"),
        (field(", as = \"money\", currency = \"euro\""), "neither a pointer nor a currency code"),
        (field(", currency = \"EUR\""), "belong to money"),
        (field(", as = \"date\", minor = true"), "belong to money"),
        (field(", format = \"x\""), "unknown key `format`"),
    ] {
        let (line, told, hint) = refused(&with(&lines));
        assert!(told.contains(message), "{lines}: {told}");
        assert!(line == 12 && !hint.is_empty(), "{lines}: {line}");
    }
    let nothing_sent =
        order("", "kind = \"none\"", "") + "[tools.t.review]\ncheck = \"Search for {reference}\"\n";
    assert!(refused(&nothing_sent).1.contains("needs a declared `key` or `reference`"));
}

#[test]
fn all_errors_of_a_file_come_at_once() {
    let text =
        order("timeout = \"0s\"", &KEYED.replace("24h", "1m"), "volatile = [\"x\"]").replace("POST", "TRACE");
    let lines: Vec<_> = read(&text).unwrap_err().findings.iter().map(Finding::line).collect();
    assert_eq!(lines, [Some(2), Some(4), Some(6), Some(10)]);
}

#[test]
fn the_environment_comes_before_the_file_and_flags_before_both() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\n[limits]\nwaiters = 500\n";
    let config = with(
        text,
        &[
            ("COUNTERFOIL_SERVER_LISTEN", "127.0.0.1:2"),
            ("COUNTERFOIL_SERVER_LEASE", "10s"),
            ("COUNTERFOIL_LIMITS_WAITERS", "7"),
            ("COUNTERFOIL_LIMITS_DEPTH", "8"),
            ("COUNTERFOIL_TOKEN", "ignored"),
            ("COUNTERFOIL_URL", "ignored"),
            ("PATH", "ignored"),
        ],
    )
    .unwrap();
    assert_eq!(config.server.listen, Listen::Tcp("127.0.0.1:2".parse().unwrap()));
    assert_eq!(config.server.lease, Duration::from_secs(10));
    assert_eq!((config.limits.waiters, config.limits.depth), (7, 8));
    let mut overrides = Overrides {
        variables: BTreeMap::from([("COUNTERFOIL_SERVER_LISTEN".to_owned(), "127.0.0.1:2".to_owned())]),
        flags: vec![("server", "listen", "127.0.0.1:3".to_owned(), "--listen")],
    };
    let config = parse(text, Path::new("c.toml"), &overrides).unwrap();
    assert_eq!(config.server.listen, Listen::Tcp("127.0.0.1:3".parse().unwrap()));
    overrides.flags[0].2 = "nowhere".to_owned();
    let report = parse(text, Path::new("c.toml"), &overrides).unwrap_err();
    assert_eq!(report.findings[0].origin, Origin::Flag("--listen".to_owned()));
}

#[test]
fn bad_variables_are_refused_by_name() {
    for (name, value, message, hint) in [
        ("COUNTERFOIL_SERVER_LISTNE", "x", "names no key", "COUNTERFOIL_SERVER_LISTEN"),
        ("COUNTERFOIL_LIMITS_COLOUR", "1", "names no key", "[limits] knows"),
        ("COUNTERFOIL_MCP_ACCOUNT", "a", "not in this version", "unset"),
        ("COUNTERFOIL_SERVER_MARK", "a", "beside the ledger", "remove"),
        ("COUNTERFOIL_SERVER_LEASE", "5", "invalid type", "config schema"),
        ("COUNTERFOIL_SERVER_LEASE", "5w", "no duration", "\"24h\""),
        ("COUNTERFOIL_SERVER_DATABASE", "mysql://h/d", "no ledger that is known", "sqlite:PATH"),
        ("COUNTERFOIL_LIMITS_WAIT_MS", "120001", "outside", "never raised"),
    ] {
        let report = with("", &[(name, value)]).unwrap_err();
        let finding = &report.findings[0];
        assert_eq!(finding.origin, Origin::Environment(name.to_owned()), "{report}");
        assert!(finding.message.contains(message) && finding.hint.contains(hint), "{report}");
    }
}

#[test]
fn a_text_of_the_wrong_type_is_not_repeated() {
    let report = read(&order("headers = \"Bearer sk_live_4242\"", KEYED, "")).unwrap_err();
    assert!(!report.to_string().contains("sk_live"), "{report}");
    assert!(report.to_string().contains("counterfoil.toml:6:"), "{report}");
}

#[test]
fn plain_http_inside_a_trusted_network_is_a_warning() {
    let text = order("allow_private = true", KEYED, "").replace("https://", "http://");
    let config = read(&text).unwrap();
    assert_eq!(config.warnings.len(), 1);
    assert!(config.warnings[0].message.contains("plain http"));
}

#[test]
fn look_ups_that_end_before_a_miss_can_count_are_a_warning() {
    let look = "kind = \"lookup\"\nreference = \"body:/ref\"\nauthoritative = true\nrequest_lifetime = \"5m\"\nqueue_time = \"1m\"\n\
                lookup = { url = \"https://a.example/o?r={reference}\", found = \"/id\" }\n";
    // Half of 30 s, then 5 min, 1 min of queue and 1 min of skew.
    let warned = |lookup_for: &str, look: &str| {
        read(&order("", &format!("{look}lookup_for = \"{lookup_for}\""), "")).unwrap().warnings
    };
    let warnings = warned("435s", look);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].message.starts_with("look-ups end before a miss can count"), "{warnings:?}");
    assert_eq!(warned("436s", look), []);
    assert_eq!(warned("1s", &look.replace("true", "false")), [], "there a miss never counts anyway");
}

#[test]
fn the_password_of_a_database_is_never_shown() {
    let text =
        "[server]\ndatabase = \"postgres://u:hunter2@db.example:5433/d?sslmode=verify-full\"\nmark = \"m\"\n";
    let config = parse(text, Path::new("/etc/counterfoil/c.toml"), &Overrides::default()).unwrap();
    assert_eq!(config.server.mark, Path::new("/etc/counterfoil/m"));
    let Database::Postgres(address) = &config.server.database else { panic!("{:?}", config.server) };
    assert_eq!(address.to_string(), "postgres://db.example:5433/d");
    assert!(address.expose().contains("hunter2") && !format!("{config:?}").contains("hunter2"));
}

#[test]
fn paths_lead_from_the_folder_of_the_file() {
    let text = "[server]\nlisten = \"unix:run/c.sock\"\ndatabase = \"sqlite:data/c.db\"\n";
    let config = parse(text, Path::new("/etc/counterfoil/c.toml"), &Overrides::default()).unwrap();
    assert_eq!(config.server.listen, Listen::Unix("/etc/counterfoil/run/c.sock".into()));
    assert_eq!(config.server.database, Database::Sqlite("/etc/counterfoil/data/c.db".into()));
}

#[test]
fn a_missing_file_says_how_to_make_one() {
    let folder = tempfile::tempdir().unwrap();
    let report = load(&folder.path().join("none.toml"), &Overrides::default()).unwrap_err();
    assert!(report.findings[0].hint.contains("counterfoil init"));
}

#[test]
fn the_environment_is_not_printed() {
    let variables = BTreeMap::from([("SUPPLIER_TOKEN".to_owned(), "canary".to_owned())]);
    assert!(!format!("{:?}", Overrides { variables, flags: Vec::new() }).contains("canary"));
}

proptest::proptest! {
    /// No damaged file panics, and each one that is refused says where and what to do.
    #[test]
    fn damaged_files_are_refused_in_order(at in 0_usize..4096, cut in 0_usize..40, put in "[\\[\\]{}\"=a-z0-9.\n\u{e9}]{0,6}") {
        let mut bytes = EVERY_KEY.as_bytes().to_vec();
        let from = at % bytes.len();
        let to = (from + cut).min(bytes.len());
        bytes.splice(from..to, put.bytes());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Err(report) = read(&text) {
            for finding in report.findings {
                proptest::prop_assert!(!finding.hint.is_empty() && !finding.message.is_empty(), "{finding:?}");
                proptest::prop_assert!(finding.line().is_some(), "{finding:?}");
            }
        }
    }
}
