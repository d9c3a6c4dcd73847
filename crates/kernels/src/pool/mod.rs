//! Thread pool (fork-join): distributes the parts of a kernel over threads.
//!
//! [`Pool::run`] gives part numbers to idle threads, the caller included, and returns when all
//! parts are done. Workers spin for a bounded time, because the next kernel follows within
//! microseconds, and then sleep, because other engines and the gateway need the machine too.
//!
//! Invariant: a worker holds the job's pointer only between joining through the gate and leaving
//! it, and `run` returns only when the gate is shut and empty. The kernels, not the pool, guarantee
//! that results do not depend on which thread computes which part.

mod disjoint;
mod gate;
#[cfg(test)]
mod tests;

pub(crate) use disjoint::Disjoint;

use crate::simd::{Instructions, Kernel, Level};
use gate::Gate;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads that a pool may have; more are of no use to kernels that share one memory bus.
pub const POOL_THREADS_MAX: usize = 256;

/// A fork-join thread pool that knows which instructions its kernels use.
///
/// Dropping it joins its threads.
#[derive(Debug)]
pub struct Pool {
    instructions: Instructions,
    level: Level,
    shared: Option<Arc<Shared>>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a job runs: a second caller, or a part that runs parts, works alone instead.
    busy: Mutex<()>,
}

/// What the workers see.
#[derive(Debug)]
struct Shared {
    gate: Gate<Job>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// One call of [`Pool::run`] as its workers see it: the closure lives in the caller's frame.
#[derive(Debug, Clone, Copy)]
struct Job {
    work: *const Work<'static>,
}

/// A call's closure and how far it has come.
struct Work<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    next: AtomicUsize,
    parts: usize,
}

// SAFETY: the pointer is read only by threads inside the gate, while the caller of `run` keeps
// what it points to alive; `Work` itself is `Sync`, as its closure and its counter are.
unsafe impl Send for Job {}

impl Pool {
    /// A pool of `threads` (the caller counts as one; 0 is taken as 1) on the best instructions.
    pub fn new(threads: usize) -> Self {
        Self::with_instructions(threads, Instructions::detect())
    }

    /// As [`Self::new`] on chosen instructions, for tests and measurements. Panics where the
    /// machine lacks them: ask [`Instructions::is_available`] first.
    pub fn with_instructions(threads: usize, instructions: Instructions) -> Self {
        let level = instructions.level().expect("the machine has the chosen instructions");
        let threads = threads.clamp(1, POOL_THREADS_MAX);
        let shared = (threads > 1)
            .then(|| Arc::new(Shared { gate: Gate::default(), panic: Mutex::new(None) }));
        let mut workers = Vec::new();
        if let Some(shared) = &shared {
            for number in 1..threads {
                let shared = Arc::clone(shared);
                let name = format!("kernels-{number}");
                let worker = std::thread::Builder::new().name(name).spawn(move || serve(&shared));
                // A machine that gives fewer threads gets a smaller pool: only speed is lost.
                workers.extend(worker.ok());
            }
        }
        Self { instructions, level, shared, workers, busy: Mutex::new(()) }
    }

    /// Threads that work on a job, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// The instructions that kernels on this pool use.
    pub fn instructions(&self) -> Instructions {
        self.instructions
    }

    /// Calls `part(0)`, …, `part(parts - 1)`, each once, on any thread in any order, and returns
    /// when all are done. A panic in a part reaches the caller once all threads have let go; parts
    /// not yet begun are then skipped. Called from inside a part, or while another thread runs
    /// something here, the parts run on the calling thread.
    pub fn run(&self, parts: usize, part: impl Fn(usize) + Sync) {
        let Some(shared) = self.shared.as_ref().filter(|_| parts > 1) else {
            (0..parts).for_each(part);
            return;
        };
        let Ok(busy) = self.busy.try_lock() else {
            (0..parts).for_each(part);
            return;
        };
        let work = Work { run: &part, next: AtomicUsize::new(0), parts };
        shared.gate.open(Job { work: (&raw const work).cast() });
        work.drain(&shared.panic);
        shared.gate.shut();
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(busy);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Splits `data` into chunks of `chunk` (the last may be shorter) and calls
    /// `work(index, chunk)` for each, as [`Self::run`] does.
    pub fn run_chunks<T: Send>(
        &self,
        data: &mut [T],
        chunk: usize,
        work: impl Fn(usize, &mut [T]) + Sync,
    ) {
        assert!(chunk > 0, "a chunk of 0 elements never ends; expected at least 1");
        let length = data.len();
        let disjoint = Disjoint::new(data);
        self.run(length.div_ceil(chunk), |index| {
            let start = index * chunk;
            let end = length.min(start + chunk);
            // SAFETY: `run` calls each index once, and chunks of different indices do not overlap.
            work(index, unsafe { disjoint.slice(start..end) });
        });
    }

    /// Runs a kernel on the calling thread with this pool's instructions.
    #[inline]
    pub(crate) fn kernel<K: Kernel>(&self, kernel: K) -> K::Output {
        self.level.run(kernel)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.gate.end();
        }
        for worker in self.workers.drain(..) {
            // A worker catches the panics of parts; it has none of its own to report.
            let _ = worker.join();
        }
    }
}

impl Work<'_> {
    /// Takes parts until none are left; keeps the first panic and skips the rest.
    fn drain(&self, panic: &Mutex<Option<Box<dyn Any + Send>>>) {
        loop {
            // Relaxed: the gate orders what the parts read and write; this only counts.
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.run)(part))) {
                self.next.store(self.parts, Ordering::Relaxed);
                let mut first = panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(payload);
                return;
            }
        }
    }
}

/// A worker's life: join each job while its gate is open, until the pool ends.
fn serve(shared: &Shared) {
    let mut last = 0;
    while let Some((turn, job)) = shared.gate.join(last) {
        last = turn;
        // SAFETY: this thread is inside the gate, so `run` has not returned and `work` lives.
        let work = unsafe { &*job.work };
        work.drain(&shared.panic);
        shared.gate.leave();
    }
}
