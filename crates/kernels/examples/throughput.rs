//! Kernel throughput of this machine, compared with its memory bandwidth.
//!
//! `cargo run --release -p overdraft-kernels --example throughput [threads] [instructions] [format]`
//!
//! For each format and shape: the best of several runs for 1 to 256 input rows, as gigabytes of
//! weights read and as gigaflops (a multiplication and an addition for each weight and row).
//! Matrices are rotated so that they come from memory, not from a cache.

#![expect(clippy::print_stdout, reason = "a measurement prints its table")]
#![expect(clippy::cast_precision_loss, reason = "figures are printed with three digits")]

use overdraft_kernels::{
    Activations, AttentionShape, Instructions, KvCache, Matrix, Pool, RowContext, WeightFormat,
    read_through,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Weights read between two uses of the same matrix: more than any cache holds.
const ROTATION_BYTES: usize = 192 << 20;
/// Time spent on each figure.
const BUDGET: Duration = Duration::from_millis(250);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(available);
    let wanted = arguments.next();
    let instructions = Instructions::ALL
        .into_iter()
        .find(|set| Some(set.name()) == wanted.as_deref() && set.is_available())
        .unwrap_or_else(Instructions::detect);
    let pool = Pool::with_instructions(threads, instructions);
    println!("{} threads, {}", pool.threads(), instructions.name());
    println!("memory: {:.1} GB/s read", memory_speed(&pool) / 1e9);
    let only = arguments.next();
    for format in [
        WeightFormat::Q4K,
        WeightFormat::Q6K,
        WeightFormat::Q8_0,
        WeightFormat::Q5K,
        WeightFormat::Q4_0,
        WeightFormat::Q4_1,
        WeightFormat::Iq4Nl,
        WeightFormat::F16,
    ] {
        if only.as_ref().is_some_and(|only| only != format.name()) {
            continue;
        }
        for (rows, columns) in [(2048, 2048), (2048, 8192)] {
            products(format, rows, columns, &pool);
        }
    }
    refill(&pool);
    attention(&pool);
    fork_join(&pool);
}

/// The shortest of many runs.
fn best(mut run: impl FnMut()) -> f64 {
    let start = now();
    let mut best = Duration::MAX;
    while start.elapsed() < BUDGET {
        let before = now();
        run();
        best = best.min(before.elapsed());
    }
    best.as_secs_f64()
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Bytes read a second, in windows of a large buffer: each fits a time slice.
fn memory_speed(pool: &Pool) -> f64 {
    const WINDOW: usize = 8 << 20;
    let numbers = vec![1.0; ROTATION_BYTES / size_of::<f32>()];
    let mut next = 0;
    let seconds = best(|| {
        let window = next % (numbers.len() / WINDOW) * WINDOW;
        black_box(read_through(&numbers[window..window + WINDOW], pool));
        next += 1;
    });
    (WINDOW * size_of::<f32>()) as f64 / seconds
}

fn products(format: WeightFormat, rows: usize, columns: usize, pool: &Pool) {
    // Small numbers in every byte: scales and weights stay finite.
    let bytes = rows * format.row_bytes(columns).expect("whole blocks");
    let raw: Vec<u8> = (0..23).cycle().take(bytes).collect();
    let packed = Matrix::pack(format, rows, columns, &raw, pool).expect("the shape's bytes");
    let count = (ROTATION_BYTES / packed.bytes()).max(2);
    let mut matrices = vec![packed];
    for _ in 1..count {
        matrices.push(Matrix::pack(format, rows, columns, &raw, pool).expect("as above"));
    }
    let seconds = best(|| {
        black_box(Matrix::pack(format, rows, columns, &raw, pool).is_ok());
    });
    print!(
        "{:5} {rows} x {columns}: packed {:.2} GB/s;",
        format.name(),
        bytes as f64 / seconds / 1e9
    );
    for batch in [1, 2, 3, 4, 5, 8, 9, 16, 64, 256] {
        let input: Vec<f32> = (0..batch * columns).map(|at| (at % 17) as f32 - 8.0).collect();
        let mut output = vec![0.0; batch * rows];
        let mut activations = Activations::new();
        let mut next = 0;
        activations.refill(&input, columns, &[&matrices[0]], pool);
        let seconds = best(|| {
            let matrix = &matrices[next % count];
            next += 1;
            matrix.multiply(&activations, black_box(&mut output), pool);
        });
        let speed = matrices[0].bytes() as f64 / seconds / 1e9;
        let flops = 2.0 * (batch * rows * columns) as f64 / seconds / 1e9;
        print!("  {batch}: {speed:.1} GB/s {flops:.0} GF");
    }
    println!();
}

fn refill(pool: &Pool) {
    let raw: Vec<u8> = (0..23).cycle().take(16 * 34 * 64).collect();
    let matrix = Matrix::pack(WeightFormat::Q8_0, 16, 2048, &raw, pool).expect("16 x 64 blocks");
    let input = vec![0.5; 64 * 2048];
    let mut activations = Activations::new();
    let seconds = best(|| activations.refill(black_box(&input), 2048, &[&matrix], pool));
    println!("refill: {:.2} ns a number", seconds / input.len() as f64 * 1e9);
}

fn attention(pool: &Pool) {
    let shape = AttentionShape { heads: 32, kv_heads: 8, head_dim: 64, block_size: 16 };
    let length = 1024;
    let mut cache = KvCache::new(length / shape.block_size, shape);
    let row: Vec<f32> = (0..shape.key_columns()).map(|at| (at % 13) as f32 / 13.0).collect();
    let blocks = u32::try_from(cache.blocks()).expect("few blocks");
    let table: Vec<u32> = (0..blocks).collect();
    let seconds = best(|| {
        for block in 0..blocks {
            for slot in 0..shape.block_size {
                cache.write(block, slot, &row, &row, pool);
            }
        }
    });
    println!("cache write: {:.2} us a token and layer", seconds / length as f64 * 1e6);
    for batch in [1, 5, 16, 128] {
        let queries = vec![0.1; batch * shape.query_columns()];
        let mut output = vec![0.0; queries.len()];
        let rows: Vec<RowContext<'_>> = (length - batch..length)
            .map(|position| RowContext { table: &table, position })
            .collect();
        let seconds = best(|| cache.attend(&queries, &rows, black_box(&mut output), pool));
        let flops = 4.0 * (batch * length * shape.query_columns()) as f64 / seconds / 1e9;
        println!(
            "attention, {batch} rows of one sequence at 1024: {:.1} us, {flops:.0} GF",
            seconds * 1e6
        );
    }
}

fn fork_join(pool: &Pool) {
    let seconds = best(|| {
        for _ in 0..100 {
            pool.run(pool.threads(), |part| {
                black_box(part);
            });
        }
    });
    println!("an empty job: {:.2} us", seconds / 100.0 * 1e6);
}
