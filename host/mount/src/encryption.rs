//! Encrypted block volumes: the device of a volume gets a LUKS2 header, and what the volume shows is the map that dm-crypt makes of it.
//!
//! A map is found by the UUID that device-mapper keeps for it, which has driver and volume, so teardown needs neither key nor plugin nor journal. A
//! record names the device that is encrypted, never its map. The kernel claims that device for the map: it has no other user.
//!
//! A new header has the label [`label::NEW`] until the map reads as blank where file systems keep their metadata. Nobody used a device with that label.

mod cryptsetup;
mod decision;
mod header;
mod map;

pub(crate) use map::{is_map, shown, storage_of};

use crate::block::{BlockDevice, BlockRecord, DeviceNumber, loop_device};
use crate::exclusive::{Claim, Claims, retry};
use crate::failure::{io, kernel};
use crate::format::{
    Content, blank_places, disk_full, format_intent, is_blank_from, probe, require_free,
    require_path,
};
use crate::fs_type::StorageAccess;
use crate::mountinfo;
use crate::node::Node;
use crate::plan::CheckedPlan;
use cryptsetup::{Cryptsetup, Passphrase};
use decision::{LUKS, Verdict, decide};
use header::{Header, label};
use map::{Map, MapName};
use rustix::fs::fsync;
use std::fs::File;
use std::os::unix::fs::FileExt;
use uuid::Uuid;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;
use wasmount_core::plan::Source;
use wasmount_core::secrets::SecretOptions;

/// Maps that a call of this process is opening or closing: at its start a host closes stale ones, while it serves.
static CHANGING: Claims<MapName> = Claims::new();

/// The input for opening the encrypted device of one volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encryption<'a> {
    pub(crate) node: &'a Node,
    pub(crate) key: &'a VolumeKey,
    /// The source as recorded, for the format intent.
    pub(crate) source: &'a Source,
    pub(crate) secrets: &'a SecretOptions,
    pub(crate) access: StorageAccess,
    /// The map refuses writes.
    pub(crate) read_only: bool,
}

impl Encryption<'_> {
    /// The map of a device: a blank device gets a header first, and one with other content is refused.
    #[tracing::instrument(level = "debug", skip_all, name = "open encrypted device")]
    pub(crate) fn open(&self, device: &BlockDevice) -> Result<BlockDevice, MountError> {
        let passphrase = Passphrase::of(self.secrets)?;
        require_path(device)?;
        let name = MapName::of(self.key);
        let _alone = alone(&name)?;
        let cryptsetup = Cryptsetup { device };
        if let Some(map) = map::find(&name) {
            if map.storage == Some(device.number) && Header::read(device)?.label != label::NEW {
                return self.open_again(&map, &cryptsetup, &passphrase);
            }
            // An earlier call was killed before the map was ready, or its device was replaced.
            close(&map)?;
        }
        require_free(device)?;
        let content = probe(device)?;
        let is_unfinished = self.is_unfinished(device, &cryptsetup, &content)?;
        let read_only = self.read_only || device.is_read_only;
        // Nothing begins on a device that refuses writes, or whose map is to refuse them.
        let access = match (self.access, read_only) {
            (StorageAccess::ReadWrite, true) => StorageAccess::ReadOnly,
            (access, _) => access,
        };
        if decide(device, &content, is_unfinished, access)? == Verdict::Format {
            self.format(device, &cryptsetup, &passphrase)?;
        }
        cryptsetup.metadata()?.check(device)?;
        let is_new = Header::read(device)?.label == label::NEW;
        if is_new {
            decision::require_writer(device, access)?;
        }
        cryptsetup.open(&name, &passphrase, read_only)?;
        let opened = map::find(&name).filter(|map| map.storage == Some(device.number));
        let map = opened.ok_or_else(|| {
            let reason = "the kernel does not show the map that was just opened; look whether another program closes maps";
            MountError::unusable(device, reason)
        })?;
        let opened = map.device(device.record())?;
        if is_new {
            blank(&opened)?;
            cryptsetup.set_label(label::USED)?;
        }
        self.clear_intent()?;
        Ok(opened)
    }

    /// A map that is open: another path of the volume uses it, or its record was lost.
    fn open_again(
        &self,
        map: &Map,
        cryptsetup: &Cryptsetup<'_>,
        passphrase: &Passphrase<'_>,
    ) -> Result<BlockDevice, MountError> {
        let device = cryptsetup.device;
        cryptsetup.test(passphrase)?;
        if map.is_read_only && !self.read_only && !device.is_read_only {
            let by = "a path of the volume that is read-only; tear that one down first";
            return Err(MountError::in_use(device, by));
        }
        map.device(device.record())
    }

    /// Whether the device has what a killed `luksFormat` of this host left: no key can ever have opened it, so nothing is lost. It writes zeros over the
    /// header and random bytes behind it, then the header, and a key last (`crypt_format`, `LUKS2_keyslot_store`).
    fn is_unfinished(
        &self,
        device: &BlockDevice,
        cryptsetup: &Cryptsetup<'_>,
        content: &Content,
    ) -> Result<bool, MountError> {
        let intent = self.node.durable.intent(self.key);
        let now = |uuid| format_intent(self.source, device, LUKS, uuid);
        let intent = match intent {
            Some(intent) if intent.is_of(&now(intent.uuid)?) => Some(intent),
            _ => None,
        };
        match content {
            Content::Foreign(name) if name == LUKS => {
                let header = Header::read(device)?;
                if header.label != label::NEW {
                    return Ok(false);
                }
                Ok(match cryptsetup.keys()? {
                    Some(keys) => keys == 0,
                    // Half of the header was written. It is ours by its UUID.
                    None => intent.is_some_and(|intent| header.uuid == intent.uuid.to_string()),
                })
            }
            // Without both copies of a header, what lies behind it is lost in any case.
            Content::Unsigned { at } => Ok(intent.is_some()
                && *at >= header::COPIES_BYTES
                && is_blank_from(device, header::BYTES)?),
            _ => Ok(false),
        }
    }

    /// The intent is on stable storage before the first byte is written, and is cleared before anybody can use the map.
    fn format(
        &self,
        device: &BlockDevice,
        cryptsetup: &Cryptsetup<'_>,
        passphrase: &Passphrase<'_>,
    ) -> Result<(), MountError> {
        header::require_size(device)?;
        let uuid = Uuid::new_v4();
        let durable = &self.node.durable;
        let intent = format_intent(self.source, device, LUKS, uuid)?;
        durable.set_intent(self.key, Some(intent))?;
        // As for `mkfs`: the fsync below then reports our own errors only.
        let _ = fsync(&device.file);
        let full = |error| disk_full(device).unwrap_or(error);
        cryptsetup.format(uuid, passphrase).map_err(full)?;
        fsync(&device.file).map_err(|errno| full(kernel("fsync", device, errno)))
    }

    /// An intent to make a file system on the map stays.
    fn clear_intent(&self) -> Result<(), MountError> {
        let durable = &self.node.durable;
        match durable.intent(self.key) {
            Some(intent) if intent.fs_type == LUKS => durable.set_intent(self.key, None),
            _ => Ok(()),
        }
    }
}

/// The device that a volume shows: that of a record, or the map of it. `None`: it is gone.
pub(crate) fn volume_device(
    key: &VolumeKey,
    block: &BlockRecord,
    plan: &CheckedPlan,
) -> Result<Option<BlockDevice>, MountError> {
    if !plan.is_encrypted {
        return BlockDevice::recorded(block, &plan.source);
    }
    let map = map::find(&MapName::of(key)).filter(|map| map.storage == Some(block.number));
    map.map(|map| map.device(*block)).transpose()
}

/// Whether the map of a volume is open on the device of a record.
pub(crate) fn is_open(key: &VolumeKey, block: &BlockRecord) -> bool {
    map::find(&MapName::of(key)).is_some_and(|map| map.storage == Some(block.number))
}

/// Whether a device is the map of a volume.
pub(crate) fn is_map_of(key: &VolumeKey, device: DeviceNumber) -> bool {
    map::find(&MapName::of(key)).is_some_and(|map| map.number == device)
}

/// Expands the map of a volume to the size of its device. It needs no key: the kernel has it.
pub(crate) fn grow(key: &VolumeKey, device: &BlockDevice) -> Result<(), MountError> {
    let name = MapName::of(key);
    let _alone = alone(&name)?;
    Cryptsetup { device }.resize(&name)
}

impl Node {
    /// Closes the map of a path that is torn down, unless another path of the volume is left.
    pub(crate) fn close_map(&self, key: &VolumeKey, path: &str) -> Result<(), MountError> {
        if self.journal.entry(key).paths().any(|at| at.path != path) {
            return Ok(());
        }
        let name = MapName::of(key);
        let _alone = alone(&name)?;
        let Some(map) = map::find(&name) else {
            return Ok(());
        };
        // A read-only target of a raw block volume has a loop device on the map.
        for above in loop_device::lying_on(&[map.number])? {
            if above.tag.as_ref().is_some_and(|tag| tag.is_of(key)) {
                loop_device::release(&above.record())?;
            }
        }
        close(&map)
    }

    /// The same for a path without a record, if no mount shows the map.
    pub(crate) fn close_unshown_map(&self, key: &VolumeKey, path: &str) -> Result<(), MountError> {
        match map::find(&MapName::of(key)) {
            Some(map) if !mountinfo::is_shown(map.number)? => self.close_map(key, path),
            _ => Ok(()),
        }
    }

    /// Closes maps that an earlier host of this driver left without a record, and that nothing uses. They lie on images of its pools or on devices that
    /// were granted to it: another host of this machine may have a driver of the same name.
    pub(crate) fn close_stale_maps(&self, driver: &DriverName) {
        for map in map::of_driver(driver) {
            let closed = self.close_if_stale(driver, &map);
            if let Err(error) = closed {
                tracing::warn!(%driver, map = %map.name, %error, "a stale map of an encrypted volume stays; `dmsetup remove` on the node closes it");
            }
        }
    }

    fn close_if_stale(&self, driver: &DriverName, map: &Map) -> Result<(), MountError> {
        let _alone = alone(&map.name)?;
        // A record is written before a map is opened, so it is there by now if there ever will be one.
        let entries = self.journal.of_driver(driver);
        let is_recorded = entries.iter().any(|it| MapName::of(&it.key) == map.name);
        let Some(storage) = map.storage.filter(|_| !is_recorded) else {
            return Ok(());
        };
        if mountinfo::is_shown(map.number)? || !self.may_hold_volume(driver, storage)? {
            return Ok(());
        }
        tracing::info!(%driver, map = %map.name, "a stale map of an encrypted volume is closed");
        close(map)
    }
}

/// Closes a map that nobody uses. What was written to it is written out before. The program reads nothing of the storage, which may not answer.
fn close(map: &Map) -> Result<(), MountError> {
    let in_use = |by: &str| Err(MountError::in_use(format!("the map {}", map.name), by));
    if mountinfo::is_shown(map.number)? {
        return in_use(
            "a mount shows it (`grep` of its number in /proc/self/mountinfo); unmount that first",
        );
    }
    if let Err(error) = map.flush() {
        tracing::warn!(map = %map.name, %error, "a map that is closed cannot be flushed");
    }
    let removal = map.removal();
    // A program such as udev may look at it for a moment.
    let removed = retry(|| {
        let output = removal.run()?;
        match map.is_there() {
            false => Ok(Some(())),
            true if cryptsetup::is_busy(&output) => Ok(None),
            true => Err(removal.failed(&output)),
        }
    })?;
    match removed {
        Some(()) => Ok(()),
        None => in_use(
            "a process has it open, or a mount of another mount namespace (`dmsetup info` and `fuser -v` on the node show which)",
        ),
    }
}

/// Makes a new map read as blank where a file system could be: what a device has behind a new header reads as random bytes.
fn blank(map: &BlockDevice) -> Result<(), MountError> {
    let failed = |operation| move |error| io(operation, map, &error);
    let file = File::from(map.file.try_clone().map_err(failed("open"))?);
    for (offset, length) in blank_places(map.size_bytes()?) {
        file.write_all_at(&vec![0; length], offset)
            .map_err(failed("write"))?;
    }
    file.sync_all().map_err(failed("fsync"))
}

fn alone(name: &MapName) -> Result<Claim<'static, MapName>, MountError> {
    let claimed = retry(|| Ok::<_, MountError>(CHANGING.claim(name.clone())))?;
    claimed.ok_or_else(|| MountError::under_way(format!("another change of the map {name}")))
}
