//! Images of Ceph that the kernel has mapped, as sysfs shows them (`Documentation/ABI/testing/sysfs-bus-rbd`).
//!
//! It only reads small files, so it can be tested on trees of plain files.

use super::DeviceNumber;
use crate::plan::attach;
use crate::sysfs::{attribute, entries};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where the kernel lists them.
const DEVICES: &str = "bus/rbd/devices";
/// What `current_snap` shows of an image that is mapped itself, and not a snapshot of it.
const HEAD: &str = "-";
/// The option that names the key, in what the kernel was told.
const KEY: &str = "key=";

/// A mapped image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedImage {
    /// The kernel's number for it, in `/dev/rbd0` too.
    pub(crate) number_on_bus: u32,
    pub(crate) number: DeviceNumber,
    pub(crate) cluster: String,
    pub(crate) pool: String,
    /// Empty: the default one.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) id: String,
    /// The image itself, and not a snapshot of it.
    is_head: bool,
    /// What the kernel was told: monitors, options, and names. The key is only named.
    pub(crate) told: String,
}

impl MappedImage {
    /// All of them.
    pub(crate) fn all(sys: &Path) -> Vec<Self> {
        let devices = sys.join(DEVICES);
        let mut all: Vec<_> = entries(&devices)
            .filter_map(|number| Self::read(&devices.join(&number), number.parse().ok()?))
            .collect();
        all.sort_by_key(|image| image.number_on_bus);
        all
    }

    /// The one that a block device is, by its name in `/sys/class/block`.
    pub(crate) fn of_device(sys: &Path, device: &str) -> Option<Self> {
        let number = device.strip_prefix("rbd")?.parse().ok()?;
        Self::read(&sys.join("class/block").join(device).join("device"), number)
    }

    /// The one with the number of a block device.
    pub(crate) fn with_number(sys: &Path, number: DeviceNumber) -> Option<Self> {
        Self::all(sys).into_iter().find(|it| it.number == number)
    }

    /// Its identity, as a fact of its device. `None`: it is a snapshot.
    pub(crate) fn wwid(&self) -> Option<String> {
        self.is_head
            .then(|| attach::wwid(&self.cluster, &self.pool, &self.namespace, &self.id))
    }

    /// Whether its key has this name.
    pub(crate) fn has_key_named(&self, name: &str) -> bool {
        let options = self.told.split_whitespace().nth(1).unwrap_or_default();
        let mut options = options.split(',');
        options.any(|option| option.strip_prefix(KEY) == Some(name))
    }

    /// Its directory in sysfs.
    pub(crate) fn folder(&self, sys: &Path) -> PathBuf {
        sys.join(DEVICES).join(self.number_on_bus.to_string())
    }

    fn read(folder: &Path, number_on_bus: u32) -> Option<Self> {
        let text = |name: &str| attribute(&folder.join(name));
        let number = |name: &str| text(name)?.parse().ok();
        Some(Self {
            number_on_bus,
            number: DeviceNumber {
                major: number("major")?,
                minor: number("minor")?,
            },
            cluster: text("cluster_fsid")?,
            pool: text("pool")?,
            namespace: text("pool_ns").unwrap_or_default(),
            name: text("name")?,
            id: text("image_id")?,
            is_head: text("current_snap")? == HEAD,
            told: text("config_info")?,
        })
    }
}

/// Text of it for messages, as that of an image of a plan.
impl fmt::Display for MappedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, name, .. } = self;
        match self.namespace.as_str() {
            "" => write!(f, "RBD image {pool}/{name}"),
            namespace => write!(f, "RBD image {pool}/{namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    const TOLD: &str = "10.1.3.1:6789 name=csi,key=wasmount-a,rw kubernetes csi-vol-a -";

    /// A tree of sysfs with one mapped image, whose attributes are changed.
    fn tree(changed: &[(&str, &str)]) -> TempDir {
        let sys = tempfile::tempdir().unwrap();
        for folder in ["bus/rbd/devices/3", "class/block/rbd3/device"] {
            let folder = sys.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            let attributes = [
                ("major", "252"),
                ("minor", "48"),
                ("cluster_fsid", "8b0b3a5e-0000-4000-8000-000000000001"),
                ("pool", "kubernetes"),
                ("pool_ns", ""),
                ("name", "csi-vol-a"),
                ("image_id", "10226b8b4567"),
                ("current_snap", HEAD),
                ("config_info", TOLD),
            ];
            for (name, value) in attributes.iter().chain(changed) {
                fs::write(folder.join(name), format!("{value}\n")).unwrap();
            }
        }
        sys
    }

    fn of_device(changed: &[(&str, &str)]) -> Option<MappedImage> {
        MappedImage::of_device(tree(changed).path(), "rbd3")
    }

    #[test]
    fn a_mapped_image_is_read_with_its_identity() {
        let sys = tree(&[]);
        let image = MappedImage::of_device(sys.path(), "rbd3").unwrap();
        assert_eq!(MappedImage::all(sys.path()), std::slice::from_ref(&image));
        let number = DeviceNumber {
            major: 252,
            minor: 48,
        };
        assert_eq!(
            MappedImage::with_number(sys.path(), number),
            Some(image.clone())
        );
        assert_eq!(
            image.wwid().unwrap(),
            "rbd.8b0b3a5e-0000-4000-8000-000000000001:kubernetes::10226b8b4567"
        );
        let namespaced = of_device(&[("pool_ns", "tenant")]).unwrap().wwid();
        assert!(
            namespaced
                .unwrap()
                .ends_with(":kubernetes:tenant:10226b8b4567")
        );
        assert!(image.has_key_named("wasmount-a"));
    }

    #[test]
    fn what_is_another_image_or_none_is_told_apart() {
        let snapshot = of_device(&[("current_snap", "yesterday")]).unwrap();
        assert_eq!(snapshot.wwid(), None);
        assert_eq!(of_device(&[("image_id", "")]), None);
        let sys = tree(&[]);
        assert_eq!(MappedImage::of_device(sys.path(), "sda"), None);
        assert_eq!(MappedImage::of_device(sys.path(), "rbd3p1"), None);
        let elsewhere = "10.1.3.1:6789 name=csi,key=other,rw kubernetes key=wasmount-a -";
        for told in ["", "10.1.3.1:6789 name=key=wasmount-a a b -", elsewhere] {
            let told = of_device(&[("config_info", told)]);
            assert!(!told.is_some_and(|it| it.has_key_named("wasmount-a")));
        }
    }
}
