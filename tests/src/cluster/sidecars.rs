//! The standard sidecars, unchanged, for a driver: external-provisioner, -attacher, -resizer, -snapshotter. They run with the permissions that
//! `wasmount manifests` prints for the driver, and are restarted when they exit, as kubelet would do.

use crate::cluster::drivers::{self, Driver};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cluster::access::NODE_NAME;
use xtask::cluster::{Cluster, Service};
use xtask::command;
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// The namespace of the driver's service account.
const NAMESPACE: &str = "default";

/// Lifetime of a token: longer than any run of the tests, in seconds.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// The kinds of objects that grant permissions, among all objects that a backend needs.
const RIGHTS: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// One kind of sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sidecar {
    /// external-provisioner.
    Provisioner,
    /// external-attacher.
    Attacher,
    /// external-resizer.
    Resizer,
    /// external-snapshotter's sidecar.
    Snapshotter,
}

/// Flags of all kinds.
const COMMON: [&str; 4] = [
    // Most retries wait for another part of Kubernetes, which takes a second; by default the first one comes after a second, then after twice the time.
    "--retry-interval-start=200ms",
    "--retry-interval-max=10s",
    // All tests share a sidecar. By default it makes five requests a second.
    "--kube-api-qps=50",
    "--kube-api-burst=100",
];

impl Sidecar {
    /// Its program.
    fn name(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
            Self::Snapshotter => "csi-snapshotter",
        }
    }

    /// Flags of its kind only.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Provisioner => &[
                "--feature-gates=Topology=true",
                "--strict-topology",
                "--extra-create-metadata",
                "--enable-capacity",
                // No pod owns the capacity objects: the sidecar is a process beside the kubelet.
                "--capacity-ownerref-level=-1",
                // The default is a minute, for which tests would have to wait.
                "--capacity-poll-interval=5s",
            ],
            Self::Attacher => &[],
            Self::Resizer => &[
                // As in the manifests for a driver that expands volumes in use: otherwise the sidecar lists all pods.
                "--handle-volume-inuse-error=false",
            ],
            Self::Snapshotter => &["--feature-gates=CSIVolumeGroupSnapshot=true"],
        }
    }

    /// The sidecar as a service for a driver. It exits when the driver's socket is removed, which is by design.
    pub fn beside(self, driver: &Driver, cluster: &Cluster, kubeconfig: &Path) -> Service {
        let program = cluster.programs().path(self.name());
        let [program, kubeconfig, socket] =
            [&program, kubeconfig, &driver.socket()].map(|path| path.display().to_string());
        let mut line = vec![program, "--kubeconfig".to_owned(), kubeconfig];
        line.extend(["--csi-address".to_owned(), socket]);
        let arguments = COMMON.iter().chain(self.arguments());
        line.extend(arguments.map(ToString::to_string));
        let environment = [
            ("NODE_NAME", NODE_NAME),
            ("NAMESPACE", NAMESPACE),
            // There is no pod: the sidecar is a process beside the kubelet.
            ("POD_NAME", "none"),
        ];
        Service {
            name: format!("{}-{}", self.name(), driver.name),
            line,
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }
}

/// Grants a driver's sidecars the permissions that are printed for it, and no others; creates a kubeconfig of its service account.
pub async fn admit(
    driver: &Driver,
    workspace: &Workspace,
    cluster: &Cluster,
    client: Client,
) -> Result<PathBuf, Failure> {
    let document = driver.document(cluster);
    let text = fs::read_to_string(&document)
        .map_err(Failure::cannot(format!("read {}", document.display())))?;
    // One sidecar of each kind for all nodes, as in the network form, which has no pool on each node.
    let pools = drivers::pools().display().to_string();
    let central = document.with_extension("central.yaml");
    fs::write(
        &central,
        text.replace("path: pools/", &format!("path: {pools}/")),
    )
    .map_err(Failure::cannot(format!("write {}", central.display())))?;
    let mut print = Command::new(workspace.host_program());
    print.args(["manifests", "--topology", "network"]);
    print.args(["--namespace", NAMESPACE, "--backend"]);
    let manifests = command::read(print.arg(&central))?;
    let rights = document.with_extension("rights.yaml");
    fs::write(&rights, rights_in(&manifests))
        .map_err(Failure::cannot(format!("write {}", rights.display())))?;
    let mut apply = cluster.kubectl();
    command::read(apply.args(["apply", "--filename"]).arg(&rights))?;

    let account = format!("wasmount-{}-controller", driver.instance());
    let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request(&account, &PostParams::default(), &request)
        .await
        .map_err(Failure::cannot(format!("get a token for {account}")))?;
    let token = token.status.and_then(|it| it.token).unwrap_or_default();
    cluster.kubeconfig_of(driver.name, &token)
}

/// The documents of a YAML stream that grant permissions.
fn rights_in(manifests: &str) -> String {
    let is_right = |object: &&str| {
        let kind = object.lines().find_map(|it| it.strip_prefix("kind: "));
        kind.is_some_and(|it| RIGHTS.contains(&it))
    };
    let objects: Vec<_> = manifests.split("\n---\n").filter(is_right).collect();
    objects.join("\n---\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_taken_from_manifests_and_nothing_else() {
        let manifests = "# one\nkind: Role\nname: a\n---\nkind: DaemonSet\nkinds: Role\n---\nkind: RoleBinding\n";
        let rights = "# one\nkind: Role\nname: a\n---\nkind: RoleBinding\n";
        assert_eq!(rights_in(manifests), rights);
    }
}
