//! What a host must not leave behind once every volume is torn down: mounts, targets, loop devices, journal entries, half-written files, pool trees.

use crate::host::Host;
use crate::loop_devices;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use xtask::failure::Failure;
use xtask::files;
use xtask::mountinfo;

/// The host's own directory in a pool.
const POOL_FOLDER: &str = ".wasmount";

/// Directories in there that must be empty: for content that is being deleted or created.
const POOL_WORK: [&str; 2] = ["trash", "unfinished"];

/// The directory below the data directory with one file for each volume: what the node must know after a reboot.
const RECORDS: &str = "mounts";

/// Files that exist only while something is being written.
const HALF_WRITTEN: [&str; 3] = ["aside", "quarantined", "new"];

/// Time limit for a pool's trash, which is emptied in the background after a kill.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// Messages about everything that is left; waits for background work. `pool` is the directory of the only pool, which must exist.
pub fn left_behind(host: &Host, pool: &Path) -> Result<Vec<String>, Failure> {
    left(host, Some(pool))
}

/// The same for a host without a pool.
pub fn left_without_pool(host: &Host) -> Result<Vec<String>, Failure> {
    left(host, None)
}

fn left(host: &Host, pool: Option<&Path>) -> Result<Vec<String>, Failure> {
    let start = Instant::now();
    loop {
        let found = look(host, pool)?;
        if found.is_empty() || start.elapsed() > PATIENCE {
            return Ok(found);
        }
        thread::sleep(LOOK);
    }
}

/// The pool of plugins/directory in its own document.
pub fn directory_pool(host: &Host) -> PathBuf {
    host.mount_data().join("pools/directory")
}

/// The pool of plugins/hostpath in its own document.
pub fn hostpath_pool(host: &Host) -> PathBuf {
    host.mount_data().join("pools/hostpath")
}

/// The pool of plugins/local-images in its own document.
pub fn local_images_pool(host: &Host) -> PathBuf {
    host.mount_data().join("pools/local-images")
}

fn look(host: &Host, pool: Option<&Path>) -> Result<Vec<String>, Failure> {
    let kubelet = host.kubelet();
    let real = kubelet
        .canonicalize()
        .map_err(Failure::cannot(format!("resolve {}", kubelet.display())))?;
    let mut found: Vec<String> = Vec::new();
    found.extend(
        mountinfo::mounts_below(&real)?
            .into_iter()
            .map(say("mounted")),
    );
    let targets = below(&real.join("pods"))?;
    let targets = targets.into_iter().filter(|path| path.ends_with("mount"));
    found.extend(targets.map(say("target")));
    found.extend(
        below(&host.run())?
            .into_iter()
            .filter(|path| !path.is_dir())
            .map(say("journal")),
    );
    found.extend(
        below(&host.mount_data().join(RECORDS))?
            .into_iter()
            .filter(|path| !path.is_dir())
            .map(|path| {
                let record = fs::read_to_string(&path).unwrap_or_default();
                format!("record of a volume: {}: {record}", path.display())
            }),
    );
    let data = [below(&host.data())?, below(&host.mount_data())?].concat();
    let half = data.into_iter().filter(|path| {
        path.extension()
            .is_some_and(|end| HALF_WRITTEN.iter().any(|it| *it == end))
    });
    found.extend(half.map(say("half-written")));
    if let Some(pool) = pool {
        found.extend(left_in(pool)?);
    }
    Ok(found)
}

fn left_in(pool: &Path) -> Result<Vec<String>, Failure> {
    // In a wrong place nothing would be found.
    if !pool.is_dir() {
        return Ok(vec![format!("there is no pool at {}", pool.display())]);
    }
    let mut found = Vec::new();
    found.extend(
        loop_devices::backed_below(pool)?
            .into_iter()
            .map(|device| format!("loop device: {device}")),
    );
    let trees = entries(pool)?.into_iter();
    let trees = trees.filter(|path| !path.ends_with(POOL_FOLDER));
    found.extend(trees.map(say("in the pool")));
    for folder in POOL_WORK {
        found.extend(
            entries(&pool.join(POOL_FOLDER).join(folder))?
                .into_iter()
                .map(say("in the pool's folder")),
        );
    }
    Ok(found)
}

/// What makes a message of a path.
fn say(what: &'static str) -> impl Fn(PathBuf) -> String {
    move |path| format!("{what}: {}", path.display())
}

/// All entries below a directory, without following links; entries that are removed meanwhile are left out.
pub fn below(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in entries(directory)? {
        let is_directory = fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir());
        if is_directory {
            found.extend(below(&path)?);
        }
        found.push(path);
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    match files::entries(directory) {
        Err(_) if !directory.exists() => Ok(Vec::new()),
        listed => listed,
    }
}
