//! Open maps, as the kernel shows them in sysfs: name, UUID, and the device below.
//!
//! `cryptsetup` gives a map the UUID `CRYPT-LUKS2-<UUID of the header>-<name>` (`dm_prepare_uuid` of libcryptsetup). Names can be changed, UUIDs cannot.

use crate::block::loop_device::digits;
use crate::block::{BlockDevice, BlockRecord, DeviceNumber, node_device};
use crate::failure::kernel;
use crate::sysfs::{attribute, entries};
use crate::tools::ToolCall;
use rustix::fs::fsync;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;

/// Where the kernel lists block devices.
const BLOCK: &str = "/sys/class/block";
/// Distinguishes maps of this host from all others.
const PREFIX: &str = "wasmount-";
/// The beginning of the UUID of a map of LUKS2.
const UUID_PREFIX: &str = "CRYPT-LUKS2-";
/// Deadline of the removal of a map. 20 s: it waits for requests that are under way, which a disk answers within seconds.
const REMOVE_WITHIN: Duration = Duration::from_secs(20);

/// The name of a volume's map: hashes of the driver, and of driver and volume. With the prefixes and the UUID of a header it has 103 of the 128 bytes
/// that device-mapper has for a UUID (`DM_UUID_LEN`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MapName(String);

/// An open map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Map {
    pub(super) name: MapName,
    uuid: String,
    /// The kernel's name: `dm-0`.
    kernel_name: String,
    pub(super) number: DeviceNumber,
    /// The device below. `None`: it has none, since its opening was interrupted.
    pub(super) storage: Option<DeviceNumber>,
    pub(super) is_read_only: bool,
}

impl MapName {
    pub(super) fn of(key: &VolumeKey) -> Self {
        // Neither string contains NUL, so no two volumes have the same hash input.
        let volume = digits(&[key.driver.as_str(), "\0", key.volume.as_str()]);
        Self(format!("{}{volume}", Self::beginning(&key.driver)))
    }

    /// What the names of a driver's maps begin with.
    fn beginning(driver: &DriverName) -> String {
        format!("{PREFIX}{}-", digits(&[driver.as_str()]))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The map of a volume.
pub(super) fn find(name: &MapName) -> Option<Map> {
    all(Path::new(BLOCK)).find(|map| map.name == *name)
}

/// The maps of all volumes of a driver.
pub(super) fn of_driver(driver: &DriverName) -> Vec<Map> {
    let beginning = MapName::beginning(driver);
    let maps = all(Path::new(BLOCK));
    maps.filter(|map| map.name.0.starts_with(&beginning))
        .collect()
}

/// Whether a device is the map of an encrypted volume.
pub(crate) fn is_map(number: DeviceNumber) -> bool {
    all(Path::new(BLOCK)).any(|map| map.number == number)
}

/// The device that users of a volume see: the map of its device, if there is one.
pub(crate) fn shown(storage: DeviceNumber) -> DeviceNumber {
    let map = all(Path::new(BLOCK)).find(|map| map.storage == Some(storage));
    map.map_or(storage, |map| map.number)
}

/// The device below a map; any other device itself.
pub(crate) fn storage_of(shown: DeviceNumber) -> DeviceNumber {
    let map = all(Path::new(BLOCK)).find(|map| map.number == shown);
    map.and_then(|map| map.storage).unwrap_or(shown)
}

fn all(block: &Path) -> impl Iterator<Item = Map> {
    let names = entries(block).filter(|name| name.starts_with("dm-"));
    names.filter_map(|name| read(block, name))
}

/// `None`: it is not a map of this host, or it is gone.
fn read(block: &Path, kernel_name: String) -> Option<Map> {
    let folder = block.join(&kernel_name);
    let text = |name: &str| attribute(&folder.join(name));
    let (name, uuid) = (text("dm/name")?, text("dm/uuid")?);
    let of_header = uuid.strip_prefix(UUID_PREFIX)?.strip_suffix(&name)?;
    if !name.starts_with(PREFIX) || !of_header.ends_with('-') {
        return None;
    }
    let mut below = entries(&folder.join("slaves"));
    let number = |folder: PathBuf| DeviceNumber::parse(&attribute(&folder.join("dev"))?);
    Some(Map {
        name: MapName(name),
        uuid,
        number: number(folder.clone())?,
        storage: below.next().and_then(|it| number(block.join(it))),
        is_read_only: text("ro").is_some_and(|text| text == "1"),
        kernel_name,
    })
}

impl Map {
    /// The map, opened. `storage` is the device below.
    pub(super) fn device(&self, storage: BlockRecord) -> Result<BlockDevice, MountError> {
        Ok(BlockDevice {
            backing: storage.backing,
            storage: Some(storage),
            ..self.open()?
        })
    }

    /// Writes out what was written to it.
    pub(super) fn flush(&self) -> Result<(), MountError> {
        if self.is_read_only {
            return Ok(());
        }
        fsync(self.open()?.file).map_err(|errno| kernel("fsync", self.path().display(), errno))
    }

    pub(super) fn is_there(&self) -> bool {
        let found = read(Path::new(BLOCK), self.kernel_name.clone());
        found.is_some_and(|found| found.uuid == self.uuid)
    }

    /// One attempt to remove it.
    pub(super) fn removal(&self) -> ToolCall {
        // By its name, since the library removes the node of the name only then.
        let arguments = ["remove", self.name.as_str()];
        ToolCall {
            program: "dmsetup",
            root: None,
            arguments: arguments.iter().map(Into::into).collect(),
            object: self.path().display().to_string(),
            deadline: REMOVE_WITHIN,
        }
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.kernel_name)
    }

    fn open(&self) -> Result<BlockDevice, MountError> {
        node_device::numbered(self.number)?.ok_or_else(|| {
            MountError::unusable(
                self.path().display(),
                "it is not the device that the kernel calls so; mount the node's /dev into the host's container",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;
    use wasmount_core::names::VolumeId;

    const HEADER: &str = "0123456789abcdef0123456789abcdef";

    fn key(driver: &str, volume: &str) -> VolumeKey {
        VolumeKey {
            driver: DriverName::parse(driver).unwrap(),
            volume: VolumeId::parse("volume_id", volume).unwrap(),
        }
    }

    /// A tree of sysfs with a disk and a device of device-mapper.
    fn tree(name: &str, uuid: &str) -> TempDir {
        let block = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = block.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sda/dev", "8:0\n");
        write("dm-3/dev", "254:3\n");
        write("dm-3/ro", "0\n");
        write("dm-3/dm/name", name);
        write("dm-3/dm/uuid", uuid);
        write("dm-3/slaves/sda/dev", "8:0\n");
        block
    }

    #[test]
    fn a_map_is_named_as_it_always_was() {
        // `printf a.test | sha256sum`, `printf 'a.test\0v' | sha256sum`: other versions of the host must find what this one left.
        let name = "wasmount-52dcf5eeb77a59de2eb72211-4c4f0ba31c6a426101d17f00";
        assert_eq!(MapName::of(&key("a.test", "v")).as_str(), name);
        assert_ne!(
            MapName::of(&key("a.test", "w")),
            MapName::of(&key("a.test", "v"))
        );
        let uuid = format!("{UUID_PREFIX}{HEADER}-{name}");
        assert_eq!(uuid.len(), 103);
    }

    #[test]
    fn a_map_of_this_host_is_read_with_its_device() {
        let name = MapName::of(&key("a.test", "v"));
        let uuid = format!("CRYPT-LUKS2-{HEADER}-{name}");
        let block = tree(name.as_str(), &format!("{uuid}\n"));
        let expected = Map {
            name,
            uuid,
            kernel_name: "dm-3".to_owned(),
            number: DeviceNumber {
                major: 254,
                minor: 3,
            },
            storage: Some(DeviceNumber { major: 8, minor: 0 }),
            is_read_only: false,
        };
        assert_eq!(all(block.path()).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn maps_of_others_are_not_touched() {
        let own = MapName::of(&key("a.test", "v")).0;
        for (name, uuid) in [
            ("luks-home", format!("CRYPT-LUKS2-{HEADER}-luks-home")),
            (own.as_str(), format!("LVM-{own}")),
            (own.as_str(), format!("CRYPT-LUKS2-{HEADER}-other")),
            (own.as_str(), format!("CRYPT-LUKS2-{HEADER}{own}")),
            ("renamed", format!("CRYPT-LUKS2-{HEADER}-{own}")),
        ] {
            let block = tree(name, &uuid);
            assert_eq!(all(block.path()).next(), None, "{name} {uuid}");
        }
    }
}
