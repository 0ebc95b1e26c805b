//! What the array is told of a node, and the disk that the node gets.

use super::*;
use wasmount_guest::secrets::Scope;
use wasmount_guest::testing::Source;

/// The source of the plan of a published volume.
fn staged(id: String) -> Source {
    let args = NodeStageArgs {
        capability: mounted(),
        publish_context: publish(&id, NODE).unwrap(),
        volume_context: Vec::new(),
        id,
    };
    let plan = testing::record(|plan| Array::node_stage(args, plan));
    plan.unwrap().source
}

#[test]
fn a_staged_volume_has_the_size_that_the_array_says() {
    fresh();
    let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
    expand(&id, 2 * GIB).unwrap();
    assert_eq!(expand(&id, GIB).unwrap().capacity_bytes, 2 * GIB);
    assert!(matches!(
        staged(id),
        Source::Tmpfs { size_bytes: Some(bytes) } if bytes == 2 * GIB
    ));
}

#[test]
fn a_node_grows_the_file_system_of_what_it_attaches() {
    for (protocol, on_node) in [("iscsi", true), ("nvme-tcp", true), ("none", false)] {
        fresh();
        set_protocol(protocol);
        let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
        // A retry too: the answer before it may be lost.
        for _ in 0..2 {
            let grown = Expanded::to(2 * GIB).then_on_node(on_node);
            assert_eq!(expand(&id, 2 * GIB), Ok(grown), "{protocol}");
        }
    }
}

#[test]
fn a_volume_of_an_iscsi_target_is_its_logical_unit() {
    let array = fresh();
    array.borrow_mut().connection = Some(json!({
        "protocol": "iscsi", "portals": ["192.0.2.1:3260", "192.0.2.2:3260"], "target": "iqn.2026-01.example:a", "lun": 7,
        "wwid": "naa.6001405",
    }));
    for name in ["chap-user", "chap-password"] {
        testing::set_secret(Scope::Backend, name, "twelve-bytes");
    }
    let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
    let Source::Iscsi(disk) = staged(id) else {
        panic!("the plan has another source")
    };
    let portals: Vec<_> = disk.paths.iter().map(|path| path.portal.as_str()).collect();
    assert_eq!(portals, ["192.0.2.1:3260", "192.0.2.2:3260"]);
    let same = |path: &IscsiPath| (path.target.as_str(), path.lun) == ("iqn.2026-01.example:a", 7);
    assert!(disk.paths.iter().all(same), "{disk:?}");
    assert_eq!(disk.wwid, "naa.6001405");
    let chap = disk.chap.unwrap();
    assert_eq!([chap.user, chap.password], ["chap-user", "chap-password"]);
}

#[test]
fn a_volume_of_an_nvme_target_is_its_namespace() {
    let array = fresh();
    set_protocol("nvme-tcp");
    array.borrow_mut().connection = Some(json!({
        "protocol": "nvme-tcp", "portals": ["192.0.2.1:4420", "192.0.2.2:4420"], "target": "nqn.2026-01.example:a", "lun": 1,
        "wwid": "11111111-2222-4333-8444-555555555555",
    }));
    let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
    let Source::Nvme(disk) = staged(id) else {
        panic!("the plan has another source")
    };
    assert_eq!(disk.addresses, ["192.0.2.1:4420", "192.0.2.2:4420"]);
    assert_eq!(disk.subsystem, "nqn.2026-01.example:a");
    assert_eq!(disk.namespace_id, "11111111-2222-4333-8444-555555555555");
}

#[test]
fn the_array_knows_a_node_by_its_initiator() {
    for (protocol, known_as) in [
        ("iscsi", json!({ "iqn": IQN })),
        ("nvme-tcp", json!({ "nqn": NQN })),
        ("none", json!({})),
    ] {
        let array = fresh();
        set_protocol(protocol);
        array.borrow_mut().hosts.clear();
        Array::register_node(NODE.to_owned()).unwrap();
        assert_eq!(array.borrow().hosts[NODE], known_as);
        let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
        publish(&id, NODE).unwrap();
        assert_eq!(array.borrow().of(&id, "hosts"), json!([NODE]));
    }
}

#[test]
fn a_node_without_an_initiator_of_its_own_is_no_host() {
    let array = fresh();
    Array::register_node(NODE.to_owned()).unwrap();
    testing::set_fact_of_node("bare", "iqn", &[]);
    testing::set_fact_of_node("impostor", "iqn", &[IQN]);
    for (node, expected) in [
        ("bare", Code::FailedPrecondition),
        ("impostor", Code::AlreadyExists),
        ("unknown", Code::NotFound),
    ] {
        let registered = Array::register_node(node.to_owned());
        assert_eq!(code(registered), Some(expected), "{node}");
        assert!(!array.borrow().hosts.contains_key(node));
    }
}

#[test]
fn a_node_with_volumes_stays_a_host() {
    let array = fresh();
    let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
    publish(&id, NODE).unwrap();
    let unregister = || Array::unregister_node(NODE.to_owned());
    assert_eq!(code(unregister()), Some(Code::FailedPrecondition));
    Array::controller_unpublish_volume(id, Some(NODE.to_owned())).unwrap();
    assert_eq!(unregister(), Ok(()));
    assert!(array.borrow().hosts.is_empty());
}

#[test]
fn only_the_protocols_of_the_array_are_settings() {
    testing::reset();
    assert_eq!(code(Array::check_settings()), Some(Code::InvalidArgument));
    for (name, is_known) in [("iscsi", true), ("nvme-tcp", true), ("fc", false)] {
        set_protocol(name);
        assert_eq!(Array::check_settings().is_ok(), is_known, "{name}");
    }
}
