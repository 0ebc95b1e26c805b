//! Tests against a script of Cinder's and Nova's answers: each request must be the next one of the script. The bodies of the answers are shortened
//! from those of Cinder 29; `tests/tests/volumes/cinder` meets that Cinder itself.

mod attach;
mod faults;
mod node;
mod snapshots;
mod volumes;

use super::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use wasmount_guest::testing;

const ID: &str = "74b4b7da-ad48-459c-954d-0df2586d0780";
const OTHER: &str = "c654047b-87e7-4834-86f9-beb8d53e128a";
const GIB: u64 = 1 << 30;

/// A request with its path and query, the status of its answer, and the answer.
type Line = (&'static str, u16, Value);

/// What is left of a script, and the bodies that were sent.
#[derive(Clone, Default)]
struct Script {
    lines: Rc<RefCell<VecDeque<Line>>>,
    sent: Rc<RefCell<Vec<Value>>>,
}

impl Script {
    /// The lines, of a driver whose nodes are machines.
    fn of(lines: impl IntoIterator<Item = Line>) -> Self {
        testing::reset();
        testing::set_setting("attach", "cinder");
        testing::set_setting("cluster", "blue");
        Self::then(lines)
    }

    /// The same without a change of the settings.
    fn then(lines: impl IntoIterator<Item = Line>) -> Self {
        let script = Self::default();
        script.lines.borrow_mut().extend(lines);
        let handle = script.clone();
        testing::http(move |request| {
            let path = request.path_with_query();
            let asked = format!("{} {path}", request.method().as_str());
            let line = handle.lines.borrow_mut().pop_front();
            let (expected, status, answer) = line.unwrap_or(("nothing", 0, Value::Null));
            assert_eq!(asked.replace(ID, "ID").replace(OTHER, "OTHER"), expected);
            handle
                .sent
                .borrow_mut()
                .extend(request.read_json::<Value>());
            let answer = if answer.is_null() {
                Vec::new()
            } else {
                answer.to_string().into()
            };
            http::Response::new(status).with_body(answer)
        });
        script
    }

    /// The bodies that were sent, once the script is at its end.
    fn end(self) -> Vec<Value> {
        let left = self.lines.borrow();
        assert!(left.is_empty(), "not asked: {left:?}");
        self.sent.borrow().clone()
    }
}

fn volume(status: &str) -> Value {
    json!({
        "id": ID, "name": "a", "status": status, "size": 2, "availability_zone": "zone-a", "created_at": "2026-11-25T16:37:58.705506",
        "volume_type": "fast", "volume_type_id": OTHER, "snapshot_id": null, "source_volid": null, "multiattach": false, "attachments": [],
    })
}

/// An object with other values.
fn with(mut it: Value, changes: Value) -> Value {
    let changes = changes.as_object().unwrap().clone();
    it.as_object_mut().unwrap().extend(changes);
    it
}

fn one(volume: Value) -> Value {
    json!({ "volume": volume })
}

fn many(volumes: impl Into<Vec<Value>>) -> Value {
    json!({ "volumes": volumes.into() })
}

fn fault(code: u16, message: &str) -> Value {
    json!({ "fault": { "code": code, "message": message } })
}

/// In these two states one after the other.
fn rests(status: &str) -> [Line; 2] {
    let line = |status| ("GET /v3/volumes/ID", 200, one(volume(status)));
    [line("creating"), line(status)]
}

fn capability(access_type: AccessType, access_mode: AccessMode) -> VolumeCapability {
    VolumeCapability {
        access_type,
        access_mode,
    }
}

fn mounted(access_mode: AccessMode) -> VolumeCapability {
    let access = MountAccess {
        fs_type: None,
        mount_flags: Vec::new(),
        volume_mount_group: None,
    };
    capability(AccessType::Mount(access), access_mode)
}

fn request() -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: "a".to_owned(),
        capacity: CapacityRange {
            required_bytes: Some(GIB + 1),
            limit_bytes: None,
        },
        capabilities: vec![mounted(AccessMode::SingleNodeWriter)],
        parameters: pairs(&[("type", "fast"), ("csi.storage.k8s.io/pv/name", "a")]),
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Attributes {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn code<T>(result: Result<T, Error>) -> Option<Code> {
    result.err().map(|error| error.code)
}
