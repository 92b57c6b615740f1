//! Small readers that the sections share: pointers, lengths, methods.

use std::time::Duration;

use counterfoil::Pointer;

use super::duration::Length;
use super::report::Checks;
use super::shape::At;

/// Reads a JSON pointer that names a member, not the whole document.
pub(super) fn member(text: &At<String>, key: &str, checks: &mut Checks<'_>) -> Option<Pointer> {
    let read = pointer(text, key, checks)?;
    if read.is_root() {
        checks.error(
            text.span(),
            key,
            "the empty pointer names the whole document",
            "name a member: \"/total\"",
        );
        return None;
    }
    Some(read)
}

/// Reads a JSON pointer.
pub(super) fn pointer(text: &At<String>, key: &str, checks: &mut Checks<'_>) -> Option<Pointer> {
    match Pointer::parse(text.get()) {
        Ok(pointer) => Some(pointer),
        Err(error) => {
            checks.error(
                text.span(),
                key,
                format!("bad pointer: {error}"),
                "write \"/member\" or \"/outer/inner\"",
            );
            None
        }
    }
}

/// Reads a list of pointers to members.
pub(super) fn members(list: Option<&Vec<At<String>>>, key: &str, checks: &mut Checks<'_>) -> Vec<Pointer> {
    list.into_iter().flatten().filter_map(|text| member(text, key, checks)).collect()
}

/// A length, or its default where none is given.
pub(super) fn length(value: Option<&At<Length>>, default: Duration) -> Duration {
    value.map_or(default, |value| value.get().0)
}

/// A length that must not be zero, or its default.
pub(super) fn positive(
    value: Option<&At<Length>>,
    default: Duration,
    key: &str,
    checks: &mut Checks<'_>,
) -> Duration {
    if let Some(value) = value
        && value.get().0.is_zero()
    {
        checks.error(value.span(), key, "a length of zero", "write how long, such as \"30s\"");
    }
    length(value, default)
}
