//! The containers of a pod and what of the node each of them sees.

use super::config::{CONFIG_DIR, DOCUMENT_KEY, SECRETS_DIR};
use super::rbac::Part;
use super::sidecars::{Kind, Sidecar};
use super::{Form, Parts};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction,
    ObjectFieldSelector, Probe, ResourceRequirements, SeccompProfile, SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Directories in the pods.
pub(super) const DATA_DIR: &str = "/var/lib/wasmount";
pub(super) const RUN_DIR: &str = "/run/wasmount";
pub(super) const MOUNTER_DIR: &str = "/run/wasmount-mounter";
pub(super) const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const CSI_DIR: &str = "/csi";

/// Names of the volumes.
pub(super) const KUBELET: &str = "kubelet";
pub(super) const REGISTRY: &str = "plugins-registry";
pub(super) const SOCKET: &str = "csi-socket";
pub(super) const STORE: &str = "store";
pub(super) const MOUNTS: &str = "mounts";
pub(super) const RUN: &str = "run";
pub(super) const MOUNTER: &str = "mounter";
pub(super) const DEVICES: &str = "dev";
pub(super) const CONFIG: &str = "config";
pub(super) const SECRETS: &str = "secrets";
pub(super) const TOKEN: &str = "api-token";

/// What a volume of a pool is called.
pub(super) fn pool_volume(pool: &str) -> String {
    format!("pool-{pool}")
}

/// A slow start is a large component that is compiled: 60 times 2 s.
const STARTUP_CHECKS: i32 = 60;
const STARTUP_PERIOD: i32 = 2;
/// Seconds between checks of a running container.
const PERIOD: i32 = 10;
const HEALTH_PORT: &str = "health";

/// CPU and memory to be reserved. Measured with the hostpath plugin: the host has 53 MiB resident (5 of them its own, the rest of files), and
/// 75 at its peak, when it compiles; the mounter 29 (4); three sidecars 160 together. The host has no limit: one that is killed in
/// the middle of a call costs its pods more than its memory.
const HOST: [&str; 2] = ["10m", "80Mi"];
const MOUNTER_NEEDS: [&str; 2] = ["10m", "32Mi"];
/// Memory of the mounter at most: it works on what pods wrote, and must not take the node's for that. A walk takes 16 MiB at most, and one driver
/// has 16 copies at a time (256 MiB); the rest is for `fsck`, which takes 0.5 GiB for a file system of some terabytes.
const MOUNTER_LIMIT: &str = "1Gi";
const SIDECAR_NEEDS: [&str; 2] = ["5m", "56Mi"];

impl Parts<'_> {
    /// `wasmount serve`.
    pub(super) fn host(&self, part: Part) -> Container {
        let choices = self.choices;
        let on_a_node = part == Part::Node;
        let role = match (choices.form, part) {
            (Form::NodeLocal, _) => "all",
            (Form::Network, Part::Node) => "node",
            (Form::Network, Part::Controller) => "controller",
        };
        let sockets = if on_a_node {
            self.kubelet_dir("plugins")
        } else {
            CSI_DIR.to_owned()
        };
        let mut args = vec!["serve".to_owned()];
        args.extend(self.documents(part, format!("{CONFIG_DIR}/{DOCUMENT_KEY}")));
        args.extend([
            format!("--role={role}"),
            format!("--data-dir={DATA_DIR}"),
            format!("--socket-dir={sockets}"),
            format!("--listen-health={}", self.health_address(part)),
        ]);
        if on_a_node {
            args.push(format!("--kubelet-dir={}", self.kubelet_dir("")));
            args.push("--node-id=$(NODE_NAME)".to_owned());
            args.push("--node-name=$(NODE_NAME)".to_owned());
            args.push(format!("--mounter=unix:{MOUNTER_DIR}/mounter.sock"));
            args.push("--registration=on".to_owned());
        } else {
            args.push(format!("--run-dir={RUN_DIR}"));
            args.push("--state=kubernetes".to_owned());
            args.push("--leader-election".to_owned());
        }
        if !self.is_controller(part) {
            // One writer is enough.
            args.push("--csidriver=off".to_owned());
        }
        Container {
            name: "wasmount".to_owned(),
            image: Some(choices.image.clone()),
            args: Some(args),
            env: Some(downward()),
            ports: Some(vec![ContainerPort {
                name: Some(HEALTH_PORT.to_owned()),
                container_port: i32::from(choices.health_port),
                ..ContainerPort::default()
            }]),
            startup_probe: Some(self.probe(part, "/healthz", STARTUP_PERIOD, STARTUP_CHECKS)),
            liveness_probe: Some(self.probe(part, "/healthz", PERIOD, 3)),
            readiness_probe: Some(self.probe(part, "/readyz", PERIOD, 1)),
            resources: Some(requests(HOST)),
            security_context: Some(self.without_rights(part)),
            volume_mounts: Some(self.seen_by_host(part)),
            ..Container::default()
        }
    }

    fn seen_by_host(&self, part: Part) -> Vec<VolumeMount> {
        let mut seen = vec![
            mount(STORE, DATA_DIR),
            read_only(CONFIG, CONFIG_DIR),
            read_only(TOKEN, TOKEN_DIR),
        ];
        let sockets = self.backend.driver.as_str();
        if part == Part::Node {
            seen.push(mount(
                SOCKET,
                &self.kubelet_dir(&format!("plugins/{sockets}")),
            ));
            seen.push(mount(REGISTRY, &self.kubelet_dir("plugins_registry")));
            seen.push(mount(MOUNTER, MOUNTER_DIR));
        } else {
            seen.push(mount(SOCKET, &format!("{CSI_DIR}/{sockets}")));
            seen.push(mount(RUN, RUN_DIR));
            seen.extend(self.pools());
        }
        if self.mounts_secrets() {
            seen.push(read_only(SECRETS, SECRETS_DIR));
        }
        seen
    }

    /// Pools of absolute paths, at those paths.
    fn pools(&self) -> Vec<VolumeMount> {
        let pools = self.backend.pools.iter();
        pools
            .filter(|(_, path)| path.is_absolute())
            .map(|(pool, path)| mount(&pool_volume(pool), &path.display().to_string()))
            .collect()
    }

    /// `wasmount mounter`: the only privileged container.
    pub(super) fn mounter(&self) -> Container {
        let kubelet = self.kubelet_dir("");
        let args = vec![
            "mounter".to_owned(),
            format!("--backend={CONFIG_DIR}/{DOCUMENT_KEY}"),
            format!("--data-dir={DATA_DIR}"),
            format!("--run-dir={RUN_DIR}"),
            format!("--kubelet-dir={kubelet}"),
            format!("--socket={MOUNTER_DIR}/mounter.sock"),
        ];
        let mut seen = vec![
            VolumeMount {
                mount_propagation: Some("Bidirectional".to_owned()),
                ..mount(KUBELET, &kubelet)
            },
            mount(MOUNTS, DATA_DIR),
            mount(RUN, RUN_DIR),
            mount(MOUNTER, MOUNTER_DIR),
            read_only(CONFIG, CONFIG_DIR),
        ];
        seen.extend(self.pools());
        if self.backend.needs_devices() {
            seen.push(mount(DEVICES, "/dev"));
        }
        Container {
            name: "mounter".to_owned(),
            image: Some(self.choices.image.clone()),
            args: Some(args),
            resources: Some(ResourceRequirements {
                limits: Some([amount("memory", MOUNTER_LIMIT)].into()),
                ..requests(MOUNTER_NEEDS)
            }),
            security_context: Some(SecurityContext {
                privileged: Some(true),
                run_as_user: Some(0),
                read_only_root_filesystem: Some(true),
                ..SecurityContext::default()
            }),
            volume_mounts: Some(seen),
            ..Container::default()
        }
    }

    pub(super) fn sidecar(&self, sidecar: Sidecar) -> Container {
        let Sidecar { kind, arguments } = sidecar;
        let mut args = vec![format!("--csi-address={CSI_DIR}/csi.sock")];
        args.extend(arguments.into_iter().map(str::to_owned));
        let name = kind.name();
        let registry = &self.choices.sidecar_registry;
        let named = matches!(kind, Kind::Provisioner | Kind::Snapshotter);
        Container {
            name: name.to_owned(),
            image: Some(format!("{registry}/{name}:{}", kind.version())),
            args: Some(args),
            env: named.then(downward),
            resources: Some(requests(SIDECAR_NEEDS)),
            security_context: Some(locked_down(None)),
            volume_mounts: Some(vec![mount(SOCKET, CSI_DIR), read_only(TOKEN, TOKEN_DIR)]),
            ..Container::default()
        }
    }

    /// Whether the pod is on the node's network.
    pub(super) fn on_host_network(&self, part: Part) -> bool {
        part == Part::Node && (self.choices.host_network || self.backend.mounts_from_network)
    }

    fn health_address(&self, part: Part) -> String {
        let address = if self.on_host_network(part) {
            "127.0.0.1"
        } else {
            "0.0.0.0"
        };
        format!("{address}:{}", self.choices.health_port)
    }

    fn probe(&self, part: Part, path: &str, period: i32, failures: i32) -> Probe {
        let on_host = self.on_host_network(part);
        Probe {
            http_get: Some(HTTPGetAction {
                path: Some(path.to_owned()),
                port: IntOrString::String(HEALTH_PORT.to_owned()),
                host: on_host.then(|| "127.0.0.1".to_owned()),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(period),
            failure_threshold: Some(failures),
            timeout_seconds: Some(PERIOD / 2),
            ..Probe::default()
        }
    }

    /// A controller changes pools itself: what lies in them belongs to pods' users.
    fn without_rights(&self, part: Part) -> SecurityContext {
        let of_pools = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"];
        let changes_pools = part == Part::Controller && !self.backend.pools.is_empty();
        locked_down(changes_pools.then(|| of_pools.map(str::to_owned).into()))
    }
}

/// User 0, because the sockets and directories of kubelet are root's, and nothing that root may do besides.
fn locked_down(added: Option<Vec<String>>) -> SecurityContext {
    SecurityContext {
        run_as_user: Some(0),
        privileged: Some(false),
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            add: added,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..SecurityContext::default()
    }
}

fn requests([cpu, memory]: [&str; 2]) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some([amount("cpu", cpu), amount("memory", memory)].into()),
        ..ResourceRequirements::default()
    }
}

fn amount(resource: &str, amount: &str) -> (String, Quantity) {
    (resource.to_owned(), Quantity(amount.to_owned()))
}

fn downward() -> Vec<EnvVar> {
    let from = |name: &str, field: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: field.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    vec![
        from("NODE_NAME", "spec.nodeName"),
        from("POD_NAME", "metadata.name"),
        from("NAMESPACE", "metadata.namespace"),
    ]
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(volume, path)
    }
}
