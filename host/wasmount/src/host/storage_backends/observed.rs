//! The state of a backend on this host, for a report.
//!
//! It makes no requests.

use wasmount_core::status::{DriverStatus, HeldBy, RefusalKind};
use wasmount_kubernetes::storage_backend::{BackendReport, Phase, RolledBackBy};

/// The state of a backend beside its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// Its phase.
    pub(super) phase: Phase,
    /// The reason.
    pub(super) reason: Option<String>,
    /// The number of volumes that it waits for.
    pub(super) volumes: u64,
}

impl Known {
    /// Its object is not followed.
    pub(super) fn trouble(phase: Phase, reason: impl Into<String>) -> Self {
        Self {
            phase,
            reason: Some(reason.into()),
            volumes: 0,
        }
    }

    /// It is not served any more.
    pub(super) fn removed() -> Self {
        Self {
            phase: Phase::Removed,
            reason: None,
            volumes: 0,
        }
    }
}

/// The report of one backend.
pub(super) fn report(
    uid: &str,
    generation: i64,
    known: Option<&Known>,
    status: Option<&DriverStatus>,
) -> BackendReport {
    let current = status.and_then(|it| it.version.as_ref());
    let (phase, reason) = match (known, status) {
        (Some(known), _) => (known.phase, known.reason.clone()),
        (None, Some(status)) => phase_of(status),
        (None, None) => (Phase::Loading, None),
    };
    BackendReport {
        uid: uid.to_owned(),
        generation,
        phase,
        version: current.map(|it| it.plugin_version.clone()),
        digest: current.map(|it| it.digest.clone()),
        reason,
        rolled_back_by: status
            .filter(|_| phase == Phase::RolledBack)
            .and_then(rolled_back_by),
        last_fault: status.and_then(|it| it.last_fault),
        volumes: known.map_or(0, |it| it.volumes),
        rollout: None,
    }
}

fn phase_of(status: &DriverStatus) -> (Phase, Option<String>) {
    // The rest belongs to an earlier desired revision, and so to an earlier generation.
    if status.settled < status.desired {
        return (Phase::Loading, None);
    }
    let held = || status.held.as_ref().map(|it| it.reason.clone());
    let refused = status.refused.as_ref().filter(|it| it.by_document);
    match status.phase {
        Phase::Draining => {
            let drained = status.drained.as_ref();
            (Phase::Draining, drained.map(|it| it.reason.clone()))
        }
        Phase::Paused => (Phase::Paused, None),
        Phase::RolledBack => (Phase::RolledBack, held()),
        phase => match refused {
            Some(refused) => {
                // A source or secret that is only missing yet may appear without a change of the object.
                let waits = matches!(refused.kind, RefusalKind::Source | RefusalKind::Secret);
                let phase = if waits {
                    Phase::Waiting
                } else {
                    Phase::Refused
                };
                (phase, Some(refused.reason.clone()))
            }
            None if phase == Phase::Serving => (Phase::Serving, None),
            None => (Phase::Loading, None),
        },
    }
}

fn rolled_back_by(status: &DriverStatus) -> Option<RolledBackBy> {
    match status.held.as_ref()?.by {
        HeldBy::Faults { .. } => Some(RolledBackBy::PluginFaults),
        HeldBy::Rollback => Some(RolledBackBy::Administrator),
        HeldBy::Swap => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use wasmount_core::status::{Hold, RefusedVersion, VersionRecord, VersionState};

    fn status(phase: Phase) -> DriverStatus {
        DriverStatus {
            phase,
            version: Some(VersionRecord {
                number: 1,
                digest: "sha256:1".to_owned(),
                plugin: "p".to_owned(),
                plugin_version: "1.0".to_owned(),
                origin: "/p.wasm".to_owned(),
                signed_by: Vec::new(),
                settings_digest: String::new(),
                since: Timestamp::UNIX_EPOCH,
                until: None,
                reason: None,
                state: VersionState::Serving,
                proven: false,
                is_kept: true,
            }),
            warnings: Vec::new(),
            refused: None,
            draining: Vec::new(),
            held: None,
            paused: false,
            drained: None,
            share: None,
            last_fault: None,
            desired: 1,
            settled: 1,
        }
    }

    fn refused(kind: RefusalKind) -> RefusedVersion {
        RefusedVersion {
            by_document: true,
            digest: None,
            kind,
            reason: "no".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    fn reported(known: Option<&Known>, status: &DriverStatus) -> (Phase, Option<String>) {
        let reported = report("u", 2, known, Some(status));
        assert_eq!(
            (reported.generation, reported.version.as_deref()),
            (2, Some("1.0"))
        );
        (reported.phase, reported.reason)
    }

    #[test]
    fn the_desired_version_serves_or_progresses() {
        let mut serving = status(Phase::Serving);
        assert_eq!(reported(None, &serving), (Phase::Serving, None));
        serving.desired = 2;
        assert_eq!(reported(None, &serving), (Phase::Loading, None));
    }

    #[test]
    fn an_outcome_is_not_reported_for_a_newer_revision() {
        for phase in [
            Phase::Serving,
            Phase::RolledBack,
            Phase::Paused,
            Phase::Draining,
            Phase::Waiting,
        ] {
            let mut before = status(phase);
            before.refused = Some(refused(RefusalKind::Digest));
            before.desired = 2;
            assert_eq!(reported(None, &before), (Phase::Loading, None), "{phase:?}");
        }
    }

    #[test]
    fn a_refusal_is_reported_while_the_old_version_serves() {
        let mut serving = status(Phase::Serving);
        for (kind, phase) in [
            (RefusalKind::Digest, Phase::Refused),
            (RefusalKind::Secret, Phase::Waiting),
        ] {
            serving.refused = Some(refused(kind));
            assert_eq!(reported(None, &serving), (phase, Some("no".to_owned())));
        }
    }

    #[test]
    fn a_rollback_is_reported_with_trigger_and_reason() {
        for (by, reported_by) in [
            (HeldBy::Faults { failed: 2 }, RolledBackBy::PluginFaults),
            (HeldBy::Rollback, RolledBackBy::Administrator),
        ] {
            let mut back = status(Phase::RolledBack);
            back.held = Some(Hold {
                number: 1,
                by,
                reason: "it trapped".to_owned(),
                since: Timestamp::UNIX_EPOCH,
                revision: None,
            });
            let reason = Some("it trapped".to_owned());
            assert_eq!(reported(None, &back), (Phase::RolledBack, reason));
            let by = |known| report("u", 2, known, Some(&back)).rolled_back_by;
            assert_eq!(by(None), Some(reported_by));
            // The report is about something else.
            assert_eq!(by(Some(&Known::removed())), None);
        }
    }

    #[test]
    fn what_is_known_of_the_object_goes_before_its_versions() {
        let serving = status(Phase::Serving);
        let taken = Known::trouble(Phase::Taken, "a file has it");
        let reason = Some("a file has it".to_owned());
        assert_eq!(reported(Some(&taken), &serving), (Phase::Taken, reason));
        assert_eq!(report("u", 1, None, None).phase, Phase::Loading);
    }
}
