//! The forecast against its twin: requests in a list, sorted when asked.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn prospect(lengths: [u32; WORLDS], answers: u32) -> Prospect {
    let declared = u64::from(answers) * 100_000;
    Prospect { answers, lengths, declared, class: Class::default(), limit: None, dice: 7 }
}

fn booking(lengths: [u32; WORLDS], answers: u32, own: u32) -> Booking {
    Booking { prospect: prospect(lengths, answers), own: Tokens::new(own), unseen: None }
}

/// The peak as it is defined: everything sorted, every end looked at.
fn literal(sequences: &mut [(u64, u64)]) -> u64 {
    sequences.sort_unstable_by_key(|&(remaining, _)| core::cmp::Reverse(remaining));
    let (mut held, mut count, mut peak) = (0, 0, 0);
    for &(remaining, used) in &*sequences {
        held += used;
        count += 1;
        peak = peak.max(remaining * count + held);
    }
    peak
}

/// Remaining and used tokens of every sequence in one world; a prompt counts with its first.
fn sequences(forecast: &Forecast, world: usize) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for held in forecast.held.iter().flatten() {
        let length = held.booking.prospect.lengths[world];
        let remaining = u64::from(length.saturating_sub(held.generated()));
        for answer in 0..held.booking.prospect.sequences() {
            let used = if answer == 0 { u64::from(held.used()) } else { 0 };
            all.push((remaining, used));
        }
    }
    all
}

/// The bucketed peak of every world is never below the literal one, and above it by no more than
/// an eighth of what is still to come.
fn check(forecast: &Forecast, more: &Booking) {
    let used = more.used();
    let Some(worlds) = &forecast.worlds else { return };
    let remaining = more.prospect.lengths;
    let more_remains = Remains { remaining, sequences: more.prospect.sequences(), used };
    let (peaks, peaks_with) = (worlds.peaks_with(None), worlds.peaks_with(Some(&more_remains)));
    for place in 0..WORLDS {
        let mut all = sequences(forecast, place);
        let count = u64::try_from(all.len()).unwrap();
        let (peak, real) = (peaks[place], literal(&mut all));
        assert!(real <= peak && peak <= real + real / 8 + 8 * count, "{real} {peak}");
        let (length, answers) = (more.prospect.lengths[place], more.prospect.sequences());
        all.push((u64::from(length), u64::from(used)));
        all.extend((1..answers).map(|_| (u64::from(length), 0)));
        let count = count + u64::from(answers);
        let (with, real) = (peaks_with[place], literal(&mut all));
        assert!(real <= with && with <= real + real / 8 + 8 * count, "{real} {with}");
        assert!(real <= forecast.bound_with(&more.prospect, used));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start { lengths: [u32; WORLDS], answers: u32, prompt: u32, unseen: bool },
    FirstToken(usize),
    Progress(usize, u32),
    Advance,
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let lengths = prop::array::uniform8(prop_oneof![4 => 0..4_000_u32, 1 => 0..300_000_u32]);
    let prompt = 0..40_000_u32;
    prop_oneof![
        4 => (lengths, 1..4_u32, prompt, any::<bool>()).prop_map(
            |(lengths, answers, prompt, unseen)| Step::Start { lengths, answers, prompt, unseen }
        ),
        2 => any::<usize>().prop_map(Step::FirstToken),
        4 => (any::<usize>(), 1..2_000_u32).prop_map(|(which, gain)| Step::Progress(which, gain)),
        1 => Just(Step::Advance),
        2 => any::<usize>().prop_map(Step::End),
    ]
}

/// A forecast, and the receipts of all it was told.
struct Story {
    forecast: Forecast,
    lengths: Lengths,
    places: Vec<(Place, u32)>,
    now: Instant,
}

impl Story {
    fn take(&mut self, step: &Step) {
        self.now = self.now + Micros::new(300_000);
        let count = self.places.len();
        match *step {
            Step::Start { lengths, answers, prompt, unseen } => {
                let mut booking = booking(lengths, answers, prompt);
                booking.unseen = unseen.then_some(self.now + Micros::new(500_000));
                self.places.push((self.forecast.start(booking).unwrap(), 0));
            }
            Step::FirstToken(which) if count > 0 => {
                self.forecast.first_token(self.places[which % count].0);
            }
            Step::Progress(which, gain) if count > 0 => {
                let (place, streamed) = &mut self.places[which % count];
                *streamed += gain;
                self.forecast.progress(*place, Tokens::new(*streamed), &self.lengths);
            }
            Step::Advance => self.forecast.advance(Micros::new(20_000), &self.lengths, self.now),
            Step::End(which) if count > 0 => {
                let (place, _) = self.places.swap_remove(which % count);
                self.forecast.end(place);
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn the_bucketed_peak_is_never_below_the_real_one_and_little_above(
        steps in prop::collection::vec(step(), 1..120),
        more in (prop::array::uniform8(0..5_000_u32), 1..3_u32, 0..9_000_u32),
    ) {
        let mut story = Story {
            forecast: Forecast::new(), lengths: Lengths::new(), places: vec![], now: Instant::ORIGIN,
        };
        let more = booking(more.0, more.1, more.2);
        for step in &steps {
            story.take(step);
            check(&story.forecast, &more);
            let live = story.forecast.held.iter().flatten().count();
            prop_assert_eq!(live, story.places.len());
        }
        while let Some((place, _)) = story.places.pop() {
            story.forecast.end(place);
        }
        prop_assert_eq!(story.forecast.sums(), Sums::default());
        prop_assert_eq!(story.forecast.peak(), Peak::default());
        prop_assert_eq!(story.forecast.steps_until_free(1), None);
        prop_assert!(story.forecast.worlds.is_none_or(|worlds| worlds.is_blank()));
    }
}

/// A chat's load: prompts of a thousand tokens, answers of a few hundred, half way through.
#[test]
fn over_a_chats_load_the_peak_is_within_a_tenth() {
    let mut forecast = Forecast::new();
    for number in 0..128_u32 {
        let lengths = [0, 1, 2, 3, 4, 5, 6, 7].map(|world| 20 + (number * 37 + world * 211) % 900);
        let place = forecast.start(booking(lengths, 1, 300 + number * 13 % 1_500)).unwrap();
        forecast.progress(place, Tokens::new(number % 20), &Lengths::new());
    }
    let (mut real, mut bucketed) = (0, 0);
    for (place, peak) in forecast.worlds.as_ref().unwrap().peaks_with(None).iter().enumerate() {
        real += literal(&mut sequences(&forecast, place));
        bucketed += peak;
    }
    let above = (bucketed - real) * 1_000 / real;
    assert!(above <= 100, "{above} thousandths above {real}");
}

#[test]
fn a_peak_is_a_mean_and_a_deviation_over_worlds() {
    let mut forecast = Forecast::new();
    assert_eq!(forecast.peak(), Peak::default());
    let place = forecast.start(booking([103; WORLDS], 2, 1_000)).unwrap();
    assert_eq!(forecast.peak(), Peak { mean: 1_000 + 2 * 103, deviation: 0 });
    let more = prospect([7, 7, 7, 7, 1_023, 1_023, 1_023, 1_023], 1);
    let with = forecast.peak_with(&more, 0);
    // 1,206 where the new one ends first; else 103 of all three, and the prompt.
    assert_eq!((with.mean, with.deviation), (1_257, 51));
    assert_eq!(with.with_caution(2_000), with.mean + 2 * with.deviation);
    forecast.end(place);
    assert_eq!(forecast.peak(), Peak::default());
}

#[test]
fn a_deviation_is_the_same_however_far_worlds_are_apart() {
    for apart in [8, APART_NARROW, 2 * APART_NARROW, 1 << 40] {
        let peaks = [0, 2, 0, 2, 0, 2, 0, 2].map(|times: u64| 1_000 + times * apart);
        assert_eq!(Peak::over(peaks), Peak { mean: 1_000 + apart, deviation: apart });
    }
}

#[test]
fn an_answer_in_flight_is_drawn_again_with_what_is_known_by_now() {
    let (mut forecast, mut lengths) = (Forecast::new(), Lengths::new());
    let class = Class::default();
    let place = forecast.start(booking(lengths.draw(class, None, 0, 7), 1, 10)).unwrap();
    for _ in 0..100 {
        lengths.note_growth(class, 0, 600);
    }
    assert!(forecast.peak().mean < 400, "as answers are in general");
    forecast.progress(place, Tokens::new(5), &lengths);
    assert!(600 < forecast.peak().mean, "none of a hundred has ended before 600");
}

#[test]
fn a_draw_that_was_refuted_is_made_again_and_never_beyond_the_limit() {
    let mut forecast = Forecast::new();
    let mut booking = booking([50; WORLDS], 1, 10);
    booking.prospect.limit = Some(200);
    let place = forecast.start(booking).unwrap();
    forecast.progress(place, Tokens::new(120), &Lengths::new());
    let lengths = forecast.held[0].unwrap().booking.prospect.lengths;
    assert!(lengths.iter().all(|length| (121..=200).contains(length)), "{lengths:?}");
    forecast.progress(place, Tokens::new(200), &Lengths::new());
    assert_eq!(forecast.peak(), Peak { mean: 10 + 200 + 7, deviation: 0 }, "a bucket's seven");
}

#[test]
fn answers_that_come_whole_grow_by_the_step() {
    let mut forecast = Forecast::new();
    let mut booking = booking([100; WORLDS], 1, 10);
    booking.unseen = Some(Instant::ORIGIN + Micros::new(1_000_000));
    let _place = forecast.start(booking).unwrap();
    let after = |seconds: u64| Instant::ORIGIN + Micros::new(seconds * 1_000_000);
    let step = Micros::new(20_000);
    forecast.advance(step, &Lengths::new(), after(0));
    assert_eq!((forecast.sums().used, forecast.sums().prefilling), (10, 10));
    forecast.advance(step, &Lengths::new(), after(2));
    assert_eq!((forecast.sums().used, forecast.sums().prefilling), (60, 0));
}

#[test]
fn so_many_are_forecast_and_no_more() {
    let mut forecast = Forecast::new();
    let largest = booking([u32::MAX; WORLDS], u32::MAX, u32::MAX);
    let places: Vec<Place> = (0..FORECAST_MAX).map_while(|_| forecast.start(largest)).collect();
    assert_eq!((places.len(), forecast.is_full()), (FORECAST_MAX, true));
    assert_eq!(forecast.start(largest), None);
    assert!(forecast.peak().mean > 0);
    for place in places {
        forecast.end(place);
    }
    assert_eq!(forecast.sums(), Sums::default());
}

#[test]
fn what_comes_free_comes_when_the_shortest_have_ended() {
    let mut forecast = Forecast::new();
    for steps in [103, 511, 2_047] {
        let _place = forecast.start(booking([steps; WORLDS], 1, 1_000)).unwrap();
    }
    assert_eq!(forecast.steps_until_free(1_000), Some(103));
    assert_eq!(forecast.steps_until_free(2_000), Some(511));
    assert_eq!(forecast.steps_until_free(5_000), Some(2_047));
    assert_eq!(forecast.steps_until_free(6_000), None);
}
