//! The node's udev and multipathd, which run while a test joins paths.

use super::target::entries;
use crate::support::{run, until};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What the administrator chose: requests wait for a path without end.
const CONFIGURATION: &str = r#"
defaults {
  polling_interval 1
  max_polling_interval 1
  find_multipaths FIND
}
overrides {
  no_path_retry queue
  fast_io_fail_tmo 2
}
blacklist {
  devnode "^(loop|ubd|nvme)"
}
"#;

/// Running daemons.
pub(crate) struct Daemons {
    multipathd: Child,
    udevd: Child,
}

impl Daemons {
    /// Starts them. `find_multipaths` says of which disks multipathd makes maps by itself: of none that it does not know (`strict`), or of all (`greedy`).
    pub(crate) fn start(find_multipaths: &str) -> Self {
        let modules = ["-a", "dm-multipath", "dm-service-time", "dm-round-robin"];
        run("modprobe", &modules);
        let configuration = CONFIGURATION.replace("FIND", find_multipaths);
        fs::write("/etc/multipath.conf", configuration).unwrap();
        let udevd = start("/lib/systemd/systemd-udevd", &[]);
        until("udevd answers", || {
            answers("udevadm", &["control", "--ping"])
        });
        let multipathd = start("multipathd", &["-d", "-v2"]);
        until("multipathd answers", || {
            answers("multipathd", &["show", "daemon"])
        });
        Self { multipathd, udevd }
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        let Self { multipathd, udevd } = self;
        // What udev asked of a map without paths would wait for ever.
        let _ = answers("multipathd", &["disablequeueing", "maps"]);
        // udev's database must not have disks that are gone.
        let _ = answers("udevadm", &["settle", "--timeout=60"]);
        let _ = multipathd.kill();
        let _ = multipathd.wait();
        let _ = answers("udevadm", &["control", "--exit"]);
        let _ = udevd.kill();
        let _ = udevd.wait();
        // Where libdevmapper would wait for udev.
        let _ = fs::remove_file("/run/udev/control");
        // What multipathd knows of disks.
        let _ = fs::remove_dir_all("/etc/multipath");
    }
}

/// The kernel's names of the multipath maps.
pub(crate) fn maps() -> Vec<String> {
    let devices = entries(Path::new("/sys/class/block")).into_iter();
    let maps = devices.filter(|device| {
        let uuid = fs::read_to_string(device.join("dm/uuid"));
        uuid.is_ok_and(|uuid| uuid.starts_with("mpath-"))
    });
    maps.map(|map| map.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// The kernel's names of the paths of a map.
pub(crate) fn paths(map: &str) -> Vec<String> {
    let paths = entries(&Path::new("/sys/class/block").join(map).join("slaves"));
    let names = paths.iter().map(|path| path.file_name().unwrap());
    names.map(|it| it.to_str().unwrap().to_owned()).collect()
}

/// Removes all maps, once udev has looked at them.
pub(crate) fn remove_maps() {
    until("no map is left", || {
        answers("multipath", &["-F"]) && maps().is_empty()
    });
}

/// The states of all paths, as multipathd sees them.
pub(crate) fn states() -> Vec<String> {
    let shown = run("multipathd", &["show", "paths", "raw", "format", "%t"]);
    let mut states: Vec<_> = shown.split_whitespace().map(ToOwned::to_owned).collect();
    states.sort();
    states
}

fn start(program: &str, arguments: &[&str]) -> Child {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    child.unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|it| it.status.success())
}
