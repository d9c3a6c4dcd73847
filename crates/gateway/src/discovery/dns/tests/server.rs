//! A name server that says what a test tells it to.
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::CNAME;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// What is said about one kind of record.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// These records, with a time to live in seconds.
    Records(u32, Vec<RData>),
    /// An alias of this name, and the records there, each with a time to live in seconds.
    Chain(u32, Name, u32, Vec<RData>),
    /// No records, and this for a reason.
    Refusal(ResponseCode),
}

/// What is said by now.
#[derive(Default)]
struct Zone {
    replies: BTreeMap<RecordType, Reply>,
    /// The only name that exists; without it any does.
    name: Option<Name>,
}

/// A name server. It answers by kind of record.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    asked: watch::Receiver<usize>,
    task: AbortHandle,
}

impl Server {
    pub(super) async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone::default()));
        let (count, asked) = watch::channel(0);
        let serving = serve(socket, Arc::clone(&zone), count);
        let task = tokio::spawn(serving).abort_handle();
        Self { address, zone, asked, task }
    }

    /// From now on this is what is said about `kind`.
    pub(super) fn says(&self, kind: RecordType, reply: Reply) {
        self.zone.lock().unwrap().replies.insert(kind, reply);
    }

    /// From now on no other name exists.
    pub(super) fn knows_only(&self, name: Name) {
        self.zone.lock().unwrap().name = Some(name);
    }

    /// Waits until it has been asked `more` times.
    pub(super) async fn asked(&self, more: usize) {
        let mut asked = self.asked.clone();
        let goal = *asked.borrow() + more;
        let reached = timeout(LONG, asked.wait_for(|count| goal <= *count)).await;
        reached.expect("it is asked again").expect("it runs");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: UdpSocket, zone: Arc<Mutex<Zone>>, count: watch::Sender<usize>) {
    let mut datagram = [0; 4_096];
    loop {
        let (bytes, peer) = socket.recv_from(&mut datagram).await.unwrap();
        let asked = Message::from_vec(&datagram[..bytes]).unwrap();
        let answer = answer(&asked, &zone.lock().unwrap());
        socket.send_to(&answer.to_vec().unwrap(), peer).await.unwrap();
        count.send_modify(|count| *count += 1);
    }
}

/// Kinds that nothing was said about have no records.
fn answer(asked: &Message, zone: &Zone) -> Message {
    let query = asked.queries.first().unwrap().clone();
    let name = query.name().clone();
    let mut answer = Message::response(asked.metadata.id, OpCode::Query);
    let other = zone.name.as_ref().is_some_and(|only| *only != name);
    let gone = Reply::Refusal(ResponseCode::NXDomain);
    match if other { Some(&gone) } else { zone.replies.get(&query.query_type()) } {
        None => {}
        Some(Reply::Records(ttl, records)) => {
            for data in records {
                answer.add_answer(Record::from_rdata(name.clone(), *ttl, data.clone()));
            }
        }
        Some(Reply::Chain(alias_ttl, real, ttl, records)) => {
            let alias = RData::CNAME(CNAME(real.clone()));
            answer.add_answer(Record::from_rdata(name, *alias_ttl, alias));
            for data in records {
                answer.add_answer(Record::from_rdata(real.clone(), *ttl, data.clone()));
            }
        }
        Some(Reply::Refusal(code)) => answer.metadata.response_code = *code,
    }
    answer.add_query(query);
    answer
}
