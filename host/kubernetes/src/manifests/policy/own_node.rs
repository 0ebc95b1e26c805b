//! The admission policy for what RBAC cannot say: a node's pod may write its own node's objects only, and of those only what the host writes.
//!
//! A token that is bound to a pod carries the pod's node (`authentication.kubernetes.io/node-name`, Kubernetes 1.32).

use super::{ALL, Policy, rule, writes};
use crate::manifests::Parts;
use crate::manifests::rbac::Part;
use k8s_openapi::api::admissionregistration::v1::{NamedRuleWithOperations, Validation, Variable};

/// Of the token, in the words of the API.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

impl Parts<'_> {
    pub(super) fn own_node(&self) -> Policy {
        Policy {
            part: "own-node",
            about: "RBAC cannot tell nodes apart: the account may write the objects of the node that its pod runs on, and of a Node only take the \
                    driver's startup taint away.",
            writes: self.guarded(),
            condition: self.by_accounts(&[Part::Node]),
            variables: variables(),
            validations: self.validations(),
        }
    }

    fn validations(&self) -> Vec<Validation> {
        let taint = format!("{}/agent-not-ready", self.backend.driver);
        let mut rules = vec![
            rule(
                self.own_name(),
                "a driver's pod writes the objects of its own node only",
            ),
            rule(
                "request.resource.resource != 'nodes' || (request.operation == 'UPDATE' && request.?subResource.orValue('') == '')",
                "a driver's pod neither makes nor removes nodes, nor writes their status",
            ),
            rule(
                "request.resource.resource != 'nodes' || request.operation != 'UPDATE' || (\
                 variables.labels == variables.oldLabels && variables.annotations == variables.oldAnnotations && \
                 object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences && \
                 object.metadata.?finalizers == oldObject.metadata.?finalizers && \
                 object.spec.?unschedulable == oldObject.spec.?unschedulable && \
                 object.spec.?providerID == oldObject.spec.?providerID && \
                 object.spec.?podCIDR == oldObject.spec.?podCIDR && \
                 object.spec.?podCIDRs == oldObject.spec.?podCIDRs && \
                 object.spec.?configSource == oldObject.spec.?configSource)",
                "a driver's pod changes nothing of a node but its own startup taint",
            ),
            rule(
                format!(
                    "request.resource.resource != 'nodes' || request.operation != 'UPDATE' || (\
                     variables.taints.all(t, variables.oldTaints.exists(o, o == t)) && \
                     variables.oldTaints.all(o, o.key == '{taint}' || variables.taints.exists(t, t == o)))"
                ),
                format!("a driver's pod removes the taint {taint} and no other, and adds none"),
            ),
        ];
        // Where the node's pods summarise as well, one of them takes reports away whose node is no more.
        if self.follows() {
            rules.push(rule(
                "request.resource.resource != 'storagebackendnodes' || request.operation == 'DELETE' || (\
                 object.spec.host == variables.node && \
                 (request.operation == 'CREATE' || oldObject.spec.host == variables.node))",
                "a driver's pod reports of its own node only",
            ));
        }
        rules
    }

    /// Reports are not named by their node.
    fn own_name(&self) -> &'static str {
        if self.follows() {
            "variables.node != '' && (request.resource.group == 'wasmount.io' || request.name == variables.node)"
        } else {
            "variables.node != '' && request.name == variables.node"
        }
    }

    /// What the node's account may write at all, and must be narrowed to its node.
    fn guarded(&self) -> Vec<NamedRuleWithOperations> {
        let mut all = vec![
            writes("", &["nodes", "nodes/status"], &ALL),
            writes("storage.k8s.io", &["csinodes"], &ALL),
        ];
        if self.follows() {
            all.push(writes("wasmount.io", &["storagebackendnodes"], &ALL));
        }
        all
    }
}

/// What several rules read; an absent field is an empty one.
fn variables() -> Vec<Variable> {
    let metadata = |object: &str, field: &str| {
        format!("request.operation != 'UPDATE' ? {{}} : {object}.metadata.?{field}.orValue({{}})")
    };
    let taints = |object: &str| {
        format!(
            "request.resource.resource != 'nodes' || request.operation != 'UPDATE' ? [] : {object}.spec.?taints.orValue([])"
        )
    };
    let node = format!("request.userInfo.?extra[?'{NODE_NAME}'].orValue([''])[0]");
    [
        ("node", node),
        ("labels", metadata("object", "labels")),
        ("oldLabels", metadata("oldObject", "labels")),
        ("annotations", metadata("object", "annotations")),
        ("oldAnnotations", metadata("oldObject", "annotations")),
        ("taints", taints("object")),
        ("oldTaints", taints("oldObject")),
    ]
    .map(|(name, expression)| Variable {
        name: name.to_owned(),
        expression,
    })
    .into()
}
