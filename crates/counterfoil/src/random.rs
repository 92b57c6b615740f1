//! Where the product gets its randomness from, so that tests can repeat it.

/// A source of randomness.
pub trait Random: Send + Sync + 'static {
    /// The next 64 bits.
    fn next(&self) -> u64;
}

/// The operating system's randomness.
#[derive(Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn next(&self) -> u64 {
        // Without randomness delays are at their upper end: slower, never wrong.
        getrandom::u64().unwrap_or(u64::MAX)
    }
}

/// A repeatable sequence (splitmix64) from a printed seed.
#[derive(Debug)]
pub struct SeededRandom(std::sync::atomic::AtomicU64);

impl SeededRandom {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.into())
    }
}

impl Random for SeededRandom {
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.0.fetch_add(STEP, std::sync::atomic::Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
