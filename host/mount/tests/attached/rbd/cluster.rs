//! The cluster of all tests, a host that is granted its pool, and images as volumes.

use crate::host::{self, Host};
use std::fs;
use std::path::Path;
use wasmount_core::document::{AttachGrant, AttachProtocol, Portals};
use wasmount_core::plan::attached::{SecretScope, option};
use wasmount_core::plan::encryption::LUKS_KEY;
use wasmount_core::plan::rbd::{Cephx, CephxUser, ImageAccess, Rbd};
use wasmount_core::plan::{Luks, Plan, Source};
use wasmount_core::secrets::SecretOptions;
use wasmount_tests::ceph::{CLUSTER, Ceph, IMAGE_USER, LOCAL, POOL};
use wasmount_tests::other_kernel::needs_other_kernel;

/// Bytes of a MiB.
pub(crate) const MIB: u64 = 1 << 20;
/// Size of the images.
pub(crate) const SIZE: &str = "64M";
const PASSPHRASE: &str = "correct horse battery staple";
/// Where the kernel lists mapped images.
const MAPPED: &str = "/sys/bus/rbd/devices";

/// A running Ceph with a pool of images.
pub(crate) struct Cluster {
    pub(crate) ceph: &'static Ceph,
    pub(crate) key: String,
}

/// An image as a volume.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) access: ImageAccess,
    pub(crate) is_raw: bool,
    pub(crate) is_encrypted: bool,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        needs_other_kernel();
        crate::support::run("modprobe", &["rbd"]);
        let ceph = Ceph::shared(LOCAL).unwrap();
        let key = ceph.image_key().unwrap();
        Self { ceph, key }
    }

    /// Creates an image; its user is the only one.
    pub(crate) fn create(&self, name: &str) -> Image {
        self.ceph.rbd(&["create", "--size", SIZE, name]).unwrap();
        let told = self.ceph.rbd(&["info", "--format", "json", name]);
        let told: serde_json::Value = serde_json::from_str(&told.unwrap()).unwrap();
        Image {
            name: name.to_owned(),
            id: told["id"].as_str().unwrap().to_owned(),
            key: self.key.clone(),
            access: ImageAccess::Exclusive,
            is_raw: false,
            is_encrypted: false,
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        self.ceph.rbd(&["rm", "--no-progress", name]).unwrap();
    }

    /// The content of an image in Ceph.
    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        let file = self.ceph.export(name).unwrap();
        let content = fs::read(&file).unwrap();
        fs::remove_file(file).unwrap();
        content
    }
}

impl host::Volume for Image {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(&self) -> Source {
        Source::Rbd(Rbd {
            monitors: vec![format!("{LOCAL}:6789")],
            cluster: CLUSTER.to_owned(),
            pool: POOL.to_owned(),
            namespace: None,
            image: self.name.clone(),
            image_id: self.id.clone(),
            access: self.access,
            cephx: Some(Cephx {
                user: CephxUser::Name(IMAGE_USER.to_owned()),
                scope: SecretScope::Backend,
                key: "key".to_owned(),
            }),
        })
    }

    fn secrets(&self) -> SecretOptions {
        SecretOptions::from_iter([
            (option::CEPHX_KEY.to_owned(), self.key.clone()),
            (LUKS_KEY.to_owned(), PASSPHRASE.to_owned()),
        ])
    }

    fn is_raw(&self) -> bool {
        self.is_raw
    }

    fn is_read_only(&self) -> bool {
        self.access == ImageAccess::ReadOnly
    }

    fn plan(&self) -> Plan {
        Plan {
            source: self.source(),
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: std::collections::BTreeMap::new(),
            luks: self
                .is_encrypted
                .then(|| Luks::of(SecretScope::Backend, "passphrase")),
        }
    }
}

pub(crate) fn host() -> Host {
    host_of("rbd.test")
}

pub(crate) fn host_of(driver: &str) -> Host {
    Host::of(driver, grant(), &[])
}

/// A host in a directory that may have been another one's.
pub(crate) fn host_at(folder: &Path) -> Host {
    Host::at(folder, "rbd.test", grant(), &[])
}

fn grant() -> AttachGrant {
    AttachGrant {
        protocol: AttachProtocol::Rbd,
        portals: vec![Portals::parse(&format!("{LOCAL}:6789")).unwrap()],
        targets: vec![POOL.to_owned()],
        mount_options: Vec::new(),
    }
}

/// What the kernel was told of each mapped image.
pub(crate) fn mapped() -> Vec<String> {
    let entries = fs::read_dir(MAPPED).unwrap();
    let told = entries.map(|it| fs::read_to_string(it.unwrap().path().join("config_info")));
    told.map(Result::unwrap).collect()
}

pub(crate) fn assert_nothing_left(host: &Host) {
    assert_eq!(mapped(), [""; 0]);
    assert_eq!(host.journal().len(), 0);
}
