//! The admin socket of a serving host: its path, and the handler of each route.
//!
//! A change that has begun continues if its client disconnects.

mod audit;
pub(super) mod messages;

use super::backends::{Backends, Removal, RemoveError, Seen, file_of};
use super::document_watch;
use crate::telemetry;
use audit::audited;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use wasmount_control::messages::{
    Delete, Done, Drain, Drained, History, HostStatus, LogLevel, Plugin, Rollback, Swap, Volumes,
};
use wasmount_control::{Peer, Refusal, RefusalKind, ServerLimits, paths, serve};
use wasmount_core::document::{PluginPlace, Reference, RegistryPlace, without_credentials};
use wasmount_core::names::DriverName;
use wasmount_core::text::chain;
use wasmount_socket::BoundSocket;
use wasmount_versions::{Desired, Outcome, RollbackRequest, ShareRequest, SwapRequest};

/// Concurrent changes. 8: each may occupy a connection of the socket for minutes, and read-only commands must still find a free one.
const CHANGES: usize = 8;
/// Concurrent drains. They have permits of their own: each may wait for hours, and nothing else must wait for them.
const DRAINS: usize = 8;
/// Reason that clients of a drained driver receive if the administrator gave none.
const DRAINED: &str = "an administrator has drained the driver";

type Answer<T> = Result<Json<T>, Refusal>;

/// State that the routes share.
#[derive(Clone)]
struct AdminState {
    backends: Arc<Backends>,
    changes: Arc<Semaphore>,
    drains: Arc<Semaphore>,
}

/// Serves the admin socket in the background. Without it the host still serves its drivers, and logs that.
pub(super) fn start(backends: &Arc<Backends>, background: &mut JoinSet<()>) {
    let socket = &backends.common().options.admin_socket;
    match BoundSocket::bind(socket) {
        Ok(bound) => {
            let state = AdminState {
                backends: backends.clone(),
                changes: Arc::new(Semaphore::new(CHANGES)),
                drains: Arc::new(Semaphore::new(DRAINS)),
            };
            background.spawn(run(bound, routes(state)));
        }
        Err(error) => {
            let error = chain(&error);
            tracing::error!(
                error,
                "there is no admin socket: `wasmount status` and other commands cannot reach this host"
            );
        }
    }
}

async fn run(bound: BoundSocket, routes: Router) {
    let (listener, file) = bound.into_parts();
    if let Err(error) = serve(listener, routes, ServerLimits::default()).await {
        tracing::error!(%error, socket = %file.path().display(), "the admin socket ended");
    }
    drop(file);
}

fn routes(state: AdminState) -> Router {
    Router::new()
        .route(paths::STATUS, get(status))
        .route(paths::LOG_LEVEL, get(log_level).post(set_log_level))
        .route(paths::HISTORY, get(history))
        .route(paths::VOLUMES, get(volumes))
        .route(paths::SWAP, post(swap))
        .route(paths::ROLLBACK, post(rollback))
        .route(paths::PAUSE, post(pause))
        .route(paths::RESUME, post(resume))
        .route(paths::DRAIN, post(drain))
        .route(paths::DELETE, post(delete))
        .fallback(async || {
            Refusal::new(
                RefusalKind::Malformed,
                "this host does not know the request: is the command newer than the host?",
            )
        })
        .with_state(state)
}

impl AdminState {
    fn driver(&self, name: &str) -> Result<Seen, Refusal> {
        let unknown = || {
            let all = self.backends.all();
            let known: Vec<_> = all.keys().map(DriverName::as_str).collect();
            let known = match known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            let message = format!("no driver {name} is served here; those that are: {known}");
            Refusal::new(RefusalKind::NotFound, message)
        };
        let name = DriverName::parse(name).map_err(|_| unknown())?;
        self.backends.seen(&name).ok_or_else(unknown)
    }

    /// A driver, and a permit for a change of it.
    fn change(&self, driver: &str) -> Result<(Seen, OwnedSemaphorePermit), Refusal> {
        let seen = self.driver(driver)?;
        let place = place(&self.changes, CHANGES, "changes")?;
        Ok((seen, place))
    }
}

fn place(places: &Arc<Semaphore>, most: usize, of: &str) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(places).try_acquire_owned().map_err(|_| {
        let message =
            format!("{most} {of} are running already; repeat the command when one has ended");
        Refusal::new(RefusalKind::Busy, message)
    })
}

async fn status(State(state): State<AdminState>) -> Json<HostStatus> {
    let report = state.backends.common().readiness.report();
    let all = state.backends.all();
    let counts = all.keys().map(|name| state.backends.volumes_in_use(name));
    let counts = futures::future::join_all(counts).await;
    let drivers = all.iter().zip(counts);
    let drivers = drivers.map(|((name, seen), volumes)| {
        let volumes = volumes.ok().map(|volumes| volumes.len() as u64);
        messages::driver(name, seen, &report, volumes)
    });
    let drivers = drivers.collect();
    let options = &state.backends.common().options;
    Json(messages::host(options, &report, drivers))
}

async fn log_level() -> Json<LogLevel> {
    let level = telemetry::levels().unwrap_or_default();
    Json(LogLevel { level })
}

async fn set_log_level(
    Extension(peer): Extension<Peer>,
    Json(LogLevel { level }): Json<LogLevel>,
) -> Answer<LogLevel> {
    let arguments = format!("level={level:?}");
    audited(peer, "log-level", None, arguments, async {
        let refused = |message| Refusal::new(RefusalKind::Malformed, message);
        telemetry::set_levels(level.parse().map_err(refused)?)
            .map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
        Ok(Json(LogLevel { level }))
    })
    .await
}

async fn history(State(state): State<AdminState>, Path(driver): Path<String>) -> Answer<History> {
    let seen = state.driver(&driver)?;
    let (versions, refusals) = (seen.reconciler.history(), seen.reconciler.refusals());
    Ok(Json(History {
        driver,
        versions,
        refusals,
    }))
}

async fn volumes(State(state): State<AdminState>, Path(driver): Path<String>) -> Answer<Volumes> {
    let seen = state.driver(&driver)?;
    let volumes = state
        .backends
        .volumes_in_use(seen.driver.name())
        .await
        .map_err(|reason| {
            let message = format!("the volumes in use are unknown: {reason}");
            Refusal::new(RefusalKind::Failed, message)
        })?;
    Ok(Json(Volumes {
        driver,
        volumes: volumes.into_iter().map(messages::volume).collect(),
    }))
}

async fn swap(
    State(state): State<AdminState>,
    Extension(peer): Extension<Peer>,
    Path(driver): Path<String>,
    Json(swap): Json<Swap>,
) -> Answer<Done> {
    let arguments = audit::of_swap(&swap);
    audited(peer, "swap", Some(&driver), arguments, async {
        let (seen, _change) = state.change(&driver)?;
        // A client that has just written the document must not race with the task that follows it.
        let file = file_of(&seen.desired.borrow().from).cloned();
        if let Some(file) = file {
            let followed = document_watch::apply(&state.backends, &file).await;
            followed.map_err(|reason| Refusal::new(RefusalKind::Refused, reason))?;
        }
        let with_plugin = |plugin| with_plugin(seen.desired.borrow().clone(), plugin);
        let request = SwapRequest {
            allow_service_change: swap.allow_service_change,
            desired: swap.plugin.map(with_plugin).transpose()?,
            share: swap.share.map(|share| ShareRequest {
                percent: share.percent,
                promote_after: share.promote_after_seconds.map(Duration::from_secs),
            }),
        };
        answered(seen.reconciler.swap(request).await)
    })
    .await
}

fn answered(outcome: Result<Outcome, wasmount_versions::Refusal>) -> Answer<Done> {
    let outcome = outcome.map_err(messages::refusal)?;
    Ok(Json(messages::done(outcome)))
}

/// The document with another component. Its signers still apply; its digest is that of the component that it names.
fn with_plugin(mut desired: Desired, plugin: Plugin) -> Result<Desired, Refusal> {
    let malformed = |message: String| Refusal::new(RefusalKind::Malformed, message);
    let source = &mut desired.document.plugin;
    source.digest = None;
    source.place = match plugin {
        Plugin::File(path) if path.starts_with('/') => PluginPlace::File(path.into()),
        Plugin::File(path) => return Err(malformed(format!("the path {path} is not absolute"))),
        Plugin::Reference(reference) => {
            let reference = Reference::parse(&reference).map_err(|invalid| {
                malformed(format!("{} {invalid}", without_credentials(&reference)))
            })?;
            // The registry is reached as the document says; the document's credentials are sent to the document's registry only.
            let (credentials, ca_file, plain_http) = match &source.place {
                PluginPlace::Registry(own) if own.reference.registry() == reference.registry() => {
                    (own.credentials.clone(), own.ca_file.clone(), own.plain_http)
                }
                _ => (None, None, false),
            };
            PluginPlace::Registry(RegistryPlace {
                reference,
                credentials,
                ca_file,
                plain_http,
            })
        }
    };
    Ok(desired)
}

async fn rollback(
    State(state): State<AdminState>,
    Extension(peer): Extension<Peer>,
    Path(driver): Path<String>,
    Json(rollback): Json<Rollback>,
) -> Answer<Done> {
    let arguments = format!("to={:?} from={:?}", rollback.to, rollback.from);
    audited(peer, "rollback", Some(&driver), arguments, async {
        let (seen, _change) = state.change(&driver)?;
        let Rollback { to, from } = rollback;
        let request = RollbackRequest { to, from };
        answered(seen.reconciler.rollback(request).await)
    })
    .await
}

async fn pause(
    State(state): State<AdminState>,
    Extension(peer): Extension<Peer>,
    Path(driver): Path<String>,
) -> Answer<Done> {
    audited(peer, "pause", Some(&driver), String::new(), async {
        let (seen, _change) = state.change(&driver)?;
        let was = seen.reconciler.status().paused;
        let paused = seen.reconciler.set_paused(true).await;
        paused.map_err(messages::refusal)?;
        let text = format!("{driver} keeps the version that serves until `wasmount resume`");
        Ok(Json(messages::done_with(text, !was, &seen)))
    })
    .await
}

async fn resume(
    State(state): State<AdminState>,
    Extension(peer): Extension<Peer>,
    Path(driver): Path<String>,
) -> Answer<Done> {
    audited(peer, "resume", Some(&driver), String::new(), async {
        let (seen, _change) = state.change(&driver)?;
        let status = seen.reconciler.status();
        let was = status.paused || status.drained.is_some();
        let resumed = async {
            seen.reconciler.undrain().await?;
            seen.reconciler.set_paused(false).await
        };
        resumed.await.map_err(messages::refusal)?;
        let text = match seen.reconciler.status().held {
            _ if seen.driver.is_leaving() => format!(
                "{driver} is being deleted and takes no new work; if the deletion is cancelled, it is not drained"
            ),
            None if seen.reconciler.status().share.is_some() => format!(
                "{driver} takes new work, and follows its document when the share of the new version has ended"
            ),
            None => format!("{driver} follows its document and takes new work"),
            Some(held) => format!(
                "{driver} takes new work, and stays at version {} ({}); `wasmount swap` has it follow its document",
                held.number, held.reason
            ),
        };
        Ok(Json(messages::done_with(text, was, &seen)))
    })
    .await
}

async fn drain(
    State(state): State<AdminState>,
    Extension(peer): Extension<Peer>,
    Path(driver): Path<String>,
    Json(drain): Json<Drain>,
) -> Answer<Drained> {
    let arguments = format!(
        "reason={:?} patience_seconds={}",
        drain.reason, drain.patience_seconds
    );
    audited(peer, "drain", Some(&driver), arguments, async {
        let seen = state.driver(&driver)?;
        let _change = place(&state.drains, DRAINS, "drains")?;
        let reason = drain.reason.unwrap_or_else(|| DRAINED.to_owned());
        let limit = Duration::from_secs(drain.patience_seconds);
        let drained = seen.reconciler.drain(reason, limit).await;
        let drained = drained.map_err(messages::refusal)?;
        let volumes = state.backends.volumes_in_use(seen.driver.name()).await;
        Ok(Json(Drained {
            calls_in_flight: drained as u64,
            volumes_in_use: volumes.ok().map(|volumes| volumes.len() as u64),
        }))
    })
    .await
}

async fn delete(
    State(state): State<AdminState>,
    Extension(peer): Extension<Peer>,
    Path(driver): Path<String>,
    Json(delete): Json<Delete>,
) -> Answer<Done> {
    let arguments = format!("force={}", delete.force);
    audited(peer, "delete", Some(&driver), arguments, async {
        let (seen, change) = state.change(&driver)?;
        let name = seen.driver.name().clone();
        let removal = match delete.force {
            true => Removal::Forced,
            false => Removal::IfUnused,
        };
        let served = seen.reconciler.status().version;
        let removed = state.backends.remove(&name, removal).await;
        drop(change);
        removed.map_err(|error| {
            let kind = match &error {
                RemoveError::Unknown { .. } => RefusalKind::NotFound,
                RemoveError::StillStaged { .. } => RefusalKind::InUse,
                RemoveError::Unknowable { .. } => RefusalKind::Failed,
            };
            Refusal::new(kind, chain(&error))
        })?;
        let file = file_of(&seen.desired.borrow().from).map(|file| file.display().to_string());
        let returns = |file| {
            format!(
                "--backend still names {file}: the driver returns when that document changes, or after a restart"
            )
        };
        Ok(Json(Done {
            said: format!("{driver} is no longer served; its records stay"),
            changed: true,
            version: served,
            warnings: file.map(returns).into_iter().collect(),
        }))
    })
    .await
}
