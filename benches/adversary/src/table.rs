//! A trace of our own making: long prompts among short ones, and a crowd that comes at once.
//!
//! It is described by `rows:name=value,…` and becomes a CSV file in the temporary folder, so that a printed
//! command finds it. Equal descriptions are equal rows.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use overdraft_sim::Draws;

use crate::figures::{whole, whole32};

/// How descriptions begin.
pub(crate) const PREFIX: &str = "rows:";

/// Rows at most.
const ROWS_MAX: u64 = 100_000;

/// The stream of its draws.
const STREAM: u64 = 0x726f_7773;

/// What rows are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rows {
    /// How many, the crowd included.
    pub(crate) count: u64,
    /// Requests a second, without the crowd.
    pub(crate) rate: f64,
    /// Tokens of most prompts, half of that to one and a half times.
    pub(crate) short: f64,
    /// Tokens of some prompts, a fifth less or more.
    pub(crate) long: f64,
    /// Share of those.
    pub(crate) share: f64,
    /// Tokens of answers, a third of that to one and two thirds.
    pub(crate) output: f64,
    /// Prefixes that prompts begin with beside that, and tokens of each; none where there are no groups.
    pub(crate) groups: u64,
    pub(crate) prefix: u32,
    /// Requests that come at once, and the second at which they do.
    pub(crate) crowd: u64,
    pub(crate) when: f64,
    /// What draws all of it.
    pub(crate) dice: u64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    at: f64,
    prompt: u32,
    output: u32,
    group: Option<u64>,
}

impl Rows {
    /// Where they lie.
    pub(crate) fn path(&self) -> PathBuf {
        let name = self.to_string().replace([':', ',', '='], "-");
        std::env::temp_dir().join("overdraft-adversary").join(format!("{name}.csv"))
    }

    /// Makes the file, whole or not at all, and says where.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let path = self.path();
        let mut text = String::from("at,prompt_tokens,output_tokens,prefix,prefix_tokens\n");
        for Row { at, prompt, output, group } in self.rows() {
            let _written = write!(text, "{at:.6},{prompt},{output},");
            let _written = match group {
                Some(group) => writeln!(text, "{group},{}", self.prefix),
                None => writeln!(text, ","),
            };
        }
        if fs::read_to_string(&path).is_ok_and(|before| before == text) {
            return Ok(path);
        }
        let thread = format!("{:?}", std::thread::current().id());
        let aside = path.with_extension(format!("{}-{thread}", std::process::id()));
        fs::create_dir_all(path.parent().context("a folder for tables")?)?;
        fs::write(&aside, text).with_context(|| aside.display().to_string())?;
        fs::rename(&aside, &path)?;
        Ok(path)
    }

    fn rows(&self) -> Vec<Row> {
        let mut dice = Draws::new(self.dice, STREAM);
        let (mut at, mut rows) = (0.0, Vec::new());
        for number in 0..self.count {
            let in_crowd = number < self.crowd;
            if !in_crowd {
                at += dice.exponential(1.0 / self.rate);
            }
            let is_long = dice.share() < self.share;
            let (mean, by) = if is_long { (self.long, 0.2) } else { (self.short, 0.5) };
            let own = around(&mut dice, mean, by);
            let output = around(&mut dice, self.output, 0.7);
            let group = (0 < self.groups).then(|| dice.below(self.groups));
            let prompt = own + group.map_or(0, |_| self.prefix);
            rows.push(Row { at: if in_crowd { self.when } else { at }, prompt, output, group });
        }
        rows.sort_by(|one, other| one.at.total_cmp(&other.at));
        rows
    }
}

/// A length around a mean.
fn around(dice: &mut Draws, mean: f64, by: f64) -> u32 {
    whole32(mean * (1.0 + by * (2.0 * dice.share() - 1.0))).max(1)
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, rate, short, long, share, output, groups, prefix, crowd, when, dice } =
            self;
        write!(
            f,
            "{PREFIX}count={count},rate={rate},short={short},long={long},share={share},\
             output={output},groups={groups},prefix={prefix},crowd={crowd},when={when},dice={dice}"
        )
    }
}

impl FromStr for Rows {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let pairs = text.strip_prefix(PREFIX).context("rows begin with `rows:`")?;
        let mut values: Vec<(&str, f64)> = Vec::new();
        for pair in pairs.split(',') {
            let (name, value) = pair.split_once('=').with_context(|| format!("`{pair}`"))?;
            values.push((name, value.parse().with_context(|| format!("`{pair}`"))?));
        }
        let of = |name: &str| {
            let found = values.iter().find(|(known, _)| *known == name);
            found.map_or(0.0, |(_, value)| *value)
        };
        let count = |name| u64::try_from(whole(of(name))).unwrap_or(u64::MAX);
        let rows = Self {
            count: count("count"),
            rate: of("rate"),
            short: of("short"),
            long: of("long"),
            share: of("share"),
            output: of("output"),
            groups: count("groups"),
            prefix: whole32(of("prefix")),
            crowd: count("crowd"),
            when: of("when"),
            dice: count("dice"),
        };
        if !(1..=ROWS_MAX).contains(&rows.count) || rows.rate <= 0.0 {
            bail!("`{text}`: expected 1 to {ROWS_MAX} rows at a rate above zero");
        }
        Ok(rows)
    }
}
