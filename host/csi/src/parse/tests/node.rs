//! Requests of the Node service: paths, and the two keys by which kubelet passes data for which CSI has no field.

use super::*;
use crate::parse;

const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

fn publish() -> wire::NodePublishVolumeRequest {
    wire::NodePublishVolumeRequest {
        volume_id: "v".to_owned(),
        target_path: "/target".to_owned(),
        volume_capability: Some(mount_capability()),
        ..Default::default()
    }
}

#[test]
fn a_required_field_that_is_missing_is_named() {
    let volume_id = || "v".to_owned();
    let stage = wire::NodeStageVolumeRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let staged = wire::NodeStageVolumeRequest {
        staging_target_path: "/s".to_owned(),
        ..stage.clone()
    };
    let no_target = wire::NodePublishVolumeRequest {
        target_path: String::new(),
        ..publish()
    };
    let no_capability = wire::NodePublishVolumeRequest {
        volume_capability: None,
        ..publish()
    };
    let unstage = wire::NodeUnstageVolumeRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let unpublish = wire::NodeUnpublishVolumeRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let stats = wire::NodeGetVolumeStatsRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let expand = wire::NodeExpandVolumeRequest {
        volume_id: volume_id(),
        ..Default::default()
    };
    let table = [
        (
            refusal(parse::node_stage_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::node_stage_volume(stage)),
            "staging_target_path is empty",
        ),
        (
            refusal(parse::node_stage_volume(staged)),
            "volume_capability is empty",
        ),
        (
            refusal(parse::node_unstage_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::node_unstage_volume(unstage)),
            "staging_target_path is empty",
        ),
        (
            refusal(parse::node_publish_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::node_publish_volume(no_target)),
            "target_path is empty",
        ),
        (
            refusal(parse::node_publish_volume(no_capability)),
            "volume_capability is empty",
        ),
        (
            refusal(parse::node_unpublish_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::node_unpublish_volume(unpublish)),
            "target_path is empty",
        ),
        (
            refusal(parse::node_get_volume_stats(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::node_get_volume_stats(stats)),
            "volume_path is empty",
        ),
        (
            refusal(parse::node_expand_volume(Default::default())),
            "volume_id is empty",
        ),
        (
            refusal(parse::node_expand_volume(expand)),
            "volume_path is empty",
        ),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal, expected);
    }
}

#[test]
fn service_account_tokens_are_moved_to_the_secrets() {
    let volume_context = map(&[(TOKENS, "token"), ("csi.storage.k8s.io/pod.name", "p")]);
    let parsed = parse::node_publish_volume(wire::NodePublishVolumeRequest {
        volume_context,
        ..publish()
    })
    .unwrap();
    assert_eq!(parsed.incoming.secrets.get(TOKENS), Some("token"));
    assert_eq!(parsed.arguments.volume.volume_context.get(TOKENS), None);
    assert_eq!(
        parsed
            .arguments
            .volume
            .volume_context
            .get("csi.storage.k8s.io/pod.name"),
        Some("p")
    );
    assert!(!format!("{parsed:?}").contains("token\""));
}

#[test]
fn tokens_that_came_as_secrets_are_not_replaced_by_the_context() {
    let request = wire::NodePublishVolumeRequest {
        volume_context: map(&[(TOKENS, "forged")]),
        secrets: map(&[(TOKENS, "real")]),
        ..publish()
    };
    let parsed = parse::node_publish_volume(request).unwrap();
    assert_eq!(parsed.incoming.secrets.get(TOKENS), Some("real"));
    assert!(parsed.arguments.volume.volume_context.is_empty());
}

#[test]
fn a_volume_is_ephemeral_only_when_kubelet_says_true() {
    for (value, expected) in [
        (Some("true"), true),
        (Some("false"), false),
        (Some("True"), false),
        (None, false),
    ] {
        let volume_context = value
            .map(|value| map(&[("csi.storage.k8s.io/ephemeral", value)]))
            .unwrap_or_default();
        let request = wire::NodePublishVolumeRequest {
            volume_context,
            ..publish()
        };
        assert_eq!(
            taken(parse::node_publish_volume(request)).volume.ephemeral,
            expected,
            "{value:?}"
        );
    }
}

#[test]
fn an_empty_staging_path_is_absent() {
    let without = taken(parse::node_publish_volume(publish()));
    assert_eq!(without.staging_path, None);
    let staged = wire::NodePublishVolumeRequest {
        staging_target_path: "/s".to_owned(),
        ..publish()
    };
    let path = taken(parse::node_publish_volume(staged))
        .staging_path
        .unwrap();
    assert_eq!(path.as_str(), "/s");
}

#[test]
fn a_path_may_be_relative_and_long_but_holds_no_nul() {
    let stats = |path: &str| {
        parse::node_get_volume_stats(wire::NodeGetVolumeStatsRequest {
            volume_id: "v".to_owned(),
            volume_path: path.to_owned(),
            ..Default::default()
        })
    };
    assert_eq!(taken(stats("some/path")).volume_path.as_str(), "some/path");
    taken(stats(&"p".repeat(4095)));
    assert_eq!(
        refusal(stats(&"p".repeat(4096))),
        "volume_path is 4096 bytes long, at most 4095 are allowed"
    );
    assert_eq!(refusal(stats("/a\0b")), "volume_path contains a NUL byte");
}

#[test]
fn growing_on_a_node_needs_neither_range_nor_capability() {
    let request = wire::NodeExpandVolumeRequest {
        volume_id: "v".to_owned(),
        volume_path: "/p".to_owned(),
        ..Default::default()
    };
    let requested = taken(parse::node_expand_volume(request));
    assert_eq!(requested.capacity.required(), None);
}

#[test]
fn a_target_apart_from_the_staging_path_is_taken_alone() {
    let paths = |staging: &str, target: &str| {
        parse::node_publish_volume(wire::NodePublishVolumeRequest {
            staging_target_path: staging.to_owned(),
            target_path: target.to_owned(),
            ..publish()
        })
    };
    for (staging, target) in [
        ("/k/stage", "/k/pod"),
        ("/k/s", "/k/stage/t"),
        ("/k/s/t", "/k/st"),
    ] {
        taken(paths(staging, target));
    }
    for (staging, target) in [
        ("/k/s", "/k/s"),
        ("/k/s", "/k/s/t"),
        ("/k//s/", "/k/s/t/u"),
        ("/k/t/s", "/k/t"),
    ] {
        assert_eq!(
            refusal(paths(staging, target)),
            "target_path and staging_target_path are the same, or one lies in the other"
        );
    }
}
