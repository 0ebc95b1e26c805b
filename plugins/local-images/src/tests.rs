//! Tests of the plugin on the host in memory: each call with valid and invalid arguments, and interrupted after every host call.

use super::*;
use wasmount_guest::testing::{self, Source};

const POOL_BYTES: u64 = 100 << 30;
const GIB: u64 = 1 << 30;
const XFS_BYTES: u64 = 300 << 20; // the least that mkfs.xfs takes

fn fresh() {
    testing::reset();
    testing::add_pool("images", POOL_BYTES);
    testing::set_node_name(Some("node-1"));
}

fn place(node: &str) -> Topology {
    Topology::of(NODE, node)
}

fn with(access_type: AccessType, access_mode: AccessMode) -> VolumeCapability {
    VolumeCapability {
        access_type,
        access_mode,
    }
}

fn mount(fs_type: Option<&str>) -> AccessType {
    AccessType::Mount(MountAccess {
        fs_type: fs_type.map(str::to_owned),
        mount_flags: Vec::new(),
        volume_mount_group: None,
    })
}

fn mounted(fs_type: Option<&str>) -> VolumeCapability {
    with(mount(fs_type), AccessMode::SingleNodeWriter)
}

fn block() -> VolumeCapability {
    with(AccessType::Block, AccessMode::SingleNodeWriter)
}

fn range(required_bytes: Option<u64>, limit_bytes: Option<u64>) -> CapacityRange {
    CapacityRange {
        required_bytes,
        limit_bytes,
    }
}

fn request(capacity: CapacityRange, capability: VolumeCapability) -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: "pvc-1".to_owned(),
        capacity,
        capabilities: vec![capability],
        parameters: Vec::new(),
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn create(bytes: u64) -> Result<Volume, Error> {
    LocalImages::create_volume(request(range(Some(bytes), None), mounted(None)))
}

fn validate(id: &str, capability: VolumeCapability) -> Result<Validation, Error> {
    LocalImages::validate_volume_capabilities(ValidateArgs {
        id: id.to_owned(),
        context: Vec::new(),
        capabilities: vec![capability],
        parameters: Vec::new(),
        mutable_parameters: Vec::new(),
    })
}

fn available(capability: VolumeCapability, node: Option<&str>) -> Available {
    let args = CapacityArgs {
        capabilities: vec![capability],
        parameters: Vec::new(),
        accessible_topology: node.map(place),
    };
    LocalImages::get_capacity(args).unwrap()
}

fn stage(id: &str) -> Result<testing::RecordedPlan, Error> {
    stage_with(id, Vec::new())
}

fn stage_with(id: &str, volume_context: Attributes) -> Result<testing::RecordedPlan, Error> {
    let args = NodeStageArgs {
        id: id.to_owned(),
        capability: mounted(None),
        publish_context: Vec::new(),
        volume_context,
    };
    testing::record(|plan| LocalImages::node_stage(args, plan))
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

#[test]
fn a_volume_lives_from_creation_to_deletion_on_its_node() {
    fresh();
    let volume = create(2 * GIB).unwrap();
    assert_eq!(volume.capacity_bytes, 2 * GIB);
    assert_eq!(volume.accessible_topology, [place("node-1")]);
    assert_eq!(create(2 * GIB), Ok(volume.clone()));
    let plan = stage(&volume.id).unwrap();
    let source = Source::Image {
        pool: "images".to_owned(),
        path: volume.id.clone(),
    };
    assert_eq!(
        (plan.source, plan.default_fs_type),
        (source, Some("ext4".to_owned()))
    );
    for _ in 0..2 {
        assert_eq!(LocalImages::delete_volume(volume.id.clone()), Ok(()));
    }
    assert_eq!(testing::pool_paths("images"), [""; 0]);
    assert_eq!(testing::state_keys(), [""; 0]);
}

#[test]
fn an_encrypted_volume_names_the_key_of_its_class() {
    fresh();
    let mut args = request(range(Some(XFS_BYTES), None), mounted(Some("xfs")));
    args.parameters = vec![("encrypted".to_owned(), "true".to_owned())];
    let volume = LocalImages::create_volume(args).unwrap();
    assert_eq!(volume.capacity_bytes, XFS_BYTES + (16 << 20));
    let missing = stage_with(&volume.id, volume.context.clone());
    assert_eq!(code(missing), Some(Code::InvalidArgument));
    testing::set_secret(secrets::Scope::Request, "luksKey", "correct horse");
    let plan = stage_with(&volume.id, volume.context).unwrap();
    let expected = testing::Luks {
        scope: secrets::Scope::Request,
        key: "luksKey".to_owned(),
    };
    assert_eq!(plan.luks, Some(expected));
    assert_eq!(stage(&volume.id).unwrap().luks, None);
}

#[test]
fn a_parameter_that_does_not_exist_or_says_nothing_is_refused() {
    for (key, value) in [("encrypted", "maybe"), ("encryption", "true")] {
        fresh();
        let mut args = request(range(Some(GIB), None), mounted(None));
        args.parameters = vec![(key.to_owned(), value.to_owned())];
        let refused = LocalImages::create_volume(args);
        assert_eq!(code(refused), Some(Code::InvalidArgument), "{key} {value}");
        assert_eq!(testing::pool_paths("images"), [""; 0]);
    }
}

#[test]
fn a_volume_that_grew_on_the_node_is_still_the_one_of_its_name() {
    fresh();
    let volume = create(GIB).unwrap();
    IMAGES.resize_image(&volume.id, 3 * GIB).unwrap(); // as the host does, for kubelet
    assert_eq!(create(GIB).unwrap().capacity_bytes, 3 * GIB);
    let other = request(range(None, Some(2 * GIB)), mounted(None));
    assert_eq!(
        code(LocalImages::create_volume(other)),
        Some(Code::AlreadyExists)
    );
    assert_eq!(
        available(block(), None).available_bytes,
        POOL_BYTES - 3 * GIB
    );
}

#[test]
fn the_size_is_what_is_asked_for_in_whole_blocks_or_the_default() {
    for (capacity, capability, bytes) in [
        (range(None, None), mounted(None), GIB),
        (range(Some(1), None), mounted(None), 1 << 20),
        (range(Some(1), None), mounted(Some("xfs")), XFS_BYTES),
        (range(Some(GIB + 1), None), block(), GIB + 4096),
        (range(Some(GIB), Some(GIB)), mounted(Some("btrfs")), GIB),
    ] {
        fresh();
        let volume = LocalImages::create_volume(request(capacity, capability)).unwrap();
        assert_eq!(volume.capacity_bytes, bytes, "{capacity:?}");
    }
}

#[test]
fn what_cannot_be_made_is_refused_and_leaves_nothing() {
    let plain = || request(range(Some(GIB), None), mounted(None));
    type Change = fn(&mut CreateVolumeArgs);
    let changes: [(Change, Code); 8] = [
        (
            |it| it.capacity = range(Some(POOL_BYTES + 1), None),
            Code::ResourceExhausted,
        ),
        (|it| it.capacity = range(None, Some(4096)), Code::OutOfRange),
        (
            |it| it.capabilities = vec![mounted(Some("zfs"))],
            Code::InvalidArgument,
        ),
        (
            |it| it.capabilities = vec![with(mount(None), AccessMode::MultiNodeMultiWriter)],
            Code::InvalidArgument,
        ),
        (
            |it| it.parameters = vec![("kind".to_owned(), "x".to_owned())],
            Code::InvalidArgument,
        ),
        (
            |it| it.mutable_parameters = vec![("atime".to_owned(), "x".to_owned())],
            Code::InvalidArgument,
        ),
        (
            |it| it.content_source = Some(ContentSource::Volume("other".to_owned())),
            Code::InvalidArgument,
        ),
        (
            |it| {
                it.accessibility = Some(TopologyRequirement {
                    requisite: vec![place("node-2")],
                    preferred: Vec::new(),
                });
            },
            Code::ResourceExhausted,
        ),
    ];
    for (number, (change, refusal)) in changes.into_iter().enumerate() {
        fresh();
        let mut args = plain();
        change(&mut args);
        assert_eq!(
            code(LocalImages::create_volume(args)),
            Some(refusal),
            "change {number}"
        );
        assert_eq!(testing::pool_paths("images"), [""; 0]);
    }
}

#[test]
fn claim_metadata_of_kubernetes_is_no_class_parameter() {
    fresh();
    let mut args = request(range(Some(GIB), None), mounted(None));
    args.parameters = vec![("csi.storage.k8s.io/pvc/name".to_owned(), "data".to_owned())];
    assert!(LocalImages::create_volume(args).is_ok());
}

#[test]
fn capabilities_are_confirmed_or_not_with_a_reason() {
    fresh();
    let id = create(GIB / 8).unwrap().id;
    for capability in [
        mounted(None),
        block(),
        with(mount(Some("ext4")), AccessMode::SingleNodeSingleWriter),
        with(mount(None), AccessMode::SingleNodeMultiWriter),
    ] {
        assert_eq!(validate(&id, capability), Ok(Validation::Confirmed));
    }
    for capability in [
        mounted(Some("xfs")),
        with(mount(None), AccessMode::MultiNodeReaderOnly),
    ] {
        assert!(matches!(
            validate(&id, capability),
            Ok(Validation::Unsupported(_))
        ));
    }
    let misspelt = LocalImages::validate_volume_capabilities(ValidateArgs {
        id,
        context: Vec::new(),
        capabilities: vec![mounted(None)],
        parameters: Vec::new(),
        mutable_parameters: vec![("atime".to_owned(), "x".to_owned())],
    });
    let why = "unknown parameter `atime`: this driver knows none";
    assert_eq!(misspelt, Ok(Validation::unsupported(why)));
}

#[test]
fn an_unknown_volume_is_not_found_but_deleted() {
    fresh();
    let there = create(GIB).unwrap().id;
    let never_made = id::from_name(PREFIX, "pvc-2");
    for id in [never_made.as_str(), "../pvc-1", "image-", "pvc-1"] {
        assert_eq!(code(validate(id, block())), Some(Code::NotFound), "{id}");
        assert_eq!(LocalImages::delete_volume(id.to_owned()), Ok(()), "{id}");
    }
    assert_eq!(code(stage("../pvc-1")), Some(Code::NotFound));
    assert_eq!(testing::pool_paths("images"), [there]);
}

#[test]
fn capacity_is_what_this_node_has_left_for_such_volumes() {
    fresh();
    create(60 * GIB).unwrap();
    assert_eq!(
        available(mounted(None), Some("node-1")).available_bytes,
        40 * GIB
    );
    let xfs = available(mounted(Some("xfs")), None);
    assert_eq!(xfs.minimum_volume_bytes, Some(XFS_BYTES));
    for nothing in [
        available(mounted(None), Some("node-2")),
        available(mounted(Some("zfs")), None),
        available(with(mount(None), AccessMode::MultiNodeMultiWriter), None),
    ] {
        assert_eq!(nothing, Available::bytes(0));
    }
}

#[test]
fn a_node_says_where_it_is_and_how_many_volumes_it_takes() {
    fresh();
    let node = LocalImages::get_node_info().unwrap();
    assert_eq!((node.id, node.max_volumes), (None, None));
    assert_eq!(node.topology, Some(place("node-1")));
    testing::set_setting("maxVolumesPerNode", "7");
    assert_eq!(LocalImages::check_settings(), Ok(Vec::new()));
    assert_eq!(LocalImages::get_node_info().unwrap().max_volumes, Some(7));
    for (name, value) in [("maxVolumesPerNode", "0"), ("maxVolumes", "7")] {
        fresh();
        testing::set_setting(name, value);
        assert!(LocalImages::check_settings().is_err(), "{name}: {value}");
    }
}

#[test]
fn a_call_that_ends_half_way_is_completed_by_its_retry() {
    let delete = || LocalImages::delete_volume(id::from_name(PREFIX, "pvc-1"));
    for point in 0..5 {
        fresh();
        for (call, expected) in [
            (
                &(|| create(GIB).map(drop)) as &dyn Fn() -> Result<(), Error>,
                1,
            ),
            (&delete, 0),
        ] {
            testing::fail_after(point, Error::unavailable("power cut"));
            let cut_off = call();
            testing::mend();
            if cut_off.is_err() {
                call().unwrap();
            }
            assert_eq!(
                testing::pool_paths("images").len(),
                expected,
                "after {point} calls"
            );
        }
    }
}
