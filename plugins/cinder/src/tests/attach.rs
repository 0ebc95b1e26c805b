//! Attaching by Cinder and by Nova.

use super::*;

const GET: &str = "GET /v3/volumes/ID";
const LIST: &str = "GET /v3/attachments/detail?volume_id=ID";
const NOVA: &str = "POST /v2.1/servers/OTHER/os-volume_attachments";
const NODE: &str = OTHER;

fn attached_to(node: &str) -> Value {
    let attachment = json!({ "attachment_id": OTHER, "server_id": null, "device": node });
    with(volume("in-use"), json!({ "attachments": [attachment] }))
}

fn attachment(status: &str) -> Value {
    json!({ "id": OTHER, "status": status })
}

fn publish() -> Result<Attributes, Error> {
    Cinder::controller_publish_volume(ControllerPublishArgs {
        id: ID.to_owned(),
        node: NODE.to_owned(),
        capability: mounted(AccessMode::SingleNodeWriter),
        readonly: false,
        context: Vec::new(),
    })
}

fn unpublish() -> Result<(), Error> {
    Cinder::controller_unpublish_volume(ID.to_owned(), Some(NODE.to_owned()))
}

fn nova(lines: impl IntoIterator<Item = Line>) -> Script {
    testing::reset();
    Script::then(lines)
}

#[test]
fn cinder_attaches_a_volume_and_completes_it() {
    let script = Script::of([
        (GET, 200, one(volume("available"))),
        (LIST, 200, json!({ "attachments": [] })),
        (
            "POST /v3/attachments",
            200,
            json!({ "attachment": attachment("reserved") }),
        ),
        ("POST /v3/attachments/OTHER/action", 204, Value::Null),
        (GET, 200, one(attached_to(NODE))),
    ]);
    assert_eq!(publish(), Ok(Vec::new()));
    let sent = script.end();
    let connector = json!({ "host": NODE, "mountpoint": NODE });
    assert_eq!(sent[0]["attachment"]["connector"], connector);
    assert_eq!(sent[1], json!({ "os-complete": {} }));
}

#[test]
fn an_attachment_that_was_never_completed_is_replaced() {
    let script = Script::of([
        (GET, 200, one(volume("attaching"))),
        (
            LIST,
            200,
            json!({ "attachments": [attachment("attaching")] }),
        ),
        (
            "DELETE /v3/attachments/OTHER",
            200,
            json!({ "attachments": [] }),
        ),
        ("GET /v3/attachments/OTHER", 404, fault(404, "gone")),
        ("POST /v3/attachments", 400, fault(400, "reserved")),
        (GET, 200, one(volume("attaching"))),
    ]);
    assert_eq!(code(publish()), Some(Code::Aborted));
    script.end();
}

#[test]
fn an_attached_volume_stays_where_it_is() {
    let script = Script::of([(GET, 200, one(attached_to(NODE)))]);
    assert_eq!(publish(), Ok(Vec::new()));
    script.end();
    let script = Script::of([(GET, 200, one(attached_to("node-2")))]);
    assert_eq!(code(publish()), Some(Code::FailedPrecondition));
    script.end();
}

#[test]
fn cinder_detaches_what_is_attached_and_what_is_left() {
    let script = Script::of([
        (GET, 200, one(attached_to(NODE))),
        (
            "DELETE /v3/attachments/OTHER",
            200,
            json!({ "attachments": [] }),
        ),
        ("GET /v3/attachments/OTHER", 404, fault(404, "gone")),
        (LIST, 200, json!({ "attachments": [] })),
        (GET, 200, one(volume("available"))),
    ]);
    assert_eq!(unpublish(), Ok(()));
    script.end();
    let script = Script::of([(GET, 404, fault(404, "gone"))]);
    assert_eq!(unpublish(), Ok(()));
    script.end();
}

#[test]
fn nova_attaches_a_volume_to_its_instance() {
    let script = nova([
        (GET, 200, one(volume("available"))),
        (NOVA, 200, json!({ "volumeAttachment": {} })),
        (GET, 200, one(volume("attaching"))),
        (GET, 200, one(attached_to(NODE))),
    ]);
    assert_eq!(publish(), Ok(Vec::new()));
    assert_eq!(
        script.end(),
        [json!({ "volumeAttachment": { "volumeId": ID } })]
    );
}

#[test]
fn each_refusal_of_nova_is_the_code_that_csi_has() {
    for (status, expected) in [
        (400, Code::FailedPrecondition),
        (403, Code::ResourceExhausted),
        (404, Code::NotFound),
        (409, Code::Aborted),
        (500, Code::Unavailable),
    ] {
        let rests = (GET, 200, one(volume("available")));
        let mut lines = vec![rests.clone(), (NOVA, status, fault(status, "refused"))];
        lines.extend((status == 400).then_some(rests));
        let script = nova(lines);
        assert_eq!(code(publish()), Some(expected), "{status}");
        script.end();
    }
}

#[test]
fn nova_detaches_and_the_volume_is_waited_for() {
    let delete = "DELETE /v2.1/servers/OTHER/os-volume_attachments/ID";
    for status in [202, 404] {
        let script = nova([
            (GET, 200, one(attached_to(NODE))),
            (delete, status, Value::Null),
            (GET, 200, one(attached_to(NODE))),
            (GET, 200, one(volume("available"))),
        ]);
        assert_eq!(unpublish(), Ok(()), "{status}");
        script.end();
    }
    let script = nova([
        (GET, 200, one(attached_to(NODE))),
        (delete, 409, fault(409, "building")),
    ]);
    assert_eq!(code(unpublish()), Some(Code::Aborted));
    script.end();
    // The same request came twice: Nova refuses the second one while it detaches.
    let script = nova([
        (GET, 200, one(attached_to(NODE))),
        (delete, 400, fault(400, "Invalid volume")),
        (GET, 200, one(volume("detaching"))),
    ]);
    assert_eq!(code(unpublish()), Some(Code::Aborted));
    script.end();
}
