//! The node's udev and multipathd, in a VM: they run while a test joins paths.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use xtask::command;
use xtask::failure::Failure;
use xtask::files;

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

/// The kernel's modules, each before those that it needs.
const MODULES: [&str; 3] = ["dm-service-time", "dm-round-robin", "dm-multipath"];

/// How long something may take that a daemon does by itself, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Running daemons.
#[derive(Debug)]
pub struct Daemons {
    multipathd: Child,
    udevd: Child,
}

impl Daemons {
    /// Starts them. `find_multipaths` says of which disks multipathd makes maps by itself: of none that it does not know (`strict`), or of all (`greedy`).
    pub fn start(find_multipaths: &str) -> Result<Self, Failure> {
        command::run(Command::new("modprobe").arg("-a").args(MODULES))?;
        let configuration = CONFIGURATION.replace("FIND", find_multipaths);
        files::write(Path::new("/etc/multipath.conf"), configuration)?;
        let udevd = start("/lib/systemd/systemd-udevd", &[])?;
        until("udevd answers", || {
            answers("udevadm", &["control", "--ping"])
        })?;
        let multipathd = start("multipathd", &["-d", "-v2"])?;
        let daemons = Self { multipathd, udevd };
        until("multipathd answers", || {
            answers("multipathd", &["show", "daemon"])
        })?;
        Ok(daemons)
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
        // With them a host asks whether multipathd runs, which a VM without a network card cannot tell.
        let _ = answers("modprobe", &[&["-r"][..], &MODULES].concat());
    }
}

/// The kernel's names of the multipath maps.
pub fn maps() -> Vec<String> {
    let class = Path::new("/sys/class/block");
    let mut maps = names(class);
    maps.retain(|name| {
        let uuid = fs::read_to_string(class.join(name).join("dm/uuid"));
        uuid.is_ok_and(|uuid| uuid.starts_with("mpath-"))
    });
    maps
}

/// The kernel's names of the paths of a map.
pub fn paths(map: &str) -> Vec<String> {
    names(&Path::new("/sys/class/block").join(map).join("slaves"))
}

/// Removes all maps, once udev has looked at them.
pub fn remove_maps() -> Result<(), Failure> {
    until("no map is left", || {
        answers("multipath", &["-F"]) && maps().is_empty()
    })
}

/// The states of all paths, as multipathd sees them; none while it does not answer.
pub fn states() -> Vec<String> {
    let mut show = Command::new("multipathd");
    show.args(["show", "paths", "raw", "format", "%t"]);
    let shown = command::read(&mut show).unwrap_or_default();
    let mut states: Vec<_> = shown.split_whitespace().map(ToOwned::to_owned).collect();
    states.sort();
    states
}

fn names(directory: &Path) -> Vec<String> {
    let entries = files::entries(directory).unwrap_or_default();
    let names = entries.iter().filter_map(|entry| entry.file_name());
    names.map(|it| it.to_string_lossy().into_owned()).collect()
}

fn start(program: &str, arguments: &[&str]) -> Result<Child, Failure> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.spawn().map_err(command::cannot_start(&command))
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|it| it.status.success())
}

fn until(what: &str, is_so: impl Fn() -> bool) -> Result<(), Failure> {
    let end = Instant::now() + SOON;
    while !is_so() {
        if Instant::now() > end {
            return Err(Failure::Unexpected(format!("not within {SOON:?}: {what}")));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}
