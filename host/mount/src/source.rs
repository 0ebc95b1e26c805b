//! Prepares the source of a volume: a complete, detached mount with all its flags, which is not visible until it is attached, or a raw block device.
//! Calls receive a [`Prepared`] and attach it.

pub(crate) mod files;
pub(crate) mod filesystem;
pub(crate) mod image;

use crate::block::loop_device::{self, Tag};
use crate::block::{BlockDevice, BlockRecord, DeviceNumber, node_device};
use crate::confine::open_confined;
use crate::encryption::{self, Encryption};
use crate::executor::{PreparedMount, clone_mount, dress};
use crate::failure::kernel;
use crate::format::Formatting;
use crate::fs_context::FsContext;
use crate::fs_type::{BlockFilesystem, StorageAccess};
use crate::group;
use crate::journal::{Progress, recorded_plan};
use crate::mountinfo::{self, MountLine};
use crate::node::{Node, describe_volume};
use crate::observe::{Identity, SeenMount, identity, mount_id};
use crate::plan::attach::Attachment;
use crate::plan::device::CheckedDevice;
use crate::plan::filesystem::same;
use crate::plan::options::MountFlags;
use crate::plan::{CheckedPlan, CheckedSource, Form, PoolPlace};
use crate::pool::refuse_leaving;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::plan::Source;
use wasmount_core::secrets::SecretOptions;

/// The input of a preparation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Preparation<'a> {
    pub(crate) node: &'a Node,
    pub(crate) key: &'a VolumeKey,
    /// The source as recorded.
    pub(crate) source: &'a Source,
    pub(crate) secret_options: &'a SecretOptions,
    /// The tag of a loop device that is attached here.
    pub(crate) tag: &'a Tag,
}

/// A prepared source. If it is dropped before it is attached, nothing remains; the same holds if the host is killed.
#[derive(Debug)]
pub(crate) enum Prepared {
    Mount(PreparedMount),
    /// The device of a raw block volume.
    Device(BlockDevice),
}

impl Preparation<'_> {
    /// Prepares the source of a plan.
    #[tracing::instrument(level = "debug", skip_all, name = "prepare source")]
    pub(crate) fn prepare(&self, plan: &CheckedPlan) -> Result<Prepared, MountError> {
        let flags = plan.flags;
        let prepared = match &plan.source {
            CheckedSource::Image(image, Form::Raw) => {
                let device = self.raw_image(plan, image)?;
                return self.raw(plan, device);
            }
            CheckedSource::Device(device, Form::Raw) => {
                let device = self.node_device(device, flags.is_read_only())?;
                return self.raw(plan, device);
            }
            CheckedSource::Directory(tree) => {
                let mount = directory(tree, flags)?;
                self.apply_group(plan, &mount)?;
                PreparedMount::of(mount)?
            }
            CheckedSource::Files(files) => {
                PreparedMount::of(files::prepare(files, flags, plan.group)?)?
            }
            CheckedSource::Filesystem(filesystem) => PreparedMount {
                filesystem: Some(Box::new(filesystem.clone())),
                ..PreparedMount::of(filesystem::prepare(filesystem, flags, self.secret_options)?)?
            },
            CheckedSource::Tmpfs(options) => {
                self.once(plan, || PreparedMount::of(new_tmpfs(options, flags)?))?
            }
            CheckedSource::Image(image, Form::Filesystem(filesystem)) => self.once(plan, || {
                // For a file system that users only read, the kernel may have to replay the journal.
                let is_read_only = plan.access == StorageAccess::Untouched;
                let device = image::attach(image, is_read_only, self.tag)?;
                self.formatted(plan, device, filesystem)
            })?,
            CheckedSource::Device(device, Form::Filesystem(filesystem)) => {
                self.once(plan, || {
                    let device = self.node_device(device, flags.is_read_only())?;
                    self.formatted(plan, device, filesystem)
                })?
            }
        };
        Ok(Prepared::Mount(prepared))
    }

    /// A raw block volume of a device.
    pub(crate) fn raw(
        &self,
        plan: &CheckedPlan,
        device: BlockDevice,
    ) -> Result<Prepared, MountError> {
        let device = self.decrypted(plan, device, plan.flags.is_read_only())?;
        Ok(Prepared::Device(device))
    }

    /// What the volume shows of its device.
    fn decrypted(
        &self,
        plan: &CheckedPlan,
        device: BlockDevice,
        read_only: bool,
    ) -> Result<BlockDevice, MountError> {
        if !plan.is_encrypted {
            return Ok(device);
        }
        let encryption = Encryption {
            node: self.node,
            key: self.key,
            source: self.source,
            secrets: self.secret_options,
            access: plan.access,
            read_only,
        };
        encryption.open(&device)
    }

    /// Clones the mount at another path of the volume if there is one; otherwise makes a new mount. One volume is one file system, however often it
    /// is published.
    fn once(
        &self,
        plan: &CheckedPlan,
        make: impl FnOnce() -> Result<PreparedMount, MountError>,
    ) -> Result<PreparedMount, MountError> {
        let entry = self.node.journal.entry(self.key);
        for (path, identity, block, shown) in entry.settled_mounts() {
            if recorded_plan(shown).source != *self.source {
                continue;
            }
            if let Some(live) = self.node.mounted(path, identity)? {
                let what = describe_volume(self.key);
                let mount = clone_mount(&live.root, &what)?;
                dress(&mount, plan.flags.exactly(), &what)?;
                self.apply_group(plan, &mount)?;
                return Ok(PreparedMount {
                    block,
                    ..PreparedMount::of(mount)?
                });
            }
        }
        make()
    }

    fn formatted(
        &self,
        plan: &CheckedPlan,
        device: BlockDevice,
        filesystem: &BlockFilesystem,
    ) -> Result<PreparedMount, MountError> {
        // For a file system that users only read, the kernel may have to replay the journal.
        let device = self.decrypted(plan, device, plan.access == StorageAccess::Untouched)?;
        let formatting = Formatting {
            durable: &self.node.durable,
            key: self.key,
            source: self.source,
        };
        let mount = formatting.mount(&device, filesystem, plan.access, plan.flags)?;
        self.apply_group(plan, &mount)?;
        Ok(PreparedMount {
            block: Some(device.record()),
            device: Some(device),
            ..PreparedMount::of(mount)?
        })
    }

    fn apply_group(&self, plan: &CheckedPlan, mount: &OwnedFd) -> Result<(), MountError> {
        match plan.group {
            Some(group) => group::apply(mount, group, plan.flags.is_read_only()),
            None => Ok(()),
        }
    }

    /// The device that another target of the volume shows, if it matches. For read-only access, a second device that refuses writes.
    fn raw_image(&self, plan: &CheckedPlan, image: &PoolPlace) -> Result<BlockDevice, MountError> {
        let is_read_only = plan.flags.is_read_only();
        let entry = self.node.journal.entry(self.key);
        let mut live = None;
        for target in entry.targets.values() {
            let is_same =
                target.progress == Progress::Settled && target.plan.source == *self.source;
            // A read-only target of an encrypted volume may have a loop device on the map.
            let is_storage =
                |block: &BlockRecord| !plan.is_encrypted || encryption::is_open(self.key, block);
            if let Some(block) = target.raw().filter(|block| is_same && is_storage(block))
                && let Some(device) = loop_device::open(&block)?
            {
                // A map is made of one device only.
                if device.is_read_only == is_read_only || plan.is_encrypted {
                    return Ok(device);
                }
                live = Some(device);
            }
        }
        match live {
            Some(_) if is_read_only => image::attach_read_only(image, self.tag),
            _ => image::attach(image, is_read_only, self.tag),
        }
    }

    /// Opens the device, unless another volume uses it: this host keeps no descriptor of a raw block device open.
    fn node_device(
        &self,
        device: &CheckedDevice,
        is_read_only: bool,
    ) -> Result<BlockDevice, MountError> {
        if let Some(attachment) = Attachment::of(self.source)? {
            self.node
                .attach(self.key, &attachment, self.secret_options)?;
        }
        let device = node_device::open(device, is_read_only)?;
        self.node.ensure_device_unclaimed(self.key, &device)?;
        Ok(device)
    }
}

impl PreparedMount {
    /// A raw block device for targets only. For read-only access it refuses writes itself, since a read-only mount of a device's node does not.
    pub(crate) fn showing(
        device: BlockDevice,
        source: &CheckedSource,
        flags: MountFlags,
        tag: &Tag,
    ) -> Result<Self, MountError> {
        let shown = if !flags.is_read_only() || device.is_read_only {
            device
        } else if let (CheckedSource::Image(image, _), true) = (source, device.is_loop()) {
            image::attach_read_only(image, tag)?
        } else {
            loop_device::attach(&device.file, true, tag)?
        };
        let mount = Self::of_device(&shown, flags)?;
        Ok(Self {
            block: Some(shown.record()),
            device: Some(shown),
            ..mount
        })
    }
}

/// A tree of a pool as a mount: a clone of this directory only, without submounts. It is opened without following links and without crossing a mount:
/// a plugin names paths in its pool, and no change in the pool may redirect the mount.
pub(crate) fn directory(tree: &PoolPlace, flags: MountFlags) -> Result<OwnedFd, MountError> {
    let pool = open_pool(tree)?;
    refuse_leaving(&pool, tree)?;
    let mount = clone_mount(open_directory(&pool, tree)?, &tree.to_string())?;
    dress(&mount, flags, &tree.to_string())?;
    Ok(mount)
}

/// The identity of the directory of a tree.
fn directory_identity(tree: &PoolPlace) -> Result<Identity, MountError> {
    identity(open_directory(&open_pool(tree)?, tree)?, tree)
}

fn open_directory(pool: &OwnedFd, tree: &PoolPlace) -> Result<OwnedFd, MountError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    open_confined(pool, tree.path.as_str(), flags).map_err(|errno| tree.failed("open", errno))
}

/// An empty tmpfs as a mount.
fn new_tmpfs(options: &[(String, String)], flags: MountFlags) -> Result<OwnedFd, MountError> {
    let what = "step `tmpfs`";
    let context = FsContext::open("tmpfs", what)?;
    context.set("source", "tmpfs")?;
    for (name, value) in options {
        context.set(name, value)?;
    }
    context
        .create(false)
        .map_err(|errno| kernel("fsconfig create", what, errno))?;
    context.mount(flags)
}

/// Whether an unrecorded mount shows exactly this source. If that cannot be determined, the answer is no.
pub(crate) fn is_shown(source: &CheckedSource, mount: &SeenMount) -> Result<bool, MountError> {
    match source {
        CheckedSource::Directory(tree) => Ok(directory_identity(tree)? == mount.identity),
        CheckedSource::Image(image, Form::Filesystem(_)) => {
            let backing = block_below(mount)?.and_then(|block| block.backing);
            Ok(backing == Some(image::identity(image)?))
        }
        CheckedSource::Device(device, Form::Filesystem(_)) => {
            let below = device_below(mount)?;
            Ok(below.is_some() && below == node_device::find(device)?)
        }
        CheckedSource::Filesystem(filesystem) => {
            let shows = |line: MountLine| same(filesystem, &line.fs_type, &line.source);
            Ok(line(mount)?.is_some_and(shows))
        }
        // Each of these is new.
        CheckedSource::Tmpfs(_) | CheckedSource::Files(_) => Ok(false),
        // For a raw block volume nothing is mounted at its staging path, and a published device is identified by its number.
        CheckedSource::Image(..) | CheckedSource::Device(..) => Ok(false),
    }
}

/// The directory of a pool, for opening what lies in it.
fn open_pool(place: &PoolPlace) -> Result<OwnedFd, MountError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(&place.directory, flags, Mode::empty())
        .map_err(|errno| kernel("open", format!("pool `{}`", place.pool), errno))
}

/// The block device below a mount, for a record.
pub(crate) fn block_below(mount: &SeenMount) -> Result<Option<BlockRecord>, MountError> {
    let Some(number) = device_below(mount)? else {
        return Ok(None);
    };
    let backing = loop_device::status(number)?.map(|attached| attached.backing);
    Ok(Some(BlockRecord { number, backing }))
}

/// The number of the block device below a mount, from the mount table: a btrfs has a device number of its own. Below a map it is the device that is
/// encrypted.
fn device_below(mount: &SeenMount) -> Result<Option<DeviceNumber>, MountError> {
    let device = line(mount)?.and_then(|line| line.block_device());
    Ok(device.map(encryption::storage_of))
}

fn line(mount: &SeenMount) -> Result<Option<MountLine>, MountError> {
    let mount_id = mount_id(&mount.root).map_err(|errno| kernel("statx", "a mount", errno))?;
    mountinfo::of_mount(mount_id)
}
