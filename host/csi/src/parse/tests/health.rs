//! Requests about health.

use super::*;
use crate::parse;
use wasmount_core::driver::HealthPosition;
use wasmount_core::names::{NodePath, VolumeId};

#[test]
fn a_volumes_health_needs_its_id() {
    let controller = parse::controller_get_volume_health(Default::default());
    assert_eq!(refusal(controller), "volume_id is empty");
    let node = parse::node_get_volume_health(Default::default());
    assert_eq!(refusal(node), "volume_id is empty");
}

#[test]
fn the_places_of_a_volume_on_its_node_may_be_left_out() {
    let parsed = |publish: &str, stage: &str| {
        let request = wire::NodeGetVolumeHealthRequest {
            volume_id: "v".to_owned(),
            volume_publish_path: publish.to_owned(),
            staging_target_path: stage.to_owned(),
        };
        let request = taken(parse::node_get_volume_health(request));
        let text = |path: Option<NodePath>| path.map(NodePath::into_string);
        (text(request.publish_path), text(request.staging_path))
    };
    assert_eq!(parsed("", ""), (None, None));
    assert_eq!(parsed("/p", ""), (Some("/p".to_owned()), None));
    assert_eq!(
        parsed("/p", "/s"),
        (Some("/p".to_owned()), Some("/s".to_owned()))
    );
}

#[test]
fn a_health_list_continues_within_a_page_with_its_own_token() {
    let tokens_of_health = tokens(Rpc::ControllerListVolumeHealth);
    let list = |max_entries, token: String| {
        let request = wire::ControllerListVolumeHealthRequest {
            max_entries,
            starting_token: token,
            ..Default::default()
        };
        parse::controller_list_volume_health(request, &tokens_of_health)
    };
    let all = taken(list(0, String::new()));
    assert_eq!(
        (all.max_entries, all.from),
        (None, HealthPosition::default())
    );
    let place = HealthPosition {
        page: Some("next".to_owned()),
        after: Some(VolumeId::parse("volume_id", "v").unwrap()),
    };
    let some = taken(list(7, tokens_of_health.seal_position(&place)));
    assert_eq!((some.max_entries, some.from), (Some(7), place));

    assert_eq!(refusal(list(-1, String::new())), "max_entries is negative");
    for other in [
        tokens(Rpc::ListVolumes).seal("next"),
        // A token with a checksum, but without a position.
        tokens_of_health.seal("next"),
    ] {
        assert_eq!(list(0, other).unwrap_err().code(), Code::Aborted);
    }
}

#[test]
fn the_secrets_of_a_request_about_storage_are_taken() {
    let request = wire::NodeGetStorageHealthRequest {
        secrets: map(&[("key", "value")]),
    };
    let parsed = parse::node_get_storage_health(request).unwrap();
    assert_eq!(parsed.incoming.secrets.get("key"), Some("value"));
}
