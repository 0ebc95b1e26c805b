//! The work of the elected host that summarises reports: it watches them, writes the status, and adds and removes the finalizer.
//!
//! Every host is a candidate. Without an elected host everything else continues: hosts serve and report.

use super::object::{DesiredBackend, Leaving, desired};
use super::report::{HEARTBEAT, ReportObject, ReportSpec, is_of};
use super::summary::{HostReport, Status, summary};
use super::watch::Objects;
use super::{API_VERSION, BackendObject, FINALIZER, KIND, Phase, RateLimit, StorageBackends};
use super::{backends, reports};
use crate::FIELD_MANAGER;
use crate::election::Election;
use crate::error::{KubernetesError, watch_failure};
use crate::guarded_patch::GuardedPatch;
use crate::request::answered;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Name of the lease; those of drivers begin otherwise (`wasmount-`).
const LEASE: &str = "wasmount.storagebackends";
/// Hexadecimal digits of a selector's hash in the name of a lease.
const HASH_DIGITS: usize = 8;
/// Reports of one page of the first listing: some 500 bytes each.
const LIST_PAGE: u32 = 500;
/// Between two checks for silent hosts, when nothing else happens.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a term ends.
const PAUSE: Duration = Duration::from_secs(5);
/// A host without a report for this long is silent. Three heartbeats, and the longest pause of the rate limit.
const SILENCE: Duration = Duration::from_secs(4 * HEARTBEAT.as_secs());
/// Reports of hosts that no longer exist, handled in one round: each costs two requests.
const SILENT_AT_ONCE: usize = 20;

/// The host that summarises.
#[derive(Clone)]
pub struct Summarising {
    /// The API server.
    pub client: Client,
    /// The host's name, for the lease.
    pub host: String,
    /// The namespace of the lease.
    pub namespace: String,
    /// Which backends these hosts serve: hosts with another selector elect another host.
    pub selector: Option<String>,
}

/// A report, and since when it is unchanged, by our own clock.
struct Known {
    report: ReportObject,
    since: Instant,
}

/// Writes statuses and finalizers from the reports of all hosts, for one term.
struct StatusWriter {
    client: Client,
    /// By the names of their objects.
    reports: BTreeMap<String, Known>,
    /// The reports of a listing under way.
    listing: BTreeMap<String, Known>,
    /// A listing was complete.
    listed: bool,
    /// The last error of each operation: logged once.
    logged: BTreeMap<String, String>,
}

/// The change of the finalizer.
#[derive(Debug, PartialEq, Eq)]
enum Finalizer {
    Leave,
    Add,
    Remove,
}

/// Is a candidate, and works while elected; never returns.
pub async fn summarise(who: Summarising, backends: &StorageBackends) {
    loop {
        if let Err(error) = elected(&who, backends).await {
            let reason = error.describe();
            tracing::warn!(
                reason,
                "this host does not write the status of StorageBackends"
            );
        }
        sleep(PAUSE).await;
    }
}

async fn elected(who: &Summarising, backends: &StorageBackends) -> Result<(), KubernetesError> {
    let rate_limit = backends.rate_limit();
    let pacing = rate_limit.clone();
    let election = Election::of_leases(
        who.client.clone(),
        &who.namespace,
        &who.host,
        vec![lease(who.selector.as_deref())],
        // Of thousands of hosts one is elected, and all others read the lease.
        move || pacing.pause(),
    );
    let mut leadership = election
        .win(|lease, by| {
            tracing::debug!(
                lease,
                by,
                "another host writes the status of StorageBackends"
            )
        })
        .await?;
    tracing::info!("this host writes the status of StorageBackends");
    tokio::select! {
        lost = leadership.lost() => lost.map_or(Ok(()), Err),
        () = work(who, backends, &rate_limit) => Ok(()),
    }
}

/// Works for one term; never returns.
async fn work(who: &Summarising, backends: &StorageBackends, rate_limit: &RateLimit) {
    let api = Api::<ReportObject>::all_with(who.client.clone(), &reports());
    let config = watcher::Config::default().page_size(LIST_PAGE);
    let events = watcher(api, config)
        .modify(|report| report.metadata.managed_fields = None)
        .default_backoff();
    let mut events = std::pin::pin!(events);
    let mut objects = backends.objects();
    let mut writer = StatusWriter::new(who.client.clone());
    let mut due = Instant::now() + CHECK_INTERVAL;
    let mut lost = false;
    loop {
        // Changes that arrive together are written together.
        let soon = Instant::now() + rate_limit.pause();
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    lost = false;
                    writer.take(event);
                    due = due.min(soon);
                }
                Some(Err(error)) => if !std::mem::replace(&mut lost, true) {
                    let reason = watch_failure(&error);
                    tracing::warn!(reason, "status reports of StorageBackends are not watched");
                },
                None => return std::future::pending().await,
            },
            changed = objects.changed() => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
                due = due.min(soon);
            }
            () = sleep_until(due) => {
                // A deletion that was decided from a part of the reports would leave volumes behind.
                if writer.listed {
                    let there = objects.borrow_and_update().clone();
                    writer.round(&there).await;
                }
                due = Instant::now() + CHECK_INTERVAL;
            }
        }
    }
}

impl StatusWriter {
    fn new(client: Client) -> Self {
        Self {
            client,
            reports: BTreeMap::new(),
            listing: BTreeMap::new(),
            listed: false,
            logged: BTreeMap::new(),
        }
    }

    fn take(&mut self, event: Event<ReportObject>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(report) => {
                let known = self.known(report);
                self.listing.insert(known.report.name_any(), known);
            }
            Event::InitDone => {
                self.reports = std::mem::take(&mut self.listing);
                self.listed = true;
            }
            Event::Apply(report) => {
                let known = self.known(report);
                self.reports.insert(known.report.name_any(), known);
            }
            Event::Delete(report) => drop(self.reports.remove(&report.name_any())),
        }
    }

    /// A report that is listed again unchanged keeps its time.
    fn known(&self, report: ReportObject) -> Known {
        let before = self.reports.get(&report.name_any());
        let same = before.filter(|it| it.report.resource_version() == report.resource_version());
        Known {
            since: same.map_or_else(Instant::now, |before| before.since),
            report,
        }
    }

    /// One round over all backends: writes each status that has changed, handles the finalizers, and deletes reports of hosts that no longer exist. A
    /// failed write is repeated in the next round.
    async fn round(&mut self, there: &Objects) {
        for (name, object) in there {
            let of_it = self.reports.values();
            let of_it = of_it.filter(|known| is_of(&known.report, object));
            let heard = of_it.map(|known| HostReport {
                spec: &known.report.spec,
                silent: is_silent(known),
            });
            let heard: Vec<_> = heard.collect();
            let read = desired(object, true);
            // First: a person who sees a status may delete the object, and deletion must wait for staged volumes.
            let change = finalizer(object, &read, &heard);
            if change != Finalizer::Leave {
                let done = self.finalize(object, change == Finalizer::Add).await;
                let what = format!("the finalizer of StorageBackend {name}");
                log_once(&mut self.logged, what, done);
            }
            if change == Finalizer::Remove {
                continue;
            }
            let mut before = status(object);
            let after = summary(&read, &heard, &before, Timestamp::now());
            // Conditions of other controllers are kept beside ours.
            let is_ours = |kind: &str| after.conditions.iter().any(|ours| ours.kind == kind);
            before.conditions.retain(|it| is_ours(&it.kind));
            if after != before {
                let written = self.write(name, &after).await;
                let what = format!("the status of StorageBackend {name}");
                log_once(&mut self.logged, what, written);
            }
        }
        let silent = self.reports.iter().filter(|(_, known)| is_silent(known));
        for (name, known) in silent.take(SILENT_AT_ONCE) {
            let done = self.delete_report(name, &known.report.spec).await;
            log_once(&mut self.logged, format!("the report {name}"), done);
        }
    }

    async fn write(&self, name: &str, status: &Status) -> Result<(), KubernetesError> {
        let object = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": { "name": name }, "status": status,
        });
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &backends());
        // Forced: a host of an earlier term may have written it.
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        let applied = api.patch_status(name, &parameters, &patch);
        answered(format!("apply the status of {KIND} {name}"), applied)
            .await
            .map(drop)
    }

    async fn finalize(&self, object: &BackendObject, add: bool) -> Result<(), KubernetesError> {
        let name = object.name_any();
        let mut finalizers = object.finalizers().to_vec();
        finalizers.retain(|it| it != FINALIZER);
        finalizers.extend(add.then(|| FINALIZER.to_owned()));
        let mut patch = GuardedPatch::of_version(&object.metadata);
        patch.add(["metadata", "finalizers"], json!(finalizers));
        let api = Api::<BackendObject>::all_with(self.client.clone(), &backends());
        let parameters = PatchParams::default();
        let patch = patch.into_patch();
        let patched = api.patch(&name, &parameters, &patch);
        match answered(format!("patch {KIND} {name}"), patched).await {
            // The watch reports the other change, and causes the next round.
            Err(error) if error.is_stale_write() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Deletes the report of a host that no longer has a Node, or never had one. A host that returns writes it again.
    async fn delete_report(&self, name: &str, spec: &ReportSpec) -> Result<(), KubernetesError> {
        if spec.on_node {
            let nodes = Api::<Node>::all(self.client.clone());
            let what = format!("read Node {}", spec.host);
            if answered(what, nodes.get_metadata_opt(&spec.host))
                .await?
                .is_some()
            {
                return Ok(());
            }
        }
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &reports());
        let parameters = DeleteParams::default();
        match answered(format!("delete {name}"), api.delete(name, &parameters)).await {
            Err(error) if error.is_stale_write() => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

fn log_once(
    logged: &mut BTreeMap<String, String>,
    what: String,
    outcome: Result<(), KubernetesError>,
) {
    let Err(error) = outcome else {
        logged.remove(&what);
        return;
    };
    let reason = error.describe();
    if logged.get(&what) != Some(&reason) {
        tracing::warn!(what, reason, "write failed: retrying");
        logged.insert(what, reason);
    }
}

fn is_silent(known: &Known) -> bool {
    known.since.elapsed() > SILENCE
}

/// The current status; one that cannot be parsed is written anew.
fn status(object: &BackendObject) -> Status {
    let there = object.status.as_ref();
    there
        .and_then(|status| Status::deserialize(status).ok())
        .unwrap_or_default()
}

fn finalizer(object: &BackendObject, read: &DesiredBackend, heard: &[HostReport<'_>]) -> Finalizer {
    let is_held = object.finalizers().iter().any(|it| it == FINALIZER);
    // A silent host may have volumes staged: only the end of its Node, or the annotation of a person, says otherwise.
    let unused = heard
        .iter()
        .all(|it| it.spec.report.phase == Phase::Removed);
    match read.leaving {
        None if !is_held => Finalizer::Add,
        Some(Leaving::AtOnce) if is_held => Finalizer::Remove,
        Some(Leaving::WhenUnused) if is_held && unused => Finalizer::Remove,
        _ => Finalizer::Leave,
    }
}

/// The name of the lease for the hosts of a selector.
pub(crate) fn lease(selector: Option<&str>) -> String {
    let Some(selector) = selector else {
        return LEASE.to_owned();
    };
    let mut hash = hex::encode(Sha256::digest(selector));
    hash.truncate(HASH_DIGITS);
    format!("{LEASE}.{hash}")
}

#[cfg(test)]
mod tests;
