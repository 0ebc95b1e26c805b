//! What the status page shows: one view from the sources of `status`, `history`, `volumes` and the metrics. Lists are cut to what a person reads.

use super::backends::{Backends, Seen};
use super::control::messages;
use crate::metrics::{CallCounts, MethodCounts};
use crate::readiness::Report;
use crate::status_page::Source;
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use wasmount_control::messages::{
    DriverReport, Fault, HostStatus, PastRefusal, VersionRecord, Volume,
};
use wasmount_core::mounter::VolumeInUse;
use wasmount_core::names::DriverName;

/// Versions, rejections and volumes of a driver that are shown; the number of all volumes is shown, too.
const VERSIONS: usize = 10;
const REFUSALS: usize = 5;
const VOLUMES: usize = 50;

/// The host at one time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    at: Timestamp,
    /// Without its drivers, which are below with more.
    host: HostStatus,
    /// The upper bounds of durations, in seconds.
    bounds: Vec<f64>,
    drivers: Vec<DriverView>,
}

/// One driver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DriverView {
    #[serde(flatten)]
    report: DriverReport,
    history: Vec<VersionRecord>,
    refusals: Vec<PastRefusal>,
    volumes: Vec<Volume>,
    recent_faults: Vec<Fault>,
    /// By method.
    calls: BTreeMap<String, MethodCounts>,
}

/// Views of this host.
pub(super) fn source(backends: &Arc<Backends>) -> Source {
    let backends = backends.clone();
    Box::new(move || {
        let backends = backends.clone();
        Box::pin(async move {
            let view = view(&backends).await;
            serde_json::to_string(&view).unwrap_or_else(|error| {
                tracing::error!(%error, "the status page cannot be written as JSON");
                "{}".to_owned()
            })
        })
    })
}

async fn view(backends: &Backends) -> View {
    let common = backends.common();
    let report = common.readiness.report();
    let all = backends.all();
    let volumes = all.keys().map(|name| backends.volumes_in_use(name));
    let volumes = join_all(volumes).await;
    let CallCounts {
        bounds,
        mut methods,
    } = common.metrics.call_counts();
    let drivers = all.iter().zip(volumes).map(|((name, seen), volumes)| {
        let calls = methods.remove(name.as_str()).unwrap_or_default();
        driver(name, seen, &report, volumes.ok(), calls)
    });
    let drivers = drivers.collect();
    View {
        at: Timestamp::now(),
        host: messages::host(&common.options, &report, Vec::new()),
        bounds,
        drivers,
    }
}

fn driver(
    name: &DriverName,
    seen: &Seen,
    report: &Report,
    volumes: Option<Vec<VolumeInUse>>,
    calls: BTreeMap<String, MethodCounts>,
) -> DriverView {
    let count = volumes.as_ref().map(|volumes| volumes.len() as u64);
    let volumes = volumes.into_iter().flatten().take(VOLUMES);
    let faults = seen.driver.recent_faults().into_iter();
    let history = seen.reconciler.history().into_iter();
    let refusals = seen.reconciler.refusals().into_iter();
    DriverView {
        report: messages::driver(name, seen, report, count),
        history: history.take(VERSIONS).collect(),
        refusals: refusals.take(REFUSALS).collect(),
        volumes: volumes.map(messages::volume).collect(),
        recent_faults: faults.map(messages::fault).collect(),
        calls,
    }
}
