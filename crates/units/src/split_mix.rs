//! `SplitMix64`: a number of which every bit depends on all bits of another.
//!
//! Draws, names and spreads that must be the same on every machine are made of seeds and counters by it.

/// The first number that `SplitMix64` draws from `seed`: a bijection on 64 bits (Steele, Lea, Flood 2014).
///
/// ```
/// use overdraft_units::split_mix;
///
/// assert_eq!(split_mix(0), 0xe220_a839_7b1d_cdaf);
/// assert_eq!(split_mix(1), 0x910a_2dec_8902_5cc1);
/// ```
#[inline]
pub const fn split_mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
