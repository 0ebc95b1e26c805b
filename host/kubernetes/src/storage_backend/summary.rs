//! The status of a backend: summarises all reports as counts, some names, four conditions.
//!
//! It sends no request and writes nothing.

use super::object::DesiredBackend;
use super::report::{HostReport, cut};
use super::rollout::state::{RolloutPhase, RolloutStatus};
use super::{Phase, RolledBackBy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use wasmount_core::text::short_digest;

/// Most hosts and versions that are named: one screen.
pub(super) const NAMED: usize = 10;

/// The `status` of a StorageBackend object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) observed_generation: i64,
    /// The version of the plugin that most hosts serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// The first digits of its digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// `2/3`.
    pub(super) ready: String,
    pub(super) hosts: Hosts,
    pub(super) phases: BTreeMap<String, u64>,
    pub(super) versions: Vec<Version>,
    pub(super) troubled: Vec<Troubled>,
    pub(super) conditions: Vec<Condition>,
    /// The rollout of the last change, if the object has steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rollout: Option<RolloutStatus>,
}

/// Numbers of hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hosts {
    /// Those that have the backend.
    pub total: u64,
    /// Those that serve exactly this generation of it.
    pub current: u64,
}

/// A version that serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Version {
    /// `sha256:..` of the component.
    pub digest: String,
    /// `plugin-info.version`.
    pub version: String,
    /// How many hosts serve it.
    pub hosts: u64,
}

/// A host with a problem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Troubled {
    pub(super) host: String,
    pub(super) phase: String,
    pub(super) reason: String,
}

/// One condition (Kubernetes API conventions, "Typical status properties").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) observed_generation: i64,
    pub(super) last_transition_time: Timestamp,
}

impl HostReport<'_> {
    pub(super) fn is_trouble(&self) -> bool {
        self.silent || self.spec.report.phase.is_trouble()
    }

    /// Some version of the plugin serves there.
    fn serves(&self) -> bool {
        !self.silent
            && match self.spec.report.phase {
                Phase::Serving | Phase::RolledBack => true,
                // An earlier version may serve besides a problem or a change under way.
                Phase::Loading | Phase::Refused | Phase::Waiting | Phase::Paused => {
                    self.spec.report.digest.is_some()
                }
                Phase::Draining
                | Phase::Invalid
                | Phase::Taken
                | Phase::Removing
                | Phase::Removed
                | Phase::Unknown => false,
            }
    }
}

/// The whole status, with that of a rollout. `before` is the current one: a condition that has not changed keeps its time.
pub(super) fn summary(
    backend: &DesiredBackend,
    reports: &[HostReport<'_>],
    before: &Status,
    rollout: Option<RolloutStatus>,
    now: Timestamp,
) -> Status {
    let total = count(reports, |_| true);
    let ready = count(reports, |it| it.serves());
    let is_current = |it: &HostReport<'_>| {
        !it.silent
            && it.spec.report.phase == Phase::Serving
            && it.spec.report.generation == backend.generation
            && it.spec.report.rollout.as_ref().is_none_or(|it| it.takes)
    };
    let current = count(reports, is_current);
    let mut phases = BTreeMap::new();
    for it in reports {
        *phases.entry(it.phase().to_owned()).or_insert(0) += 1;
    }
    let versions = versions(reports);
    let first = versions.first();
    let facts = Facts {
        backend,
        reports,
        total,
        ready,
        current,
        rollout: rollout.as_ref(),
    };
    let conditions = [
        ("Ready", facts.ready()),
        ("Progressing", facts.progressing()),
        ("Degraded", facts.degraded()),
        ("RolledBack", facts.rolled_back()),
    ];
    let conditions = conditions.map(|(kind, (is, reason, message))| {
        let status = if is { "True" } else { "False" };
        let mut kept = before.conditions.iter();
        let kept = kept.find(|it| it.kind == kind && it.status == status);
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: cut(message),
            observed_generation: backend.generation,
            last_transition_time: kept.map_or(now, |it| it.last_transition_time),
        }
    });
    Status {
        observed_generation: backend.generation,
        version: first.map(|it| it.version.clone()),
        digest: first.map(|it| short_digest(&it.digest).to_owned()),
        ready: format!("{ready}/{total}"),
        hosts: Hosts { total, current },
        phases,
        versions,
        troubled: troubled(reports),
        conditions: conditions.into(),
        rollout,
    }
}

/// The facts that the conditions depend on.
struct Facts<'a> {
    backend: &'a DesiredBackend,
    reports: &'a [HostReport<'a>],
    total: u64,
    ready: u64,
    current: u64,
    rollout: Option<&'a RolloutStatus>,
}

/// A condition: whether it holds, reason and message.
type ConditionParts = (bool, &'static str, String);

impl Facts<'_> {
    fn ready(&self) -> ConditionParts {
        let Self { total, ready, .. } = *self;
        if let Err(wrong) = &self.backend.document {
            return (false, "Invalid", wrong.clone());
        }
        if self.backend.leaving.is_some() {
            return (
                false,
                "Deleting",
                "the StorageBackend is being deleted".to_owned(),
            );
        }
        if total == 0 {
            let no_host = "no host has reported it: does one run with --storage-backends, and does its selector match?";
            return (false, "NoHost", no_host.to_owned());
        }
        if let Some(taken) = self.first(|it| it.spec.report.phase == Phase::Taken) {
            return (false, "DriverTaken", reason_at(&taken));
        }
        if ready < total {
            let message = format!("{ready} of {total} hosts serve it");
            return (false, "NotServing", message);
        }
        (true, "Serving", format!("all {total} hosts serve it"))
    }

    fn progressing(&self) -> ConditionParts {
        let Self { total, current, .. } = *self;
        let generation = self.backend.generation;
        if self.backend.leaving.is_some() {
            let used = self.reports.iter().filter(|it| it.spec.report.volumes > 0);
            let volumes: u64 = used.clone().map(|it| it.spec.report.volumes).sum();
            let names: Vec<&str> = used.take(NAMED).map(|it| it.spec.host.as_str()).collect();
            let message = if volumes == 0 {
                "hosts removed it".to_owned()
            } else {
                format!(
                    "{volumes} volumes are staged, on {}: delete the pods that use them, or annotate the object with {}=true",
                    names.join(", "),
                    super::FORCE_DELETE,
                )
            };
            return (true, "Deleting", message);
        }
        if let Some(rollout) = self.rollout {
            let message = rollout.described();
            match rollout.phase {
                RolloutPhase::Progressing => return (true, "RollingOut", message),
                RolloutPhase::Paused => return (true, "RolloutPaused", message),
                RolloutPhase::Failed => return (false, "RolloutFailed", message),
                RolloutPhase::RolledBack => return (false, "RolloutUndone", message),
                RolloutPhase::Promoted | RolloutPhase::Unknown => {}
            }
        }
        // A problem with an earlier generation says nothing about this one; a silent host says nothing at all.
        let settled = |it: &HostReport<'_>| {
            it.silent
                || (it.spec.report.generation == generation
                    && it.spec.report.phase != Phase::Loading)
        };
        if self.reports.iter().all(settled) {
            let message = format!("{current} of {total} hosts serve the desired version");
            return (false, "Converged", message);
        }
        let message = format!("{current} of {total} hosts serve generation {generation}");
        (true, "Converging", message)
    }

    fn degraded(&self) -> ConditionParts {
        if let Some(failed) = self.rollout.filter(|it| it.phase == RolloutPhase::Failed) {
            return (true, "RolloutFailed", failed.described());
        }
        let Some(first) = self.first(|it| it.is_trouble()) else {
            return (false, "NoTrouble", "no host reports trouble".to_owned());
        };
        let message = self.counted(|it| it.is_trouble(), &first);
        (true, most_frequent(self.reports), message)
    }

    fn rolled_back(&self) -> ConditionParts {
        match self.rollout.map(|it| (it.phase, it)) {
            Some((RolloutPhase::Failed, it)) => return (true, "RolloutFailed", it.described()),
            Some((RolloutPhase::RolledBack, it)) => {
                return (true, "RolloutUndone", it.described());
            }
            _ => {}
        }
        let is_back = |it: &HostReport<'_>| it.spec.report.phase == Phase::RolledBack;
        // A version that fails must be fixed by its author, on all hosts: that takes precedence over one administrator's rollback.
        let by_itself =
            |it: &HostReport<'_>| is_back(it) && back_by(it) == RolledBackBy::PluginFaults;
        let Some(first) = self.first(by_itself).or_else(|| self.first(is_back)) else {
            return (false, "NotRolledBack", "no host rolled back".to_owned());
        };
        let message = self.counted(is_back, &first);
        (true, back_by(&first).reason(), message)
    }

    /// How many hosts these are, and what the first of them says.
    fn counted(&self, these: impl Fn(&HostReport<'_>) -> bool, first: &HostReport<'_>) -> String {
        let number = count(self.reports, these);
        format!("{number} of {} hosts: {}", self.total, reason_at(first))
    }

    /// In the order of names, so that the message stays the same as long as its host does.
    fn first(&self, predicate: impl Fn(&HostReport<'_>) -> bool) -> Option<HostReport<'_>> {
        let all = self.reports.iter().copied().filter(|it| predicate(it));
        all.min_by_key(|it| it.spec.host.as_str())
    }
}

fn reason_at(host: &HostReport<'_>) -> String {
    format!("{}: {}", host.spec.host, host.reason())
}

/// Who triggered a host's rollback. Hosts of an earlier build do not report it.
fn back_by(host: &HostReport<'_>) -> RolledBackBy {
    host.spec
        .report
        .rolled_back_by
        .unwrap_or(RolledBackBy::Unknown)
}

fn count(reports: &[HostReport<'_>], predicate: impl Fn(&HostReport<'_>) -> bool) -> u64 {
    reports.iter().map(|it| u64::from(predicate(it))).sum()
}

/// The most frequent phase among the problems; of several the first in alphabetical order.
fn most_frequent(reports: &[HostReport<'_>]) -> &'static str {
    let mut counted: BTreeMap<&'static str, u64> = BTreeMap::new();
    for it in reports.iter().filter(|it| it.is_trouble()) {
        *counted.entry(it.phase()).or_default() += 1;
    }
    let most = counted
        .into_iter()
        .min_by_key(|(_, number)| Reverse(*number));
    most.map_or("NoTrouble", |(phase, _)| phase)
}

fn versions(reports: &[HostReport<'_>]) -> Vec<Version> {
    let mut counted: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for it in reports.iter().filter(|it| it.serves()) {
        let version = it.spec.report.version.as_deref().unwrap_or_default();
        if let Some(digest) = &it.spec.report.digest {
            *counted.entry((digest, version)).or_default() += 1;
        }
    }
    let mut versions: Vec<Version> = counted
        .into_iter()
        .map(|((digest, version), hosts)| Version {
            digest: digest.to_owned(),
            version: version.to_owned(),
            hosts,
        })
        .collect();
    versions.sort_by_key(|it| Reverse(it.hosts));
    versions.truncate(NAMED);
    versions
}

fn troubled(reports: &[HostReport<'_>]) -> Vec<Troubled> {
    let mut all: Vec<_> = reports.iter().filter(|it| it.is_trouble()).collect();
    all.sort_by_key(|it| it.spec.host.as_str());
    all.truncate(NAMED);
    let named = all.into_iter().map(|it| Troubled {
        host: it.spec.host.clone(),
        phase: it.phase().to_owned(),
        reason: cut(it.reason()),
    });
    named.collect()
}

#[cfg(test)]
mod tests;
