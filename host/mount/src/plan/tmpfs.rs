//! An empty file system in memory, as a plan asks for it, against the grant of type `tmpfs`: never larger than granted.

use super::granted_type;
use super::options::{Allowed, MountFlags, Words};
use crate::failure::{invalid, not_granted};
use crate::group::group_number;
use wasmount_core::document::{FilesystemGrant, Grants};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// The step's name in the contract, which is the type's name too.
const STEP: &str = "tmpfs";

/// An empty file system in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedTmpfs {
    /// Absent: the kernel's default, half of the memory.
    pub(crate) size_bytes: Option<u64>,
    /// Name and value.
    pub(crate) options: Vec<(String, String)>,
}

/// Checks what the plan and the request say of a tmpfs.
pub(super) fn check(
    size_bytes: Option<u64>,
    words: &Words<'_>,
    group: Option<&str>,
    grants: &Grants,
) -> Result<(CheckedTmpfs, MountFlags), MountError> {
    let grant = granted_type(STEP, grants, STEP, Blame::Of(Owner::Plugin))?;
    let size_bytes = size(size_bytes, grant)?;
    let allowed = Allowed {
        step: STEP,
        granted: &grant.mount_options,
        fs_type: Some(STEP),
        labels: Some(grants.selinux_mount),
    };
    let mut checked = allowed.check(words)?;
    if let Some(group) = group {
        let number = group_number(group)?.to_string();
        checked.own.push(("gid".to_owned(), number));
    }
    let tmpfs = CheckedTmpfs {
        size_bytes,
        options: checked.own,
    };
    Ok((tmpfs, checked.flags))
}

/// Without a size of the plan's the grant's largest is taken: never more than was granted.
fn size(wanted: Option<u64>, grant: &FilesystemGrant) -> Result<Option<u64>, MountError> {
    // Sizes are what requests ask for.
    let blame = Blame::Of(Owner::Request);
    match (wanted, grant.max_bytes) {
        // To the kernel 0 means without limit.
        (Some(0), _) => Err(invalid("size of step `tmpfs`", "it is 0", blame)),
        (Some(wanted), Some(most)) if wanted > most => {
            let reason = format!("{wanted} bytes are more than the granted `maxBytes` {most}");
            Err(not_granted(STEP, reason, blame))
        }
        (wanted, most) => Ok(wanted.or(most)),
    }
}
