//! Registers a driver with kubelet and keeps it registered: one task for each driver. kubelet (up to 1.35) asks once: after a refusal, or when the
//! socket was removed, the socket must appear again.
//!
//! ```text
//! NodeGetInfo is known ─▶ bind ─▶ kubelet asks ─▶ taken ─▶ until something happens ─┐
//!                          ▲                └──▶ refused ──▶ unlink ─▶ pause ◀──────┘
//!                          └─────────────────────────────────────────────┘
//! ```
//!
//! `csi_node` watches what kubelet writes about the driver later (CSINode).

mod binding;
mod directory_watch;
mod error;

use crate::events::{About, Events};
use crate::status::{Beginning, Gap, GapBegin, RegistrationStatus};
use crate::wire::pluginregistration::PluginInfo;
use binding::{Binding, Message};
use directory_watch::DirectoryWatch;
use error::{Pauses, RegistrationError};
use futures::FutureExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use wasmount_core::driver::{Driver, LastService};
use wasmount_core::error::Error;
use wasmount_core::names::DriverName;
use wasmount_socket::SocketState;

/// Created by every kubelet at its start, in its root directory, and watched from then on.
const REGISTRY: &str = "plugins_registry";

/// The plugin type of a CSI driver in kubelet.
const PLUGIN_TYPE: &str = "CSIPlugin";

/// The version of node-driver-registrar. kubelet accepts any 1.x, and rejects a name that is registered with an equal or higher one.
const SUPPORTED_VERSION: &str = "1.0.0";

/// How long kubelet may be silent before the socket is removed and bound again. 5 min: longer than its 2 min for NodeGetInfo, and than its longest
/// back-off (2 min 2 s), so a kubelet that is still working on the driver is not disturbed.
const SILENCE: Duration = Duration::from_secs(300);

/// The driver to register, and the paths.
#[derive(Debug, Clone)]
pub struct PluginRegistration {
    /// The driver's name.
    pub driver: DriverName,
    /// kubelet's directory: [`registry`].
    pub registry: PathBuf,
    /// The driver's CSI socket, by the path that kubelet knows.
    pub endpoint: PathBuf,
}

/// Keeps one driver registered.
pub struct Registrar {
    registration: PluginRegistration,
    socket: PathBuf,
    node: About,
    events: Events,
    renewal: Notify,
    status: watch::Sender<RegistrationStatus>,
    /// A problem was reported, and its end was not yet.
    reported: AtomicBool,
}

/// kubelet's directory of registration sockets.
pub fn registry(kubelet_dir: &Path) -> PathBuf {
    kubelet_dir.join(REGISTRY)
}

/// The path at which kubelet finds a driver. Not `-reg.sock`, as node-driver-registrar has it: kubelet's gRPC sends the percent-encoded path as
/// HTTP/2's `:authority`, in which a `%` may only occur before an `@` (RFC 3986 §3.2: in the user information), and `h2` resets the stream otherwise.
pub fn registration_socket(registry: &Path, driver: &DriverName) -> PathBuf {
    registry.join(format!("{driver}@reg.sock"))
}

impl Registrar {
    /// Creates no file yet. Events are written about `node`.
    pub fn new(registration: PluginRegistration, node: About, events: Events) -> Arc<Self> {
        let socket = registration_socket(&registration.registry, &registration.driver);
        let status = RegistrationStatus {
            reason: Some("its plugin has not answered node-info yet".to_owned()),
            ..RegistrationStatus::default()
        };
        Arc::new(Self {
            registration,
            socket,
            node,
            events,
            renewal: Notify::new(),
            status: watch::Sender::new(status),
            reported: AtomicBool::new(false),
        })
    }

    /// The status, now and later.
    pub fn status(&self) -> watch::Receiver<RegistrationStatus> {
        self.status.subscribe()
    }

    /// Makes kubelet query it again, which restores what CSINode lacks. kubelet does not know the driver for a moment. If the socket is not bound, it
    /// will be, and nothing more is done.
    pub fn renew(&self) {
        self.renewal.notify_one();
    }

    /// Registers until `closed`, then removes the socket; cancel it when the CSI socket has served its last call. It waits until NodeGetInfo has an
    /// answer ([`Driver::watch_node_info`]): kubelet calls it at once, and would reject a driver that does not answer.
    pub async fn run(&self, driver: &Arc<Driver>, beginning: Beginning, closed: CancellationToken) {
        let mut answers = driver.node_info_answers();
        tokio::select! {
            _ = answers.wait_for(Option::is_some) => {}
            () = closed.cancelled() => return,
        }
        let last = logged(driver, driver.last_service().await).flatten();
        logged(driver, driver.note_service(LastService::Open).await);
        self.stay(Gap::start(last, beginning), &closed).await;
        let stopped = LastService::Until(SystemTime::now());
        logged(driver, driver.note_service(stopped).await);
    }

    async fn stay(&self, mut since: Option<GapBegin>, closed: &CancellationToken) {
        let mut pauses = Pauses::default();
        let mut bound_before = false;
        loop {
            let mut taken_at = None;
            let info = self.registration.plugin_info();
            let error = match Binding::make(&self.socket, info) {
                Ok(binding) => {
                    self.is_bound(bound_before);
                    bound_before = true;
                    tokio::select! {
                        error = self.watch(binding, &mut since, &mut taken_at) => error,
                        () = closed.cancelled() => return self.ended(),
                    }
                }
                Err(error) => error,
            };
            let lasted = taken_at.map(|taken: Instant| taken.elapsed());
            let pause = pauses.after(&error, lasted.unwrap_or_default());
            self.say(&error, pause);
            tokio::select! {
                () = sleep(pause) => {}
                () = closed.cancelled() => return self.ended(),
            }
        }
    }

    /// Returns when the socket must be bound again.
    async fn watch(
        &self,
        mut binding: Binding,
        since: &mut Option<GapBegin>,
        taken_at: &mut Option<Instant>,
    ) -> RegistrationError {
        let directory = DirectoryWatch::begin(&self.registration.registry);
        let silent_at = Instant::now() + SILENCE;
        // This binding already does what was requested.
        let _ = self.renewal.notified().now_or_never();
        loop {
            // First, for changes before the watch began.
            match binding.file.state() {
                Ok(SocketState::Gone) => return RegistrationError::Removed,
                Ok(SocketState::Anothers) => return RegistrationError::Replaced,
                Ok(SocketState::Ours) => {}
                Err(error) => {
                    return RegistrationError::NotBound(format!(
                        "its registration socket cannot be examined: {error}"
                    ));
                }
            }
            tokio::select! {
                message = binding.messages.recv() => match message {
                    Some(Message::InfoRequested) => self.info_requested(),
                    Some(Message::Registered) => {
                        taken_at.get_or_insert_with(Instant::now);
                        self.is_registered(since.take());
                    }
                    Some(Message::Refused(reason)) => return RegistrationError::Refused(reason),
                    None => return RegistrationError::NotBound("its registration socket is no longer served".to_owned()),
                },
                () = directory.may_have_changed() => {}
                () = self.renewal.notified() => return RegistrationError::Renewed,
                () = sleep_until(silent_at), if taken_at.is_none() => return RegistrationError::Silent,
            }
        }
    }

    fn is_bound(&self, again: bool) {
        tracing::info!(driver = %self.registration.driver, socket = %self.socket.display(), "waiting for kubelet to register the driver");
        self.status.send_modify(|status| {
            status.rebinds += u64::from(again);
            // A problem that was reported is over only when kubelet says so.
            if !again && !self.reported.load(Ordering::Relaxed) {
                status.reason =
                    Some("kubelet has not connected to the registration socket yet".to_owned());
            }
        });
    }

    fn info_requested(&self) {
        tracing::debug!(driver = %self.registration.driver, "kubelet requested plugin info");
        self.status.send_modify(|status| {
            if !status.registered && status.refusals == 0 && status.rebinds == 0 {
                status.reason = Some(
                    "kubelet requested plugin info and has not registered the driver yet"
                        .to_owned(),
                );
            }
        });
    }

    fn is_registered(&self, since: Option<GapBegin>) {
        let gap = since.map(|since| Gap::until(since, SystemTime::now()));
        self.status.send_modify(|status| {
            status.registered = true;
            status.registrations += 1;
            status.reason = None;
            status.gap = status.gap.or(gap);
        });
        let driver = &self.registration.driver;
        match gap {
            Some(Gap { length, from }) => tracing::info!(
                %driver, gap_ms = length.as_millis(), ?from,
                "kubelet registered the driver after a gap without a host"
            ),
            None => tracing::info!(%driver, "kubelet registered the driver"),
        }
        if self.reported.swap(false, Ordering::Relaxed) {
            let (events, node) = (self.events.clone(), self.node.clone());
            let (reason, action) = ("DriverRegistered", "Register");
            let note = format!("kubelet registered the CSI driver {driver}");
            tokio::spawn(async move { events.inform(&node, reason, action, note).await });
        }
    }

    fn say(&self, error: &RegistrationError, pause: Duration) {
        let driver = &self.registration.driver;
        let reason = error.to_string();
        self.status.send_modify(|status| {
            status.registered = false;
            status.refusals += u64::from(matches!(error, RegistrationError::Refused(_)));
            status.reason = Some(reason.clone());
        });
        // Last, so that a reader of the log line finds the status up to date.
        tracing::warn!(%driver, %reason, retry_seconds = pause.as_secs(), "the driver is not registered with kubelet");
        if let Some(event) = error.event() {
            self.reported.store(true, Ordering::Relaxed);
            let note = format!("the CSI driver {driver} is not registered: {reason}");
            let (events, node) = (self.events.clone(), self.node.clone());
            // In another task: kubelet does not wait for the API server.
            tokio::spawn(async move { events.warn(&node, event, "Register", note).await });
        }
    }

    fn ended(&self) {
        self.status.send_modify(|status| {
            status.registered = false;
            status.reason = Some("the host is stopping".to_owned());
        });
    }
}

impl PluginRegistration {
    fn plugin_info(&self) -> PluginInfo {
        PluginInfo {
            r#type: PLUGIN_TYPE.to_owned(),
            name: self.driver.to_string(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: vec![SUPPORTED_VERSION.to_owned()],
        }
    }
}

/// Logs an error: only the metric of the next start is lost.
fn logged<T>(driver: &Driver, outcome: Result<T, Error>) -> Option<T> {
    let log = |error: &Error| {
        tracing::warn!(driver = %driver.name(), %error, "the duration of a gap will not be known");
    };
    outcome.inspect_err(log).ok()
}

#[cfg(test)]
mod tests;
