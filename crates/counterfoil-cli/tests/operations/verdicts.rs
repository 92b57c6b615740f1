//! What a person says of a held operation, on the command line.

use sim::supplier::Fault;

use super::Kitchen;

fn held(kitchen: &Kitchen, id: &str) {
    kitchen.forgetful.fault(Fault::ReplyDropped).unwrap();
    let args = ["op", "prepare", "mail.send", "--arguments", "{}", "--account", "kitchen", "--execute"];
    kitchen.run(&[&args[..], &["--task", id, "--id", id]].concat()).ended(3);
}

#[test]
fn a_person_settles_releases_and_annotates() {
    let kitchen = Kitchen::new();
    held(&kitchen, "mail-1");
    kitchen.run(&["op", "note", "mail-1", "--text", "called them"]).ended(0);
    let note = ["--note", "nothing bounds it"];
    let early =
        kitchen.run(&[&["op", "resolve", "mail-1", "--verdict", "confirmed-absent"][..], &note].concat());
    assert!(early.ended(1).stderr.contains("`counterfoil explain too-early`"));
    kitchen.run(&["op", "resolve", "mail-1", "--verdict", "succeeded", "--note", "seen"]).ended(2);
    kitchen.run(&["op", "resolve", "mail-1", "--verdict", "abandoned", "--note", "nobody knows"]).ended(0);
    kitchen.run(&["op", "release", "mail-1", "--note", "go on"]).ended(0);
    kitchen.run(&["op", "execute", "mail-1"]).ended(3);
    let shown = kitchen.run(&["op", "show", "mail-1", "--json"]).json();
    assert_eq!(shown["closed"]["note"], "nobody knows");
    assert_eq!(shown["closed"]["risk_accepted"], true);
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 1);
}

#[test]
fn many_are_counted_first_and_decided_only_with_a_yes() {
    let kitchen = Kitchen::new();
    for id in ["mail-1", "mail-2"] {
        held(&kitchen, id);
    }
    let many = ["op", "release", "--held", "--note", "the mail server is gone"];
    let counted = kitchen.run(&many).ended(6);
    assert!(counted.stderr.contains("2 operations fit"), "{}", counted.stderr);
    kitchen.run(&[&many[..], &["--yes"]].concat()).ended(0);
    // Who said so already is told the same, and what was released is listed as resolved.
    assert!(kitchen.run(&many).ended(6).stderr.contains("0 operations fit"));
    assert_eq!(kitchen.forgetful.effect_count().unwrap(), 2);
}
