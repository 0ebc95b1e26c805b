//! Loop devices of this machine, from sysfs, by the file behind each.

use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;

/// Block devices of the kernel.
const DEVICES: &str = "/sys/block";

/// Names such as `loop7`, in order, of the devices with a backing file that is, or was, below a directory.
pub fn backed_below(directory: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(DEVICES).map_err(Failure::cannot(format!("list {DEVICES}")))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Failure::cannot(format!("list {DEVICES}")))?;
        // Absent if the device has no backing file, and for all other devices.
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        let is_below = |backing: String| Path::new(backing.trim_end()).starts_with(directory);
        if backing.is_ok_and(is_below) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The backing files of all loop devices, as the kernel names them.
pub fn backing_files() -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(DEVICES).map_err(Failure::cannot(format!("list {DEVICES}")))?;
    let backing = |entry: fs::DirEntry| entry.path().join("loop/backing_file");
    // Absent if the device has no backing file, and for all other devices.
    let files = entries.flatten().map(backing).flat_map(fs::read_to_string);
    Ok(files.map(|file| file.trim_end().to_owned()).collect())
}

/// Detaches them from their files, as a power cut does.
pub fn detach_below(directory: &Path) -> Result<(), Failure> {
    for name in backed_below(directory)? {
        let device = Path::new("/dev").join(name);
        // A device that detaches itself may be gone by now.
        let detached = command::read(Command::new("losetup").arg("--detach").arg(&device));
        if let Err(failure) = detached
            && backed_below(directory)?
                .iter()
                .any(|it| device.ends_with(it))
        {
            return Err(failure);
        }
    }
    Ok(())
}
