//! Detaches loop devices of this machine, and none of somebody else.

use crate::command;
use crate::failure::Failure;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Detaches a loop device if it is still the one that is meant. The kernel gives a released device to the next one who asks, and releases none that is
/// open (loop(4)). So the device is open from before `is_meant` until it is detached.
pub fn detach(
    device: &Path,
    is_meant: impl FnOnce() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    // A device that cannot be opened is being released.
    let Ok(_held) = File::open(device) else {
        return Ok(());
    };
    if is_meant()? {
        command::read(Command::new("losetup").arg("--detach").arg(device))?;
    }
    Ok(())
}
