//! What fails at Cinder, and the code that its caller gets.

use super::*;

const LOOK: &str = "GET /v3/volumes/detail?name=a";
const GET: &str = "GET /v3/volumes/ID";
const DELETE: &str = "DELETE /v3/volumes/ID";

fn extended(lines: impl IntoIterator<Item = Line>) -> Option<Code> {
    let script = Script::of(lines);
    let capacity = CapacityRange {
        required_bytes: Some(3 * GIB),
        limit_bytes: None,
    };
    let answer = Cinder::expand_volume(ExpandArgs {
        id: ID.to_owned(),
        capacity,
        capability: None,
    });
    script.end();
    code(answer)
}

fn deleted(lines: impl IntoIterator<Item = Line>) -> Option<Code> {
    let script = Script::of(lines);
    let answer = Cinder::delete_volume(ID.to_owned());
    script.end();
    code(answer)
}

#[test]
fn each_refusal_of_a_create_is_the_code_that_csi_has() {
    for (status, expected) in [
        (400, Code::InvalidArgument),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::InvalidArgument), // the type
        (406, Code::FailedPrecondition),
        (413, Code::ResourceExhausted),
        (429, Code::Unavailable),
        (500, Code::Unavailable),
        (503, Code::Unavailable),
    ] {
        let script = Script::of([
            (LOOK, 200, many([])),
            ("POST /v3/volumes", status, fault(status, "the reason")),
        ]);
        let error = Cinder::create_volume(request()).unwrap_err();
        assert_eq!(error.code, expected, "{status}");
        assert!(error.message.contains("the reason"), "{}", error.message);
        script.end();
    }
}

#[test]
fn an_unknown_type_and_a_source_that_is_gone_are_told_apart() {
    let look = (LOOK, 200, many([]));
    let refused = ("POST /v3/volumes", 404, fault(404, "none"));
    let script = Script::of([look.clone(), refused.clone()]);
    let error = Cinder::create_volume(request()).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(error.message.contains("`fast`"), "{}", error.message);
    script.end();
    let source = || ("GET /v3/volumes/OTHER", 200, one(volume("available")));
    let gone = ("GET /v3/volumes/OTHER", 404, fault(404, "gone"));
    for (last, expected) in [(source(), Code::InvalidArgument), (gone, Code::NotFound)] {
        let script = Script::of([look.clone(), source(), refused.clone(), last]);
        let content_source = Some(ContentSource::Volume(OTHER.to_owned()));
        let answer = Cinder::create_volume(CreateVolumeArgs {
            content_source,
            ..request()
        });
        assert_eq!(code(answer), Some(expected));
        script.end();
    }
}

#[test]
fn a_volume_that_is_deleted_while_it_is_created_is_aborted() {
    let script = Script::of([
        (LOOK, 200, many([volume("creating")])),
        (GET, 404, fault(404, "gone")),
    ]);
    assert_eq!(code(Cinder::create_volume(request())), Some(Code::Aborted));
    script.end();
}

#[test]
fn a_known_volume_is_removed_only_if_its_creation_failed() {
    for (status, expected) in [
        (json!("error"), Code::ResourceExhausted),
        (json!("error_extending"), Code::Unavailable),
        (json!("error_restoring"), Code::Unavailable),
        (Value::Null, Code::Unavailable),
    ] {
        let failed = || with(volume("error"), json!({ "status": status }));
        let mut lines = vec![(LOOK, 200, many([failed()])), (GET, 200, one(failed()))];
        if status == "error" {
            lines.push(("GET /v3/messages?resource_uuid=ID", 500, Value::Null));
            lines.push((DELETE, 202, Value::Null));
        }
        let script = Script::of(lines);
        let created = Cinder::create_volume(request());
        assert_eq!(code(created), Some(expected), "{status}");
        script.end();
    }
}

#[test]
fn a_slow_volume_is_aborted_and_found_by_the_next_call() {
    let slow = || vec![(GET, 200, one(volume("creating"))); 17];
    let found = (LOOK, 200, many([volume("creating")]));
    let script = Script::of([found.clone()].into_iter().chain(slow()));
    assert_eq!(code(Cinder::create_volume(request())), Some(Code::Aborted));
    script.end();
    let script = Script::of([found].into_iter().chain(rests("available")));
    assert_eq!(Cinder::create_volume(request()).unwrap().id, ID);
    script.end();
}

#[test]
fn a_deletion_that_the_state_forbids_is_told_by_the_state() {
    for (status, expected) in [
        ("in-use", Code::FailedPrecondition),
        ("available", Code::FailedPrecondition), // it has snapshots
        ("error_deleting", Code::FailedPrecondition),
        ("creating", Code::Aborted),
        ("backing-up", Code::Aborted),
        ("reserved", Code::Aborted),
    ] {
        let refused = (DELETE, 400, fault(400, "Invalid volume"));
        let found = deleted([refused, (GET, 200, one(volume(status)))]);
        assert_eq!(found, Some(expected), "{status}");
    }
}

#[test]
fn a_deletion_that_is_done_or_under_way_succeeds() {
    let gone = || (GET, 404, fault(404, "gone"));
    assert_eq!(deleted([(DELETE, 404, fault(404, "gone")), gone()]), None);
    let under_way = (GET, 200, one(volume("deleting")));
    let refused = (DELETE, 400, fault(400, "Invalid volume"));
    assert_eq!(deleted([refused, under_way, gone()]), None);
}

#[test]
fn a_deletion_that_fails_later_is_an_error() {
    let failed = (GET, 200, one(volume("error_deleting")));
    let found = deleted([(DELETE, 202, Value::Null), failed]);
    assert_eq!(found, Some(Code::Unavailable));
}

#[test]
fn a_refused_growth_is_told_by_the_state_or_the_quota() {
    let refused = |status| {
        (
            "POST /v3/volumes/ID/action",
            status,
            fault(status, "refused"),
        )
    };
    let rests = || (GET, 200, one(volume("available")));
    assert_eq!(
        extended([rests(), refused(413)]),
        Some(Code::ResourceExhausted)
    );
    assert_eq!(
        extended([rests(), refused(400), rests()]),
        Some(Code::FailedPrecondition)
    );
    // The request arrived twice: the first one grows it, or has grown it.
    let grown = with(
        volume("available"),
        json!({ "updated_at": "2026-11-25T16:38:00.1" }),
    );
    for now in [volume("extending"), grown] {
        let found = extended([rests(), refused(400), (GET, 200, one(now))]);
        assert_eq!(found, Some(Code::Aborted));
    }
    assert_eq!(extended([rests(), refused(500)]), Some(Code::Unavailable));
    assert_eq!(
        extended([(GET, 404, fault(404, "gone"))]),
        Some(Code::NotFound)
    );
}

#[test]
fn a_growth_that_fails_later_is_an_error() {
    let found = extended([
        (GET, 200, one(volume("available"))),
        ("POST /v3/volumes/ID/action", 202, Value::Null),
        (GET, 200, one(volume("error_extending"))),
        ("GET /v3/messages?resource_uuid=ID", 500, Value::Null),
    ]);
    assert_eq!(found, Some(Code::Unavailable));
}

#[test]
fn a_list_whose_marker_is_gone_begins_anew() {
    let line = (
        "GET /v3/volumes/detail?sort=created_at%3Aasc&marker=ID",
        404,
        fault(404, "gone"),
    );
    let script = Script::of([line]);
    let page = PageRequest {
        max_entries: None,
        starting_token: Some(ID.to_owned()),
    };
    assert_eq!(code(Cinder::list_volumes(page)), Some(Code::Aborted));
    script.end();
}
