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
    ]);
    let error = take(&[("type", "backup")]).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.ends_with("no service"), "{}", error.message);
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
    for (lines, field) in [
        (
            vec![(GET, 200, json!({ "snapshot": snapshot("available") }))],
            "snapshot_id",
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
        ),
    ] {
        let look = "GET /v3/volumes/detail?name=a";
        let made = || with(volume("available"), json!({ field: OTHER }));
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
