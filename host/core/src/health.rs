//! Health conditions of a volume or of the storage behind it, as in CSI 1.13. The volume conditions of CSI 1.12 are derived from them.

use crate::volume::VolumeCondition;
use serde::{Deserialize, Serialize};

/// The severity (CSI 1.13, `VolumeHealthErrorType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HealthStatus {
    /// Usable, but degraded.
    Degraded,
    /// Cannot be reached.
    Inaccessible,
    /// Data is lost for good, or probably so.
    DataLoss,
    /// A status of a later CSI: its number.
    Other(u32),
}

/// One health condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The severity.
    pub status: HealthStatus,
    /// In CamelCase, for programs; each at most once with one status.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl HealthStatus {
    /// The reason of a finding without one: clients require a reason, and the finding must not be lost.
    fn as_reason(self) -> &'static str {
        match self {
            HealthStatus::Degraded => "Degraded",
            HealthStatus::Inaccessible => "Inaccessible",
            HealthStatus::DataLoss => "DataLoss",
            HealthStatus::Other(_) => "Abnormal",
        }
    }
}

/// All findings, each pair of status and reason once, as CSI requires; further messages are appended to the first one.
pub fn merged(findings: impl IntoIterator<Item = Health>) -> Vec<Health> {
    let mut all: Vec<Health> = Vec::new();
    for mut finding in findings {
        if finding.reason.is_empty() {
            finding.reason = finding.status.as_reason().to_owned();
        }
        let same =
            |known: &&mut Health| known.status == finding.status && known.reason == finding.reason;
        match all.iter_mut().find(same) {
            None => all.push(finding),
            Some(known) => join(&mut known.message, &finding.message),
        }
    }
    all
}

fn join(message: &mut String, more: &str) {
    if more.is_empty() || message.split("; ").any(|known| known == more) {
        return;
    }
    if !message.is_empty() {
        message.push_str("; ");
    }
    message.push_str(more);
}

/// The condition for a client of CSI 1.12: abnormal if there is any finding.
pub fn condition(findings: &[Health]) -> VolumeCondition {
    let messages = findings.iter().map(|finding| {
        if finding.message.is_empty() {
            finding.reason.clone()
        } else {
            format!("{}: {}", finding.reason, finding.message)
        }
    });
    VolumeCondition {
        abnormal: !findings.is_empty(),
        message: messages.collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(status: HealthStatus, reason: &str, message: &str) -> Health {
        Health {
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn equal_findings_are_merged_with_both_messages() {
        use HealthStatus::{DataLoss, Degraded};
        let found = [
            finding(Degraded, "ReplicaMissing", "disk a is gone"),
            finding(DataLoss, "ReplicaMissing", "all are gone"),
            finding(Degraded, "ReplicaMissing", "disk b is gone"),
            finding(Degraded, "ReplicaMissing", "disk a is gone"),
            finding(Degraded, "ReplicaMissing", ""),
            finding(Degraded, "Slow", ""),
            finding(Degraded, "Slow", "1 s a read"),
        ];
        assert_eq!(
            merged(found),
            [
                finding(Degraded, "ReplicaMissing", "disk a is gone; disk b is gone"),
                finding(DataLoss, "ReplicaMissing", "all are gone"),
                finding(Degraded, "Slow", "1 s a read"),
            ]
        );
        assert_eq!(merged([]), []);
    }

    #[test]
    fn a_finding_without_a_reason_is_called_by_its_status() {
        use HealthStatus::{DataLoss, Degraded, Inaccessible, Other};
        for (status, reason) in [
            (Degraded, "Degraded"),
            (Inaccessible, "Inaccessible"),
            (DataLoss, "DataLoss"),
            (Other(9), "Abnormal"),
        ] {
            assert_eq!(
                merged([finding(status, "", "m")]),
                [finding(status, reason, "m")]
            );
        }
    }

    #[test]
    fn a_condition_with_findings_is_abnormal_and_lists_all() {
        let found = [
            finding(HealthStatus::Degraded, "Slow", "1 s a read"),
            finding(HealthStatus::Other(9), "Odd", ""),
        ];
        let unhealthy = condition(&found);
        assert_eq!(
            (unhealthy.abnormal, unhealthy.message.as_str()),
            (true, "Slow: 1 s a read; Odd")
        );
        let healthy = condition(&[]);
        assert_eq!((healthy.abnormal, healthy.message.as_str()), (false, ""));
    }
}
