//! Tools that an application's own worker carries out.

use counterfoil::recovery::Place;

use super::tests::{KEYED, order, read, tool};

const WORKER: &str = "[tools.t]\n[tools.t.worker]\n";

#[test]
fn a_worker_takes_the_place_of_a_request() {
    let text = format!(
        "{WORKER}scope = \"vendor-1\"\ndestination = \"slow\"\n[tools.t.recovery]\nkind = \"lookup\"\n\
         reference = \"worker\"\nlookup = \"worker\"\nauthoritative = true\nrequest_lifetime = \"5m\"\n\
         [destinations.slow]\nrate = 1\nburst = 1\n"
    );
    let config = read(&text).unwrap();
    assert_eq!(config.warnings, []);
    let declared = &tool(&config, "t").tool;
    let worker = declared.worker().unwrap();
    assert_eq!(
        (worker.scope.as_deref(), worker.bucket.map(|bucket| bucket.burst)),
        (Some("vendor-1"), Some(1))
    );
    assert_eq!(declared.recovery.place(), Some(&Place::Worker));
    assert_eq!(declared.recovery.lookup(), Some(&counterfoil::recovery::LookUpBy::Worker));
    for kind in [
        "kind = \"none\"",
        "kind = \"idempotency_key\"\nkey = \"worker\"\nretention = \"24h\"",
        "kind = \"unique_reference\"\nreference = \"worker\"\nlookup = \"worker\"",
    ] {
        let config = read(&format!("{WORKER}[tools.t.recovery]\n{kind}\n")).expect(kind);
        assert_eq!(config.warnings, [], "{kind}");
        assert!(tool(&config, "t").tool.worker().is_some(), "{kind}");
    }
}

#[test]
fn what_only_one_carrier_knows_is_refused_for_the_other() {
    let http = "[tools.t.http]\nmethod = \"POST\"\nurl = \"https://a.example/x\"\n";
    let none = "[tools.t.recovery]\nkind = \"none\"\n";
    let look = "[tools.t.recovery]\nkind = \"lookup\"\nreference = \"worker\"\n";
    let table: [(String, &str); 10] = [
        (format!("{WORKER}{http}{none}"), "tools.t.worker"),
        (format!("{WORKER}[tools.t.recovery]\nkind = \"transaction\"\n"), "tools.t.worker"),
        (format!("{WORKER}timeout = \"2s\"\n{none}"), ""),
        (format!("{WORKER}scope = \" \"\n{none}"), "tools.t.worker.scope"),
        (format!("{WORKER}destination = \"nowhere\"\n{none}"), "tools.t.worker.destination"),
        (
            format!("{WORKER}{none}[[tools.t.outcomes]]\nstatus = 409\nmeans = \"rejected\"\n"),
            "tools.t.outcomes",
        ),
        (
            format!("{}{none}", WORKER.replace("[tools.t]\n", "[tools.t]\napproval = \"required\"\n")),
            "tools.t.approval",
        ),
        (order("", &KEYED.replace("header:Idempotency-Key", "worker"), ""), "tools.t.recovery.key"),
        (format!("{WORKER}[tools.t.recovery]\n{KEYED}\n"), "tools.t.recovery.key"),
        (
            format!(
                "{WORKER}{look}lookup = {{ url = \"https://a.example/{{reference}}\", found = \"/0\" }}\n"
            ),
            "tools.t.recovery.lookup",
        ),
    ];
    for (text, key) in table {
        let report = read(&text).expect_err(&text);
        let finding = &report.findings[0];
        assert_eq!(finding.key, key, "{text}\n{report}");
        assert!(finding.line().is_some() && !finding.hint.is_empty(), "{text}\n{report}");
    }
    let compared = format!("{WORKER}{look}lookup = \"worker\"\nmust_match = [\"/total\"]\n");
    assert_eq!(read(&compared).unwrap_err().findings[0].key, "tools.t.recovery.must_match");
}
