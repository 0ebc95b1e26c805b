//! A plan and a request against the administrator's grants. What comes out is a type of its own, and the only thing that is executed.
//!
//! It is apart because it is pure: it opens nothing, so what is allowed can be read and tested without a kernel. One file below for each
//! step that has rules of its own. It must not know mounts that exist.

mod allowed;
pub(crate) mod device;
pub(crate) mod files;
pub(crate) mod filesystem;
pub(crate) mod label;
pub(crate) mod options;
pub(crate) mod own_options;
pub(crate) mod tmpfs;

use crate::confine::PoolPath;
use crate::failure::{kernel, shown};
use crate::fs_type::{BlockFilesystem, FsType, StorageAccess};
use allowed::{block_options, directory_options, files_options};
use device::CheckedDevice;
use files::CheckedFiles;
use filesystem::{CheckedFilesystem, FilesystemStep};
use label::{Label, is_label};
use options::{Allowed, CheckedOptions, MountFlags, Refused, Words};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use tmpfs::CheckedTmpfs;
use wasmount_core::document::{Grants, PoolGrant};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

/// Longest name of a file system type, in bytes. The kernel's longest are half of it.
const FS_TYPE_BYTES: usize = 32;
/// Made on a blank device where neither request nor plan names a type: kubelet's own default (mount-utils, `SafeFormatAndMount`).
const DEFAULT_FS_TYPE: FsType = FsType::Ext4;

/// What is to be mounted, granted and well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedPlan {
    pub(crate) source: CheckedSource,
    pub(crate) flags: MountFlags,
    /// What may happen to the storage, whatever the mount's flags are.
    pub(crate) access: StorageAccess,
    /// Group that must be able to use the volume (CSI VOLUME_MOUNT_GROUP).
    pub(crate) group: Option<u32>,
}

/// What the volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckedSource {
    Directory(PoolPlace),
    Image(PoolPlace, Form),
    Device(CheckedDevice, Form),
    Filesystem(CheckedFilesystem),
    Tmpfs(CheckedTmpfs),
    Files(CheckedFiles),
}

/// How a block device is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the device that it is.
    Raw,
    /// By the file system on it.
    Filesystem(BlockFilesystem),
}

/// A tree or an image of a granted pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolPlace {
    /// The pool's name.
    pub(crate) pool: String,
    /// Where the pool lies; the administrator's word.
    pub(crate) directory: PathBuf,
    /// Below the pool; the plugin's word.
    pub(crate) path: PoolPath,
}

/// How the client wants the volume: checked words of its capability.
#[derive(Debug, Clone, Copy)]
enum Wanted<'c> {
    Block,
    Mount(&'c MountAccess),
}

/// Whether a host with these grants would carry out a plan, for whoever only wants to know: the same check with the same words, and nothing is
/// opened. A device may be refused later, when it is found and no grant covers it.
pub fn judge(
    plan: &Plan,
    capability: &VolumeCapability,
    readonly: bool,
    grants: &Grants,
) -> Result<(), MountError> {
    check(plan, capability, readonly, grants).map(drop)
}

/// Checks a plan for a request with this capability. `readonly` is the request's, beside that of the capability.
pub(crate) fn check(
    plan: &Plan,
    capability: &VolumeCapability,
    readonly: bool,
    grants: &Grants,
) -> Result<CheckedPlan, MountError> {
    let step = plan.source.step();
    let wanted = wanted(capability)?;
    let (source, flags) = match &plan.source {
        Source::Directory { pool, path } => {
            let grant = granted_pool(step, grants, pool)?;
            let words = words(plan, wanted.file_system(step)?)?;
            let checked = checked_options(step, &words, &directory_options(grant))?;
            let place = pool_place(step, pool, path, grant)?;
            (CheckedSource::Directory(place), checked.flags)
        }
        Source::Image { pool, path } => {
            let grant = granted_pool(step, grants, pool)?;
            let place = pool_place(step, pool, path, grant)?;
            let (form, flags) = form(plan, wanted, &grant.mount_options, grants)?;
            (CheckedSource::Image(place, form), flags)
        }
        Source::Device { facts, wait_ms } => {
            let device = device::check(facts, *wait_ms, grants)?;
            let (device, (form, flags)) =
                device.with_options(|granted| form(plan, wanted, granted, grants))?;
            (CheckedSource::Device(device, form), flags)
        }
        Source::Filesystem {
            fs_type,
            source,
            options,
            secret_options,
        } => {
            let access = wanted.file_system(step)?;
            let step = FilesystemStep {
                fs_type,
                source,
                options,
                secret_options,
            };
            let group = access.volume_mount_group.as_deref();
            let (filesystem, flags) =
                filesystem::check(&step, words(plan, access)?, group, grants)?;
            (CheckedSource::Filesystem(filesystem), flags)
        }
        Source::Tmpfs { size_bytes } => {
            let access = wanted.file_system(step)?;
            let group = access.volume_mount_group.as_deref();
            let (tmpfs, flags) = tmpfs::check(*size_bytes, &words(plan, access)?, group, grants)?;
            (CheckedSource::Tmpfs(tmpfs), flags)
        }
        Source::Files { files } => {
            let words = words(plan, wanted.file_system(step)?)?;
            let checked = checked_options(step, &words, &files_options(grants))?;
            let files = files::check(files)?.with_options(checked.own);
            (CheckedSource::Files(files), checked.flags)
        }
    };
    let access = storage_access(capability, readonly);
    Ok(CheckedPlan {
        source,
        flags: flags.read_only(access != StorageAccess::ReadWrite),
        access,
        group: wanted.group()?,
    })
}

impl PoolPlace {
    /// The error of a system call on the place; what lies there may say that it cannot be taken.
    pub(crate) fn failed(&self, operation: &str, errno: Errno) -> MountError {
        match errno {
            Errno::NOENT => MountError::NotFound {
                what: self.to_string(),
            },
            Errno::NOTDIR => self.refuse("it is not a directory, or leads through a file"),
            Errno::LOOP => self.refuse("it leads through a symbolic link"),
            Errno::XDEV => self.refuse("it leads into another mount"),
            Errno::ISDIR | Errno::NXIO => self.refuse("it is not an image"),
            errno => kernel(operation, self, errno),
        }
    }

    pub(crate) fn refuse(&self, reason: &str) -> MountError {
        MountError::Invalid {
            what: self.to_string(),
            reason: reason.to_owned(),
            blame: Blame::Of(Owner::Content),
        }
    }
}

impl fmt::Display for PoolPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of pool `{}`", self.path, self.pool)
    }
}

impl<'c> Wanted<'c> {
    fn file_system(self, step: &str) -> Result<&'c MountAccess, MountError> {
        match self {
            Wanted::Mount(access) => Ok(access),
            Wanted::Block => Err(MountError::Invalid {
                what: "volume_capability".to_owned(),
                reason: format!("a volume of step `{step}` is a file system, not a block device"),
                blame: Blame::Of(Owner::Request),
            }),
        }
    }

    fn group(self) -> Result<Option<u32>, MountError> {
        match self {
            Wanted::Mount(access) => access
                .volume_mount_group
                .as_deref()
                .map(crate::group::group_number)
                .transpose(),
            Wanted::Block => Ok(None),
        }
    }
}

fn wanted(capability: &VolumeCapability) -> Result<Wanted<'_>, MountError> {
    if let AccessMode::Other(number) = capability.access_mode {
        return Err(MountError::Unsupported {
            what: format!("access mode {number}"),
            reason: "this host does not know it".to_owned(),
        });
    }
    match &capability.access_type {
        AccessType::Mount(access) => Ok(Wanted::Mount(access)),
        AccessType::Block => Ok(Wanted::Block),
        AccessType::Other(number) => Err(MountError::Unsupported {
            what: format!("access type {number}"),
            reason: "this host does not know it".to_owned(),
        }),
    }
}

fn storage_access(capability: &VolumeCapability, readonly: bool) -> StorageAccess {
    match capability.access_mode {
        AccessMode::MultiNodeReaderOnly => StorageAccess::Untouched,
        AccessMode::SingleNodeReaderOnly => StorageAccess::ReadOnly,
        _ if readonly => StorageAccess::ReadOnly,
        _ => StorageAccess::ReadWrite,
    }
}

/// The mount options of plan and request. Trees, tmpfs and network file systems bring their own type, so one that the request names is not
/// obeyed (storage classes name one out of habit); it must be a type's name all the same.
fn words<'w>(plan: &'w Plan, access: &'w MountAccess) -> Result<Words<'w>, MountError> {
    for fs_type in [&access.fs_type, &plan.default_fs_type]
        .into_iter()
        .flatten()
    {
        check_fs_type(fs_type)?;
    }
    let label = Label::of_flags(&access.mount_flags).map_err(|rule| MountError::Invalid {
        what: "mount option `context`".to_owned(),
        reason: format!("it {rule}"),
        blame: Blame::Of(Owner::Request),
    })?;
    let asked = access.mount_flags.iter().filter(|flag| !is_label(flag));
    let options = plan.mount_options.iter().chain(asked);
    Ok(Words {
        options: options.map(String::as_str).collect(),
        label,
    })
}

/// A block device for a client: raw, or with which file system and options.
fn form(
    plan: &Plan,
    wanted: Wanted<'_>,
    granted: &[String],
    grants: &Grants,
) -> Result<(Form, MountFlags), MountError> {
    let access = match wanted {
        // What a plan says of file systems has no meaning then: a plugin need not know what the client asked for. That nobody writes has.
        Wanted::Block => {
            let is_read_only = plan.mount_options.iter().any(|option| option == "ro");
            return Ok((Form::Raw, MountFlags::of_device().read_only(is_read_only)));
        }
        Wanted::Mount(access) => access,
    };
    let step = plan.source.step();
    let words = words(plan, access)?;
    let named = access.fs_type.as_deref();
    let (wanted, is_named) = match named.or(plan.default_fs_type.as_deref()) {
        Some(name) => (block_fs_type(name)?, named.is_some()),
        None => (DEFAULT_FS_TYPE, false),
    };
    let of_type = |fs_type: FsType| {
        let allowed = block_options(fs_type, granted, grants);
        checked_options(step, &words, &allowed)
    };
    let CheckedOptions { flags, own } = of_type(wanted)?;
    // A device that has another type already keeps it, if the options are good for that type as well.
    let others = FsType::ALL.into_iter().filter(|it| *it != wanted);
    let mut options: BTreeMap<_, _> = others
        .filter_map(|other| Some((other, of_type(other).ok()?.own)))
        .collect();
    options.insert(wanted, own);
    let filesystem = BlockFilesystem {
        wanted,
        is_named,
        options,
    };
    Ok((Form::Filesystem(filesystem), flags))
}

fn check_fs_type(fs_type: &str) -> Result<(), MountError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if fs_type.len() <= FS_TYPE_BYTES && !fs_type.is_empty() && fs_type.chars().all(allowed) {
        return Ok(());
    }
    Err(MountError::Invalid {
        what: "fs_type".to_owned(),
        reason: "it is not the name of a file system type".to_owned(),
        blame: Blame::word(fs_type),
    })
}

fn block_fs_type(name: &str) -> Result<FsType, MountError> {
    FsType::parse(name).ok_or_else(|| {
        let names = FsType::ALL.map(FsType::name).join(", ");
        MountError::Invalid {
            what: "fs_type".to_owned(),
            reason: format!("`{name}` is not made by this host; it makes {names}"),
            blame: Blame::word(name),
        }
    })
}

fn granted_pool<'g>(
    step: &str,
    grants: &'g Grants,
    pool: &str,
) -> Result<&'g PoolGrant, MountError> {
    grants
        .pools
        .get(pool)
        .ok_or_else(|| MountError::NotGranted {
            step: step.to_owned(),
            reason: format!(
                "pool `{}` is not in `grants.pools` of the backend document",
                shown(pool)
            ),
            blame: Blame::word(pool),
        })
}

fn pool_place(
    step: &str,
    pool: &str,
    path: &str,
    grant: &PoolGrant,
) -> Result<PoolPlace, MountError> {
    let path = PoolPath::parse(path).map_err(|fault| MountError::Invalid {
        what: format!("path of step `{step}`"),
        reason: fault.to_string(),
        blame: Blame::word(path),
    })?;
    Ok(PoolPlace {
        pool: pool.to_owned(),
        directory: grant.path.clone(),
        path,
    })
}

fn checked_options(
    step: &str,
    words: &Words<'_>,
    allowed: &Allowed<'_>,
) -> Result<CheckedOptions, MountError> {
    options::check(words, allowed).map_err(|(refused, blame)| match refused {
        Refused::Malformed(reason) => MountError::Invalid {
            what: format!("mount options of step `{step}`"),
            reason,
            blame,
        },
        Refused::NotGranted(reason) => MountError::NotGranted {
            step: step.to_owned(),
            reason,
            blame,
        },
    })
}

#[cfg(test)]
mod tests;
