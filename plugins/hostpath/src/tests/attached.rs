//! Volumes on their nodes: attached, limited, listed, modified.

use super::*;

pub(super) fn publish(id: &str, node: &str, readonly: bool) -> Result<Attributes, Error> {
    Hostpath::controller_publish_volume(ControllerPublishArgs {
        id: id.to_owned(),
        node: node.to_owned(),
        capability: mounted(AccessMode::SingleNodeWriter),
        readonly,
        context: Vec::new(),
    })
}

fn unpublish(id: &str, node: Option<&str>) -> Result<(), Error> {
    Hostpath::controller_unpublish_volume(id.to_owned(), node.map(str::to_owned))
}

fn published_nodes(id: &str) -> Vec<String> {
    let entry = Hostpath::get_volume(id.to_owned()).unwrap();
    let page = PageRequest {
        max_entries: None,
        starting_token: None,
    };
    assert!(
        Hostpath::list_volumes(page)
            .unwrap()
            .entries
            .contains(&entry)
    );
    entry.status.published_nodes
}

#[test]
fn a_volume_is_attached_shown_and_detached() {
    fresh();
    let id = created("pvc-1", "image").id;
    for _ in 0..2 {
        assert_eq!(
            publish(&id, "node-1", false),
            Ok(pairs(&[("mountOptions", "rw")]))
        );
    }
    assert_eq!(published_nodes(&id), ["node-1"]);
    let deleted = Hostpath::delete_volume(id.clone());
    assert_eq!(code(deleted), Some(Code::FailedPrecondition));
    unpublish(&id, Some("node-2")).unwrap();
    assert_eq!(published_nodes(&id), ["node-1"]);
    for node in [Some("node-1"), Some("node-1"), None] {
        unpublish(&id, node).unwrap();
        assert_eq!(published_nodes(&id), [""; 0]);
    }
    publish(&id, "node-2", false).unwrap();
    unpublish(&id, None).unwrap();
    Hostpath::delete_volume(id.clone()).unwrap();
    assert_eq!(left_behind(), (vec![], vec![]));
    for unknown in [id.as_str(), "", "../pvc-1"] {
        assert_eq!(unpublish(unknown, Some("node-1")), Ok(()), "{unknown}");
    }
}

#[test]
fn what_is_attached_otherwise_or_elsewhere_is_refused() {
    fresh();
    let id = created("pvc-1", "directory").id;
    publish(&id, "node-1", true).unwrap();
    let otherwise = publish(&id, "node-1", false);
    assert_eq!(code(otherwise), Some(Code::AlreadyExists));
    let elsewhere = publish(&id, "node-2", true);
    assert_eq!(code(elsewhere), Some(Code::FailedPrecondition));
    assert_eq!(
        code(publish("volume-1", "node-1", true)),
        Some(Code::NotFound)
    );
    let as_block = Hostpath::controller_publish_volume(ControllerPublishArgs {
        id: id.clone(),
        node: "node-1".to_owned(),
        capability: block(),
        readonly: true,
        context: Vec::new(),
    });
    assert_eq!(code(as_block), Some(Code::InvalidArgument));
    assert_eq!(published_nodes(&id), ["node-1"]);
}

#[test]
fn on_a_node_only_that_node_is_known() {
    fresh();
    testing::set_node_name(Some("node-1"));
    let id = created("pvc-1", "image").id;
    assert_eq!(code(publish(&id, "node-2", false)), Some(Code::NotFound));
    assert_eq!(code(publish(&id, "node-1", false)), None);
}

#[test]
fn a_node_takes_as_many_volumes_as_the_administrator_allows() {
    fresh();
    testing::set_setting("maxVolumesPerNode", "1");
    assert_eq!(Hostpath::check_settings(), Ok(Vec::new()));
    assert_eq!(Hostpath::get_node_info().unwrap().max_volumes, Some(1));
    let first = created("pvc-1", "image").id;
    let second = created("pvc-2", "image").id;
    publish(&first, "node-1", false).unwrap();
    let full = publish(&second, "node-1", false);
    assert_eq!(code(full), Some(Code::ResourceExhausted));
    assert_eq!(published_nodes(&second), [""; 0]);
    publish(&second, "node-2", false).unwrap();
    unpublish(&first, None).unwrap();
    unpublish(&second, None).unwrap();
    publish(&second, "node-1", false).unwrap();
    for (name, value) in [("maxVolumesPerNode", "0"), ("maxVolumesPerNode", "few")] {
        testing::set_setting(name, value);
        let refused = code(Hostpath::check_settings());
        assert_eq!(refused, Some(Code::InvalidArgument), "{value}");
    }
    fresh();
    testing::set_setting("maxVolumes", "1");
    let refused = code(Hostpath::check_settings());
    assert_eq!(refused, Some(Code::InvalidArgument));
}

#[test]
fn a_changed_volume_is_mounted_so_from_its_next_attachment_on() {
    fresh();
    let mut args = request("pvc-1", "image", range(Some(GIB), None));
    args.mutable_parameters = pairs(&[("discard", "true")]);
    let id = Hostpath::create_volume(args).unwrap().id;
    let options = |readonly| {
        let context = publish(&id, "node-1", readonly).unwrap();
        unpublish(&id, None).unwrap();
        staged(&id, Vec::new(), context).unwrap().mount_options
    };
    assert_eq!(options(false), ["rw", "discard"]);
    Hostpath::modify_volume(id.clone(), pairs(&[("atime", "false")])).unwrap();
    assert_eq!(options(true), ["ro", "noatime", "discard"]);
    Hostpath::modify_volume(id.clone(), Vec::new()).unwrap();
    Hostpath::modify_volume(id.clone(), pairs(&[("discard", "false")])).unwrap();
    assert_eq!(options(false), ["rw", "noatime"]);
}

#[test]
fn a_change_that_cannot_be_changes_nothing() {
    fresh();
    let image = created("pvc-1", "image").id;
    let directory = created("pvc-2", "directory").id;
    let before = state::require::<String>(&image);
    for (id, parameters) in [
        (&image, [("atime", "false"), ("iops", "9")]),
        (&image, [("atime", "false"), ("discard", "perhaps")]),
        (&directory, [("atime", "false"), ("discard", "true")]),
    ] {
        let refused = Hostpath::modify_volume(id.clone(), pairs(&parameters));
        assert_eq!(code(refused), Some(Code::InvalidArgument));
    }
    assert_eq!(state::require::<String>(&image), before);
    let unknown = Hostpath::modify_volume("volume-1".to_owned(), Vec::new());
    assert_eq!(code(unknown), Some(Code::NotFound));
}
