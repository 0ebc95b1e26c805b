//! Which device the alternatives of a plan mean. Where they lead to several, none is chosen: a guess could mount the disk of another volume.

use super::tree::KernelName;
use crate::plan::device::{RequestedFacts, describe_facts};
use wasmount_core::mounter::MountError;

/// Maximum number of devices that a message names.
pub(super) const NAMED: usize = 4;

/// The devices that have the facts of one alternative.
pub(super) struct Found<'d> {
    pub(super) facts: &'d RequestedFacts,
    pub(super) names: Vec<KernelName>,
}

/// The device that is meant, and the first facts that lead to it. `None`: no alternative leads to a device.
pub(super) fn choose<'f>(
    found: &'f [Found<'_>],
) -> Result<Option<(&'f RequestedFacts, &'f KernelName)>, MountError> {
    if let Some(several) = found.iter().find(|it| it.names.len() > 1) {
        return Err(ambiguous(several));
    }
    let mut led = found
        .iter()
        .filter_map(|it| Some((it.facts, it.names.first()?)));
    let Some(first) = led.next() else {
        return Ok(None);
    };
    match led.find(|(_, name)| *name != first.1) {
        None => Ok(Some(first)),
        Some(other) => Err(contradictory(first, other)),
    }
}

/// The facts of all alternatives for a message.
pub(super) fn describe(alternatives: &[RequestedFacts]) -> String {
    let each: Vec<_> = alternatives.iter().map(describe_facts).collect();
    each.join(", or with ")
}

fn ambiguous(several: &Found<'_>) -> MountError {
    let names = several.names.iter().take(NAMED).map(ToString::to_string);
    let names = names.collect::<Vec<_>>().join(", ");
    MountError::unusable(
        format!("the block device with {}", describe_facts(several.facts)),
        format!(
            "{} devices have them ({names}); if they are paths to one disk, name the `by-id` of its multipath device (`dm-uuid-mpath-..`), else another fact as well",
            several.names.len(),
        ),
    )
}

fn contradictory(
    (facts, name): (&RequestedFacts, &KernelName),
    (other_facts, other_name): (&RequestedFacts, &KernelName),
) -> MountError {
    MountError::unusable(
        format!("the block device with {}", describe_facts(facts)),
        format!(
            "it is {name}, but another alternative, {}, leads to {other_name}; a volume has one device, so name facts that no other device has",
            describe_facts(other_facts)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::device_fact::DeviceFact;

    fn facts(by_id: &str) -> RequestedFacts {
        RequestedFacts::from([(DeviceFact::ById, by_id.to_owned())])
    }

    /// The device chosen where links lead to devices in this way.
    fn chosen(links: &[(&str, &[&str])]) -> Result<Option<(String, String)>, String> {
        let alternatives: Vec<_> = links.iter().map(|(by_id, _)| facts(by_id)).collect();
        let found = alternatives.iter().zip(links).map(|(facts, (_, names))| {
            let names = names.iter().map(|name| KernelName::of_node(name));
            let names = names.collect();
            Found { facts, names }
        });
        let found: Vec<_> = found.collect();
        let chosen = choose(&found).map_err(|error| error.to_string())?;
        Ok(chosen.map(|(facts, name)| (describe_facts(facts), name.to_string())))
    }

    #[test]
    fn the_one_device_of_all_alternatives_is_chosen() {
        for (links, by) in [
            (&[("a", &["sda"][..])][..], "by-id `a`"),
            (&[("a", &[]), ("b", &["sda"])], "by-id `b`"),
            (&[("a", &["sda"]), ("b", &[]), ("c", &["sda"])], "by-id `a`"),
        ] {
            let expected = Some((by.to_owned(), "/dev/sda".to_owned()));
            assert_eq!(chosen(links), Ok(expected), "{links:?}");
        }
        assert_eq!(chosen(&[("a", &[]), ("b", &[])]), Ok(None));
    }

    #[test]
    fn between_several_devices_none_is_chosen() {
        assert_eq!(
            chosen(&[("a", &["sda"]), ("b", &[]), ("c", &["sdb"])]),
            Err("the block device with by-id `a` cannot be used: it is /dev/sda, but another alternative, by-id `c`, leads to /dev/sdb; a volume has one device, so name facts that no other device has".to_owned())
        );
        let several = chosen(&[("a", &["sda"]), ("b", &["sda", "sdb"])]).unwrap_err();
        assert!(
            several.contains("2 devices have them (/dev/sda, /dev/sdb)"),
            "{several}"
        );
    }
}
