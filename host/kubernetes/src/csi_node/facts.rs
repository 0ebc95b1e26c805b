//! What a driver says of its node, in the form that Node and CSINode have it.

use std::collections::{BTreeMap, BTreeSet};
use wasmount_core::driver::NodeInfo;
use wasmount_core::names::DriverName;

/// One driver's NodeGetInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DriverFacts {
    driver: DriverName,
    node_id: String,
    topology: BTreeMap<String, String>,
    count: Option<i32>,
}

impl DriverFacts {
    /// As kubelet takes an answer: no limit is no count, nor is 0; one beyond what the field holds becomes the largest that it does
    /// (`nodeinfomanager`, `installDriverToCSINode`).
    pub(super) fn new(driver: DriverName, info: NodeInfo) -> Self {
        let count = info.max_volumes.filter(|&limit| limit > 0);
        Self {
            driver,
            node_id: info.id.into_string(),
            topology: info
                .topology
                .map(|topology| topology.segments.into_map())
                .unwrap_or_default(),
            count: count.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)),
        }
    }

    pub(super) fn driver(&self) -> &str {
        self.driver.as_str()
    }

    pub(super) fn node_id(&self) -> &str {
        &self.node_id
    }

    /// `allocatable.count`.
    pub(super) fn count(&self) -> Option<i32> {
        self.count
    }

    /// Labels of the Node.
    pub(super) fn topology(&self) -> &BTreeMap<String, String> {
        &self.topology
    }

    /// `topologyKeys`, in order.
    pub(super) fn topology_keys(&self) -> BTreeSet<&str> {
        self.topology.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use wasmount_core::attributes::Attributes;
    use wasmount_core::names::NodeId;
    use wasmount_core::topology::Topology;

    /// Facts for tests of the modules beside this one.
    pub(in super::super) fn facts(
        driver: &str,
        id: &str,
        topology: &[(&str, &str)],
        max_volumes: Option<u64>,
    ) -> DriverFacts {
        let pairs = topology
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let info = NodeInfo {
            id: NodeId::parse("id", id).unwrap(),
            max_volumes,
            topology: Some(Topology {
                segments: Attributes::from_pairs("topology", pairs).unwrap(),
            }),
        };
        DriverFacts::new(DriverName::parse(driver).unwrap(), info)
    }

    #[test]
    fn only_a_positive_limit_is_a_count_and_huge_ones_are_capped() {
        for (limit, count) in [
            (None, None),
            (Some(0), None),
            (Some(1), Some(1)),
            (Some(2_147_483_647), Some(i32::MAX)),
            (Some(2_147_483_648), Some(i32::MAX)),
            (Some(u64::MAX), Some(i32::MAX)),
        ] {
            assert_eq!(facts("a.b", "n", &[], limit).count(), count, "{limit:?}");
        }
    }
}
