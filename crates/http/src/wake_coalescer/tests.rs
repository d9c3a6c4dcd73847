//! Which wakes reach the task, and how often there is another poll instead.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Counts wakes.
#[derive(Debug, Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls something that wakes itself in its first `wakes` polls; tells polls and wakes seen.
fn poll(wakes: usize) -> (usize, usize) {
    let task = Arc::new(Task::default());
    let waker = Waker::from(Arc::clone(&task));
    let quiet = WakeCoalescer::new();
    let mut polls = 0;
    let polled: Poll<()> = quiet.poll(&Context::from_waker(&waker), |cx| {
        polls += 1;
        if polls <= wakes {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    });
    assert!(polled.is_pending());
    (polls, task.0.load(Ordering::Relaxed))
}

#[test]
fn wakes_during_a_poll_are_answered_by_another_poll() {
    assert_eq!(poll(0), (1, 0));
    assert_eq!(poll(1), (2, 0));
    assert_eq!(poll(3), (4, 0));
}

#[test]
fn what_wakes_at_every_poll_goes_back_to_the_queue() {
    assert_eq!(poll(usize::MAX), (TURNS_MAX, 1));
}

#[test]
fn wakes_while_asleep_go_to_the_task_that_polled_last() {
    let tasks = [Arc::new(Task::default()), Arc::new(Task::default())];
    let quiet = WakeCoalescer::new();
    let mut inner = None;
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        let _pending: Poll<()> = quiet.poll(&Context::from_waker(&waker), |cx| {
            inner = Some(cx.waker().clone());
            Poll::Pending
        });
    }
    inner.unwrap().wake();
    let woken = tasks.map(|task| task.0.load(Ordering::Relaxed));
    assert_eq!(woken, [0, 1]);
}

#[test]
fn what_is_ready_is_told_at_once() {
    let quiet = WakeCoalescer::new();
    let polled = quiet.poll(&Context::from_waker(Waker::noop()), |cx| {
        cx.waker().wake_by_ref();
        Poll::Ready(7)
    });
    assert_eq!(polled, Poll::Ready(7));
}
