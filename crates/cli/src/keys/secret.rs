//! API key: 256 random bits in base 62 behind `od_`, with a checksum.
//!
//! The checksum is the CRC-32 of the random digits, as in GitHub's tokens: a scanner of secrets tells a
//! key from other text without asking anybody, and a key that was cut off is seen to be.

/// What every key begins with.
const PREFIX: &str = "od_";

const RANDOM_BYTES: usize = 32;

/// Digits that hold 256 bits: 62^43 is a little more than 2^256.
const RANDOM_DIGITS: usize = 43;

/// Digits that hold 32 bits.
const CHECKSUM_DIGITS: usize = 6;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Draws a key.
///
/// # Errors
/// Where the machine has no random numbers.
pub(super) fn draw() -> Result<String, getrandom::Error> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(text(&bytes))
}

/// The key of these random bytes.
pub(super) fn text(bytes: &[u8; RANDOM_BYTES]) -> String {
    let random = digits(bytes, RANDOM_DIGITS);
    let checksum = digits(&crc32fast::hash(random.as_bytes()).to_be_bytes(), CHECKSUM_DIGITS);
    format!("{PREFIX}{random}{checksum}")
}

/// Whether a text is a whole key of ours, by its form and its checksum.
pub(super) fn is_key(text: &str) -> bool {
    let Some(digits_all) = text.strip_prefix(PREFIX) else { return false };
    let Some((random, checksum)) = digits_all.split_at_checked(RANDOM_DIGITS) else { return false };
    digits(&crc32fast::hash(random.as_bytes()).to_be_bytes(), CHECKSUM_DIGITS) == checksum
}

/// A whole number, its most significant byte first, in so many digits of base 62.
fn digits(number: &[u8], count: usize) -> String {
    let mut number = number.to_vec();
    let mut digits = vec![DIGITS[0]; count];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0_u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            rest = value % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    String::from_utf8(digits).unwrap_or_default()
}
