//! Which objects, sidecars, flags and rights each kind of backend gets.

mod attached;
mod mounted_pools;
mod network;
mod node_set;
mod objects;
mod policies;
mod shared;
mod sidecars;
mod templates;

use super::*;
use crate::csi_driver::csi_driver;
use serde_json::json;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use wasmount_core::capabilities::{Hidden, Profile};
use wasmount_core::driver::Role;
use wasmount_core::services::{Feature, Service, ServiceSet};

fn backend(services: &[Service], features: &[Feature]) -> Backend {
    let offer = ServiceSet::new(services.iter().copied(), features.iter().copied());
    let hidden = Hidden::default();
    let capabilities = Capabilities::derive(&offer, Role::All, Profile::V1_12, &hidden);
    let driver = DriverName::parse("a.example").unwrap();
    Backend {
        name: "a".to_owned(),
        csi_driver: csi_driver(&driver, &capabilities, &Default::default()).unwrap(),
        driver,
        capabilities,
        document: "kind: StorageBackend\n".to_owned(),
        component: None,
        files: BTreeMap::new(),
        secrets: Vec::new(),
        named_secrets: BTreeSet::new(),
        pools: BTreeMap::new(),
        mounts_from_network: false,
        mounts_pools: false,
        network: Vec::new(),
        uses_devices: false,
        attaches_disks: false,
        uses_metadata: false,
        reads_etc: false,
        reads_node_network: false,
        tells_facts: false,
        registers_nodes: false,
        object: None,
    }
}

fn choices(form: Form) -> Choices {
    Choices {
        form,
        namespace: "storage".to_owned(),
        image: "wasmount:1".to_owned(),
        sidecar_registry: "sidecars".to_owned(),
        fs_type: "ext4".to_owned(),
        kubelet_dir: PathBuf::from("/var/lib/kubelet"),
        health_port: 9809,
        health_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        pod_monitor: false,
        host_network: false,
        in_node_set: false,
    }
}

/// The pod templates of the workloads.
fn pods(objects: &[Value]) -> Vec<&Value> {
    let workloads = ["DaemonSet", "Deployment"].map(|kind| of_kind(objects, kind));
    let workloads = workloads.concat().into_iter();
    workloads
        .map(|it| &it["spec"]["template"]["spec"])
        .collect()
}

fn all(backend: &Backend, form: Form) -> Vec<Value> {
    objects_of(backend, &choices(form))
}

fn objects_of(backend: &Backend, choices: &Choices) -> Vec<Value> {
    let made = manifests(backend, choices).unwrap();
    made.into_iter().map(|manifest| manifest.object).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

#[test]
fn the_mounter_alone_is_privileged_limited_and_without_a_token() {
    let mut everything = backend(Service::ALL, &[Feature::Topology]);
    everything
        .pools
        .insert("p".to_owned(), PathBuf::from("/srv/pool"));
    for form in [Form::NodeLocal, Form::Network] {
        let objects = all(&everything, form);
        let workloads = ["DaemonSet", "Deployment"]
            .map(|kind| of_kind(&objects, kind))
            .concat();
        assert_eq!(workloads.len(), if form == Form::NodeLocal { 1 } else { 2 });
        for workload in workloads {
            let spec = &workload["spec"]["template"]["spec"];
            assert_eq!(spec["automountServiceAccountToken"], false);
            for container in spec["containers"].as_array().unwrap() {
                let mounter = container["name"] == "mounter";
                let security = &container["securityContext"];
                assert_eq!(security["privileged"], mounter, "{}", container["name"]);
                assert_eq!(security["readOnlyRootFilesystem"], true);
                if !mounter {
                    assert_eq!(security["allowPrivilegeEscalation"], false);
                    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
                    assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
                }
                let mounts = container["volumeMounts"].as_array().unwrap();
                let token = mounts.iter().any(|mount| mount["name"] == "api-token");
                assert_eq!(token, !mounter, "{}", container["name"]);
                // A host that is killed during a call loses more than its memory.
                let limit = &container["resources"]["limits"]["memory"];
                assert_eq!(*limit == "1Gi", mounter, "{}", container["name"]);
            }
        }
    }
}

#[test]
fn every_volume_that_a_container_names_is_one_of_its_pod() {
    let mut everything = backend(Service::ALL, &[Feature::Topology]);
    everything
        .pools
        .insert("p".to_owned(), PathBuf::from("/srv/pool"));
    everything.secrets.push("password".to_owned());
    for (backend, form) in [
        (&everything, Form::NodeLocal),
        (&everything, Form::Network),
        (&backend(&[Service::NodePublish], &[]), Form::Network),
    ] {
        let objects = all(backend, form);
        for workload in ["DaemonSet", "Deployment"]
            .map(|kind| of_kind(&objects, kind))
            .concat()
        {
            let spec = &workload["spec"]["template"]["spec"];
            let names = |list: &Value| -> BTreeSet<String> {
                let list = list.as_array().unwrap().iter();
                list.map(|item| item["name"].as_str().unwrap().to_owned())
                    .collect()
            };
            let containers = spec["containers"].as_array().unwrap().iter();
            let used = containers
                .flat_map(|container| names(&container["volumeMounts"]))
                .collect();
            assert_eq!(names(&spec["volumes"]), used);
        }
    }
}

#[test]
fn rights_follow_the_sidecars_that_there_are() {
    let may = |objects: &[Value], resource: &str| {
        let roles = ["ClusterRole", "Role"]
            .map(|kind| of_kind(objects, kind))
            .concat();
        let rules = roles
            .iter()
            .flat_map(|role| role["rules"].as_array().unwrap());
        rules
            .flat_map(|rule| rule["resources"].as_array().unwrap())
            .any(|it| it == resource)
    };
    let inline = all(&backend(&[Service::NodePublish], &[]), Form::Network);
    assert!(
        of_kind(&inline, "Deployment").is_empty() && of_kind(&inline, "StorageClass").is_empty()
    );
    for resource in [
        "persistentvolumes",
        "leases",
        "pods",
        "volumesnapshotcontents",
        "backendrecords",
    ] {
        assert!(!may(&inline, resource), "{resource}");
    }
    use Service as S;
    let plain = all(&backend(&[S::Controller, S::NodeStage], &[]), Form::Network);
    assert!(may(&plain, "persistentvolumes") && may(&plain, "backendrecords"));
    for resource in [
        "volumeattachments",
        "volumesnapshots",
        "csistoragecapacities",
        "pods",
    ] {
        assert!(!may(&plain, resource), "{resource}");
    }
    let snapshots = all(
        &backend(
            &[S::Controller, S::NodeInfo, S::NodeStage, S::Snapshots],
            &[Feature::Topology],
        ),
        Form::NodeLocal,
    );
    assert!(may(&snapshots, "volumesnapshotcontents") && !may(&snapshots, "leases"));
}

#[test]
fn a_component_beyond_a_config_map_is_refused_with_the_way_out() {
    let mut large = backend(&[Service::NodePublish], &[]);
    large.component = Some(vec![0; CONFIG_MAP_BYTES]);
    let refused = manifests(&large, &choices(Form::Network))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("--plugin-in-image"), "{refused}");
    large.component = Some(vec![0; CONFIG_MAP_BYTES - large.document.len()]);
    assert!(manifests(&large, &choices(Form::Network)).is_ok());
    // Files beside the component count as well.
    large.files = [("plugin.wasm.sig".to_owned(), vec![0])].into();
    assert!(manifests(&large, &choices(Form::Network)).is_err());
}

#[test]
fn files_beside_a_document_are_in_its_config_map() {
    let mut beside = backend(&[Service::NodePublish], &[]);
    beside.files = [("registry-ca.pem".to_owned(), b"ca".to_vec())].into();
    let map_of = |backend: &Backend| {
        let all = all(backend, Form::Network);
        let map = all.into_iter().find(|it| it["kind"] == "ConfigMap");
        map.unwrap()["binaryData"].clone()
    };
    assert_eq!(map_of(&beside), json!({ "registry-ca.pem": "Y2E=" }));
    beside.component = Some(b"wasm".to_vec());
    assert_eq!(
        map_of(&beside),
        json!({ "plugin.wasm": "d2FzbQ==", "registry-ca.pem": "Y2E=" })
    );
}

#[test]
fn a_pool_of_each_node_is_no_pool_of_a_network() {
    let mut pooled = backend(&[Service::Controller, Service::NodeStage], &[]);
    pooled
        .pools
        .insert("volumes".to_owned(), PathBuf::from("pools/a"));
    let refused = manifests(&pooled, &choices(Form::Network))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("`volumes`") && refused.contains("node-local"),
        "{refused}"
    );
    assert!(manifests(&pooled, &choices(Form::NodeLocal)).is_ok());
}

#[test]
fn a_name_that_no_label_takes_is_refused() {
    for name in ["a.b", "A", &"a".repeat(NAME_BYTES + 1), "node-set"] {
        let mut named = backend(&[Service::NodePublish], &[]);
        named.name = name.to_owned();
        let refused = manifests(&named, &choices(Form::Network)).unwrap_err();
        assert!(matches!(refused, ManifestsError::Name { .. }), "{name}");
    }
}

#[test]
fn the_text_is_the_same_each_time_and_reads_as_the_objects() {
    let backend = backend(Service::ALL, &[Feature::Topology]);
    let made = manifests(&backend, &choices(Form::Network)).unwrap();
    let text = to_yaml(&made).unwrap();
    assert_eq!(
        to_yaml(&manifests(&backend, &choices(Form::Network)).unwrap()).unwrap(),
        text
    );
    let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(read.len(), made.len());
    for (read, made) in read.iter().zip(&made) {
        assert_eq!(read["kind"], made.object["kind"]);
        assert_eq!(read["metadata"]["name"], made.object["metadata"]["name"]);
    }
}

#[test]
fn facts_of_the_node_bring_its_network_and_its_etc() {
    let plain = backend(Service::ALL, &[]);
    let facts = Backend {
        reads_etc: true,
        reads_node_network: true,
        ..plain.clone()
    };
    for (backend, reads) in [(plain, false), (facts, true)] {
        let objects = all(&backend, Form::Network);
        let [node, controller] = pods(&objects).try_into().unwrap();
        assert_eq!(node["hostNetwork"] == json!(true), reads);
        assert_eq!(controller.get("hostNetwork"), None);
        let has_etc = |pod: &Value| pod.to_string().contains("/node/etc");
        assert_eq!((has_etc(node), has_etc(controller)), (reads, false));
        let containers = node["containers"].as_array().unwrap();
        for container in containers.iter().filter(|it| has_etc(it)) {
            assert_eq!(container["name"], "mounter");
            let mounts = container["volumeMounts"].as_array().unwrap();
            let etc = mounts.iter().find(|it| it["name"] == "node-etc").unwrap();
            assert_eq!(etc["readOnly"], true);
        }
    }
}
