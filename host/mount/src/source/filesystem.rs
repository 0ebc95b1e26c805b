//! Mounts a file system that the kernel mounts by type, as a detached mount: what mount(8) and its helpers do, without their processes.
//!
//! Every option is a separate string, and a secret is passed to the kernel by a system call: it is in no argument list, no environment and no file.
//! It blocks as long as name service and server take, on a thread of the driver's own budget.

mod failed;

use crate::failure::{invalid, unusable};
use crate::fs_context::FsContext;
use crate::plan::filesystem::CheckedFilesystem;
use crate::plan::filesystem::server::{AddressFamily, Server};
use crate::plan::options::MountFlags;
use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::secrets::SecretOptions;

/// Longest value of a secret option, in bytes: `fsconfig(2)` takes strings of 256 bytes with their NUL.
const SECRET_BYTES: usize = 255;
/// Maximum number of addresses that are tried: one that does not answer costs minutes of a thread, and servers have at most two addresses in each of
/// two families.
const ADDRESSES: usize = 4;

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
    for address in resolve(server)? {
        match mount(filesystem, Some((server.option, &address)), flags, &secrets) {
            // A name may have an address in a network that this node cannot reach. As mount.nfs does, the next address is tried.
            Err(error @ MountError::Hung { .. }) => unreachable = Some(error),
            result => return result,
        }
    }
    Err(unreachable.unwrap_or_else(|| no_address(server)))
}

fn mount(
    filesystem: &CheckedFilesystem,
    address: Option<(&str, &str)>,
    flags: MountFlags,
    secrets: &[(&str, &str)],
) -> Result<OwnedFd, MountError> {
    let context = FsContext::open(&filesystem.fs_type, failed::words(filesystem))?;
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

/// The secret values that the plan names, each valid for the kernel. An error does not repeat the value.
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
        let what = format!("secret option `{name}` of step `filesystem`");
        let reason = format!("its value {rule}");
        Err(invalid(what, reason, Blame::Of(Owner::Secret)))
    };
    filesystem.secret_names.iter().map(value).collect()
}

/// The usable addresses of a server, in the form that the kernel takes and in the order of the name service; there may be none. Blocks.
fn resolve(server: &Server) -> Result<Vec<String>, MountError> {
    // The file system chooses the port itself; without a port there is no service to look up.
    let found = (server.host.as_str(), 0)
        .to_socket_addrs()
        .map_err(|error| unresolved(server, &error.to_string()))?;
    Ok(suitable(found, server.family))
}

/// The error that there is no address to try.
fn no_address(server: &Server) -> MountError {
    let reason = match server.family {
        Some(_) => "it has no address of the kind that option `proto` names",
        None => "it has no address",
    };
    unresolved(server, reason)
}

fn unresolved(server: &Server, reason: &str) -> MountError {
    unusable(
        format!("server `{}`", server.host),
        format!("{reason}; check the name, and that the host's network namespace can resolve it"),
    )
}

fn suitable(
    found: impl IntoIterator<Item = SocketAddr>,
    family: Option<AddressFamily>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    found
        .into_iter()
        .filter(|address| match family {
            None => true,
            Some(AddressFamily::V4) => address.is_ipv4(),
            Some(AddressFamily::V6) => address.is_ipv6(),
        })
        .map(text)
        .filter(|text| seen.insert(text.clone()))
        .take(ADDRESSES)
        .collect()
}

/// A link-local address is written with its interface's number, which the kernel accepts in place of the name.
fn text(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => {
            format!("{}%{}", address.ip(), address.scope_id())
        }
        address => address.ip().to_string(),
    }
}

#[cfg(test)]
mod tests;
