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
        getrandom::u64().unwrap_or(u64::MAX)
    }
}

/// A sequence (splitmix64) that can be repeated from its seed.
#[derive(Debug)]
pub struct SeededRandom(std::sync::atomic::AtomicU64);

impl SeededRandom {
    /// A sequence that nobody can foresee the start of. It spreads delays and is no secret.
    #[must_use]
    pub fn from_os() -> Self {
        // Without randomness all processes spread their delays alike: slower under load, never wrong.
        Self::new(getrandom::u64().unwrap_or_default())
    }

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
