//! Which rights a part of the driver needs, and why: a table over its sidecars and capabilities.

mod of_sidecars;

use super::Part;
use crate::election::lease_of;
use crate::manifests::Parts;
use crate::manifests::sidecars::Sidecar;
use crate::storage_backend::lease;
use k8s_openapi::api::rbac::v1::PolicyRule;

const READ: [&str; 3] = ["get", "list", "watch"];

/// A right and its reason.
pub(in crate::manifests) struct Right {
    group: &'static str,
    resources: Vec<&'static str>,
    verbs: Vec<&'static str>,
    /// Objects by name; empty: all.
    names: Vec<String>,
    why: Vec<&'static str>,
}

impl Right {
    pub(in crate::manifests) fn new<const N: usize>(
        group: &'static str,
        resource: &'static str,
        verbs: [&'static str; N],
        why: &'static str,
    ) -> Self {
        Self {
            group,
            resources: vec![resource],
            verbs: verbs.into(),
            names: Vec::new(),
            why: vec![why],
        }
    }

    /// To one object.
    pub(in crate::manifests) fn only(mut self, name: String) -> Self {
        self.names = vec![name];
        self
    }

    pub(super) fn rule(&self) -> PolicyRule {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        PolicyRule {
            api_groups: Some(owned(&[self.group])),
            resources: Some(owned(&self.resources)),
            verbs: owned(&self.verbs),
            resource_names: (!self.names.is_empty()).then(|| self.names.clone()),
            ..PolicyRule::default()
        }
    }
}

impl Parts<'_> {
    pub(super) fn of_the_cluster(&self, part: Part) -> Vec<Right> {
        let storage = "storage.k8s.io";
        let mut rights = vec![Right::new(
            "events.k8s.io",
            "events",
            ["create", "patch"],
            "events on nodes, pods, claims and the CSIDriver, which lie in any namespace",
        )];
        if self.is_controller(part) {
            rights.push(Right {
                // Server-side apply of a missing object asks for `create` with its name.
                names: vec![self.backend.driver.to_string()],
                ..Right::new(
                    storage,
                    "csidrivers",
                    ["get", "create", "patch"],
                    "the driver's own CSIDriver object (--csidriver apply)",
                )
            });
        }
        if part == Part::Node {
            rights.push(Right::new(
                storage,
                "csinodes",
                READ,
                "whether kubelet lists the driver",
            ));
            rights.push(Right::new(
                "",
                "nodes",
                ["get", "list", "watch", "patch"],
                "whether topology labels are right; to remove the driver's startup taint. The policy below narrows `patch` to the pod's own node",
            ));
        }
        if self.is_controller(part) {
            for sidecar in self.sidecars() {
                rights.extend(self.of_sidecar(sidecar.kind));
            }
        }
        rights.extend(self.object_rights(part));
        merged(rights)
    }

    pub(super) fn of_the_namespace(&self, part: Part) -> Vec<Right> {
        let mut rights = self.object_rights_there();
        let leases = "coordination.k8s.io";
        for (lease, why) in self.leases(part) {
            rights.push(Right::new(leases, "leases", ["get", "update"], why).only(lease));
            rights.push(Right::new(
                leases,
                "leases",
                ["create"],
                "those leases, the first time. The policy below narrows it to their names",
            ));
        }
        if !self.is_controller(part) {
            return rights;
        }
        if part == Part::Controller {
            rights.push(Right::new(
                "wasmount.io",
                "backendrecords",
                ["get", "list", "watch", "create", "patch", "delete"],
                "the controller's records (--state kubernetes). The policy below narrows writes to those of the driver",
            ));
        }
        if self.backend.tells_capacity() {
            rights.push(Right::new(
                "storage.k8s.io",
                "csistoragecapacities",
                [
                    "get", "list", "watch", "create", "update", "patch", "delete",
                ],
                "csi-provisioner: how much is free, for the scheduler. The policy below narrows writes to those of the driver",
            ));
            rights.push(Right::new(
                "",
                "pods",
                ["get"],
                "csi-provisioner: the owner of capacities",
            ));
            if part == Part::Controller {
                rights.push(Right::new(
                    "apps",
                    "replicasets",
                    ["get"],
                    "csi-provisioner: the owner above the pod",
                ));
            }
        }
        merged(rights)
    }

    /// The leases that a part stands for by name, and why.
    pub(in crate::manifests) fn leases(&self, part: Part) -> Vec<(String, &'static str)> {
        let mut leases = Vec::new();
        if !self.is_controller(part) {
            return leases;
        }
        let driver = &self.backend.driver;
        if part == Part::Controller {
            let why = "which of the controllers works (--leader-election)";
            leases.push((lease_of(driver), why));
        }
        if self.follows() {
            let why = "which host writes the summary (--storage-backend-status)";
            leases.push((lease(Some(&self.own_object())), why));
        }
        let elected = self.sidecars().into_iter().filter(Sidecar::is_elected);
        leases.extend(elected.map(|it| (it.kind.lease(driver), "elections of sidecars")));
        leases
    }
}

/// One rule a resource, with all verbs and reasons.
fn merged(rights: Vec<Right>) -> Vec<Right> {
    let mut merged: Vec<Right> = Vec::new();
    for right in rights {
        let same = merged.iter_mut().find(|other| {
            (other.group, &other.resources, &other.names)
                == (right.group, &right.resources, &right.names)
        });
        let Some(other) = same else {
            merged.push(right);
            continue;
        };
        for verb in right.verbs {
            if !other.verbs.contains(&verb) {
                other.verbs.push(verb);
            }
        }
        for why in right.why {
            if !other.why.contains(&why) {
                other.why.push(why);
            }
        }
    }
    merged
}

pub(super) fn reasons(rights: &[Right]) -> String {
    let line = |right: &Right| format!("{}: {}", right.resources.join(", "), right.why.join("; "));
    rights.iter().map(line).collect::<Vec<_>>().join("\n")
}
