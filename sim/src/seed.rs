//! A small deterministic generator: the same seed gives the same run.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
///
/// Good enough to choose faults and orders, and never used for anything secret.
#[derive(Debug, Clone)]
pub struct Seed {
    state: u64,
}

impl Seed {
    /// A generator that starts from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for the `index`-th item of a run. Independent of the order in which the items
    /// are reached, which matters as soon as they run side by side.
    #[must_use]
    pub fn for_item(seed: u64, index: u64) -> Self {
        let mut outer = Self::new(seed ^ index.wrapping_mul(0xA24B_AED4_963E_E407));
        Self::new(outer.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of a plain remainder is below 2^-32 for the bounds used here.
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// True in `per_mille` of 1 000 draws.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// One of `items`; `None` when there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(items.len() as u64)).ok()?;
        items.get(index)
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            if let Ok(other) = usize::try_from(self.below(last as u64 + 1)) {
                items.swap(last, other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // Reference output of splitmix64.c for the seed 1234567.
        let mut seed = Seed::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| seed.next_u64()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_shuffle_loses_nothing_and_repeats() {
        let mut once: Vec<u32> = (0..100).collect();
        let mut twice = once.clone();
        Seed::new(7).shuffle(&mut once);
        Seed::new(7).shuffle(&mut twice);
        assert_eq!(once, twice);
        assert_ne!(once, (0..100).collect::<Vec<_>>());
        once.sort_unstable();
        assert_eq!(once, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_bounds_hold_at_their_edges() {
        let mut seed = Seed::new(1);
        assert_eq!(seed.below(0), 0);
        assert_eq!(seed.below(1), 0);
        assert_eq!(seed.pick::<u8>(&[]), None);
        assert!(!(0..1_000).any(|_| seed.chance(0)));
        assert!((0..1_000).all(|_| seed.chance(1_000)));
    }
}
