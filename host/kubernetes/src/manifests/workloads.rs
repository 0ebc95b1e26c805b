//! How many pods there are and how they are replaced: the DaemonSet of the node, the Deployment of a controller, its disruption budget.

use super::pods::{
    CONFIG, DEVICES, KUBELET, MOUNTER, MOUNTS, REGISTRY, RUN, SECRETS, SOCKET, STORE, TOKEN,
    pool_volume,
};
use super::rbac::Part;
use super::{Manifest, ManifestsError, Parts};
use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec,
    RollingUpdateDaemonSet,
};
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapProjection, ConfigMapVolumeSource, DownwardAPIProjection,
    DownwardAPIVolumeFile, EmptyDirVolumeSource, HostPathVolumeSource, KeyToPath,
    ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSpec, PodTemplateSpec,
    ProjectedVolumeSource, SecretVolumeSource, ServiceAccountTokenProjection, Toleration, Volume,
    VolumeProjection, WeightedPodAffinityTerm,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// One leads, one waits.
const REPLICAS: i32 = 2;
/// Seconds from SIGTERM to the end: ten more than `--grace`.
const GRACE: i64 = 30;
/// Seconds that a token lives; kubelet renews it at four fifths.
const TOKEN_SECONDS: i64 = 3607;

impl Parts<'_> {
    pub(super) fn workloads(&self) -> Result<Vec<Manifest>, ManifestsError> {
        let mut all = Vec::new();
        for part in self.parts() {
            match part {
                Part::Node => all.push(self.daemon_set()?),
                Part::Controller => {
                    all.push(self.deployment()?);
                    all.push(self.budget()?);
                }
            }
        }
        Ok(all)
    }

    fn daemon_set(&self) -> Result<Manifest, ManifestsError> {
        let part = Part::Node;
        let set = DaemonSet {
            metadata: self.meta(self.named(part.name())),
            spec: Some(DaemonSetSpec {
                selector: self.selector(part),
                update_strategy: Some(DaemonSetUpdateStrategy {
                    type_: Some("RollingUpdate".to_owned()),
                    rolling_update: Some(RollingUpdateDaemonSet {
                        max_unavailable: Some(IntOrString::Int(1)),
                        max_surge: Some(IntOrString::Int(0)),
                    }),
                }),
                template: self.pod(part),
                ..DaemonSetSpec::default()
            }),
            ..DaemonSet::default()
        };
        let network = if self.on_host_network(part) {
            "On the node's network: a mount from the network lives in the network namespace of the process that made it, and must outlive the pod."
        } else {
            "On the pod network: nothing that is mounted here needs the node's."
        };
        let about = format!(
            "One pod a node. The mounter alone is privileged, and has no token; the driver is user 0 without a capability, because kubelet's \
             directories are root's. {network} No second pod of an update runs beside the first: kubelet has no hand-over between two sockets \
             of one CSI driver. All taints are tolerated, because volumes must be torn down on nodes that are drained. The node's directories: \
             {}/plugins_registry and plugins/{} (sockets), all of it for the mounter (volumes), /var/lib/wasmount (store; what mounts must \
             remember), /run/wasmount (journal, gone with the mounts at a reboot){}.",
            self.choices.kubelet_dir.display(),
            self.backend.driver,
            if self.backend.needs_devices() {
                ", /dev (loop devices)"
            } else {
                ""
            },
        );
        Manifest::new(about, &set)
    }

    fn deployment(&self) -> Result<Manifest, ManifestsError> {
        let part = Part::Controller;
        let deployment = Deployment {
            metadata: self.meta(self.named(part.name())),
            spec: Some(DeploymentSpec {
                replicas: Some(REPLICAS),
                selector: self.selector(part),
                template: self.pod(part),
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        };
        let about = "One pod leads and one waits. The sidecars talk to the host of their own pod; its records are in the API server. Nothing here \
                     mounts.";
        Manifest::new(about, &deployment)
    }

    fn budget(&self) -> Result<Manifest, ManifestsError> {
        let part = Part::Controller;
        let budget = PodDisruptionBudget {
            metadata: self.meta(self.named(part.name())),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: Some(IntOrString::Int(1)),
                selector: Some(self.selector(part)),
                // Pods that are unready serve nobody, and must not hold up a drain.
                unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        };
        Manifest::new("A drain leaves one of the two.", &budget)
    }

    fn pod_labels(&self, part: Part) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        let key = "app.kubernetes.io/component".to_owned();
        labels.insert(key, part.name().to_owned());
        labels
    }

    fn selector(&self, part: Part) -> LabelSelector {
        LabelSelector {
            match_labels: Some(self.pod_labels(part)),
            ..LabelSelector::default()
        }
    }

    fn pod(&self, part: Part) -> PodTemplateSpec {
        let on_a_node = part == Part::Node;
        let mut containers = vec![self.host(part)];
        if on_a_node {
            containers.push(self.mounter());
        }
        if self.is_controller(part) {
            let sidecars = self.sidecars().into_iter();
            containers.extend(sidecars.map(|sidecar| self.sidecar(sidecar)));
        }
        let critical = if on_a_node {
            "system-node-critical"
        } else {
            "system-cluster-critical"
        };
        PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(self.pod_labels(part)),
                ..ObjectMeta::default()
            }),
            spec: Some(PodSpec {
                service_account_name: Some(self.named(part.name())),
                automount_service_account_token: Some(false),
                priority_class_name: Some(critical.to_owned()),
                host_network: self.on_host_network(part).then_some(true),
                node_selector: Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into()),
                tolerations: on_a_node.then(|| {
                    vec![Toleration {
                        operator: Some("Exists".to_owned()),
                        ..Toleration::default()
                    }]
                }),
                affinity: (!on_a_node).then(|| self.apart(part)),
                termination_grace_period_seconds: Some(GRACE),
                containers,
                volumes: Some(self.volumes(part)),
                ..PodSpec::default()
            }),
        }
    }

    /// On nodes of their own, where there are two.
    fn apart(&self, part: Part) -> Affinity {
        Affinity {
            pod_anti_affinity: Some(PodAntiAffinity {
                preferred_during_scheduling_ignored_during_execution: Some(vec![
                    WeightedPodAffinityTerm {
                        weight: 100,
                        pod_affinity_term: PodAffinityTerm {
                            label_selector: Some(self.selector(part)),
                            topology_key: "kubernetes.io/hostname".to_owned(),
                            ..PodAffinityTerm::default()
                        },
                    },
                ]),
                ..PodAntiAffinity::default()
            }),
            ..Affinity::default()
        }
    }

    fn volumes(&self, part: Part) -> Vec<Volume> {
        let name = &self.backend.name;
        let driver = &self.backend.driver;
        let made = "DirectoryOrCreate";
        let mut volumes = vec![self.config(), token()];
        if part == Part::Node {
            volumes.extend([
                of_node(KUBELET, &self.kubelet_dir(""), "Directory"),
                of_node(REGISTRY, &self.kubelet_dir("plugins_registry"), "Directory"),
                of_node(
                    SOCKET,
                    &self.kubelet_dir(&format!("plugins/{driver}")),
                    made,
                ),
                of_node(STORE, &format!("/var/lib/wasmount/{name}/store"), made),
                of_node(MOUNTS, &format!("/var/lib/wasmount/{name}/mounts"), made),
                of_node(RUN, &format!("/run/wasmount/{name}"), made),
                in_pod(MOUNTER),
            ]);
            if self.backend.needs_devices() {
                volumes.push(of_node(DEVICES, "/dev", "Directory"));
            }
        } else {
            volumes.extend([in_pod(SOCKET), in_pod(STORE), in_pod(RUN)]);
        }
        for (pool, path) in &self.backend.pools {
            if path.is_absolute() {
                let path = path.display().to_string();
                volumes.push(of_node(&pool_volume(pool), &path, "Directory"));
            }
        }
        if self.mounts_secrets() {
            volumes.push(Volume {
                name: SECRETS.to_owned(),
                secret: Some(SecretVolumeSource {
                    secret_name: Some(self.named("secrets")),
                    default_mode: Some(0o400),
                    ..SecretVolumeSource::default()
                }),
                ..Volume::default()
            });
        }
        volumes
    }

    fn config(&self) -> Volume {
        Volume {
            name: CONFIG.to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: self.named("backend"),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        }
    }
}

fn of_node(name: &str, path: &str, kind: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        host_path: Some(HostPathVolumeSource {
            path: path.to_owned(),
            type_: Some(kind.to_owned()),
        }),
        ..Volume::default()
    }
}

fn in_pod(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

/// What kubelet would project into every container.
fn token() -> Volume {
    let file = |token| VolumeProjection {
        service_account_token: Some(token),
        ..VolumeProjection::default()
    };
    Volume {
        name: TOKEN.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![
                file(ServiceAccountTokenProjection {
                    path: "token".to_owned(),
                    expiration_seconds: Some(TOKEN_SECONDS),
                    ..ServiceAccountTokenProjection::default()
                }),
                VolumeProjection {
                    config_map: Some(ConfigMapProjection {
                        name: "kube-root-ca.crt".to_owned(),
                        items: Some(vec![KeyToPath {
                            key: "ca.crt".to_owned(),
                            path: "ca.crt".to_owned(),
                            ..KeyToPath::default()
                        }]),
                        ..ConfigMapProjection::default()
                    }),
                    ..VolumeProjection::default()
                },
                VolumeProjection {
                    downward_api: Some(DownwardAPIProjection {
                        items: Some(vec![DownwardAPIVolumeFile {
                            path: "namespace".to_owned(),
                            field_ref: Some(ObjectFieldSelector {
                                field_path: "metadata.namespace".to_owned(),
                                ..ObjectFieldSelector::default()
                            }),
                            ..DownwardAPIVolumeFile::default()
                        }]),
                    }),
                    ..VolumeProjection::default()
                },
            ]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}
