//! Small files in a tmpfs that change as a whole, in the layout of kubelet's Secret volumes (`pkg/volume/util/atomic_writer.go`): `..data` leads to a
//! directory with all files of one generation, each name at the top leads through it, and a swap is one rename of `..data`.
//!
//! A killed swap leaves a complete generation in force and leftovers that no program reads; the next swap removes these first. The generation before
//! the one in force stays until the next call, so that a program which resolves a path, or reads several files of the directory to which `..data`
//! led, can finish; kubelet removes it at once, and such readers get errors. A hostile pod may have mounted the top writable, so every step uses
//! descriptors, follows no link and crosses no mount.

mod generation;

use crate::confine::{DIRECTORY, names, open_confined, remove_empty};
use crate::executor::{clone_mount, dress};
use crate::failure::kernel;
use crate::fs_context::FsContext;
use crate::plan::files::{CONTENT_BYTES, CheckedFiles, ENTRIES, HOST_PREFIX};
use crate::plan::options::MountFlags;
use crate::walk::if_there;
use generation::{Attributes, DIRECTORY_MODE};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// The file system's type.
const TYPE: &str = "tmpfs";
/// The source that the mount table shows. It distinguishes a mount of files from any other tmpfs.
pub(crate) const FILES_NAME: &str = "wasmount-files";
/// The name of the volume in messages.
const WHAT: &str = "the files of a volume";
/// The link to the generation in force. The name is that of kubelet, because programs watch it.
const DATA: &str = "..data";
/// Maximum number of generations: the one in force, and the one before it or the one that is being written.
const GENERATIONS: usize = 2;
/// How often a directory is emptied while a pod still writes into it.
const PASSES: usize = 4;
/// Smallest page of a kernel, in bytes; with larger pages the same number of pages holds as much or more.
const PAGE_BYTES: usize = 4096;
/// Maximum number of pages: each generation's content, the last page of each file, and one for each link that the kernel does not store in its inode.
/// It is large enough for every checked set of files and not only for the first one: a limit costs nothing until it is used, and if it is never
/// raised, a swap cannot fail half-way because of a limit that is too low.
const PAGES: usize = GENERATIONS * (CONTENT_BYTES / PAGE_BYTES + ENTRIES + ENTRIES);
/// Maximum number of inodes: each generation's entries and its own directory, links for both, `..data`, a new link beside the old one, and the top.
const INODES: usize = GENERATIONS * (ENTRIES + 1 + ENTRIES) + 3;
/// Files of a volume are data: whatever was requested, nothing in it can be executed, honours set-user bits or is a device.
const RESTRICTIONS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Makes a detached mount that shows these files. With a group, the files belong to it, and it may read them.
pub(crate) fn prepare(
    files: &CheckedFiles,
    flags: MountFlags,
    group: Option<u32>,
) -> Result<OwnedFd, MountError> {
    let context = FsContext::open(TYPE, WHAT)?;
    for (name, value) in [
        ("source", FILES_NAME),
        ("nr_blocks", &PAGES.to_string()),
        ("nr_inodes", &INODES.to_string()),
        ("mode", &format!("{DIRECTORY_MODE:o}")),
    ] {
        context.set(name, value)?;
    }
    for (name, value) in &files.options {
        context.set(name, value)?;
    }
    // Secrets are kept out of swap space if the kernel supports that (Linux 6.4); kubelet does the same for its own.
    if let Err(error @ MountError::OutOfResources { .. }) = context.set("noswap", "") {
        return Err(error);
    }
    context.create(false).map_err(failed("fsconfig create"))?;
    let mount = context.mount(MountFlags {
        set: RESTRICTIONS,
        clear: MountAttrFlags::empty(),
    })?;
    bring(&mount, files, group)?;
    let flags = MountFlags {
        set: flags.set | RESTRICTIONS,
        ..flags
    };
    dress(&mount, flags, WHAT)?;
    Ok(mount)
}

/// Replaces the current files by these. Readers see all of the old ones or all of the new ones. Equal files are not written again.
pub(crate) fn replace(
    root: &OwnedFd,
    files: &CheckedFiles,
    group: Option<u32>,
) -> Result<(), MountError> {
    // The mount that pods see may be read-only and is not changed: only this detached clone, which no other process sees, is writable.
    let writable = clone_mount(root, WHAT)?;
    let flags = MountFlags {
        set: MountAttrFlags::empty(),
        clear: MountAttrFlags::MOUNT_ATTR_RDONLY,
    };
    dress(&writable, flags, WHAT)?;
    bring(&writable, files, group)
}

/// All steps of a swap: leftovers are removed, the new generation is written and put in force, and the links at the top are updated.
fn bring(root: &OwnedFd, files: &CheckedFiles, group: Option<u32>) -> Result<(), MountError> {
    let current = in_force(root).map_err(failed("readlink"))?;
    remove_leftovers(root, current.as_deref()).map_err(failed("removal of leftovers"))?;
    let is_same = match &current {
        Some(name) => generation::shows(root, name, files, group).map_err(failed("read"))?,
        None => false,
    };
    if !is_same {
        let name = generation::write(root, files, group).map_err(failed("write"))?;
        put_link(root, DATA, &name).map_err(failed("rename"))?;
    }
    name_files(root, files).map_err(failed("symlink"))?;
    forget_names(root, files).map_err(failed("unlink"))?;
    own_top(root, group).map_err(failed("chown"))
}

/// Removes all reserved names at the top except `..data` and the generation to which it leads. A pod may have created content of any depth, so a
/// directory is removed without recursion: its entries that are not empty are moved to the top first.
fn remove_leftovers(root: &OwnedFd, in_force: Option<&str>) -> Result<(), Errno> {
    let is_left = |name: &CString| {
        let name = name.to_bytes();
        name.starts_with(HOST_PREFIX.as_bytes())
            && name != DATA.as_bytes()
            && Some(name) != in_force.map(str::as_bytes)
    };
    let mut waiting = top_entries(root)?;
    waiting.retain(is_left);
    while let Some(name) = waiting.pop() {
        remove_one(root, &name, &mut waiting)?;
    }
    Ok(())
}

/// An entry that cannot be removed because it is not empty is moved to the top and added to `waiting`.
fn remove_one(root: &OwnedFd, name: &CStr, waiting: &mut Vec<CString>) -> Result<(), Errno> {
    for _ in 0..PASSES {
        match remove_empty(root, name) {
            Err(Errno::NOTEMPTY) => {}
            removed => return removed,
        }
        let directory = match open_confined(root, name, DIRECTORY) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(errno) => return Err(errno),
        };
        for inner in names(&directory)? {
            match remove_empty(&directory, &inner) {
                Err(Errno::NOTEMPTY) => {
                    let aside = fresh_name()?;
                    rustix::fs::renameat(&directory, &inner, root, aside.as_str())?;
                    waiting.push(CString::new(aside).map_err(|_| Errno::INVAL)?);
                }
                removed => removed?,
            }
        }
    }
    Err(Errno::NOTEMPTY)
}

/// The generation to which `..data` leads. Anything else there was made by a pod, or does not exist yet.
fn in_force(root: &OwnedFd) -> Result<Option<String>, Errno> {
    let target = match rustix::fs::readlinkat(root, DATA, Vec::new()) {
        Ok(target) => target,
        Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let Ok(name) = target.into_string() else {
        return Ok(None);
    };
    let is_generation = name.starts_with(HOST_PREFIX) && name.len() > HOST_PREFIX.len();
    if !is_generation || name.contains('/') || name == DATA {
        return Ok(None);
    }
    let directory = if_there(open_confined(root, name.as_str(), DIRECTORY))?;
    Ok(directory.map(|_| name))
}

fn own_top(root: &OwnedFd, group: Option<u32>) -> Result<(), Errno> {
    Attributes::of_directory(group).give(&open_confined(root, ".", DIRECTORY)?)
}

/// Creates the missing links at the top.
fn name_files(root: &OwnedFd, files: &CheckedFiles) -> Result<(), Errno> {
    for name in files.top_names() {
        let target = top_target(name);
        let is_there = match rustix::fs::readlinkat(root, name, Vec::new()) {
            Ok(found) => found.to_bytes() == target.as_bytes(),
            Err(Errno::NOENT | Errno::INVAL) => false,
            Err(errno) => return Err(errno),
        };
        if !is_there {
            put_link(root, name, &target)?;
        }
    }
    Ok(())
}

/// Removes the links at the top whose files are gone, and nothing else: other entries belong to the pod.
fn forget_names(root: &OwnedFd, files: &CheckedFiles) -> Result<(), Errno> {
    for name in top_entries(root)? {
        let Ok(name) = name.into_string() else {
            continue;
        };
        if name.starts_with(HOST_PREFIX) || files.has_top_name(&name) {
            continue;
        }
        match rustix::fs::readlinkat(root, name.as_str(), Vec::new()) {
            Ok(found) if found.to_bytes() == top_target(&name).as_bytes() => {}
            _ => continue,
        }
        match rustix::fs::unlinkat(root, name.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The target of the link of a name at the top.
fn top_target(name: &str) -> String {
    format!("{DATA}/{name}")
}

/// Puts a link in the place of any existing entry, so that the name is never missing in between.
fn put_link(root: &OwnedFd, name: &str, target: &str) -> Result<(), Errno> {
    let aside = fresh_name()?;
    rustix::fs::symlinkat(target, root, aside.as_str())?;
    match rustix::fs::renameat(root, aside.as_str(), root, name) {
        Err(Errno::ISDIR) => {
            // A directory that a pod made: it becomes a leftover, which the next swap removes.
            rustix::fs::renameat(root, name, root, fresh_name()?.as_str())?;
            rustix::fs::renameat(root, aside.as_str(), root, name)
        }
        done => done,
    }
}

/// All names at the top.
fn top_entries(root: &OwnedFd) -> Result<Vec<CString>, Errno> {
    names(open_confined(root, ".", DIRECTORY)?)
}

/// A reserved name at the top that does not exist yet.
fn fresh_name() -> Result<String, Errno> {
    let mut bytes = [0; 8];
    // Requests of up to 256 bytes are never short (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(format!("{HOST_PREFIX}{:016x}", u64::from_ne_bytes(bytes)))
}

fn failed(operation: &'static str) -> impl Fn(Errno) -> MountError {
    move |errno| kernel(operation, WHAT, errno)
}

#[cfg(test)]
mod tests;
