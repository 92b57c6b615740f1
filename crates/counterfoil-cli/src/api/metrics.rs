//! Figures for Prometheus. No label ever holds an account, an ID or a caller's text.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use counterfoil::Timestamp;
use counterfoil::store::Census;
use counterfoil::store::sqlite::CommitStats;
use counterfoil::verbs::Heard;

/// The routes that calls are counted under; the first one stands for every other path.
const ROUTES: [&str; 28] = [
    "other",
    "/v1/operations",
    "/v1/operations/{id}",
    "/v1/operations/{id}/execute",
    "/v1/operations/{id}/approve",
    "/v1/operations/{id}/deny",
    "/v1/operations/{id}/withdraw",
    "/v1/operations/{id}/resolve",
    "/v1/operations/{id}/release",
    "/v1/operations/{id}/reconcile",
    "/v1/operations/{id}/notes",
    "/v1/operations/{id}/claim",
    "/v1/operations/{id}/attempts/{n}/heartbeat",
    "/v1/operations/{id}/attempts/{n}/outcome",
    "/v1/claims",
    "/v1/operations/{id}/evidence",
    "/v1/evidence/{tool}",
    "/v1/events",
    "/v1/tools",
    "/v1/tools/{name}",
    "/v1/tools/{name}/pause",
    "/v1/tools/{name}/resume",
    "/healthz",
    "/readyz",
    "/metrics",
    "/problems",
    "/problems/{slug}",
    "/openapi.json",
];

/// The statuses that are counted; the last one stands for every other.
const STATUSES: [u16; 20] =
    [200, 201, 202, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 500, 501, 503, 504, 0];

/// Upper ends of the durations, in microseconds; the last bucket is open.
const BOUNDS: [u64; 12] =
    [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000, 10_000_000, 60_000_000];

/// Every figure: name, type, meaning. The reference page is made from it.
pub const FIGURES: [(&str, &str, &str); 16] = [
    ("counterfoil_build_info", "gauge", "1; the label says which version runs."),
    ("counterfoil_http_requests_total", "counter", "Answered calls by route and status."),
    (
        "counterfoil_http_request_seconds",
        "histogram",
        "How long calls took, the wait of a caller included, by route.",
    ),
    ("counterfoil_http_requests_running", "gauge", "Calls that are not answered yet."),
    ("counterfoil_http_connections", "gauge", "Open connections."),
    ("counterfoil_attempts_running", "gauge", "Attempts on their way to a destination."),
    ("counterfoil_operations", "gauge", "Operations by tool and state; `held` ones need a person."),
    ("counterfoil_unknown_oldest_seconds", "gauge", "Age of the oldest operation whose outcome is unknown."),
    ("counterfoil_pauses", "gauge", "Pauses in force."),
    (
        "counterfoil_ledger_failed",
        "gauge",
        "1 once the ledger's disk has failed and the process must be restarted.",
    ),
    ("counterfoil_ledger_commits_total", "counter", "Durable commits."),
    ("counterfoil_ledger_calls_total", "counter", "Calls that those commits carried."),
    (
        "counterfoil_ledger_purged_total",
        "counter",
        "Operations that became tombstones after their retention.",
    ),
    (
        "counterfoil_webhooks_total",
        "counter",
        "Webhooks of destinations by what became of them; `unmatched` and `ambiguous` ones are kept nowhere.",
    ),
    (
        "counterfoil_notices_total",
        "counter",
        "Notices to people by kind and by how their delivery ended; `failed` ones are said again.",
    ),
    (
        "counterfoil_connections_refused_total",
        "counter",
        "Connections that waited because too many were open.",
    ),
];

/// What can become of a webhook, as its figure tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookFate {
    /// Its signature was good, and the ledger heard it.
    Heard(Heard),
    /// Its signature was good, and what it says cannot be read.
    Unreadable,
    /// Its reference was sent for more than one operation: it proves nothing of any.
    Ambiguous,
    /// Its signature was not good.
    Refused,
}

/// How the delivery of a notice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeFate {
    /// The listener has it.
    Delivered,
    /// It did not arrive and is said again.
    Failed,
    /// It is not said any more.
    GivenUp,
}

const NOTICE_KINDS: [&str; 3] = ["webhook", "slack", "email"];
const NOTICE_FATES: [&str; 3] = ["delivered", "failed", "given_up"];

impl NoticeFate {
    fn place(self) -> usize {
        match self {
            Self::Delivered => 0,
            Self::Failed => 1,
            Self::GivenUp => 2,
        }
    }
}

const WEBHOOK_FATES: [&str; 11] = [
    "proof",
    "other",
    "incomplete",
    "differs",
    "scope_changed",
    "repeated",
    "too_many",
    "unmatched",
    "unreadable",
    "ambiguous",
    "refused",
];

impl WebhookFate {
    fn label(self) -> &'static str {
        match self {
            Self::Heard(heard) => heard.label(),
            Self::Unreadable => "unreadable",
            Self::Ambiguous => "ambiguous",
            Self::Refused => "refused",
        }
    }
}

/// Which route a matched path is.
#[must_use]
pub fn route(path: &str) -> usize {
    ROUTES.iter().position(|route| *route == path).unwrap_or(0)
}

/// The counters of one process.
pub struct Metrics {
    calls: Vec<[AtomicU64; STATUSES.len()]>,
    durations: Vec<Histogram>,
    running: AtomicI64,
    connections: AtomicI64,
    refused: AtomicU64,
    webhooks: [AtomicU64; WEBHOOK_FATES.len()],
    notices: [[AtomicU64; NOTICE_FATES.len()]; NOTICE_KINDS.len()],
}

#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// A call or connection that goes on until this is dropped.
pub struct Running<'m>(&'m AtomicI64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            calls: ROUTES.iter().map(|_| Default::default()).collect(),
            durations: ROUTES.iter().map(|_| Histogram::default()).collect(),
            running: AtomicI64::new(0),
            connections: AtomicI64::new(0),
            refused: AtomicU64::new(0),
            webhooks: Default::default(),
            notices: Default::default(),
        }
    }
}

/// What is read at the moment of asking.
pub struct Gauges {
    /// How many operations are in which state.
    pub census: Census,
    /// How many pauses are in force.
    pub pauses: usize,
    /// How many attempts are on their way.
    pub attempts: usize,
    /// Store time.
    pub now: Timestamp,
    /// Whether the ledger failed for good.
    pub poisoned: bool,
    /// How commits were shared.
    pub commits: CommitStats,
}

impl Metrics {
    /// A call begins.
    pub fn begin(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(&self.running)
    }

    /// A connection opens.
    pub fn connect(&self) -> Running<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Running(&self.connections)
    }

    /// A connection had to wait.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A notice of this kind was delivered, or was not.
    pub fn notice(&self, kind: &str, fate: NoticeFate) {
        let row = NOTICE_KINDS.iter().position(|known| *known == kind).and_then(|at| self.notices.get(at));
        if let Some(counter) = row.and_then(|row| row.get(fate.place())) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A webhook came.
    pub fn webhook(&self, fate: WebhookFate) {
        let place = WEBHOOK_FATES.iter().position(|label| *label == fate.label());
        if let Some(counter) = place.and_then(|place| self.webhooks.get(place)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A call was answered.
    pub fn count(&self, route: usize, status: u16, took: Duration) {
        let place = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len() - 1);
        if let Some(counter) = self.calls.get(route).and_then(|row| row.get(place)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(histogram) = self.durations.get(route) {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            if let Some(bucket) = BOUNDS.iter().position(|bound| micros <= *bound) {
                histogram.buckets[bucket].fetch_add(1, Ordering::Relaxed);
            }
            histogram.count.fetch_add(1, Ordering::Relaxed);
            histogram.micros.fetch_add(micros, Ordering::Relaxed);
        }
    }

    /// The page in Prometheus' text format.
    #[must_use]
    pub fn text(&self, gauges: &Gauges) -> String {
        let mut out = Page(String::with_capacity(8 * 1024));
        for (name, kind, meaning) in FIGURES {
            out.head(name, kind, meaning);
            match name {
                "counterfoil_build_info" => {
                    out.line(name, concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1)
                }
                "counterfoil_http_requests_total" => self.write_calls(&mut out, name),
                "counterfoil_http_request_seconds" => self.write_durations(&mut out, name),
                "counterfoil_http_requests_running" => {
                    out.line(name, "", self.running.load(Ordering::Relaxed))
                }
                "counterfoil_http_connections" => {
                    out.line(name, "", self.connections.load(Ordering::Relaxed))
                }
                "counterfoil_connections_refused_total" => {
                    out.line(name, "", self.refused.load(Ordering::Relaxed))
                }
                "counterfoil_webhooks_total" => {
                    for (fate, counter) in WEBHOOK_FATES.iter().zip(&self.webhooks) {
                        out.line(name, &format!("answer=\"{fate}\""), counter.load(Ordering::Relaxed));
                    }
                }
                "counterfoil_notices_total" => {
                    for (kind, row) in NOTICE_KINDS.iter().zip(&self.notices) {
                        for (fate, counter) in NOTICE_FATES.iter().zip(row) {
                            let labels = format!("kind=\"{kind}\",outcome=\"{fate}\"");
                            out.line(name, &labels, counter.load(Ordering::Relaxed));
                        }
                    }
                }
                "counterfoil_attempts_running" => out.line(name, "", gauges.attempts),
                "counterfoil_operations" => {
                    for row in &gauges.census.by_tool {
                        // The names are of a grammar that needs no escapes.
                        let labels = format!(
                            "tool=\"{}\",state=\"{}\",held=\"{}\"",
                            row.tool,
                            row.stage.label(),
                            row.held
                        );
                        out.line(name, &labels, row.count);
                    }
                }
                "counterfoil_unknown_oldest_seconds" => {
                    let oldest = gauges.census.oldest_unknown.map(|at| gauges.now.since(at).as_secs());
                    out.line(name, "", oldest.unwrap_or(0));
                }
                "counterfoil_pauses" => out.line(name, "", gauges.pauses),
                "counterfoil_ledger_failed" => out.line(name, "", u8::from(gauges.poisoned)),
                "counterfoil_ledger_commits_total" => out.line(name, "", gauges.commits.commits),
                "counterfoil_ledger_calls_total" => out.line(name, "", gauges.commits.jobs),
                "counterfoil_ledger_purged_total" => out.line(name, "", gauges.commits.purged),
                // A figure without a value would be a hole in the page; the test that counts lines finds it.
                unknown => tracing::error!(figure = unknown, "a figure without a value"),
            }
        }
        out.0
    }

    fn write_calls(&self, out: &mut Page, name: &str) {
        for (route, row) in ROUTES.iter().zip(&self.calls) {
            for (status, counter) in STATUSES.iter().zip(row) {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    out.line(name, &format!("route=\"{route}\",status=\"{status}\""), count);
                }
            }
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "seconds for people")]
    fn write_durations(&self, out: &mut Page, name: &str) {
        for (route, histogram) in ROUTES.iter().zip(&self.durations) {
            let count = histogram.count.load(Ordering::Relaxed);
            if count == 0 {
                continue;
            }
            let mut below = 0;
            let bucket = format!("{name}_bucket");
            for (bound, counter) in BOUNDS.iter().zip(&histogram.buckets) {
                below += counter.load(Ordering::Relaxed);
                let end = *bound as f64 / 1e6;
                out.line(&bucket, &format!("route=\"{route}\",le=\"{end}\""), below);
            }
            out.line(&bucket, &format!("route=\"{route}\",le=\"+Inf\""), count);
            let sum = histogram.micros.load(Ordering::Relaxed) as f64 / 1e6;
            out.line(&format!("{name}_sum"), &format!("route=\"{route}\""), sum);
            out.line(&format!("{name}_count"), &format!("route=\"{route}\""), count);
        }
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, meaning: &str) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }
}

/// The reference page of the figures.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# Metrics\n\nA server shows these at `/metrics` in Prometheus' text format: to its own host without a token, from \
         elsewhere to operators. No label holds an account, an operation ID or a caller's text.\n\n\
         | name | type | meaning |\n|---|---|---|\n",
    );
    for (name, kind, meaning) in FIGURES {
        let _ = writeln!(page, "| `{name}` | {kind} | {meaning} |");
    }
    page
}
