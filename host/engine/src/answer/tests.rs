//! Tests of the rules for answers: tables of valid and invalid ones.

use super::*;
use crate::bindings::exported::{
    capacity, controller_expand, group_snapshots, snapshot_listing, snapshot_metadata,
    volume_listing,
};
use std::sync::Arc;
use wasmount_core::names::VolumeId;
use wasmount_core::secrets::Secrets;
use wasmount_core::volume::{CapacityRange, ContentSource, PageRequest};

fn checker() -> Checker {
    let secrets = Secrets::from_iter([("password".to_owned(), "tr0ub4dor".to_owned())]);
    Checker::new(Redactor::new(Arc::new(secrets), Arc::default()), false)
}

fn pairs(pairs: &[(&str, &str)]) -> types::Attributes {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn volume(change: impl FnOnce(&mut types::Volume)) -> types::Volume {
    let mut volume = types::Volume {
        id: "volume-1".to_owned(),
        capacity_bytes: 15,
        context: Vec::new(),
        content_source: None,
        accessible_topology: Vec::new(),
    };
    change(&mut volume);
    volume
}

fn snapshot(id: &str, source: &str, group: Option<&str>) -> types::Snapshot {
    types::Snapshot {
        id: id.to_owned(),
        source_volume: source.to_owned(),
        size_bytes: 1,
        created_at: 1,
        ready_to_use: true,
        group_snapshot_id: group.map(str::to_owned),
        accessible_topology: Vec::new(),
    }
}

fn range() -> CapacityRange {
    CapacityRange::new(Some(10), Some(20)).unwrap()
}

fn reason<T>(answer: Result<T, Invalid>) -> Option<String> {
    answer.err().map(|invalid| invalid.reason)
}

#[test]
fn a_volume_within_the_rules_is_taken() {
    let changes: [fn(&mut types::Volume); 6] = [
        |_| {},
        |volume| volume.capacity_bytes = 0,
        |volume| volume.capacity_bytes = 20,
        |volume| volume.id = "v".repeat(128),
        |volume| volume.context = pairs(&[("k", &"v".repeat(4095))]),
        |volume| {
            let segments = pairs(&[("topology.kubernetes.io/zone", "eu-1"), ("rack", "R_2.x")]);
            volume.accessible_topology = vec![types::Topology { segments }];
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let answer = checker().created(volume(change), &range(), &None);
        assert_eq!(reason(answer), None, "change {number}");
    }
}

#[test]
fn a_volume_that_breaks_a_rule_is_refused() {
    type Change = fn(&mut types::Volume);
    let changes: [(Change, &str); 14] = [
        (|volume| volume.id = String::new(), "volume_id is empty"),
        (
            |volume| volume.id = "v".repeat(129),
            "volume_id is 129 bytes long, at most 128 are allowed",
        ),
        (
            |volume| volume.id = "a\0".to_owned(),
            "volume_id contains a NUL byte",
        ),
        (
            |volume| volume.id = "v-tr0ub4dor".to_owned(),
            "volume_id contains the value of a secret; clients store it in plain text",
        ),
        (
            |volume| volume.capacity_bytes = 9,
            "capacity_bytes 9 is outside of the requested range",
        ),
        (
            |volume| volume.capacity_bytes = 21,
            "capacity_bytes 21 is outside of the requested range",
        ),
        (
            |volume| volume.capacity_bytes = 1 << 63,
            "capacity_bytes is above 2^63-1 bytes",
        ),
        (
            |volume| volume.context = pairs(&[("k", &"v".repeat(4096))]),
            "volume_context is 4097 bytes long, at most 4096 are allowed",
        ),
        (
            |volume| volume.context = pairs(&[("k", "1"), ("k", "1")]),
            "volume_context has a key twice",
        ),
        (
            |volume| volume.context = pairs(&[("", "1")]),
            "volume_context: a key is empty",
        ),
        (
            |volume| volume.context = pairs(&[("k", "a\0")]),
            "volume_context contains a NUL byte",
        ),
        (
            |volume| volume.context = pairs(&[("k", "tr0ub4dor")]),
            "volume_context contains the value of a secret; clients store it in plain text",
        ),
        (
            |volume| {
                volume.content_source = Some(types::ContentSource::Volume("other".to_owned()));
            },
            "content_source is not the requested one",
        ),
        (
            |volume| volume.accessible_topology = vec![types::Topology { segments: vec![] }],
            "a topology has no segments",
        ),
    ];
    for (change, expected) in changes {
        let answer = checker().created(volume(change), &range(), &None);
        assert_eq!(reason(answer).as_deref(), Some(expected));
    }
}

#[test]
fn an_id_that_leads_upwards_is_refused_and_dots_alone_are_not() {
    for id in ["..", "../../etc", "a/../b", "a/..", "a\\..\\b"] {
        let expected =
            "volume_id has `..` between slashes; a path made of it would leave its directory";
        let answer = checker().id::<VolumeId>("volume_id", id.to_owned());
        assert_eq!(reason(answer).as_deref(), Some(expected), "{id}");
    }
    for id in ["a..b", "...", "server#export/a#b", "..a/b.."] {
        assert_eq!(
            reason(checker().id::<VolumeId>("volume_id", id.to_owned())),
            None,
            "{id}"
        );
    }
}

#[test]
fn long_ids_are_taken_where_the_administrator_takes_them() {
    let redactor = Redactor::new(Arc::default(), Arc::default());
    let checker = Checker::new(redactor, true);
    assert!(
        checker
            .id::<VolumeId>("volume_id", "v".repeat(1024))
            .is_ok()
    );
    assert!(
        checker
            .id::<VolumeId>("volume_id", "v".repeat(1025))
            .is_err()
    );
}

#[test]
fn the_source_must_be_echoed() {
    let source = ContentSource::Volume(VolumeId::parse("volume_id", "from").unwrap());
    let source = Some(source);
    let echo = |volume: &mut types::Volume| {
        volume.content_source = Some(types::ContentSource::Volume("from".to_owned()));
    };
    assert!(checker().created(volume(echo), &range(), &source).is_ok());
    assert!(
        checker()
            .created(volume(|_| {}), &range(), &source)
            .is_err()
    );
}

#[test]
fn a_topology_segment_must_be_able_to_become_a_label() {
    for (key, value, valid) in [
        ("zone", "a", true),
        ("a.b-c/zone", "a.b_c-1", true),
        ("zone", "", false),
        ("zone", "-a", false),
        ("zone", "a b", false),
        ("zone/", "a", false),
        ("/zone", "a", false),
        ("a/b/c", "a", false),
        ("a..b/zone", "a", false),
        ("zone", &"v".repeat(64), false),
        (&"k".repeat(64), "a", false),
    ] {
        let topology = types::Topology {
            segments: pairs(&[(key, value)]),
        };
        let answer = checker().topology(topology);
        assert_eq!(answer.is_ok(), valid, "{key} = {value}");
    }
}

#[test]
fn a_page_has_at_most_as_many_entries_as_asked() {
    for (entries, max, valid) in [
        (2, Some(2), true),
        (3, Some(2), false),
        (3, Some(0), true),
        (3, None, true),
    ] {
        assert_eq!(
            page_length(entries, max).is_ok(),
            valid,
            "{entries} {max:?}"
        );
    }
    let page = volume_listing::VolumePage {
        entries: Vec::new(),
        next_token: Some(String::new()),
    };
    let answer = checker().volumes(page, &PageRequest::default());
    assert_eq!(reason(answer).as_deref(), Some("next_token is empty"));
}

#[test]
fn an_expanded_volume_says_its_size_and_is_inside_of_the_range() {
    for (capacity_bytes, valid) in [(0, false), (9, false), (10, true), (20, true), (21, false)] {
        let expanded = controller_expand::Expanded {
            capacity_bytes,
            node_expansion_required: true,
        };
        let answer = checker().expanded(expanded, &range());
        assert_eq!(answer.is_ok(), valid, "{capacity_bytes}");
    }
}

#[test]
fn capacity_has_its_bounds_in_order() {
    for (minimum, maximum, valid) in [
        (Some(1), Some(2), true),
        (None, None, true),
        (Some(3), Some(2), false),
        (None, Some(u64::MAX), false),
    ] {
        let available = capacity::Available {
            available_bytes: 1,
            maximum_volume_bytes: maximum,
            minimum_volume_bytes: minimum,
        };
        let answer = checker().available(available);
        assert_eq!(answer.is_ok(), valid, "{minimum:?} {maximum:?}");
    }
}

#[test]
fn a_snapshot_is_the_one_that_was_asked_for() {
    let id = |id| VolumeId::parse("volume_id", id).unwrap();
    let answer = |source| checker().snapshot_of(snapshot("s", "v", None), &id(source));
    assert!(answer("v").is_ok());
    assert_eq!(
        reason(answer("w")).as_deref(),
        Some("source_volume_id is not the requested one")
    );
}

#[test]
fn a_group_has_one_member_for_each_source() {
    let sources = ["v", "w"].map(|id| VolumeId::parse("volume_id", id).unwrap());
    let answer = |snapshots| {
        let group = group_snapshots::GroupSnapshot {
            id: "g".to_owned(),
            snapshots,
            created_at: 1,
            ready_to_use: true,
        };
        checker().group_of(group, &sources)
    };
    let member = |source, group| snapshot(&format!("s-{source}"), source, group);
    assert!(answer(vec![member("v", Some("g")), member("w", Some("g"))]).is_ok());
    assert_eq!(
        reason(answer(vec![member("v", Some("g"))])).as_deref(),
        Some("the set of source volumes is not the requested one")
    );
    assert_eq!(
        reason(answer(vec![member("v", Some("g")), member("w", None)])).as_deref(),
        Some("a member does not name the group as its own")
    );
}

#[test]
fn extents_are_ordered_within_the_volume_and_paged() {
    let answer = |extents: &[(u64, u64)], next_offset| {
        let extents = extents.iter();
        let page = snapshot_metadata::MetadataPage {
            block_type: snapshot_metadata::BlockType::VariableLength,
            volume_capacity_bytes: 100,
            extents: extents
                .map(|(offset_bytes, size_bytes)| snapshot_metadata::Extent {
                    offset_bytes: *offset_bytes,
                    size_bytes: *size_bytes,
                })
                .collect(),
            next_offset,
        };
        checker().metadata(page, 10, 2)
    };
    assert!(answer(&[(10, 10), (20, 80)], None).is_ok());
    assert!(answer(&[(10, 10)], Some(20)).is_ok());
    // It contains the requested offset.
    assert!(answer(&[(0, 11)], None).is_ok());
    for (extents, next_offset) in [
        (&[(20, 10), (10, 10)][..], None),
        (&[(10, 11), (20, 10)], None),
        (&[(10, 0)], None),
        (&[(0, 10)], None),
        (&[(90, 11)], None),
        (&[(90, u64::MAX)], None),
        (&[(10, 1), (20, 1), (30, 1)], None),
        (&[(10, 10)], Some(10)),
        (&[(10, 10)], Some(101)),
    ] {
        assert!(answer(extents, next_offset).is_err(), "{extents:?}");
    }
}

#[test]
fn a_plugin_says_a_valid_name_and_a_version() {
    let answer = |name: &str, version: &str| {
        checker().plugin_info(identity::PluginInfo {
            name: name.to_owned(),
            version: version.to_owned(),
            manifest: Vec::new(),
            features: vec!["topology".to_owned()],
        })
    };
    assert_eq!(answer("a.example.com", "1").unwrap().features, ["topology"]);
    for (name, version) in [
        ("a/b", "1"),
        ("", "1"),
        ("tr0ub4dor.example.com", "1"),
        ("a", ""),
        ("a", &"1".repeat(65)),
    ] {
        assert!(answer(name, version).is_err(), "{name} {version}");
    }
}

#[test]
fn a_source_in_a_list_holds_no_secret() {
    let of_volume = |id: &str| {
        let source = types::ContentSource::Volume(id.to_owned());
        checker().volume(volume(|volume| volume.content_source = Some(source)))
    };
    let of_snapshot = |id: &str| {
        let page = snapshot_listing::SnapshotPage {
            entries: vec![snapshot("s", id, None)],
            next_token: None,
        };
        checker().snapshots(page, &PageRequest::default())
    };
    assert!(of_volume("other").is_ok() && of_snapshot("other").is_ok());
    let message = |what: &str| {
        Some(format!(
            "{what} contains the value of a secret; clients store it in plain text"
        ))
    };
    assert_eq!(reason(of_volume("tr0ub4dor")), message("content_source"));
    assert_eq!(
        reason(of_snapshot("tr0ub4dor")),
        message("source_volume_id")
    );
}
