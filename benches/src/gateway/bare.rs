//! Minimal hyper proxy, as the lower bound: accept, forward, relay.
//!
//! Bodies stream through in both directions, connections are kept alive on both sides, and nothing
//! else happens. What the gateway costs beyond this is what its promises cost.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

type Sender = client::SendRequest<Incoming>;

/// The worker's address and the idle connections to it.
struct Upstream {
    address: String,
    idle: Mutex<Vec<Sender>>,
}

/// Proxies to `worker` for ever.
pub(crate) async fn serve(listener: TcpListener, worker: &str) -> Result<()> {
    let upstream = Arc::new(Upstream { address: worker.to_owned(), idle: Mutex::default() });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let upstream = Arc::clone(&upstream);
        tokio::spawn(async move {
            let service = service_fn(|request| proxy(Arc::clone(&upstream), request));
            // A client that leaves ends its connection, and that is all.
            let _left =
                server::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn proxy(
    upstream: Arc<Upstream>,
    mut request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>, Infallible> {
    let host = upstream.address.parse().expect("an address is a header's value");
    request.headers_mut().insert(hyper::header::HOST, host);
    Ok(match forward(upstream, request).await {
        Ok(response) => response,
        Err(_failed) => {
            let mut response =
                Response::new(Empty::new().map_err(|never: Infallible| match never {}).boxed());
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    })
}

async fn forward(
    upstream: Arc<Upstream>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>> {
    let mut sender = upstream.connection().await?;
    let response = sender.send_request(request).await?;
    // The next user waits until the connection is ready again.
    upstream.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
    Ok(response.map(BodyExt::boxed))
}

impl Upstream {
    async fn connection(&self) -> Result<Sender> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut sender) = idle else { break };
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
