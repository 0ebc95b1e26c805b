//! A gRPC proxy on a Unix socket that repeats a call as the CSI sidecars do. csi-sanity repeats nothing, so on a bad network it needs one.

use axum::Router;
use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{self, UnaryService};
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use xtask::failure::Failure;

/// What a client is answered if the same call may succeed later (CSI specification, "Error Scheme").
pub const RETRIED: [Code; 3] = [Code::Unavailable, Code::Aborted, Code::DeadlineExceeded];

/// How often a call is made at most: where every second one fails, one of a million fails each time.
const ATTEMPTS_MAX: u32 = 20;

/// How long UNAVAILABLE is repeated in any case: longer than a login that failed is the answer to all calls (10 s in `host/network/src/login.rs`), and
/// than what one call may meet besides. Generous: other tests share the machine.
const UNAVAILABLE: Duration = Duration::from_secs(60);

/// Between two attempts: the driver answers within milliseconds. Then between those that wait for a login.
const PAUSE: Duration = Duration::from_millis(20);
const LONG_PAUSE: Duration = Duration::from_millis(500);

/// A running proxy; it stops when dropped.
#[derive(Debug)]
pub struct RetryingProxy {
    socket: PathBuf,
    _serving: AbortOnDropHandle<()>,
}

/// Calls of one method.
struct Method {
    path: PathAndQuery,
    driver: Channel,
}

/// Messages as they are: the proxy knows no service.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl RetryingProxy {
    /// Serves the driver at `driver` on a new socket.
    pub async fn start(driver: &Path, socket: &Path) -> Result<Self, Failure> {
        let driver = async {
            Endpoint::from_shared(format!("unix://{}", driver.display()))?
                .connect()
                .await
        };
        let driver = driver
            .await
            .map_err(Failure::cannot("connect a proxy to its driver"))?;
        let listener = UnixListener::bind(socket)
            .map_err(Failure::cannot(format!("listen on {}", socket.display())))?;
        let router = Router::new().fallback(move |request| pass(request, driver.clone()));
        let serving = Server::builder()
            .add_routes(Routes::from(router))
            .serve_with_incoming(UnixListenerStream::new(listener));
        Ok(Self {
            socket: socket.to_owned(),
            _serving: AbortOnDropHandle::new(tokio::spawn(async move {
                // It ends with the task.
                let _ = serving.await;
            })),
        })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl UnaryService<Bytes> for Method {
    type Response = Bytes;
    type Future = futures::future::BoxFuture<'static, Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(repeat(
            self.driver.clone(),
            self.path.clone(),
            request.into_inner(),
        ))
    }
}

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

async fn pass(request: http::Request<axum::body::Body>, driver: Channel) -> http::Response<Body> {
    let path = PathAndQuery::try_from(request.uri().path());
    let path = path.unwrap_or_else(|_| PathAndQuery::from_static("/"));
    let method = Method { path, driver };
    server::Grpc::new(Raw).unary(method, request).await
}

async fn repeat(
    driver: Channel,
    path: PathAndQuery,
    message: Bytes,
) -> Result<Response<Bytes>, Status> {
    let mut driver = client::Grpc::new(driver);
    let (mut attempts, start) = (1, Instant::now());
    loop {
        driver
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let request = Request::new(message.clone());
        let outcome = driver.unary(request, path.clone(), Raw).await;
        let code = outcome.as_ref().err().map(Status::code);
        match code.and_then(|code| pause(code, attempts, start.elapsed())) {
            Some(pause) => sleep(pause).await,
            None => return outcome,
        }
        attempts += 1;
    }
}

/// How long to wait before the next attempt; none: the answer counts.
fn pause(code: Code, attempts: u32, since: Duration) -> Option<Duration> {
    let waits = code == Code::Unavailable && since < UNAVAILABLE;
    match attempts < ATTEMPTS_MAX {
        true => RETRIED.contains(&code).then_some(PAUSE),
        false => waits.then_some(LONG_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_repeated_for_codes_that_pass() {
        let soon = Duration::from_secs(1);
        for code in RETRIED {
            assert_eq!(pause(code, 1, soon), Some(PAUSE), "{code:?}");
        }
        assert_eq!(pause(Code::Unavailable, 100, soon), Some(LONG_PAUSE));
    }

    #[test]
    fn a_call_is_not_repeated_for_ever_or_for_other_codes() {
        let soon = Duration::from_secs(1);
        assert_eq!(pause(Code::NotFound, 1, soon), None);
        assert_eq!(pause(Code::Aborted, ATTEMPTS_MAX, soon), None);
        assert_eq!(pause(Code::Unavailable, ATTEMPTS_MAX, UNAVAILABLE), None);
    }
}
