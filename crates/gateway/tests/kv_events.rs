//! Following publishers whose sockets another implementation of `ZeroMQ` serves: gaps, replays,
//! broken connections, restarts.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world should panic")]
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use overdraft_gateway::kv_events::{Note, Sink, Topic, follow};
use overdraft_wire::kv_events::{
    Batch, KvEvent, REPLAY_END, Source, encode, read_sequence, write_sequence,
};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

/// A wait that ends with a failure rather than never.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a sink heard; a batch is known by its time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Heard {
    Batch(f64),
    Restarted,
    Forgotten,
    Undecodable,
}

struct Ear(mpsc::UnboundedSender<Heard>);

impl Sink for Ear {
    fn batch(&mut self, batch: Batch) {
        let _ = self.0.send(Heard::Batch(batch.at_seconds));
    }

    fn restarted(&mut self) {
        let _ = self.0.send(Restarted);
    }

    fn forgotten(&mut self) {
        let _ = self.0.send(Forgotten);
    }

    fn note(&mut self, note: Note) {
        if note == Note::Undecodable {
            let _ = self.0.send(Undecodable);
        }
    }
}

/// A follower under test.
struct Follower {
    heard: mpsc::UnboundedReceiver<Heard>,
    task: JoinHandle<()>,
}

impl Follower {
    fn start(source: Source) -> Self {
        Self::under(source, Topic::Told)
    }

    fn under(source: Source, topic: Topic) -> Self {
        let (tell, heard) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move { match follow(source, topic, Ear(tell)).await {} });
        Self { heard, task }
    }

    async fn next(&mut self) -> Heard {
        timeout(PATIENCE, self.heard.recv()).await.expect("something is heard").unwrap()
    }

    #[track_caller]
    fn expects(&mut self, expected: &[Heard]) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            for (number, &expected) in expected.iter().enumerate() {
                assert_eq!(self.next().await, expected, "number {number} at {place}");
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A publisher of batches whose time is their number, plus a thousand for each life.
struct Publisher {
    events: PubSocket,
    source: Source,
    life: f64,
    /// What the replay socket gives.
    kept: Arc<Mutex<Vec<(u64, Bytes)>>>,
    replays: JoinSet<()>,
}

fn payload(life: f64, number: u64) -> Bytes {
    let at_seconds = life * 1_000.0 + f64::from(u32::try_from(number).unwrap());
    encode(&Batch { at_seconds, events: vec![KvEvent::Cleared], rank: Some(0) }).into()
}

fn message(frames: &[&[u8]]) -> ZmqMessage {
    let frames: Vec<Bytes> = frames.iter().map(|frame| Bytes::copy_from_slice(frame)).collect();
    frames.try_into().unwrap()
}

impl Publisher {
    async fn start() -> Self {
        Self::start_at("tcp://127.0.0.1:0", Some("tcp://127.0.0.1:0"), (0.0, 0)).await
    }

    /// With so many batches of a life kept already.
    async fn start_at(endpoint: &str, replay: Option<&str>, (life, keeps): (f64, u64)) -> Self {
        let mut events = PubSocket::new();
        let endpoint = bind(&mut events, endpoint).await;
        let kept = (0..keeps).map(|number| (number, payload(life, number))).collect();
        let kept = Arc::new(Mutex::new(kept));
        let mut replays = JoinSet::new();
        let mut replay_endpoint = None;
        if let Some(replay) = replay {
            let mut router = RouterSocket::new();
            replay_endpoint = Some(bind(&mut router, replay).await);
            replays.spawn(serve_replays(router, Arc::clone(&kept)));
        }
        let topic = "kv".to_owned();
        let source = Source { data_parallel_rank: 0, endpoint, replay_endpoint, topic };
        Self { events, source, life, kept, replays }
    }

    /// Keeps a batch for replays without publishing it.
    fn keep(&self, number: u64) {
        self.kept.lock().unwrap().push((number, payload(self.life, number)));
    }

    async fn send(&mut self, number: u64, payload: &[u8]) {
        let frames = message(&[b"kv@pod", &write_sequence(number), payload]);
        self.events.send(frames).await.unwrap();
    }

    async fn publish(&mut self, number: u64) {
        self.keep(number);
        self.send(number, &payload(self.life, number)).await;
    }

    /// Publishes until it is heard, for a subscription takes its time; the first number heard.
    async fn publish_until_heard(&mut self, from: u64, follower: &mut Follower) -> Heard {
        for number in from.. {
            self.send(number, &payload(self.life, number)).await;
            let hearing = timeout(Duration::from_millis(50), follower.heard.recv()).await;
            if let Ok(heard) = hearing {
                return heard.unwrap();
            }
            assert!(number < from + 1_000, "nothing is heard");
        }
        unreachable!("numbers do not end")
    }

    async fn stop(mut self) -> Source {
        self.replays.shutdown().await;
        let errors = self.events.close().await;
        assert!(errors.is_empty(), "{errors:?}");
        self.source
    }
}

async fn bind(socket: &mut impl Socket, endpoint: &str) -> String {
    // The port of a life before may take a moment to be free.
    let binding = async {
        loop {
            match socket.bind(endpoint).await {
                Ok(bound) => return bound.to_string(),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    timeout(PATIENCE, binding).await.expect("the port is free")
}

async fn serve_replays(mut router: RouterSocket, kept: Arc<Mutex<Vec<(u64, Bytes)>>>) {
    loop {
        let Ok(request) = router.recv().await else { continue };
        let frames = request.into_vec();
        let [peer, empty, first] = &*frames else { panic!("{frames:?}") };
        assert!(empty.is_empty());
        let first = read_sequence(first).unwrap();
        let batches: Vec<_> = kept.lock().unwrap().clone();
        for (number, batch) in batches.iter().filter(|(number, _)| *number >= first) {
            let _ = router.send(message(&[peer, b"", &write_sequence(*number), batch])).await;
        }
        let _ = router.send(message(&[peer, b"", &write_sequence(REPLAY_END), b""])).await;
    }
}

use Heard::{Batch as B, Forgotten, Restarted, Undecodable};

// Faults: 52
#[tokio::test]
async fn who_comes_late_gets_all_from_the_start() {
    let mut publisher = Publisher::start().await;
    for number in 0..3 {
        publisher.keep(number);
    }
    let mut follower = Follower::start(publisher.source.clone());
    follower.expects(&[Restarted, B(0.0), B(1.0), B(2.0)]).await;
    // A gap: 3 to 5 were published before the subscription came, or are lost.
    for number in 3..6 {
        publisher.keep(number);
    }
    for number in 6..9 {
        publisher.publish(number).await;
    }
    follower.expects(&[B(3.0), B(4.0), B(5.0), B(6.0), B(7.0), B(8.0)]).await;
}

#[tokio::test]
async fn nothing_published_yet_is_a_start_too() {
    let mut publisher = Publisher::start().await;
    let mut follower = Follower::start(publisher.source.clone());
    follower.expects(&[Restarted]).await;
    for number in 0..4 {
        publisher.publish(number).await;
    }
    follower.expects(&[B(0.0), B(1.0), B(2.0), B(3.0)]).await;
}

#[tokio::test]
async fn a_topic_that_was_typed_counts_once_something_has_come_under_it() {
    let mut publisher = Publisher::start().await;
    publisher.keep(0);
    let mut follower = Follower::under(publisher.source.clone(), Topic::Configured);
    let wrong = Source { topic: "vk".to_owned(), ..publisher.source.clone() };
    let mut misled = Follower::under(wrong, Topic::Configured);
    let mut number = 1;
    let first = loop {
        publisher.publish(number).await;
        number += 1;
        let hearing = timeout(Duration::from_millis(50), follower.heard.recv()).await;
        if let Ok(heard) = hearing {
            break heard.unwrap();
        }
        assert!(number < 1_000, "nothing is heard");
    };
    assert_eq!(first, Restarted, "it has all from the start");
    for number in 0..number {
        follower.expects(&[B(f64::from(u32::try_from(number).unwrap()))]).await;
    }
    assert!(misled.heard.try_recv().is_err(), "nobody believes in what no change is heard of");
}

// Faults: 52
#[tokio::test]
async fn what_cannot_be_had_again_is_forgotten_and_following_goes_on() {
    let mut publisher = Publisher::start().await;
    publisher.keep(0);
    let mut follower = Follower::start(publisher.source.clone());
    follower.expects(&[Restarted, B(0.0)]).await;
    // 1 to 4 are gone for good.
    publisher.publish(5).await;
    publisher.publish(6).await;
    follower.expects(&[Forgotten, B(5.0), B(6.0)]).await;
}

#[tokio::test]
async fn who_joins_in_the_middle_is_told_so() {
    let publisher = Publisher::start().await;
    publisher.keep(7);
    publisher.keep(8);
    let mut follower = Follower::start(publisher.source.clone());
    follower.expects(&[Forgotten, B(7.0), B(8.0)]).await;
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_counts_as_missing() {
    let mut publisher = Publisher::start().await;
    publisher.keep(0);
    let mut follower = Follower::start(publisher.source.clone());
    follower.expects(&[Restarted, B(0.0)]).await;
    publisher.kept.lock().unwrap().push((1, Bytes::from_static(b"\xc1 no batch")));
    publisher.publish(2).await;
    follower.expects(&[Undecodable, Forgotten, B(2.0)]).await;
}

// Faults: 52
#[tokio::test]
async fn a_restart_is_seen_however_high_the_new_numbers_are() {
    let mut publisher = Publisher::start().await;
    publisher.keep(0);
    publisher.keep(1);
    let mut follower = Follower::start(publisher.source.clone());
    follower.expects(&[Restarted, B(0.0), B(1.0)]).await;
    // The next life is already further than we were.
    let source = publisher.stop().await;
    let replay = source.replay_endpoint.as_deref();
    publisher = Publisher::start_at(&source.endpoint, replay, (1.0, 4)).await;
    follower.expects(&[Forgotten, Restarted]).await;
    follower.expects(&[B(1_000.0), B(1_001.0), B(1_002.0), B(1_003.0)]).await;
    publisher.publish(4).await;
    follower.expects(&[B(1_004.0)]).await;
}

// Faults: 52
#[tokio::test]
async fn a_broken_connection_to_the_same_life_costs_nothing() {
    let publisher = Publisher::start().await;
    publisher.keep(0);
    let mut follower = Follower::start(publisher.source.clone());
    follower.expects(&[Restarted, B(0.0)]).await;
    let source = publisher.stop().await;
    let replay = source.replay_endpoint.as_deref();
    let mut publisher = Publisher::start_at(&source.endpoint, replay, (0.0, 1)).await;
    publisher.publish(1).await;
    publisher.publish(2).await;
    follower.expects(&[B(1.0), B(2.0)]).await;
}

// Faults: 52
#[tokio::test]
async fn without_replays_a_gap_or_a_lost_connection_is_forgotten() {
    let mut publisher = Publisher::start_at("tcp://127.0.0.1:0", None, (0.0, 0)).await;
    let mut follower = Follower::start(publisher.source.clone());
    // The first numbers may be missed, the rest may not.
    let first = publisher.publish_until_heard(0, &mut follower).await;
    assert!(matches!(first, Restarted | Forgotten));
    let Heard::Batch(joined) = follower.next().await else { panic!("a batch follows") };
    publisher.send(500, &payload(0.0, 500)).await;
    publisher.send(501, &payload(0.0, 501)).await;
    let mut last = joined;
    let gap = loop {
        match follower.next().await {
            B(number) => last = number,
            other => break other,
        }
    };
    assert!(last < 500.0);
    assert_eq!(gap, Forgotten);
    follower.expects(&[B(500.0), B(501.0)]).await;
    let source = publisher.stop().await;
    let mut publisher = Publisher::start_at(&source.endpoint, None, (1.0, 0)).await;
    follower.expects(&[Forgotten]).await;
    let heard = publisher.publish_until_heard(0, &mut follower).await;
    match heard {
        // Not from the start: it is as lost as before, but goes on.
        B(number) => assert!(number > 1_000.0),
        heard => assert_eq!(heard, Restarted),
    }
}

#[tokio::test]
async fn dropping_the_follower_ends_its_connections() {
    let (tell, mut heard) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let source = Source { endpoint, ..Source::default() };
    let task = tokio::spawn(async move { match follow(source, Topic::Told, Ear(tell)).await {} });
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    task.abort();
    let mut rest = Vec::new();
    let reading = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest);
    let _ends = timeout(PATIENCE, reading).await.expect("the connection ends");
    assert_eq!(timeout(PATIENCE, heard.recv()).await.unwrap(), None, "the sink is gone");
}
