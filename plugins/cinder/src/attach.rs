//! Attachments to nodes: by Nova to its instances, or by Cinder to machines.
use crate::api::{ATTACHMENT, Object, VOLUME};
use crate::volumes::Record;
use crate::{Attacher, Cinder, settings};
use serde_json::json;
use wasmount_guest::*;

const NOVA: &str = "compute 2.60"; // attaches volumes of a type with `multiattach`
/// 403 is the limit of an instance; 409 is a state of it or of the volume.
const NOVA_CODES: [(u16, Code); 2] = [(403, Code::ResourceExhausted), (409, Code::Aborted)];

impl ControllerPublish for Cinder {
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error> {
        let record: Record = VOLUME.get(&args.id)?;
        record.check(std::slice::from_ref(&args.capability))?;
        if record.nodes().any(|node| node == args.node) {
            return Ok(Attributes::new());
        }
        if !record.multiattach && record.nodes().next().is_some() {
            return Err(Error::failed_precondition(
                "the volume is attached to another node: detach it there first",
            ));
        }
        match settings()?.attach {
            Attacher::Nova => {
                let body = json!({ "volumeAttachment": { "volumeId": args.id } });
                let request = http::post("nova", "/v2.1/servers");
                let request = request.segment(&args.node).segment("os-volume_attachments");
                let request = request.header("OpenStack-API-Version", NOVA).json(&body);
                let sent = request.send()?.must_succeed_as(&NOVA_CODES);
                sent.map_err(|error| VOLUME.explain(record.as_ref(), error))?;
            }
            Attacher::Cinder => {
                args.must_be_here()?;
                remove_unfinished(&args.id)?;
                // Cinder shows the mount point of an attachment to its owner, and not the host.
                let connector = json!({ "host": args.node, "mountpoint": args.node });
                let body = json!({ "volume_uuid": args.id, "mode": "rw", "connector": connector });
                let made: Result<Object, Error> = ATTACHMENT.create(body);
                let made = made.map_err(|error| VOLUME.explain(record.as_ref(), error))?;
                ATTACHMENT.act(&made, &json!({ "os-complete": {} }))?;
            }
        }
        let attached: Record = VOLUME.at_rest(&args.id)?;
        if attached.nodes().any(|node| node == args.node) {
            return Ok(Attributes::new());
        }
        Err(Error::aborted(format!(
            "the volume is not attached, but `{}`: try again",
            attached.as_ref().status
        )))
    }

    fn controller_unpublish_volume(id: String, node: Option<String>) -> Result<(), Error> {
        let Some(record) = VOLUME.find::<Record>(&id)? else {
            return Ok(());
        };
        let attacher = settings()?.attach;
        let is_meant = |it: &str| node.as_deref().is_none_or(|node| node == it);
        for attachment in &record.attachments {
            let Some(node) = attachment.node().filter(|it| is_meant(it)) else {
                continue;
            };
            match attacher {
                Attacher::Nova => {
                    let request = http::delete("nova", "/v2.1/servers").segment(node);
                    let request = request.segment("os-volume_attachments").segment(&id);
                    let request = request.header("OpenStack-API-Version", NOVA).idempotent();
                    // A state of the instance that does not allow it passes.
                    let sent = Error::found(request.send()?.must_succeed_as(&NOVA_CODES));
                    sent.map_err(|error| VOLUME.explain(record.as_ref(), error))?;
                }
                Attacher::Cinder => {
                    ATTACHMENT.remove(&attachment.attachment_id)?;
                }
            }
        }
        if attacher == Attacher::Cinder {
            remove_unfinished(&id)?;
        }
        poll::until("detaching the volume", || {
            let record: Option<Record> = VOLUME.find(&id)?;
            let is_attached = record.is_some_and(|it| it.nodes().any(is_meant));
            Ok((!is_attached).then_some(()))
        })
    }
}

/// Removes attachments that were not completed: of a call that ended half-way, or of one that is under way elsewhere and will try again.
fn remove_unfinished(volume: &str) -> Result<(), Error> {
    for attachment in ATTACHMENT.of_volume(volume)? {
        if attachment.status != "attached" {
            ATTACHMENT.remove(&attachment.id)?;
        }
    }
    Ok(())
}
