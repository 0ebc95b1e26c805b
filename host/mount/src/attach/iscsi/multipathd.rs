//! The node's multipathd, which joins the paths to a disk in a map, and changes and removes the map when it is asked.
//!
//! What sysfs shows afterwards counts, and not its answer. The mounter makes and removes no map itself: that takes semaphores of udev, which a container
//! does not share with the node.

use super::Sessions;
use super::scsi::Scsi;
use crate::attach::{Owner, PAUSE, flush_unused};
use crate::block::multipath::{Map, identifier};
use crate::plan::attach::IscsiDisk;
use crate::tools::ToolOutput;
use std::fmt::Display;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

const PROGRAM: &str = "multipathd";
/// How long a question may take. The program itself gives up after 4 s (multipath.conf(5), `uxsock_timeout`).
const DEADLINE: Duration = Duration::from_secs(10);
/// How long multipathd may take to join paths, or to change or remove a map. It takes some 100 ms once udev knows the disks, and seconds on a busy node.
const CHANGE_TIME: Duration = Duration::from_secs(20);
/// Interval between two requests for the same change. multipathd may notice new disks by itself meanwhile.
const ASK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between two looks at the paths of a disk for which something waits.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a teardown waits for a lost path to return. A session is repaired within some seconds after a short fault of the network.
const RETURN_TIME: Duration = Duration::from_secs(10);

/// multipathd, asked about one disk.
pub(super) struct Multipathd<'a> {
    owner: &'a Owner<'a>,
    scsi: &'a Scsi,
    /// The disk for messages.
    disk: String,
}

impl<'a> Multipathd<'a> {
    pub(super) fn new(sessions: &'a Sessions<'_>, disk: impl Display) -> Self {
        let Sessions { owner, scsi } = sessions;
        let disk = format!("disk {disk}");
        Self { owner, scsi, disk }
    }

    /// Joins paths to a disk whose identity was compared on each, by the kernel's names of their devices.
    pub(super) fn join(&self, disk: &IscsiDisk, paths: &[String]) -> Result<(), MountError> {
        let end = Instant::now() + CHANGE_TIME;
        let mut next_request = Instant::now() + ASK_INTERVAL;
        let mut said = "it was not asked".to_owned();
        let joined = loop {
            let map = self.scsi.map(&disk.wwid);
            let found = map.as_ref().map(Map::paths).unwrap_or_default();
            let missing: Vec<_> = paths.iter().filter(|it| !found.contains(it)).collect();
            let joined = paths.len() - missing.len();
            if missing.is_empty() || Instant::now() >= end {
                break joined;
            }
            if Instant::now() >= next_request {
                for path in missing {
                    said = self.ask(&["add", "path", path])?.excerpt();
                }
                // It makes no map of a disk that it does not know, or that has one path (multipath.conf(5), `find_multipaths`), unless it is told to.
                if let (None, Some(identifier)) = (map, identifier(&disk.wwid)) {
                    said = self.ask(&["add", "map", &identifier])?.excerpt();
                }
                next_request = Instant::now() + ASK_INTERVAL;
            }
            std::thread::sleep(PAUSE);
        };
        if joined < disk.minimum_paths {
            let seconds = CHANGE_TIME.as_secs();
            let reason = format!(
                "multipathd has joined {joined} of {} paths in {seconds} s, and at least {} are wanted; look whether `blacklist` of /etc/multipath.conf has the disk, and at the log of multipathd; {said}",
                paths.len(),
                disk.minimum_paths
            );
            return Err(MountError::unusable(&self.disk, reason));
        }
        self.remove_strangers(disk, paths)
    }

    /// Takes paths out of the map that lead to another disk by now, or do not tell: those of sessions that nobody ended.
    fn remove_strangers(&self, disk: &IscsiDisk, known: &[String]) -> Result<(), MountError> {
        let map = self.scsi.map(&disk.wwid);
        let found = map.as_ref().map(Map::paths).unwrap_or_default();
        for path in found.iter().filter(|it| !known.contains(it)) {
            if !self.scsi.leads_to(path, &disk.wwid) {
                tracing::warn!(disk = self.disk, %path, "a path that leads to another disk, or nowhere, is taken out of the multipath map");
                self.leave(path)?;
            }
        }
        Ok(())
    }

    /// Takes a path out of its map. A map without another path is removed, if nobody uses it.
    pub(super) fn leave(&self, path: &str) -> Result<(), MountError> {
        let Some(map) = self.scsi.map_on(path) else {
            return Ok(());
        };
        if map.paths() == [path] {
            self.remove(&map)?;
            // Else it might make the map again.
            self.ask(&["del", "path", path]).map(drop)
        } else {
            self.ask_until(&["del", "path", path], || self.scsi.map_on(path).is_none())
        }
    }

    /// Removes a map that nobody uses. What was written to it is written out before.
    pub(super) fn remove(&self, map: &Map) -> Result<(), MountError> {
        let (Some(name), Some(number)) = (map.name(), map.number()) else {
            return Ok(());
        };
        self.bounded(map, || {
            flush_unused(number, &self.disk)?;
            // udev may look at the map, and its request waits for a path, too.
            self.ask_until(&["del", "map", &name], || !map.exists())
        })
    }

    /// Gives a map the size of its paths.
    pub(super) fn resize(&self, map: &Map) -> Result<(), MountError> {
        let Some(name) = map.name() else {
            return Ok(());
        };
        self.ask_until(&["resize", "map", &name], || map.has_size_of_paths())
    }

    /// Does work that may wait for the disk. While it has no path, the administrator may have requests wait without end (multipath.conf(5),
    /// `no_path_retry`); then those that wait fail after a while.
    pub(super) fn bounded<T>(&self, map: &Map, work: impl FnOnce() -> T) -> T {
        let (working, ended) = channel::<()>();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("multipath-watch".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, move || self.watch(map, &ended)) {
                tracing::warn!(disk = self.disk, %error, "the paths of a disk are not watched: this call may wait for them without limit");
            }
            let done = work();
            drop(working);
            done
        })
    }

    fn watch(&self, map: &Map, ended: &Receiver<()>) {
        let Some(name) = map.name() else {
            return;
        };
        let mut seen = Instant::now();
        let mut is_failing = false;
        while ended.recv_timeout(WATCH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if self.has_path(&name) {
                seen = Instant::now();
            } else if seen.elapsed() >= RETURN_TIME {
                if !is_failing {
                    let seconds = RETURN_TIME.as_secs();
                    tracing::error!(
                        disk = self.disk,
                        "the disk has had no path for {seconds} s during its teardown, so requests that wait for one fail; what was not written yet is lost"
                    );
                }
                is_failing = true;
                let _ = self.ask(&["disablequeueing", "map", &name]);
            }
        }
        if is_failing && map.exists() {
            let _ = self.ask(&["restorequeueing", "map", &name]);
        }
    }

    /// Whether a path carries requests of a map. If multipathd does not tell, it has.
    fn has_path(&self, map: &str) -> bool {
        let Ok(output) = self.ask(&["show", "paths", "raw", "format", "%m %t"]) else {
            return true;
        };
        output.status != 0 || has_active(&String::from_utf8_lossy(&output.stdout), map)
    }

    /// Asks for a change until it is made.
    fn ask_until(&self, words: &[&str], is_made: impl Fn() -> bool) -> Result<(), MountError> {
        let end = Instant::now() + CHANGE_TIME;
        while !is_made() {
            let said = self.ask(words)?.excerpt();
            let next = Instant::now() + ASK_INTERVAL;
            while !is_made() && Instant::now() < next {
                std::thread::sleep(PAUSE);
            }
            if !is_made() && Instant::now() >= end {
                let text = format!(
                    "`{}` has had no effect for {} s; look at `multipathd show topology` and at its log, and start it if it does not run (`systemctl enable --now multipathd`); {said}",
                    words.join(" "),
                    CHANGE_TIME.as_secs()
                );
                return Err(MountError::tool(PROGRAM, &self.disk, text));
            }
        }
        Ok(())
    }

    fn ask(&self, words: &[&str]) -> Result<ToolOutput, MountError> {
        let disk = self.disk.clone();
        let call = self.owner.node_program(PROGRAM, words, disk, DEADLINE);
        call.run()
    }
}

/// Whether a map has a path to which device mapper sends requests: lines of `show paths raw format "%m %t"`.
fn has_active(paths: &str, map: &str) -> bool {
    paths.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(map) && words.next() == Some("active")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_counts_if_it_is_active_in_its_map() {
        let paths = "mpatha failed\nmpathb active\n[orphan] undef\n3600 active\n";
        assert!(has_active(paths, "mpathb") && has_active(paths, "3600"));
        assert!(!has_active(paths, "mpatha") && !has_active(paths, "mpath"));
        assert!(!has_active("", "mpatha"));
    }
}
