//! Startup taints: `<driver>/agent-not-ready`, with any effect, keeps pods from a node until the driver can serve them. The provisioner of a node
//! sets them (as for `ebs.csi.aws.com/agent-not-ready`). The host removes them once the driver is listed, and never adds one: running pods would be
//! evicted.

use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::guarded_patch::GuardedPatch;
use crate::request::answered;
use k8s_openapi::api::core::v1::Node;
use kube::api::PatchParams;
use kube::{Api, Client};
use serde_json::json;

/// The part after the driver's name and a slash.
const AGENT_NOT_READY: &str = "agent-not-ready";

/// The key of a driver's startup taint.
pub(crate) fn key(driver: &str) -> String {
    format!("{driver}/{AGENT_NOT_READY}")
}

/// Removes a driver's startup taints from a Node; none: it has none. Taints of others may change meanwhile: the patch tests those that it removes, at
/// their positions, and nothing else.
pub(crate) fn removal(node: &Node, driver: &str) -> Option<GuardedPatch> {
    let key = key(driver);
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    let own: Vec<_> = taints
        .iter()
        .enumerate()
        .filter(|(_, taint)| taint.key == key)
        .map(|(at, taint)| (at.to_string(), taint))
        .collect();
    let tests = own.iter().flat_map(|(at, taint)| {
        [
            (["spec", "taints", at, "key"], json!(taint.key)),
            (["spec", "taints", at, "effect"], json!(taint.effect)),
        ]
    });
    let mut patch = GuardedPatch::where_fields(tests);
    // From the end: each removal moves the entries after it.
    for (at, _) in own.iter().rev() {
        patch.remove(["spec", "taints", at]);
    }
    patch.if_any()
}

/// Sends the patch that removes the taints.
pub(crate) async fn remove(
    client: &Client,
    node_name: &str,
    patch: GuardedPatch,
) -> Result<(), KubernetesError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let (parameters, patch) = (PatchParams::apply(FIELD_MANAGER), patch.into_patch());
    let patched = nodes.patch(node_name, &parameters, &patch);
    let what = format!("remove the startup taint of Node {node_name}");
    answered(what, patched).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Taint;

    fn node(taints: &[(&str, &str)]) -> Node {
        let taints: Vec<_> = taints
            .iter()
            .map(|(key, effect)| json!({ "key": key, "effect": effect }))
            .collect();
        serde_json::from_value(json!({ "metadata": { "name": "w" }, "spec": { "taints": taints } }))
            .unwrap()
    }

    fn keys(node: &Node) -> Vec<(&str, &str)> {
        let taints: &[Taint] = node.spec.as_ref().unwrap().taints.as_ref().unwrap();
        let taints = taints.iter();
        taints.map(|it| (&*it.key, &*it.effect)).collect()
    }

    #[test]
    fn all_startup_taints_of_a_driver_go_and_no_other() {
        let before = node(&[
            ("a.b/agent-not-ready", "NoExecute"),
            ("gpu", "NoSchedule"),
            ("a.b/agent-not-ready", "NoSchedule"),
            ("x.a.b/agent-not-ready", "NoExecute"),
            ("a.b/other", "NoSchedule"),
        ]);
        let after = removal(&before, "a.b").unwrap().applied(&before).unwrap();
        assert_eq!(
            keys(&after),
            [
                ("gpu", "NoSchedule"),
                ("x.a.b/agent-not-ready", "NoExecute"),
                ("a.b/other", "NoSchedule"),
            ]
        );
        assert_eq!(removal(&after, "a.b"), None);
        assert_eq!(removal(&Node::default(), "a.b"), None);
    }

    #[test]
    fn a_node_whose_taints_moved_meanwhile_is_left_as_it_is() {
        let read = node(&[("a.b/agent-not-ready", "NoExecute"), ("gpu", "NoSchedule")]);
        let moved = node(&[("gpu", "NoSchedule"), ("a.b/agent-not-ready", "NoExecute")]);
        let patch = removal(&read, "a.b").unwrap();
        assert!(patch.applied(&moved).is_err());
        let grown = node(&[
            ("a.b/agent-not-ready", "NoExecute"),
            ("gpu", "NoSchedule"),
            ("new", "NoSchedule"),
        ]);
        let after = patch.applied(&grown).unwrap();
        assert_eq!(keys(&after), [("gpu", "NoSchedule"), ("new", "NoSchedule")]);
    }
}
