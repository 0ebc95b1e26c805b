//! The step `tmpfs`: checks the request of a plan for an empty file system in memory against the grant of type `tmpfs`. It is never larger than
//! granted.

use super::granted_type;
use super::options::{Allowed, MountFlags, Words};
use crate::failure::{invalid, not_granted};
use crate::group::group_number;
use wasmount_core::document::{FilesystemGrant, Grants};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// The step's name in the contract, which is also the file system type.
const STEP: &str = "tmpfs";

/// An empty file system in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedTmpfs {
    /// `None`: the kernel's default, half of the memory.
    pub(crate) size_bytes: Option<u64>,
    /// Names and values.
    pub(crate) options: Vec<(String, String)>,
}

/// Checks the tmpfs options of plan and request.
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

/// If the plan has no size, the largest size of the grant is used: never more than granted.
fn size(wanted: Option<u64>, grant: &FilesystemGrant) -> Result<Option<u64>, MountError> {
    // Sizes come from requests.
    let blame = Blame::Of(Owner::Request);
    match (wanted, grant.max_bytes) {
        // The kernel interprets 0 as unlimited.
        (Some(0), _) => Err(invalid("size of step `tmpfs`", "it is 0", blame)),
        (Some(wanted), Some(most)) if wanted > most => {
            let reason = format!("{wanted} bytes are more than the granted `maxBytes` {most}");
            Err(not_granted(STEP, reason, blame))
        }
        (wanted, most) => Ok(wanted.or(most)),
    }
}
