//! What happens, one line each: on the terminal and on the page.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::Ledger;
use counterfoil::{Account, Error, Principal};
use tokio::sync::broadcast::error::RecvError;

use super::words;
use crate::cli::output::visible;

/// Lines that are kept for the page.
const KEPT: usize = 200;

/// Lines that may wait for a terminal that does not take them; further ones are left out there.
const WAITING: usize = 1_000;

/// The longest line, in characters: more than any of our own.
const LONGEST: usize = 240;

/// Rows of evidence that are read at once.
const ROWS: u32 = 200;

/// The lines so far. Clones share them.
#[derive(Clone, Debug)]
pub struct Story {
    lines: Arc<Mutex<VecDeque<String>>>,
    printer: SyncSender<String>,
}

impl Story {
    /// An empty story whose lines also go to standard output, from a thread of their own: a terminal that is stopped
    /// must not stop the server.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin() -> std::io::Result<Self> {
        let (printer, lines) = sync_channel::<String>(WAITING);
        std::thread::Builder::new().name("story".to_owned()).spawn(move || {
            let mut out = std::io::stdout();
            for line in lines {
                // Nobody may watch; the server goes on.
                drop(writeln!(out, "{line}").and_then(|()| out.flush()));
            }
        })?;
        Ok(Self { lines: Arc::default(), printer })
    }

    /// Says something that happened just now. Text from outside is made visible and short.
    pub fn tell(&self, text: &str) {
        // The host's time, also where the ledger's clock was moved on: this is read by somebody who sits here.
        let at = counterfoil::Clock::now(&counterfoil::SystemClock::default());
        let time = at.to_string();
        let time = time.get(11..19).unwrap_or_default().to_owned();
        let mut text = visible(text);
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
            text.push('…');
        }
        let line = format!("{time}  {text}");
        {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() >= KEPT {
                lines.pop_front();
            }
            lines.push_back(line.clone());
        }
        // A terminal that does not take its lines misses some; the page has them.
        drop(self.printer.try_send(line));
    }

    /// Prints a line for whoever wants to paste it: as it is, and on the terminal alone.
    pub fn print(&self, line: &str) {
        drop(self.printer.try_send(line.to_owned()));
    }

    /// The newest lines, oldest first.
    #[must_use]
    pub fn lines(&self, most: usize) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(lines.len().saturating_sub(most)).cloned().collect()
    }
}

/// Tells everything that is recorded in `account` from now on. Ends with the ledger.
pub async fn follow(ledger: Ledger, account: Account, reader: Principal, story: Story) {
    let mut changes = ledger.store().changes();
    let roles = Roles { auditor: true, ..Roles::default() };
    let reader = Caller { account, principal: reader, roles, tools: Vec::new() };
    let mut after = 0;
    let mut begun = false;
    loop {
        match read_on(&ledger, &reader, &mut after, begun.then_some(&story)).await {
            Ok(()) => begun = true,
            // The next change reads what this one missed.
            Err(error) => tracing::debug!(code = error.code(), "the story could not be read"),
        }
        match changes.recv().await {
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Reads every row behind `after`, and tells it where there is a story.
async fn read_on(
    ledger: &Ledger,
    reader: &Caller,
    after: &mut u64,
    story: Option<&Story>,
) -> Result<(), Error> {
    loop {
        let page = ledger.store().events(&reader.account, Some(*after), ROWS).await?;
        for row in &page.items {
            *after = row.position;
            let (Some(story), Some(id)) = (story, &row.operation) else { continue };
            let view = ledger.find(reader, id).await.ok();
            if let Some(text) = words::of(row, view.as_ref()) {
                story.tell(&format!("{id}  {text}"));
            }
        }
        if page.next_cursor.is_none() {
            return Ok(());
        }
    }
}
