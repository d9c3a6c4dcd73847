//! Hash mixing: combines two `u64` hashes into one (splitmix64 finalizer).

/// Mixes two numbers into one in which every bit depends on all of theirs (splitmix64's finish).
pub(crate) const fn mix(one: u64, other: u64) -> u64 {
    let mut mixed = one ^ other.rotate_left(31) ^ 0x9e37_79b9_7f4a_7c15;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
