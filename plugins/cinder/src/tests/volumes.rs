//! Creating, expanding, listing and deleting volumes.

use super::*;

const LOOK: &str = "GET /v3/volumes/detail?name=a";
const POST: &str = "POST /v3/volumes";

fn creates(status: &str) -> Vec<Line> {
    let mut lines = vec![
        (LOOK, 200, many([])),
        (POST, 202, one(volume("creating"))),
        (LOOK, 200, many([volume("creating")])),
    ];
    lines.extend(rests(status));
    lines
}

fn of(cluster: &str) -> Value {
    json!({ "metadata": { "cinder.csi.openstack.org/cluster": cluster } })
}

fn in_zones(zones: &[&str]) -> Option<TopologyRequirement> {
    let preferred = zones
        .iter()
        .map(|it| Topology::of(class::ZONE, *it))
        .collect();
    Some(TopologyRequirement {
        requisite: Vec::new(),
        preferred,
    })
}

#[test]
fn a_volume_is_created_and_waited_for() {
    let script = Script::of(creates("available"));
    let created = Cinder::create_volume(request()).unwrap();
    assert_eq!((created.id.as_str(), created.capacity_bytes), (ID, 2 * GIB));
    assert_eq!(
        created.accessible_topology,
        [Topology::of(class::ZONE, "zone-a")]
    );
    let metadata =
        json!({ "cinder.csi.openstack.org/cluster": "blue", "csi.storage.k8s.io/pv/name": "a" });
    let body = json!({ "volume": {
        "name": "a", "size": 2, "metadata": metadata, "volume_type": "fast", "availability_zone": null,
    }});
    assert_eq!(script.end(), [body]);
}

#[test]
fn a_repeated_call_finds_its_volume() {
    let found = (
        LOOK,
        200,
        many([
            volume("deleting"),
            with(volume("creating"), json!({ "id": OTHER })),
        ]),
    );
    let other = with(volume("available"), json!({ "id": OTHER }));
    let script = Script::of([found, ("GET /v3/volumes/OTHER", 200, one(other))]);
    assert_eq!(Cinder::create_volume(request()).unwrap().id, OTHER);
    assert_eq!(script.end(), [Value::Null; 0]);
}

#[test]
fn another_volume_of_the_name_is_refused() {
    for change in [
        json!({ "size": 1 }),
        json!({ "volume_type": "slow", "volume_type_id": ID }),
        json!({ "snapshot_id": OTHER }),
    ] {
        let other = with(volume("available"), change);
        let found = (LOOK, 200, many([other.clone()]));
        let script = Script::of([found, ("GET /v3/volumes/ID", 200, one(other))]);
        assert_eq!(
            code(Cinder::create_volume(request())),
            Some(Code::AlreadyExists)
        );
        script.end();
    }
}

#[test]
fn of_two_volumes_created_at_once_the_later_is_undone() {
    let own = |status| with(volume(status), of("blue"));
    let seen = |second| {
        let twin = json!({ "id": OTHER, "created_at": format!("2026-11-25T16:37:{second}") });
        [
            (LOOK, 200, many([])),
            (POST, 202, one(own("creating"))),
            (
                LOOK,
                200,
                many([own("creating"), with(own("available"), twin)]),
            ),
        ]
    };
    let mut lines = seen("57").to_vec();
    lines.extend(rests("available"));
    lines.push(("DELETE /v3/volumes/ID", 202, Value::Null));
    lines.push(("GET /v3/volumes/ID", 200, one(volume("deleting"))));
    lines.push(("GET /v3/volumes/ID", 404, fault(404, "gone")));
    let script = Script::of(lines);
    assert_eq!(code(Cinder::create_volume(request())), Some(Code::Aborted));
    script.end();
    let mut lines = seen("59").to_vec();
    lines.push(("GET /v3/volumes/OTHER", 404, fault(404, "gone")));
    lines.extend(rests("available"));
    let script = Script::of(lines);
    assert_eq!(Cinder::create_volume(request()).unwrap().id, ID);
    script.end();
}

#[test]
fn a_twin_of_a_known_volume_is_undone_if_no_call_returned_it() {
    for (cluster, time, is_undone) in [
        ("blue", "16:38:30.0", true),
        ("blue", "17:00:00.0", false),
        ("green", "16:38:30.0", false),
    ] {
        let later = json!({ "id": OTHER, "created_at": format!("2026-11-25T{time}") });
        let twin = with(with(volume("available"), later), of(cluster));
        let mut lines = vec![(LOOK, 200, many([twin.clone(), volume("available")]))];
        if is_undone {
            lines.push(("GET /v3/volumes/OTHER", 200, one(twin)));
            lines.push(("DELETE /v3/volumes/OTHER", 202, Value::Null));
            lines.push(("GET /v3/volumes/OTHER", 404, fault(404, "gone")));
        }
        lines.push(("GET /v3/volumes/ID", 200, one(volume("available"))));
        let script = Script::of(lines);
        assert_eq!(Cinder::create_volume(request()).unwrap().id, ID);
        script.end();
    }
}

#[test]
fn a_volume_that_cannot_be_created_is_removed() {
    for status in ["error", "error_restoring"] {
        let message = json!({ "messages": [{ "user_message": "no backend" }] });
        let mut lines = creates(status);
        lines.push(("GET /v3/messages?resource_uuid=ID", 200, message));
        lines.push(("DELETE /v3/volumes/ID", 202, Value::Null));
        let script = Script::of(lines);
        let error = Cinder::create_volume(request()).unwrap_err();
        assert_eq!(error.code, Code::ResourceExhausted, "{status}");
        assert!(error.message.ends_with("no backend"), "{}", error.message);
        script.end();
    }
}

#[test]
fn the_first_zone_that_exists_is_used() {
    let zone =
        |name, available| json!({ "zoneName": name, "zoneState": { "available": available } });
    let zones = json!({ "availabilityZoneInfo": [zone("zone-a", true), zone("zone-b", false)] });
    let asked = ("GET /v3/os-availability-zone", 200, zones);
    let mut lines = creates("available");
    lines.insert(1, asked.clone());
    let script = Script::of(lines);
    let accessibility = in_zones(&["zone-b", "zone-a"]);
    Cinder::create_volume(CreateVolumeArgs {
        accessibility,
        ..request()
    })
    .unwrap();
    assert_eq!(script.end()[0]["volume"]["availability_zone"], "zone-a");
    let script = Script::of([(LOOK, 200, many([])), asked]);
    let accessibility = in_zones(&["zone-b"]);
    let refused = Cinder::create_volume(CreateVolumeArgs {
        accessibility,
        ..request()
    });
    assert_eq!(code(refused), Some(Code::ResourceExhausted));
    script.end();
}

#[test]
fn many_nodes_need_a_type_that_allows_them() {
    let shared = || {
        vec![capability(
            AccessType::Block,
            AccessMode::MultiNodeMultiWriter,
        )]
    };
    let mut lines = creates("available");
    lines.truncate(3);
    lines.push(("DELETE /v3/volumes/ID", 202, Value::Null));
    let script = Script::of(lines);
    let refused = Cinder::create_volume(CreateVolumeArgs {
        capabilities: shared(),
        ..request()
    });
    assert_eq!(code(refused), Some(Code::InvalidArgument));
    script.end();
    let both = with(volume("available"), json!({ "multiattach": true }));
    let record: crate::volumes::Record = serde_json::from_value(both).unwrap();
    assert_eq!(record.check(&shared()), Ok(()));
    assert_eq!(
        record.check(&[mounted(AccessMode::MultiNodeReaderOnly)]),
        Ok(())
    );
    let written = record.check(&[mounted(AccessMode::MultiNodeMultiWriter)]);
    assert_eq!(code(written), Some(Code::InvalidArgument));
}

#[test]
fn a_volume_is_deleted_until_it_is_gone() {
    let get = "GET /v3/volumes/ID";
    let script = Script::of([
        ("DELETE /v3/volumes/ID", 202, Value::Null),
        (get, 200, one(volume("deleting"))),
        (get, 404, fault(404, "gone")),
    ]);
    assert_eq!(Cinder::delete_volume(ID.to_owned()), Ok(()));
    script.end();
    let script = Script::of([]);
    assert_eq!(Cinder::delete_volume("detail".to_owned()), Ok(()));
    script.end();
}

#[test]
fn a_volume_in_use_grows() {
    let get = "GET /v3/volumes/ID";
    let script = Script::of([
        (get, 200, one(volume("in-use"))),
        ("POST /v3/volumes/ID/action", 202, Value::Null),
        (get, 200, one(volume("extending"))),
        (get, 200, one(with(volume("in-use"), json!({ "size": 3 })))),
    ]);
    let capacity = CapacityRange {
        required_bytes: Some(3 * GIB),
        limit_bytes: None,
    };
    let args = ExpandArgs {
        id: ID.to_owned(),
        capacity,
        capability: None,
    };
    let grown = Cinder::expand_volume(args).unwrap();
    assert_eq!(grown, Expanded::to(3 * GIB).then_on_node(true));
    assert_eq!(script.end(), [json!({ "os-extend": { "new_size": 3 } })]);
}

#[test]
fn a_volume_without_a_status_is_listed_and_stays() {
    let lost = || with(volume("available"), json!({ "status": null }));
    let list = "GET /v3/volumes/detail?sort=created_at%3Aasc";
    let script = Script::of([
        (list, 200, many([lost()])),
        ("DELETE /v3/volumes/ID", 400, fault(400, "status")),
        ("GET /v3/volumes/ID", 200, one(lost())),
    ]);
    let page = PageRequest {
        max_entries: None,
        starting_token: None,
    };
    assert_eq!(Cinder::list_volumes(page).unwrap().entries.len(), 1);
    let deleted = Cinder::delete_volume(ID.to_owned());
    assert_eq!(code(deleted), Some(Code::FailedPrecondition));
    script.end();
}

#[test]
fn a_list_goes_on_where_cinder_links_to_more() {
    let attached = json!({ "attachments": [{ "attachment_id": OTHER, "server_id": null, "device": "node-1" }] });
    let page = json!({ "volumes": [with(volume("in-use"), attached)], "volumes_links": [{ "rel": "next" }] });
    let script = Script::of([(
        "GET /v3/volumes/detail?sort=created_at%3Aasc&limit=1&marker=OTHER",
        200,
        page,
    )]);
    let request = PageRequest {
        max_entries: Some(1),
        starting_token: Some(OTHER.to_owned()),
    };
    let page = Cinder::list_volumes(request).unwrap();
    assert_eq!(page.next_token.as_deref(), Some(ID));
    assert_eq!(page.entries[0].status.published_nodes, ["node-1"]);
    script.end();
}

#[test]
fn capacity_is_what_the_quota_leaves() {
    let limits = |volumes, gigabytes| {
        let absolute = json!({ "maxTotalVolumes": volumes, "totalVolumesUsed": 1, "maxTotalVolumeGigabytes": gigabytes, "totalGigabytesUsed": 4 });
        (
            "GET /v3/limits",
            200,
            json!({ "limits": { "absolute": absolute } }),
        )
    };
    for (volumes, gigabytes, left) in [(10, 10, 6), (1, 10, 0), (-1, 3, 0), (-1, -1, (1 << 33) - 1)]
    {
        let script = Script::of([limits(volumes, gigabytes)]);
        let args = CapacityArgs {
            capabilities: Vec::new(),
            parameters: Vec::new(),
            accessible_topology: None,
        };
        assert_eq!(
            Cinder::get_capacity(args).unwrap().available_bytes,
            left * GIB
        );
        script.end();
    }
}
