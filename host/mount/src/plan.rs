//! Checks a plan and a request against the administrator's grants. The result is a separate type, and the only input that is executed.
//!
//! The check is pure: it opens nothing, so the rules can be read and tested without a kernel.

pub(crate) mod attach;
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
use crate::group::group_number;
use device::CheckedDevice;
use files::CheckedFiles;
use filesystem::{CheckedFilesystem, FilesystemStep};
use label::{Label, is_label};
use options::{Allowed, CheckedOptions, MountFlags, RequestedOptions};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::slice;
use wasmount_core::document::Grants;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

/// Longest name of a file system type, in bytes. The kernel's longest names have half of it.
const FS_TYPE_BYTES: usize = 32;
/// The type made on a blank device if neither request nor plan names one: kubelet's own default (mount-utils, `SafeFormatAndMount`).
const DEFAULT_FS_TYPE: FsType = FsType::Ext4;

/// A well-formed and granted plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedPlan {
    pub(crate) source: CheckedSource,
    pub(crate) flags: MountFlags,
    /// What the host may do with the storage, whatever the flags of the mount are.
    pub(crate) access: StorageAccess,
    /// Group that must be able to use the volume (CSI VOLUME_MOUNT_GROUP).
    pub(crate) group: Option<u32>,
    /// What the volume shows is the map of its device.
    pub(crate) is_encrypted: bool,
}

/// What the volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckedSource {
    Directory(PoolPlace),
    Image(PoolPlace, Form),
    Device(CheckedDevice, Form),
    Filesystem(CheckedFilesystem),
    /// With these options, as names and values.
    Tmpfs(Vec<(String, String)>),
    Files(CheckedFiles),
}

/// How a block device is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a raw block device.
    Raw,
    /// As the file system on it.
    Filesystem(BlockFilesystem),
}

/// A tree or an image of a granted pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolPlace {
    /// The pool's name.
    pub(crate) pool: String,
    /// The directory of the pool, from the administrator's configuration.
    pub(crate) directory: PathBuf,
    /// The path below the pool, from the plugin.
    pub(crate) path: PoolPath,
}

/// Whether a host with these grants would execute a plan, for callers that only want to know: the same check with the same messages, and nothing is
/// opened. A device may be refused later, when it is found and no grant covers it.
pub fn judge(
    plan: &Plan,
    capability: &VolumeCapability,
    readonly: bool,
    grants: &Grants,
) -> Result<(), MountError> {
    check(plan, capability, readonly, grants).map(drop)
}

/// Checks a plan for a request with this capability. `readonly` comes from the request, in addition to that of the capability.
pub(crate) fn check(
    plan: &Plan,
    capability: &VolumeCapability,
    readonly: bool,
    grants: &Grants,
) -> Result<CheckedPlan, MountError> {
    let step = plan.source.step();
    let mount = mount_access(capability)?;
    let group = mount.and_then(|access| access.volume_mount_group.as_deref());
    let group = group.map(group_number).transpose()?;
    let file_system = || {
        let reason = format!("a volume of step `{step}` is a file system, not a block device");
        let block = || MountError::invalid("volume_capability", reason, Blame::Of(Owner::Request));
        mount.ok_or_else(block)
    };
    let on_device = |device: CheckedDevice| -> Result<_, MountError> {
        let (device, (form, flags)) =
            device.with_options(|granted| form(plan, mount, granted, grants))?;
        Ok((CheckedSource::Device(device, form), flags))
    };
    let (source, flags) = match &plan.source {
        Source::Directory { pool, path } => {
            let (place, granted) = pool_place(step, grants, pool, path)?;
            // A tree lies on the file system of the pool, whose options cannot be chosen for the tree.
            let allowed = Allowed {
                step,
                granted,
                fs_type: None,
                labels: None,
            };
            let checked = allowed.check(&requested_options(plan, file_system()?)?)?;
            (CheckedSource::Directory(place), checked.flags)
        }
        Source::Image { pool, path } => {
            let (place, granted) = pool_place(step, grants, pool, path)?;
            let (form, flags) = form(plan, mount, granted, grants)?;
            (CheckedSource::Image(place, form), flags)
        }
        Source::Device { facts, wait_ms } => {
            let checked = device::check(step, slice::from_ref(facts), false, *wait_ms, grants)?;
            on_device(checked)?
        }
        Source::AnyDevice {
            alternatives,
            rescan,
            wait_ms,
        } => {
            let checked = device::check(step, alternatives.each(), *rescan, *wait_ms, grants)?;
            on_device(checked)?
        }
        Source::Iscsi(_) | Source::Nvme(_) | Source::Rbd(_) => {
            on_device(attach::check(&plan.source, grants)?)?
        }
        Source::Filesystem {
            fs_type,
            source,
            options,
            secret_options,
            backend_secret_options,
            sealed_options,
        } => {
            let secret_options =
                [&secret_options[..], backend_secret_options, sealed_options].concat();
            let step = FilesystemStep {
                fs_type,
                source,
                options,
                secret_options: &secret_options,
            };
            let requested = requested_options(plan, file_system()?)?;
            let (filesystem, flags) = filesystem::check(&step, requested, group, grants)?;
            (CheckedSource::Filesystem(filesystem), flags)
        }
        Source::Tmpfs { size_bytes } => {
            let requested = requested_options(plan, file_system()?)?;
            let (options, flags) = tmpfs::check(*size_bytes, &requested, group, grants)?;
            (CheckedSource::Tmpfs(options), flags)
        }
        Source::Files { files } => {
            // Files lie on their own file system, of which only the label can be chosen.
            let allowed = Allowed {
                step,
                granted: &[],
                fs_type: None,
                labels: Some(grants.selinux_mount),
            };
            let checked = allowed.check(&requested_options(plan, file_system()?)?)?;
            let files = files::check(files, checked.own)?;
            (CheckedSource::Files(files), checked.flags)
        }
    };
    if let CheckedSource::Device(_, Form::Filesystem(_)) = &source {
        device::ensure_on_one_node(capability)?;
    }
    let access = storage_access(capability, readonly);
    Ok(CheckedPlan {
        source,
        flags: flags.read_only(access != StorageAccess::ReadWrite),
        access,
        group,
        is_encrypted: plan.luks.is_some(),
    })
}

impl PoolPlace {
    /// The error of a system call on the place. An error number may mean that the path itself is not acceptable.
    pub(crate) fn failed(&self, operation: &str, errno: Errno) -> MountError {
        match errno {
            Errno::NOENT => MountError::not_found(self),
            Errno::NOTDIR => self.refuse("it is not a directory, or leads through a file"),
            Errno::LOOP => self.refuse("it leads through a symbolic link"),
            Errno::XDEV => self.refuse("it leads into another mount"),
            Errno::ISDIR | Errno::NXIO => self.refuse("it is not an image"),
            errno => kernel(operation, self, errno),
        }
    }

    pub(crate) fn refuse(&self, reason: &str) -> MountError {
        MountError::invalid(self, reason, Blame::Of(Owner::Content))
    }
}

impl fmt::Display for PoolPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of pool `{}`", self.path, self.pool)
    }
}

/// The file system that the client requests. `None`: a raw block device.
fn mount_access(capability: &VolumeCapability) -> Result<Option<&MountAccess>, MountError> {
    let unknown = |what: String| Err(MountError::unsupported(what, "this host does not know it"));
    if let AccessMode::Other(number) = capability.access_mode {
        return unknown(format!("access mode {number}"));
    }
    match &capability.access_type {
        AccessType::Mount(access) => Ok(Some(access)),
        AccessType::Block => Ok(None),
        AccessType::Other(number) => unknown(format!("access type {number}")),
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

/// The mount options of plan and request. Trees, tmpfs and network file systems have a fixed type, so the type in the request is ignored (storage
/// classes often name one without need). It must be a valid type name all the same.
fn requested_options<'w>(
    plan: &'w Plan,
    access: &'w MountAccess,
) -> Result<RequestedOptions<'w>, MountError> {
    for fs_type in [&access.fs_type, &plan.default_fs_type]
        .into_iter()
        .flatten()
    {
        check_fs_type(fs_type)?;
    }
    let label = Label::of_flags(&access.mount_flags).map_err(|rule| {
        let reason = format!("it {rule}");
        MountError::invalid("mount option `context`", reason, Blame::Of(Owner::Request))
    })?;
    let flags = access.mount_flags.iter().filter(|flag| !is_label(flag));
    let options = plan.mount_options.iter().chain(flags);
    Ok(RequestedOptions {
        options: options.map(String::as_str).collect(),
        label,
    })
}

/// The requested form of a block device: raw, or a file system with options.
fn form(
    plan: &Plan,
    mount: Option<&MountAccess>,
    granted: &[String],
    grants: &Grants,
) -> Result<(Form, MountFlags), MountError> {
    let Some(access) = mount else {
        // For a raw device, the plan's options for file systems have no meaning: a plugin need not know what the client requested. Only the read-only
        // option still counts.
        let is_read_only = plan.mount_options.iter().any(|option| option == "ro");
        return Ok((Form::Raw, MountFlags::of_device().read_only(is_read_only)));
    };
    let requested = requested_options(plan, access)?;
    let named = access.fs_type.as_deref();
    let (fs_type, is_named) = match named.or(plan.default_fs_type.as_deref()) {
        Some(name) => (block_fs_type(name)?, named.is_some()),
        None => (DEFAULT_FS_TYPE, false),
    };
    let of_type = |fs_type: FsType| {
        let allowed = Allowed {
            step: plan.source.step(),
            granted,
            fs_type: Some(fs_type.name()),
            labels: Some(grants.selinux_mount),
        };
        allowed.check(&requested)
    };
    let CheckedOptions { flags, own } = of_type(fs_type)?;
    // A device that already has another type keeps it, if the options are valid for that type as well.
    let others = FsType::ALL.into_iter().filter(|it| *it != fs_type);
    let mut options: BTreeMap<_, _> = others
        .filter_map(|other| Some((other, of_type(other).ok()?.own)))
        .collect();
    options.insert(fs_type, own);
    let filesystem = BlockFilesystem {
        fs_type,
        is_named,
        options,
    };
    Ok((Form::Filesystem(filesystem), flags))
}

/// Letters, digits and the other characters of host and user names.
fn is_name(text: &str, most_bytes: usize) -> bool {
    !text.is_empty() && text.len() <= most_bytes && text.chars().all(is_of_name)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Whether a granted pattern, which may end in `*`, covers a value. Bytes are compared, case-sensitively.
pub(crate) fn matches(pattern: &str, value: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => value.starts_with(start),
        None => value == pattern,
    }
}

fn check_fs_type(fs_type: &str) -> Result<(), MountError> {
    if is_name(fs_type, FS_TYPE_BYTES) {
        return Ok(());
    }
    let reason = "it is not the name of a file system type";
    Err(MountError::invalid(
        "fs_type",
        reason,
        Blame::argument(fs_type),
    ))
}

fn block_fs_type(name: &str) -> Result<FsType, MountError> {
    FsType::parse(name).ok_or_else(|| {
        let names = FsType::ALL.map(FsType::name).join(", ");
        let reason = format!("`{name}` is not made by this host; it makes {names}");
        MountError::invalid("fs_type", reason, Blame::argument(name))
    })
}

/// The error that a driver has no grant for a pool.
pub(crate) fn pool_not_granted(step: &str, pool: &str) -> MountError {
    let name = shown(pool);
    let reason = format!("pool `{name}` is not in `grants.pools` of the backend document");
    MountError::not_granted(step, reason, Blame::argument(pool))
}

/// A place in a granted pool, and the mount options that are granted there.
fn pool_place<'g>(
    step: &str,
    grants: &'g Grants,
    pool: &str,
    path: &str,
) -> Result<(PoolPlace, &'g [String]), MountError> {
    let grant = grants.pools.get(pool);
    let grant = grant.ok_or_else(|| pool_not_granted(step, pool))?;
    let Some(directory) = grant.directory() else {
        let what = format!("step `{step}` with pool `{}`", shown(pool));
        return Err(MountError::unsupported(
            what,
            "the host mounts that pool for its own calls; name its server and the path there in step `filesystem`",
        ));
    };
    let path = PoolPath::parse(path).map_err(|fault| {
        let what = format!("path of step `{step}`");
        MountError::invalid(what, fault, Blame::argument(path))
    })?;
    let place = PoolPlace {
        pool: pool.to_owned(),
        directory: directory.to_owned(),
        path,
    };
    Ok((place, &grant.mount_options))
}

#[cfg(test)]
mod tests;
