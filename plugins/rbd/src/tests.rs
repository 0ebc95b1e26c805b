//! Unit tests of the plugin, against a model of Ceph that answers as a real one does; tests/tests/volumes/rbd.rs runs it with a real one.
mod model;
mod node;
mod snapshots;
mod volumes;

use crate::Rbd;
use model::Ceph;
use wasmount_guest::*;

const MIB: u64 = 1 << 20;

/// A Ceph, and the settings of the administrator.
fn start() -> Ceph {
    testing::reset();
    for (key, value) in [
        ("clusterID", "tests"),
        ("monitors", "192.0.2.1:6789, 192.0.2.2:6789"),
        ("pools", "kubernetes,shared/tenant"),
    ] {
        testing::set_setting(key, value);
    }
    Ceph::start()
}

fn capability(access_type: AccessType, access_mode: AccessMode) -> VolumeCapability {
    VolumeCapability {
        access_type,
        access_mode,
    }
}

fn mounted() -> VolumeCapability {
    let access = MountAccess {
        fs_type: None,
        mount_flags: Vec::new(),
        volume_mount_group: None,
    };
    capability(AccessType::Mount(access), AccessMode::SingleNodeWriter)
}

/// What a client asks for.
fn args(name: &str, mib: u64) -> CreateVolumeArgs {
    CreateVolumeArgs {
        name: name.to_owned(),
        capacity: CapacityRange {
            required_bytes: Some(mib * MIB),
            limit_bytes: None,
        },
        capabilities: vec![mounted()],
        parameters: vec![("pool".to_owned(), "kubernetes".to_owned())],
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    }
}

fn create(name: &str, mib: u64) -> Result<Volume, Error> {
    Rbd::create_volume(args(name, mib))
}

fn code<T>(result: Result<T, Error>) -> Option<Code> {
    result.err().map(|error| error.code)
}
