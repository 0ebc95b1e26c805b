//! Tests of the plugin on the host in memory: classes, ids, lives of volumes, and calls that are interrupted after every host call.

mod classes;
mod lives;
mod node;

use super::*;
use crate::volume_id::VolumeId;
use wasmount_guest::testing;

const GIB: u64 = 1 << 30;
const POOL_BYTES: u64 = 100 * GIB;
const NAS: Pool = Pool::named("nas");

fn fresh() {
    testing::reset();
    testing::add_pool("nas", POOL_BYTES);
    testing::set_setting("share.nas", "nas.example.com:/export");
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

fn pairs(pairs: &[(&str, &str)]) -> Attributes {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// The parameters of a class, and more.
fn class(more: &[(&str, &str)]) -> Attributes {
    pairs(&[&[("server", "nas.example.com"), ("share", "/export")], more].concat())
}

fn request(name: &str, parameters: Attributes, required: u64) -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: name.to_owned(),
        capacity: CapacityRange {
            required_bytes: Some(required),
            limit_bytes: None,
        },
        capabilities: vec![capability(AccessMode::MultiNodeMultiWriter)],
        parameters,
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn created(name: &str, more: &[(&str, &str)]) -> Volume {
    Nfs::create_volume(request(name, class(more), GIB)).unwrap()
}

fn expand(id: &str, bytes: u64) -> Result<Expanded, Error> {
    Nfs::expand_volume(ExpandArgs {
        id: id.to_owned(),
        capacity: CapacityRange {
            required_bytes: Some(bytes),
            limit_bytes: None,
        },
        capability: None,
    })
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code)
}

fn left_behind() -> (Vec<String>, Vec<String>) {
    (testing::state_keys(), testing::pool_paths("nas"))
}
