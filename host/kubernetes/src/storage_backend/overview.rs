//! An overview of all backends of a cluster for a person, from the objects and the reports of all hosts: which versions serve on how many hosts,
//! which hosts are behind, and which are in trouble. It needs no elected host, and writes nothing.

use super::object::{DesiredBackend, desired};
use super::report::{BACKEND_UID, HostReport, ReportObject};
use super::status_writer::SILENCE;
use super::summarise::LIST_PAGE;
use super::summary::{Hosts, NAMED, Status, Version, summary};
use super::{BackendObject, KIND, Phase, REPORT_KIND, backends, reports};
use crate::error::KubernetesError;
use crate::request::answered;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// How long a fault is shown. 1 hour: what an administrator who was called looks at.
const RECENT_FAULT: SignedDuration = SignedDuration::from_hours(1);

/// All backends of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Sorted by name.
    pub backends: Vec<BackendOverview>,
}

/// One backend on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendOverview {
    /// The name of its object.
    pub backend: String,
    /// Its driver; none: the object is invalid.
    pub driver: Option<String>,
    /// The generation of the object.
    pub generation: i64,
    /// `2/3`: how many of its hosts serve some version of it.
    pub ready: String,
    /// How many hosts there are.
    pub hosts: Hosts,
    /// Why it is not ready; none: it is.
    pub not_ready: Option<String>,
    /// What serves, by number of hosts; ten at most.
    pub versions: Vec<Version>,
    /// Hosts that do not serve what the object means, or not what most others serve, without a problem of their own.
    pub behind: HostNotes,
    /// Hosts with a problem.
    pub troubled: HostNotes,
    /// Hosts on which the plugin has failed a call within the last hour.
    pub faulty: HostNotes,
}

/// Hosts for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostNotes {
    /// How many.
    pub total: u64,
    /// The first ten by name.
    pub named: Vec<HostNote>,
}

/// A host, and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostNote {
    /// The host.
    pub host: String,
    /// Its phase.
    pub phase: String,
    /// The version of the plugin that serves there.
    pub version: Option<String>,
    /// Its digest.
    pub digest: Option<String>,
    /// What is wrong, or what is missing.
    pub reason: String,
}

/// Reads all objects and reports, in pages.
pub async fn overview(client: Client) -> Result<Overview, KubernetesError> {
    let objects = Api::<BackendObject>::all_with(client.clone(), &backends());
    let objects = listed(&objects, KIND).await?;
    let of_hosts = Api::<ReportObject>::all_with(client, &reports());
    let of_hosts = listed(&of_hosts, REPORT_KIND).await?;
    Ok(made(&objects, &of_hosts, Timestamp::now()))
}

async fn listed<K>(api: &Api<K>, kind: &str) -> Result<Vec<K>, KubernetesError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut all = Vec::new();
    let mut page = ListParams::default().limit(LIST_PAGE);
    loop {
        let list = answered(format!("list {kind} objects"), api.list(&page)).await;
        let list = list.map_err(|error| match error.rejection() {
            Some(status) if status.code == 404 => KubernetesError::NoBackends,
            _ => error,
        })?;
        all.extend(list.items);
        match list.metadata.continue_ {
            Some(token) if !token.is_empty() => page.continue_token = Some(token),
            _ => return Ok(all),
        }
    }
}

fn made(objects: &[BackendObject], reports: &[ReportObject], now: Timestamp) -> Overview {
    let mut by_backend: BTreeMap<&str, Vec<HostReport<'_>>> = BTreeMap::new();
    for report in reports {
        if let Some(uid) = report.labels().get(BACKEND_UID) {
            by_backend.entry(uid).or_default().push(HostReport {
                spec: &report.spec,
                silent: is_silent(&report.spec.seen, now),
                lost: false,
            });
        }
    }
    let mut backends: Vec<_> = objects
        .iter()
        .map(|object| {
            let uid = object.uid().unwrap_or_default();
            let heard = by_backend.remove(uid.as_str()).unwrap_or_default();
            one(&desired(object, true), &heard, now)
        })
        .collect();
    backends.sort_by(|one, other| one.backend.cmp(&other.backend));
    Overview { backends }
}

/// By the host's clock and ours: a host whose clock is ahead is not silent, and a time of another build that is not one is not judged.
fn is_silent(seen: &str, now: Timestamp) -> bool {
    seen.parse().is_ok_and(|seen: Timestamp| {
        now.duration_since(seen).as_secs() > SILENCE.as_secs().cast_signed()
    })
}

fn one(backend: &DesiredBackend, reports: &[HostReport<'_>], now: Timestamp) -> BackendOverview {
    let Status {
        ready,
        hosts,
        versions,
        conditions,
        ..
    } = summary(backend, reports, &Status::default(), None, now);
    let most = versions.first().map(|it| it.digest.as_str());
    let behind = reports
        .iter()
        .filter(|it| !it.is_trouble())
        .filter_map(|it| Some(note(it, lag(it, backend, most)?)));
    let troubled = reports.iter().filter(|it| it.is_trouble());
    let faulty = reports
        .iter()
        .filter_map(|it| Some(note(it, recent_fault(it, now)?)));
    let not_ready = conditions
        .into_iter()
        .find(|it| it.kind == "Ready" && it.status != "True");
    BackendOverview {
        backend: backend.name.clone(),
        driver: backend
            .document
            .as_ref()
            .ok()
            .map(|it| it.driver_name.to_string()),
        generation: backend.generation,
        ready,
        hosts,
        not_ready: not_ready.map(|it| it.message),
        behind: notes(behind),
        troubled: notes(troubled.map(|it| note(it, it.reason()))),
        faulty: notes(faulty),
        versions,
    }
}

/// What a host without a problem lacks; none: nothing.
fn lag(host: &HostReport<'_>, backend: &DesiredBackend, most: Option<&str>) -> Option<String> {
    let report = &host.spec.report;
    if backend.leaving.is_some() {
        return match (report.phase, report.volumes) {
            (Phase::Removed, _) => None,
            (_, 0) => Some("has not removed it yet".to_owned()),
            (_, volumes) => Some(format!("{volumes} of its volumes are staged")),
        };
    }
    let (serves, desired) = (report.generation, backend.generation);
    if serves != desired {
        return Some(format!(
            "is at generation {serves}, the object at {desired}"
        ));
    }
    if report.phase != Phase::Serving {
        return Some(host.reason());
    }
    let differs = report.digest.as_deref() != most;
    differs.then(|| "serves another component than most hosts".to_owned())
}

/// The last fault of the plugin there, if an administrator should still know of it.
fn recent_fault(host: &HostReport<'_>, now: Timestamp) -> Option<String> {
    let at = host.spec.report.last_fault?;
    let is_recent = now.duration_since(at) <= RECENT_FAULT;
    is_recent.then(|| format!("the plugin last failed a call at {at}"))
}

fn note(host: &HostReport<'_>, reason: String) -> HostNote {
    let report = &host.spec.report;
    HostNote {
        host: host.spec.host.clone(),
        phase: host.phase().to_owned(),
        version: report.version.clone(),
        digest: report.digest.clone(),
        reason,
    }
}

fn notes(all: impl Iterator<Item = HostNote>) -> HostNotes {
    let mut named: Vec<_> = all.collect();
    let total = named.len() as u64;
    named.sort_by(|one, other| one.host.cmp(&other.host));
    named.truncate(NAMED);
    HostNotes { total, named }
}

#[cfg(test)]
mod tests;
