//! The annotation of a Node that holds each driver's node id: one JSON map for all drivers.

use k8s_openapi::api::core::v1::Node;
use std::collections::BTreeMap;

/// Its key.
pub(super) const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";

/// The map; none where the annotation is no such map, which kubelet refuses to write into.
pub(super) fn node_ids(node: &Node) -> Option<BTreeMap<String, String>> {
    let annotations = node.metadata.annotations.as_ref();
    match annotations
        .and_then(|all| all.get(NODE_IDS))
        .map(String::as_str)
    {
        None | Some("") => Some(BTreeMap::new()),
        // `null` is an empty map to Go's reader.
        Some(text) => serde_json::from_str::<Option<BTreeMap<_, _>>>(text)
            .ok()
            .map(Option::unwrap_or_default),
    }
}

/// The map as kubelet writes it: keys in order, no blanks.
pub(super) fn written(ids: &BTreeMap<String, String>) -> String {
    let pairs = ids
        .iter()
        .map(|(driver, id)| (driver.clone(), serde_json::Value::from(id.as_str())));
    serde_json::Value::Object(pairs.collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(annotation: Option<&str>) -> Node {
        let annotations = annotation.map(|text| json!({ NODE_IDS: text }));
        serde_json::from_value(json!({ "metadata": { "annotations": annotations } })).unwrap()
    }

    #[test]
    fn a_map_is_read_and_written_in_order() {
        let ids = node_ids(&node(Some(r#"{"b":"2","a":"1"}"#))).unwrap();
        assert_eq!(written(&ids), r#"{"a":"1","b":"2"}"#);
        for empty in [None, Some(""), Some("{}"), Some("null")] {
            assert_eq!(node_ids(&node(empty)), Some(BTreeMap::new()), "{empty:?}");
        }
    }

    #[test]
    fn what_is_no_map_of_words_is_refused() {
        for wrong in ["x", "[]", r#"{"a":1}"#, r#"{"a":"#] {
            assert_eq!(node_ids(&node(Some(wrong))), None, "{wrong}");
        }
    }
}
