//! Shadow comparisons: whether a draft's answer is as good as the target's.
//!
//! A comparison runs in the background, after the client has its answer: the missing answer is
//! requested at the lowest priority, both are compared, and the core gets the label. A comparison
//! that finds no slot or no room, or whose answer does not end cleanly, is dropped.
//!
//! Invariant: no client ever waits for a comparison, and no more run than the cascade's settings say.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::admit::Priority;
use overdraft_core::cascade::{Ask, Judgement, Label, Mode, Moment, Payback, Upshot, Waited};
use overdraft_core::route::Strictness;
use overdraft_core::route::Tried;
use overdraft_telemetry::Delivery;
use overdraft_units::{Micros, Tokens};
use overdraft_wire::Object;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::CascadeLayer;
use super::call::Call;
use super::capture;
use super::driver::{Driver, Listened, Rejected};
use super::rewrite;
use super::schema::Schema;
use super::wait::micros;
use crate::pipeline::relay::whole;
use crate::settings::Labels;

/// How long a comparison may take in all.
const PATIENCE: Duration = Duration::from_mins(10);

/// One comparison.
#[derive(Debug)]
pub(super) struct Job {
    driver: Box<Driver>,
    asked: Ask,
    judgement: Option<Judgement>,
    target: Target,
    _place: OwnedSemaphorePermit,
}

/// Where the target's answer comes from.
#[derive(Debug)]
pub(super) enum Target {
    /// The client gets it, and so do we.
    Coming(oneshot::Receiver<String>),
    /// It must be asked for.
    Ask,
}

/// Has a draft compared, if there is a place. `driver` holds what there is of the draft.
pub(super) fn begin(
    mut driver: Box<Driver>,
    asked: Ask,
    judgement: Option<Judgement>,
    target: Target,
) {
    let state = Arc::clone(driver.state());
    let layer = Arc::clone(&driver.calls.layer);
    let Ok(place) = Arc::clone(&state.places).try_acquire_owned() else {
        layer.metrics.compared(&state.name, "no_place");
        return;
    };
    driver.info.priority = Priority::Flex;
    driver.calls.last = Instant::now() + PATIENCE;
    driver.guard = None;
    let job = Job { driver, asked, judgement, target, _place: place };
    if !layer.shadows.add(Box::pin(compare(job))) {
        layer.metrics.compared(&state.name, "no_place");
    }
}

/// Makes the comparisons; the background owns this.
pub(crate) async fn keep(layer: Arc<CascadeLayer>) {
    let Some(mut comparisons) = layer.shadows.take() else { return };
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            Some(comparison) = comparisons.recv() => {
                running.spawn(timeout(PATIENCE, comparison));
            }
            Some(_ended) = running.join_next() => {}
        }
    }
}

async fn compare(mut job: Job) {
    let state = Arc::clone(job.driver.state());
    let layer = Arc::clone(&job.driver.calls.layer);
    let result = match job.label().await {
        Ok(Label::Better) => "better",
        Ok(Label::AsGood) => "as_good",
        Ok(Label::Worse) => "worse",
        Err(why) => why,
    };
    layer.metrics.compared(&state.name, result);
}

impl Job {
    async fn label(&mut self) -> Result<Label, &'static str> {
        let driver = &mut self.driver;
        let times = if driver.worker.is_none() { Some(driver.draft_beside().await?) } else { None };
        while driver.listen().await.map_err(|rejected| rejected.why)? == Listened::More {}
        driver.stream = None;
        let state = Arc::clone(driver.state());
        let verifies = state.settings.mode == Mode::Verify;
        let drawn = driver.plan.dice.draw("beside");
        let judge = || state.judge(Moment::Whole, &driver.evidence, self.asked, drawn);
        let judgement = (!verifies).then(|| self.judgement.unwrap_or_else(judge));
        if let (Some(times), Some(judgement)) = (times, judgement) {
            driver.drafted_beside(times, judgement.upshot());
        }
        let target = match &mut self.target {
            Target::Coming(text) => text.await.map_err(|_| "no_target")?,
            Target::Ask => driver.ask_target().await.ok_or("no_target")?,
        };
        let judges = state.settings.labels == Labels::Judge && !verifies;
        let label = match driver.compared_with(&target) {
            Some(label) => label,
            None if judges => driver.judged(&target).await?,
            None => Label::Worse,
        };
        let Some(judgement) = judgement else {
            let is_worse = label == Label::Worse;
            if let Some(times) = times {
                driver
                    .drafted_beside(times, if is_worse { Upshot::Refused } else { Upshot::Given });
            }
            let drafted = driver.transcript.ids().map_or(1, <[u32]>::len).max(1);
            state.verified(if is_worse { 0 } else { drafted }, drafted);
            return Ok(label);
        };
        // What else was compared, the target answered.
        if let (Target::Ask, Some(side)) = (&self.target, &driver.info.side) {
            side.judged(Some((label, judgement.propensity)));
        }
        if judgement.checked {
            state.learn(&judgement, &driver.evidence, label);
        }
        Ok(label)
    }
}

/// When a draft that nobody waited for would have come to its verdict, and when it was whole.
#[derive(Clone, Copy, Debug)]
struct Times {
    verdict: Micros,
    end: Micros,
}

impl Driver {
    /// Has the whole draft told while nobody waits, within the limit that it would have where somebody did.
    async fn draft_beside(&mut self) -> Result<Times, &'static str> {
        let (state, traits) = (Arc::clone(self.state()), self.plan.traits);
        let begun = Instant::now();
        let told = timeout(state.limit_beside(&traits), self.hear_all(begun)).await;
        let rejected = match told {
            Ok(Ok(times)) => return Ok(times),
            Ok(Err(rejected)) => rejected,
            Err(_elapsed) => Rejected::broken("late"),
        };
        self.stream = None;
        // Where there was nobody to ask, or the answer is none to be judged, nothing is known of its time.
        if rejected.broken && !rejected.unasked {
            let took = micros(begun.elapsed());
            let tell = |payback: &mut Payback| {
                payback.handle_verdict(&traits, took, Upshot::Failed, Waited::Nobody);
            };
            state.timed(tell);
        }
        Err(rejected.why)
    }

    async fn hear_all(&mut self, begun: Instant) -> Result<Times, Rejected> {
        self.begin().await?;
        // Where a stream is judged by its first window, that is when the client would have seen something.
        let is_windowed = self.info.delivery == Delivery::Streamed && self.may_continue();
        let window = Tokens::new(self.state().settings.first_window);
        let mut verdict = None;
        while self.listen().await? == Listened::More {
            if is_windowed && verdict.is_none() && window <= self.evidence.tokens() {
                verdict = Some(micros(begun.elapsed()));
            }
        }
        let end = micros(begun.elapsed());
        Ok(Times { verdict: verdict.unwrap_or(end), end })
    }

    /// Tells the core how long such a draft took.
    fn drafted_beside(&self, times: Times, upshot: Upshot) {
        let traits = self.plan.traits;
        self.state().timed(|payback| {
            payback.handle_verdict(&traits, times.verdict, upshot, Waited::Nobody);
            payback.handle_draft_end(&traits, times.end, Waited::Nobody);
        });
    }

    /// The target's answer to the same request.
    async fn ask_target(&mut self) -> Option<String> {
        let object = Object::parse(&self.body).ok()?;
        let body = rewrite::compared(&object, &self.state().settings.target);
        let mut info = self.info.clone();
        info.delivery = Delivery::Whole;
        let call = Call { info, path: self.path(), body };
        let lease = self.calls.place(&call, &Tried::default(), Strictness::Judged).ok()?;
        let answer = self.calls.whole(lease, &call).await.ok()?;
        let used = whole::read(&answer, true).ok()?;
        self.account.continued(0);
        self.account.completed(used, Tokens::ZERO);
        capture::of_document(&answer)
    }

    /// What the draft's answer is worth beside the target's; nothing where they say different things, which does not
    /// say which is better.
    fn compared_with(&self, target: &str) -> Option<Label> {
        let own = self.transcript.text();
        label(self.plan.schema.as_ref(), own, target)
    }
}

/// What one answer is worth beside the other, as far as that can be seen: of an answer bound to a schema it counts
/// first who keeps to it.
fn label(schema: Option<&Schema>, own: &str, target: &str) -> Option<Label> {
    match schema {
        Some(schema) if !schema.admits(own) => Some(Label::Worse),
        Some(schema) if !schema.admits(target) => Some(Label::Better),
        _ => is_same(own, target).then_some(Label::AsGood),
    }
}

/// Whether two answers say the same: the same JSON, or the same words whatever their case and the
/// space between them.
fn is_same(one: &str, other: &str) -> bool {
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    let same_json = || json(one).zip(json(other)).is_some_and(|(one, other)| one == other);
    let words = |text: &str| text.to_lowercase();
    words(one).split_whitespace().eq(words(other).split_whitespace()) || same_json()
}

#[cfg(test)]
mod tests {
    use super::{Label, Schema, is_same, label};

    #[test]
    fn who_keeps_to_the_schema_is_better_than_who_does_not() {
        let format = r#"{"type":"json_object"}"#;
        let schema = Schema::of(Some(format));
        let label = |own, target| label(Some(&schema), own, target);
        assert_eq!(label(r#"{"a":1}"#, "no JSON"), Some(Label::Better));
        assert_eq!(label("no JSON", r#"{"a":1}"#), Some(Label::Worse));
        assert_eq!(label("no JSON", "no JSON"), Some(Label::Worse), "it must not be given");
        assert_eq!(label(r#"{"a":1}"#, r#"{ "a": 1 }"#), Some(Label::AsGood));
        assert_eq!(label(r#"{"a":1}"#, r#"{"a":2}"#), None, "that is to be judged");
    }

    #[test]
    fn space_and_case_make_no_difference_and_words_do() {
        assert!(is_same("The  answer is 4.", " the answer\nis 4."));
        assert!(is_same(r#"{"a": 1, "b": [2]}"#, r#"{"b":[2],"a":1}"#));
        assert!(!is_same("4", "5"));
        assert!(!is_same("4", ""));
    }
}
