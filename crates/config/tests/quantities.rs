//! Quantities: what is written is what is meant, and what is shown reads back.

use overdraft_config::{ByteSize, Factor, Share, TimeSpan, Timestamp};
use proptest::prelude::*;

#[track_caller]
fn check<T: std::str::FromStr + std::fmt::Display>(text: &str, shown: Option<&str>) {
    let read = text.parse::<T>().ok().map(|value| value.to_string());
    assert_eq!(read.as_deref(), shown, "{text}");
}

#[test]
fn spans() {
    check::<TimeSpan>("200ms", Some("200ms"));
    check::<TimeSpan>("0.2s", Some("200ms"));
    check::<TimeSpan>("60 s", Some("1m"));
    check::<TimeSpan>("90s", Some("90s"));
    check::<TimeSpan>("1.5h", Some("90m"));
    check::<TimeSpan>("250us", Some("250us"));
    check::<TimeSpan>("0s", Some("0s"));
    check::<TimeSpan>("7d", Some("7d"));
    for text in ["8d", "5", "s", "-1s", "1.s5", "1e3s", "1..5s", ".5s", "0.0000001s", "", "1 2s"] {
        check::<TimeSpan>(text, None);
    }
    check::<TimeSpan>("99999999999999999999s", None);
}

#[test]
fn points_in_time() {
    check::<Timestamp>("2027-01-31T00:00:00Z", Some("2027-01-31T00:00:00Z"));
    check::<Timestamp>("2027-01-31T00:00:00+01:00", Some("2027-01-30T23:00:00Z"));
    check::<Timestamp>("2028-02-29t12:30:00z", Some("2028-02-29T12:30:00Z"));
    for text in [
        "2027-01-31",
        "2027-01-31T00:00:00",
        "2027-02-29T00:00:00Z",
        "2027-01-31T25:00:00Z",
        "1800000000",
        "90d",
        "tomorrow",
        "never",
        "",
    ] {
        check::<Timestamp>(text, None);
    }
}

#[test]
fn shares() {
    check::<Share>("10%", Some("10%"));
    check::<Share>("0.1", Some("10%"));
    check::<Share>("12.5 %", Some("12.5%"));
    check::<Share>("1", Some("100%"));
    check::<Share>("0", Some("0%"));
    for text in ["101%", "1.001", "0.0001", "0.05%", "-1%", "%", "ten", "NaN", "inf"] {
        check::<Share>(text, None);
    }
}

#[test]
fn factors() {
    check::<Factor>("1.25", Some("1.25"));
    check::<Factor>("2", Some("2"));
    check::<Factor>("1.001", Some("1.001"));
    for text in ["1.0001", "-1", "1001", "x"] {
        check::<Factor>(text, None);
    }
}

#[test]
fn sizes() {
    check::<ByteSize>("64MiB", Some("64MiB"));
    check::<ByteSize>("1024", Some("1KiB"));
    check::<ByteSize>("1.5KiB", Some("1536B"));
    check::<ByteSize>("1MB", Some("1000000B"));
    check::<ByteSize>("0", Some("0B"));
    for text in ["2TiB", "1mb", "0.3B", "-1", "GiB", "18446744073709551615GiB"] {
        check::<ByteSize>(text, None);
    }
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(micros in 0_u64..604_800_000_000, bytes in 0_u64..1 << 40,
                                share in 0_u16..=1_000, factor in 0_u32..=1_000_000) {
        let span: TimeSpan = format!("{micros}us").parse().unwrap();
        prop_assert_eq!(span.to_string().parse(), Ok(span));
        let size = ByteSize::from_bytes(bytes);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
        let share = Share::from_permille(share).unwrap();
        prop_assert_eq!(share.to_string().parse(), Ok(share));
        let factor = Factor::from_permille(factor);
        prop_assert_eq!(factor.to_string().parse(), Ok(factor));
    }

    #[test]
    fn no_text_is_ever_more_than_refused(text in "\\PC{0,12}") {
        let _ = text.parse::<TimeSpan>();
        let _ = text.parse::<Share>();
        let _ = text.parse::<Factor>();
        let _ = text.parse::<ByteSize>();
    }
}
