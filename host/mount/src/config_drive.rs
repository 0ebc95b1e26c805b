//! The config drive of OpenStack: a small device whose file system has the label `config-2`, and on which Nova tells an instance about itself.
//!
//! A pod writes the content of its volumes, and could give one this label. So a device that could be a volume is not considered, two devices with the
//! label are refused, and the drive is mounted for the time of one read: at no path, read-only, without devices, programs and links.

use crate::block::node_device::hardware::{Hardware, HardwareDevice};
use crate::block::{BlockDevice, DeviceNumber};
use crate::confine::{open_confined, small_file};
use crate::failure::kernel;
use crate::format::{Label, label};
use crate::fs_context::FsContext;
use crate::node::Node;
use crate::observe::identity;
use crate::plan::device::is_covered;
use crate::plan::options::MountFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::{Instance, META_DATA_BYTES, META_DATA_PATH, NodeFact};

/// The label of the drive's file system (Nova's documentation, "Config drives"). FAT may have it in capital letters.
const LABEL: &str = "config-2";
/// The file systems that Nova makes, as kernel and `blkid` name them.
const TYPES: [&str; 2] = ["iso9660", "vfat"];
/// The drive is smaller, in bytes: 64 MiB with vfat, less with ISO 9660. The smallest volume of Cinder has this size.
const SIZE_LIMIT: u64 = 1 << 30;
/// What is not considered, for messages.
const LEFT_OUT: &str = "volumes and what `grants.devices` covers, devices of 1 GiB and more, partitions, loop devices and volume managers are left out";

impl Node {
    /// What the config drive says of this node.
    pub(crate) fn config_drive(&self, driver: &DriverName) -> Result<Instance, MountError> {
        let granted = self.grants_of(driver).facts();
        if !granted.into_iter().any(NodeFact::is_of_instance) {
            let reason = format!(
                "the mounter's document of driver {driver} has neither `instance-id` nor `zone` in `grants.nodeFacts`; add what the plugin reads"
            );
            let blame = Blame::Of(Owner::Administrator);
            return Err(MountError::not_granted("node-facts", reason, blame));
        }
        let (drive, fs_type) = self.find()?;
        instance_of(&drive, &mount(&drive, &fs_type)?)
    }

    /// The drive, without another user, and the type of its file system.
    fn find(&self) -> Result<(BlockDevice, String), MountError> {
        let hardware = Hardware::default();
        let mut considered = hardware.smaller_than(SIZE_LIMIT);
        considered.retain(|device| !self.may_be_volume(&hardware, device));
        let mut labelled = Vec::new();
        for device in &considered {
            match read_label(&hardware, device) {
                Ok(Some(label)) if is_label(&label) => labelled.push((device, label.fs_type)),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%device, %error, "a device is no config drive, since it cannot be read")
                }
            }
        }
        let (device, fs_type) = the_only(&labelled, &considered)?;
        let drive = hardware.open_unused(device)?;
        let drive = drive.ok_or_else(|| kernel("open", device, Errno::NODEV))?;
        Ok((drive, fs_type.clone()))
    }

    /// Whether a driver of this host has, had or may have a volume on a device.
    fn may_be_volume(&self, hardware: &Hardware, device: &HardwareDevice) -> bool {
        let facts = hardware.facts(device);
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        let mut grants = grants.values();
        grants.any(|grants| is_covered(&grants.devices, &facts))
            || !self
                .journal
                .entries(|entry| entry.blocks().any(|block| block.number == device.number))
                .is_empty()
    }
}

fn read_label(hardware: &Hardware, device: &HardwareDevice) -> Result<Option<Label>, MountError> {
    match hardware.open(device)? {
        Some(opened) => label(&opened),
        None => Ok(None),
    }
}

fn is_label(label: &Label) -> bool {
    TYPES.contains(&label.fs_type.as_str()) && label.label.eq_ignore_ascii_case(LABEL)
}

/// The only device with the label. Of two, one may be the volume of a pod.
fn the_only<'d, T: std::fmt::Display, L>(
    labelled: &'d [(&'d T, L)],
    considered: &[T],
) -> Result<(&'d T, &'d L), MountError> {
    match labelled {
        [(device, label)] => Ok((*device, label)),
        [] => {
            let names: Vec<_> = considered.iter().map(T::to_string).collect();
            let among = match names.is_empty() {
                true => "no device".to_owned(),
                false => names.join(", "),
            };
            Err(MountError::not_found(format!(
                "a config drive, with the label `{LABEL}` (considered: {among}; {LEFT_OUT})"
            )))
        }
        several => {
            let names: Vec<_> = several
                .iter()
                .map(|(device, _)| device.to_string())
                .collect();
            Err(MountError::unusable(
                format!("a config drive, with the label `{LABEL}`,"),
                format!(
                    "{} have it, and the one that is no drive of this cloud could be a forgery; detach it",
                    names.join(" and ")
                ),
            ))
        }
    }
}

/// Mounts the drive at no path: it is unmounted when the descriptor is closed.
fn mount(drive: &BlockDevice, fs_type: &str) -> Result<OwnedFd, MountError> {
    let what = describe(drive);
    let source = drive.path.to_str();
    let source = source.ok_or_else(|| unusable(drive, "its path is not text"))?;
    let context = FsContext::open(fs_type, what.clone())?;
    context.set("source", source)?;
    context.set("ro", "")?;
    context
        .create(true)
        .map_err(|errno| kernel("mount", what, errno))?;
    let root = context.mount(MountFlags {
        set: MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        clear: MountAttrFlags::empty(),
    })?;
    let shown = identity(&root, describe(drive))?;
    match DeviceNumber::of_file_system(shown) == drive.number {
        true => Ok(root),
        false => Err(unusable(
            drive,
            "another device was mounted in its place; something changes `/dev` during calls",
        )),
    }
}

fn instance_of(drive: &BlockDevice, root: &OwnedFd) -> Result<Instance, MountError> {
    let what = || format!("{META_DATA_PATH} of {}", describe(drive));
    let file = open_confined(root, META_DATA_PATH, OFlags::RDONLY | OFlags::NONBLOCK)
        .map_err(|errno| kernel("open", what(), errno))?;
    let content = small_file(file, META_DATA_BYTES, what)?.ok_or_else(|| {
        let reason =
            format!("its {META_DATA_PATH} is no file, or larger than {META_DATA_BYTES} bytes");
        unusable(drive, reason)
    })?;
    Instance::of_meta_data(&content)
        .map_err(|invalid| unusable(drive, format!("its {META_DATA_PATH}: {invalid}")))
}

fn unusable(drive: &BlockDevice, reason: impl std::fmt::Display) -> MountError {
    let reason = format!("{reason}; have Nova make a new one, or serve the metadata service");
    MountError::unusable(describe(drive), reason)
}

fn describe(drive: &BlockDevice) -> String {
    format!("config drive {}", drive.path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(labelled: &[&str]) -> Result<String, String> {
        let considered = ["/dev/vda", "/dev/sr0", "/dev/sr1"];
        let labelled: Vec<_> = labelled.iter().map(|name| (name, "iso9660")).collect();
        match the_only(&labelled, &considered) {
            Ok((device, _)) => Ok((*device).to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_only_device_with_the_label_is_the_drive() {
        assert_eq!(chosen(&["/dev/sr0"]), Ok("/dev/sr0".to_owned()));
        let missing = chosen(&[]).unwrap_err();
        assert!(
            missing.contains("(considered: /dev/vda, /dev/sr0, /dev/sr1; volumes and "),
            "{missing}"
        );
        let two = chosen(&["/dev/sr0", "/dev/sr1"]).unwrap_err();
        assert!(two.contains("/dev/sr0 and /dev/sr1 have it"), "{two}");
    }

    #[test]
    fn a_drive_has_the_label_on_a_file_system_of_nova() {
        for (label, fs_type, is_drive) in [
            ("config-2", "iso9660", true),
            ("CONFIG-2", "vfat", true),
            ("config-2", "ext4", false),
            ("config-2\\ ", "vfat", false),
            ("config-20", "vfat", false),
        ] {
            let label = Label {
                label: label.to_owned(),
                fs_type: fs_type.to_owned(),
            };
            assert_eq!(is_label(&label), is_drive, "{label:?}");
        }
    }
}
