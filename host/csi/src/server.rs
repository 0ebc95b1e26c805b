//! Serves one driver on one socket.
//!
//! Clients are sidecars and kubelet on the same machine; the socket's mode controls access. kubelet opens a connection for every call, so accepting
//! must be cheap, and a connection owns only its descriptor. A client that is slow, silent, or does not send gRPC affects only its own connection.

use crate::accept::{Accepting, Connection};
use crate::measure::CallMetrics;
use crate::rpc::RpcHandler;
use crate::{inbound, service};
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tower::service_fn;
use wasmount_core::driver::Driver;
use wasmount_socket::BoundSocket;

/// Calls at a time on one connection. external-provisioner has 200 workers on one; above the limit a client waits, it is not rejected.
const STREAMS_OF_A_CONNECTION: u32 = 1024;

/// How long the answers of calls may take after shutdown was requested. The calls have ended before; only answers remain to be sent.
const ANSWERING: Duration = Duration::from_secs(5);

/// How long connections without a call may take to close: the last bytes are being sent. Many clients answer a GOAWAY only with their next call
/// (gRPC's Python does), so the server does not wait for them.
const CLOSING: Duration = Duration::from_millis(250);

/// Why serving stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime cannot watch the socket.
    #[error("could not watch {path}")]
    Watch {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The server ended without a shutdown.
    #[error("serving on {path} ended")]
    Ended {
        /// The socket.
        path: PathBuf,
        /// The reason.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Serves until `shutdown` is cancelled, at most `most_connections` at a time; removes the socket when it returns. To be cancelled after
/// [`Driver::shutdown`], so that the remaining calls are answered.
///
/// Sidecars read the capabilities when they connect, and exit when their connection closes. So when a version adds capabilities, the existing
/// connections are closed, each when its calls have ended; the socket stays, and a client that reconnects is served at once.
pub async fn serve(
    socket: BoundSocket,
    driver: Arc<Driver>,
    most_connections: usize,
    metrics: CallMetrics,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let mut grown = driver.capabilities_grown();
    let handler = RpcHandler::new(driver, metrics);
    // The file is removed when this function ends in any way, including when its future is dropped.
    let (listener, file) = socket.into_parts();
    let path = file.path();
    let watch = |source| ServeError::Watch {
        path: path.to_owned(),
        source,
    };
    let listener = UnixListener::from_std(listener.into()).map_err(watch)?;
    tracing::info!(socket = %path.display(), "serving CSI");
    let ended = |generation: Result<Result<bool, tonic::transport::Error>, JoinError>| {
        match generation {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                tracing::warn!(socket = %path.display(), "calls were left without an answer");
            }
            Ok(Err(source)) => {
                return Err(ServeError::Ended {
                    path: path.to_owned(),
                    source,
                });
            }
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
        Ok(())
    };
    let mut accepting = Accepting::new(listener, most_connections);
    let mut generations = JoinSet::new();
    while !shutdown.is_cancelled() {
        // The generation's connections are closed when the sender is dropped.
        let (connections, incoming) = mpsc::unbounded_channel();
        generations.spawn(generation(handler.clone(), incoming, shutdown.clone()));
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(connection) = accepting.next() => {
                    // Fails when the generation has ended, which the next branch reports.
                    let _ = connections.send(Ok(connection));
                }
                Some(generation) = generations.join_next() => ended(generation)?,
                // The sender lives in the driver, so this cannot fail.
                _ = grown.changed() => {
                    tracing::info!(
                        socket = %path.display(),
                        "capabilities added: closing connections so that clients read them again"
                    );
                    break;
                }
            }
        }
    }
    while let Some(generation) = generations.join_next().await {
        ended(generation)?;
    }
    Ok(())
}

/// Serves connections until the sender is dropped, and then until they have closed. Returns whether every call was answered.
async fn generation(
    handler: RpcHandler,
    incoming: mpsc::UnboundedReceiver<io::Result<Connection>>,
    shutdown: CancellationToken,
) -> Result<bool, tonic::transport::Error> {
    let calls = TaskTracker::new();
    let counted = calls.clone();
    let service = service_fn(move |request| {
        let handler = handler.clone();
        let serve = |request| service::route(handler, request);
        Box::pin(inbound::serve(request, counted.token(), serve))
    });
    // No HTTP/2 pings: a peer that dies closes its Unix socket, and one that is only suspended must not be disconnected.
    let server = Server::builder()
        .max_concurrent_streams(STREAMS_OF_A_CONNECTION)
        .serve_with_incoming_shutdown(
            service,
            UnboundedReceiverStream::new(incoming),
            // With a shutdown signal, connections are closed in order at the end of `incoming`.
            pending(),
        );
    tokio::select! {
        served = server => served.map(|()| true),
        answered = ended(&shutdown, &calls) => Ok(answered),
    }
}

/// Returns when no call needs to be waited for; whether every call was answered.
async fn ended(shutdown: &CancellationToken, calls: &TaskTracker) -> bool {
    shutdown.cancelled().await;
    calls.close();
    let answered = timeout(ANSWERING, calls.wait()).await.is_ok();
    sleep(CLOSING).await;
    answered
}
