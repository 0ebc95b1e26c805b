//! The policy by which a backend writes its own objects only, where all backends of a namespace keep objects of the same kinds: records, leases,
//! capacities, reports.
//!
//! Records have hashes for names, so their label decides; a host takes none for its own that is labelled otherwise (`state/record.rs`). Reading is no
//! admission: RBAC lets an account read all records of its namespace.

use super::{ALL, Policy, rule, writes};
use crate::manifests::Parts;
use crate::manifests::rbac::Part;
use crate::state::DRIVER_LABEL;
use k8s_openapi::api::admissionregistration::v1::{NamedRuleWithOperations, Validation};

/// Whose capacity it is (external-provisioner, `capacity.DriverNameLabel`).
const CAPACITY_LABEL: &str = "csi.storage.k8s.io/drivername";

impl Parts<'_> {
    /// None: it writes no object of such a kind.
    pub(super) fn own_objects(&self) -> Option<Policy> {
        let (writes, validations): (Vec<_>, Vec<_>) = self.kinds().into_iter().unzip();
        (!writes.is_empty()).then(|| Policy {
            part: "own-objects",
            about: "RBAC cannot tell the objects of two backends apart where names are not known before, and no name is when an object is made: the \
                    accounts write those of their own backend only.",
            writes,
            condition: self.by_accounts(&self.parts()),
            variables: Vec::new(),
            validations,
        })
    }

    /// The kinds that its accounts may write, and which objects are its own.
    fn kinds(&self) -> Vec<(NamedRuleWithOperations, Validation)> {
        let driver = self.backend.driver.as_str();
        let name = &self.backend.name;
        let parts = self.parts();
        let mut kinds = Vec::new();
        let mut add = |group: &str, resource: &str, is_own: String| {
            let expression = format!("request.resource.resource != '{resource}' || ({is_own})");
            let message = format!("the backend {name} writes no {resource} of other backends");
            kinds.push((writes(group, &[resource], &ALL), rule(expression, message)));
        };
        if parts.contains(&Part::Controller) {
            add(
                "wasmount.io",
                "backendrecords",
                labelled(DRIVER_LABEL, driver),
            );
        }
        let leases = parts.iter().flat_map(|part| self.leases(*part));
        let leases: Vec<_> = leases.map(|(lease, _)| format!("'{lease}'")).collect();
        if !leases.is_empty() {
            let names = leases.join(", ");
            let is_own = format!("request.name in [{names}]");
            add("coordination.k8s.io", "leases", is_own);
        }
        if self.backend.tells_capacity() {
            let is_own = labelled(CAPACITY_LABEL, driver);
            add("storage.k8s.io", "csistoragecapacities", is_own);
        }
        if self.follows() {
            // No name of a backend holds a dot (`manifests`).
            let is_own = format!(
                "request.name.startsWith('{name}.') && (request.operation == 'DELETE' || object.spec.backend == '{name}')"
            );
            add("wasmount.io", "storagebackendnodes", is_own);
        }
        kinds
    }
}

/// The object has this label, before and after.
fn labelled(label: &str, value: &str) -> String {
    let has =
        |object: &str| format!("{object}.metadata.?labels[?'{label}'].orValue('') == '{value}'");
    format!(
        "(request.operation == 'DELETE' || {}) && (request.operation == 'CREATE' || {})",
        has("object"),
        has("oldObject")
    )
}
