//! Tests of the plugin against an array in memory: each call with valid and invalid arguments, and with each of its answers lost.

mod attach;
mod model;

use super::*;
use model::Model;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use wasmount_guest::testing;

const GIB: u64 = 1 << 30;
const NODE: &str = "node-1";
const IQN: &str = "iqn.2004-10.com.example:node-1";
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:node-1";

/// The requests of a call at most: a loop over them ends before.
const REQUESTS: usize = 10;

/// A host and an array, both new: the array knows the node, and not yet its initiator.
fn fresh() -> Rc<RefCell<Model>> {
    testing::reset();
    set_protocol("iscsi");
    testing::set_fact_of_node(NODE, "iqn", &[IQN]);
    testing::set_fact_of_node(NODE, "nqn", &[NQN]);
    let model = Rc::new(RefCell::new(Model::default()));
    let known = (NODE.to_owned(), json!({}));
    model.borrow_mut().hosts.extend([known]);
    let array = Rc::clone(&model);
    testing::http(move |request| array.borrow_mut().answer(request));
    model
}

fn set_protocol(name: &str) {
    testing::set_setting("protocol", name);
}

fn mounted() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess {
            fs_type: None,
            mount_flags: Vec::new(),
            volume_mount_group: None,
        }),
        access_mode: AccessMode::SingleNodeWriter,
    }
}

fn request(name: &str, bytes: u64) -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: name.to_owned(),
        capacity: CapacityRange {
            required_bytes: Some(bytes),
            limit_bytes: None,
        },
        capabilities: vec![mounted()],
        parameters: Vec::new(),
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn publish(id: &str, node: &str) -> Result<Attributes, Error> {
    Array::controller_publish_volume(ControllerPublishArgs {
        id: id.to_owned(),
        node: node.to_owned(),
        capability: mounted(),
        readonly: false,
        context: Vec::new(),
    })
}

fn expand(id: &str, bytes: u64) -> Result<Expanded, Error> {
    Array::expand_volume(ExpandArgs {
        id: id.to_owned(),
        capacity: CapacityRange {
            required_bytes: Some(bytes),
            limit_bytes: None,
        },
        capability: None,
    })
}

fn snapshot(name: &str, source: &str) -> Result<Snapshot, Error> {
    Array::create_snapshot(CreateSnapshotArgs {
        source_volume: source.to_owned(),
        name: name.to_owned(),
        parameters: Vec::new(),
        accessibility: None,
    })
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

/// Makes a call about a volume with its first answer lost, then its second, and so on, until none is; each time on a new array, with a retry, after
/// which `check` looks at what the array holds.
fn lose_each_answer<T>(call: impl Fn(&str) -> Result<T, Error>, check: impl Fn(&Model)) {
    for answers in 0..REQUESTS {
        let array = fresh();
        let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
        testing::lose_answer_after(answers);
        let first = call(&id);
        testing::mend();
        let is_whole = first.is_ok();
        if let Err(error) = first {
            assert!(error.is_uncertain(), "{answers}: {error:?}");
        }
        assert_eq!(code(call(&id)), None, "{answers}");
        check(&array.borrow());
        if is_whole {
            assert!(answers > 0, "no answer was lost");
            return;
        }
    }
    panic!("the call made more than {REQUESTS} requests");
}

#[test]
fn a_volume_is_created_once_however_often_it_is_asked_for() {
    let array = fresh();
    let volume = Array::create_volume(request("pvc", GIB)).unwrap();
    assert_eq!(volume.capacity_bytes, GIB);
    assert_eq!(Array::create_volume(request("pvc", GIB)), Ok(volume));
    assert_eq!(array.borrow().names(VOLUMES), ["pvc"]);
}

#[test]
fn a_name_with_another_size_or_source_is_refused() {
    fresh();
    let volume = Array::create_volume(request("pvc", GIB)).unwrap();
    let larger = Array::create_volume(request("pvc", 2 * GIB));
    assert_eq!(code(larger), Some(Code::AlreadyExists));
    let id = snapshot("snap", &volume.id).unwrap().id;
    let restored = CreateVolumeArgs {
        content_source: Some(ContentSource::Snapshot(id)),
        ..request("pvc", GIB)
    };
    assert_eq!(
        code(Array::create_volume(restored)),
        Some(Code::AlreadyExists)
    );
}

#[test]
fn no_lost_answer_creates_a_second_object() {
    lose_each_answer(
        |_| Array::create_volume(request("new", GIB)),
        |array| assert_eq!(array.names(VOLUMES), ["pvc", "new"]),
    );
    lose_each_answer(
        |id| snapshot("snap", id),
        |array| assert_eq!(array.names(SNAPSHOTS), ["snap"]),
    );
}

#[test]
fn a_lost_answer_is_completed_by_the_retry_of_its_call() {
    let attached = |array: &Model| array.of("vol-1", "hosts");
    lose_each_answer(
        |id| publish(id, NODE),
        |array| assert_eq!(attached(array), json!([NODE])),
    );
    lose_each_answer(
        |id| {
            publish(id, NODE)?;
            Array::controller_unpublish_volume(id.to_owned(), Some(NODE.to_owned()))
        },
        |array| assert_eq!(attached(array), json!([])),
    );
    lose_each_answer(
        |_| Array::register_node(NODE.to_owned()),
        |array| assert_eq!(array.hosts[NODE], json!({ "iqn": IQN })),
    );
    lose_each_answer(
        |_| Array::unregister_node(NODE.to_owned()),
        |array| assert!(array.hosts.is_empty()),
    );
    lose_each_answer(
        |id| expand(id, 2 * GIB),
        |array| assert_eq!(array.of("vol-1", "bytes"), 2 * GIB),
    );
    lose_each_answer(
        |id| Array::delete_volume(id.to_owned()),
        |array| assert_eq!(array.names(VOLUMES), [""; 0]),
    );
    lose_each_answer(
        |id| Array::delete_snapshot(snapshot("snap", id)?.id),
        |array| assert_eq!(array.names(SNAPSHOTS), [""; 0]),
    );
}

#[test]
fn lists_show_what_is_attached_and_what_is_a_snapshot() {
    fresh();
    let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
    publish(&id, NODE).unwrap();
    let page = || PageRequest {
        max_entries: Some(5),
        starting_token: None,
    };
    let volumes = Array::list_volumes(page()).unwrap();
    assert_eq!(volumes.entries[0].status.published_nodes, [NODE]);
    assert_eq!(volumes.next_token, None);
    let taken = snapshot("snap", &id).unwrap();
    assert!(taken.ready_to_use);
    let listed = Array::list_snapshots(ListSnapshotsArgs {
        source_volume: Some(id),
        page: page(),
    });
    assert_eq!(listed.unwrap().entries, [taken]);
}

#[test]
fn a_volume_waits_for_its_job_within_the_call() {
    let array = fresh();
    array.borrow_mut().looks_until_ready = 3;
    let volume = Array::create_volume(request("pvc", GIB)).unwrap();
    assert_eq!(volume.capacity_bytes, GIB);
    assert!(call::remaining() < Duration::from_secs(60));
}

#[test]
fn a_job_longer_than_a_call_is_waited_for_by_the_next() {
    let array = fresh();
    array.borrow_mut().looks_until_ready = 30;
    let late = Array::create_volume(request("pvc", GIB));
    assert_eq!(code(late), Some(Code::Aborted));
    testing::set_remaining(Duration::from_secs(60));
    let volume = Array::create_volume(request("pvc", GIB)).unwrap();
    assert_eq!(array.borrow().names(VOLUMES), ["pvc"]);
    assert_eq!(volume.capacity_bytes, GIB);
}

#[test]
fn a_refusal_of_the_array_is_the_code_that_its_caller_needs() {
    let array = fresh();
    let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
    for (status, refused) in [
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (409, Code::Aborted),
        (429, Code::Unavailable),
        (503, Code::Unavailable),
        (507, Code::ResourceExhausted),
    ] {
        array.borrow_mut().refuse_changes = Some(status);
        let created = Array::create_volume(request("new", GIB));
        assert_eq!(code(created), Some(refused), "{status}");
    }
    array.borrow_mut().refuse_changes = Some(409);
    assert_eq!(
        code(Array::delete_volume(id.clone())),
        Some(Code::FailedPrecondition)
    );
    array.borrow_mut().refuse_changes = Some(423);
    assert_eq!(code(publish(&id, NODE)), Some(Code::FailedPrecondition));
}

#[test]
fn what_is_not_there_is_deleted_and_otherwise_not_found() {
    fresh();
    let there = Array::create_volume(request("pvc", GIB)).unwrap().id;
    let id = || "vol-9".to_owned();
    assert_eq!(Array::delete_volume(id()), Ok(()));
    assert_eq!(Array::delete_snapshot(id()), Ok(()));
    assert_eq!(Array::controller_unpublish_volume(id(), None), Ok(()));
    assert_eq!(Array::unregister_node("node-9".to_owned()), Ok(()));
    for missing in [
        code(publish("vol-9", NODE)),
        code(publish(&there, "node-9")),
        code(expand("vol-9", GIB)),
        code(snapshot("snap", "vol-9")),
        code(Array::get_snapshot(id())),
    ] {
        assert_eq!(missing, Some(Code::NotFound));
    }
}

#[test]
fn a_copy_is_as_large_as_its_source_and_names_it() {
    fresh();
    let volume = Array::create_volume(request("pvc", 2 * GIB)).unwrap().id;
    let snapshot = snapshot("snap", &volume).unwrap().id;
    for (name, source) in [
        ("clone", ContentSource::Volume(volume)),
        ("restored", ContentSource::Snapshot(snapshot)),
    ] {
        let copy = |bytes| CreateVolumeArgs {
            content_source: Some(source.clone()),
            ..request(name, bytes)
        };
        let made = Array::create_volume(copy(GIB)).unwrap();
        assert_eq!(made.capacity_bytes, 2 * GIB);
        assert_eq!(made.content_source, Some(source.clone()));
        assert_eq!(Array::create_volume(copy(GIB)).unwrap(), made);
        let other = Array::create_volume(request(name, GIB));
        assert_eq!(code(other), Some(Code::AlreadyExists));
    }
}

#[test]
fn a_volume_that_the_array_could_not_make_is_made_anew() {
    let array = fresh();
    array.borrow_mut().is_broken = true;
    // Found by its name, since its creation was not answered; then as it is answered.
    testing::lose_answer_after(1);
    let lost = Array::create_volume(request("pvc", GIB));
    assert_eq!(code(lost), Some(Code::Unavailable));
    assert_eq!(array.borrow().names(VOLUMES), ["pvc"]);
    testing::mend();
    for _ in 0..2 {
        let failed = Array::create_volume(request("pvc", GIB));
        assert_eq!(code(failed), Some(Code::Unavailable));
        assert_eq!(array.borrow().names(VOLUMES), [""; 0]);
    }
    array.borrow_mut().is_broken = false;
    let volume = Array::create_volume(request("pvc", GIB)).unwrap();
    assert_eq!(volume.capacity_bytes, GIB);
    assert_eq!(array.borrow().names(VOLUMES), ["pvc"]);
}

#[test]
fn capabilities_are_confirmed_or_not_with_a_reason() {
    fresh();
    let id = Array::create_volume(request("pvc", GIB)).unwrap().id;
    let misspelt = || vec![("teir".to_owned(), "fast".to_owned())];
    let refused = || Validation::unsupported("unknown parameter `teir`: this driver knows none");
    for (parameters, mutable_parameters, expected) in [
        (vec![], vec![], Validation::Confirmed),
        (misspelt(), vec![], refused()),
        (vec![], misspelt(), refused()),
    ] {
        let answer = Array::validate_volume_capabilities(ValidateArgs {
            id: id.clone(),
            context: Vec::new(),
            capabilities: vec![mounted()],
            parameters,
            mutable_parameters,
        });
        assert_eq!(answer, Ok(expected));
    }
}

#[test]
fn a_raw_device_is_shared_if_several_nodes_may_have_it() {
    for (is_shared, access_mode) in [
        (false, AccessMode::SingleNodeWriter),
        (true, AccessMode::MultiNodeMultiWriter),
    ] {
        let array = fresh();
        let raw = || VolumeCapability {
            access_type: AccessType::Block,
            access_mode,
        };
        let mut request = request("pvc", GIB);
        request.capabilities = vec![raw()];
        let id = Array::create_volume(request).unwrap().id;
        let published = Array::controller_publish_volume(ControllerPublishArgs {
            id: id.clone(),
            node: NODE.to_owned(),
            capability: raw(),
            readonly: false,
            context: Vec::new(),
        });
        published.unwrap();
        let expected = json!({ "readonly": false, "shared": is_shared });
        assert_eq!(array.borrow().of(&id, "mode"), expected);
    }
}

#[test]
fn what_the_array_cannot_make_is_refused_without_a_request() {
    fresh();
    let mut shared = request("pvc", GIB);
    shared.capabilities[0].access_mode = AccessMode::MultiNodeMultiWriter;
    let mut misspelt = request("pvc", GIB);
    misspelt
        .parameters
        .push(("teir".to_owned(), "fast".to_owned()));
    for refused in [shared, misspelt] {
        assert_eq!(
            code(Array::create_volume(refused)),
            Some(Code::InvalidArgument)
        );
    }
    assert_eq!(testing::requests(), [""; 0]);
}
