//!
use super::bench::Bench;
pub(super) async fn exercise(_bench: &Bench<'_>) {}
