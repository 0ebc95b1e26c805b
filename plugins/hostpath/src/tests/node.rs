//! The node service: node info, plans, statistics and health, and volumes that live as long as their pod.

use super::*;

pub(super) fn place(node: &str) -> Topology {
    Topology::of("topology.hostpath.wasmount.io/node", node)
}

fn asked_at(node: &str) -> CreateVolumeArgs {
    CreateVolumeArgs {
        accessibility: Some(TopologyRequirement {
            requisite: vec![place(node)],
            preferred: Vec::new(),
        }),
        ..request("pvc-1", "image", range(Some(GIB), None))
    }
}

fn inline(attributes: &[(&str, &str)], ephemeral: bool) -> Result<testing::RecordedPlan, Error> {
    let args = NodePublishArgs {
        id: "csi-0123".to_owned(),
        capability: mounted(AccessMode::SingleNodeWriter),
        readonly: false,
        ephemeral,
        publish_context: Vec::new(),
        volume_context: pairs(attributes),
    };
    testing::record(|plan| Hostpath::node_publish(args, plan))
}

/// The reasons of the health conditions: as the controller sees them, and as the node does.
fn reasons(id: &str) -> [Vec<String>; 2] {
    let ask = || {
        let found = Hostpath::get_volume_health(id.to_owned())?;
        Ok(found.into_iter().map(|it| it.reason).collect())
    };
    let controller = ask().unwrap();
    let mut node: Result<Vec<String>, Error> = Ok(Vec::new());
    testing::record(|plan| {
        node = ask();
        plan.tmpfs(None)
    })
    .unwrap();
    [controller, node.unwrap()]
}

#[test]
fn volumes_and_snapshots_are_where_the_node_is() {
    fresh();
    testing::set_node_name(Some("node-1"));
    let node = Hostpath::get_node_info().unwrap();
    assert_eq!((node.id, node.max_volumes), (None, None));
    assert_eq!(node.topology, Some(place("node-1")));
    let volume = Hostpath::create_volume(asked_at("node-1")).unwrap();
    assert_eq!(volume.accessible_topology, [place("node-1")]);
    let snapshot = taken("snap-1", &volume.id).unwrap();
    assert_eq!(snapshot.accessible_topology, [place("node-1")]);
}

#[test]
fn a_volume_for_another_node_is_refused_and_leaves_nothing() {
    fresh();
    testing::set_node_name(Some("node-1"));
    let refused = Hostpath::create_volume(asked_at("node-2"));
    assert_eq!(code(refused), Some(Code::ResourceExhausted));
    assert_eq!(left_behind(), (vec![], vec![]));
}

#[test]
fn away_from_the_nodes_nothing_is_said_of_places() {
    fresh();
    assert_eq!(Hostpath::get_node_info().unwrap().topology, None);
    let volume = Hostpath::create_volume(asked_at("node-2")).unwrap();
    assert_eq!(volume.accessible_topology, []);
}

#[test]
fn what_kubernetes_adds_to_a_context_is_no_parameter() {
    fresh();
    let volume = created("pvc-1", "image");
    let mut context = volume.context;
    context.extend(pairs(&[
        ("storage.kubernetes.io/csiProvisionerIdentity", "x"),
        ("csi.storage.k8s.io/pod.name", "y"),
    ]));
    assert_eq!(code(staged(&volume.id, context, Vec::new())), None);
    let unknown = staged(&volume.id, pairs(&[("pool", "none")]), Vec::new());
    assert_eq!(code(unknown), Some(Code::PermissionDenied));
}

#[test]
fn an_inline_volume_is_memory_of_its_size() {
    fresh();
    for (attributes, size_bytes) in [
        (vec![], None),
        (
            vec![("size", "8Mi"), ("csi.storage.k8s.io/pod.uid", "1")],
            Some(8 << 20),
        ),
    ] {
        let plan = inline(&attributes, true).unwrap();
        assert_eq!(plan.source, Source::Tmpfs { size_bytes });
    }
    for attributes in [[("size", "much")], [("sizze", "8Mi")]] {
        let refused = code(inline(&attributes, true));
        assert_eq!(refused, Some(Code::InvalidArgument));
    }
    let not_inline = inline(&[], false);
    assert_eq!(code(not_inline), Some(Code::FailedPrecondition));
}

#[test]
fn content_that_is_missing_or_small_is_a_lost_volume() {
    for kind in KINDS {
        fresh();
        let id = created("pvc-1", kind).id;
        assert_eq!(reasons(&id), [[""; 0], [""; 0]], "{kind}");
        POOL.remove(&id).unwrap();
        assert_eq!(reasons(&id), [["ContentMissing"], ["ContentMissing"]]);
        let found = Hostpath::get_volume_health(id).unwrap();
        assert_eq!(found[0].status, HealthStatus::DataLoss);
    }
    fresh();
    let id = created("pvc-1", "image").id;
    POOL.remove(&id).unwrap();
    POOL.create_image(&id, GIB / 2).unwrap();
    assert_eq!(reasons(&id), [vec!["ContentTooSmall"], vec![]]);
    for unknown in ["csi-0123", &id.replace('0', "1")] {
        let answer = Hostpath::get_volume_health(unknown.to_owned());
        assert_eq!(code(answer), Some(Code::NotFound), "{unknown}");
    }
}
