//! The search for the device that has all wanted facts.
//!
//! It is apart because facts of a disk hold for its partitions too, and only here is decided which of them is meant. It must not know
//! grants, nor open anything.

use super::tree::{DeviceTree, KernelName};
use crate::plan::device::WantedFacts;
use std::collections::BTreeSet;
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::mounter::MountError;

/// What is searched for, and where its links lead now.
struct Search<'a> {
    tree: &'a DeviceTree,
    wanted: &'a WantedFacts,
    links: Vec<(DeviceFact, Option<KernelName>)>,
}

/// All devices that have these facts.
pub(super) fn find(tree: &DeviceTree, wanted: &WantedFacts) -> Result<Vec<KernelName>, MountError> {
    let search = Search::begin(tree, wanted)?;
    let mut found = search.candidates();
    found.retain(|name| {
        search.is_meant(name)
            && wanted
                .iter()
                .all(|(fact, value)| search.has(name, *fact, value))
    });
    Ok(found.into_iter().collect())
}

/// What keeps devices from having all of these facts, in words. The number of a partition alone brings none near.
pub(super) fn near(tree: &DeviceTree, wanted: &WantedFacts) -> Result<Vec<String>, MountError> {
    let search = Search::begin(tree, wanted)?;
    let mut near = search.astray();
    for name in search.candidates() {
        let (has, lacks): (Vec<_>, Vec<_>) = wanted
            .iter()
            .partition(|(fact, value)| search.has(&name, **fact, value));
        let is_near = has.iter().any(|(fact, _)| **fact != DeviceFact::Partition);
        if is_near && !lacks.is_empty() && search.is_meant(&name) {
            near.push(format!(
                "{name} has {}, not {}",
                listed(&has),
                listed(&lacks)
            ));
        }
    }
    Ok(near)
}

impl<'a> Search<'a> {
    fn begin(tree: &'a DeviceTree, wanted: &'a WantedFacts) -> Result<Self, MountError> {
        let links = wanted
            .iter()
            .filter(|(fact, _)| fact.is_link())
            .map(|(fact, value)| Ok((*fact, tree.link(*fact, value)?)))
            .collect::<Result<_, MountError>>()?;
        Ok(Self {
            tree,
            wanted,
            links,
        })
    }

    /// Devices to look at: with links just those that they lead to, so that no other disk is asked anything.
    fn candidates(&self) -> BTreeSet<KernelName> {
        let mut found: BTreeSet<KernelName> = if self.links.is_empty() {
            self.tree.names().into_iter().collect()
        } else {
            let led_to = self.links.iter().filter_map(|(_, to)| to.clone());
            let disks: BTreeSet<KernelName> = led_to.collect();
            let partitions = disks.iter().flat_map(|disk| self.tree.partitions(disk));
            partitions.chain(disks.iter().cloned()).collect()
        };
        // A path of an NVMe multipath device is shown without a number: it cannot be opened.
        found.retain(|name| self.tree.number(name).is_some());
        found
    }

    /// Whether it can be meant. A partition is asked for by its number or by a link of its own: what tells its disk does not mean it.
    fn is_meant(&self, name: &KernelName) -> bool {
        self.wanted.contains_key(&DeviceFact::Partition)
            || self.links.iter().any(|(_, to)| to.as_ref() == Some(name))
            || self.tree.disk_of(name).is_none()
    }

    fn has(&self, name: &KernelName, fact: DeviceFact, value: &str) -> bool {
        if !fact.is_link() {
            return self
                .tree
                .value(name, fact)
                .is_some_and(|known| known == value);
        }
        let disk = self.tree.disk_of(name);
        let leads_here = |to: &KernelName| to == name || disk.as_ref() == Some(to);
        self.links
            .iter()
            .any(|(of, to)| *of == fact && to.as_ref().is_some_and(leads_here))
    }

    /// Links that lead to nothing, in words.
    fn astray(&self) -> Vec<String> {
        let astray = |(fact, to): &(DeviceFact, Option<KernelName>)| match to {
            None => Some(format!("there is no such {}", fact.name())),
            Some(name) if self.tree.number(name).is_none() => Some(format!(
                "{} leads to {name}, which is not there",
                fact.name()
            )),
            Some(_) => None,
        };
        self.links.iter().filter_map(astray).collect()
    }
}

fn listed(facts: &[(&DeviceFact, &String)]) -> String {
    let names: Vec<_> = facts.iter().map(|(fact, _)| fact.name()).collect();
    names.join(" and ")
}
