//! The reports of one host: a small object for each backend, written only when it changes or as a rare heartbeat.
//!
//! Separate objects instead of a list in the status: no two hosts write the same object.

use super::rollout::state::RolloutPart;
use super::{API_VERSION, BackendObject, KIND, Phase, REPORT_KIND, RateLimit, reports};
use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::request::answered;
use jiff::Timestamp;
use kube::api::{Api, NotUsed, Object, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use wasmount_core::text::short_digest;

/// Label with the uid of the backend.
pub(super) const BACKEND_UID: &str = "wasmount.io/backend-uid";
/// Longest message and reason, in bytes: the limit of the definition.
const REASON_BYTES: usize = 1024;
/// Longest part of a backend's name in the name of a report, in bytes: with the hash the name stays below 253.
const NAME_BYTES: usize = 230;
/// The phase that is shown for a silent host.
const SILENT: &str = "Silent";
/// Hexadecimal digits of the hash: 64 bits, for some thousand hosts.
const HASH_DIGITS: usize = 16;
/// Between two heartbeats. 5 min: 17 writes a second of 5,000 nodes, beside 500 that their kubelets make for the same purpose.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5 * 60);

/// The state of one backend on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendReport {
    /// The uid of its object.
    #[serde(skip)]
    pub uid: String,
    /// The generation of that object.
    #[serde(rename = "observedGeneration", default)]
    pub generation: i64,
    /// Its phase.
    pub phase: Phase,
    /// The version of the plugin that serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What is wrong, or what the host waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who triggered the rollback, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_by: Option<RolledBackBy>,
    /// When the version that serves last failed a call here, to 10 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<Timestamp>,
    /// How many of its volumes are staged here.
    #[serde(default)]
    pub volumes: u64,
    /// Its part in the rollout, if the object has steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutPart>,
}

/// Who triggered a rollback on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolledBackBy {
    /// The host itself: the version failed too often.
    PluginFaults,
    /// An administrator of the host (`wasmount rollback`).
    Administrator,
    /// A value of another build that this one does not know.
    #[serde(other)]
    Unknown,
}

impl RolledBackBy {
    /// The reason of a condition.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::PluginFaults => "PluginFaults",
            Self::Administrator => "RolledBackByAdministrator",
            Self::Unknown => "Unknown",
        }
    }
}

/// The host that reports.
#[derive(Clone)]
pub struct Reporter {
    /// The API server.
    pub client: Client,
    /// The host's name: that of its Node, or of its pod.
    pub host: String,
    /// The host runs on a node.
    pub on_node: bool,
}

/// A report as an object.
pub(super) type ReportObject = Object<ReportSpec, NotUsed>;

/// A report and its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportSpec {
    pub(super) backend: String,
    pub(super) host: String,
    #[serde(default)]
    pub(super) on_node: bool,
    #[serde(default)]
    pub(super) seen: String,
    /// The digest as commands and `kubectl get` show it: a column cannot cut it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) short_digest: Option<String>,
    #[serde(flatten)]
    pub(super) report: BackendReport,
}

/// The report of one host, and whether the host is silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostReport<'a> {
    pub(super) spec: &'a ReportSpec,
    pub(super) silent: bool,
    /// It is silent, and its Node is there.
    pub(super) lost: bool,
}

impl<'a> HostReport<'a> {
    /// Of a host that reports as it should.
    pub(super) fn of(spec: &'a ReportSpec) -> Self {
        Self {
            spec,
            silent: false,
            lost: false,
        }
    }

    /// The phase that is shown.
    pub(super) fn phase(&self) -> &'static str {
        if self.silent {
            SILENT
        } else {
            self.spec.report.phase.name()
        }
    }

    /// Why the host is in that phase.
    pub(super) fn reason(&self) -> String {
        if self.silent {
            return "has not reported for a while: is the host running?".to_owned();
        }
        let phase = self.phase().to_owned();
        self.spec.report.reason.clone().unwrap_or(phase)
    }
}

/// Writes the reports; never returns.
pub async fn write_reports(
    reporter: Reporter,
    mut reports: watch::Receiver<BTreeMap<String, BackendReport>>,
    rate_limit: RateLimit,
) {
    let mut written: BTreeMap<String, BackendReport> = BTreeMap::new();
    let mut next_sign = Instant::now() + HEARTBEAT;
    let mut failures = 0_u32;
    loop {
        // Not only while nothing fails: one report that is rejected must not silence the others.
        if Instant::now() >= next_sign {
            written.clear();
            next_sign = Instant::now() + HEARTBEAT;
        }
        let current = reports.borrow_and_update().clone();
        written.retain(|name, _| current.contains_key(name));
        let mut failed = None;
        for (name, report) in &current {
            if written.get(name) == Some(report) {
                continue;
            }
            match reporter.write(name, report).await {
                Ok(()) => drop(written.insert(name.clone(), report.clone())),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            if failures == 0 {
                let reason = error.describe();
                tracing::warn!(reason, "StorageBackend status not reported: retrying");
            }
            failures = failures.saturating_add(1);
            sleep(rate_limit.backoff(failures)).await;
            continue;
        }
        if std::mem::take(&mut failures) > 0 {
            tracing::info!("StorageBackend status reports restored");
        }
        // The next write is not sooner, whatever changes.
        sleep(rate_limit.pause()).await;
        tokio::select! {
            changed = reports.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            () = sleep_until(next_sign) => {}
        }
        sleep(rate_limit.some()).await;
    }
}

impl Reporter {
    async fn write(&self, name: &str, report: &BackendReport) -> Result<(), KubernetesError> {
        let object = self.object(name, report);
        let name = object.name_any();
        let api = Api::<ReportObject>::all_with(self.client.clone(), &reports());
        // Forced: this host alone decides what it reports.
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        let applied = api.patch(&name, &parameters, &patch);
        answered(format!("apply {REPORT_KIND} {name}"), applied)
            .await
            .map(drop)
    }

    fn object(&self, backend: &str, report: &BackendReport) -> ReportObject {
        let spec = ReportSpec {
            backend: backend.to_owned(),
            host: self.host.clone(),
            on_node: self.on_node,
            seen: Timestamp::now().to_string(),
            short_digest: report
                .digest
                .as_deref()
                .map(|it| short_digest(it).to_owned()),
            report: BackendReport {
                version: report.version.clone().map(cut),
                reason: report.reason.clone().map(cut),
                ..report.clone()
            },
        };
        let mut object = ReportObject::new(&name(backend, &self.host), &reports(), spec);
        object.metadata.labels = Some([(BACKEND_UID.to_owned(), report.uid.clone())].into());
        let owner = json!([{ "apiVersion": API_VERSION, "kind": KIND, "name": backend, "uid": report.uid }]);
        object.metadata.owner_references = serde_json::from_value(owner).ok();
        object
    }
}

/// The name of a host's report: different for each pair.
pub(crate) fn name(backend: &str, host: &str) -> String {
    let mut hash = hex::encode(Sha256::digest(format!("{backend}\0{host}")));
    hash.truncate(HASH_DIGITS);
    let mut name = backend.to_owned();
    name.truncate(name.floor_char_boundary(NAME_BYTES));
    let name = name.trim_end_matches(['.', '-']);
    format!("{name}.{hash}")
}

/// A text that the definition accepts.
pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(REASON_BYTES));
    text
}

/// Whether the report is about this object.
pub(super) fn is_of(report: &ReportObject, object: &BackendObject) -> bool {
    let uid = object.uid();
    uid.is_some() && report.labels().get(BACKEND_UID) == uid.as_ref()
}

#[cfg(test)]
pub(super) mod tests;
