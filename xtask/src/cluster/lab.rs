//! The directory of a cluster, and its leftovers on the machine that do not end with a namespace: control groups, loop devices.
//!
//! The first process of a cluster holds the lock of its directory; a directory with a free lock is a leftover.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::loop_devices;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The mount point of control groups, of both versions.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// The hierarchies of version 1 that kubelet uses.
const HIERARCHIES: [&str; 9] = [
    "cpu", "cpuacct", "cpuset", "memory", "pids", "systemd", "devices", "freezer", "blkio",
];

/// How long a control group may stay busy after its last process was killed.
const BUSY: Duration = Duration::from_secs(20);

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(50);

/// Directories of the machine that a cluster replaces by its own: their content is hidden inside.
const HIDDEN: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// A cluster's directory.
#[derive(Debug, Clone)]
pub struct Lab {
    root: PathBuf,
}

impl Lab {
    /// The lab in that directory; it must not be below a directory that the cluster replaces.
    pub fn at(root: &Path) -> Result<Self, Failure> {
        let hidden = HIDDEN.iter().find(|it| root.starts_with(it));
        match hidden {
            None => Ok(Self {
                root: root.to_owned(),
            }),
            Some(hidden) => Err(Failure::Unexpected(format!(
                "{} cannot be the directory of a cluster, which has a {hidden} of its own: set TMPDIR to another",
                root.display()
            ))),
        }
    }

    /// Creates the directories that must exist before anything runs.
    pub(super) fn create(&self) -> Result<(), Failure> {
        for directory in ["log", "lib/kubelet", "lib/cni", "cni"] {
            files::create_directory(&self.root.join(directory))?;
        }
        Ok(())
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory that is /var/lib inside.
    pub fn lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// The directory that is /var/log inside.
    pub fn logs(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The log of a process that runs inside.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// The supervisor's socket.
    pub(super) fn control(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// The name of its control groups: no two clusters share one.
    pub fn control_group(&self) -> String {
        let path = self.root.as_os_str().as_encoded_bytes();
        let digest = <sha2::Sha256 as sha2::Digest>::digest(path);
        format!("wasmount-{}", crate::tools::hexadecimal(&digest))
    }

    /// Whether a cluster runs in it: the first process of a cluster holds its lock.
    pub fn is_used(&self) -> bool {
        self.root.join("lock").exists() && !files::is_leftover(&self.root)
    }

    /// Removes the leftovers of a cluster that has ended; nothing if one runs, or none was there.
    pub fn clean(&self) -> Result<(), Failure> {
        if !self.root.exists() || self.is_used() {
            return Ok(());
        }
        self.detach_loop_devices()?;
        for group in self.control_groups() {
            remove_group(&group)?;
        }
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Failure::cannot(format!("remove {}", self.root.display()))),
        }
    }

    /// Creates its control groups, in every hierarchy that kubelet uses.
    pub(super) fn make_control_groups(&self) -> Result<(), Failure> {
        let top = Path::new(CONTROL_GROUPS);
        let unified = top.join("cgroup.controllers").exists();
        let hierarchies = match unified {
            true => vec![top.to_owned()],
            false => HIERARCHIES.map(|it| top.join(it)).to_vec(),
        };
        for hierarchy in hierarchies.iter().filter(|it| it.is_dir()) {
            files::create_directory(&hierarchy.join(self.control_group()))?;
        }
        Ok(())
    }

    /// Its existing control groups.
    fn control_groups(&self) -> Vec<PathBuf> {
        let top = Path::new(CONTROL_GROUPS);
        let hierarchies = files::entries(top).unwrap_or_default();
        hierarchies
            .into_iter()
            .chain([top.to_owned()])
            .map(|it| it.join(self.control_group()))
            .filter(|it| it.is_dir())
            .collect()
    }

    /// The files behind loop devices have paths of namespaces that do not exist any more: they are identified by their inodes.
    fn detach_loop_devices(&self) -> Result<(), Failure> {
        let files = inodes(&self.root);
        for device in loop_devices_over(&files, None)? {
            let is_ours = || Ok(!loop_devices_over(&files, Some(&device))?.is_empty());
            loop_devices::detach(Path::new(&device), is_ours)?;
        }
        Ok(())
    }
}

/// Device and inode of every regular file below a directory.
fn inodes(directory: &Path) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for path in files::entries(directory).unwrap_or_default() {
        // The entry itself, not the target of a link.
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            found.extend(inodes(&path));
        } else if metadata.is_file() {
            let device = metadata.dev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            found.insert((format!("{major}:{minor}"), metadata.ino()));
        }
    }
    found
}

/// The loop devices over these files: all of them, or this one if it is.
fn loop_devices_over(
    files: &BTreeSet<(String, u64)>,
    device: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let mut list = Command::new("losetup");
    list.args(["--list", "--json", "--output", "NAME,BACK-INO,BACK-MAJ:MIN"]);
    let table = command::read(list.args(device))?;
    Ok(devices_of(&table, files))
}

/// The loop devices over these files, from the output of `losetup --list --json` (empty if there is no device).
fn devices_of(table: &str, files: &BTreeSet<(String, u64)>) -> Vec<String> {
    let table: Value = serde_json::from_str(table).unwrap_or_default();
    let rows = table.get("loopdevices").and_then(Value::as_array);
    rows.into_iter()
        .flatten()
        .filter_map(|row| {
            let file = row.get("back-maj:min")?.as_str()?.trim();
            let inode = row.get("back-ino")?.as_u64()?;
            let ours = files.contains(&(file.to_owned(), inode));
            ours.then(|| Some(row.get("name")?.as_str()?.to_owned()))?
        })
        .collect()
}

/// Removes a control group and its children, as soon as the kernel permits it.
fn remove_group(group: &Path) -> Result<(), Failure> {
    let children = files::entries(group).unwrap_or_default();
    for child in children.iter().filter(|it| it.is_dir()) {
        remove_group(child)?;
    }
    let start = Instant::now();
    loop {
        match fs::remove_dir(group) {
            // Another process removes the same leftovers, or two hierarchies are one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if start.elapsed() < BUSY => thread::sleep(AGAIN),
            removed => {
                return removed.map_err(Failure::cannot(format!("remove {}", group.display())));
            }
        }
    }
}

/// Removes the leftovers of crashed clusters in directories with this prefix.
pub(super) fn sweep(parent: &Path, prefix: &str) -> Result<(), Failure> {
    for path in files::entries(parent)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A directory without a lock is still being created.
        if name.starts_with(prefix) && files::is_leftover(&path) {
            Lab::at(&path)?.clean()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loop_devices_over_files_of_the_cluster_are_its_own() {
        let table = r#"{"loopdevices": [
            {"name": "/dev/loop0", "back-ino": 7, "back-maj:min": "254:0"},
            {"name": "/dev/loop1", "back-ino": 7, "back-maj:min": " 8:1"},
            {"name": "/dev/loop2", "back-ino": 8, "back-maj:min": "254:0"}
        ]}"#;
        let files = BTreeSet::from([("254:0".to_owned(), 7), ("8:1".to_owned(), 9)]);
        assert_eq!(devices_of(table, &files), ["/dev/loop0"]);
        assert!(devices_of("", &files).is_empty());
    }

    #[test]
    fn a_file_is_found_by_its_inode_wherever_it_lies() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("deep")).unwrap();
        let file = directory.path().join("deep/image");
        fs::write(&file, "").unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        let found = inodes(directory.path());
        assert_eq!(found.iter().map(|it| it.1).collect::<Vec<_>>(), [inode]);
    }

    #[test]
    fn a_directory_that_the_cluster_hides_is_refused() {
        Lab::at(Path::new("/var/lib/cluster")).unwrap_err();
        Lab::at(Path::new("/var/library")).unwrap();
    }

    #[test]
    fn a_cluster_that_runs_is_not_taken_away_and_what_one_left_is() {
        let parent = tempfile::tempdir().unwrap();
        let lab = Lab::at(&parent.path().join("cluster-1")).unwrap();
        lab.create().unwrap();
        let lock = files::hold(lab.root()).unwrap();
        sweep(parent.path(), "cluster-").unwrap();
        assert!(lab.root().exists());
        drop(lock);
        sweep(parent.path(), "other-").unwrap();
        assert!(lab.root().exists());
        sweep(parent.path(), "cluster-").unwrap();
        assert!(!lab.root().exists());
    }
}
