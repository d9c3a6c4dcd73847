//! Durations, points in time, percentages and byte sizes: parsing and printing of `200ms`, `10%`, `64MiB`.
//!
//! The unit is part of the value, because the unit of a bare number is only in the source code.
//! Values are exact integers, never floats, so that a value prints as it was written.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use overdraft_units::Ratio;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Maximum duration in microseconds: a week.
const SPAN_MICROS_MAX: u64 = 7 * 24 * 3_600 * 1_000_000;

/// Maximum size in bytes: a tebibyte.
const SIZE_BYTES_MAX: u64 = 1 << 40;

/// Largest factor that can be asked for, in thousandths.
const FACTOR_PERMILLE_MAX: u64 = 1_000_000;

/// Largest price that can be asked for, in millionths of a dollar: a thousand dollars.
const PRICE_MICROS_MAX: u64 = 1_000_000_000;

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// No span of time.
    #[error(
        "`{text}` is not a span of time; expected a number and a unit, as in `200ms`, `2s` or `1m`, at most `7d`"
    )]
    TimeSpan {
        /// As written.
        text: String,
    },
    /// No share.
    #[error(
        "`{text}` is not a share; expected `0%` to `100%` or `0.0` to `1.0`, in steps of 0.1 %"
    )]
    Share {
        /// As written.
        text: String,
    },
    /// No factor.
    #[error(
        "`{text}` is not a factor; expected a number such as `1.25`, with at most three decimals"
    )]
    Factor {
        /// As written.
        text: String,
    },
    /// No price.
    #[error(
        "`{text}` is not a price; expected dollars, for a million tokens or an hour, as in `0.15`, at most `1000`"
    )]
    Price {
        /// As written.
        text: String,
    },
    /// No point in time.
    #[error(
        "`{text}` is not a point in time; expected a date, a time and an offset from UTC, as in `2027-01-31T00:00:00Z`"
    )]
    Timestamp {
        /// As written.
        text: String,
    },
    /// No size.
    #[error(
        "`{text}` is not a size; expected bytes or a number and a unit, as in `512KiB` or `64MiB`, at most `1TiB`"
    )]
    ByteSize {
        /// As written.
        text: String,
    },
}

/// A span of time, written as `200ms`, `2s`, `1m`; exact to the microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(Duration);

/// A limit of time, written as a [`TimeSpan`] or as `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeLimit {
    /// As long as a request needs by what was measured, and never shorter than its least.
    #[default]
    Auto,
    /// So long.
    Fixed(TimeSpan),
}

/// How it is written that a limit of time is not set.
const AUTO: &str = "auto";

/// A [`Ratio`] as it is written: `10%` or `0.1`; exact to a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u16);

/// A point in time, written as RFC 3339 has it: `2027-01-31T00:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub jiff::Timestamp);

/// A factor, written as `1.25`; exact to a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u32);

/// A size in bytes, written as `64MiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

/// A price in dollars, for a million tokens or an hour, written as `0.15`; exact to a millionth of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(u64);

const TIME_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
    ("µs", 1),
];

const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

impl TimeSpan {
    /// So many milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// So many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// As the standard library has it.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// Whether it is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl TimeLimit {
    /// The span, where one is set.
    pub const fn span(self) -> Option<TimeSpan> {
        match self {
            Self::Auto => None,
            Self::Fixed(span) => Some(span),
        }
    }

    /// The shortest that it can come to.
    pub fn at_least(self, least: TimeSpan) -> TimeSpan {
        self.span().unwrap_or(least)
    }
}

impl FromStr for TimeLimit {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.trim() == AUTO { Ok(Self::Auto) } else { text.parse().map(Self::Fixed) }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Fixed(span) => span.fmt(f),
        }
    }
}

impl Share {
    /// So many thousandths; `None` above a thousand.
    pub const fn from_permille(permille: u16) -> Option<Self> {
        if permille <= 1_000 { Some(Self(permille)) } else { None }
    }

    /// In thousandths, 0 to 1,000.
    pub const fn permille(self) -> u16 {
        self.0
    }

    /// The part of a whole that was written.
    pub fn ratio(self) -> Ratio {
        Ratio::permille(self.0.into())
    }
}

impl Factor {
    /// So many thousandths.
    pub const fn from_permille(permille: u32) -> Self {
        Self(permille)
    }

    /// In thousandths.
    pub const fn permille(self) -> u32 {
        self.0
    }
}

impl ByteSize {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Price {
    /// So many millionths of a dollar per million tokens.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// In millionths of a dollar per million tokens.
    pub const fn micros(self) -> u64 {
        self.0
    }
}

impl FromStr for TimeSpan {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let micros = united(text, TIME_UNITS).filter(|micros| *micros <= SPAN_MICROS_MAX);
        let micros = micros.ok_or_else(|| QuantityError::TimeSpan { text: text.to_owned() })?;
        Ok(Self(Duration::from_micros(micros)))
    }
}

impl FromStr for Timestamp {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let time = text.trim().parse().map(Self);
        time.map_err(|_| QuantityError::Timestamp { text: text.to_owned() })
    }
}

impl FromStr for Share {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let permille = match text.trim().strip_suffix('%') {
            Some(percent) => decimal(percent.trim(), 10),
            None => decimal(text.trim(), 1_000),
        };
        let share = permille.and_then(|permille| u16::try_from(permille).ok());
        share
            .and_then(Self::from_permille)
            .ok_or_else(|| QuantityError::Share { text: text.to_owned() })
    }
}

impl FromStr for Factor {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let permille = decimal(text.trim(), 1_000).filter(|it| *it <= FACTOR_PERMILLE_MAX);
        let permille = permille.and_then(|it| u32::try_from(it).ok());
        permille.map(Self).ok_or_else(|| QuantityError::Factor { text: text.to_owned() })
    }
}

impl FromStr for Price {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let micros = decimal(text.trim().trim_start_matches('$'), 1_000_000);
        let micros = micros.filter(|it| *it <= PRICE_MICROS_MAX);
        micros.map(Self).ok_or_else(|| QuantityError::Price { text: text.to_owned() })
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let bytes = united(text, SIZE_UNITS).filter(|bytes| *bytes <= SIZE_BYTES_MAX);
        bytes.map(Self).ok_or_else(|| QuantityError::ByteSize { text: text.to_owned() })
    }
}

/// A number with one of `units` behind it, in the smallest of them.
fn united(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim())?;
    decimal(number, *scale)
}

/// `number` times `scale`, if that is a whole number.
fn decimal(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let fraction = fraction.trim_end_matches('0');
    let mut sum = whole.checked_mul(scale)?;
    if !fraction.is_empty() {
        let divisor = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let scaled = fraction.parse::<u64>().ok()?.checked_mul(scale)?;
        if scaled % divisor != 0 {
            return None;
        }
        sum = sum.checked_add(scaled / divisor)?;
    }
    Some(sum)
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = u64::try_from(self.0.as_micros()).unwrap_or(SPAN_MICROS_MAX);
        if micros == 0 {
            return f.write_str("0s");
        }
        let (unit, scale) = largest(micros, TIME_UNITS);
        write!(f, "{}{unit}", micros / scale)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0B");
        }
        let (unit, scale) = largest(self.0, SIZE_UNITS);
        write!(f, "{}{unit}", self.0 / scale)
    }
}

/// The first unit that leaves no remainder; the tables begin with the largest.
fn largest(amount: u64, units: &[(&'static str, u64)]) -> (&'static str, u64) {
    let whole = units.iter().find(|(_, scale)| amount.is_multiple_of(*scale));
    *whole.expect("every table has a unit of one")
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenth) = (self.0 / 10, self.0 % 10);
        if tenth == 0 { write!(f, "{whole}%") } else { write!(f, "{whole}.{tenth}%") }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = format!("{:03}", self.0 % 1_000);
        let decimals = thousandths.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        write!(f, "{}{point}{decimals}", self.0 / 1_000)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millionths = format!("{:06}", self.0 % 1_000_000);
        let decimals = millionths.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        write!(f, "{}{point}{decimals}", self.0 / 1_000_000)
    }
}

/// Reads what was written as text or as a bare number.
struct Written<T>(std::marker::PhantomData<T>, &'static str);

impl<T: FromStr<Err = QuantityError>> Visitor<'_> for Written<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! quantities {
    ($($name:ident, $what:literal, $schema:tt;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Written(std::marker::PhantomData, $what))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

quantities! {
    TimeSpan, "a span of time, as in `200ms` or `2s`", {
        "description": "A span of time: a number and a unit, as in `200ms`, `2s`, `1m`.",
        "type": "string",
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(us|µs|ms|s|m|min|h|d)\s*$|\$\{"
    };
    TimeLimit, "a span of time, as in `200ms` or `2s`, or `auto`", {
        "description": "`auto`, or a span of time: a number and a unit, as in `200ms`, `2s`, `1m`.",
        "type": "string",
        "pattern": r"^\s*(auto|[0-9]+(\.[0-9]+)?\s*(us|µs|ms|s|m|min|h|d))\s*$|\$\{"
    };
    Timestamp, "a point in time, as in `2027-01-31T00:00:00Z`", {
        "description": "A point in time as RFC 3339 has it, as in `2027-01-31T00:00:00Z`.",
        "type": "string",
        "pattern": r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}.*$|\$\{"
    };
    Share, "a share, as in `10%` or `0.1`", {
        "description": "A share of a whole: `10%` or `0.1`, exact to 0.1 %.",
        "type": ["string", "number"],
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%?\s*$|\$\{",
        "minimum": 0,
        "maximum": 1
    };
    Factor, "a factor, as in `1.25`", {
        "description": "A factor, as in `1.25`.",
        "type": ["string", "number"],
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*$|\$\{",
        "minimum": 0
    };
    Price, "a price, as in `0.15`", {
        "description": "A price in dollars, for a million tokens or an hour, as in `0.15`.",
        "type": ["string", "number"],
        "pattern": r"^\s*\$?[0-9]+(\.[0-9]+)?\s*$|\$\{",
        "minimum": 0
    };
    ByteSize, "a size, as in `64MiB`", {
        "description": "A size: bytes, or a number and a unit, as in `512KiB` or `64MiB`.",
        "type": ["string", "integer"],
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(B|KiB|MiB|GiB|TiB|kB|KB|MB|GB)?\s*$|\$\{",
        "minimum": 0
    };
}
