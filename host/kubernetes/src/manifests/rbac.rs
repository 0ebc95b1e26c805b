//! What the pods may ask of the API server: accounts, roles, bindings.
//!
//! The sidecars' needs are those of their own `deploy/kubernetes/rbac.yaml`, less what belongs to capabilities that the driver has not.

mod rights;

use super::{Form, Manifest, ManifestsError, Parts};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject,
};
pub(super) use rights::Right;
use rights::reasons;

/// A pod's part in the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// On each node.
    Node,
    /// For all of them.
    Controller,
}

impl Part {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Controller => "controller",
        }
    }
}

impl Parts<'_> {
    /// The parts that there are: a node-local driver has its controller in the node's pods.
    pub(super) fn parts(&self) -> Vec<Part> {
        match self.choices.form {
            Form::NodeLocal => vec![Part::Node],
            Form::Network if self.sidecars().is_empty() => vec![Part::Node],
            Form::Network => vec![Part::Node, Part::Controller],
        }
    }

    /// The part with the sidecars.
    pub(super) fn is_controller(&self, part: Part) -> bool {
        self.parts().last() == Some(&part)
    }

    pub(super) fn access(&self) -> Result<Vec<Manifest>, ManifestsError> {
        let mut all = Vec::new();
        for part in self.parts() {
            all.extend(self.access_of(part)?);
        }
        Ok(all)
    }

    fn access_of(&self, part: Part) -> Result<Vec<Manifest>, ManifestsError> {
        let name = self.named(part.name());
        let account = ServiceAccount {
            metadata: self.meta(name.clone()),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        };
        let about = "Its token is projected into the containers that ask the API server, and not into the mounter.";
        let mut all = vec![Manifest::new(about, &account)?];
        let subject = Subject {
            kind: "ServiceAccount".to_owned(),
            name: name.clone(),
            namespace: Some(self.choices.namespace.clone()),
            ..Subject::default()
        };
        let refer = |kind: &str| RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: kind.to_owned(),
            name: name.clone(),
        };

        let rights = self.of_the_cluster(part);
        let role = ClusterRole {
            metadata: self.cluster_meta(name.clone()),
            rules: Some(rights.iter().map(Right::rule).collect()),
            ..ClusterRole::default()
        };
        all.push(Manifest::new(reasons(&rights), &role)?);
        let binding = ClusterRoleBinding {
            metadata: self.cluster_meta(name.clone()),
            role_ref: refer("ClusterRole"),
            subjects: Some(vec![subject.clone()]),
        };
        all.push(Manifest::new("", &binding)?);

        let rights = self.of_the_namespace(part);
        if !rights.is_empty() {
            let role = Role {
                metadata: self.meta(name.clone()),
                rules: Some(rights.iter().map(Right::rule).collect()),
            };
            all.push(Manifest::new(reasons(&rights), &role)?);
            let binding = RoleBinding {
                metadata: self.meta(name.clone()),
                role_ref: refer("Role"),
                subjects: Some(vec![subject]),
            };
            all.push(Manifest::new("", &binding)?);
        }
        Ok(all)
    }
}
