//! The exit codes of every command.

use counterfoil::State;
use counterfoil::guard::Stage;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The operation succeeded, or the command is done.
    Done = 0,
    /// An error.
    Error = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The outcome is unknown, or the operation is held.
    Unknown = 3,
    /// The operation was rejected: nothing happened.
    Rejected = 4,
    /// An attempt is running.
    InProgress = 5,
    /// It waits: for an approval, for another operation, or for its next attempt.
    Waiting = 6,
}

impl Exit {
    /// The code of an operation in this stage; a held one is unknown, whatever its state.
    #[must_use]
    pub fn of_stage(stage: Stage, held: bool) -> Self {
        match stage {
            Stage::Succeeded => Self::Done,
            Stage::Rejected => Self::Rejected,
            Stage::Unknown => Self::Unknown,
            Stage::Prepared if held => Self::Unknown,
            Stage::InProgress => Self::InProgress,
            Stage::Prepared => Self::Waiting,
        }
    }

    /// The code of an operation in this state; a held one is unknown, whatever its state.
    #[must_use]
    pub fn of_state(state: &State, held: bool) -> Self {
        let stage = match state {
            State::Prepared(_) => Stage::Prepared,
            State::InProgress(_) => Stage::InProgress,
            State::Succeeded(_) => Stage::Succeeded,
            State::Rejected(_) => Stage::Rejected,
            State::Unknown(_) => Stage::Unknown,
        };
        Self::of_stage(stage, held)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_documented_ones() {
        let codes = [
            Exit::Done,
            Exit::Error,
            Exit::Usage,
            Exit::Unknown,
            Exit::Rejected,
            Exit::InProgress,
            Exit::Waiting,
        ];
        assert_eq!(codes.map(|exit| exit as u8), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(Exit::of_stage(Stage::Prepared, true), Exit::Unknown);
        assert_eq!(Exit::of_stage(Stage::Prepared, false), Exit::Waiting);
    }
}
