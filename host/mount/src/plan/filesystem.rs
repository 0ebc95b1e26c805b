//! The step `filesystem`: checks a file system that the kernel mounts by type against the administrator's grants.
//!
//! Type, server and tree come from a plugin, and each must match a grant literally. Nothing is opened or resolved here.

pub(crate) mod server;

use super::options::{Allowed, MountFlags, RequestedOptions};
use super::own_options::{is_harmless_secret, is_reserved};
use super::{check_fs_type, matches};
use crate::failure::shown;
use server::Server;
use wasmount_core::document::{FilesystemGrant, Grants};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// The step's name in the contract.
const STEP: &str = "filesystem";
/// Longest source, in bytes: `fsconfig(2)` takes strings of 256 bytes with their NUL.
const SOURCE_BYTES: usize = 255;
/// Options whose values are secret for every type: plain options appear in journals and mount tables.
const SECRET: &[&str] = &["password", "password2", "pass", "secret"];
/// Mode of files and directories of a share for `volume_mount_group`: cifs' default of 0755, with write permission for the group, as the
/// specification of the field requires.
const GROUP_MODE: &str = "0775";

/// A granted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedFilesystem {
    pub(crate) fs_type: String,
    /// The source in the form that the kernel takes.
    pub(crate) source: String,
    /// Names and values. A flag has an empty value. Each name occurs once.
    pub(crate) options: Vec<(String, String)>,
    /// Names of the options whose values come with each request.
    pub(crate) secret_names: Vec<String>,
    /// The server whose address the kernel requires.
    pub(crate) server: Option<Server>,
    /// Patterns of the sources that were granted.
    pub(crate) granted_sources: Vec<String>,
}

impl CheckedFilesystem {
    /// Whether the kernel authenticates to the server by Kerberos.
    pub(crate) fn uses_kerberos(&self) -> bool {
        let mut options = self.options.iter();
        options.any(|(name, value)| name == "sec" && value.contains("krb5"))
    }

    /// Refuses a mount that shows another source than was granted, according to the mount table. The server decides where a path leads: a link on an
    /// NFS share leads to another tree, a referral to another server, and the kernel shows the final location (`nfs_show_devname`).
    pub(crate) fn refuse_shown(&self, source: &str) -> Result<(), MountError> {
        let is_as_requested = without_spare_slashes(&self.source) == without_spare_slashes(source);
        if is_as_requested || is_source_granted(&self.fs_type, &self.granted_sources, source) {
            return Ok(());
        }
        let reason = format!(
            "source `{}` leads to `{}` on its server, which matches none of the `sources` granted for type `{}`; the mount was undone",
            shown(&self.source),
            shown(source),
            self.fs_type
        );
        Err(MountError::not_granted(
            STEP,
            reason,
            Blame::Of(Owner::Content),
        ))
    }
}

/// The step as the plan contains it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilesystemStep<'p> {
    pub(crate) fs_type: &'p str,
    pub(crate) source: &'p str,
    pub(crate) options: &'p [String],
    /// Maps an option name to the name of a secret, or to a sealed text.
    pub(crate) secret_options: &'p [(String, String)],
}

/// Checks the step with the mount options of plan and request in addition to its own, and with the group of the request.
pub(crate) fn check<'w>(
    step: &FilesystemStep<'w>,
    requested: RequestedOptions<'w>,
    group: Option<u32>,
    grants: &Grants,
) -> Result<(CheckedFilesystem, MountFlags), MountError> {
    let fs_type = step.fs_type;
    check_fs_type(fs_type)?;
    if let Some(reason) = never_mounted(fs_type) {
        let what = format!("type `{fs_type}` of step `{STEP}`");
        return Err(MountError::unsupported(what, reason));
    }
    let grant = granted_type(STEP, grants, fs_type, Blame::argument(fs_type))?;
    let source = spelled(fs_type, step.source);
    check_form(&source).map_err(|rule| invalid("source", rule, Blame::argument(step.source)))?;
    let allowed = Allowed {
        step: STEP,
        granted: &grant.mount_options,
        fs_type: Some(fs_type),
        labels: Some(grants.selinux_mount),
    };
    let own = step.options.iter().map(String::as_str);
    let requested = RequestedOptions {
        options: own.chain(requested.options).collect(),
        label: requested.label,
    };
    let checked = allowed.check(&requested)?;
    let secret_names = secret_names(step, grant)?;
    let mut options = each_once(checked.own, &secret_names)?;
    if let Some(group) = group {
        options.extend(group_options(fs_type, group, &options)?);
    }
    let server = server::parse(fs_type, &source, &mut options)?;
    if !is_source_granted(fs_type, &grant.sources, &source) {
        let source = shown(&source);
        let reason =
            format!("source `{source}` matches none of the `sources` granted for type `{fs_type}`");
        return Err(MountError::not_granted(
            STEP,
            reason,
            Blame::argument(step.source),
        ));
    }
    let filesystem = CheckedFilesystem {
        fs_type: fs_type.to_owned(),
        source,
        options,
        secret_names,
        server,
        granted_sources: grant.sources.clone(),
    };
    Ok((filesystem, checked.flags))
}

/// Whether one of the patterns that are granted for a type names a source.
pub(crate) fn is_source_granted(fs_type: &str, patterns: &[String], source: &str) -> bool {
    let source = spelled(fs_type, source);
    let mut patterns = patterns.iter();
    patterns.any(|pattern| matches(&spelled(fs_type, pattern), &source))
}

/// Whether a line of the mount table, by type and source, shows this file system. Always false for types whose source is not meaningful.
pub(crate) fn same(filesystem: &CheckedFilesystem, fs_type: &str, source: &str) -> bool {
    // The content of an overlay is defined by its options; its source is free text.
    family(&filesystem.fs_type) != "overlay"
        && family(&filesystem.fs_type) == family(fs_type)
        && without_spare_slashes(&filesystem.source) == without_spare_slashes(source)
}

/// The kernel resolves the path of an NFS source and shows the path it took (`nfs_path`).
fn without_spare_slashes(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    for c in source.chars() {
        if c != '/' || !text.ends_with('/') {
            text.push(c);
        }
    }
    text.trim_end_matches('/').to_owned()
}

/// Why a type is refused even if it is granted.
fn never_mounted(fs_type: &str) -> Option<&'static str> {
    match fs_type {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "bcachefs" | "f2fs" | "jfs" | "nilfs2"
        | "reiserfs" | "gfs2" | "ocfs2" | "vfat" | "msdos" | "exfat" | "ntfs" | "ntfs3" | "hfs"
        | "hfsplus" | "iso9660" | "udf" | "squashfs" | "erofs" | "cramfs" | "romfs" | "minix"
        | "zonefs" => Some(
            "it lies on a block device; use the step `device` or `image`, which check the device",
        ),
        "tmpfs" | "ramfs" | "hugetlbfs" => {
            Some("it lies in the node's memory; use the step `tmpfs`, which bounds it")
        }
        "proc" | "sysfs" | "devtmpfs" | "devpts" | "debugfs" | "tracefs" | "securityfs"
        | "selinuxfs" | "smackfs" | "configfs" | "efivarfs" | "pstore" | "bpf" | "cgroup"
        | "cgroup2" | "cpuset" | "resctrl" | "mqueue" | "nsfs" | "binfmt_misc" | "xenfs"
        | "functionfs" | "nfsd" | "rpc_pipefs" | "sockfs" | "pipefs" => {
            Some("it shows the node itself, not storage")
        }
        "autofs" => Some("it needs a daemon that mounts below it"),
        _ if fs_type.starts_with("fuse") => {
            Some("it needs a daemon, which would end with the host; run it beside the host")
        }
        _ => None,
    }
}

/// A common name for two types that the kernel mounts by the same code: it shows an `nfs` of version 4 as `nfs4`.
fn family(fs_type: &str) -> &str {
    match fs_type {
        "nfs4" => "nfs",
        "smb3" => "cifs",
        other => other,
    }
}

/// cifs treats `\` and `/` as the same character, so grants must do so too.
fn spelled(fs_type: &str, source: &str) -> String {
    match family(fs_type) {
        "cifs" => source.replace('\\', "/"),
        _ => source.to_owned(),
    }
}

/// What no source may contain, so that it cannot leave the prefix of a pattern.
fn check_form(source: &str) -> Result<(), &'static str> {
    if source.is_empty() {
        return Err("is empty");
    }
    if source.len() > SOURCE_BYTES {
        return Err("is longer than the kernel's limit of 255 bytes");
    }
    if source.chars().any(char::is_control) {
        return Err("contains a control character");
    }
    if source.contains('\\') {
        return Err("contains a backslash");
    }
    if source.split(['/', ':']).any(|segment| segment == "..") {
        return Err("contains `..`");
    }
    Ok(())
}

fn secret_names(
    step: &FilesystemStep<'_>,
    grant: &FilesystemGrant,
) -> Result<Vec<String>, MountError> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in step.secret_options {
        let option = || format!("secret option `{}`", shown(name));
        if is_reserved(step.fs_type, name) {
            return Err(invalid(
                &option(),
                "is set by the host",
                Blame::argument(name),
            ));
        }
        if !is_harmless_secret(step.fs_type, name) && !grant.mount_options.contains(name) {
            let rule = "needs a grant; the administrator lists it in `mountOptions` of the grant";
            let reason = format!("{} {rule}", option());
            return Err(MountError::not_granted(STEP, reason, Blame::argument(name)));
        }
        if names.contains(name) {
            return Err(invalid(&option(), "is given twice", Blame::argument(name)));
        }
        names.push(name.clone());
    }
    Ok(names)
}

/// If one option has two values, the kernel uses the last one, so a later option would override an earlier one.
fn each_once(
    options: Vec<(String, String)>,
    secret_names: &[String],
) -> Result<Vec<(String, String)>, MountError> {
    let mut once: Vec<(String, String)> = Vec::with_capacity(options.len());
    for (name, value) in options {
        let option = || format!("mount option `{}`", shown(&name));
        if SECRET.contains(&name.as_str()) {
            let rule = "is a secret; the plan names it in `secret-options`";
            return Err(invalid(&option(), rule, Blame::argument(name)));
        }
        if secret_names.contains(&name) {
            let rule = "is given as a secret as well";
            return Err(invalid(&option(), rule, Blame::argument(name)));
        }
        match once.iter().find(|(there, _)| *there == name) {
            Some((_, there)) if *there != value => {
                let rule = "is given twice with different values, by the plan or the request";
                return Err(invalid(&option(), rule, Blame::argument(name)));
            }
            Some(_) => {}
            None => once.push((name, value)),
        }
    }
    Ok(once)
}

/// Assigns all entries of a share to a group (`volume_mount_group`). Only for types whose client decides about ownership.
fn group_options(
    fs_type: &str,
    group: u32,
    given: &[(String, String)],
) -> Result<Vec<(String, String)>, MountError> {
    if family(fs_type) != "cifs" {
        let what = format!("volume_mount_group of type `{fs_type}`");
        return Err(MountError::unsupported(
            what,
            "its server decides which group files belong to",
        ));
    }
    if given
        .iter()
        .any(|(name, _)| matches!(name.as_str(), "gid" | "forcegid" | "noforcegid"))
    {
        let rule = "contradicts the `gid` options of plan or request; remove one of them";
        let blame = Blame::Of(Owner::Request);
        return Err(invalid("volume_mount_group", rule, blame));
    }
    let number = group.to_string();
    let defaults = [
        ("gid", number.as_str()),
        ("forcegid", ""),
        ("file_mode", GROUP_MODE),
        ("dir_mode", GROUP_MODE),
    ];
    let is_given = |name: &str| given.iter().any(|(there, _)| there == name);
    Ok(defaults
        .into_iter()
        .filter(|(name, _)| !is_given(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

fn invalid(what: &str, rule: &str, blame: Blame) -> MountError {
    MountError::invalid(format!("step `{STEP}`"), format!("{what} {rule}"), blame)
}

/// The grant of a type of file system.
pub(super) fn granted_type<'g>(
    step: &str,
    grants: &'g Grants,
    fs_type: &str,
    blame: Blame,
) -> Result<&'g FilesystemGrant, MountError> {
    let mut grants = grants.filesystems.iter();
    grants
        .find(|grant| grant.fs_type == fs_type)
        .ok_or_else(|| {
            let reason =
                format!("type `{fs_type}` is not in `grants.filesystems` of the backend document");
            MountError::not_granted(step, reason, blame)
        })
}

#[cfg(test)]
mod tests;
