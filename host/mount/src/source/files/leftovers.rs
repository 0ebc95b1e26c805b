//! Removes what no reader needs from a volume of files: generations that are not in force, and what a killed swap left.
//!
//! It is apart because it deletes. It knows its own by the name at the top, which no file of a plugin's can have. A pod may have made what
//! is there, as deep as it liked, so a directory is removed flat: what lies in it and is not empty is moved to the top first.

use super::{DATA, DIRECTORY, entries, fresh_name, top_entries};
use crate::confine::{open_confined, remove_empty};
use crate::plan::files::HOST_PREFIX;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

/// How often a directory is emptied that somebody still writes into.
const PASSES: usize = 4;

/// Removes everything of the host's own at the top but `..data` and the generation that it leads to.
pub(super) fn remove(root: &OwnedFd, in_force: Option<&str>) -> Result<(), Errno> {
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

/// What could not be removed for what lies in it is moved to the top and waits.
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
        for inner in entries(&directory)? {
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
