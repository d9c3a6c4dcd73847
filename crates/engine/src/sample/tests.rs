//! The exponential against the library's.

use super::scan::exp;

#[test]
fn the_exponential_is_within_two_units_in_the_last_place() {
    for step in 0..=870_000_u32 {
        let x = -super::scan::single(f64::from(step) * 1e-4);
        let expected = f64::from(x).exp();
        let error = (f64::from(exp(x)) - expected).abs() / expected;
        assert!(error < 2.4e-7, "exp({x}) is off by {error}");
    }
}

#[test]
fn the_exponential_of_nothing_is_nothing() {
    assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
    for x in [-87.1, -1e30, f32::MIN, f32::NEG_INFINITY] {
        assert_eq!(exp(x).to_bits(), 0, "exp({x})");
    }
}
