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
use overdraft_core::cascade::{Action, DraftCall, Event, Finish, Label, Mode};
use overdraft_core::route::Strictness;
use overdraft_core::route::Tried;
use overdraft_telemetry::Delivery;
use overdraft_units::Tokens;
use overdraft_wire::Object;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::CascadeLayer;
use super::call::Call;
use super::capture;
use super::driver::Driver;
use super::rewrite;
use super::schema::Schema;
use crate::pipeline::relay::whole;
use crate::settings::Labels;

/// How long a comparison may take in all.
const PATIENCE: Duration = Duration::from_mins(10);

/// One comparison.
#[derive(Debug)]
pub(super) struct Job {
    driver: Box<Driver>,
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
pub(super) fn begin(mut driver: Box<Driver>, target: Target) {
    let state = Arc::clone(driver.state());
    let layer = Arc::clone(&driver.calls.layer);
    let Ok(place) = Arc::clone(&state.places).try_acquire_owned() else {
        layer.metrics.compared(&state.name, "no_place");
        return;
    };
    driver.info.priority = Priority::Flex;
    driver.calls.last = Instant::now() + PATIENCE;
    driver.guard = None;
    let job = Job { driver, target, _place: place };
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
        let asked =
            driver.report(Event::CompareBegan).into_iter().find_map(|action| match action {
                Action::AskDraft(call) => Some(call),
                _ => None,
            });
        match asked {
            Some(call) => driver.draft_beside(call).await?,
            None => driver.hear_out().await?,
        }
        driver.stream = None;
        let state = Arc::clone(driver.state());
        let verifies = state.settings.mode == Mode::Verify;
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
        let judgement = driver.protocol.judgement();
        // What else was compared, the target answered.
        if let (Target::Ask, Some(side), Some(judgement)) =
            (&self.target, &driver.info.side, judgement)
        {
            side.judged(Some((label, judgement.propensity)));
        }
        let _none = driver.report(Event::Compared(label));
        Ok(label)
    }
}

impl Driver {
    /// Has the whole draft told while nobody waits, within the limit of `call`.
    async fn draft_beside(&mut self, call: DraftCall) -> Result<(), &'static str> {
        let told = timeout(
            Duration::from(call.limit),
            Box::pin(async {
                if let Err(rejected) = self.begin().await {
                    let _none = self.report(Event::Failed(rejected, None));
                    return Err(rejected.name());
                }
                self.hear_out().await
            }),
        );
        let told = told.await;
        told.unwrap_or_else(|_elapsed| {
            self.stream = None;
            let _none = self.report(Event::Late);
            Err("late")
        })
    }

    /// Hears the draft to its end.
    async fn hear_out(&mut self) -> Result<(), &'static str> {
        loop {
            let event = self.listen().await;
            let heard = match &event {
                Event::Failed(rejected, _) => Some(Err(rejected.name())),
                Event::Said(said) if said.is_over && said.finish == Finish::Running => {
                    Some(Err("unfinished"))
                }
                Event::Said(said) if said.is_over => Some(Ok(())),
                _ => None,
            };
            let _none = self.report(event);
            if let Some(heard) = heard {
                return heard;
            }
        }
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
