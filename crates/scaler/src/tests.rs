//! Metadata as people write it, and what the triggers make of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use overdraft_core::scale::{Load, Targets};
use overdraft_units::{Instant, Micros};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;

use crate::message::{GetMetricsRequest, ScaledObjectRef};
use crate::query::Query;
use crate::triggers::{METRIC, Triggers};
use crate::{CONNECTIONS_MAX, ScaleSettings, Source, TRIGGERS_MAX, serve};

const POOLS: &[&str] = &["target", "draft"];

fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn read(pairs: &[(&str, &str)]) -> Result<Query, String> {
    let read = Query::read(&metadata(pairs), POOLS, Targets::default());
    read.map_err(|error| error.to_string())
}

#[track_caller]
fn refused(pair: (&str, &str), words: &[&str]) {
    let error = read(&[pair]).expect_err("it cannot be followed");
    for word in words.iter().chain(&[pair.0]) {
        assert!(error.contains(word), "`{error}` does not name `{word}`");
    }
}

#[test]
fn what_metadata_does_not_say_is_as_set() {
    let all = Query { pool: "target", model: None, targets: Targets::default() };
    assert_eq!(read(&[]), Ok(all.clone()));
    assert_eq!(read(&[("scalerAddress", "gateway:9090"), ("metricType", "Value")]), Ok(all));
    let said = [("pool", "draft"), ("model", "m"), ("kvTarget", "0.655"), ("queueTarget", "50")];
    let targets = Targets { kv_permille: 655, waiting: 50, running: 128 };
    assert_eq!(read(&said), Ok(Query { pool: "draft", model: Some("m".to_owned()), targets }));
}

#[test]
fn shares_are_read_either_way() {
    let share = |text| read(&[("kvTarget", text)]).map(|query| query.targets.kv_permille);
    let shares = ["0.7", "70%", "1", "1.000", "100%", "7.5%", "0.0019", " 0.5 "].map(share);
    assert_eq!(shares, [700, 700, 1_000, 1_000, 1_000, 75, 1, 500].map(Ok));
}

#[test]
fn a_slip_is_told_with_its_key_and_its_value() {
    refused(("kvtarget", "0.7"), &["kvTarget", "queueTarget"]);
    refused(("pool", "drafts"), &["drafts", "target", "draft"]);
    refused(("model", ""), &["empty"]);
    for share in ["0", "1.1", "70", "-0.5", "", "x", "0.0001", "101%", "1e-1", ".5"] {
        refused(("kvTarget", share), &[share, "0.7"]);
    }
    for count in ["0", "-1", "1.5", "", "many", "99999999999"] {
        refused(("queueTarget", count), &[count, "from 1"]);
        refused(("runningTarget", count), &[count, "from 1"]);
    }
}

/// A fleet whose load the test sets.
struct Fleet(Mutex<(Load, u64)>);

impl Source for Fleet {
    fn pools(&self) -> &'static [&'static str] {
        POOLS
    }

    fn load(&self, pool: &str, _model: Option<&str>) -> Load {
        if pool == "target" { self.0.lock().unwrap().0 } else { Load::default() }
    }

    fn settings(&self) -> ScaleSettings {
        ScaleSettings::default()
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + Micros::new(self.0.lock().unwrap().1 * 1_000_000)
    }
}

fn triggers() -> (Arc<Fleet>, Triggers<Fleet>) {
    let known = Load { members: 1, serving: 1, known: 1, ..Load::default() };
    let fleet = Arc::new(Fleet(Mutex::new((known, 0))));
    (Arc::clone(&fleet), Triggers::new(fleet))
}

fn object(pairs: &[(&str, &str)]) -> ScaledObjectRef {
    ScaledObjectRef { name: "o".to_owned(), namespace: "n".to_owned(), metadata: metadata(pairs) }
}

fn value(triggers: &Triggers<Fleet>, pairs: &[(&str, &str)]) -> i64 {
    let asked = GetMetricsRequest { object: Some(object(pairs)), name: METRIC.to_owned() };
    let answer = triggers.metrics(&asked).expect("it can be followed");
    assert_eq!(answer.values.len(), 1);
    answer.values[0].value
}

#[test]
fn each_trigger_is_held_by_itself() {
    let (fleet, triggers) = triggers();
    let slow = [("queueTarget", "50")];
    assert_eq!((value(&triggers, &[]), value(&triggers, &slow)), (0, 0));
    fleet.0.lock().unwrap().0.waiting = 100;
    assert_eq!((value(&triggers, &[]), value(&triggers, &slow)), (10, 2));
    assert_eq!(value(&triggers, &[("pool", "draft")]), 0, "pools do not see each other");
    fleet.0.lock().unwrap().0.waiting = 0;
    fleet.0.lock().unwrap().1 = 1;
    assert_eq!((value(&triggers, &[]), value(&triggers, &slow)), (10, 2), "a fall waits");
}

#[test]
fn a_peak_between_two_questions_is_not_missed() {
    let (fleet, triggers) = triggers();
    assert_eq!(value(&triggers, &[]), 0);
    fleet.0.lock().unwrap().0.waiting = 30;
    triggers.tick();
    fleet.0.lock().unwrap().0.waiting = 0;
    fleet.0.lock().unwrap().1 = 5;
    assert_eq!(value(&triggers, &[]), 3);
}

#[test]
fn triggers_are_bounded_and_forgotten() {
    let (fleet, triggers) = triggers();
    let ask = |number: usize| {
        let count = number.to_string();
        triggers.wanted(
            &triggers.query(&object(&[("queueTarget", &count)])).expect("it can be followed"),
        )
    };
    for number in 1..=TRIGGERS_MAX {
        ask(number).expect("there is room");
    }
    let full = ask(TRIGGERS_MAX + 1).expect_err("there is no more room");
    assert_eq!(full.code(), Code::ResourceExhausted);
    fleet.0.lock().unwrap().1 = 1_801;
    ask(1).expect("it is known");
    triggers.tick();
    ask(TRIGGERS_MAX + 1).expect("the others were forgotten");
}

#[test]
fn a_question_without_an_answer_is_refused_by_name() {
    let (_, triggers) = triggers();
    let asked = GetMetricsRequest { object: Some(object(&[])), name: "queue".to_owned() };
    let refused = triggers.metrics(&asked).expect_err("there is no such metric");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("`queue`") && refused.message().contains(METRIC));
    let asked = GetMetricsRequest { object: None, name: METRIC.to_owned() };
    assert_eq!(triggers.metrics(&asked).expect_err("of whom?").code(), Code::InvalidArgument);
}

/// HTTP/2's preface and an empty SETTINGS frame.
const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test(start_paused = true)]
async fn who_connects_and_says_nothing_leaves_its_place_to_others() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (fleet, _) = triggers();
    let asked = async {
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // To have begun is not enough.
        silent[0].write_all(&BEGINNING[..9]).await.unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(BEGINNING).await.unwrap();
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(head[3], 4, "it is answered with SETTINGS");
        // Who does speak is not cut off, however long ago it began.
        tokio::time::sleep(std::time::Duration::from_secs(25)).await;
        client.write_all(b"\0\0\x08\x06\0\0\0\0\0pingpong").await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"pingpong") {
            assert_ne!(client.read_buf(&mut said).await.unwrap(), 0, "{said:?}");
        }
    };
    tokio::select! {
        () = serve(listener, fleet, std::future::pending()) => panic!("it ends"),
        () = asked => {}
    }
}
