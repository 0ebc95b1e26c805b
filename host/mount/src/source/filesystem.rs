//! A file system that the kernel mounts by name, as a detached mount: what mount(8) and its helpers do, without their processes.
//!
//! Every option is a word of its own, and a secret goes to the kernel by a call: it is in no argument list, no environment and no file. It
//! blocks as long as name service and server take, on a thread of the driver's own budget. It must not know grants.

mod address;
mod failed;

use crate::fs_context::FsContext;
use crate::plan::filesystem::CheckedFilesystem;
use crate::plan::options::MountFlags;
use std::os::fd::OwnedFd;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::secrets::SecretOptions;

/// Longest value of a secret option, in bytes: `fsconfig(2)` takes strings of 256 bytes with their NUL.
const SECRET_BYTES: usize = 255;

/// Makes the mount.
pub(crate) fn prepare(
    filesystem: &CheckedFilesystem,
    flags: MountFlags,
    secrets: &SecretOptions,
) -> Result<OwnedFd, MountError> {
    let secrets = wanted_secrets(filesystem, secrets)?;
    let Some(server) = &filesystem.server else {
        return mount(filesystem, None, flags, &secrets);
    };
    let mut unreachable = None;
    for address in address::resolve(server)? {
        match mount(filesystem, Some((server.option, &address)), flags, &secrets) {
            // A name may have an address of a network that this node is not on. As mount.nfs does, the next one is tried.
            Err(error @ MountError::Hung { .. }) => unreachable = Some(error),
            result => return result,
        }
    }
    Err(unreachable.unwrap_or_else(|| address::none(server)))
}

fn mount(
    filesystem: &CheckedFilesystem,
    address: Option<(&str, &str)>,
    flags: MountFlags,
    secrets: &[(&str, &str)],
) -> Result<OwnedFd, MountError> {
    let context = FsContext::open(&filesystem.fs_type, failed::words(filesystem))
        .map_err(|error| failed::open(filesystem, error))?;
    let set_all = || {
        context.set("source", &filesystem.source)?;
        if let Some((name, value)) = address {
            context.set(name, value)?;
        }
        for (name, value) in &filesystem.options {
            context.set(name, value)?;
        }
        secrets
            .iter()
            .try_for_each(|(name, value)| context.set_secret(name, value))
    };
    let told = || failed::told(&context.messages(), filesystem, secrets);
    set_all().map_err(|error| failed::set(error, &told()))?;
    context
        .create(false)
        .map_err(|errno| failed::create(filesystem, errno, &told()))?;
    context.mount(flags)
}

/// The values that the plan names, each fit for the kernel. What is wrong with one is said without it.
fn wanted_secrets<'s>(
    filesystem: &'s CheckedFilesystem,
    secrets: &'s SecretOptions,
) -> Result<Vec<(&'s str, &'s str)>, MountError> {
    let value = |name: &'s String| {
        let rule = match secrets.get(name) {
            None => "is not among the secrets of this request",
            Some("") => "is empty",
            Some(value) if value.len() > SECRET_BYTES => {
                "is longer than the 255 bytes that the kernel takes"
            }
            Some(value) if value.contains('\0') => "contains a NUL",
            Some(value) => return Ok((name.as_str(), value)),
        };
        Err(MountError::Invalid {
            what: format!("secret option `{name}` of step `filesystem`"),
            reason: format!("its value {rule}"),
            blame: Blame::Of(Owner::Secret),
        })
    };
    filesystem.secret_names.iter().map(value).collect()
}

#[cfg(test)]
mod tests;
