//! Which sidecars run beside a host, with which flags.

use super::*;

/// The sidecars in each kind of pod that has any, with their flags.
pub(super) fn sidecars(backend: &Backend, form: Form) -> Vec<(String, Vec<String>)> {
    let names = [
        "csi-provisioner",
        "csi-attacher",
        "csi-resizer",
        "csi-snapshotter",
    ];
    let mut found = Vec::new();
    for pod in pods(&all(backend, form)) {
        for container in pod["containers"].as_array().unwrap() {
            let Some(name) = names.iter().find(|name| container["name"] == **name) else {
                continue;
            };
            let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
            assert_eq!(arguments[0], "--csi-address=/csi/csi.sock");
            let port = &container["ports"][0];
            assert_eq!(port["name"], **name);
            let endpoint = format!("--http-endpoint=:{}", port["containerPort"]);
            assert_eq!(arguments[1], endpoint);
            found.push(sidecar(name, &arguments[2..]));
        }
    }
    found
}

pub(super) fn sidecar<S: ToString>(name: &str, arguments: &[S]) -> (String, Vec<String>) {
    let arguments = arguments.iter().map(S::to_string).collect();
    (name.to_owned(), arguments)
}

#[test]
fn each_sidecar_and_each_flag_comes_with_its_capability() {
    use Service as S;
    let base = [S::Controller, S::NodeStage];
    let with =
        |more: &[Service], features: &[Feature]| backend(&[&base[..], more].concat(), features);
    let provisioner = sidecar("csi-provisioner", &["--extra-create-metadata"]);
    for (backend, expected) in [
        (backend(&[S::NodePublish], &[]), vec![]),
        (with(&[], &[]), vec![provisioner.clone()]),
        (
            with(&[S::ControllerPublish], &[]),
            vec![provisioner.clone(), sidecar::<&str>("csi-attacher", &[])],
        ),
        (
            with(&[S::ControllerExpand], &[]),
            vec![
                provisioner.clone(),
                sidecar("csi-resizer", &["--handle-volume-inuse-error=false"]),
            ],
        ),
        (
            with(&[S::ControllerExpand], &[Feature::OfflineExpansion]),
            vec![provisioner.clone(), sidecar::<&str>("csi-resizer", &[])],
        ),
        (
            with(&[S::ControllerModify], &[]),
            vec![
                provisioner.clone(),
                sidecar(
                    "csi-resizer",
                    &[
                        "--extra-modify-metadata",
                        "--handle-volume-inuse-error=false",
                    ],
                ),
            ],
        ),
        (
            with(&[S::Snapshots], &[]),
            vec![
                provisioner.clone(),
                sidecar("csi-snapshotter", &["--extra-create-metadata"]),
            ],
        ),
        (
            with(&[S::Snapshots, S::GroupSnapshots], &[]),
            vec![
                provisioner.clone(),
                sidecar(
                    "csi-snapshotter",
                    &[
                        "--extra-create-metadata",
                        "--feature-gates=CSIVolumeGroupSnapshot=true",
                    ],
                ),
            ],
        ),
        // Capacity without topology creates no objects.
        (with(&[S::Capacity], &[]), vec![provisioner]),
        (
            with(&[S::Capacity, S::NodeInfo], &[Feature::Topology]),
            vec![sidecar(
                "csi-provisioner",
                &[
                    "--extra-create-metadata",
                    "--strict-topology",
                    "--enable-capacity",
                    "--capacity-ownerref-level=2",
                ],
            )],
        ),
    ] {
        assert_eq!(sidecars(&backend, Form::Network), expected);
    }
}

#[test]
fn on_the_nodes_only_those_without_a_form_for_nodes_are_elected() {
    use Service as S;
    let local = backend(
        &[
            S::Controller,
            S::Capacity,
            S::NodeInfo,
            S::NodeStage,
            S::Snapshots,
        ],
        &[Feature::Topology, Feature::NodeOnlyExpansion],
    );
    assert_eq!(
        sidecars(&local, Form::NodeLocal),
        [
            sidecar(
                "csi-provisioner",
                &[
                    "--extra-create-metadata",
                    "--node-deployment",
                    "--node-deployment-immediate-binding=true",
                    "--strict-topology",
                    "--enable-capacity",
                    "--capacity-ownerref-level=0",
                ]
            ),
            sidecar(
                "csi-resizer",
                &["--leader-election", "--handle-volume-inuse-error=false"]
            ),
            sidecar(
                "csi-snapshotter",
                &["--extra-create-metadata", "--node-deployment"]
            ),
        ]
    );
    assert!(warnings(&local, &choices(Form::NodeLocal)).is_empty());
    let attached = backend(&[S::Controller, S::ControllerPublish, S::NodeStage], &[]);
    let text = warnings(&attached, &choices(Form::NodeLocal)).join("\n");
    assert!(
        text.contains("no topology") && text.contains("PUBLISH_UNPUBLISH_VOLUME"),
        "{text}"
    );
    assert!(warnings(&attached, &choices(Form::Network)).is_empty());
}

#[test]
fn ports_of_a_pod_differ_wherever_they_begin() {
    for first in [9809, u16::MAX] {
        let mut choices = choices(Form::NodeLocal);
        choices.health_port = first;
        let services = [
            Service::Controller,
            Service::NodeStage,
            Service::ControllerExpand,
            Service::Snapshots,
        ];
        let objects = objects_of(&backend(&services, &[]), &choices);
        for pod in pods(&objects) {
            let containers = pod["containers"].as_array().unwrap().iter();
            let ports = containers.filter_map(|it| it["ports"][0]["containerPort"].as_u64());
            let ports: Vec<_> = ports.collect();
            let distinct: BTreeSet<_> = ports.iter().collect();
            assert_eq!((ports.len(), distinct.len()), (4, 4), "{ports:?}");
        }
    }
}

#[test]
fn sidecars_on_the_network_of_a_node_listen_where_it_was_chosen() {
    let mut choices = choices(Form::NodeLocal);
    choices.host_network = true;
    let text = |choices: &Choices| {
        let objects = objects_of(&backend(&[Service::Controller], &[]), choices);
        serde_json::to_string(&objects).unwrap()
    };
    let hidden = text(&choices);
    assert!(hidden.contains("csi-provisioner:v") && !hidden.contains("http-endpoint"));
    choices.health_address = Ipv4Addr::UNSPECIFIED.into();
    assert!(text(&choices).contains("--http-endpoint=0.0.0.0:9909"));
}

#[test]
fn a_pod_monitor_names_the_ports_of_the_pods() {
    let mut choices = choices(Form::Network);
    let backend = backend(&[Service::Controller, Service::ControllerExpand], &[]);
    let monitors = |choices: &Choices| {
        let objects = objects_of(&backend, choices);
        of_kind(&objects, "PodMonitor")
            .into_iter()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(monitors(&choices), Vec::<Value>::new());
    choices.pod_monitor = true;
    let [monitor] = monitors(&choices).try_into().unwrap();
    let endpoints = monitor["spec"]["podMetricsEndpoints"].as_array().unwrap();
    let monitored: Vec<_> = endpoints.iter().map(|it| &it["port"]).collect();
    let labels = &monitor["spec"]["selector"]["matchLabels"];
    for pod in pods(&objects_of(&backend, &choices)) {
        for container in pod["containers"].as_array().unwrap() {
            for port in container["ports"].as_array().into_iter().flatten() {
                assert!(monitored.contains(&&port["name"]), "{port}");
            }
        }
    }
    for set in of_kind(&objects_of(&backend, &choices), "DaemonSet") {
        let of_pods = &set["spec"]["template"]["metadata"]["labels"];
        for (name, value) in labels.as_object().unwrap() {
            assert_eq!(&of_pods[name], value, "{name}");
        }
    }
}

#[test]
fn a_pod_monitor_needs_pods_that_prometheus_reaches() {
    let mut choices = choices(Form::Network);
    choices.pod_monitor = true;
    choices.host_network = true;
    let backend = backend(&[Service::Controller], &[]);
    let error = manifests(&backend, &choices).unwrap_err();
    assert!(
        matches!(&error, ManifestsError::UnreachableMetrics { address, .. } if address.is_loopback()),
        "{error}"
    );
    choices.health_address = Ipv4Addr::UNSPECIFIED.into();
    let objects = objects_of(&backend, &choices);
    let pods = pods(&objects);
    let mut containers = pods
        .iter()
        .flat_map(|pod| pod["containers"].as_array().unwrap());
    let of_nodes = containers.find(|it| it["args"].to_string().contains("--role=node"));
    let of_nodes = of_nodes.unwrap();
    assert!(
        of_nodes["args"]
            .to_string()
            .contains("--listen-health=0.0.0.0:9809")
    );
    assert_eq!(of_nodes["livenessProbe"]["httpGet"]["host"], "127.0.0.1");
    // A controller of the node set has a network of its own.
    choices.health_address = Ipv4Addr::LOCALHOST.into();
    choices.in_node_set = true;
    assert!(choices.check_monitor(&backend).is_ok());
}
