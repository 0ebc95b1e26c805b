//! A plan and a request against the administrator's grants. What comes out is a type of its own, and the only thing that is executed.
//!
//! It is apart because it is pure: it opens nothing, so what is allowed can be read and tested without a kernel. It must not know mounts
//! that exist.

pub(crate) mod options;

use crate::confine::PoolPath;
use crate::failure::shown;
use options::{Allowed, CheckedOptions, MountFlags, Refused};
use std::path::PathBuf;
use wasmount_core::document::{FilesystemGrant, Grants, PoolGrant};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

/// Longest name of a file system type, in bytes. The kernel's longest are half of it.
const FS_TYPE_BYTES: usize = 32;
/// Options of a tmpfs that the host sets: `size` from the plan, within the grant; the others are names of the same.
const TMPFS_RESERVED: &[&str] = &["size", "nr_blocks", "source"];

/// What is to be mounted, granted and well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedPlan {
    pub(crate) source: CheckedSource,
    pub(crate) flags: MountFlags,
}

/// What the volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckedSource {
    Directory(PoolTree),
    Tmpfs(CheckedTmpfs),
}

/// A tree of a granted pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolTree {
    /// The pool's name.
    pub(crate) pool: String,
    /// Where the pool lies; the administrator's word.
    pub(crate) directory: PathBuf,
    /// Below the pool; the plugin's word.
    pub(crate) path: PoolPath,
}

/// An empty file system in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedTmpfs {
    /// Absent: the kernel's default, half of the memory.
    pub(crate) size_bytes: Option<u64>,
    /// Name and value.
    pub(crate) options: Vec<(String, String)>,
}

/// Checks a plan for a request with this capability.
pub(crate) fn check(
    plan: &Plan,
    capability: &VolumeCapability,
    grants: &Grants,
) -> Result<CheckedPlan, MountError> {
    let step = plan.source.step();
    let access = mount_access(step, capability)?;
    for fs_type in [&access.fs_type, &plan.default_fs_type]
        .into_iter()
        .flatten()
    {
        check_fs_type(fs_type)?;
    }
    let words = plan
        .mount_options
        .iter()
        .chain(&access.mount_flags)
        .map(String::as_str);
    let (source, flags) = match &plan.source {
        Source::Directory { pool, path } => {
            let grant = granted_pool(grants, pool)?;
            if access.volume_mount_group.is_some() {
                return Err(MountError::Unsupported {
                    what: "volume_mount_group of a directory".to_owned(),
                    reason: "a tree of a pool has no group of its own for each mount".to_owned(),
                });
            }
            let tree = PoolTree {
                pool: pool.clone(),
                directory: grant.path.clone(),
                path: pool_path(path)?,
            };
            let checked = checked_options(step, words, &directory_options(grant))?;
            (CheckedSource::Directory(tree), checked.flags)
        }
        Source::Tmpfs { size_bytes } => {
            let grant = granted_tmpfs(grants)?;
            let size_bytes = tmpfs_size(*size_bytes, grant)?;
            let mut checked = checked_options(step, words, &tmpfs_options(grant))?;
            if let Some(group) = &access.volume_mount_group {
                checked.own.push(("gid".to_owned(), group_number(group)?));
            }
            let tmpfs = CheckedTmpfs {
                size_bytes,
                options: checked.own,
            };
            (CheckedSource::Tmpfs(tmpfs), checked.flags)
        }
        Source::Image { .. }
        | Source::Device { .. }
        | Source::Filesystem { .. }
        | Source::Files { .. } => {
            return Err(MountError::Unsupported {
                what: format!("step `{step}`"),
                reason: "this host mounts the steps `directory` and `tmpfs`".to_owned(),
            });
        }
    };
    Ok(CheckedPlan {
        source,
        flags: flags.read_only(capability.reads_only()),
    })
}

fn mount_access<'c>(
    step: &str,
    capability: &'c VolumeCapability,
) -> Result<&'c MountAccess, MountError> {
    if let AccessMode::Other(number) = capability.access_mode {
        return Err(MountError::Unsupported {
            what: format!("access mode {number}"),
            reason: "this host does not know it".to_owned(),
        });
    }
    match &capability.access_type {
        AccessType::Mount(access) => Ok(access),
        AccessType::Block => Err(MountError::Invalid {
            what: "volume_capability".to_owned(),
            reason: format!("a volume of step `{step}` is a file system, not a block device"),
        }),
        AccessType::Other(number) => Err(MountError::Unsupported {
            what: format!("access type {number}"),
            reason: "this host does not know it".to_owned(),
        }),
    }
}

/// A tree and a tmpfs bring their own file system, so a type that the request names is not obeyed (storage classes name one out of habit);
/// it must be a type's name all the same.
fn check_fs_type(fs_type: &str) -> Result<(), MountError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if fs_type.len() <= FS_TYPE_BYTES && !fs_type.is_empty() && fs_type.chars().all(allowed) {
        return Ok(());
    }
    Err(MountError::Invalid {
        what: "fs_type".to_owned(),
        reason: "it is not the name of a file system type".to_owned(),
    })
}

fn granted_pool<'g>(grants: &'g Grants, pool: &str) -> Result<&'g PoolGrant, MountError> {
    grants
        .pools
        .get(pool)
        .ok_or_else(|| MountError::NotGranted {
            step: "directory".to_owned(),
            reason: format!(
                "pool `{}` is not in `grants.pools` of the backend document",
                shown(pool)
            ),
        })
}

fn pool_path(path: &str) -> Result<PoolPath, MountError> {
    PoolPath::parse(path).map_err(|fault| MountError::Invalid {
        what: "path of step `directory`".to_owned(),
        reason: fault.to_string(),
    })
}

fn granted_tmpfs(grants: &Grants) -> Result<&FilesystemGrant, MountError> {
    grants
        .filesystems
        .iter()
        .find(|grant| grant.fs_type == "tmpfs")
        .ok_or_else(|| MountError::NotGranted {
            step: "tmpfs".to_owned(),
            reason: "type `tmpfs` is not in `grants.filesystems` of the backend document"
                .to_owned(),
        })
}

/// Without a size of the plan's the grant's largest is taken: never more than was granted.
fn tmpfs_size(wanted: Option<u64>, grant: &FilesystemGrant) -> Result<Option<u64>, MountError> {
    match (wanted, grant.max_bytes) {
        // To the kernel 0 means without limit.
        (Some(0), _) => Err(MountError::Invalid {
            what: "size of step `tmpfs`".to_owned(),
            reason: "it is 0".to_owned(),
        }),
        (Some(wanted), Some(most)) if wanted > most => Err(MountError::NotGranted {
            step: "tmpfs".to_owned(),
            reason: format!("{wanted} bytes are more than the granted `maxBytes` {most}"),
        }),
        (wanted, most) => Ok(wanted.or(most)),
    }
}

fn group_number(group: &str) -> Result<String, MountError> {
    group
        .parse::<u32>()
        .map(|number| number.to_string())
        .map_err(|_| MountError::Invalid {
            what: "volume_mount_group".to_owned(),
            reason: "it is not a group number".to_owned(),
        })
}

fn directory_options(grant: &PoolGrant) -> Allowed<'_> {
    Allowed {
        granted: &grant.mount_options,
        is_harmless: |_, _| false,
        reserved: &[],
        takes_own: false,
    }
}

fn tmpfs_options(grant: &FilesystemGrant) -> Allowed<'_> {
    Allowed {
        granted: &grant.mount_options,
        is_harmless: |name, value| match name {
            // Without the set-user, set-group and other upper bits.
            "mode" => u32::from_str_radix(value, 8).is_ok_and(|mode| mode <= 0o1777),
            "uid" | "gid" => value.parse::<u32>().is_ok(),
            _ => false,
        },
        reserved: TMPFS_RESERVED,
        takes_own: true,
    }
}

fn checked_options<'w>(
    step: &str,
    words: impl IntoIterator<Item = &'w str>,
    allowed: &Allowed<'_>,
) -> Result<CheckedOptions, MountError> {
    options::check(words, allowed).map_err(|refused| match refused {
        Refused::Malformed(reason) => MountError::Invalid {
            what: format!("mount options of step `{step}`"),
            reason,
        },
        Refused::NotGranted(reason) => MountError::NotGranted {
            step: step.to_owned(),
            reason,
        },
    })
}

#[cfg(test)]
mod tests;
