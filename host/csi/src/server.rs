//! Serves one driver on one socket.
//!
//! Clients are sidecars and kubelet on the same machine, let in by the socket's mode. kubelet opens a connection for every call, so accepting must be
//! cheap and a connection owns nothing but its descriptor. A client that is slow, silent, or sends what is not gRPC costs its own connection only.

use crate::accept::{Incoming, ListenerGeneration};
use crate::controller::ControllerService;
use crate::group_controller::GroupControllerService;
use crate::identity::IdentityService;
use crate::in_flight::InFlight;
use crate::inbound::{Inbound, MESSAGE_BYTES};
use crate::measure::CallMetrics;
use crate::node::NodeService;
use crate::rpc::{Arrival, RpcHandler};
use crate::snapshot_metadata::SnapshotMetadataService;
use crate::wire::csi::v1::{
    controller_server::ControllerServer, group_controller_server::GroupControllerServer,
    identity_server::IdentityServer, node_server::NodeServer,
    snapshot_metadata_server::SnapshotMetadataServer,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codegen::http;
use tonic::transport::Server;
use tower::layer::layer_fn;
use tower::util::MapRequestLayer;
use wasmount_core::driver::Driver;
use wasmount_socket::BoundSocket;

/// Calls at a time on one connection. external-provisioner has 200 workers on one; beyond this a client waits, it is not refused.
const STREAMS_OF_A_CONNECTION: u32 = 1024;

/// How long calls may take to be answered after the end was called. They have ended before; only answers have to leave.
const ANSWERING: Duration = Duration::from_secs(5);

/// How long connections without a call may take to close: the last bytes are on their way. Many clients answer a GOAWAY only when they next
/// call (gRPC's Python does), so nobody waits for them.
const CLOSING: Duration = Duration::from_millis(250);

/// Why serving could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime cannot watch the socket.
    #[error("could not watch {path}")]
    Watch {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It ended by itself.
    #[error("serving on {path} ended")]
    Ended {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Serves until `shutdown` is cancelled, at most `most_connections` at a time; removes the socket when it returns. To be cancelled after
/// [`Driver::shutdown`], so that calls that may finish are answered.
///
/// Sidecars ask for capabilities when they connect, and end when a connection does. So when a version brings new ones, the connections that
/// there are are closed, each when its calls have ended; the socket stays, and who connects again is served at once.
pub async fn serve(
    socket: BoundSocket,
    driver: Arc<Driver>,
    most_connections: usize,
    metrics: CallMetrics,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let mut grown = driver.capabilities_grown();
    let frame = RpcHandler::new(driver, metrics);
    // The file is removed when this function ends in whatever way, being dropped included.
    let (listener, file) = socket.into_parts();
    let path = file.path();
    let watch = |source| ServeError::Watch {
        path: path.to_owned(),
        source,
    };
    let listener = UnixListener::from_std(listener.into()).map_err(watch)?;
    tracing::info!(socket = %path.display(), "serving CSI");
    let incoming = Incoming::new(listener, most_connections);
    let mut rounds = JoinSet::new();
    loop {
        let over = shutdown.child_token();
        rounds.spawn(round(
            frame.clone(),
            incoming.next_round(),
            over.clone(),
            shutdown.clone(),
        ));
        let goes_on = loop {
            let ended = tokio::select! {
                ended = rounds.join_next() => ended,
                changed = grown.changed(), if !shutdown.is_cancelled() => break changed.is_ok(),
            };
            match ended {
                // The last one, which was told to.
                None => break false,
                Some(Ok(Ok(answered))) if over.is_cancelled() || !rounds.is_empty() => {
                    if !answered {
                        tracing::warn!(socket = %path.display(), "calls were left without an answer");
                    }
                }
                Some(Ok(Ok(_))) => break false,
                Some(Ok(Err(source))) => {
                    return Err(ServeError::Ended {
                        path: path.to_owned(),
                        source,
                    });
                }
                Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            }
        };
        if !goes_on {
            return Ok(());
        }
        tracing::info!(
            socket = %path.display(),
            "capabilities added: closing connections so that clients read them again"
        );
        over.cancel();
    }
}

/// Serves what comes in until it is over, and then what came in until it has ended. Whether every call was answered.
async fn round(
    frame: RpcHandler,
    incoming: ListenerGeneration,
    over: CancellationToken,
    shutdown: CancellationToken,
) -> Result<bool, tonic::transport::Error> {
    let calls = TaskTracker::new();
    let counted = calls.clone();
    // No HTTP/2 pings: over a Unix socket a peer that dies closes, and one that is merely stopped must not be cut off.
    let server = Server::builder()
        .max_concurrent_streams(STREAMS_OF_A_CONNECTION)
        .layer(MapRequestLayer::new(arrived))
        .layer(layer_fn(move |service| {
            InFlight::new(service, counted.clone())
        }))
        .layer(layer_fn(Inbound))
        .add_service(
            IdentityServer::new(IdentityService(frame.clone()))
                .max_decoding_message_size(MESSAGE_BYTES),
        )
        .add_service(
            ControllerServer::new(ControllerService(frame.clone()))
                .max_decoding_message_size(MESSAGE_BYTES),
        )
        .add_service(
            GroupControllerServer::new(GroupControllerService(frame.clone()))
                .max_decoding_message_size(MESSAGE_BYTES),
        )
        .add_service(
            SnapshotMetadataServer::new(SnapshotMetadataService(frame.clone()))
                .max_decoding_message_size(MESSAGE_BYTES),
        )
        .add_service(NodeServer::new(NodeService(frame)).max_decoding_message_size(MESSAGE_BYTES));
    tokio::select! {
        served = server.serve_with_incoming_shutdown(incoming, over.cancelled()) => {
            served.map(|()| true)
        }
        answered = ended(&shutdown, &calls) => Ok(answered),
    }
}

/// Returns when nobody needs to be waited for any more; whether every call was answered.
async fn ended(shutdown: &CancellationToken, calls: &TaskTracker) -> bool {
    shutdown.cancelled().await;
    calls.close();
    let answered = timeout(ANSWERING, calls.wait()).await.is_ok();
    sleep(CLOSING).await;
    answered
}

/// Notes when the headers came: the client's deadline counts from there.
fn arrived<B>(mut request: http::Request<B>) -> http::Request<B> {
    request.extensions_mut().insert(Arrival(Instant::now()));
    request
}
