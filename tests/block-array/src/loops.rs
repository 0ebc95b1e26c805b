//! Loop devices over the files of volumes, by losetup(8).

use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;

/// Makes a device of a file; its path.
pub(crate) fn attach(file: &Path) -> Result<String, Failure> {
    let mut attach = losetup(&["--find", "--show"]);
    command::read(attach.arg(file)).map(|device| device.trim().to_owned())
}

/// Ends the devices of a file.
pub(crate) fn detach(file: &Path) -> Result<(), Failure> {
    each(file, "--detach")
}

/// Ends the devices of all files in a directory.
pub(crate) fn detach_all(directory: &Path) -> Result<(), Failure> {
    let files = files::entries(directory)?;
    files.iter().try_for_each(|file| detach(file))
}

/// Has the devices of a file take over its size.
pub(crate) fn grow(file: &Path) -> Result<(), Failure> {
    each(file, "--set-capacity")
}

fn each(file: &Path, action: &str) -> Result<(), Failure> {
    let mut list = losetup(&["--list", "--noheadings", "--output", "NAME", "--associated"]);
    for device in command::read(list.arg(file))?.lines() {
        command::read(&mut losetup(&[action, device.trim()]))?;
    }
    Ok(())
}

fn losetup(arguments: &[&str]) -> Command {
    let mut command = Command::new("losetup");
    command.args(arguments);
    command
}
