//! Tests against a model of Ceph's REST API. Its refusals are those of Ceph 18.2.7; `tests/tests/volumes/cephfs.rs` meets that Ceph itself.

mod interrupted;
mod model;
mod node;
mod snapshots;
mod volumes;

use super::*;
use model::Ceph;
use wasmount_guest::testing;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MONITORS: &str = "10.0.0.1:6789,10.0.0.2:6789";

fn fresh() -> Ceph {
    testing::reset();
    testing::set_setting("monitors", MONITORS);
    testing::set_setting("clusterID", "blue");
    testing::grant_sealing();
    Ceph::start()
}

fn pairs(pairs: &[(&str, &str)]) -> Attributes {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// The parameters of a class, and more.
fn class(more: &[(&str, &str)]) -> Attributes {
    pairs(&[&[("clusterID", "blue"), ("fsName", "cephfs")], more].concat())
}

fn capability(access_mode: AccessMode) -> VolumeCapability {
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

fn range(required: u64) -> CapacityRange {
    CapacityRange {
        required_bytes: Some(required),
        limit_bytes: None,
    }
}

fn request(name: &str, more: &[(&str, &str)], required: u64) -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: name.to_owned(),
        capacity: range(required),
        capabilities: vec![capability(AccessMode::MultiNodeMultiWriter)],
        parameters: class(more),
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn copy_of(source: ContentSource, name: &str) -> CreateVolumeArgs {
    CreateVolumeArgs {
        content_source: Some(source),
        ..request(name, &[], GIB)
    }
}

fn created(name: &str) -> Volume {
    CephFs::create_volume(request(name, &[], GIB)).unwrap()
}

fn snapshot_of(volume: &str, name: &str) -> Result<Snapshot, Error> {
    CephFs::create_snapshot(CreateSnapshotArgs {
        source_volume: volume.to_owned(),
        name: name.to_owned(),
        parameters: pairs(&[("clusterID", "blue")]),
        accessibility: None,
    })
}

fn expand(id: &str, bytes: u64) -> Result<Expanded, Error> {
    CephFs::expand_volume(ExpandArgs {
        id: id.to_owned(),
        capacity: range(bytes),
        capability: None,
    })
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

fn first_page() -> PageRequest {
    PageRequest {
        max_entries: None,
        starting_token: None,
    }
}
