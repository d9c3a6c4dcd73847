//! Job gate: synchronises workers with the caller's job by one atomic word.
//!
//! One word holds the turn (which job), whether the gate is open, and how many workers are inside.
//! The caller opens it with a job, works along, shuts it, and waits until it is empty. A late
//! worker finds it shut, and the caller does not wait for it: waking a sleeping thread never delays
//! a job.
//!
//! Invariant: the job is written only while the gate is shut and empty, and read only by a worker
//! inside.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Spins before a worker sleeps: some tens of microseconds, longer than the pause between two
/// kernels.
const SPINS_BEFORE_SLEEP: u32 = 4_000;
/// Spins before the caller sleeps until the last worker leaves.
const SPINS_BEFORE_WAIT: u32 = 20_000;

/// Workers inside: the low bits.
const INSIDE_MASK: u64 = 0xffff;
/// Set while workers may come in.
const OPEN: u64 = 1 << 16;
/// The turn is counted above.
const TURN_SHIFT: u32 = 17;

/// The gate. See the module's header.
pub(super) struct Gate<J> {
    state: AtomicU64,
    job: UnsafeCell<Option<J>>,
    ended: AtomicBool,
    sleepers: AtomicUsize,
    waiting: AtomicBool,
    lock: Mutex<()>,
    opened: Condvar,
    emptied: Condvar,
}

// SAFETY: the invariant above makes every read of `job` happen after its write and before the
// next one: opening releases, joining acquires, leaving releases, and shutting acquires.
unsafe impl<J: Send> Sync for Gate<J> {}

impl<J> Default for Gate<J> {
    fn default() -> Self {
        Self {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            ended: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            lock: Mutex::new(()),
            opened: Condvar::new(),
            emptied: Condvar::new(),
        }
    }
}

impl<J> fmt::Debug for Gate<J> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load(Ordering::Relaxed);
        let (turn, inside) = (state >> TURN_SHIFT, state & INSIDE_MASK);
        out.debug_struct("Gate")
            .field("turn", &turn)
            .field("inside", &inside)
            .finish_non_exhaustive()
    }
}

impl<J: Copy> Gate<J> {
    /// Shut and empty => open. Only one caller at a time, and only after [`Self::shut`].
    pub(super) fn open(&self, job: J) {
        let state = self.state.load(Ordering::Acquire);
        assert_eq!(state & (OPEN | INSIDE_MASK), 0, "the gate was left open or occupied");
        // SAFETY: shut and empty, and the caller is alone: nobody reads the job now.
        unsafe { *self.job.get() = Some(job) };
        // SeqCst, as in `sleep`: either the sleeper sees the gate open, or this sees the sleeper.
        self.state.store(((state >> TURN_SHIFT) + 1) << TURN_SHIFT | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.opened.notify_all();
        }
    }

    /// Open => shut, and waits until the workers inside have left.
    pub(super) fn shut(&self) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        for _ in 0..SPINS_BEFORE_WAIT {
            if self.is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
        self.waiting.store(true, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_empty() {
            guard = self.emptied.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.store(false, Ordering::SeqCst);
    }

    /// Tells the workers that no job will come.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.opened.notify_all();
    }

    /// Waits for a turn other than `last` and goes inside; `None` once the gate has ended.
    pub(super) fn join(&self, last: u64) -> Option<(u64, J)> {
        loop {
            for _ in 0..SPINS_BEFORE_SLEEP {
                if self.ended.load(Ordering::Relaxed) {
                    return None;
                }
                if let Some(joined) = self.try_join(last) {
                    return Some(joined);
                }
                std::hint::spin_loop();
            }
            self.sleep(last);
        }
    }

    /// Inside => outside; wakes the caller when it waits for the last.
    pub(super) fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::SeqCst);
        debug_assert_ne!(before & INSIDE_MASK, 0, "a worker left twice");
        let last_of_shut = before & (OPEN | INSIDE_MASK) == 1;
        if last_of_shut && self.waiting.load(Ordering::SeqCst) {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.emptied.notify_all();
        }
    }

    fn is_empty(&self) -> bool {
        self.state.load(Ordering::SeqCst) & INSIDE_MASK == 0
    }

    /// Whether a turn other than `last` is open in `state`.
    fn admits(state: u64, last: u64) -> bool {
        state & OPEN != 0 && state >> TURN_SHIFT != last
    }

    fn try_join(&self, last: u64) -> Option<(u64, J)> {
        let mut state = self.state.load(Ordering::Relaxed);
        while Self::admits(state, last) {
            let inside = state + 1;
            match self.state.compare_exchange_weak(
                state,
                inside,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    // SAFETY: inside, so nobody writes the job until this worker leaves.
                    let job = unsafe { *self.job.get() };
                    return Some((state >> TURN_SHIFT, job.expect("an open gate has a job")));
                }
                Err(seen) => state = seen,
            }
        }
        None
    }

    /// Sleeps until a turn other than `last` opens or the gate ends.
    fn sleep(&self, last: u64) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.ended.load(Ordering::SeqCst)
            && !Self::admits(self.state.load(Ordering::SeqCst), last)
        {
            // A turn that opened and shut meanwhile is no loss: its caller did the work.
            guard = self.opened.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}
