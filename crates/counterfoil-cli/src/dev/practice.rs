//! The practice supplier's tool.

use std::net::SocketAddr;

/// The tool that orders at the practice supplier.
pub const TOOL: &str = "practice.create_order";

/// The account that everything happens in.
pub const ACCOUNT: &str = "dev";

/// Its declaration, as it would stand in a file. Lifetimes are short, so that a lost request is sent again within
/// seconds; a real destination documents its own.
#[must_use]
pub fn declaration(supplier: SocketAddr) -> String {
    format!(
        r#"
[tools."{TOOL}"]
description = "Create a purchase order at the practice supplier"
retention = "1d"
[tools."{TOOL}".http]
method = "POST"
url = "http://{supplier}/orders"
scope = "practice"
timeout = "5s"
linger = "0s"
receipt_reference = "/id"
[tools."{TOOL}".recovery]
kind = "lookup"
reference = "body:/client_reference"
authoritative = true
request_lifetime = "2s"
queue_time = "0s"
skew = "1s"
lookup = {{ method = "GET", url = "http://{supplier}/orders?client_reference={{reference}}", found = "/orders/0/id", count = "/orders" }}
[tools."{TOOL}".budget]
attempts = 5
elapsed = "15m"
first_delay = "300ms"
max_delay = "5s"
"#
    )
}
