//! Tests: what is told adds up to the invoice.

use std::fmt::Write as _;

use overdraft_sim::workload::AccessLog;

use super::figures::{Basis, Figures};
use super::{Known, page, table};

/// A log of a busy hour: three tenants, two models, hits of both caches, a cascade.
fn log() -> AccessLog {
    let mut text = String::new();
    for number in 0..900_u32 {
        let second = 60 + number * 3;
        let more = match number % 9 {
            0 => r#""tokens_prompt_reused":800,"tokens_out_reused":90,"cache":"hit""#.to_owned(),
            1 => format!(
                r#""tokens_prompt":800,"tokens_out":90,"worker":"d{}","served_by":"draft","cost_microusd":10,"cost_target_only_microusd":40"#,
                number % 2
            ),
            _ => format!(
                r#""tokens_prompt":{},"tokens_out":{},"tokens_cached":{},"worker":"w{}""#,
                400 + number,
                20 + number % 200,
                300 + number % 90,
                number % 3
            ),
        };
        let _written = writeln!(
            text,
            "{{\"timestamp\":\"2025-11-22T10:{:02}:{:02}Z\",\"path\":\"/v1/chat/completions\",\"status\":200,\
             \"model\":\"m{}\",\"tenant\":\"<b>t{}</b>\",\"total_us\":{},\"target\":\"access\",{more}}}",
            second / 60,
            second % 60,
            number % 2,
            number % 3,
            1_000_000 + u64::from(number) * 7_919 % 40_000_000
        );
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    AccessLog::read(file.path()).unwrap()
}

fn by_hour() -> Known {
    let mut known = Known::default();
    known.hourly.others = Some(4.1);
    known.hourly.workers = [("d0".to_owned(), 0.8), ("spare".to_owned(), 2.0)].into();
    known
}

#[track_caller]
fn is_within_a_hundredth(one: f64, other: f64) {
    assert!((one - other).abs() <= 0.01 * other.abs(), "{one} is not {other}");
}

#[test]
fn tenants_models_and_idle_time_add_up_to_the_invoice() {
    let log = log();
    let figures = Figures::of(&log, None, &by_hour()).unwrap();
    let hours = figures.workers[0].hours;
    // Three workers of the log and a draft at 4.1, a draft at 0.8, and one that nobody asked.
    let invoice = hours * (3.0 * 4.1 + 4.1 + 0.8 + 2.0);
    is_within_a_hundredth(figures.paid, invoice);
    let sum = |shares: &[super::figures::Share]| shares.iter().map(|one| one.dollars).sum::<f64>();
    for shares in [&figures.tenants, &figures.models] {
        is_within_a_hundredth(sum(shares) + figures.idle, invoice);
    }
    let spare = figures.workers.iter().find(|bill| bill.worker == "spare").unwrap();
    is_within_a_hundredth(spare.idle_hours, hours);
    let told = figures.json();
    is_within_a_hundredth(told["dollars"].as_f64().unwrap(), invoice);
    assert_eq!(told["tenants"].as_array().unwrap().len(), 3);
}

#[test]
fn what_mechanisms_spared_is_told_in_the_same_dollars() {
    let log = log();
    let figures = Figures::of(&log, None, &by_hour()).unwrap();
    let [target_only, cache, routing, none] = figures.without.as_slice() else { panic!() };
    assert!(
        [target_only, cache, routing].iter().all(|(_, more)| 0.0 < *more),
        "{:?}",
        figures.without
    );
    is_within_a_hundredth(none.1, target_only.1 + cache.1 + routing.1);
    let mut known = Known::default();
    let price = |price| overdraft_core::cost::Price::new(price);
    let prices = overdraft_core::cost::Prices {
        prompt: price(1_000_000),
        cached: price(100_000),
        completion: price(4_000_000),
    };
    known.models = [("m0".to_owned(), prices), ("m1".to_owned(), prices)].into();
    let by_tokens = Figures::of(&log, None, &known).unwrap();
    assert_eq!((by_tokens.basis, by_tokens.idle.to_bits()), (Basis::Tokens, 0));
    // The same shares, whatever the dollars.
    is_within_a_hundredth(by_tokens.without[1].1 / by_tokens.paid, cache.1 / figures.used());
}

/// Dollars a token.
fn by_token(prompt: u64) -> overdraft_core::cost::Prices {
    let price = overdraft_core::cost::Price::new;
    overdraft_core::cost::Prices {
        prompt: price(prompt),
        cached: price(prompt / 10),
        completion: price(prompt * 4),
    }
}

#[test]
fn the_models_parts_add_up_to_what_all_used() {
    let log = log();
    let all = Figures::of(&log, None, &by_hour()).unwrap();
    let parts = ["m0", "m1"].map(|name| Figures::of(&log, Some(name), &by_hour()).unwrap());
    is_within_a_hundredth(parts.iter().map(Figures::used).sum(), all.used());
    for part in &parts {
        // The fleet is the same, whoever's requests are told.
        is_within_a_hundredth(part.paid, all.paid);
        is_within_a_hundredth(part.idle, all.idle);
        is_within_a_hundredth(part.used() + part.others, all.used());
        assert_eq!((part.models.len(), part.requests), (1, 450));
        assert_eq!(part.each.len(), 450);
    }
    assert!(table::table(&parts[0]).contains("used by other models"));
}

#[test]
fn a_model_without_a_price_costs_nothing_and_is_named() {
    let log = log();
    let known = Known { models: [("m0".to_owned(), by_token(250_000))].into(), ..Known::default() };
    let figures = Figures::of(&log, None, &known).unwrap();
    let alone = Figures::of(&log, Some("m0"), &known).unwrap();
    is_within_a_hundredth(figures.paid, alone.paid);
    assert_eq!(figures.models_unpriced, ["m1"]);
    assert!(table::table(&figures).contains("no price of tokens is known of `m1`"));
    // By the hour all models count on one scale.
    let partly = Figures::of(&log, None, &Known { models: known.models.clone(), ..by_hour() });
    let without = Figures::of(&log, None, &by_hour()).unwrap().without;
    is_within_a_hundredth(partly.unwrap().without[3].1, without[3].1);
    let error = Figures::of(&log, Some("m1"), &known).unwrap_err();
    let error = format!("{error:?}");
    assert!(error.contains("no price is known of `m1`"), "{error}");
}

#[test]
fn a_log_of_one_model_has_no_other_models_part() {
    // The sums of shares and of hours times price differ by the last digit of some of them.
    for count in 1..60_u32 {
        let line = |number: u32| {
            format!(
                "{{\"timestamp\":\"2025-11-22T10:00:{:02}.{:06}Z\",\"path\":\"/v1/completions\",\"status\":200,\
                 \"model\":\"m\",\"tokens_prompt\":{},\"tokens_out\":7,\"total_us\":{},\"target\":\"access\",\
                 \"worker\":\"w{}\"}}\n",
                number,
                number * 7_919,
                9 + number * 31 % 97,
                1_000_003 + number * 104_729,
                number % 3
            )
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), (0..count).map(line).collect::<String>()).unwrap();
        let log = AccessLog::read(file.path()).unwrap();
        for model in [None, Some("m")] {
            let figures = Figures::of(&log, model, &by_hour()).unwrap();
            assert_eq!(figures.others.to_bits(), 0, "{count} requests, {model:?}");
            assert!(!table::table(&figures).contains("other models"), "{count} requests");
        }
    }
}

#[test]
fn dollars_of_tokens_have_no_hours_and_leave_no_worker_out() {
    let models = ["m0", "m1"].map(|name| (name.to_owned(), by_token(250_000))).into();
    let figures = Figures::of(&log(), None, &Known { models, ..Known::default() }).unwrap();
    let told = figures.json();
    for hours in ["worker_hours", "idle_hours"] {
        assert_eq!(told[hours].to_string(), "0.0", "a zero has no sign");
    }
    assert_eq!(told["workers_without_price"], serde_json::json!([]));
    assert!(!table::table(&figures).contains("left out"), "{}", table::table(&figures));
}

#[test]
fn a_share_of_nothing_has_no_sign() {
    let idle = [("spare".to_owned(), 2.0)].into();
    let mut known = Known::default();
    known.hourly.workers = idle;
    let table = table::table(&Figures::of(&log(), None, &known).unwrap());
    assert!(!table.contains("+-"), "{table}");
}

#[test]
fn without_any_price_nothing_is_told() {
    assert!(Figures::of(&log(), None, &Known::default()).is_err());
}

#[test]
fn names_are_text_in_the_table_and_in_the_page() {
    let log = log();
    let figures = Figures::of(&log, None, &by_hour()).unwrap();
    let table = table::table(&figures);
    assert!(table.contains("by tenant") && table.contains("idle"), "{table}");
    let page = page::html(&log, &figures);
    assert!(!page.contains("<b>t") && page.contains("&lt;b&gt;t1"), "names are escaped");
}

#[test]
fn a_price_names_its_worker_or_stands_for_all() {
    assert_eq!(super::hourly("gpu=a=4.1"), Ok((Some("gpu=a".to_owned()), 4.1)));
    assert_eq!(super::hourly("4"), Ok((None, 4.0)));
    assert!(super::hourly("=4").is_err() && super::hourly("a=much").is_err());
}

#[test]
fn an_answer_of_a_model_that_stood_in_costs_what_that_one_does() {
    let line = |more: &str| {
        format!(
            "{{\"timestamp\":\"2025-11-22T10:00:00Z\",\"path\":\"/v1/chat/completions\",\"status\":200,\
             \"model\":\"large\",\"tokens_prompt\":1000,\"tokens_out\":1000,\"total_us\":1000000,\
             \"target\":\"access\"{more}}}\n"
        )
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let stood_in = line(r#","served_by":"fallback","stand_in":"small""#);
    std::fs::write(file.path(), line("") + &stood_in).unwrap();
    let log = AccessLog::read(file.path()).unwrap();
    let models = [("large", 10_000_000), ("small", 1_000_000)];
    let models = models.map(|(name, price)| (name.to_owned(), by_token(price))).into();
    let figures = Figures::of(&log, Some("large"), &Known { models, ..Known::default() }).unwrap();
    // A prompt token at its price and an answer's at four times that.
    is_within_a_hundredth(figures.each[0], 0.05);
    is_within_a_hundredth(figures.each[1], 0.005);
    assert_eq!((figures.cascaded_unpriced, figures.requests), (0, 2));
}

#[test]
fn ranks_share_the_price_and_the_pool_of_their_worker() {
    let line = |worker: &str| {
        format!(
            "{{\"timestamp\":\"2025-11-22T10:00:00Z\",\"path\":\"/v1/completions\",\"status\":200,\
             \"model\":\"m\",\"tokens_prompt\":9,\"tokens_out\":2,\"total_us\":1000000,\
             \"target\":\"access\",\"worker\":\"{worker}\"}}\n"
        )
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let workers = ["gpu-a#0", "gpu-a#2", "small#1"];
    std::fs::write(file.path(), workers.map(line).concat()).unwrap();
    let log = AccessLog::read(file.path()).unwrap();
    let yaml = "workers:\n- {url: http://a:1, name: gpu-a}\n- {url: http://b:1, name: small, pool: draft}\n\
                prices: {workers: {gpu-a: 3.60}, pools: {draft: 0.80}}\n";
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), yaml).unwrap();
    let config = overdraft_config::Loader::new(file.path()).load().unwrap().config;
    let mut known = Known::default();
    known.read(&config, &log);
    known.share(&log);
    let figures = Figures::of(&log, None, &known).unwrap();
    let prices: Vec<(&str, f64)> =
        figures.workers.iter().map(|bill| (bill.worker.as_str(), bill.price)).collect();
    let names: Vec<&str> = prices.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["gpu-a#0", "gpu-a#1", "gpu-a#2", "small#0", "small#1"]);
    for (name, price) in prices {
        is_within_a_hundredth(price, if name.starts_with("gpu") { 1.2 } else { 0.4 });
    }
    assert_eq!((figures.unpriced.len(), known.pools["small#1"]), (0, "draft"));
    assert!(super::rank("gpu#+1").is_none() && super::rank("gpu#9999").is_none());
}
