//! Tests of the plugin on the host in memory: each call with valid and invalid arguments, and interrupted after every host call.

mod attached;
mod class;
mod copies;
mod groups;
mod half_way;
mod later;
mod node;

use super::*;
use wasmount_guest::testing::{self, Source};

const POOL: Pool = Pool::named("volumes");
const BLOCK_BYTES: u64 = 4 << 10;
const MINIMUM_BYTES: u64 = 1 << 20;
const DEFAULT_BYTES: u64 = 1 << 30;
const POOL_BYTES: u64 = 100 << 30;
const GIB: u64 = 1 << 30;
const KINDS: [&str; 2] = ["image", "directory"];

fn fresh() {
    testing::reset();
    testing::add_pool("volumes", POOL_BYTES);
}

fn mounted(access_mode: AccessMode) -> VolumeCapability {
    let access_type = AccessType::Mount(MountAccess {
        fs_type: None,
        mount_flags: Vec::new(),
        volume_mount_group: None,
    });
    VolumeCapability {
        access_type,
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

fn pairs(pairs: &[(&str, &str)]) -> Attributes {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn of_kind(kind: &str) -> Attributes {
    pairs(&[("kind", kind)])
}

fn request(name: &str, kind: &str, capacity: CapacityRange) -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: name.to_owned(),
        capacity,
        capabilities: vec![mounted(AccessMode::SingleNodeWriter)],
        parameters: of_kind(kind),
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn created(name: &str, kind: &str) -> Volume {
    Hostpath::create_volume(request(name, kind, range(Some(GIB), None))).unwrap()
}

fn copied(name: &str, kind: &str, source: ContentSource, bytes: u64) -> Result<Volume, Error> {
    Hostpath::create_volume(CreateVolumeArgs {
        content_source: Some(source),
        ..request(name, kind, range(Some(bytes), None))
    })
}

fn taken(name: &str, source_volume: &str) -> Result<Snapshot, Error> {
    Hostpath::create_snapshot(CreateSnapshotArgs {
        source_volume: source_volume.to_owned(),
        name: name.to_owned(),
        parameters: Vec::new(),
        accessibility: None,
    })
}

fn validate(id: &str, capability: VolumeCapability, kind: &str) -> Result<Validation, Error> {
    Hostpath::validate_volume_capabilities(ValidateArgs {
        id: id.to_owned(),
        context: Vec::new(),
        capabilities: vec![capability],
        parameters: of_kind(kind),
        mutable_parameters: Vec::new(),
    })
}

fn expand(id: &str, capacity: CapacityRange) -> Result<Expanded, Error> {
    Hostpath::expand_volume(ExpandArgs {
        id: id.to_owned(),
        capacity,
        capability: None,
    })
}

fn staged(
    id: &str,
    volume_context: Attributes,
    publish_context: Attributes,
) -> Result<testing::RecordedPlan, Error> {
    let args = NodeStageArgs {
        id: id.to_owned(),
        capability: mounted(AccessMode::SingleNodeWriter),
        publish_context,
        volume_context,
    };
    testing::record(|plan| Hostpath::node_stage(args, plan))
}

fn stage(id: &str) -> Result<testing::RecordedPlan, Error> {
    staged(id, of_kind("directory"), Vec::new())
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

fn left_behind() -> (Vec<String>, Vec<String>) {
    (testing::state_keys(), testing::pool_paths("volumes"))
}

fn size_in_pool(id: &str) -> Option<u64> {
    Some(POOL.stat(id).unwrap()?.size_bytes)
}

#[test]
fn a_volume_of_each_kind_lives_from_creation_to_deletion() {
    for kind in KINDS {
        fresh();
        let volume = created("pvc-1", kind);
        assert_eq!(volume, created("pvc-1", kind));
        let (pool, path) = ("volumes".to_owned(), volume.id.clone());
        let plan = stage(&volume.id).unwrap();
        let source = match kind {
            "directory" => Source::Directory { pool, path },
            _ => Source::Image { pool, path },
        };
        assert_eq!(plan.source, source);
        assert_eq!(plan.default_fs_type.as_deref(), Some("ext4"));
        for _ in 0..2 {
            Hostpath::delete_volume(volume.id.clone()).unwrap();
        }
        assert_eq!(left_behind(), (vec![], vec![]), "{kind}");
    }
}

#[test]
fn a_name_that_is_there_as_something_else_is_refused() {
    fresh();
    let volume = created("pvc-1", "image");
    let source = ContentSource::Volume(created("pvc-2", "image").id);
    let refused = Some(Code::AlreadyExists);
    let other = request("pvc-1", "directory", range(Some(GIB), None));
    assert_eq!(code(Hostpath::create_volume(other)), refused);
    let larger = request("pvc-1", "image", range(Some(2 * GIB), None));
    assert_eq!(code(Hostpath::create_volume(larger)), refused);
    assert_eq!(code(copied("pvc-1", "image", source, GIB)), refused);
    assert_eq!(created("pvc-1", "image"), volume);
}

#[test]
fn a_size_is_a_whole_number_of_blocks_within_the_range() {
    for (capacity, bytes) in [
        (range(None, None), DEFAULT_BYTES),
        (range(Some(1), None), MINIMUM_BYTES),
        (range(Some(GIB + 1), None), GIB + BLOCK_BYTES),
        (range(None, Some(MINIMUM_BYTES + 1)), MINIMUM_BYTES),
    ] {
        fresh();
        let volume = Hostpath::create_volume(request("pvc-1", "image", capacity)).unwrap();
        assert_eq!(volume.capacity_bytes, bytes, "{capacity:?}");
        assert_eq!(size_in_pool(&volume.id), Some(bytes));
    }
    for (capacity, refusal) in [
        (range(Some(1), Some(100)), Code::OutOfRange),
        (range(Some(GIB + 1), Some(GIB + 2)), Code::OutOfRange),
        (range(Some(POOL_BYTES + 1), None), Code::ResourceExhausted),
        (range(Some(u64::MAX), None), Code::ResourceExhausted),
    ] {
        fresh();
        let answer = Hostpath::create_volume(request("pvc-1", "image", capacity));
        assert_eq!(code(answer), Some(refusal), "{capacity:?}");
        assert_eq!(left_behind(), (vec![], vec![]));
    }
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let changes: [fn(&mut CreateVolumeArgs); 8] = [
        |args| args.parameters = of_kind("disk"),
        |args| args.parameters.push(("sizze".to_owned(), "1".to_owned())),
        |args| args.mutable_parameters = of_kind("image"),
        |args| args.capabilities = vec![mounted(AccessMode::MultiNodeMultiWriter)],
        |args| args.capabilities[0].access_type = AccessType::Other(99),
        |args| {
            args.parameters = of_kind("directory");
            args.capabilities.push(block());
        },
        |args| args.content_source = Some(ContentSource::Other(("a".to_owned(), "b".to_owned()))),
        |args| args.capabilities[0].access_mode = AccessMode::Other(99),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        fresh();
        let mut args = request("pvc-1", "image", range(None, None));
        change(&mut args);
        let answer = Hostpath::create_volume(args);
        assert_eq!(code(answer), Some(Code::InvalidArgument), "change {number}");
        assert_eq!(left_behind(), (vec![], vec![]));
    }
}

#[test]
fn capabilities_are_confirmed_or_not_by_kind() {
    fresh();
    let image = created("pvc-1", "image").id;
    let directory = created("pvc-2", "directory").id;
    let mount = || mounted(AccessMode::SingleNodeWriter);
    for (id, capability, kind) in [
        (&image, mount(), "image"),
        (&image, block(), "image"),
        (&directory, mount(), "directory"),
    ] {
        assert_eq!(validate(id, capability, kind), Ok(Validation::Confirmed));
    }
    for (id, capability, kind) in [
        (&image, mounted(AccessMode::MultiNodeReaderOnly), "image"),
        (&image, mount(), "directory"),
        (&image, mount(), "disk"),
        (&directory, block(), "directory"),
    ] {
        let answer = validate(id, capability, kind).unwrap();
        assert!(matches!(answer, Validation::Unsupported(_)), "{kind}");
    }
}

#[test]
fn an_id_that_was_not_made_here_is_no_path() {
    fresh();
    let volume = created("pvc-1", "image").id;
    let snapshot = taken("snap-1", &volume).unwrap().id;
    let there = left_behind();
    let not_found = Some(Code::NotFound);
    for id in [
        "",
        "../pvc-1",
        "volume-",
        "pvc-1",
        &snapshot,
        &volume.replace("volume", ".."),
    ] {
        assert_eq!(code(stage(id)), not_found, "{id}");
        assert_eq!(code(expand(id, range(Some(GIB), None))), not_found, "{id}");
        assert_eq!(code(taken("snap-2", id)), not_found, "{id}");
        let source = ContentSource::Volume(id.to_owned());
        assert_eq!(code(copied("pvc-2", "image", source, GIB)), not_found);
        assert_eq!(Hostpath::delete_volume(id.to_owned()), Ok(()), "{id}");
    }
    for id in ["../snap-1", &volume] {
        assert_eq!(code(Hostpath::get_snapshot(id.to_owned())), not_found);
        let source = ContentSource::Snapshot(id.to_owned());
        assert_eq!(code(copied("pvc-2", "image", source, GIB)), not_found);
        assert_eq!(Hostpath::delete_snapshot(id.to_owned()), Ok(()), "{id}");
    }
    assert_eq!(left_behind(), there);
}

#[test]
fn a_volume_grows_and_only_its_kind_says_where() {
    for (kind, in_pool, on_node) in [
        ("image", Some(3 * GIB), true),
        // Of earlier versions: the node had expanded the image, though the controller had not.
        ("node-grown-image", Some(3 * GIB), true),
        ("directory", Some(0), false),
    ] {
        fresh();
        let id = created("pvc-1", kind).id;
        let grown = expand(&id, range(Some(3 * GIB), None)).unwrap();
        assert_eq!(grown.capacity_bytes, 3 * GIB);
        assert_eq!(grown.node_expansion_required, on_node, "{kind}");
        assert_eq!(size_in_pool(&id), in_pool, "{kind}");
        let smaller = expand(&id, range(Some(GIB), None)).unwrap();
        assert_eq!(smaller.capacity_bytes, 3 * GIB);
        let limited = expand(&id, range(None, Some(GIB)));
        assert_eq!(code(limited), Some(Code::OutOfRange));
    }
    fresh();
    let id = created("pvc-1", "image").id;
    let too_much = expand(&id, range(Some(2 * POOL_BYTES), None));
    assert_eq!(code(too_much), Some(Code::ResourceExhausted));
    assert_eq!(created("pvc-1", "image").capacity_bytes, GIB);
}

#[test]
fn a_record_of_another_schema_is_not_guessed_at() {
    fresh();
    let id = created("pvc-1", "image").id;
    let text = state::require::<String>(&id).unwrap().value;
    assert!(text.starts_with(r#"{"schema":1,"#), "{text}");
    let older = text.replacen(":1", ":0", 1);
    let newer = text.replacen(":1", ":2", 1);
    let other = text.replace("image", "disk");
    for (stored, outcome) in [
        (older, None),
        (newer, Some(Code::FailedPrecondition)),
        (other, Some(Code::DataLoss)),
        (String::new(), Some(Code::DataLoss)),
    ] {
        state::put(&id, &stored, state::Expect::Any).unwrap();
        assert_eq!(code(Hostpath::get_volume(id.clone())), outcome, "{stored}");
    }
}

#[test]
fn capacity_is_what_is_not_promised_yet() {
    fresh();
    created("pvc-1", "image");
    created("pvc-2", "directory");
    let available = |capability, parameters, place| {
        let args = CapacityArgs {
            capabilities: vec![capability],
            parameters,
            accessible_topology: place,
        };
        Hostpath::get_capacity(args).unwrap()
    };
    let left = POOL_BYTES - 2 * GIB;
    let block_volume = available(block(), vec![], None);
    assert_eq!(block_volume, Available::bytes(left).at_least(MINIMUM_BYTES));
    let of_xfs = available(
        mounted(AccessMode::SingleNodeWriter),
        pairs(&[("fsType", "xfs")]),
        None,
    );
    assert_eq!(of_xfs.minimum_volume_bytes, Some(300 << 20));
    let nothing = Available::bytes(0);
    assert_eq!(available(block(), of_kind("directory"), None), nothing);
    assert_eq!(available(block(), of_kind("disk"), None), nothing);
    testing::set_node_name(Some("node-1"));
    let place = |node| Some(node::place(node));
    assert_eq!(available(block(), vec![], place("node-1")), block_volume);
    assert_eq!(available(block(), vec![], place("node-2")), nothing);
}
