//! The unprivileged side: the trait `Mounter`; sends each request unchanged to the mounter process.
//!
//! A connection carries one call at a time and is kept for the next. A call whose request was not sent completely is sent again on a new connection;
//! otherwise only the caller may repeat it.

use crate::channel::{Channel, Disconnected};
use crate::protocol::{BootId, Greeting, Message, Reply, VERSION, decode, encode};
use async_trait::async_trait;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tracing::field::Empty;
use tracing::{Instrument, Span};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::{MountError, Mounter, MounterRequest, MounterResponse};
use wasmount_core::mutex::lock;

/// Concurrent calls; further ones wait. 1024: eight drivers with hung storage leave capacity for others (each has 120 threads at the mounter, and
/// further calls are rejected).
const CALLS: usize = 1024;
/// Idle connections that are kept for the next call. 32: as many concurrent calls as one driver's node work can have.
const KEPT: usize = 32;
/// How long an idle connection is kept. 30 s: half of the mounter's own limit, so that none is closed just as it is used.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// What to do if no process accepts a connection.
const ABSENT: &str =
    "is `wasmount mounter` running, with this --socket and this user as --client-uid?";
/// What to do if there is no greeting.
const UNHEARD: &str = "see the log of `wasmount mounter`, which says why it closes a connection";
/// What is known of a call whose connection ended.
const LOST: &str = "the call may have been made or not, and may be repeated";

/// The attribute of a request's span with its steps: JSON of a list of [`Step`](crate::Step).
pub const STEPS: &str = "steps";

/// The node's mounts, in another process.
pub struct SocketMounter {
    path: PathBuf,
    boot_id: BootId,
    calls: Semaphore,
    /// The last connection used is the first to be used again.
    kept: Mutex<Vec<(Instant, Channel)>>,
    theirs: Mutex<Option<BootId>>,
}

impl SocketMounter {
    /// Opens no connection: while the mounter is not running, each call returns [`MountError::Unreachable`].
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            boot_id: BootId::new_v4(),
            calls: Semaphore::new(CALLS),
            kept: Mutex::default(),
            theirs: Mutex::default(),
        }
    }

    /// The boot id of the mounter that was connected to last: another id means that the mounter was restarted.
    pub fn boot_id(&self) -> Option<BootId> {
        *lock(&self.theirs)
    }

    /// Sends a request, on a kept connection or on a new one. If a request was not sent completely, the mounter has not begun it.
    async fn sent(&self, message: &Message) -> Result<Channel, MountError> {
        while let Some(mut channel) = self.take() {
            if !channel.is_over() && channel.send(message).await.is_ok() {
                return Ok(channel);
            }
        }
        let mut channel = self.connect().await?;
        let sent = channel.send(message).await;
        sent.map_err(|why| self.unreachable("at", &why, LOST))?;
        Ok(channel)
    }

    async fn connect(&self) -> Result<Channel, MountError> {
        let mut channel = Channel::connect(&self.path)
            .await
            .map_err(|why| self.unreachable("cannot connect to", &why, ABSENT))?;
        let theirs = channel.greet(Greeting::of(self.boot_id)).await;
        let Greeting { version, boot_id } =
            theirs.map_err(|why| self.unreachable("at", &why, UNHEARD))?;
        if version != VERSION {
            return Err(MountError::unsupported(
                format!("the mounter at {}", self.path.display()),
                format!(
                    "it speaks version {version} of the protocol and this host {VERSION}: run both from one image"
                ),
            ));
        }
        *lock(&self.theirs) = Some(boot_id);
        Ok(channel)
    }

    async fn exchange(&self, request: MounterRequest) -> Result<MounterResponse, MountError> {
        let span = Span::current();
        let message = encode(&(!span.is_disabled(), &request)).map_err(|violation| {
            MountError::invalid(
                "the request to the mounter",
                violation,
                Blame::Of(Owner::Request),
            )
        })?;
        // Dropped before waiting, so that secrets are in memory only once.
        drop(request);
        // Fails only if the semaphore is closed, which never happens.
        let _turn = self.calls.acquire().await;
        let mut channel = self.sent(&message).await?;
        drop(message);
        let (reply, steps) = channel
            // Answers are from the trusted side: not limited.
            .receive(None)
            .await
            .and_then(|reply| Ok(decode::<Reply>(&reply)?))
            .map_err(|why| self.unreachable("at", &why, LOST))?;
        if !steps.is_empty() {
            span.record(STEPS, serde_json::to_string(&steps).unwrap_or_default());
        }
        let mut kept = lock(&self.kept);
        if kept.len() < KEPT {
            kept.push((Instant::now(), channel));
        }
        reply
    }

    fn take(&self) -> Option<Channel> {
        let mut kept = lock(&self.kept);
        kept.retain(|(since, _)| since.elapsed() < KEPT_FOR);
        Some(kept.pop()?.1)
    }

    /// The error of a connection to the mounter.
    fn unreachable(&self, at: &str, why: &Disconnected, advice: &str) -> MountError {
        let path = self.path.display();
        MountError::unreachable(format!("{at} {path}: {why}; {advice}"))
    }
}

#[async_trait]
impl Mounter for SocketMounter {
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse, MountError> {
        let span = tracing::debug_span!("mounter process", steps = Empty);
        self.exchange(request).instrument(span).await
    }
}
