//! Loop devices of this machine, from sysfs, by the file behind each.

use std::fs;
use std::io;
use std::path::Path;
use xtask::failure::Failure;
use xtask::files;
use xtask::loop_devices;

/// Block devices of the kernel.
const DEVICES: &str = "/sys/block";

/// Names such as `loop7`, in order, of the devices with a backing file that is, or was, below a directory.
pub fn backed_below(directory: &Path) -> Result<Vec<String>, Failure> {
    let mut devices = files::entries(Path::new(DEVICES))?;
    devices.retain(|device| is_backed_below(device, directory));
    let names = devices.iter().filter_map(|device| device.file_name());
    Ok(names.map(|it| it.to_string_lossy().into_owned()).collect())
}

/// The backing files of all loop devices, as the kernel names them.
pub fn backing_files() -> Result<Vec<String>, Failure> {
    let devices = files::entries(Path::new(DEVICES))?;
    let files = devices.iter().flat_map(|device| backing_file(device));
    Ok(files.map(|file| file.trim_end().to_owned()).collect())
}

/// Detaches them from their files, as a power cut does.
pub fn detach_below(directory: &Path) -> Result<(), Failure> {
    for name in backed_below(directory)? {
        let in_sysfs = Path::new(DEVICES).join(&name);
        let is_meant = || Ok(is_backed_below(&in_sysfs, directory));
        loop_devices::detach(&Path::new("/dev").join(&name), is_meant)?;
    }
    Ok(())
}

fn is_backed_below(device: &Path, directory: &Path) -> bool {
    backing_file(device).is_ok_and(|file| Path::new(file.trim_end()).starts_with(directory))
}

/// An error if the device has no backing file, and for all other devices.
fn backing_file(device: &Path) -> io::Result<String> {
    fs::read_to_string(device.join("loop/backing_file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::needs_root;
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};
    use xtask::command;

    /// Until programs that look through all devices have closed one.
    const CLOSED: Duration = Duration::from_secs(20);

    /// Between two looks.
    const LOOK: Duration = Duration::from_millis(10);

    fn attach(file: &Path) -> String {
        fs::write(file, [0; 4096]).unwrap();
        let mut attach = Command::new("losetup");
        let device = command::read(attach.args(["--find", "--show"]).arg(file)).unwrap();
        device.trim().to_owned()
    }

    fn wait_until_none_is_below(directory: &Path) {
        let start = Instant::now();
        while !backed_below(directory).unwrap().is_empty() {
            assert!(start.elapsed() < CLOSED, "{}", directory.display());
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn privileged_a_device_of_a_directory_is_detached() {
        needs_root();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let device = attach(&path.join("file"));
        let name = device.trim_start_matches("/dev/").to_owned();
        assert_eq!(backed_below(&path).unwrap(), [name]);
        detach_below(&path).unwrap();
        wait_until_none_is_below(&path);
    }

    #[test]
    fn privileged_a_device_that_another_one_has_now_stays() {
        needs_root();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let device = attach(&path.join("file"));
        loop_devices::detach(Path::new(&device), || Ok(false)).unwrap();
        assert_eq!(backed_below(&path).unwrap().len(), 1);
        // A program that looks through all devices delays the detach, and nobody gets the device meanwhile.
        let held = fs::File::open(&device).unwrap();
        detach_below(&path).unwrap();
        assert_eq!(backed_below(&path).unwrap().len(), 1);
        drop(held);
        wait_until_none_is_below(&path);
    }
}
