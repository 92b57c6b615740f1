//! The verbs: each states what it must see and decides, purely, what is written. The store makes one durable commit
//! of it.

mod approval;
mod claim;
mod draft;
mod look_up;
mod on_demand;
mod pass;
mod prepare;
mod report;
mod start;
mod transaction;
mod verdict;
mod webhook;
mod worker;

pub use approval::{Approve, Deny, Withdraw};
pub use claim::{Claimed, Granted, LONGEST_LEASE, Mode, SHORTEST_LEASE, TakeClaim};
pub use look_up::{Investigate, Investigated, LookUpReport, Question};
pub use on_demand::{Asked, LookUpNow};
pub use pass::{LOOK_AGAIN, Passed, Tick};
pub use prepare::{Prepare, PrepareReply};
pub use report::{Renew, Report, ReportReply};
pub use start::{Begun, ByWorker, Offer, Start, StartReply};
pub use transaction::{Enter, Entered, Finish};
pub use verdict::{AddNote, Release, Resolve, Verdict, Words};
pub use webhook::{Heard, MOST_WEBHOOKS, Said, Webhook};
pub use worker::{Heartbeat, Outcome, Told};
