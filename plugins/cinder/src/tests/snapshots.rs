//! Snapshots, backups, and volumes from them.

use super::*;

const VOLUME: &str = "GET /v3/volumes/ID";
const LOOK: &str = "GET /v3/snapshots/detail?name=s";
const GET: &str = "GET /v3/snapshots/OTHER";
const BACKUPS: &str = "GET /v3/backups/detail?name=s";
const TAKEN: u64 = 1_764_088_678_705_506_000;

fn snapshot(status: &str) -> Value {
    json!({ "id": OTHER, "name": "s", "status": status, "size": 2, "volume_id": ID, "created_at": "2025-11-25T16:37:58.705506" })
}

fn backup(status: &str) -> Value {
    let changes = json!({ "id": ID, "snapshot_id": OTHER, "fail_reason": "no service" });
    with(snapshot(status), changes)
}

fn takes(status: &str) -> Vec<Line> {
    vec![
        (LOOK, 200, json!({ "snapshots": [] })),
        (VOLUME, 200, one(volume("in-use"))),
        (
            "POST /v3/snapshots",
            202,
            json!({ "snapshot": snapshot("creating") }),
        ),
        (LOOK, 200, json!({ "snapshots": [snapshot("creating")] })),
        (GET, 200, json!({ "snapshot": snapshot(status) })),
    ]
}

fn take(parameters: &[(&str, &str)]) -> Result<Snapshot, Error> {
    Cinder::create_snapshot(CreateSnapshotArgs {
        source_volume: ID.to_owned(),
        name: "s".to_owned(),
        parameters: pairs(parameters),
        accessibility: None,
    })
}

#[test]
fn a_snapshot_is_taken_and_ready() {
    let script = Script::of(takes("available"));
    let taken = take(&[("force-create", "true")]).unwrap();
    assert_eq!(taken, Snapshot::new(OTHER, ID, 2 * GIB, TAKEN));
    script.end();
}

#[test]
fn a_snapshot_of_another_volume_has_its_name() {
    let other = with(snapshot("available"), json!({ "volume_id": OTHER }));
    let script = Script::of([(LOOK, 200, json!({ "snapshots": [other] }))]);
    assert_eq!(code(take(&[])), Some(Code::AlreadyExists));
    script.end();
}

#[test]
fn a_snapshot_that_fails_is_removed() {
    let mut lines = takes("error");
    lines.push(("DELETE /v3/snapshots/OTHER", 202, Value::Null));
    let script = Script::of(lines);
    assert_eq!(code(take(&[])), Some(Code::Unavailable));
    script.end();
}

#[test]
fn a_backup_is_made_of_a_snapshot_that_goes() {
    let mut lines = vec![(BACKUPS, 200, json!({ "backups": [] }))];
    lines.extend(takes("available"));
    lines.extend([
        ("POST /v3/backups", 202, json!({ "backup": { "id": ID } })),
        (BACKUPS, 200, json!({ "backups": [backup("creating")] })),
        (
            "GET /v3/backups/ID",
            200,
            json!({ "backup": backup("available") }),
        ),
        ("DELETE /v3/snapshots/OTHER", 202, Value::Null),
        (GET, 404, fault(404, "gone")),
    ]);
    let script = Script::of(lines);
    let taken = take(&[("type", "backup"), ("availability", "zone-b")]).unwrap();
    assert_eq!(taken, Snapshot::new(ID, ID, 2 * GIB, TAKEN));
    let sent = script.end();
    assert_eq!(sent[1]["backup"]["snapshot_id"], OTHER);
    assert_eq!(sent[1]["backup"]["availability_zone"], "zone-b");
}

#[test]
fn a_backup_that_fails_is_removed_with_its_reason() {
    let script = Script::of([
        (BACKUPS, 200, json!({ "backups": [backup("error")] })),
        (
            "GET /v3/backups/ID",
            200,
            json!({ "backup": backup("error") }),
        ),
        ("DELETE /v3/backups/ID", 202, Value::Null),
        // Cinder keeps it, if no service was there to make the backup.
        ("DELETE /v3/snapshots/OTHER", 400, fault(400, "backing up")),
    ]);
    let error = take(&[("type", "backup")]).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.ends_with("no service"), "{}", error.message);
    script.end();
}

#[test]
fn a_backup_beyond_the_quota_leaves_no_snapshot() {
    let mut lines = vec![(BACKUPS, 200, json!({ "backups": [] }))];
    lines.extend(takes("available"));
    lines.extend([
        ("POST /v3/backups", 413, fault(413, "quota")),
        ("DELETE /v3/snapshots/OTHER", 202, Value::Null),
    ]);
    let script = Script::of(lines);
    let refused = take(&[("type", "backup")]);
    assert_eq!(code(refused), Some(Code::ResourceExhausted));
    script.end();
}

#[test]
fn a_backup_is_dated_by_its_data_and_ready_when_restored() {
    for (status, is_ready) in [
        ("available", true),
        ("restoring", true),
        ("creating", false),
        ("error", false),
    ] {
        let dated = json!({ "created_at": "2025-11-25T17:00:00", "data_timestamp": "2025-11-25T16:37:58.705506" });
        let backup = json!({ "backup": with(backup(status), dated) });
        let script = Script::of([
            ("GET /v3/snapshots/ID", 404, fault(404, "none")),
            ("GET /v3/backups/ID", 200, backup),
        ]);
        let found = Cinder::get_snapshot(ID.to_owned()).unwrap();
        assert_eq!((found.created_at, found.ready_to_use), (TAKEN, is_ready));
        script.end();
    }
}

#[test]
fn a_list_of_snapshots_ends_with_backups() {
    let snapshots = |more: bool| {
        let link = json!([{ "rel": "next" }]);
        let links = if more { link } else { json!([]) };
        json!({ "snapshots": [snapshot("available")], "snapshots_links": links })
    };
    let backups =
        |more: &str| json!({ "backups": [backup("available")], more: [{ "rel": "next" }] });
    let whole = (
        "GET /v3/snapshots/detail?sort=created_at%3Aasc",
        snapshots(false),
    );
    let first = (
        "GET /v3/snapshots/detail?sort=created_at%3Aasc&limit=1",
        snapshots(true),
    );
    let last = (
        "GET /v3/snapshots/detail?sort=created_at%3Aasc&limit=1&marker=OTHER",
        snapshots(false),
    );
    let mixed = (
        "GET /v3/snapshots/detail?sort=created_at%3Aasc&limit=3",
        snapshots(false),
    );
    let all_backups = (
        "GET /v3/backups/detail?sort=created_at%3Aasc",
        backups("none"),
    );
    let filled = (
        "GET /v3/backups/detail?sort=created_at%3Aasc&limit=2",
        backups("backups_links"),
    );
    let one = (
        "GET /v3/backups/detail?sort=created_at%3Aasc&limit=1",
        backups("none"),
    );
    let rest = (
        "GET /v3/backups/detail?sort=created_at%3Aasc&limit=1&marker=ID",
        backups("none"),
    );
    for (max_entries, token, lines, ids, next) in [
        (None, None, vec![whole, all_backups], &[OTHER, ID][..], None),
        (Some(1), None, vec![first], &[OTHER], Some(OTHER)),
        (Some(1), Some(OTHER), vec![last], &[OTHER], Some("backups:")),
        (Some(1), Some("backups:"), vec![one], &[ID], None),
        (
            Some(3),
            None,
            vec![mixed, filled],
            &[OTHER, ID],
            Some("backups:74b4b7da-ad48-459c-954d-0df2586d0780"),
        ),
        (
            Some(1),
            Some("backups:74b4b7da-ad48-459c-954d-0df2586d0780"),
            vec![rest],
            &[ID],
            None,
        ),
    ] {
        let script = Script::of(lines.into_iter().map(|(line, body)| (line, 200, body)));
        let listed = Cinder::list_snapshots(ListSnapshotsArgs {
            source_volume: None,
            page: PageRequest {
                max_entries,
                starting_token: token.map(str::to_owned),
            },
        });
        let listed = listed.unwrap();
        let found: Vec<_> = listed.entries.iter().map(|it| it.id.as_str()).collect();
        assert_eq!((&found[..], listed.next_token.as_deref()), (ids, next));
        script.end();
    }
}

#[test]
fn a_backup_stays_while_its_service_is_away() {
    let missing = fault(404, "Service cinder-backup could not be found.");
    let script = Script::of([
        ("DELETE /v3/snapshots/ID", 404, fault(404, "none")),
        ("GET /v3/snapshots/ID", 404, fault(404, "none")),
        ("DELETE /v3/backups/ID", 404, missing),
        (
            "GET /v3/backups/ID",
            200,
            json!({ "backup": backup("available") }),
        ),
    ]);
    let error = Cinder::delete_snapshot(ID.to_owned()).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("cinder-backup"), "{}", error.message);
    script.end();
}

#[test]
fn what_is_no_snapshot_is_deleted_as_a_backup() {
    let script = Script::of([
        ("DELETE /v3/snapshots/OTHER", 404, fault(404, "none")),
        (GET, 404, fault(404, "none")),
        ("DELETE /v3/backups/OTHER", 202, Value::Null),
        ("GET /v3/backups/OTHER", 404, fault(404, "gone")),
    ]);
    assert_eq!(Cinder::delete_snapshot(OTHER.to_owned()), Ok(()));
    script.end();
}

#[test]
fn a_volume_begins_as_what_its_source_is() {
    for (lines, field, shown) in [
        (
            vec![(GET, 200, json!({ "snapshot": snapshot("available") }))],
            "snapshot_id",
            json!({ "snapshot_id": OTHER }),
        ),
        (
            vec![
                (GET, 404, fault(404, "none")),
                (
                    "GET /v3/backups/OTHER",
                    200,
                    json!({ "backup": with(backup("available"), json!({ "id": OTHER })) }),
                ),
            ],
            "backup_id",
            // Cinder has no field for it.
            json!({ "metadata": { "src_backup_id": OTHER } }),
        ),
    ] {
        let look = "GET /v3/volumes/detail?name=a";
        let made = || with(volume("available"), shown.clone());
        let mut script = vec![(look, 200, many([]))];
        script.extend(lines);
        script.extend([
            ("POST /v3/volumes", 202, one(made())),
            (look, 200, many([made()])),
            (VOLUME, 200, one(made())),
        ]);
        let script = Script::of(script);
        let content_source = Some(ContentSource::Snapshot(OTHER.to_owned()));
        let created = Cinder::create_volume(CreateVolumeArgs {
            content_source: content_source.clone(),
            ..request()
        });
        assert_eq!(created.unwrap().content_source, content_source);
        assert_eq!(script.end()[0]["volume"][field], OTHER);
    }
}

#[test]
fn a_source_that_is_not_ready_or_not_there_is_refused() {
    let look = ("GET /v3/volumes/detail?name=a", 200, many([]));
    let found = |status| (GET, 200, json!({ "snapshot": snapshot(status) }));
    let none = || {
        vec![
            (GET, 404, fault(404, "none")),
            ("GET /v3/backups/OTHER", 404, fault(404, "none")),
        ]
    };
    for (lines, expected) in [
        (vec![found("creating")], Code::Aborted),
        (vec![found("error")], Code::FailedPrecondition),
        // Looked for once more: a type could be missing too.
        ([none(), none()].concat(), Code::NotFound),
    ] {
        let script = Script::of([look.clone()].into_iter().chain(lines));
        let content_source = Some(ContentSource::Snapshot(OTHER.to_owned()));
        let refused = Cinder::create_volume(CreateVolumeArgs {
            content_source,
            ..request()
        });
        assert_eq!(code(refused), Some(expected));
        script.end();
    }
}
