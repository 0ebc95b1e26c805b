//! The privileged side: accepts connections of one user, and runs each request to its end.
//!
//! A fault of a connection ends that connection only, with one line of the log. An accepted request is finished even if its client is gone.

use crate::channel::{Channel, Disconnected};
use crate::protocol::{BootId, Greeting, Message, Reply, Request, Step, VERSION, decode, encode};
use crate::under_way::{UnderWay, subjects};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};
use wasmount_core::mounter::{MountError, Mounter};
use wasmount_socket::BoundSocket;

/// Large messages that may be in transit at a time. 16: they are rare, and each may be 8 MiB.
const LARGE_MESSAGES: usize = 16;
/// How long a connection may be idle. 60 s: twice as long as a client keeps one.
const IDLE: Duration = Duration::from_secs(60);
/// Pause after a failed accept: it fails when descriptors or memory run out, and an immediate retry would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The span of a request whose client wants its steps.
pub const REQUEST: &str = "request of a trace";

/// Options of the administrator.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// The user whose processes may connect.
    pub client_uid: u32,
    /// Connections at a time; further ones wait in the socket's queue.
    pub connections: usize,
    /// How long running requests may take at shutdown.
    pub grace: Duration,
    /// The steps so far in the span of a request.
    pub steps_of: fn(&Span) -> Vec<Step>,
}

/// What all connections share.
struct Server {
    mounter: Arc<dyn Mounter>,
    options: ServerOptions,
    boot_id: BootId,
    under_way: Arc<UnderWay>,
    places: Arc<Semaphore>,
    large: Semaphore,
    jobs: TaskTracker,
    shutdown: CancellationToken,
}

/// Why a connection ends with an error.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Disconnected(#[from] Disconnected),
    #[error(
        "its user has the number {uid}, and only {allowed} may connect (--client-uid of the mounter)"
    )]
    OtherUser { uid: u32, allowed: u32 },
    #[error(
        "it speaks version {theirs} of the protocol and this mounter {VERSION}: run both from one image"
    )]
    OtherVersion { theirs: u32 },
}

/// Serves until `shutdown`; then running requests may end within the grace period. Returns how many had not ended by then.
pub async fn serve(
    socket: BoundSocket,
    mounter: Arc<dyn Mounter>,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> std::io::Result<usize> {
    let (listener, file) = socket.into_parts();
    let listener = UnixListener::from_std(listener.into())?;
    let server = Arc::new(Server {
        mounter,
        options,
        boot_id: BootId::new_v4(),
        under_way: Arc::default(),
        places: Arc::new(Semaphore::new(
            options.connections.clamp(1, Semaphore::MAX_PERMITS),
        )),
        large: Semaphore::new(LARGE_MESSAGES),
        jobs: TaskTracker::new(),
        shutdown: shutdown.clone(),
    });
    let connections = TaskTracker::new();
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = accept(&server, listener, &connections) => {}
    }
    drop(file);
    connections.close();
    server.jobs.close();
    let ended = async {
        // First the accepted requests, then their answers.
        connections.wait().await;
        server.jobs.wait().await;
    };
    Ok(match timeout(options.grace, ended).await {
        Ok(()) => 0,
        Err(_) => server.jobs.len(),
    })
}

async fn accept(server: &Arc<Server>, listener: UnixListener, connections: &TaskTracker) {
    let mut failing = false;
    // Fails only if the semaphore is closed, which never happens.
    while let Ok(place) = Arc::clone(&server.places).acquire_owned().await {
        let socket = loop {
            match listener.accept().await {
                Ok((socket, _)) => break socket,
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "connections cannot be accepted; retrying");
                    }
                    failing = true;
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        };
        failing = false;
        connections.spawn(Arc::clone(server).connection(socket, place));
    }
}

impl Server {
    async fn connection(self: Arc<Self>, socket: UnixStream, place: OwnedSemaphorePermit) {
        match self.converse(socket).await {
            // A client that disconnects while it waits for an answer was killed, or does not need the answer.
            Ok(()) | Err(Ended::Disconnected(Disconnected::Closed)) => {}
            Err(why) => tracing::warn!(%why, "a connection was closed"),
        }
        drop(place);
    }

    async fn converse(&self, socket: UnixStream) -> Result<(), Ended> {
        let allowed = self.options.client_uid;
        let uid = socket.peer_cred().map_err(Disconnected::System)?.uid();
        if uid != allowed {
            return Err(Ended::OtherUser { uid, allowed });
        }
        let mut channel = Channel(socket);
        let theirs = channel.greeting().await?;
        // Whatever version the client has: clients report a mismatch themselves.
        channel.send_greeting(Greeting::of(self.boot_id)).await?;
        if theirs.version != VERSION {
            return Err(Ended::OtherVersion {
                theirs: theirs.version,
            });
        }
        loop {
            let message = tokio::select! {
                () = self.shutdown.cancelled() => return Ok(()),
                () = sleep(IDLE) => return Ok(()),
                received = channel.receive(Some(&self.large)) => received?,
            };
            let request = decode(&message).map_err(Disconnected::from)?;
            // Zeroed now, not when the request is done.
            drop(message);
            let reply = self.answer(&channel, theirs.boot_id, request).await?;
            channel.send(&encoded(&reply)?).await?;
        }
    }

    /// Runs a request. It continues if the client disconnects.
    async fn answer(
        &self,
        channel: &Channel,
        caller: BootId,
        (wants_steps, request): Request,
    ) -> Result<Reply, Disconnected> {
        let ticket = match self.under_way.begin(caller, subjects(&request)) {
            Ok(ticket) => ticket,
            Err(refused) => return Ok((Err(refused), Vec::new())),
        };
        // Checked after the entry was made: a client that is connected now finds this entry after its restart, and a request that a client left in
        // the socket before it exited must not be done after its restart.
        if channel.is_over() {
            return Err(Disconnected::Closed);
        }
        let job = ticket.job;
        let (mounter, steps_of) = (Arc::clone(&self.mounter), self.options.steps_of);
        let work = self.jobs.spawn(async move {
            let span = match wants_steps {
                true => tracing::debug_span!(REQUEST),
                false => Span::none(),
            };
            let answer = mounter.perform(request).instrument(span.clone()).await;
            drop(ticket);
            (answer, steps_of(&span))
        });
        tokio::select! {
            done = work => {
                Ok(done.unwrap_or_else(|_| (Err(MountError::lost_worker()), Vec::new())))
            }
            () = channel.over() => {
                self.under_way.abandon(job);
                Err(Disconnected::Closed)
            }
        }
    }
}

/// A reply that is too large is answered as an error: the call was made.
fn encoded(reply: &Reply) -> Result<Message, Disconnected> {
    let encoded = encode(reply).or_else(|violation| {
        let refusal = MountError::unsupported("the mounter's answer", violation);
        let refusal: Reply = (Err(refusal), Vec::new());
        encode(&refusal)
    });
    Ok(encoded?)
}
