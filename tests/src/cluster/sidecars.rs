//! The standard sidecars, unchanged, for a driver: external-provisioner, -attacher, -resizer, -snapshotter. They run with the flags and permissions
//! that `wasmount manifests` prints for the driver, and are restarted when they exit, as kubelet would do.

use crate::cluster::drivers::{self, Driver};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cluster::access::NODE_NAME;
use xtask::cluster::{Cluster, Service};
use xtask::command;
use xtask::failure::Failure;
use xtask::files;
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

/// The kinds of objects by which claims reach a driver.
const CLASSES: [&str; 2] = ["StorageClass", "VolumeSnapshotClass"];

/// What the names of the sidecars' containers begin with, and those of the host's do not.
const PREFIX: &str = "csi-";

/// external-provisioner.
pub const PROVISIONER: &str = "csi-provisioner";

/// Flags of all kinds, after the printed ones: of a flag that is there twice, the last one counts.
const COMMON: [&str; 5] = [
    // In a pod each has a network of its own. Here those of all drivers share one, and a second one would not find its port free.
    "--http-endpoint=",
    // Most retries wait for another part of Kubernetes, which takes a second; by default the first one comes after a second, then after twice the time.
    "--retry-interval-start=200ms",
    "--retry-interval-max=10s",
    // All tests share a sidecar. By default it makes five requests a second.
    "--kube-api-qps=50",
    "--kube-api-burst=100",
];

/// The flag of a provisioner that writes CSIStorageCapacity objects, and the flags that follow it here.
const CAPACITY: &str = "--enable-capacity";
const OF_CAPACITY: [&str; 2] = [
    // No pod owns the capacity objects: the sidecar is a process beside the kubelet.
    "--capacity-ownerref-level=-1",
    // The default is a minute, for which tests would have to wait.
    "--capacity-poll-interval=5s",
];

/// The sidecars of a driver, with the permissions of its controller.
#[derive(Debug)]
pub struct Sidecars {
    driver: Driver,
    programs: PathBuf,
    kubeconfig: PathBuf,
    /// A file with the printed classes.
    classes: PathBuf,
    containers: Vec<Container>,
}

/// A container of the printed Deployment.
#[derive(Debug, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    args: Vec<String>,
}

impl Sidecars {
    /// Prints the manifests of a document, and grants the permissions in them and no others.
    pub async fn admit(
        driver: &Driver,
        document: &Path,
        workspace: &Workspace,
        cluster: &Cluster,
        client: Client,
    ) -> Result<Self, Failure> {
        let manifests = print(document, workspace)?;
        let write = |extension: &str, kinds: &[&str]| {
            let file = document.with_extension(extension);
            files::write(&file, of_kinds(&manifests, kinds)).map(|()| file)
        };
        let rights = write("rights.yaml", &RIGHTS)?;
        apply(cluster, &rights)?;
        let token = token(driver, client).await?;
        Ok(Self {
            driver: *driver,
            programs: cluster.programs().directory().to_owned(),
            kubeconfig: cluster.kubeconfig_of(driver.name, &token)?,
            classes: write("classes.yaml", &CLASSES)?,
            containers: containers(&of_kinds(&manifests, &["Deployment"]))?,
        })
    }

    /// Creates the printed classes.
    pub fn apply_classes(&self, cluster: &Cluster) -> Result<(), Failure> {
        apply(cluster, &self.classes)
    }

    /// All of them as services. Each exits when the driver's socket is removed, which is by design.
    pub fn services(&self) -> Vec<Service> {
        let sidecars = self.containers.iter();
        sidecars.map(|it| self.beside(it)).collect()
    }

    /// One of them.
    pub fn service(&self, sidecar: &str) -> Result<Service, Failure> {
        let found = self.containers.iter().find(|it| it.name == sidecar);
        found.map(|it| self.beside(it)).ok_or_else(|| {
            Failure::Unexpected(format!(
                "the manifests of {} have no {sidecar}: {:?}",
                self.driver.name, self.containers
            ))
        })
    }

    fn beside(&self, container: &Container) -> Service {
        let program = self.programs.join(&container.name).display().to_string();
        let mut line = vec![program];
        line.extend(container.args.iter().cloned());
        line.push(format!("--csi-address={}", self.driver.socket().display()));
        line.push(format!("--kubeconfig={}", self.kubeconfig.display()));
        let of_capacity = container.args.iter().filter(|it| *it == CAPACITY);
        let more = of_capacity.flat_map(|_| OF_CAPACITY).chain(COMMON);
        line.extend(more.map(str::to_owned));
        let environment = [
            ("NODE_NAME", NODE_NAME),
            ("NAMESPACE", NAMESPACE),
            // There is no pod: the sidecar is a process beside the kubelet.
            ("POD_NAME", "none"),
        ];
        Service {
            name: service_name(&container.name, &self.driver),
            line,
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }
}

/// The name of a driver's sidecar as a service of the cluster.
pub fn service_name(sidecar: &str, driver: &Driver) -> String {
    format!("{sidecar}-{}", driver.name)
}

/// One sidecar of each kind for all nodes, as in the network form, which has no pool on each node.
fn print(document: &Path, workspace: &Workspace) -> Result<String, Failure> {
    let text = files::read_text(document)?;
    let pools = drivers::pools().display().to_string();
    let central = document.with_extension("central.yaml");
    let text = text.replace("path: pools/", &format!("path: {pools}/"));
    files::write(&central, text)?;
    let mut print = Command::new(workspace.host_program());
    print.args(["manifests", "--topology", "network"]);
    print.arg("--cache").arg(workspace.compiled());
    print.args(["--namespace", NAMESPACE, "--backend"]);
    command::read(print.arg(&central))
}

fn apply(cluster: &Cluster, file: &Path) -> Result<(), Failure> {
    let mut apply = cluster.kubectl();
    command::read(apply.args(["apply", "--filename"]).arg(file)).map(drop)
}

/// A token of the service account of a driver's controller.
async fn token(driver: &Driver, client: Client) -> Result<String, Failure> {
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
    Ok(token.status.and_then(|it| it.token).unwrap_or_default())
}

/// The sidecars among the containers of a Deployment.
fn containers(deployment: &str) -> Result<Vec<Container>, Failure> {
    let read = Failure::cannot("read the printed Deployment");
    let object: Value = serde_saphyr::from_str(deployment).map_err(read)?;
    let containers = object.pointer("/spec/template/spec/containers");
    let containers = containers.cloned().unwrap_or_default();
    let mut containers: Vec<Container> = serde_json::from_value(containers)
        .map_err(Failure::cannot("read the containers of the Deployment"))?;
    containers.retain(|it| it.name.starts_with(PREFIX));
    Ok(containers)
}

/// The documents of a YAML stream that are of these kinds.
fn of_kinds(manifests: &str, kinds: &[&str]) -> String {
    let is_meant = |object: &&str| {
        let kind = object.lines().find_map(|it| it.strip_prefix("kind: "));
        kind.is_some_and(|it| kinds.contains(&it))
    };
    let objects: Vec<_> = manifests.split("\n---\n").filter(is_meant).collect();
    objects.join("\n---\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_taken_by_their_kind_and_no_others() {
        let manifests = "# one\nkind: Role\nname: a\n---\nkind: DaemonSet\nkinds: Role\n---\nkind: RoleBinding\n";
        let rights = "# one\nkind: Role\nname: a\n---\nkind: RoleBinding\n";
        assert_eq!(of_kinds(manifests, &RIGHTS), rights);
    }

    #[test]
    fn sidecars_are_containers_of_the_deployment() {
        let deployment = "kind: Deployment
spec:
  template:
    spec:
      containers:
      - {name: wasmount, args: [serve]}
      - {name: csi-provisioner, args: [--a, --b=c]}
      - {name: csi-attacher}
";
        let found = containers(deployment).unwrap();
        let found: Vec<_> = found.iter().map(|it| (&*it.name, &*it.args)).collect();
        let flags = ["--a".to_owned(), "--b=c".to_owned()];
        assert_eq!(
            found,
            [("csi-provisioner", &flags[..]), ("csi-attacher", &[])]
        );
    }
}
