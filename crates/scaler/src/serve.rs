//! KEDA external scaler: the gRPC server over HTTP/2.
//!
//! It serves HTTP/2 without TLS, inside a cluster. The listener owns its connections; a stream of
//! changes is checked every quarter of a second and sends a message when the answer changes.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic_prost::ProstCodec;

use crate::message::{IsActiveResponse, ScaledObjectRef};
use crate::query::Query;
use crate::triggers::Triggers;
use crate::{CONNECTIONS_MAX, LOOK_EVERY, STREAMS_MAX, Source};

/// Maximum bytes of a request.
const QUESTION_BYTES_MAX: usize = 64 * 1024;

/// Maximum concurrent requests on one connection.
const CONCURRENT_MAX: u32 = 64;

/// Bytes of a question's head at most.
const HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Silence after which a client is asked whether it is still there, and how long it may take.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What every connection of HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a client may take for that: who says nothing keeps a place that KEDA may need, and hyper waits for ever.
const PREFACE_PATIENCE: Duration = Duration::from_secs(10);

/// After an accept that failed, for want of file descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers on `listener` until `shutdown` resolves; dropping the future ends it as well.
pub async fn serve<S: Source>(
    listener: TcpListener,
    source: Arc<S>,
    shutdown: impl Future<Output = ()> + Send,
) {
    let face = Arc::new(Face {
        triggers: Triggers::new(source),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
    });
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            _ = ticks.tick() => face.triggers.tick(),
            Some(_ended) = connections.join_next() => {}
            (stream, permit) = accept(&listener, &room) => {
                let face = Arc::clone(&face);
                connections.spawn(async move {
                    connection(stream, face).await;
                    drop(permit);
                });
            }
        }
    }
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let permit = Arc::clone(room).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                tracing::warn!(%error, "a scaler's connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection whose client has said that it speaks HTTP/2, with what it has said still to be read; `None` where it
/// says something else.
async fn begun(stream: TcpStream) -> Option<impl AsyncRead + AsyncWrite + Send + Unpin> {
    let (mut reader, writer) = stream.into_split();
    let mut said = [0; PREFACE.len()];
    reader.read_exact(&mut said).await.ok()?;
    (said == *PREFACE).then(|| join(PREFACE.chain(reader), writer))
}

async fn connection<S: Source>(stream: TcpStream, face: Arc<Face<S>>) {
    let Ok(Some(stream)) = timeout(PREFACE_PATIENCE, begun(stream)).await else {
        tracing::debug!("a scaler's connection did not begin as HTTP/2 in time");
        return;
    };
    let answer = service_fn(move |request| {
        let face = Arc::clone(&face);
        async move { Ok::<_, Infallible>(face.answer(request).await) }
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .max_concurrent_streams(CONCURRENT_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a scaler's connection broke");
    }
}

/// The service as a connection sees it.
#[derive(Debug)]
struct Face<S> {
    triggers: Triggers<S>,
    streams: Arc<Semaphore>,
}

impl<S: Source> Face<S> {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let triggers = &self.triggers;
        match request.uri().path() {
            "/externalscaler.ExternalScaler/IsActive" => {
                let active = |object: ScaledObjectRef| {
                    let wanted = triggers.wanted(&triggers.query(&object)?)?;
                    Ok(IsActiveResponse { result: wanted.active })
                };
                grpc().unary(Unary(active), request).await
            }
            "/externalscaler.ExternalScaler/StreamIsActive" => {
                let service = Changing(Arc::clone(&self));
                grpc().server_streaming(service, request).await
            }
            "/externalscaler.ExternalScaler/GetMetricSpec" => {
                let specs = |object: ScaledObjectRef| triggers.specs(&object);
                grpc().unary(Unary(specs), request).await
            }
            "/externalscaler.ExternalScaler/GetMetrics" => {
                let metrics = |asked| triggers.metrics(&asked);
                grpc().unary(Unary(metrics), request).await
            }
            _ => Status::unimplemented(
                "no such method; expected `IsActive`, `StreamIsActive`, `GetMetricSpec` or \
                 `GetMetrics` of `externalscaler.ExternalScaler`",
            )
            .into_http(),
        }
    }

    fn changes(self: Arc<Self>, object: &ScaledObjectRef) -> Result<Changes<S>, Status> {
        let query = self.triggers.query(object)?;
        let permit = Arc::clone(&self.streams).try_acquire_owned().map_err(|_full| {
            Status::resource_exhausted(format!("{STREAMS_MAX} streams are open already"))
        })?;
        // Refused now rather than with the first look.
        self.triggers.wanted(&query)?;
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Changes { face: self, query, looks, told: None, _permit: permit })
    }
}

fn grpc<A, B>() -> Grpc<ProstCodec<B, A>>
where
    A: prost::Message + Default + Send + 'static,
    B: prost::Message + Send + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(QUESTION_BYTES_MAX)
}

/// A function as a service that answers once.
struct Unary<F>(F);

impl<F, A, B> UnaryService<A> for Unary<F>
where
    F: FnMut(A) -> Result<B, Status>,
{
    type Response = B;
    type Future = Ready<Result<tonic::Response<B>, Status>>;

    fn call(&mut self, request: tonic::Request<A>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}

/// The service that goes on answering.
struct Changing<S>(Arc<Face<S>>);

impl<S: Source> ServerStreamingService<ScaledObjectRef> for Changing<S> {
    type Response = IsActiveResponse;
    type ResponseStream = Changes<S>;
    type Future = Ready<Result<tonic::Response<Changes<S>>, Status>>;

    fn call(&mut self, request: tonic::Request<ScaledObjectRef>) -> Self::Future {
        let changes = Arc::clone(&self.0).changes(request.get_ref());
        ready(changes.map(tonic::Response::new))
    }
}

/// Whether a trigger is active: at once, and whenever that changes.
struct Changes<S> {
    face: Arc<Face<S>>,
    query: Query,
    looks: Interval,
    told: Option<bool>,
    _permit: OwnedSemaphorePermit,
}

impl<S: Source> Stream for Changes<S> {
    type Item = Result<IsActiveResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while this.looks.poll_tick(cx).is_ready() {
            let active = match this.face.triggers.wanted(&this.query) {
                Ok(wanted) => wanted.active,
                Err(status) => return Poll::Ready(Some(Err(status))),
            };
            if this.told.replace(active) != Some(active) {
                return Poll::Ready(Some(Ok(IsActiveResponse { result: active })));
            }
        }
        Poll::Pending
    }
}
