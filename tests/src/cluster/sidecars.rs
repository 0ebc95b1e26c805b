//! The standard sidecars, unchanged, beside a driver: external-provisioner, -attacher, -resizer, -snapshotter. Apart because nothing in them is
//! ours: each runs with the rights that its own project gives it, and is started again when it exits, as kubelet would.

use crate::cluster::drivers::Driver;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use std::path::{Path, PathBuf};
use xtask::cluster::access::NODE_NAME;
use xtask::cluster::{Cluster, Service};
use xtask::command;
use xtask::failure::Failure;
use xtask::tools::{self, Tool};
use xtask::workspace::Workspace;

/// Where the sidecars' own manifests place their service accounts.
const NAMESPACE: &str = "default";

/// Of a token: longer than any run of the tests, in seconds.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

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

impl Sidecar {
    /// All.
    pub const ALL: [Self; 4] = [
        Self::Provisioner,
        Self::Attacher,
        Self::Resizer,
        Self::Snapshotter,
    ];

    /// Its program, and its service account.
    fn name(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
            Self::Snapshotter => "csi-snapshotter",
        }
    }

    /// The tool that it is built as, its Go module, and where its rights stand in there.
    fn rights(self) -> (Tool, &'static str, &'static str) {
        match self {
            Self::Provisioner => (
                tools::CSI_PROVISIONER,
                "github.com/kubernetes-csi/external-provisioner/v6",
                "deploy/kubernetes/rbac.yaml",
            ),
            Self::Attacher => (
                tools::CSI_ATTACHER,
                "github.com/kubernetes-csi/external-attacher/v4",
                "deploy/kubernetes/rbac.yaml",
            ),
            Self::Resizer => (
                tools::CSI_RESIZER,
                "github.com/kubernetes-csi/external-resizer/v2",
                "deploy/kubernetes/rbac.yaml",
            ),
            Self::Snapshotter => (
                tools::CSI_SNAPSHOTTER,
                "github.com/kubernetes-csi/external-snapshotter/v8",
                "deploy/kubernetes/csi-snapshotter/rbac-csi-snapshotter.yaml",
            ),
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Provisioner => &[
                "--feature-gates=Topology=true",
                "--strict-topology",
                "--extra-create-metadata",
                "--enable-capacity",
                // No pod owns the capacity objects: it is a process beside the kubelet.
                "--capacity-ownerref-level=-1",
                // A minute by default, which tests would wait for.
                "--capacity-poll-interval=5s",
                "--retry-interval-max=10s",
            ],
            Self::Attacher => &["--retry-interval-max=10s"],
            Self::Resizer => &["--retry-interval-max=10s"],
            Self::Snapshotter => &[
                "--retry-interval-max=10s",
                "--feature-gates=CSIVolumeGroupSnapshot=true",
            ],
        }
    }

    /// Gives it the rights of its own manifests, and makes a kubeconfig of its service account.
    pub async fn admit(
        self,
        workspace: &Workspace,
        cluster: &Cluster,
        client: Client,
    ) -> Result<PathBuf, Failure> {
        let (tool, module, file) = self.rights();
        let manifest = tool.sources_of(workspace, module)?.join(file);
        let mut apply = cluster.kubectl();
        command::read(apply.args(["apply", "--filename"]).arg(manifest))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let token = accounts
            .create_token_request(self.name(), &PostParams::default(), &request)
            .await
            .map_err(Failure::kubernetes(format!(
                "get a token for {}",
                self.name()
            )))?;
        let token = token.status.and_then(|it| it.token).unwrap_or_default();
        cluster.kubeconfig_of(self.name(), &token)
    }

    /// It beside a driver. It exits when the driver's socket goes away, which is by design.
    pub fn beside(self, driver: &Driver, cluster: &Cluster, kubeconfig: &Path) -> Service {
        let program = cluster.programs().path(self.name());
        let [program, kubeconfig, socket] =
            [&program, kubeconfig, &driver.socket()].map(|path| path.display().to_string());
        let mut line = vec![program, "--kubeconfig".to_owned(), kubeconfig];
        line.extend(["--csi-address".to_owned(), socket]);
        line.extend(self.arguments().iter().map(ToString::to_string));
        let environment = [
            ("NODE_NAME", NODE_NAME),
            ("NAMESPACE", NAMESPACE),
            // None: it is a process beside the kubelet.
            ("POD_NAME", "none"),
        ];
        Service {
            name: format!("{}-{}", self.name(), driver.name),
            line,
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            again: true,
        }
    }
}
