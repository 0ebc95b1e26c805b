//! The node service.

use super::*;
use wasmount_guest::testing::Source;

#[test]
fn a_device_has_one_of_the_names_that_hypervisors_make() {
    testing::reset();
    let args = NodeStageArgs {
        id: ID.to_owned(),
        capability: mounted(AccessMode::SingleNodeWriter),
        publish_context: Vec::new(),
        volume_context: Vec::new(),
    };
    let plan = testing::record(|plan| Cinder::node_stage(args, plan)).unwrap();
    let names = [
        "virtio-74b4b7da-ad48-459c-9",
        "virtio-74b4b7da-ad48-459c-954d-0df2586d0780",
        "scsi-0QEMU_QEMU_HARDDISK_74b4b7da-ad48-459c-9",
        "scsi-0QEMU_QEMU_HARDDISK_74b4b7da-ad48-459c-954d-0df2586d0780",
        "wwn-0x74b4b7daad48459c954d0df2586d0780",
    ];
    let expected = Source::AnyDevice {
        alternatives: names
            .map(|name| vec![("by-id".to_owned(), name.to_owned())])
            .to_vec(),
        rescan: true,
        wait_ms: 20_000,
    };
    assert_eq!(plan.source, expected);
}

#[test]
fn an_instance_is_what_the_facts_of_its_node_say() {
    testing::reset();
    testing::set_node_fact("instance-id", &[ID]);
    testing::set_node_fact("zone", &["zone-a"]);
    let node = Cinder::get_node_info().unwrap();
    assert_eq!(node.id.as_deref(), Some(ID));
    assert_eq!(node.max_volumes, Some(256));
    assert_eq!(node.topology, Some(Topology::of(class::ZONE, "zone-a")));
}

#[test]
fn an_instance_that_is_not_known_is_refused() {
    testing::reset();
    assert_eq!(code(Cinder::get_node_info()), Some(Code::PermissionDenied));
    testing::set_node_fact("instance-id", &[ID]);
    testing::set_node_fact("zone", &["zone-a"]);
    for calls in [0, 1] {
        testing::fail_after(calls, Error::unavailable("no metadata"));
        assert_eq!(code(Cinder::get_node_info()), Some(Code::Unavailable));
    }
}

#[test]
fn the_zone_of_the_settings_wins_over_the_one_of_an_instance() {
    testing::reset();
    testing::set_setting("zone", "zone-b");
    testing::set_node_fact("instance-id", &[ID]);
    let node = Cinder::get_node_info().unwrap();
    assert_eq!(node.id.as_deref(), Some(ID));
    assert_eq!(node.topology, Some(Topology::of(class::ZONE, "zone-b")));
}

#[test]
fn an_instance_without_a_zone_has_no_topology() {
    testing::reset();
    testing::set_node_fact("instance-id", &[ID]);
    testing::set_node_fact("zone", &[]);
    let node = Cinder::get_node_info().unwrap();
    assert_eq!((node.id.as_deref(), node.topology), (Some(ID), None));
}

#[test]
fn a_machine_has_its_own_name_and_the_zone_of_the_settings() {
    let script = Script::of([]);
    testing::set_setting("zone", "zone-b");
    testing::set_setting("nodeVolumeAttachLimit", "8");
    let node = Cinder::get_node_info().unwrap();
    assert_eq!((node.id, node.max_volumes), (None, Some(8)));
    assert_eq!(node.topology, Some(Topology::of(class::ZONE, "zone-b")));
    script.end();
}

#[test]
fn settings_are_known_or_refused() {
    testing::reset();
    assert_eq!(Cinder::check_settings(), Ok(Vec::new()));
    for (name, value) in [("attach", "ceph"), ("byId", "virtio"), ("zones", "a")] {
        testing::reset();
        testing::set_setting(name, value);
        assert_eq!(
            code(Cinder::check_settings()),
            Some(Code::InvalidArgument),
            "{name}"
        );
    }
}
