//! Tests of the plugin on the host in memory: each call with valid and invalid arguments, and interrupted after every host call.

use super::*;
use wasmount_guest::testing::{self, Source};

const POOL_BYTES: u64 = 100 << 30;
const GIB: u64 = 1 << 30;

fn fresh() {
    testing::reset();
    testing::add_pool("volumes", POOL_BYTES);
}

fn mounted(access_mode: AccessMode) -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess {
            fs_type: None,
            mount_flags: Vec::new(),
            volume_mount_group: None,
        }),
        access_mode,
    }
}

fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Block,
        access_mode: AccessMode::SingleNodeWriter,
    }
}

fn range(required_bytes: Option<u64>, limit_bytes: Option<u64>) -> CapacityRange {
    CapacityRange {
        required_bytes,
        limit_bytes,
    }
}

fn request(name: &str, capacity: CapacityRange) -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: name.to_owned(),
        capacity,
        capabilities: vec![mounted(AccessMode::SingleNodeWriter)],
        parameters: Vec::new(),
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn created(name: &str, bytes: u64) -> Volume {
    Directory::create_volume(request(name, range(Some(bytes), None))).unwrap()
}

fn validate(id: &str, capability: VolumeCapability) -> Result<Validation, Error> {
    Directory::validate_volume_capabilities(ValidateArgs {
        id: id.to_owned(),
        context: Vec::new(),
        capabilities: vec![capability],
        parameters: Vec::new(),
        mutable_parameters: Vec::new(),
    })
}

fn expand(id: &str, capacity: CapacityRange) -> Result<Expanded, Error> {
    Directory::expand_volume(ExpandArgs {
        id: id.to_owned(),
        capacity,
        capability: None,
    })
}

fn available(capability: VolumeCapability, parameters: Attributes) -> u64 {
    let args = CapacityArgs {
        capabilities: vec![capability],
        parameters,
        accessible_topology: None,
    };
    Directory::get_capacity(args).unwrap().available_bytes
}

fn stage(id: &str) -> Result<Source, Error> {
    let args = NodeStageArgs {
        id: id.to_owned(),
        capability: mounted(AccessMode::SingleNodeWriter),
        publish_context: Vec::new(),
        volume_context: vec![("path".to_owned(), "../other".to_owned())],
    };
    testing::record(|plan| Directory::node_stage(args, plan)).map(|plan| plan.source)
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

fn left_behind() -> (Vec<String>, Vec<String>) {
    (testing::state_keys(), testing::pool_paths("volumes"))
}

#[test]
fn a_volume_lives_from_creation_to_deletion() {
    fresh();
    let volume = created("pvc-1", 2 * GIB);
    assert_eq!(volume.capacity_bytes, 2 * GIB);
    assert_eq!(testing::quota("volumes", &volume.id), Some(2 * GIB));
    assert_eq!(testing::mode("volumes", &volume.id), Some(0o777));
    assert_eq!(
        stage(&volume.id),
        Ok(Source::Directory {
            pool: "volumes".to_owned(),
            path: volume.id.clone()
        })
    );
    assert_eq!(
        expand(&volume.id, range(Some(3 * GIB), None)),
        Ok(Expanded::to(3 * GIB))
    );
    assert_eq!(testing::quota("volumes", &volume.id), Some(3 * GIB));
    for _ in 0..2 {
        Directory::delete_volume(volume.id.clone()).unwrap();
    }
    assert_eq!(left_behind(), (vec![], vec![]));
}

#[test]
fn the_same_name_is_the_same_volume() {
    fresh();
    let first = created("pvc-1", GIB);
    assert_eq!(created("pvc-1", GIB), first);
    expand(&first.id, range(Some(2 * GIB), None)).unwrap();
    assert_eq!(created("pvc-1", GIB).capacity_bytes, 2 * GIB);
    assert_eq!(testing::quota("volumes", &first.id), Some(2 * GIB));
    for other in [range(Some(3 * GIB), None), range(None, Some(GIB))] {
        assert_eq!(
            code(Directory::create_volume(request("pvc-1", other))),
            Some(Code::AlreadyExists)
        );
    }
}

#[test]
fn any_name_gives_a_safe_id_of_its_own() {
    fresh();
    let names = ["a", "..", "a/b", "Ünïcode \u{1F5C4}", "-", &"x".repeat(128)];
    let mut ids: Vec<String> = names.map(|name| created(name, GIB).id).into();
    for id in &ids {
        assert!(id.len() <= 128, "{id}");
        assert!(
            id.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{id}"
        );
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), names.len());
}

#[test]
fn the_size_is_what_is_asked_for_or_the_default() {
    for (capacity, bytes) in [
        (range(None, None), GIB),
        (range(None, Some(GIB / 2)), GIB / 2),
        (range(Some(1), None), 4096),
        (range(Some(5 * GIB), Some(5 * GIB)), 5 * GIB),
    ] {
        fresh();
        let volume = Directory::create_volume(request("pvc-1", capacity)).unwrap();
        assert_eq!(volume.capacity_bytes, bytes, "{capacity:?}");
    }
}

#[test]
fn a_size_that_cannot_be_had_leaves_nothing_behind() {
    for (capacity, refusal) in [
        (range(Some(1), Some(100)), Code::OutOfRange),
        (range(Some(POOL_BYTES + 1), None), Code::ResourceExhausted),
    ] {
        fresh();
        let answer = Directory::create_volume(request("pvc-1", capacity));
        assert_eq!(code(answer), Some(refusal), "{capacity:?}");
        assert_eq!(left_behind(), (vec![], vec![]));
    }
}

#[test]
fn what_a_directory_cannot_be_is_refused() {
    let typo = || vec![("sizze".to_owned(), "1".to_owned())];
    let changes: [fn(&mut CreateVolumeArgs); 7] = [
        |args| args.capabilities = vec![block()],
        |args| {
            args.capabilities
                .push(mounted(AccessMode::MultiNodeMultiWriter))
        },
        |args| args.capabilities = vec![mounted(AccessMode::MultiNodeReaderOnly)],
        |args| args.capabilities = vec![mounted(AccessMode::Other(99))],
        |args| args.capabilities[0].access_type = AccessType::Other(99),
        |args| args.content_source = Some(ContentSource::Volume("other".to_owned())),
        |args| args.content_source = Some(ContentSource::Snapshot("other".to_owned())),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        fresh();
        let mut args = request("pvc-1", range(None, None));
        change(&mut args);
        let answer = Directory::create_volume(args);
        assert_eq!(code(answer), Some(Code::InvalidArgument), "change {number}");
        assert_eq!(left_behind(), (vec![], vec![]));
    }
    for (parameters, mutable_parameters) in [(typo(), vec![]), (vec![], typo())] {
        let args = CreateVolumeArgs {
            parameters,
            mutable_parameters,
            ..request("pvc-1", range(None, None))
        };
        let error = Directory::create_volume(args).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("`sizze`"), "{}", error.message);
    }
}

#[test]
fn capabilities_are_confirmed_or_not_with_a_reason() {
    fresh();
    let id = created("pvc-1", GIB).id;
    for mode in [
        AccessMode::SingleNodeWriter,
        AccessMode::SingleNodeReaderOnly,
        AccessMode::SingleNodeSingleWriter,
        AccessMode::SingleNodeMultiWriter,
    ] {
        assert_eq!(validate(&id, mounted(mode)), Ok(Validation::Confirmed));
    }
    for capability in [block(), mounted(AccessMode::MultiNodeSingleWriter)] {
        assert!(matches!(
            validate(&id, capability),
            Ok(Validation::Unsupported(_))
        ));
    }
}

#[test]
fn an_unknown_volume_is_not_found_but_deleted() {
    fresh();
    created("pvc-1", GIB);
    let there = left_behind();
    let never_made = id::from_name(PREFIX, "pvc-2");
    let one_node = || mounted(AccessMode::SingleNodeWriter);
    for id in [never_made.as_str(), "../pvc-1", "directory-", "pvc-1"] {
        let not_found = Some(Code::NotFound);
        assert_eq!(code(validate(id, one_node())), not_found, "{id}");
        assert_eq!(code(expand(id, range(Some(GIB), None))), not_found, "{id}");
        assert_eq!(Directory::delete_volume(id.to_owned()), Ok(()), "{id}");
        if id != never_made {
            assert_eq!(code(stage(id)), not_found, "{id}");
        }
    }
    assert_eq!(left_behind(), there);
}

#[test]
fn a_volume_grows_within_its_limit_and_the_pool() {
    fresh();
    let id = created("pvc-1", 2 * GIB).id;
    assert_eq!(
        expand(&id, range(Some(GIB), None)),
        Ok(Expanded::to(2 * GIB))
    );
    for (capacity, refusal) in [
        (range(None, Some(GIB)), Code::OutOfRange),
        (range(Some(POOL_BYTES + 1), None), Code::ResourceExhausted),
    ] {
        assert_eq!(code(expand(&id, capacity)), Some(refusal));
        assert_eq!(created("pvc-1", GIB).capacity_bytes, 2 * GIB);
    }
}

#[test]
fn capacity_is_what_is_not_promised_yet() {
    fresh();
    let one_node = || mounted(AccessMode::SingleNodeWriter);
    created("pvc-1", 60 * GIB);
    assert_eq!(available(one_node(), vec![]), 40 * GIB);
    assert_eq!(available(block(), vec![]), 0);
    let typo = vec![("sizze".to_owned(), "1".to_owned())];
    assert_eq!(available(one_node(), typo), 0);
}

#[test]
fn a_call_that_ends_half_way_is_completed_by_its_retry() {
    type Call = fn() -> Result<(), Error>;
    let nothing: Call = || Ok(());
    let create: Call =
        || Directory::create_volume(request("pvc-1", range(Some(GIB), None))).map(drop);
    let delete: Call = || Directory::delete_volume(id::from_name(PREFIX, "pvc-1"));
    let grow: Call = || {
        let id = id::from_name(PREFIX, "pvc-1");
        expand(&id, range(Some(2 * GIB), None)).map(drop)
    };
    let calls = [(nothing, create), (create, delete), (create, grow)];
    for (before, call) in calls {
        let whole = outcome(before, call, usize::MAX);
        for point in 0..6 {
            assert_eq!(
                outcome(before, call, point),
                whole,
                "ended after {point} host calls"
            );
        }
    }

    /// The state after a call was interrupted, then repeated without failures.
    fn outcome(before: Call, call: Call, point: usize) -> (Vec<String>, Vec<String>, Option<u64>) {
        fresh();
        before().unwrap();
        testing::fail_after(point, Error::unavailable("power cut"));
        let cut_off = call();
        testing::mend();
        if cut_off.is_err() {
            call().unwrap();
        }
        let (records, paths) = left_behind();
        let quota = testing::quota("volumes", &id::from_name(PREFIX, "pvc-1"));
        (records, paths, quota)
    }
}
