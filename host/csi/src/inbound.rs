//! Incoming requests: each is held back until it is complete, within a time limit, and the memory of all of them is bounded.
//!
//! tonic allocates a message's memory when its first bytes arrive, and waits for the rest without a limit. The memory of a request is counted until
//! it is answered.

use crate::rpc::Arrival;
use http_body_util::{BodyExt, Full};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, Request, Response};

/// Largest request in bytes: gRPC's own default, which every CSI client uses.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;
/// Bytes before a message: the compression flag and the length (gRPC over HTTP/2, "Length-Prefixed-Message").
const PREFIX_BYTES: usize = 5;
/// Memory for the requests of all connections of a socket, in bytes: eight of the largest, or thousands of ordinary ones. A growing buffer takes up
/// to twice its bytes.
const SOCKET_BYTES: usize = 32 << 20;
/// The limit for one connection, which leaves memory for another one.
const CONNECTION_BYTES: usize = 16 << 20;
/// Memory of a request beside its message and its header fields, in bytes: its stream, its task.
const REQUEST_BYTES: usize = 4 << 10;
/// How long a request may take to arrive after its header fields. Clients on the same machine have sent it by then; the shortest deadline of a
/// sidecar is as long.
const ARRIVING: Duration = Duration::from_secs(10);

/// The memory budget of a connection's requests, and that of its socket.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    socket: Arc<Semaphore>,
    connection: Arc<Semaphore>,
}

/// The memory of one request; released when dropped.
type Share = [OwnedSemaphorePermit; 2];

impl Default for Budget {
    /// The budget of a socket without connections.
    fn default() -> Self {
        Self {
            socket: Arc::new(Semaphore::new(SOCKET_BYTES)),
            connection: Arc::new(Semaphore::new(CONNECTION_BYTES)),
        }
    }
}

impl Budget {
    /// The budget of a new connection of the same socket.
    pub(crate) fn of_connection(&self) -> Self {
        Self {
            socket: Arc::clone(&self.socket),
            ..Self::default()
        }
    }

    /// Takes from the connection's budget first: a connection above its limit takes nothing from the others.
    fn take(&self, bytes: usize) -> Result<Share, Status> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let take = |budget: &Arc<Semaphore>, whose| {
            let taken = Arc::clone(budget).try_acquire_many_owned(bytes);
            taken.map_err(|_| {
                Status::unavailable(format!(
                    "the requests of this {whose} use all the memory that they may; retry"
                ))
            })
        };
        let of_connection = take(&self.connection, "connection")?;
        Ok([of_connection, take(&self.socket, "socket")?])
    }
}

/// The whole body with its memory, and that of the head; of a body that is too large, only enough bytes to detect that.
async fn whole(
    budget: &Budget,
    head_bytes: usize,
    mut body: Body,
) -> Result<(Bytes, Share), Status> {
    let mut share = budget.take(head_bytes)?;
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        // Merged, since a client may send its request byte by byte.
        for (held, more) in share.iter_mut().zip(budget.take(data.len())?) {
            held.merge(more);
        }
        whole.extend_from_slice(&data);
        if whole.len() > MESSAGE_BYTES + PREFIX_BYTES {
            break;
        }
    }
    Ok((whole.into(), share))
}

/// Serves a request once it is complete. It is in flight until the last byte of its answer is sent.
pub(crate) async fn serve<F>(
    mut request: Request<Body>,
    in_flight: TaskTrackerToken,
    serve: impl FnOnce(Request<Body>) -> F,
) -> Result<Response<Body>, Infallible>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    request.extensions_mut().insert(Arrival(Instant::now()));
    let (parts, body) = request.into_parts();
    let budget: Budget = parts.extensions.get().cloned().unwrap_or_default();
    let head_bytes = REQUEST_BYTES + bytes_of(&parts.headers);
    let arrived = whole(&budget, head_bytes, body);
    let arrived = timeout(ARRIVING, arrived).await.unwrap_or_else(|_| {
        let seconds = ARRIVING.as_secs();
        let why = format!("the request was incomplete after {seconds} s");
        Err(Status::deadline_exceeded(why))
    });
    let answer = match arrived {
        Ok((bytes, _share)) => {
            serve(Request::from_parts(parts, Body::new(Full::new(bytes)))).await?
        }
        Err(status) => status.into_http(),
    };
    Ok(answer.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _in_flight = &in_flight;
            frame
        }))
    }))
}

fn bytes_of(headers: &HeaderMap) -> usize {
    let lengths = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    lengths.sum()
}
