//! The unprivileged side: `Mounter`, with each call sent to the process that may. It must not know what a call does.
//!
//! A connection carries one call at a time and is kept for the next. A call whose request did not go out whole is sent again on a new connection;
//! after that only its caller may repeat it.

use crate::channel::{Channel, Disconnected};
use crate::protocol::{
    Answer, BootId, Greeting, Message, Reply, Request, VERSION, Violation, decode, encode,
};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::health::Health;
use wasmount_core::mounter::{
    ExpandVolume, HealthQuery, MountError, Mounter, PublishVolume, StageVolume, Staged,
    StagedQuery, StatVolume, UnpublishVolume, UnstageVolume, VolumeInUse, VolumeKey, VolumeStats,
};
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::pool::{PoolCall, PoolReply};

/// Calls at a time; further ones wait. 1024: ten drivers whose storage hangs leave room for others (each has some 90 threads at the mounter,
/// and is refused beyond).
const CALLS: usize = 1024;
/// Connections that are kept for the next call. 32: as many calls as one driver's node work can have at a time.
const KEPT: usize = 32;
/// How long one is kept. 30 s: half as long as the mounter waits, so that none is closed just as it is used.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// The node's mounts, in another process.
pub struct SocketMounter {
    path: PathBuf,
    life: BootId,
    calls: Semaphore,
    large: Semaphore,
    /// The last one used is the first to be used again.
    kept: Mutex<Vec<(Instant, Channel)>>,
    theirs: Mutex<Option<BootId>>,
}

impl SocketMounter {
    /// Opens nothing: a mounter that is not there yet is [`MountError::Unreachable`] to each call until it is.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self {
            path: path.into(),
            life: BootId::begin()?,
            calls: Semaphore::new(CALLS),
            // Answers come from the trusted side: as many as calls.
            large: Semaphore::new(CALLS),
            kept: Mutex::default(),
            theirs: Mutex::default(),
        })
    }

    /// The life of the mounter that was connected to last: another one has been started anew.
    pub fn life(&self) -> Option<BootId> {
        *self.theirs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(&self, request: Request) -> Reply {
        let message = encode(&request).map_err(|violation| MountError::Invalid {
            what: "the request to the mounter".to_owned(),
            reason: violation.to_string(),
            blame: Blame::Of(Owner::Request),
        })?;
        // Not waited for with secrets in two places.
        drop(request);
        // Fails only if the semaphore is closed, which nobody does.
        let _turn = self.calls.acquire().await;
        let mut channel = self.sent(&message).await?;
        drop(message);
        let reply = channel
            .receive(&self.large)
            .await
            .and_then(|reply| Ok(decode::<Reply>(&reply)?))
            .map_err(|parted| self.lost(&parted))?;
        let mut kept = self.kept();
        if kept.len() < KEPT {
            kept.push((Instant::now(), channel));
        }
        reply
    }

    /// Sends a request, on a kept connection or on a new one. One that did not go out whole was not begun.
    async fn sent(&self, message: &Message) -> Result<Channel, MountError> {
        while let Some(channel) = self.take() {
            if !channel.is_over() && channel.send(message).await.is_ok() {
                return Ok(channel);
            }
        }
        let channel = self.connect().await?;
        let sent = channel.send(message).await;
        sent.map_err(|parted| self.lost(&parted))?;
        Ok(channel)
    }

    async fn connect(&self) -> Result<Channel, MountError> {
        let mut channel = Channel::connect(&self.path)
            .await
            .map_err(|parted| self.absent(&parted))?;
        let theirs = channel.greet(Greeting::of(self.life)).await;
        let Greeting { version, life } = theirs.map_err(|parted| self.unheard(&parted))?;
        if version != VERSION {
            return Err(MountError::Unsupported {
                what: format!("the mounter at {}", self.path.display()),
                reason: format!(
                    "it speaks version {version} of the protocol and this host {VERSION}: run both from one image"
                ),
            });
        }
        *self.theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(life);
        Ok(channel)
    }

    fn take(&self) -> Option<Channel> {
        let mut kept = self.kept();
        kept.retain(|(since, _)| since.elapsed() < KEPT_FOR);
        Some(kept.pop()?.1)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Instant, Channel)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn absent(&self, why: &Disconnected) -> MountError {
        unreachable(format!(
            "cannot connect to {}: {why}; is `wasmount mounter` running, with this --socket and this user as --client-uid?",
            self.path.display()
        ))
    }

    fn unheard(&self, why: &Disconnected) -> MountError {
        unreachable(format!(
            "at {}: {why}; see the log of `wasmount mounter`, which says why it closes a connection",
            self.path.display()
        ))
    }

    fn lost(&self, why: &Disconnected) -> MountError {
        unreachable(format!(
            "at {}: {why}; the call may have been made or not, and may be repeated",
            self.path.display()
        ))
    }

    /// An answer to another question.
    fn confused(&self) -> MountError {
        self.lost(&Disconnected::Violation(Violation::Unreadable))
    }
}

fn unreachable(reason: String) -> MountError {
    MountError::Unreachable { reason }
}

/// The answer that belongs to a request.
macro_rules! asked {
    ($mounter:expr, $request:expr, $answer:pat => $value:expr) => {
        match $mounter.call($request).await? {
            $answer => Ok($value),
            _ => Err($mounter.confused()),
        }
    };
}

#[async_trait]
impl Mounter for SocketMounter {
    async fn staged(&self, query: StagedQuery) -> Result<Staged, MountError> {
        asked!(self, Request::Staged(query), Answer::Staged(staged) => staged)
    }

    async fn stage(&self, request: StageVolume) -> Result<(), MountError> {
        asked!(self, Request::Stage(request), Answer::Done => ())
    }

    async fn notes(&self, key: VolumeKey) -> Result<BTreeMap<String, String>, MountError> {
        asked!(self, Request::Notes(key), Answer::Notes(notes) => notes)
    }

    async fn unstage(&self, request: UnstageVolume) -> Result<(), MountError> {
        asked!(self, Request::Unstage(request), Answer::Done => ())
    }

    async fn publish(&self, request: PublishVolume) -> Result<(), MountError> {
        asked!(self, Request::Publish(request), Answer::Done => ())
    }

    async fn unpublish(&self, request: UnpublishVolume) -> Result<(), MountError> {
        asked!(self, Request::Unpublish(request), Answer::Done => ())
    }

    async fn stats(&self, request: StatVolume) -> Result<VolumeStats, MountError> {
        asked!(self, Request::Stats(request), Answer::Stats(stats) => stats)
    }

    async fn health(&self, query: HealthQuery) -> Result<Vec<Health>, MountError> {
        asked!(self, Request::Health(query), Answer::Health(findings) => findings)
    }

    async fn expand(&self, request: ExpandVolume) -> Result<u64, MountError> {
        asked!(self, Request::Expand(request), Answer::Expanded(bytes) => bytes)
    }

    async fn unsettled(&self, driver: DriverName) -> Result<Vec<VolumeId>, MountError> {
        asked!(self, Request::Unsettled(driver), Answer::Unsettled(volumes) => volumes)
    }

    async fn volumes_in_use(&self, driver: DriverName) -> Result<Vec<VolumeInUse>, MountError> {
        asked!(self, Request::VolumesInUse(driver), Answer::VolumesInUse(volumes) => volumes)
    }

    async fn unshared_roots(&self) -> Result<Vec<String>, MountError> {
        asked!(self, Request::UnsharedRoots, Answer::UnsharedRoots(roots) => roots)
    }

    async fn recover(&self, key: VolumeKey) -> Result<(), MountError> {
        asked!(self, Request::Recover(key), Answer::Done => ())
    }

    async fn pool(&self, driver: DriverName, call: PoolCall) -> Result<PoolReply, MountError> {
        asked!(self, Request::Pool(driver, call), Answer::Pool(reply) => reply)
    }
}
