//! Reports changes of a backend's versions to readiness, Events and metrics.
//!
//! It decides nothing; messages are the reconciler's own, prefixed with the driver's name if that is not clear.

use super::common::Common;
use super::kubernetes::Cluster;
use crate::metrics::Metrics;
use crate::readiness::{LOADING, each};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wasmount_core::driver::{Driver, Role};
use wasmount_core::names::DriverName;
use wasmount_core::status::{Draining, DriverStatus, VersionRecord};
use wasmount_core::text::short_digest;
use wasmount_kubernetes::{About, Events};
use wasmount_versions::{VersionEvent, VersionReconciler};

/// Between two Events of swaps. 10 s: for more frequent swaps there is the log; Events must not fill the API server.
const SWAPS_APART: Duration = Duration::from_secs(10);
/// The action of these Events.
const ACTION: &str = "Swapping";

type Happened = broadcast::Receiver<Arc<VersionEvent>>;

/// Starts the reports about one driver.
pub(super) fn start(
    reconciler: &Arc<VersionReconciler>,
    driver: &Driver,
    common: &Common,
    background: &mut JoinSet<()>,
) {
    let (name, cluster) = (driver.name(), &common.cluster);
    let (driver_name, readiness) = (name.clone(), common.readiness.clone());
    background.spawn(each(reconciler.watch(), move |status| {
        readiness.set_plugin(&driver_name, lacks_plugin(&status));
    }));
    let metrics = common.metrics.clone();
    background.spawn(count(reconciler.events(), name.clone(), metrics));
    let (events, about) = (cluster.events.clone(), about(driver, cluster));
    background.spawn(write_events(
        reconciler.events(),
        name.clone(),
        events,
        about,
    ));
}

/// Why no version serves; none: one does.
fn lacks_plugin(status: &DriverStatus) -> Option<String> {
    if status.version.is_some() {
        return None;
    }
    let refused = status.refused.as_ref();
    Some(refused.map_or_else(|| LOADING.to_owned(), |refused| refused.reason.clone()))
}

/// Counts the changes for the metrics.
async fn count(mut happened: Happened, driver: DriverName, metrics: Arc<Metrics>) {
    loop {
        match happened.recv().await {
            Ok(event) => metrics.count(&driver, &event),
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "changes of versions were not counted");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// The object of Events about a driver's versions: if every node would report the same about one object, each reports about its own node.
fn about(driver: &Driver, cluster: &Cluster) -> About {
    match driver.role() {
        Role::Node => cluster.node(),
        Role::All | Role::Controller => About::driver(driver.name().as_str()),
    }
}

/// Writes Events. The log has the reconciler's own lines.
async fn write_events(mut happened: Happened, driver: DriverName, events: Events, about: About) {
    let mut last_swap: Option<Instant> = None;
    loop {
        let event = match happened.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if let VersionEvent::Swapped(_) = event.as_ref() {
            if last_swap.is_some_and(|last| last.elapsed() < SWAPS_APART) {
                continue;
            }
            last_swap = Some(Instant::now());
        }
        let (is_warning, reason, note) = described(&event);
        let note = format!("{driver}: {note}");
        if is_warning {
            events.warn(&about, reason, ACTION, note).await;
        } else {
            events.inform(&about, reason, ACTION, note).await;
        }
    }
}

/// Whether the event is a warning, its reason and its note.
fn described(event: &VersionEvent) -> (bool, &'static str, String) {
    match event {
        VersionEvent::Swapped(outcome) => {
            let now = named(&outcome.now);
            let note = match outcome.before {
                Some(before) => format!("{now} serves in place of version {before}"),
                None => format!("{now} serves"),
            };
            (false, "PluginSwapped", note)
        }
        VersionEvent::Shared(outcome) => {
            let (now, percent) = (named(&outcome.now), outcome.share.unwrap_or_default());
            let note = format!("{now} serves {percent} % of the volumes");
            (false, "PluginShared", note)
        }
        VersionEvent::Refused(refused) => {
            let digest = refused.digest.as_deref();
            let digest = digest.map(|digest| format!(" ({})", short_digest(digest)));
            let (kind, reason) = (refused.kind.as_str(), &refused.reason);
            let digest = digest.unwrap_or_default();
            let note = format!("a version{digest} was refused ({kind}): {reason}");
            (true, "PluginVersionRefused", note)
        }
        VersionEvent::RolledBack {
            from,
            to,
            reason,
            by_itself,
        } => {
            let to = named(to);
            let note = format!("version {from} was rolled back, {to} serves: {reason}");
            (*by_itself, "PluginRolledBack", note)
        }
        VersionEvent::CannotRollBack { number, reason } => {
            let note = format!(
                "version {number} fails and could not be rolled back: {reason}; swap to a corrected one"
            );
            (true, "PluginCannotRollBack", note)
        }
        VersionEvent::StillDraining(Draining { number, calls }) => {
            let note = format!("version {number} was replaced and still has {calls} calls");
            (true, "PluginStillDraining", note)
        }
    }
}

/// A short description of a version.
fn named(version: &VersionRecord) -> String {
    let digest = short_digest(&version.digest);
    format!("version {} ({}, {digest})", version.number, version.plugin)
}
