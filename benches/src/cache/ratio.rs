//! Hit ratio of the response cache by its size, under Zipf-distributed requests.

use std::collections::{BTreeMap, BTreeSet};

use crate::Dice;
use overdraft_claims::as_float;
use overdraft_core::response_cache::{Found, Key, Shelf};
use overdraft_sim::float_conversion::float;
use overdraft_sim::report::{Plot, Scale, page_of_plots};
use overdraft_units::{Instant, Micros};
use serde::Serialize;

/// Requests that repeat, by Zipf's law.
const HOT: usize = 20_000;

/// Of ten thousand requests, those that are among them; the rest comes once.
const HOT_SHARE: usize = 4_700;

/// Memory that is compared, in MiB; the last is the gateway's default.
const SIZES_MIB: [u64; 6] = [1, 4, 16, 32, 64, 256];

/// Bytes of answers, drawn evenly between the two ends of one of these: short, middling and long.
const LENGTHS: [(u64, u64); 3] = [(200, 800), (800, 3_000), (3_000, 12_000)];

/// Hit ratios in hundredths.
#[derive(Debug, Serialize)]
pub(crate) struct Ratios {
    requests: usize,
    unbounded: f64,
    by_size: Vec<BySize>,
}

#[derive(Debug, Serialize)]
struct BySize {
    mib: u64,
    shelf: f64,
    lru: f64,
    evicted: u64,
}

/// One request, and how long its answer is.
type Asked = (u64, u64);

/// Runs the same requests through caches of all sizes.
pub(crate) fn measure(requests: usize) -> Ratios {
    let asked = draw(requests);
    let mut seen = BTreeSet::new();
    let repeats = asked.iter().filter(|(number, _)| !seen.insert(*number)).count();
    let by_size = SIZES_MIB.iter().map(|&mib| {
        let (shelf, evicted) = on_shelf(&asked, mib << 20);
        let lru = by_lru(&asked, mib << 20);
        BySize { mib, shelf: share(shelf, requests), lru: share(lru, requests), evicted }
    });
    Ratios { requests, unbounded: share(repeats, requests), by_size: by_size.collect() }
}

impl Ratios {
    /// How far the largest memory is below a cache without bounds, in points.
    pub(crate) fn points_below(&self) -> f64 {
        self.unbounded - self.by_size.last().map_or(0.0, |last| last.shelf)
    }

    pub(crate) fn print(&self) {
        let Self { requests, unbounded, .. } = self;
        println!("\n{requests} requests, of which {unbounded:.1} % repeat one before");
        println!("{:>8}{:>12}{:>12}{:>12}", "MiB", "S3-FIFO, %", "LRU, %", "evicted");
        for BySize { mib, shelf, lru, evicted } in &self.by_size {
            println!("{mib:>8}{shelf:>12.1}{lru:>12.1}{evicted:>12}");
        }
    }

    /// Hits and evictions over the memory that they are kept in.
    pub(crate) fn page(&self) -> String {
        let over_size = |of: &dyn Fn(&BySize) -> f64| -> Vec<(f64, f64)> {
            self.by_size.iter().map(|row| (float(row.mib), of(row))).collect()
        };
        let x = ("memory, MiB", Scale::Logarithmic);
        let requests = as_float(self.requests);
        let hits = Plot {
            title: "Answers that were kept".to_owned(),
            x,
            y: "% of requests".to_owned(),
            lines: vec![
                ("S3-FIFO".to_owned(), over_size(&|row| row.shelf)),
                ("LRU".to_owned(), over_size(&|row| row.lru)),
                ("without bounds".to_owned(), over_size(&|_| self.unbounded)),
            ],
        };
        let evicted = Plot {
            title: "Answers that were evicted".to_owned(),
            x,
            y: "per 100 requests".to_owned(),
            lines: vec![(
                "S3-FIFO".to_owned(),
                over_size(&|row| 100.0 * float(row.evicted) / requests),
            )],
        };
        let sentence = format!(
            "{} requests drawn by Zipf's law, of which {:.1} % repeat one before; the cache is the \
             gateway's own.",
            self.requests, self.unbounded
        );
        page_of_plots("Overdraft: the response cache by its size", &sentence, &[hits, evicted])
    }
}

fn share(part: usize, whole: usize) -> f64 {
    100.0 * as_float(part) / as_float(whole.max(1))
}

fn draw(requests: usize) -> Vec<Asked> {
    let mut dice = Dice::new(7);
    // Weights of 1/rank, summed up, in millionths.
    let mut sums = Vec::new();
    let mut sum = 0;
    for rank in 1..=HOT {
        sum += 1_000_000_000 / rank;
        sums.push(sum);
    }
    let mut once = HOT;
    let mut draw = |_| {
        let number = if dice.below(10_000) < HOT_SHARE {
            let at = dice.below(sum);
            sums.partition_point(|bound| *bound <= at)
        } else {
            once += 1;
            once
        };
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        (number, length(number))
    };
    (0..requests).map(&mut draw).collect()
}

/// An answer's length goes by its request.
fn length(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let (from, to) = match mixed % 10 {
        0..=4 => LENGTHS[0],
        5..=8 => LENGTHS[1],
        _ => LENGTHS[2],
    };
    from + mixed % (to - from)
}

fn key(number: u64) -> Key {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    key[8..16].copy_from_slice(&number.to_le_bytes());
    key
}

fn on_shelf(asked: &[Asked], bytes: u64) -> (usize, u64) {
    let (now, until) = (Instant::ORIGIN, Instant::ORIGIN + Micros::new(1));
    let mut shelf = Shelf::new(bytes);
    let (mut hits, mut evicted) = (0, 0);
    for (number, length) in asked {
        let key = key(*number);
        if let Found::Hit(()) = shelf.get(&key, now) {
            hits += 1;
        } else {
            let gone = shelf.insert(key, (), *length, until, now);
            evicted += u64::from(gone.for_room);
        }
    }
    (hits, evicted)
}

/// What most caches do, for comparison: the one unasked for longest goes.
fn by_lru(asked: &[Asked], bytes_max: u64) -> usize {
    /// What the shelf counts for each thing besides.
    const SLOT: u64 = 160;
    let mut places: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut order: BTreeSet<(u64, u64)> = BTreeSet::new();
    let (mut bytes, mut turn, mut hits) = (0, 0, 0);
    for (number, length) in asked {
        turn += 1;
        if let Some((last, _)) = places.get_mut(number) {
            hits += 1;
            order.remove(&(*last, *number));
            *last = turn;
            order.insert((turn, *number));
            continue;
        }
        let size = length + SLOT;
        while bytes_max < bytes + size {
            let Some((_, oldest)) = order.pop_first() else { break };
            bytes -= places.remove(&oldest).map_or(0, |(_, size)| size);
        }
        places.insert(*number, (turn, size));
        order.insert((turn, *number));
        bytes += size;
    }
    hits
}
