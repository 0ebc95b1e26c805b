//! Requests on their way in: each is held back until it is whole, within a time, and what all of them hold is bounded.
//!
//! tonic takes a message's memory when its first bytes are here, and waits for the others as long as the client likes. What a request holds is
//! counted until it is answered.

use http_body_util::{BodyExt, Full};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Bytes, Service};

/// Largest request in bytes: gRPC's own default, which every CSI client is built with.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;
/// Before a message: whether it is compressed, and its length (gRPC over HTTP/2, "Length-Prefixed-Message").
const PREFIX_BYTES: usize = 5;
/// What the requests of all connections of a socket may hold, in bytes: eight of the largest, or thousands of those that clients send.
/// A buffer that grows takes up to twice its bytes.
const SOCKET_BYTES: usize = 32 << 20;
/// The same for one connection, so that another one has room beside it.
const CONNECTION_BYTES: usize = 16 << 20;
/// What a request holds beside its message and its header fields, in bytes: its stream, its task.
const REQUEST_BYTES: usize = 4 << 10;
/// How long a request may take to arrive once its header fields are here. Clients on the same machine have sent it by then; the shortest
/// deadline of a sidecar is as long.
const ARRIVING: Duration = Duration::from_secs(10);

/// What the requests of a connection may hold, and those of its socket.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    socket: Arc<Semaphore>,
    connection: Arc<Semaphore>,
}

/// What one request holds; given back when dropped.
struct Share {
    budget: Budget,
    permits: Vec<OwnedSemaphorePermit>,
}

/// A service that gets whole requests.
#[derive(Debug, Clone)]
pub(crate) struct Inbound<S>(pub(crate) S);

impl Default for Budget {
    /// Of a socket without connections.
    fn default() -> Self {
        Self {
            socket: Arc::new(Semaphore::new(SOCKET_BYTES)),
            connection: Arc::new(Semaphore::new(CONNECTION_BYTES)),
        }
    }
}

impl Budget {
    /// Of a new connection of the same socket.
    pub(crate) fn of_connection(&self) -> Self {
        Self {
            socket: Arc::clone(&self.socket),
            ..Self::default()
        }
    }
}

impl Share {
    fn new(budget: Budget) -> Self {
        Self {
            budget,
            permits: Vec::new(),
        }
    }

    /// Of the connection first: one that has too much takes nothing from the others.
    fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Budget { socket, connection } = &self.budget;
        for (of, whose) in [(connection, "connection"), (socket, "socket")] {
            let permit = Arc::clone(of).try_acquire_many_owned(bytes).map_err(|_| {
                Status::unavailable(format!(
                    "the requests of this {whose} hold all the memory that they may; retry"
                ))
            })?;
            match self
                .permits
                .iter_mut()
                .find(|it| Arc::ptr_eq(it.semaphore(), of))
            {
                Some(held) => held.merge(permit),
                None => self.permits.push(permit),
            }
        }
        Ok(())
    }

    /// The whole body, or of one that is too large as much as shows it.
    async fn whole(&mut self, mut body: Body) -> Result<Bytes, Status> {
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            self.grow(data.len())?;
            whole.extend_from_slice(&data);
            if whole.len() > MESSAGE_BYTES + PREFIX_BYTES {
                break;
            }
        }
        Ok(whole.into())
    }
}

impl<S> Service<Request<Body>> for Inbound<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The one that is ready is the one that is called (tower, `Service`).
        let next = self.0.clone();
        let mut inner = std::mem::replace(&mut self.0, next);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let budget = parts.extensions.get::<Budget>().cloned();
            let mut share = Share::new(budget.unwrap_or_default());
            let arrived = async {
                share.grow(REQUEST_BYTES + bytes_of(&parts.headers))?;
                share.whole(body).await
            };
            match within(ARRIVING, arrived).await {
                Ok(bytes) => {
                    let request = Request::from_parts(parts, Body::new(Full::new(bytes)));
                    let answer = inner.call(request).await;
                    drop(share);
                    answer
                }
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let seconds = time.as_secs();
    timeout(time, work).await.unwrap_or_else(|_| {
        let why = format!("the request was not whole within {seconds} s");
        Err(Status::deadline_exceeded(why))
    })
}

fn bytes_of(headers: &HeaderMap) -> usize {
    let lengths = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    lengths.sum()
}
