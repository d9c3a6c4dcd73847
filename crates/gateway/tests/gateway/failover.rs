//! Failover Bench: its sixteen scenarios, as a provider of ours plays them, with its rules and its verdicts.
//!
//! The bench (failoverbench/failoverbench, methodology 0.1) puts a system before a provider that fails in one way, with
//! one model that stands in, and looks at both sides: what the caller got, and which attempts the provider saw. Here the
//! provider is [`Wall`], the caller is raw, and the times that follow from settings are a tenth of the bench's.
//! `docs/reliability.md` has the table.

mod wall;

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::deadline::DeadlineSettings;
use overdraft_core::route::RouteSettings;
use overdraft_gateway::{GatewaySettings, ModelSettings};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::wall::{ALWAYS, ANSWER, Attempt, Fault, SECOND, WORDS, Wall};
use crate::client::End;
use crate::harness::{CHAT, Gateway};
use crate::mock::Mock;

const PRIMARY: &str = "primary";
const STAND_IN: &str = "stand-in";

/// What the providers' metrics show them to be: engines that go on with a message.
const ENGINE: &str = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n";

/// The bench's time limits: 10 s to a first token, 15 s between two events.
fn limits(settings: &mut GatewaySettings) {
    let deadlines = DeadlineSettings {
        first_token: (10 * SECOND).into(),
        stall: (15 * SECOND).into(),
        ..DeadlineSettings::default()
    };
    let route = Some(RouteSettings { deadlines, ..settings.routing.route });
    let own = ModelSettings { route, fallback: vec![STAND_IN.into()], ..ModelSettings::default() };
    settings.routing.models.insert(PRIMARY.to_owned(), own);
}

/// What the caller got.
#[derive(Debug)]
struct Got {
    /// The text, where it was told as an answer.
    answer: Result<String, String>,
    model: Option<String>,
    usage: Option<Value>,
    took: Duration,
}

impl Got {
    fn is_whole(&self) -> bool {
        self.answer.as_deref() == Ok(ANSWER)
    }
}

/// A gateway before a provider and one that stands in.
struct Bench {
    gateway: Gateway,
    primary: Arc<Wall>,
    stand_in: Arc<Wall>,
}

impl Bench {
    async fn start(fault: Fault, other: Fault) -> Self {
        let mocks = [Mock::start(&[PRIMARY]).await, Mock::start(&[STAND_IN]).await];
        for mock in &mocks {
            mock.behave(|manner| manner.metrics = Some(ENGINE.into()));
        }
        let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], limits).await;
        gateway.until_scraped(mocks.len()).await;
        let [primary, stand_in] = mocks;
        let (primary, stand_in) = (Wall::start(primary, fault), Wall::start(stand_in, other));
        Self { gateway, primary, stand_in }
    }

    /// One streamed call for the model whose provider fails.
    async fn call(&self) -> Got {
        let begun = Instant::now();
        let mut client = self.gateway.client().await;
        let messages = json!([{"role": "user", "content": "Say why in sixty words."}]);
        let usage = json!({"include_usage": true});
        let body = json!({"model": PRIMARY, "messages": messages, "stream": true, "stream_options": usage});
        client.post(CHAT, &body.to_string()).await;
        let head = client.head().await;
        let mut got =
            Got { answer: Err(head.text.clone()), model: None, usage: None, took: Duration::ZERO };
        if head.status == 200 {
            let (events, end) = client.rest().await;
            got.read(&events, &end);
        } else {
            got.answer = Err(client.body_of(&head).await);
        }
        got.took = begun.elapsed();
        got
    }

    /// Whether a healthy call is answered.
    async fn is_alive(&self) -> bool {
        let mut client = self.gateway.client().await;
        let messages = json!([{"role": "user", "content": "Still there?"}]);
        client.post(CHAT, &json!({"model": STAND_IN, "messages": messages}).to_string()).await;
        let (head, body) = client.whole().await;
        head.status == 200 && body.contains(ANSWER)
    }
}

impl Got {
    /// Reads a stream as a careful client does.
    fn read(&mut self, events: &str, end: &End) {
        let mut text = String::new();
        for data in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let Ok(chunk) = serde_json::from_str::<Value>(data) else {
                assert_eq!(data, "[DONE]", "what is no JSON was told");
                continue;
            };
            if chunk["error"].is_object() {
                self.answer = Err(chunk["error"]["message"].to_string());
                return;
            }
            self.model = chunk["model"].as_str().map(str::to_owned).or(self.model.take());
            self.usage = Some(&chunk["usage"]).filter(|usage| usage.is_object()).cloned();
            text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        }
        self.answer = if *end == End::Clean { Ok(text) } else { Err(format!("aborted: {text}")) };
    }
}

/// What a scenario asks beyond a whole answer.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// So many attempts at the provider, from and to.
    Attempts(usize, usize),
    /// So many at most within this time of the first.
    Within(Duration, usize),
    /// The second comes this long after the first, or later.
    Gap(Duration),
    /// The call takes this long at most.
    Took(Duration),
    /// A healthy call is answered afterwards.
    Alive,
    /// The answer says what it used.
    Usage,
    /// The answer names the model that stood in.
    NamesStandIn,
}

async fn check(bench: &Bench, got: &Got, check: Check) -> bool {
    let log: Vec<Attempt> = bench.primary.log();
    let since = |attempt: &Attempt| attempt.at - log[0].at;
    match check {
        Check::Attempts(least, most) => (least..=most).contains(&log.len()),
        Check::Within(time, most) => log.iter().filter(|one| since(one) < time).count() <= most,
        Check::Gap(least) => log.get(1).is_some_and(|second| least <= since(second)),
        Check::Took(most) => got.took <= most,
        Check::Alive => bench.is_alive().await,
        Check::Usage => got.usage.is_some(),
        Check::NamesStandIn => got.model.as_deref() == Some(STAND_IN),
    }
}

/// Plays a scenario whose caller is to get the whole answer; the bench's verdict is `pass` where all of this holds.
async fn passes(fault: Fault, checks: &[Check]) {
    let bench = Bench::start(fault, Fault::None).await;
    let got = bench.call().await;
    assert!(got.is_whole(), "{fault:?}: {got:?}");
    for &one in checks {
        let log = bench.primary.log();
        assert!(check(&bench, &got, one).await, "{fault:?}: {one:?}: {got:?} {log:?}");
    }
}

const fn seconds(count: u32) -> Duration {
    Duration::from_secs(count as u64)
}

#[test]
fn the_answer_has_sixty_words() {
    assert_eq!(ANSWER.split(' ').count(), WORDS);
}

// Failover: S01
#[tokio::test]
async fn a_rate_limit_that_names_a_time_is_waited_for() {
    let gap = Check::Gap(Duration::from_millis(1_800));
    let hammer = Check::Within(Duration::from_millis(1_500), 2);
    passes(Fault::RateLimitOnce, &[Check::Attempts(2, 2), gap, hammer, Check::Took(seconds(20))])
        .await;
}

// Failover: S02
#[tokio::test]
async fn a_rate_limit_that_stays_is_not_hammered() {
    passes(
        Fault::RateLimit,
        &[Check::Within(seconds(3), 4), Check::Attempts(1, 6), Check::Took(seconds(40))],
    )
    .await;
}

// Failover: S03
#[tokio::test]
async fn an_error_that_passes_is_asked_again_where_it_came_from() {
    passes(Fault::ErrorOnce, &[Check::Attempts(2, 2), Check::Took(seconds(20))]).await;
}

// Failover: S04
#[tokio::test]
async fn a_provider_that_is_overloaded_for_good_is_given_up() {
    passes(Fault::Unavailable(ALWAYS), &[Check::Attempts(1, 6), Check::Took(seconds(40))]).await;
}

// Failover: S05
#[tokio::test]
async fn a_reset_before_the_head_is_not_seen() {
    passes(Fault::ResetOnce, &[Check::Took(seconds(20))]).await;
}

// Failover: S06
#[tokio::test]
async fn a_provider_that_says_nothing_is_not_asked_again() {
    passes(Fault::Silence, &[Check::Took(100 * SECOND), Check::Attempts(1, 1)]).await;
}

// Failover: S07
#[tokio::test]
async fn a_first_token_that_is_late_is_not_waited_for() {
    // As long as the bench's, so that only what waits for it takes as long.
    passes(Fault::SlowFirstToken(seconds(20)), &[Check::Took(seconds(15))]).await;
}

// Failover: S08
#[tokio::test]
async fn an_answer_that_is_cut_goes_on() {
    passes(Fault::CutAfter(40), &[Check::Took(seconds(40))]).await;
}

// Failover: S09
#[tokio::test]
async fn an_answer_that_stalls_goes_on() {
    let fault = Fault::StallAfter(20, 30 * SECOND);
    passes(fault, &[Check::Took(45 * SECOND), Check::Alive]).await;
}

// Failover: S10
#[tokio::test]
async fn an_event_that_is_no_json_is_left_out_where_nothing_is_lost_with_it() {
    passes(Fault::MalformedAt(10), &[Check::Attempts(1, 1), Check::Usage, Check::Alive]).await;
}

// Failover: S11
#[tokio::test]
async fn an_end_that_is_not_told_is_made_up() {
    passes(Fault::NoDone, &[Check::Took(seconds(8)), Check::Usage]).await;
}

// Failover: S12
#[tokio::test]
async fn a_prompt_that_is_too_long_goes_to_the_model_that_stands_in() {
    passes(Fault::ContextLength, &[Check::Attempts(1, 1), Check::NamesStandIn]).await;
}

// Failover: S13
#[tokio::test]
async fn a_prompt_that_is_refused_for_what_it_says_goes_nowhere_else() {
    let bench = Bench::start(Fault::ContentFilter, Fault::None).await;
    let got = bench.call().await;
    assert!(got.answer.is_err_and(|why| why.contains("content_policy_violation")));
    assert_eq!((bench.primary.log().len(), bench.stand_in.log().len()), (1, 0));
}

// Failover: S14
#[tokio::test]
async fn an_answer_that_is_cut_is_not_lost_to_a_model_that_goes_on_with_no_message() {
    let bench = Bench::start(Fault::CutAfter(40), Fault::RefusesPrefill).await;
    let got = bench.call().await;
    let is_masked = bench.stand_in.log().iter().any(|attempt| attempt.was_refused_prefill);
    assert!(got.is_whole() && !is_masked, "{got:?}");
}

// Failover: S15
#[tokio::test]
async fn a_provider_that_was_away_is_asked_again_when_it_is_back() {
    /// A second of this scenario, none of whose times are settings.
    const MOMENT: Duration = Duration::from_millis(50);
    const AWAY: Duration = Duration::from_secs(3);
    const CALLS: u32 = 20;
    let bench = Bench::start(Fault::Unavailable(AWAY), Fault::None).await;
    let begun = bench.primary.up;
    let (mut calls, mut away, mut attempts_away) = (0, 0, 0);
    let is_back = || bench.primary.log().iter().any(|attempt| attempt.was_served);
    while calls < CALLS || !is_back() {
        let is_away = begun.elapsed() < AWAY;
        let got = bench.call().await;
        assert!(got.is_whole(), "{calls}: {got:?}");
        calls += 1;
        away += usize::from(is_away);
        attempts_away = if is_away { bench.primary.log().len() } else { attempts_away };
        // More than the bench's 30 moments, for a machine that does other things.
        assert!(is_back() || begun.elapsed() < AWAY + seconds(10), "it is not asked again");
        sleep(4 * MOMENT).await;
    }
    // The first of them waits for a moment and asks more than once; the others do not.
    assert!(attempts_away <= away + 3, "{attempts_away} attempts for {away} requests");
}

// Failover: S16
#[tokio::test]
async fn who_stood_in_is_named_with_what_it_used() {
    let checks = [Check::NamesStandIn, Check::Usage, Check::Attempts(1, 6)];
    passes(Fault::Unavailable(ALWAYS), &checks).await;
}
