//! Responses that are made in the background: who goes on from them, and what other gateways see of them.

use std::time::Duration;

use overdraft_gateway::GatewaySettings;
use overdraft_store::Place;
use serde_json::{Value, json};

use crate::client::{Client, End};
use crate::dialects::{RESPONSES, answered, ask, read, response};
use crate::harness::{DONE, Gateway, MODEL, NEVER, SOON, finish, in_time, token};
use crate::mock::{Call, Mock};
use crate::redis::Redis;

/// A response in the background whose worker has said `a`.
struct Begun {
    id: String,
    call: Call,
}

impl Begun {
    async fn at(client: &mut Client, mock: &mut Mock) -> Self {
        client.post(RESPONSES, &response(r#","background":true"#)).await;
        let begun = read(&client.whole().await.1);
        assert_eq!(begun["status"], "in_progress", "{begun}");
        let mut call = mock.call().await;
        call.stream().await;
        call.chunk(&token("a")).await;
        Self { id: begun["id"].as_str().unwrap().to_owned(), call }
    }

    fn line(&self, method: &str) -> String {
        format!("{method} {RESPONSES}/{}", self.id)
    }

    /// The worker says `b` and ends.
    async fn finish(mut self) {
        self.call.chunk(&(token("b") + &finish("stop") + DONE)).await;
        self.call.end().await;
    }
}

/// Settings of gateways that share `redis`.
fn sharing(redis: &Redis) -> impl Fn(&mut GatewaySettings) + use<> {
    let url = redis.url();
    move |settings| settings.store.place = Place::parse(&url).unwrap()
}

/// Two gateways that share `redis`, of which the first has so long to end in.
async fn draining(redis: &Redis, mock: &Mock, drain: Duration) -> [Gateway; 2] {
    let share = sharing(redis);
    let one = Gateway::start_with(&[mock], |settings| {
        share(settings);
        settings.listen.drain = drain;
    })
    .await;
    [one, Gateway::start_with(&[mock], &share).await]
}

/// Asks for a response until `is_so` holds for the answer's status and object.
async fn until(client: &mut Client, line: &str, is_so: impl Fn(u16, &Value) -> bool) -> Value {
    let asked = async {
        loop {
            let (head, object) = ask(client, line, "").await;
            if is_so(head.status, &object) {
                return object;
            }
            tokio::task::yield_now().await;
        }
    };
    in_time(asked).await
}

/// The texts of a request's messages.
fn said(asked: &Value) -> Vec<&str> {
    let messages = asked["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn nobody_goes_on_from_a_response_that_is_under_way() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let begun = Begun::at(&mut client, &mut mock).await;
    let line = begun.line("GET");
    let next = response(&format!(r#","previous_response_id":"{}""#, begun.id));
    client.post(RESPONSES, &next).await;
    let (head, error) = client.whole().await;
    let error = read(&error);
    let param = &error["error"]["param"];
    assert_eq!((head.status, param), (400, &json!("previous_response_id")), "{error}");
    begun.finish().await;
    until(&mut client, &line, |_, object| object["status"] == "completed").await;
    let (asked, _) = answered(&mut mock, &mut client, (RESPONSES, "", &next)).await;
    assert_eq!(said(&asked), ["hi", "ab", "hi"]);
}

#[tokio::test]
async fn who_follows_a_response_has_a_place_until_it_leaves() {
    // One place of each kind is the response's own.
    for (requests, streams) in [(3, 9), (9, 3)] {
        let mut mock = Mock::start(&[MODEL]).await;
        let gateway = Gateway::start_with(&[&mock], |settings| {
            settings.limits.requests = requests;
            settings.limits.streams = streams;
        })
        .await;
        let mut client = gateway.client().await;
        let begun = Begun::at(&mut client, &mut mock).await;
        let line = format!("{}?stream=true", begun.line("GET"));
        let follow = async || {
            let mut follower = gateway.client().await;
            follower.send(format!("{line} HTTP/1.1\r\nhost: g\r\n\r\n")).await;
            (follower.head().await.status, follower)
        };
        let (first, second) = (follow().await, follow().await);
        assert_eq!([first.0, second.0], [200, 200]);
        let (head, error) = ask(&mut client, &line, "").await;
        assert_eq!((head.status, &error["error"]["code"]), (429, &json!("rate_limit_exceeded")));
        drop(first);
        let freed = async {
            while follow().await.0 != 200 {
                tokio::task::yield_now().await;
            }
        };
        in_time(freed).await;
    }
}

#[tokio::test]
async fn who_follows_a_response_from_its_start_needs_a_place_of_its_own() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| settings.limits.streams = 0).await;
    let mut client = gateway.client().await;
    client.post(RESPONSES, &response(r#","background":true,"stream":true"#)).await;
    let (head, error) = client.whole().await;
    assert_eq!(head.status, 429, "{error}");
    assert!(mock.is_idle());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_made_a_response_knows_its_end_though_the_store_missed_it() {
    let redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let one = Gateway::start_with(&[&mock], sharing(&redis)).await;
    let other = Gateway::start_with(&[&mock], sharing(&redis)).await;
    let (mut here, mut there) = (one.client().await, other.client().await);
    let (_, foreign) = answered(&mut mock, &mut there, (RESPONSES, "", &response(""))).await;
    let begun = Begun::at(&mut here, &mut mock).await;
    let line = begun.line("GET");
    let next = response(&format!(r#","previous_response_id":"{}""#, begun.id));
    until(&mut there, &line, |status, _| status == 200).await;
    let mut follower = one.client().await;
    follower.send(format!("{line}?stream=true HTTP/1.1\r\nhost: g\r\n\r\n")).await;
    assert_eq!(follower.head().await.status, 200);
    redis.freeze();
    begun.finish().await;
    // The last event goes out once the store has had its chance.
    assert_eq!(follower.rest().await.1, End::Clean);
    redis.thaw();
    // Once it finds what another gateway made, it asks the store again.
    let shared = format!("GET {RESPONSES}/{}", foreign["id"].as_str().unwrap());
    until(&mut here, &shared, |status, _| status == 200).await;
    let (asked, _) = answered(&mut mock, &mut here, (RESPONSES, "", &next)).await;
    assert_eq!(said(&asked), ["hi", "ab", "hi"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_another_gateway_deletes_is_given_up_and_stays_deleted() {
    let redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let one = Gateway::start_with(&[&mock], sharing(&redis)).await;
    let other = Gateway::start_with(&[&mock], sharing(&redis)).await;
    let (mut here, mut there) = (one.client().await, other.client().await);
    let begun = Begun::at(&mut here, &mut mock).await;
    let line = begun.line("GET");
    until(&mut there, &line, |status, _| status == 200).await;
    let (head, deleted) = ask(&mut there, &begun.line("DELETE"), "").await;
    assert_eq!((head.status, &deleted["deleted"]), (200, &json!(true)));
    // Its maker lets go of the worker once it has written how the response ended.
    begun.call.gone().await;
    for client in [&mut there, &mut here] {
        assert_eq!(ask(client, &line, "").await.0.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_cancelled_at_a_gateway_that_does_not_make_it() {
    let redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let one = Gateway::start_with(&[&mock], sharing(&redis)).await;
    let other = Gateway::start_with(&[&mock], sharing(&redis)).await;
    let (mut here, mut there) = (one.client().await, other.client().await);
    let begun = Begun::at(&mut here, &mut mock).await;
    let line = begun.line("GET");
    until(&mut there, &line, |status, _| status == 200).await;
    let cancel = format!("{}/cancel", begun.line("POST"));
    for _ in 0..2 {
        let (head, cancelled) = ask(&mut there, &cancel, "").await;
        assert_eq!((head.status, &cancelled["status"]), (200, &json!("cancelled")), "{cancelled}");
    }
    begun.call.gone().await;
    assert_eq!(ask(&mut here, &line, "").await.1["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_in_the_background_has_the_drain_to_end_in() {
    let redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let [mut one, other] = draining(&redis, &mock, NEVER).await;
    let (mut here, mut there) = (one.client().await, other.client().await);
    let begun = Begun::at(&mut here, &mut mock).await;
    let line = begun.line("GET");
    one.stop();
    // Idle connections are closed, so this one tells when the drain has begun.
    assert!(here.is_closed().await);
    begun.finish().await;
    one.stopped().await;
    let (_, object) = ask(&mut there, &line, "").await;
    assert_eq!(object["status"], "completed", "{object}");
    assert_eq!(object["output"][0]["content"][0]["text"], "ab");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_in_the_background_that_outlasts_the_drain_has_failed() {
    let redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let [mut one, other] = draining(&redis, &mock, SOON).await;
    let (mut here, mut there) = (one.client().await, other.client().await);
    let begun = Begun::at(&mut here, &mut mock).await;
    let line = begun.line("GET");
    one.stop();
    begun.call.gone().await;
    one.stopped().await;
    let (_, object) = ask(&mut there, &line, "").await;
    assert_eq!(object["status"], "failed", "{object}");
    assert_eq!(object["error"]["code"], "server_error");
    let message = object["error"]["message"].as_str().unwrap();
    assert!(message.contains("the gateway") && message.contains("shut down"), "{message}");
}
