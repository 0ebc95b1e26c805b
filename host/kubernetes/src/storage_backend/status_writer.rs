//! The status that the elected host writes: from the objects and all reports, round by round; beside it finalizers, and reports of hosts that are no
//! more.

use super::object::{DesiredBackend, Leaving, desired};
use super::report::{HEARTBEAT, HostReport, ReportObject, ReportSpec, is_of};
use super::rollout::decision::{Situation, next_step};
use super::rollout::state::{RolloutPhase, RolloutStatus, plan};
use super::summary::{Status, summary};
use super::watch::{Held, Objects};
use super::{API_VERSION, BackendObject, FINALIZER, KIND, Phase, backends, reports};
use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::events::{About, Events};
use crate::guarded_patch::GuardedPatch;
use crate::request::answered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Between two checks for silent hosts, when nothing else happens.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// A host without a report for this long is silent. Three heartbeats, and the longest pause of the rate limit.
pub(super) const SILENCE: Duration = Duration::from_secs(4 * HEARTBEAT.as_secs());
/// Reports of hosts that no longer exist, handled in one round: each costs two requests.
const SILENT_AT_ONCE: usize = 20;

/// A report, and since when it is unchanged, by our own clock.
struct Known {
    report: ReportObject,
    since: Instant,
    /// It is silent, and its Node was there at this time.
    node_seen: Option<Instant>,
}

/// Writes statuses and finalizers from the reports of all hosts, for one term.
pub(super) struct StatusWriter {
    client: Client,
    events: Events,
    /// By the names of their objects.
    reports: BTreeMap<String, Known>,
    /// The reports of a listing under way.
    listing: BTreeMap<String, Known>,
    /// A listing was complete.
    pub(super) listed: bool,
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

impl StatusWriter {
    pub(super) fn new(client: Client, host: String) -> Self {
        Self {
            events: Events::new(Some(client.clone()), host),
            client,
            reports: BTreeMap::new(),
            listing: BTreeMap::new(),
            listed: false,
            logged: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, event: Event<ReportObject>) {
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
            node_seen: same.and_then(|before| before.node_seen),
            report,
        }
    }

    /// One round over all backends: writes each status that has changed, handles the finalizers, and deletes reports of hosts that no longer exist. A
    /// failed write is repeated in the next round. Returns when a rollout goes on by itself at the latest.
    pub(super) async fn round(&mut self, there: &Objects, held: &Held) -> Duration {
        let mut wait = CHECK_INTERVAL;
        // First: a host whose Node is gone says nothing about a rollout.
        self.check_silent().await;
        for (name, object) in there {
            let of_it = self.reports.values();
            let of_it = of_it.filter(|known| is_of(&known.report, object));
            let heard = of_it.map(|known| HostReport {
                spec: &known.report.spec,
                silent: is_silent(known),
                lost: is_silent(known) && known.node_seen.is_some(),
            });
            let heard: Vec<_> = heard.collect();
            let read = desired(object, true);
            // First: a person who sees a status may delete the object, and deletion must wait for staged volumes.
            let change = finalizer(object, &read, &heard);
            if change != Finalizer::Leave {
                let done = self.finalize(object, change == Finalizer::Add).await;
                // The object is another one then: the watch reports it, and causes the next round.
                let is_over = done.is_ok() || change == Finalizer::Remove;
                let what = format!("the finalizer of StorageBackend {name}");
                log_once(&mut self.logged, what, done);
                if is_over {
                    continue;
                }
            }
            let mut before = status(object);
            let now = Timestamp::now();
            let rollout = match read.leaving {
                Some(_) => before.rollout.clone(),
                None => {
                    let held = held.get(name).filter(|(uid, _)| *uid == object.uid());
                    let situation = Situation {
                        object,
                        invalid: read.document.as_ref().err().map(String::as_str),
                        held: held.map(|(_, spec)| spec),
                        hosts: &heard,
                        now,
                    };
                    situation.decide()
                }
            };
            let next = rollout.as_ref().zip(plan(&object.spec));
            let next = next.and_then(|(rollout, plan)| next_step(&plan, rollout));
            let until = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
            wait = wait.min(until.unwrap_or(CHECK_INTERVAL));
            let after = summary(&read, &heard, &before, rollout, now);
            // Conditions of other controllers are kept beside ours.
            let is_ours = |kind: &str| after.conditions.iter().any(|ours| ours.kind == kind);
            before.conditions.retain(|it| is_ours(&it.kind));
            if after != before {
                let written = self.write(object, &after).await;
                if let (Ok(true), Some(rollout)) = (&written, &after.rollout) {
                    self.tell(object, before.rollout.as_ref(), rollout).await;
                }
                let what = format!("the status of StorageBackend {name}");
                log_once(&mut self.logged, what, written.map(drop));
            }
        }
        wait
    }

    /// Looks for the Nodes of silent hosts, those first that were not looked for before or longest ago.
    async fn check_silent(&mut self) {
        let is_due = |at: Instant| at.elapsed() >= CHECK_INTERVAL;
        let silent = self.reports.iter().filter(|(_, known)| is_silent(known));
        let mut silent: Vec<_> = silent
            .filter(|(_, known)| known.node_seen.is_none_or(is_due))
            .map(|(name, known)| (known.node_seen, name.clone(), known.report.spec.clone()))
            .collect();
        silent.sort_by_key(|(seen, ..)| *seen);
        for (_, name, spec) in silent.into_iter().take(SILENT_AT_ONCE) {
            let done = self.delete_report(&name, &spec).await;
            match &done {
                Ok(true) => drop(self.reports.remove(&name)),
                Ok(false) => {
                    if let Some(known) = self.reports.get_mut(&name) {
                        known.node_seen = Some(Instant::now());
                    }
                }
                Err(_) => {}
            }
            let what = format!("the report {name}");
            log_once(&mut self.logged, what, done.map(drop));
        }
    }

    /// Tells people how a rollout goes on.
    async fn tell(
        &self,
        object: &BackendObject,
        before: Option<&RolloutStatus>,
        after: &RolloutStatus,
    ) {
        let stage = |it: &RolloutStatus| (it.candidate.clone(), it.attempt, it.step, it.phase);
        let is_first = before.is_none() && after.phase == RolloutPhase::Promoted;
        if is_first || before.map(stage) == Some(stage(after)) {
            return;
        }
        let about = About::object(API_VERSION, KIND, None, object.name_any(), object.uid());
        let (reason, note) = (after.phase.event(), after.described());
        match after.phase {
            RolloutPhase::Failed => self.events.warn(&about, reason, "Rollout", note).await,
            _ => self.events.inform(&about, reason, "Rollout", note).await,
        };
    }

    /// Writes the status that was decided from this object; false: the object has changed, and the watch causes the next round.
    async fn write(
        &self,
        object: &BackendObject,
        status: &Status,
    ) -> Result<bool, KubernetesError> {
        let name = &object.name_any();
        // With the version: what was decided from an older state must not replace a newer one.
        let object = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": { "name": name, "resourceVersion": object.resource_version() },
            "status": status,
        });
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &backends());
        // Forced: a host of an earlier term may have written it.
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        let applied = api.patch_status(name, &parameters, &patch);
        match answered(format!("apply the status of {KIND} {name}"), applied).await {
            Err(error) if error.is_conflict() => Ok(false),
            outcome => outcome.map(|_| true),
        }
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

    /// Deletes the report of a host that no longer has a Node, or never had one; false: the Node is there. A host that returns writes it again.
    async fn delete_report(&self, name: &str, spec: &ReportSpec) -> Result<bool, KubernetesError> {
        if spec.on_node {
            let nodes = Api::<Node>::all(self.client.clone());
            let what = format!("read Node {}", spec.host);
            let node = answered(what, nodes.get_metadata_opt(&spec.host)).await?;
            if node.is_some() {
                return Ok(false);
            }
        }
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &reports());
        let parameters = DeleteParams::default();
        match answered(format!("delete {name}"), api.delete(name, &parameters)).await {
            Err(error) if error.is_stale_write() => Ok(true),
            outcome => outcome.map(|_| true),
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

#[cfg(test)]
mod tests;
