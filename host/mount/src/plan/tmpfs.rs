//! An empty file system in memory, as a plan asks for it, against the grant of type `tmpfs`: never larger than granted, no option but its
//! own.
//!
//! It is apart because what a tmpfs takes, and what of it could be smuggled, is a subject of its own. It must not know how one is made.

use super::checked_options;
use super::options::{Allowed, Labels, MountFlags, Words};
use crate::group::group_number;
use wasmount_core::document::{FilesystemGrant, Grants};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// The step's name in the contract, which is the type's name too.
const STEP: &str = "tmpfs";
/// Options that the host sets: `size` from the plan, within the grant; the others are names of the same.
const RESERVED: &[&str] = &["size", "nr_blocks", "source"];

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
    let grant = granted(grants)?;
    let size_bytes = size(size_bytes, grant)?;
    let mut checked = checked_options(STEP, words, &own_options(grant, grants))?;
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

fn granted(grants: &Grants) -> Result<&FilesystemGrant, MountError> {
    grants
        .filesystems
        .iter()
        .find(|grant| grant.fs_type == STEP)
        .ok_or_else(|| MountError::NotGranted {
            step: STEP.to_owned(),
            reason: "type `tmpfs` is not in `grants.filesystems` of the backend document"
                .to_owned(),
            blame: Blame::Of(Owner::Plugin),
        })
}

/// Without a size of the plan's the grant's largest is taken: never more than was granted.
fn size(wanted: Option<u64>, grant: &FilesystemGrant) -> Result<Option<u64>, MountError> {
    match (wanted, grant.max_bytes) {
        // To the kernel 0 means without limit.
        (Some(0), _) => Err(MountError::Invalid {
            what: "size of step `tmpfs`".to_owned(),
            reason: "it is 0".to_owned(),
            blame: Blame::Of(Owner::Request),
        }),
        (Some(wanted), Some(most)) if wanted > most => Err(MountError::NotGranted {
            step: STEP.to_owned(),
            reason: format!("{wanted} bytes are more than the granted `maxBytes` {most}"),
            // Sizes are what requests ask for.
            blame: Blame::Of(Owner::Request),
        }),
        (wanted, most) => Ok(wanted.or(most)),
    }
}

fn own_options<'g>(grant: &'g FilesystemGrant, grants: &Grants) -> Allowed<'g> {
    Allowed {
        granted: &grant.mount_options,
        is_harmless: |name, value| match name {
            // Without the set-user, set-group and other upper bits.
            "mode" => u32::from_str_radix(value, 8).is_ok_and(|mode| mode <= 0o1777),
            "uid" | "gid" => value.parse::<u32>().is_ok(),
            _ => false,
        },
        reserved: RESERVED,
        takes_own: true,
        labels: Labels::of(grants),
    }
}
