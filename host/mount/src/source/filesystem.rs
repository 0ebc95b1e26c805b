//! Mounts a file system that the kernel mounts by type, as a detached mount: what mount(8) and its helpers do, without their processes.
//!
//! Every option is a separate string, and a secret is passed to the kernel by a system call: it is in no argument list, no environment and no file.
//! It blocks as long as name service and server take, on a thread of the driver's own budget.

use crate::failure::{kernel, shown};
use crate::fs_context::{FsContext, module};
use crate::plan::filesystem::CheckedFilesystem;
use crate::plan::filesystem::server::{AddressFamily, Server};
use crate::plan::options::MountFlags;
use rustix::io::Errno;
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

/// What a mount with Kerberos needs.
const KERBEROS: &str = "Kerberos needs its helper on the node (`rpc.gssd`, for SMB `cifs.upcall`), a key of the node there (`/etc/krb5.keytab`) or a ticket, and a server that takes it";

/// Makes the mount.
pub(crate) fn prepare(
    filesystem: &CheckedFilesystem,
    flags: MountFlags,
    secrets: &SecretOptions,
) -> Result<OwnedFd, MountError> {
    let secrets = requested_secrets(filesystem, secrets)?;
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
    let context = FsContext::open(&filesystem.fs_type, described(filesystem))?;
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
    let messages = || kernel_messages(&context.messages(), filesystem, secrets);
    set_all().map_err(|error| with_messages(error, &messages()))?;
    context
        .create(false)
        .map_err(|errno| create_failed(filesystem, errno, &messages()))?;
    context.mount(flags)
}

/// The secret values that the plan names, each valid for the kernel. An error does not repeat the value.
fn requested_secrets<'s>(
    filesystem: &'s CheckedFilesystem,
    secrets: &'s SecretOptions,
) -> Result<Vec<(&'s str, &'s str)>, MountError> {
    let value = |name: &'s String| {
        let rule = match secrets.get(name) {
            None => "is not among the secrets of this request or of the document",
            Some("") => "is empty",
            Some(value) if value.len() > SECRET_BYTES => {
                "is longer than the kernel's limit of 255 bytes"
            }
            Some(value) if value.contains('\0') => "contains a NUL",
            Some(value) => return Ok((name.as_str(), value)),
        };
        let what = format!("secret option `{name}` of step `filesystem`");
        let reason = format!("its value {rule}");
        Err(MountError::invalid(what, reason, Blame::Of(Owner::Secret)))
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
    MountError::unusable(
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

/// Name of the file system in messages.
fn described(filesystem: &CheckedFilesystem) -> String {
    format!("{} `{}`", filesystem.fs_type, shown(&filesystem.source))
}

/// Adds the kernel's messages to an error that it caused.
fn with_messages(mut error: MountError, messages: &str) -> MountError {
    if let MountError::Invalid { text, .. } | MountError::Kernel { text, .. } = &mut error {
        text.push_str(messages);
    }
    error
}

/// The error after the kernel accepted all options and then could not mount.
fn create_failed(filesystem: &CheckedFilesystem, errno: Errno, messages: &str) -> MountError {
    let what = described(filesystem);
    let text = std::io::Error::from(errno);
    match errno {
        Errno::TIMEDOUT
        | Errno::CONNREFUSED
        | Errno::CONNRESET
        | Errno::CONNABORTED
        | Errno::HOSTUNREACH
        | Errno::HOSTDOWN
        | Errno::NETUNREACH
        | Errno::NETDOWN
        | Errno::NOTCONN => MountError::hung(
            format!("the server of {what}"),
            format!("{text}; check the server, the network and firewalls{messages}"),
        ),
        Errno::NOKEY => MountError::unusable(what, format!("{text}; {KERBEROS}{messages}")),
        // NFS reports EINVAL without `rpc.gssd`, and EACCES without a key.
        Errno::INVAL | Errno::ACCESS if filesystem.uses_kerberos() => {
            let together = match errno {
                Errno::INVAL => format!(
                    "the kernel rejects its options{} together, or it lacks Kerberos: ",
                    option_names(filesystem)
                ),
                _ => String::new(),
            };
            MountError::unusable(what, format!("{text}; {together}{KERBEROS}{messages}"))
        }
        // NFS reports a flavour of security that the server does not offer.
        Errno::PERM if filesystem.fs_type.starts_with("nfs") => MountError::unusable(
            what,
            format!(
                "{text}; its server must let this node in, and by this security: mount option `sec` names another, such as `sec=krb5p`{messages}"
            ),
        ),
        Errno::ACCESS | Errno::KEYREJECTED | Errno::KEYEXPIRED | Errno::KEYREVOKED => {
            MountError::unusable(
                what,
                format!("{text}; its server must let this node and these credentials in{messages}"),
            )
        }
        Errno::NOENT | Errno::NXIO => MountError::not_found(format!(
            "{what}, or what its options{} name{messages},",
            option_names(filesystem)
        )),
        Errno::PROTONOSUPPORT | Errno::OPNOTSUPP | Errno::NODEV => MountError::unsupported(
            what,
            format!(
                "{text}; kernel or server do not have this version or transport: name another one in the mount options, or load the module (`modprobe {}`){messages}",
                module(&filesystem.fs_type)
            ),
        ),
        Errno::INVAL => {
            let names = option_names(filesystem);
            let reason = format!("the kernel rejects its options{names} together{messages}");
            // Plan, request and server may each be the cause.
            MountError::invalid(what, reason, Blame::Of(Owner::Request))
        }
        errno => with_messages(kernel("mount", what, errno), messages),
    }
}

/// The names of the options, for a message: a kernel that takes all of them as one string does not say which of them is wrong.
fn option_names(filesystem: &CheckedFilesystem) -> String {
    let names = filesystem.options.iter().map(|(name, _)| name);
    let names = names.chain(&filesystem.secret_names);
    let names: Vec<_> = names.map(|name| format!("`{}`", shown(name))).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    }
}

/// The kernel's messages as the end of a sentence. Empty if one of them repeats a value.
fn kernel_messages(
    messages: &[String],
    filesystem: &CheckedFilesystem,
    secrets: &[(&str, &str)],
) -> String {
    let options = filesystem.options.iter().map(|(_, value)| value.as_str());
    // Values as short as a version number are not secrets, and would match everywhere.
    let mut hidden = options
        .filter(|value| value.len() >= wasmount_core::secrets::REDACTED_VALUE_BYTES)
        .chain(secrets.iter().map(|(_, value)| *value));
    let joined = messages.join("; ");
    if joined.is_empty() || hidden.any(|value| joined.contains(value)) {
        return String::new();
    }
    format!("; the kernel says: {}", shown(&joined))
}

#[cfg(test)]
mod tests;
