//! Fail points: named places where a test, or a child process under test, makes the product fail, end or wait.
//!
//! Without the feature `testing` nothing of this is compiled in: [`Faults::hit`] is an empty function, and no variable
//! of the environment is read.

/// The fail points of one store, or of one process.
#[derive(Debug, Default)]
pub struct Faults {
    #[cfg(any(test, feature = "testing"))]
    armed: std::sync::Mutex<Vec<Armed>>,
}

/// How an armed fail point makes its place fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An input or output error before anything became durable.
    Io,
    /// An input or output error after everything became durable.
    IoLate,
    /// No room on the disk.
    Full,
    /// Somebody else holds the lock.
    Busy,
    /// This job alone fails.
    Job,
}

#[cfg(not(any(test, feature = "testing")))]
impl Faults {
    /// None.
    #[must_use]
    pub fn of_process() -> Self {
        Self::default()
    }

    /// Nothing.
    ///
    /// # Errors
    /// Never.
    #[inline]
    pub fn hit(&self, _name: &'static str) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(any(test, feature = "testing"))]
use armed::Armed;
#[cfg(any(test, feature = "testing"))]
pub use armed::{Action, Gate};

#[cfg(any(test, feature = "testing"))]
mod armed {
    use std::sync::{Arc, Condvar, Mutex, PoisonError};

    use super::{Fault, Faults};

    /// What happens at an armed fail point.
    #[derive(Clone, Debug)]
    pub enum Action {
        /// The place fails.
        Fail(Fault),
        /// The process ends at once, as by `kill -9`.
        Abort,
        /// The process is stopped, as by `kill -STOP`, until somebody continues it.
        Stop,
        /// The next visit of that other place ends the process.
        Arm(String),
        /// Whoever comes by waits until the gate is opened.
        Wait(Arc<Gate>),
    }

    #[derive(Debug)]
    pub(super) struct Armed {
        name: String,
        nth: u32,
        times: u32,
        action: Action,
    }

    /// A gate that holds whoever reaches it.
    #[derive(Debug, Default)]
    pub struct Gate {
        state: Mutex<GateState>,
        moved: Condvar,
    }

    #[derive(Debug, Default)]
    struct GateState {
        reached: u32,
        open: bool,
    }

    impl Gate {
        /// Blocks until [`Gate::open`].
        pub fn pass(&self) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.reached += 1;
            self.moved.notify_all();
            while !state.open {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }

        /// Lets everybody through, now and later.
        pub fn open(&self) {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).open = true;
            self.moved.notify_all();
        }

        /// Blocks until somebody stands at the gate.
        pub fn wait_reached(&self) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while state.reached == 0 {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    impl Faults {
        /// Arms `name`: the `nth` visit from now on (from 1), and every one after it up to `times`, meets `action`.
        pub fn arm(&self, name: &str, nth: u32, times: u32, action: Action) {
            let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
            armed.push(Armed { name: name.to_owned(), nth: nth.max(1), times, action });
        }

        /// How many fail points are armed and were not met yet.
        #[must_use]
        pub fn armed(&self) -> usize {
            let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
            armed.iter().filter(|entry| entry.times > 0).count()
        }

        /// Disarms everything.
        pub fn clear(&self) {
            self.armed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }

        /// The fail points that the environment of this process arms.
        #[must_use]
        pub fn of_process() -> Self {
            Self::from_environment()
        }

        /// The fail points that `COUNTERFOIL_FAILPOINT` arms: `name[:nth]:action`, several separated by commas, with
        /// an action of `abort`, `stop`, `io`, `io-late`, `full`, `busy`, `job`, or `arm-NAME`, which makes the next
        /// visit of the place NAME end the process. What cannot be read arms nothing.
        ///
        /// Each fail point that is met leaves its name, on a line of its own, in the file that
        /// `COUNTERFOIL_FAILPOINT_HITS` names, flushed before anything happens.
        #[must_use]
        pub fn from_environment() -> Self {
            let faults = Self::default();
            for text in std::env::var("COUNTERFOIL_FAILPOINT").unwrap_or_default().split(',') {
                let parts: Vec<&str> = text.split(':').collect();
                let (name, nth, action) = match parts[..] {
                    [name, action] => (name, Some(1), action),
                    [name, nth, action] => (name, nth.parse().ok(), action),
                    _ => continue,
                };
                if let (Some(nth), Some(action)) = (nth, read_action(action)) {
                    faults.arm(name, nth, 1, action);
                }
            }
            faults
        }

        /// Passes the place called `name`.
        ///
        /// # Errors
        /// What the armed fail point says.
        pub fn hit(&self, name: &'static str) -> Result<(), Fault> {
            let action = {
                let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
                let mut found = None;
                for entry in armed.iter_mut().filter(|entry| entry.name == name && entry.times > 0) {
                    if entry.nth > 1 {
                        entry.nth -= 1;
                    } else if found.is_none() {
                        entry.times -= 1;
                        found = Some(entry.action.clone());
                    }
                }
                found
            };
            if action.is_some() {
                record(name);
            }
            match action {
                None => Ok(()),
                Some(Action::Fail(fault)) => Err(fault),
                Some(Action::Abort) => std::process::abort(),
                Some(Action::Stop) => {
                    stop_process();
                    Ok(())
                }
                Some(Action::Arm(other)) => {
                    self.arm(&other, 1, 1, Action::Abort);
                    Ok(())
                }
                Some(Action::Wait(gate)) => {
                    gate.pass();
                    Ok(())
                }
            }
        }
    }

    fn read_action(text: &str) -> Option<Action> {
        Some(match text {
            "abort" => Action::Abort,
            "stop" => Action::Stop,
            "io" => Action::Fail(Fault::Io),
            "io-late" => Action::Fail(Fault::IoLate),
            "full" => Action::Fail(Fault::Full),
            "busy" => Action::Fail(Fault::Busy),
            "job" => Action::Fail(Fault::Job),
            other => Action::Arm(other.strip_prefix("arm-")?.to_owned()),
        })
    }

    /// Says that a fail point was met. A test that misses the line fails, so an error here is one as well.
    fn record(name: &str) {
        use std::io::Write as _;

        let Some(path) = std::env::var_os("COUNTERFOIL_FAILPOINT_HITS") else { return };
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        drop(file.and_then(|mut file| {
            writeln!(file, "{name}")?;
            file.sync_data()
        }));
    }

    #[allow(clippy::disallowed_methods, reason = "the stop arrives a moment after it was sent")]
    fn stop_process() {
        let own = std::process::id().to_string();
        drop(std::process::Command::new("kill").args(["-STOP", &own]).status());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
