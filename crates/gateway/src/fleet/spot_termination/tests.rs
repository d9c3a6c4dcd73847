//! Metadata servers that announce, say nothing, talk nonsense and hang.
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::aws::Aws;
use super::azure::Azure;
use super::gcp::Gcp;
use super::metadata::Metadata;
use super::{Fate, Notice, NoticeError, TerminationNotice, watch};
use crate::settings::{Cloud, NoticeSettings};

/// Longer than anything here takes; a test that hangs ends with a name.
const LONG: Duration = Duration::from_secs(30);

/// What a stand-in does with one request.
#[derive(Clone, Copy, Debug)]
enum Reply {
    /// A status and a body.
    Says(u16, &'static str),
    /// The same as Google says it.
    Google(u16, &'static str),
    /// Bytes that are not HTTP.
    Babble,
    /// A body that ends too soon.
    BreaksOff,
    /// More than anybody wants to know.
    Floods,
    /// Nothing, for ever.
    Hangs,
}
use Reply::{Babble, BreaksOff, Floods, Google, Hangs, Says};

/// A metadata server that gives one reply after the other, the last one again and again.
struct StandIn {
    settings: NoticeSettings,
    requests: mpsc::UnboundedReceiver<String>,
    task: AbortHandle,
}

impl StandIn {
    async fn start(replies: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, requests) = mpsc::unbounded_channel();
        let replies = replies.to_vec();
        let task = tokio::spawn(async move {
            let mut held = Vec::new();
            let mut given = 0;
            loop {
                let (mut socket, _peer) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(socket.read_u8().await.unwrap());
                }
                let reply = replies[given.min(replies.len() - 1)];
                given += 1;
                // Nobody may be there to see it, or to read all of it.
                let _seen = seen.send(String::from_utf8(head).unwrap());
                let _sent = give(&mut socket, reply).await;
                if matches!(reply, Hangs) {
                    held.push(socket);
                }
            }
        });
        let settings =
            NoticeSettings { server: Some(url), interval: Duration::from_millis(2), timeout: LONG };
        Self { settings, requests, task: task.abort_handle() }
    }

    fn metadata(&self) -> Metadata {
        Metadata::new(&self.settings).unwrap()
    }

    /// The head of the next request.
    async fn request(&mut self) -> String {
        timeout(LONG, self.requests.recv()).await.expect("a request in time").unwrap()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn give(socket: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    let answer = |status: u16, header: &str, body: &str| {
        let bytes = body.len();
        format!("HTTP/1.1 {status} X\r\n{header}content-length: {bytes}\r\n\r\n{body}")
    };
    let text = match reply {
        Says(status, body) => answer(status, "", body),
        Google(status, body) => answer(status, "metadata-flavor: Google\r\n", body),
        Babble => "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(),
        BreaksOff => "HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nTRU".to_owned(),
        Floods => answer(200, "metadata-flavor: Google\r\n", &" ".repeat(100_000)),
        Hangs => String::new(),
    };
    socket.write_all(text.as_bytes()).await
}

const EVENT: &str = r#"{"DocumentIncarnation": 2, "Events": [
    {"EventId": "A", "EventType": "Freeze", "Resources": ["gpu_1"], "NotBefore": ""},
    {"EventId": "B", "EventType": "Reboot", "Resources": ["GPU_1", "gpu_2"], "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT"},
    {"EventId": "C", "EventType": "Preempt", "Resources": ["gpu_0", "gpu_2"], "ResourceType": "VirtualMachine",
     "EventStatus": "Started", "NotBefore": "", "Description": "", "EventSource": "Platform", "DurationInSeconds": -1}
]}"#;

async fn aws(replies: &[Reply]) -> Result<Option<Notice>, NoticeError> {
    let stand_in = StandIn::start(replies).await;
    Aws::new(stand_in.metadata()).poll().await
}

async fn gcp(replies: &[Reply]) -> Result<Option<Notice>, NoticeError> {
    let stand_in = StandIn::start(replies).await;
    Gcp::new(stand_in.metadata()).poll().await
}

async fn azure(replies: &[Reply]) -> Result<Option<Notice>, NoticeError> {
    let stand_in = StandIn::start(replies).await;
    Azure::new(stand_in.metadata()).poll().await
}

#[tokio::test]
async fn amazon_is_asked_with_a_token_that_is_fetched_once() {
    let replies = [Says(200, "secret"), Says(404, "<html>"), Says(404, "")];
    let mut stand_in = StandIn::start(&replies).await;
    let mut aws = Aws::new(stand_in.metadata());
    assert_eq!(aws.poll().await.unwrap(), None);
    assert_eq!(aws.poll().await.unwrap(), None);
    let request = stand_in.request().await;
    assert!(request.starts_with("PUT /latest/api/token HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"), "{request}");
    for _ in 0..2 {
        let request = stand_in.request().await;
        let line = "GET /latest/meta-data/spot/instance-action HTTP/1.1\r\n";
        assert!(request.starts_with(line), "{request}");
        assert!(request.contains("x-aws-ec2-metadata-token: secret\r\n"), "{request}");
    }
}

#[tokio::test]
async fn amazon_is_asked_again_when_its_token_has_ended() {
    let action = r#"{"action": "terminate", "time": "2017-09-18T08:22:00Z"}"#;
    let replies =
        [Says(200, "old"), Says(404, ""), Says(401, ""), Says(200, "new"), Says(200, action)];
    let stand_in = StandIn::start(&replies).await;
    let mut aws = Aws::new(stand_in.metadata());
    assert_eq!(aws.poll().await.unwrap(), None);
    let notice = aws.poll().await.unwrap().expect("it is announced");
    let expected = Notice {
        cloud: Cloud::Aws,
        fate: Fate::Terminated,
        id: "terminate 2017-09-18T08:22:00Z".to_owned(),
        at: Some("2017-09-18T08:22:00Z".to_owned()),
        ahead: Duration::from_mins(2),
    };
    assert_eq!(notice, expected);
}

#[tokio::test]
async fn amazon_stops_and_hibernates_too() {
    let stop = r#"{"action": "stop", "time": "t"}"#;
    let hibernate = r#"{"action": "hibernate", "time": "t"}"#;
    let notice = aws(&[Says(200, "x"), Says(200, stop)]).await.unwrap().unwrap();
    assert_eq!((notice.fate, notice.ahead), (Fate::Stopped, Duration::from_mins(2)));
    let notice = aws(&[Says(200, "x"), Says(200, hibernate)]).await.unwrap().unwrap();
    assert_eq!((notice.fate, notice.ahead), (Fate::Stopped, Duration::ZERO));
}

#[tokio::test]
async fn google_is_asked_by_its_header_and_known_by_it() {
    let replies = [Google(200, "FALSE\n"), Google(200, "TRUE"), Says(200, "TRUE")];
    let mut stand_in = StandIn::start(&replies).await;
    let mut gcp = Gcp::new(stand_in.metadata());
    assert_eq!(gcp.poll().await.unwrap(), None);
    let request = stand_in.request().await;
    let line = "GET /computeMetadata/v1/instance/preempted HTTP/1.1\r\n";
    assert!(request.starts_with(line), "{request}");
    assert!(request.contains("metadata-flavor: Google\r\n"), "{request}");
    let notice = gcp.poll().await.unwrap().expect("it is announced");
    assert_eq!((notice.cloud, notice.fate), (Cloud::Gcp, Fate::Terminated));
    let error = gcp.poll().await.expect_err("anybody can say that");
    assert!(error.to_string().contains("Metadata-Flavor"), "{error}");
}

#[tokio::test]
async fn microsoft_is_asked_whom_an_event_concerns() {
    let mut stand_in = StandIn::start(&[Says(200, EVENT), Says(200, "gpu_1\n")]).await;
    let notice = Azure::new(stand_in.metadata()).poll().await.unwrap();
    let notice = notice.expect("it is announced");
    let expected = Notice {
        cloud: Cloud::Azure,
        fate: Fate::Restarted,
        id: "B".to_owned(),
        at: Some("Mon, 19 Sep 2016 18:29:47 GMT".to_owned()),
        ahead: Duration::from_mins(15),
    };
    assert_eq!(notice, expected);
    for path in [super::azure::EVENTS, super::azure::NAME] {
        let request = stand_in.request().await;
        assert!(request.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{request}");
        assert!(request.contains("metadata: true\r\n"), "{request}");
    }
    let notice = azure(&[Says(200, EVENT), Says(200, "gpu_0")]).await.unwrap().unwrap();
    assert_eq!((notice.id.as_str(), notice.fate, notice.at), ("C", Fate::Terminated, None));
    let notice = azure(&[Says(200, EVENT), Says(200, "gpu_2")]).await.unwrap().unwrap();
    assert_eq!(notice.id, "C", "the most urgent of two");
}

#[tokio::test]
async fn what_concerns_others_or_ends_nothing_is_no_notice() {
    assert_eq!(azure(&[Says(200, EVENT), Says(200, "gpu_7")]).await.unwrap(), None);
    let freeze = r#"{"Events": [{"EventId": "A", "EventType": "Freeze", "Resources": ["gpu_1"]}]}"#;
    // Nobody's name is asked for; a second request would be refused.
    assert_eq!(azure(&[Says(200, freeze), Says(500, "")]).await.unwrap(), None);
    assert_eq!(azure(&[Says(200, r#"{"Events": []}"#), Says(500, "")]).await.unwrap(), None);
}

#[tokio::test]
async fn nonsense_is_no_notice() {
    #[track_caller]
    fn check(polled: Result<Option<Notice>, NoticeError>, expected: &str) {
        let error = polled.expect_err("it makes no sense").to_string();
        assert!(error.contains(expected), "`{error}` does not say `{expected}`");
    }
    let token = Says(200, "x");
    check(aws(&[Says(500, "")]).await, "answered `/latest/api/token` with 500");
    check(aws(&[Says(200, "a\nb")]).await, "expected a token");
    check(aws(&[token, Says(500, "")]).await, "instance-action` with 500");
    check(aws(&[token, Says(200, "soon")]).await, "expected an object with `action`");
    check(aws(&[token, Says(200, r#"{"action": "tune", "time": ""}"#)]).await, "`terminate`");
    check(aws(&[token, Babble]).await, "broke off");
    check(gcp(&[Google(200, "")]).await, "expected `TRUE` or `FALSE`");
    check(gcp(&[Google(200, "true")]).await, "expected `TRUE` or `FALSE`");
    check(gcp(&[Google(500, "TRUE")]).await, "with 500");
    check(gcp(&[Google(404, "")]).await, "with 404");
    check(gcp(&[Babble]).await, "broke off");
    check(gcp(&[BreaksOff]).await, "broke off");
    check(gcp(&[Floods]).await, "broke off");
    check(azure(&[Says(200, "[]")]).await, "expected an object with `Events`");
    check(azure(&[Says(200, r#"{"Events": [{"EventId": "A"}]}"#)]).await, "`Events`");
    check(azure(&[Says(503, "")]).await, "with 503");
    check(azure(&[Says(200, EVENT), Says(500, "")]).await, "compute/name");
    check(azure(&[Floods]).await, "broke off");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_given_up() {
    let mut stand_in = StandIn::start(&[Hangs]).await;
    stand_in.settings.timeout = Duration::from_millis(20);
    let polled = timeout(LONG, Gcp::new(stand_in.metadata()).poll()).await;
    let error = polled.expect("it is given up").expect_err("nothing was said");
    assert!(matches!(error, NoticeError::TimedOut(_)), "{error}");
    // Bound, so that nobody else is there, and closed at once.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    stand_in.settings.server = Some(format!("http://{}", listener.local_addr().unwrap()));
    stand_in.settings.timeout = LONG;
    drop(listener);
    let error = Gcp::new(stand_in.metadata()).poll().await.expect_err("nobody is there");
    assert!(matches!(error, NoticeError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn a_server_is_spoken_to_in_plain_http() {
    for url in ["https://169.254.169.254", "169.254.169.254", "http://a/b", "http://u@a", ""] {
        let settings = NoticeSettings { server: Some(url.to_owned()), ..NoticeSettings::default() };
        let (sink, _notices) = mpsc::channel(1);
        let refused = watch(Cloud::Gcp, settings, sink).await;
        assert!(matches!(refused, Err(NoticeError::Server { .. })), "{url}");
    }
    assert!(Metadata::new(&NoticeSettings::default()).is_ok());
}

#[tokio::test]
async fn a_notice_is_handed_on_once_whatever_comes_between() {
    let first = r#"{"action": "stop", "time": "1"}"#;
    let second = r#"{"action": "terminate", "time": "2"}"#;
    let replies = [
        Says(500, "no token yet"),
        Says(200, "token"),
        Says(404, ""),
        Says(200, first),
        Says(500, ""),
        Says(200, first),
        Says(200, "nonsense"),
        Says(200, second),
        Says(200, second),
        Says(200, first),
        Says(404, ""),
    ];
    let mut stand_in = StandIn::start(&replies).await;
    let (sink, mut notices) = mpsc::channel(8);
    let watching = tokio::spawn(watch(Cloud::Aws, stand_in.settings.clone(), sink));
    for expected in ["stop 1", "terminate 2"] {
        let notice = timeout(LONG, notices.recv()).await.expect("a notice in time").unwrap();
        assert_eq!(notice.id, expected);
    }
    // One more than there are replies: all of them have been taken in.
    for _ in 0..=replies.len() {
        stand_in.request().await;
    }
    assert!(notices.try_recv().is_err(), "each is told once");
    drop(notices);
    let ended = timeout(LONG, watching).await.expect("it ends when nobody listens");
    ended.unwrap().unwrap();
}
