//! What a run counted.

use std::fmt;

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Operations that were accepted by the ledger.
    pub operations: u64,
    /// Worlds.
    pub episodes: u64,
    /// Events in them.
    pub events: u64,
    /// Verbs that were committed.
    pub commits: u64,
    /// Attempts that were recorded.
    pub attempts: u64,
    /// Requests whose first byte went out.
    pub requests: u64,
    /// Second copies that the network made.
    pub copies: u64,
    /// Effects at the destinations.
    pub effects: u64,
    /// Look-ups that were answered.
    pub look_ups: u64,
    /// Claims that workers were granted.
    pub claims: u64,
    /// Reports of somebody who holds no claim.
    pub strangers: u64,
    /// Webhooks that arrived.
    pub webhooks: u64,
    /// Changed proposals that were accepted.
    pub replacements: u64,
    /// Nodes that died.
    pub crashes: u64,
    /// Nodes that stood still.
    pub freezes: u64,
    /// Callers that came back after the receipt's retention.
    pub late_retries: u64,
    /// Retries with the ID of another intent.
    pub conflicts: u64,
    /// Operations for which a person was asked.
    pub held: u64,
    /// The longest time, in virtual milliseconds, between the moment from which on nothing could settle an operation and
    /// a person being asked, where a node was up.
    pub slowest_hold_millis: u64,
    /// Operations that ended with a receipt.
    pub succeeded: u64,
    /// Operations that ended without effect.
    pub rejected: u64,
    /// Operations that a person closed.
    pub closed: u64,
    /// Virtual time, in milliseconds.
    pub virtual_millis: u64,
}

impl Figures {
    /// Adds the counts of another run.
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.episodes += other.episodes;
        self.events += other.events;
        self.commits += other.commits;
        self.attempts += other.attempts;
        self.requests += other.requests;
        self.copies += other.copies;
        self.effects += other.effects;
        self.look_ups += other.look_ups;
        self.claims += other.claims;
        self.strangers += other.strangers;
        self.webhooks += other.webhooks;
        self.replacements += other.replacements;
        self.crashes += other.crashes;
        self.freezes += other.freezes;
        self.late_retries += other.late_retries;
        self.conflicts += other.conflicts;
        self.held += other.held;
        self.slowest_hold_millis = self.slowest_hold_millis.max(other.slowest_hold_millis);
        self.succeeded += other.succeeded;
        self.rejected += other.rejected;
        self.closed += other.closed;
        self.virtual_millis += other.virtual_millis;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.virtual_millis / (24 * 3_600 * 1_000);
        writeln!(f, "{} operations in {} worlds, {days} virtual days", self.operations, self.episodes)?;
        writeln!(
            f,
            "{} commits, {} attempts, {} requests, {} copies by the network, {} effects, {} look-ups",
            self.commits, self.attempts, self.requests, self.copies, self.effects, self.look_ups
        )?;
        writeln!(
            f,
            "{} claims by workers, {} reports of strangers, {} webhooks, {} changed proposals",
            self.claims, self.strangers, self.webhooks, self.replacements
        )?;
        writeln!(
            f,
            "{} deaths of nodes, {} pauses of nodes, {} late retries, {} reuses of an ID",
            self.crashes, self.freezes, self.late_retries, self.conflicts
        )?;
        write!(
            f,
            "{} succeeded, {} rejected, {} closed by a person; {} asked a person, the slowest after {} ms",
            self.succeeded, self.rejected, self.closed, self.held, self.slowest_hold_millis
        )
    }
}
