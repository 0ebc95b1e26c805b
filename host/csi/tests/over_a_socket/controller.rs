//! The Controller service, about volumes: each RPC with valid and invalid requests.

use crate::support::{Served, mounted, refused, volume_named};
use std::collections::BTreeMap;
use tonic::Code;
use wasmount_csi::wire::csi::v1 as wire;

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

#[tokio::test]
async fn a_volume_is_created_once_by_name_and_deleted_repeatedly() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    let request = wire::CreateVolumeRequest {
        parameters: map("pool", "fast"),
        secrets: map("password", "hunter2"),
        ..volume_named("a")
    };
    for _ in 0..2 {
        let volume = controller
            .create_volume(request.clone())
            .await
            .unwrap()
            .into_inner()
            .volume
            .unwrap();
        assert_eq!(
            (volume.volume_id.as_str(), volume.capacity_bytes),
            ("v-a", 1024)
        );
        assert_eq!(volume.volume_context, map("pool", "fast"));
        assert_eq!(
            volume.accessible_topology,
            [wire::Topology {
                segments: map("zone", "a")
            }]
        );
    }
    assert_eq!(
        served.backend.password.lock().unwrap().as_deref(),
        Some("hunter2")
    );

    let delete = wire::DeleteVolumeRequest {
        volume_id: "v-a".to_owned(),
        ..Default::default()
    };
    for _ in 0..2 {
        controller.delete_volume(delete.clone()).await.unwrap();
    }
}

#[tokio::test]
async fn a_volume_of_the_same_name_and_another_size_already_exists() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    controller.create_volume(volume_named("a")).await.unwrap();
    let capacity_range = Some(wire::CapacityRange {
        required_bytes: 4096,
        limit_bytes: 0,
    });
    let other = wire::CreateVolumeRequest {
        capacity_range,
        ..volume_named("a")
    };
    let refused = refused(controller.create_volume(other).await);
    assert_eq!(
        refused,
        (
            Code::AlreadyExists,
            "v-a exists with another size".to_owned()
        )
    );
}

#[tokio::test]
async fn a_malformed_field_is_named_in_invalid_argument() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    let no_name = refused(controller.create_volume(volume_named("")).await);
    assert_eq!(no_name, (Code::InvalidArgument, "name is empty".to_owned()));
    let capacity_range = Some(wire::CapacityRange {
        required_bytes: 2,
        limit_bytes: 1,
    });
    let request = wire::CreateVolumeRequest {
        capacity_range,
        ..volume_named("a")
    };
    let refused = refused(controller.create_volume(request).await);
    assert_eq!(
        refused,
        (
            Code::InvalidArgument,
            "capacity_range requires more than its limit".to_owned()
        )
    );
}

#[tokio::test]
async fn a_confirmation_repeats_what_was_asked_and_a_refusal_says_why() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    controller.create_volume(volume_named("a")).await.unwrap();
    let request = wire::ValidateVolumeCapabilitiesRequest {
        volume_id: "v-a".to_owned(),
        volume_context: map("c", "1"),
        volume_capabilities: vec![mounted()],
        mutable_parameters: map("m", "2"),
        ..Default::default()
    };
    let answer = controller
        .validate_volume_capabilities(request.clone())
        .await
        .unwrap()
        .into_inner();
    let confirmed = answer.confirmed.unwrap();
    assert_eq!(confirmed.volume_capabilities, [mounted()]);
    assert_eq!(
        (confirmed.volume_context, confirmed.mutable_parameters),
        (map("c", "1"), map("m", "2"))
    );

    let request = wire::ValidateVolumeCapabilitiesRequest {
        parameters: map("unsupported", "too odd"),
        ..request
    };
    let answer = controller
        .validate_volume_capabilities(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (answer.confirmed, answer.message.as_str()),
        (None, "too odd")
    );

    let request = wire::ValidateVolumeCapabilitiesRequest {
        volume_id: "v-b".to_owned(),
        ..request
    };
    assert_eq!(
        refused(controller.validate_volume_capabilities(request).await).0,
        Code::NotFound
    );
}

#[tokio::test]
async fn a_volume_is_published_to_a_node_and_unpublished() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    controller.create_volume(volume_named("a")).await.unwrap();
    let request = wire::ControllerPublishVolumeRequest {
        volume_id: "v-a".to_owned(),
        node_id: "n".to_owned(),
        volume_capability: Some(mounted()),
        ..Default::default()
    };
    let answer = controller
        .controller_publish_volume(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.publish_context, map("device", "on-n"));
    let unknown = wire::ControllerPublishVolumeRequest {
        volume_id: "v-b".to_owned(),
        ..request
    };
    assert_eq!(
        refused(controller.controller_publish_volume(unknown).await).0,
        Code::NotFound
    );
    let request = wire::ControllerUnpublishVolumeRequest {
        volume_id: "v-a".to_owned(),
        ..Default::default()
    };
    controller
        .controller_unpublish_volume(request)
        .await
        .unwrap();
}

#[tokio::test]
async fn volumes_are_listed_page_by_page() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    for name in ["a", "b", "c"] {
        controller.create_volume(volume_named(name)).await.unwrap();
    }
    let mut token = String::new();
    let mut seen = Vec::new();
    for expected in [2, 1] {
        let request = wire::ListVolumesRequest {
            max_entries: 2,
            starting_token: token,
        };
        let page = controller.list_volumes(request).await.unwrap().into_inner();
        assert_eq!(page.entries.len(), expected);
        for entry in page.entries {
            seen.push(entry.volume.unwrap().volume_id);
            assert_eq!(
                entry.status.unwrap().volume_condition.unwrap().message,
                "well"
            );
        }
        token = page.next_token;
    }
    assert_eq!(
        (seen, token.as_str()),
        (
            vec!["v-a".to_owned(), "v-b".to_owned(), "v-c".to_owned()],
            ""
        )
    );
    let negative = wire::ListVolumesRequest {
        max_entries: -1,
        ..Default::default()
    };
    assert_eq!(
        refused(controller.list_volumes(negative).await).0,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn one_volume_is_looked_up() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    controller.create_volume(volume_named("a")).await.unwrap();
    let get = |id: &str| wire::ControllerGetVolumeRequest {
        volume_id: id.to_owned(),
    };
    let found = controller
        .controller_get_volume(get("v-a"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(found.volume.unwrap().volume_id, "v-a");
    assert!(!found.status.unwrap().volume_condition.unwrap().abnormal);
    assert_eq!(
        refused(controller.controller_get_volume(get("v-b")).await).0,
        Code::NotFound
    );
}

#[tokio::test]
async fn a_capacity_says_what_is_known_and_leaves_out_what_is_not() {
    let served = Served::whole();
    let answer = served
        .controller()
        .await
        .get_capacity(wire::GetCapacityRequest::default())
        .await;
    let capacity = answer.unwrap().into_inner();
    assert_eq!(capacity.available_capacity, 1 << 30);
    assert_eq!(
        (capacity.maximum_volume_size, capacity.minimum_volume_size),
        (Some(1 << 20), None)
    );
}

#[tokio::test]
async fn a_volume_grows_and_is_modified() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    controller.create_volume(volume_named("a")).await.unwrap();
    let grow = |id: &str| wire::ControllerExpandVolumeRequest {
        volume_id: id.to_owned(),
        capacity_range: Some(wire::CapacityRange {
            required_bytes: 8192,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    let grown = controller
        .controller_expand_volume(grow("v-a"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (grown.capacity_bytes, grown.node_expansion_required),
        (8192, true)
    );
    assert_eq!(
        refused(controller.controller_expand_volume(grow("v-b")).await).0,
        Code::NotFound
    );

    let modify = |id: &str| wire::ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        mutable_parameters: map("iops", "7"),
        ..Default::default()
    };
    controller
        .controller_modify_volume(modify("v-a"))
        .await
        .unwrap();
    assert_eq!(
        refused(controller.controller_modify_volume(modify("v-b")).await).0,
        Code::NotFound
    );
}
