//! The upper limits, which a configuration may lower and never raise.

use std::time::Duration;

use super::file::LimitsSection;
use super::report::Checks;
use super::shape::At;

/// The limits in force. Every one is enforced, at the value here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the arguments of one operation.
    pub arguments_bytes: usize,
    /// Bytes of a stored result; a larger one is kept as digest and size.
    pub result_bytes: usize,
    /// Bytes of a task.
    pub task_bytes: usize,
    /// Bytes of a subject.
    pub subject_bytes: usize,
    /// Levels of nesting in arguments; the object itself is the first.
    pub depth: usize,
    /// Items on one page of a list.
    pub list_page: usize,
    /// The longest that one call may wait.
    pub wait: Duration,
    /// Callers that may wait for one operation at once.
    pub waiters: usize,
}

impl Default for Limits {
    /// The contract's own values, which are also the most.
    fn default() -> Self {
        Self {
            arguments_bytes: 256 * 1024,
            result_bytes: 1024 * 1024,
            task_bytes: 255,
            subject_bytes: 255,
            depth: 64,
            list_page: 200,
            wait: Duration::from_secs(120),
            waiters: 1_000,
        }
    }
}

impl Limits {
    /// Reads the section; a value that is no value is reported and the default kept.
    #[must_use]
    pub fn read(section: &LimitsSection, checks: &mut Checks<'_>) -> Self {
        let most = Self::default();
        let mut read = |key: &str, value: Option<&At<u64>>, most: usize, least: u64| {
            let Some(value) = value else { return most };
            let fits =
                usize::try_from(*value.get()).ok().filter(|given| (*given as u64) >= least && *given <= most);
            fits.unwrap_or_else(|| {
                let message = format!("{} is outside {least} to {most}", value.get());
                let hint = "a limit may be lowered, never raised";
                checks.error(value.span(), &format!("limits.{key}"), message, hint);
                most
            })
        };
        Self {
            arguments_bytes: read(
                "arguments_bytes",
                section.arguments_bytes.as_ref(),
                most.arguments_bytes,
                2,
            ),
            result_bytes: read("result_bytes", section.result_bytes.as_ref(), most.result_bytes, 0),
            task_bytes: read("task_bytes", section.task_bytes.as_ref(), most.task_bytes, 1),
            subject_bytes: read("subject_bytes", section.subject_bytes.as_ref(), most.subject_bytes, 1),
            depth: read("depth", section.depth.as_ref(), most.depth, 1),
            list_page: read("list_page", section.list_page.as_ref(), most.list_page, 1),
            wait: Duration::from_millis(read("wait_ms", section.wait_ms.as_ref(), 120_000, 0) as u64),
            waiters: read("waiters", section.waiters.as_ref(), most.waiters, 1),
        }
    }
}
