//! The keyboard: one key arms a fault for the next call.

use std::io::Read as _;
use std::sync::Arc;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::faults::{Fault, Faults};
use super::routes::written_down;
use super::story::Story;
use super::tools::Tools;

/// The terminal as it was; it gets its settings back when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    before: Option<Termios>,
}

impl Terminal {
    /// Lets keys arrive one by one, without their echo. A standard input that is no terminal stays as it is.
    #[must_use]
    pub fn keys() -> Self {
        let input = std::io::stdin();
        let Ok(before) = tcgetattr(&input) else { return Self { before: None } };
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        let set = tcsetattr(&input, OptionalActions::Now, &keys).is_ok();
        Self { before: set.then_some(before) }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The terminal may be gone.
            let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// The legend, in one line.
#[must_use]
pub fn legend() -> String {
    let keys: Vec<String> =
        Fault::ALL.iter().map(|fault| format!("{} {}", fault.key(), fault.says())).collect();
    format!("keys: {} · w write declarations to the file · ? help · Ctrl-C end", keys.join(" · "))
}

/// Reads keys in a thread of their own until standard input ends.
///
/// # Errors
/// The thread cannot be started.
pub fn listen(
    faults: Arc<Faults>,
    tools: Arc<Tools>,
    story: Story,
    help: Vec<String>,
) -> std::io::Result<()> {
    let read = move || {
        for key in std::io::stdin().lock().bytes().map_while(Result::ok).map(char::from) {
            match Fault::of_key(key) {
                Some(fault) if faults.arm(fault) => story.tell(&format!("armed: {}", fault.says())),
                Some(_) => story.tell("too many faults are armed; let some happen first"),
                None if key == 'w' => _ = written_down(&tools, &story),
                None if key == '?' => {
                    story.print(&legend());
                    help.iter().for_each(|line| story.print(line));
                }
                None => {}
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read).map(drop)
}
