//! `audit verify`: sound evidence, one flipped byte, and a mark that is gone.

use super::Kitchen;

fn worked() -> Kitchen {
    let kitchen = Kitchen::new();
    kitchen.prepare("supplier.create_order", "order-1", "{}").ended(0);
    kitchen.run(&["op", "execute", "order-1"]).ended(0);
    kitchen
}

#[test]
fn sound_evidence_is_counted() {
    let kitchen = worked();
    let text = kitchen.run(&["audit", "verify"]).ended(0);
    assert!(
        text.stdout.starts_with("rows ") && text.stdout.ends_with(", faults 0, mark current\n"),
        "{}",
        text.stdout
    );
    let json = kitchen.run(&["audit", "verify", "--json"]).ended(0).json();
    assert!(json["rows"].as_u64().unwrap() >= 4 && json["chains"].as_u64().unwrap() >= 2, "{json}");
    assert_eq!((&json["sound"], &json["faults"]), (&true.into(), &serde_json::json!([])));
}

#[test]
fn one_flipped_byte_is_found_at_its_place() {
    let kitchen = worked();
    let database = rusqlite::Connection::open(kitchen.path().join("ledger.db")).unwrap();
    let (position, data): (i64, String) = database
        .query_row(
            "SELECT position, data FROM counterfoil_evidence WHERE operation_id = 'order-1' AND length(data) > 4 \
             ORDER BY position LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let mut bytes = data.into_bytes();
    let place = bytes.iter().position(u8::is_ascii_lowercase).unwrap();
    bytes[place] ^= 1;
    let flipped = String::from_utf8(bytes).unwrap();
    let changed = database.execute(
        "UPDATE counterfoil_evidence SET data = ?1 WHERE position = ?2",
        rusqlite::params![flipped, position],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(database);
    let json = kitchen.run(&["audit", "verify", "--json"]).ended(1).json();
    assert_eq!(json["sound"], false);
    let faults = json["faults"].as_array().unwrap();
    assert!(
        faults.iter().any(|fault| fault["position"] == position && fault["account"] == "kitchen"),
        "{json}"
    );
    let text = kitchen.run(&["audit", "verify"]).ended(1);
    assert!(text.stdout.contains("the row was changed"), "{}", text.stdout);
}

#[test]
fn a_missing_row_is_found() {
    let kitchen = worked();
    let database = rusqlite::Connection::open(kitchen.path().join("ledger.db")).unwrap();
    let sql = "DELETE FROM counterfoil_evidence WHERE position = (SELECT max(position) - 1 FROM counterfoil_evidence)";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    drop(database);
    kitchen.run(&["audit", "verify"]).ended(1);
}
