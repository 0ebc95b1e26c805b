//! Which controllers of NVMe the mounter connected: only those are ever disconnected by it.
//!
//! A file for each, in the state directory, so that a lost run directory leaves none: its folder is named for the subsystem, the file for the address.
//! From before the connect it has the id of the boot, and afterwards also the number of the controller's directory in sysfs, which the kernel does not
//! use again until the next boot. If the mounter is killed in between, a controller that is there is taken for its own. Nothing is synced: a record ends
//! with its boot.

use crate::sysfs::entries;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The directory in the state directory.
const DIRECTORY: &str = "nvme";
/// The id of the boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The records.
#[derive(Debug)]
pub(crate) struct Connections {
    directory: PathBuf,
    boot: String,
}

/// Whose a controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The mounter connected it.
    Own,
    /// The mounter intended to.
    Intended,
    /// Another program did.
    Other,
}

impl Connections {
    /// Records in this state directory, without those of earlier boots.
    pub(crate) fn new(state_dir: &Path) -> Self {
        // It exists wherever /proc is mounted, without which nothing can be mounted either.
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
        Self::of_boot(state_dir, boot.trim())
    }

    fn of_boot(state_dir: &Path, boot: &str) -> Self {
        let connections = Self {
            directory: state_dir.join(DIRECTORY),
            boot: boot.to_owned(),
        };
        for (subsystem, addresses) in connections.all() {
            for address in addresses {
                let record = fs::read_to_string(connections.file(&subsystem, address));
                if !record.is_ok_and(|it| it.starts_with(boot)) {
                    // One that stays means nothing either.
                    let _ = connections.forget(&subsystem, address);
                }
            }
        }
        connections
    }

    /// Before a connect.
    pub(crate) fn intend(&self, subsystem: &str, address: SocketAddr) -> io::Result<()> {
        let file = self.file(subsystem, address);
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(file, &self.boot)
    }

    /// After it. The number is added to what is there, by one write: a mounter that is killed at any moment leaves the intention, or all of it. An empty
    /// record would make the controller somebody else's.
    pub(crate) fn done(
        &self,
        subsystem: &str,
        address: SocketAddr,
        controller: u64,
    ) -> io::Result<()> {
        let file = self.file(subsystem, address);
        let mut record = OpenOptions::new().append(true).open(file)?;
        record.write_all(suffix(controller).as_bytes())
    }

    /// Forgets a controller that is gone, or another program's.
    pub(crate) fn forget(&self, subsystem: &str, address: SocketAddr) -> io::Result<()> {
        let file = self.file(subsystem, address);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // With the last one. Others are no error.
        let _ = file.parent().map(fs::remove_dir);
        Ok(())
    }

    /// All subsystems with records, and the addresses of these.
    pub(crate) fn all(&self) -> Vec<(String, Vec<SocketAddr>)> {
        let subsystems = entries(&self.directory).map(|subsystem| {
            let addresses = entries(&self.directory.join(&subsystem));
            let addresses = addresses.filter_map(|address| address.parse().ok());
            (subsystem, addresses.collect())
        });
        subsystems.collect()
    }

    /// Whose the controller with this number is, which is at the address now.
    pub(crate) fn whose(&self, subsystem: &str, address: SocketAddr, controller: u64) -> Whose {
        match fs::read_to_string(self.file(subsystem, address)) {
            Ok(text) if text == self.boot => Whose::Intended,
            Ok(text) if text == self.record(controller) => Whose::Own,
            _ => Whose::Other,
        }
    }

    fn record(&self, controller: u64) -> String {
        self.boot.clone() + &suffix(controller)
    }

    fn file(&self, subsystem: &str, address: SocketAddr) -> PathBuf {
        self.directory.join(subsystem).join(address.to_string())
    }
}

/// What a connect adds to the record of its intention.
fn suffix(controller: u64) -> String {
    format!(" {controller}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NQN: &str = "nqn.2010-06.com.acme:array";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_controller_is_own_from_its_connect_on() {
        let state = tempfile::tempdir().unwrap();
        let connections = Connections::new(state.path());
        let at = address("10.1.2.3:4420");
        assert_eq!(connections.whose(NQN, at, 7), Whose::Other);
        connections.intend(NQN, at).unwrap();
        assert_eq!(connections.whose(NQN, at, 7), Whose::Intended);
        connections.done(NQN, at, 7).unwrap();
        // A new process.
        let connections = Connections::new(state.path());
        assert_eq!(connections.whose(NQN, at, 7), Whose::Own);
        // The same address, connected by somebody else since.
        assert_eq!(connections.whose(NQN, at, 8), Whose::Other);
        let elsewhere = address("[fd00::1]:4420");
        assert_eq!(connections.whose(NQN, elsewhere, 7), Whose::Other);
        assert_eq!(connections.whose("nqn.b", at, 7), Whose::Other);
        // After a reboot, as long as a record could not be removed.
        let connections = Connections {
            boot: "another".to_owned(),
            ..connections
        };
        assert_eq!(connections.whose(NQN, at, 7), Whose::Other);
    }

    #[test]
    fn records_of_earlier_boots_are_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let connections = Connections::of_boot(state.path(), "one");
        let (kept, cut) = (address("10.1.2.3:4420"), address("10.1.2.4:4420"));
        for at in [kept, cut] {
            connections.intend(NQN, at).unwrap();
        }
        connections.done(NQN, kept, 1).unwrap();
        // What a power cut can leave of a file.
        fs::write(connections.file(NQN, cut), "").unwrap();
        let again = Connections::of_boot(state.path(), "one");
        assert_eq!(again.all(), [(NQN.to_owned(), vec![kept])]);
        assert_eq!(Connections::of_boot(state.path(), "two").all(), []);
    }

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let connections = Connections::new(state.path());
        let (one, two) = (address("10.1.2.3:4420"), address("10.1.2.4:4420"));
        for at in [one, two] {
            connections.intend(NQN, at).unwrap();
        }
        connections.done(NQN, two, 2).unwrap();
        connections.forget(NQN, one).unwrap();
        assert_eq!(connections.all(), [(NQN.to_owned(), vec![two])]);
        assert_eq!(connections.whose(NQN, two, 2), Whose::Own);
        connections.forget(NQN, two).unwrap();
        connections.forget(NQN, two).unwrap();
        assert_eq!(
            fs::read_dir(state.path().join(DIRECTORY)).unwrap().count(),
            0
        );
        assert_eq!(connections.all(), []);
    }
}
