//! Looks into the ledger's file, past every rule: for what no face shows.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// The first column of every row.
#[track_caller]
pub(crate) fn column(database: &Path, query: &str) -> Vec<String> {
    if let Some(url) = super::world::postgres(database) {
        let printed =
            sim::postgres::Server::shared().sql(&url, &query.replace("counterfoil_", "counterfoil."));
        return printed.lines().map(str::to_owned).collect();
    }
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement = connection.prepare(query).unwrap();
    let rows = statement
        .query_map([], |row| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Null => "null".to_owned(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Real(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(bytes) | rusqlite::types::ValueRef::Blob(bytes) => {
                    String::from_utf8_lossy(bytes).into_owned()
                }
            })
        })
        .unwrap();
    rows.map(Result::unwrap).collect()
}

/// A number.
#[track_caller]
pub(crate) fn count(database: &Path, query: &str) -> u64 {
    column(database, query).first().and_then(|text| text.parse().ok()).expect("a number")
}
