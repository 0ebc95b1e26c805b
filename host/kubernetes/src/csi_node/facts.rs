//! What a driver reports about its node, in the form of Node and CSINode, and the annotation with the node ids of all drivers.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use wasmount_core::driver::NodeInfo;
use wasmount_core::names::DriverName;

/// One driver's NodeGetInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DriverFacts {
    pub(super) driver: String,
    pub(super) node_id: String,
    /// Labels of the Node.
    pub(super) topology: BTreeMap<String, String>,
    /// `allocatable.count`.
    pub(super) count: Option<i32>,
}

impl DriverFacts {
    /// As kubelet reads an answer: no limit gives no count, nor does 0; a limit above the field's maximum becomes that maximum (`nodeinfomanager`,
    /// `installDriverToCSINode`).
    pub(super) fn new(driver: &DriverName, info: NodeInfo) -> Self {
        let topology = info.topology.map(|it| it.segments.into_map());
        let count = info.max_volumes.filter(|&limit| limit > 0);
        Self {
            driver: driver.to_string(),
            node_id: info.id.into_string(),
            topology: topology.unwrap_or_default(),
            count: count.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)),
        }
    }

    /// `topologyKeys`, in order.
    pub(super) fn topology_keys(&self) -> BTreeSet<&str> {
        self.topology.keys().map(String::as_str).collect()
    }
}

/// The annotation of a Node that holds each driver's node id: one JSON map for all drivers.
pub(super) const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";

/// The map; none if the annotation is not such a map: kubelet refuses to write into it then.
pub(super) fn node_ids(node: &Node) -> Option<BTreeMap<String, String>> {
    match node.annotations().get(NODE_IDS).map(String::as_str) {
        None | Some("") => Some(BTreeMap::new()),
        // Go's JSON decoder reads `null` as an empty map.
        Some(text) => serde_json::from_str::<Option<BTreeMap<_, _>>>(text)
            .ok()
            .map(Option::unwrap_or_default),
    }
}

/// The map as kubelet writes it: keys in order, no blanks.
pub(super) fn node_ids_text(ids: &BTreeMap<String, String>) -> String {
    json!(ids).to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use wasmount_core::attributes::Attributes;
    use wasmount_core::names::NodeId;
    use wasmount_core::topology::Topology;

    /// Facts for tests of the sibling modules.
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
        DriverFacts::new(&DriverName::parse(driver).unwrap(), info)
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
            assert_eq!(facts("a.b", "n", &[], limit).count, count, "{limit:?}");
        }
    }

    fn node(annotation: Option<&str>) -> Node {
        let annotations = annotation.map(|text| json!({ NODE_IDS: text }));
        serde_json::from_value(json!({ "metadata": { "annotations": annotations } })).unwrap()
    }

    #[test]
    fn a_map_is_read_and_written_in_order() {
        let ids = node_ids(&node(Some(r#"{"b":"2","a":"1"}"#))).unwrap();
        assert_eq!(node_ids_text(&ids), r#"{"a":"1","b":"2"}"#);
        for empty in [None, Some(""), Some("{}"), Some("null")] {
            assert_eq!(node_ids(&node(empty)), Some(BTreeMap::new()), "{empty:?}");
        }
    }

    #[test]
    fn what_is_no_map_of_strings_is_rejected() {
        for wrong in ["x", "[]", r#"{"a":1}"#, r#"{"a":"#] {
            assert_eq!(node_ids(&node(Some(wrong))), None, "{wrong}");
        }
    }
}
