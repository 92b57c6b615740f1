//! Lines that a person types. They are read on a thread of their own, one at a time, so that a signal ends the wait.

use std::io::{self, BufRead as _, Read as _};

use tokio::sync::mpsc;

/// The longest line that is read, in bytes; the API takes shorter ones.
const LINE_MOST: u64 = 16 * 1024;

/// Where lines come from.
pub(super) struct Lines {
    wanted: mpsc::Sender<()>,
    lines: mpsc::Receiver<io::Result<String>>,
}

impl Lines {
    /// Reads standard input, when asked. The thread ends with the process, or with the value at the end of its line.
    pub(super) fn of_stdin() -> Self {
        let (wanted, mut wants) = mpsc::channel::<()>(1);
        let (found, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            while wants.blocking_recv().is_some() {
                let mut line = String::new();
                let read = io::stdin().lock().take(LINE_MOST).read_line(&mut line).map(|_| line);
                if found.blocking_send(read).is_err() {
                    return;
                }
            }
        });
        Self { wanted, lines }
    }

    /// The next line without its end; `None` where there is none any more.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        if self.wanted.send(()).await.is_err() {
            return Ok(None);
        }
        tokio::select! {
            line = self.lines.recv() => match line {
                Some(Ok(line)) if line.is_empty() => Ok(None),
                Some(Ok(line)) => Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned())),
                Some(Err(error)) => Err(error),
                None => Ok(None),
            },
            signal = tokio::signal::ctrl_c() => signal.map(|()| None),
        }
    }
}
