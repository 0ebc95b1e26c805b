//! The step `tmpfs`: checks the request of a plan for an empty file system in memory against the grant of type `tmpfs`. It is never larger than
//! granted.

use super::filesystem::granted_type;
use super::options::{Allowed, CheckedOptions, MountFlags, RequestedOptions};
use wasmount_core::document::{FilesystemGrant, Grants};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// The step's name in the contract, which is also the file system type.
const STEP: &str = "tmpfs";

/// Checks size and options of plan and request. Returns all options as names and values; without a size the kernel's default is half of the memory.
pub(super) fn check(
    size_bytes: Option<u64>,
    requested: &RequestedOptions<'_>,
    group: Option<u32>,
    grants: &Grants,
) -> Result<(Vec<(String, String)>, MountFlags), MountError> {
    let grant = granted_type(STEP, grants, STEP, Blame::Of(Owner::Plugin))?;
    let size_bytes = size(size_bytes, grant)?;
    let allowed = Allowed {
        step: STEP,
        granted: &grant.mount_options,
        fs_type: Some(STEP),
        labels: Some(grants.selinux_mount),
    };
    let CheckedOptions { mut own, flags } = allowed.check(requested)?;
    own.extend(size_bytes.map(|bytes| ("size".to_owned(), bytes.to_string())));
    own.extend(group.map(|group| ("gid".to_owned(), group.to_string())));
    Ok((own, flags))
}

/// If the plan has no size, the largest size of the grant is used: never more than granted.
fn size(requested: Option<u64>, grant: &FilesystemGrant) -> Result<Option<u64>, MountError> {
    // Sizes come from requests.
    let blame = Blame::Of(Owner::Request);
    match (requested, grant.max_bytes) {
        // The kernel interprets 0 as unlimited.
        (Some(0), _) => Err(MountError::invalid(
            "size of step `tmpfs`",
            "it is 0",
            blame,
        )),
        (Some(requested), Some(most)) if requested > most => {
            let reason = format!("{requested} bytes are more than the granted `maxBytes` {most}");
            Err(MountError::not_granted(STEP, reason, blame))
        }
        (requested, most) => Ok(requested.or(most)),
    }
}
