//! Summarises all reports of a backend: counts, some names, four conditions.
//!
//! It sends no request and writes nothing.

use super::report::ReportSpec;
use super::status::{Condition, Hosts, Status, Troubled, Version};
use super::{Phase, RolledBackBy};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use wasmount_core::text::short_digest;

/// Most hosts and versions that are named: one screen.
const NAMED: usize = 10;
/// Longest message and reason in the status, in bytes: the limit of the definition.
const TEXT_BYTES: usize = 1024;
/// The phase that is shown for a silent host.
const SILENT: &str = "Silent";

/// The report of one host, and whether the host is silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard<'a> {
    pub(super) said: &'a ReportSpec,
    pub(super) silent: bool,
}

/// The backend of a summary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) generation: i64,
    /// It is being deleted.
    pub(super) leaving: bool,
    /// Why its document is invalid.
    pub(super) invalid: Option<&'a str>,
}

impl Heard<'_> {
    fn phase(&self) -> &'static str {
        if self.silent {
            SILENT
        } else {
            self.said.report.phase.name()
        }
    }

    fn is_trouble(&self) -> bool {
        self.silent || self.said.report.phase.is_trouble()
    }

    /// Some version of the plugin serves there.
    fn serves(&self) -> bool {
        !self.silent
            && match self.said.report.phase {
                Phase::Serving | Phase::RolledBack => true,
                // An earlier version may serve besides a problem or a change under way.
                Phase::Loading | Phase::Refused | Phase::Waiting | Phase::Paused => {
                    self.said.report.digest.is_some()
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

/// The whole status. `before` is the current one: a condition that has not changed keeps its time.
pub(super) fn summary(
    subject: Subject<'_>,
    heard: &[Heard<'_>],
    before: &Status,
    now: Timestamp,
) -> Status {
    let total = count(heard, |_| true);
    let ready = count(heard, |it| it.serves());
    let is_current = |it: &Heard<'_>| {
        !it.silent
            && it.said.report.phase == Phase::Serving
            && it.said.report.generation == subject.generation
    };
    let current = count(heard, is_current);
    let mut phases = BTreeMap::new();
    for it in heard {
        *phases.entry(it.phase().to_owned()).or_insert(0) += 1;
    }
    let versions = versions(heard);
    let first = versions.first();
    let facts = Facts {
        subject,
        heard,
        total,
        ready,
        current,
    };
    let conditions = facts.conditions().map(|condition| {
        let (kind, status, reason, message) = condition;
        let status = if status { "True" } else { "False" };
        let kept = before.conditions.iter();
        let kept = kept
            .clone()
            .find(|it| it.kind == kind && it.status == status);
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: cut(message),
            observed_generation: subject.generation,
            last_transition_time: kept.map_or(now, |it| it.last_transition_time),
        }
    });
    Status {
        observed_generation: subject.generation,
        version: first.map(|it| it.version.clone()),
        digest: first.map(|it| short_digest(&it.digest).to_owned()),
        ready: format!("{ready}/{total}"),
        hosts: Hosts { total, current },
        phases,
        versions,
        troubled: troubled(heard),
        conditions: conditions.into(),
    }
}

/// The facts that the conditions depend on.
struct Facts<'a> {
    subject: Subject<'a>,
    heard: &'a [Heard<'a>],
    total: u64,
    ready: u64,
    current: u64,
}

type Said = (&'static str, bool, &'static str, String);

impl Facts<'_> {
    fn conditions(&self) -> [Said; 4] {
        [
            self.ready(),
            self.progressing(),
            self.degraded(),
            self.rolled_back(),
        ]
    }

    fn ready(&self) -> Said {
        let Self { total, ready, .. } = *self;
        let said = |is, reason, message: String| ("Ready", is, reason, message);
        if let Some(wrong) = self.subject.invalid {
            return said(false, "Invalid", wrong.to_owned());
        }
        if self.subject.leaving {
            return said(false, "Deleting", "the StorageBackend is to go".to_owned());
        }
        if total == 0 {
            let nobody = "no host has said anything of it: is one run with --storage-backends, and does its selector match?";
            return said(false, "NoHost", nobody.to_owned());
        }
        if let Some(taken) = self.first(|it| it.said.report.phase == Phase::Taken) {
            return said(false, "DriverTaken", self.words_of(&taken));
        }
        if ready < total {
            return said(
                false,
                "NotServing",
                format!("{ready} of {total} hosts serve it"),
            );
        }
        said(true, "Serving", format!("all {total} hosts serve it"))
    }

    fn progressing(&self) -> Said {
        let Self { total, current, .. } = *self;
        let said = |is, reason, message: String| ("Progressing", is, reason, message);
        if self.subject.leaving {
            let used = self.heard.iter().filter(|it| it.said.report.volumes > 0);
            let volumes: u64 = used.clone().map(|it| it.said.report.volumes).sum();
            let names: Vec<&str> = used.take(NAMED).map(|it| it.said.host.as_str()).collect();
            let message = if volumes == 0 {
                "hosts let go of it".to_owned()
            } else {
                format!(
                    "{volumes} volumes are staged, on {}: delete the pods that use them, or annotate the object with {}=true",
                    names.join(", "),
                    super::FORCE_DELETE,
                )
            };
            return said(true, "Deleting", message);
        }
        // A problem with an earlier generation says nothing about this one; a silent host says nothing at all.
        let settled = |it: &Heard<'_>| {
            it.silent
                || (it.said.report.generation == self.subject.generation
                    && it.said.report.phase != Phase::Loading)
        };
        let under_way = count(self.heard, |it| !settled(it));
        if under_way > 0 {
            let message = format!(
                "{current} of {total} hosts serve generation {}",
                self.subject.generation
            );
            return said(true, "Converging", message);
        }
        said(
            false,
            "Converged",
            format!("{current} of {total} hosts serve what is asked for"),
        )
    }

    fn degraded(&self) -> Said {
        let said = |is, reason, message: String| ("Degraded", is, reason, message);
        let number = count(self.heard, |it| it.is_trouble());
        match self.first(|it| it.is_trouble()) {
            None => said(false, "NoTrouble", "no host reports trouble".to_owned()),
            Some(first) => {
                let reason = most_frequent(self.heard);
                let message = format!(
                    "{number} of {} hosts: {}",
                    self.total,
                    self.words_of(&first)
                );
                said(true, reason, message)
            }
        }
    }

    fn rolled_back(&self) -> Said {
        let is_back = |it: &Heard<'_>| it.said.report.phase == Phase::RolledBack;
        // A version that fails must be fixed by its author, on all hosts: that takes precedence over one administrator's rollback.
        let by_itself = |it: &Heard<'_>| is_back(it) && back_by(it) == RolledBackBy::PluginFaults;
        let number = count(self.heard, is_back);
        match self.first(by_itself).or_else(|| self.first(is_back)) {
            None => (
                "RolledBack",
                false,
                "NotRolledBack",
                "no host went back".to_owned(),
            ),
            Some(first) => {
                let message = format!(
                    "{number} of {} hosts: {}",
                    self.total,
                    self.words_of(&first)
                );
                ("RolledBack", true, back_by(&first).reason(), message)
            }
        }
    }

    /// In the order of names, so that the message stays the same as long as its host does.
    fn first(&self, wanted: impl Fn(&Heard<'_>) -> bool) -> Option<Heard<'_>> {
        let all = self.heard.iter().copied().filter(|it| wanted(it));
        all.min_by_key(|it| it.said.host.as_str())
    }

    fn words_of(&self, heard: &Heard<'_>) -> String {
        format!("{}: {}", heard.said.host, words(heard))
    }
}

/// Who triggered a host's rollback. Hosts of an earlier build do not report it.
fn back_by(heard: &Heard<'_>) -> RolledBackBy {
    let by = heard.said.report.rolled_back_by;
    by.unwrap_or(RolledBackBy::Unknown)
}

fn words(heard: &Heard<'_>) -> String {
    if heard.silent {
        return "has not said anything for a while: is the host running?".to_owned();
    }
    let phase = heard.phase().to_owned();
    heard.said.report.reason.clone().unwrap_or(phase)
}

fn count(heard: &[Heard<'_>], wanted: impl Fn(&Heard<'_>) -> bool) -> u64 {
    heard.iter().map(|it| u64::from(wanted(it))).sum()
}

/// The most frequent phase among the problems; of several the first in alphabetical order.
fn most_frequent(heard: &[Heard<'_>]) -> &'static str {
    let mut counted: BTreeMap<&'static str, u64> = BTreeMap::new();
    for it in heard.iter().filter(|it| it.is_trouble()) {
        *counted.entry(it.phase()).or_default() += 1;
    }
    let most = counted
        .into_iter()
        .min_by_key(|(_, number)| Reverse(*number));
    most.map_or("NoTrouble", |(phase, _)| phase)
}

fn versions(heard: &[Heard<'_>]) -> Vec<Version> {
    let mut counted: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for it in heard.iter().filter(|it| it.serves()) {
        let version = it.said.report.version.as_deref().unwrap_or_default();
        if let Some(digest) = &it.said.report.digest {
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

fn troubled(heard: &[Heard<'_>]) -> Vec<Troubled> {
    let mut all: Vec<_> = heard.iter().filter(|it| it.is_trouble()).collect();
    all.sort_by_key(|it| it.said.host.as_str());
    all.truncate(NAMED);
    let named = all.into_iter().map(|it| Troubled {
        host: it.said.host.clone(),
        phase: it.phase().to_owned(),
        reason: cut(words(it)),
    });
    named.collect()
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES));
    text
}

#[cfg(test)]
mod tests;
