//! The server of a source and the options that follow from it: what mount.nfs(8) and mount.cifs(8) determine in user space before they call the
//! kernel. This module resolves nothing.

use crate::plan::filesystem::invalid;
use crate::plan::is_name;
use std::net::Ipv6Addr;
use wasmount_core::fault::Blame;
use wasmount_core::mounter::MountError;

/// Longest name of a server, in bytes (RFC 1035, section 3.1).
const HOST_BYTES: usize = 253;
/// Longest name of a network interface, in bytes (`IFNAMSIZ` without its NUL).
const SCOPE_BYTES: usize = 15;
/// The first version that mount.nfs tries.
const NFS_VERSION: &str = "4.2";

/// A server whose address the kernel requires, and the option for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// A name or an address, without brackets.
    pub(crate) host: String,
    /// The option that carries the address.
    pub(crate) option: &'static str,
    /// The only usable kind of address, if there is one.
    pub(crate) family: Option<AddressFamily>,
}

/// Kind of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressFamily {
    V4,
    V6,
}

/// The server of a source. `None` if the kernel needs no address. It also completes the options.
pub(crate) fn parse(
    fs_type: &str,
    source: &str,
    options: &mut Vec<(String, String)>,
) -> Result<Option<Server>, MountError> {
    let no_host = |rule| invalid("source", rule, Blame::argument(source));
    match fs_type {
        "nfs" | "nfs4" => {
            let host = nfs_host(source).map_err(no_host)?;
            settle_nfs_version(options)?;
            Ok(Some(Server {
                host: host.to_owned(),
                option: "addr",
                family: nfs_family(options)?,
            }))
        }
        "cifs" | "smb3" => {
            let host = smb_host(source).map_err(no_host)?;
            Ok(Some(Server {
                host: host.to_owned(),
                option: "ip",
                family: None,
            }))
        }
        _ => Ok(None),
    }
}

/// `host:/path`, or an IPv6 address in brackets before the colon.
fn nfs_host(source: &str) -> Result<&str, &'static str> {
    const FORM: &str = "is not of the form `server:/path`";
    let (host, path) = match source.strip_prefix('[') {
        Some(rest) => {
            let (host, path) = rest.split_once("]:").ok_or(FORM)?;
            check_v6(host)?;
            (host, path)
        }
        None => {
            let (host, path) = source.split_once(':').ok_or(FORM)?;
            check_name(host)?;
            (host, path)
        }
    };
    if path.starts_with('/') {
        Ok(host)
    } else {
        Err(FORM)
    }
}

/// `//server/share` and the path below.
fn smb_host(source: &str) -> Result<&str, &'static str> {
    const FORM: &str = "is not of the form `//server/share`";
    let (host, share) = source
        .strip_prefix("//")
        .and_then(|rest| rest.split_once('/'))
        .ok_or(FORM)?;
    if share.is_empty() || share.starts_with('/') {
        return Err(FORM);
    }
    if host.contains(':') {
        check_v6(host)?;
    } else {
        check_name(host)?;
    }
    Ok(host)
}

fn check_name(host: &str) -> Result<(), &'static str> {
    match is_name(host, HOST_BYTES) {
        true => Ok(()),
        false => Err("names no server: neither a host name nor an address"),
    }
}

/// With or without the interface of a link-local address.
fn check_v6(host: &str) -> Result<(), &'static str> {
    let (address, scope) = host
        .split_once('%')
        .map_or((host, None), |(address, scope)| (address, Some(scope)));
    let is_scope = scope.is_none_or(|scope| is_name(scope, SCOPE_BYTES));
    match address.parse::<Ipv6Addr>().is_ok() && is_scope {
        true => Ok(()),
        false => Err("names no server: not an address of version 6"),
    }
}

/// mount.nfs interprets a missing version, and a 4 without a minor number, as the newest; the kernel interprets them as version 3 and 4.0.
fn settle_nfs_version(options: &mut Vec<(String, String)>) -> Result<(), MountError> {
    let is_version = |name: &str| matches!(name, "vers" | "nfsvers");
    let has_minor = options.iter().any(|(name, _)| name == "minorversion");
    let newest = if has_minor { "4" } else { NFS_VERSION };
    let mut versions = options.iter_mut().filter(|(name, _)| is_version(name));
    match (versions.next(), versions.next()) {
        (Some(_), Some(_)) => Err(invalid(
            "mount option `vers`",
            "is given twice, once as `nfsvers`",
            Blame::argument("nfsvers"),
        )),
        (Some((_, version)), None) if version == "4" => {
            version.replace_range(.., newest);
            Ok(())
        }
        // The option was granted by name, so it may have any value.
        (Some((_, version)), None) if !version.starts_with("4.") => Err(MountError::unsupported(
            "this version of NFS",
            "versions before 4 need a statd on the node; name one of version 4",
        )),
        (Some(_), None) => Ok(()),
        (None, _) => {
            options.push(("vers".to_owned(), newest.to_owned()));
            Ok(())
        }
    }
}

/// The name of the transport determines the kind of address (nfs(5), `proto`); the kernel rejects the other kind.
fn nfs_family(options: &[(String, String)]) -> Result<Option<AddressFamily>, MountError> {
    let transport = options.iter().find(|(name, _)| name == "proto");
    match transport.map(|(_, value)| value.as_str()) {
        None => Ok(None),
        Some("tcp" | "rdma") => Ok(Some(AddressFamily::V4)),
        Some("tcp6" | "rdma6") => Ok(Some(AddressFamily::V6)),
        Some(transport) => Err(invalid(
            "mount option `proto`",
            "is no transport of NFS version 4",
            Blame::argument(transport),
        )),
    }
}

#[cfg(test)]
mod tests;
