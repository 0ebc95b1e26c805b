//! The steps `device` and `any-device`: checks the facts that identify a block device, and finds the grants that could cover it.
//!
//! A plan that passes is not granted yet: a grant describes the device that is found, so [`is_covered`] decides then.

use super::matches;
use crate::failure::shown;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::{DeviceGrant, Grants};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::volume::{AccessMode, VolumeCapability};

/// Longest wait for a device, in milliseconds: 45 s leave a quarter of a call's default budget of 60 s to check, repair and mount it. A slower device
/// is present when the client tries again.
const WAIT_MS_MAX: u32 = 45_000;

/// The requested facts: each fact at most once.
pub(crate) type RequestedFacts = BTreeMap<DeviceFact, String>;

/// A well-formed device of a plan. At least one grant could cover it by each alternative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedDevice {
    /// The step's name in the contract.
    pub(crate) step: &'static str,
    /// Never empty.
    pub(crate) alternatives: Vec<RequestedFacts>,
    /// Whether SCSI hosts are asked for new disks while it is missing.
    pub(crate) rescan: bool,
    /// Maximum wait for it.
    pub(crate) wait: Duration,
    /// One of these must cover the device that is found, whatever alternative it was found by.
    pub(crate) grants: Vec<DeviceGrant>,
}

/// The known facts of an existing device. It has as many links as udev created.
pub(crate) type DeviceFacts = BTreeSet<(DeviceFact, String)>;

impl CheckedDevice {
    /// Checks mount options under each grant, and keeps the grants that allow all of them: an option that one grant allows must not be used on a
    /// device that only another grant covers.
    pub(crate) fn with_options<T, E>(
        self,
        check: impl Fn(&[String]) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        let mut outcome = None;
        let mut kept = Vec::new();
        for grant in self.grants {
            let checked = check(&grant.mount_options);
            if checked.is_ok() {
                kept.push(grant);
            }
            if checked.is_ok() || outcome.is_none() {
                outcome = Some(checked);
            }
        }
        let checked = outcome.unwrap_or_else(|| check(&[]))?;
        let device = Self {
            grants: kept,
            ..self
        };
        Ok((device, checked))
    }
}

/// Checks the step of this name; `device` has one alternative.
pub(crate) fn check(
    step: &'static str,
    alternatives: &[Vec<(String, String)>],
    rescan: bool,
    wait_ms: u32,
    grants: &Grants,
) -> Result<CheckedDevice, MountError> {
    let wait = checked_wait(step, wait_ms)?;
    let alternatives: Vec<_> = alternatives
        .iter()
        .map(|facts| parse_facts(step, facts))
        .collect::<Result<_, _>>()?;
    let mut kept = grants.devices.clone();
    kept.retain(|grant| alternatives.iter().any(|facts| could_cover(grant, facts)));
    let is_covered = |facts: &&RequestedFacts| kept.iter().any(|grant| could_cover(grant, facts));
    if let Some(facts) = alternatives.iter().find(|facts| !is_covered(facts)) {
        return Err(not_granted(step, facts));
    }
    if rescan && !kept.iter().any(|grant| grant.rescan) {
        let reason = "no entry of `grants.devices` of the backend document that covers the device allows a rescan of SCSI hosts; add `rescan: true` to it";
        let blame = Blame::Of(Owner::Administrator);
        return Err(MountError::not_granted(step, reason, blame));
    }
    Ok(CheckedDevice {
        step,
        alternatives,
        rescan,
        wait,
        grants: kept,
    })
}

/// Checks how long a plan waits for a device.
pub(super) fn checked_wait(step: &str, wait_ms: u32) -> Result<Duration, MountError> {
    if wait_ms > WAIT_MS_MAX {
        let reason =
            format!("{wait_ms} ms are more than {WAIT_MS_MAX}; clients retry, so wait less");
        // The number may be computed from the request.
        return Err(invalid(step, "wait-ms", reason, Blame::Of(Owner::Request)));
    }
    Ok(Duration::from_millis(wait_ms.into()))
}

/// Whether a grant covers a device.
pub(crate) fn is_covered(grants: &[DeviceGrant], device: &DeviceFacts) -> bool {
    let covers = |grant: &DeviceGrant| {
        let holds = |(fact, pattern): (&DeviceFact, &String)| {
            let mut known = device.iter().filter(|(known, _)| known == fact);
            known.any(|(_, value)| matches(pattern, value))
        };
        // A document with an empty grant is rejected; here such a grant covers nothing.
        !grant.facts.is_empty() && grant.facts.iter().all(holds)
    };
    grants.iter().any(covers)
}

/// The error that no grant covers a device of these facts.
pub(crate) fn not_granted(step: &str, facts: &RequestedFacts) -> MountError {
    let reason = format!(
        "no entry of `grants.devices` of the backend document covers the device with {}; add one whose facts all hold for it, such as `{{ facts: {{ .. }} }}`",
        describe_facts(facts)
    );
    // All values together name the device.
    let values: Vec<&str> = facts.values().map(String::as_str).collect();
    MountError::not_granted(step, reason, Blame::argument(values.join(" ")))
}

/// Text of facts for a message.
pub(crate) fn describe_facts(facts: &RequestedFacts) -> String {
    let texts: Vec<String> = facts
        .iter()
        .map(|(fact, value)| format!("{} `{}`", fact.name(), shown(value)))
        .collect();
    texts.join(" and ")
}

fn parse_facts(step: &str, facts: &[(String, String)]) -> Result<RequestedFacts, MountError> {
    let mut requested = RequestedFacts::new();
    for (name, value) in facts {
        let fact = DeviceFact::parse(name).ok_or_else(|| {
            let (name_shown, known) = (shown(name), DeviceFact::names());
            let reason = format!("`{name_shown}` is unknown; known are {known}");
            invalid(step, "facts", reason, Blame::argument(name))
        })?;
        fact.check_value(value).map_err(|fault| {
            let reason = format!("`{}` {fault}", fact.name());
            invalid(step, "facts", reason, Blame::argument(value))
        })?;
        if requested.insert(fact, value.clone()).is_some() {
            let reason = format!("`{}` is given twice", fact.name());
            return Err(invalid(step, "facts", reason, Blame::argument(name)));
        }
    }
    if requested.keys().all(|fact| *fact == DeviceFact::Partition) {
        let reason = "they name no device; give one besides `partition`".to_owned();
        return Err(invalid(step, "facts", reason, Blame::Of(Owner::Plugin)));
    }
    Ok(requested)
}

/// Refuses the file system of a disk for several nodes if one of them writes: none of these file systems bears it.
pub(super) fn ensure_on_one_node(capability: &VolumeCapability) -> Result<(), MountError> {
    match capability.access_mode {
        AccessMode::MultiNodeSingleWriter | AccessMode::MultiNodeMultiWriter => {
            Err(MountError::invalid(
                "volume_capability",
                "a file system on a disk cannot be on several nodes while one of them writes; request a raw block volume (`volumeMode: Block`), or an access mode of a single node",
                Blame::Of(Owner::Request),
            ))
        }
        _ => Ok(()),
    }
}

/// Whether a device with the requested facts can be covered. A requested link proves nothing: the device may have other links.
fn could_cover(grant: &DeviceGrant, requested: &RequestedFacts) -> bool {
    grant.facts.iter().all(|(fact, pattern)| {
        let named = requested.get(fact).filter(|_| !fact.is_link());
        named.is_none_or(|value| matches(pattern, value))
    })
}

pub(super) fn invalid(step: &str, argument: &str, reason: String, blame: Blame) -> MountError {
    MountError::invalid(format!("{argument} of step `{step}`"), reason, blame)
}

#[cfg(test)]
mod tests;
