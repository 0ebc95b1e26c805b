//! A real Cinder and its Keystone, and Nova if it is asked for, on a loopback address of their own: a process each, databases in files, volumes that are
//! sparse files. Everything is removed at the end. What they cannot show is a hypervisor and iSCSI.

mod account;
mod launch;
mod nova;
mod request;

pub use account::{Account, AccountOptions, Credential, TOKEN_PREFIX};
pub use request::Answer;

use crate::lasting_thread::on_lasting_thread;
use crate::loop_devices;
use launch::Launch;
use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use wasmount_core::mutex::lock;
use xtask::failure::Failure;
use xtask::process::Process;

/// Where `tests/python/openstack/file_driver.py` names the loop device of an attached volume, and how much of the volume's id the name has.
const BY_ID: &str = "/dev/disk/by-id";
const SERIAL_BYTES: usize = 20;

/// Lines of the log that a failed test shows: a few tracebacks of Python.
const SHOWN_ERRORS: usize = 60;

/// A running Cinder.
#[derive(Debug)]
pub struct Cinder {
    // Ended in this order, before the directory is removed.
    nova: Mutex<Option<Process>>,
    cinder: Process,
    keystone: Process,
    launch: Arc<Launch>,
}

impl Cinder {
    /// The one of all tests that run at the same time, each with an account of its own; it ends with the last of them.
    pub fn shared() -> Result<Arc<Self>, Failure> {
        static SHARED: Mutex<Weak<Cinder>> = Mutex::new(Weak::new());
        let mut shared = lock(&SHARED);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let running = Arc::new(on_lasting_thread(Cinder::start)?);
        *shared = Arc::downgrade(&running);
        Ok(running)
    }

    /// Starts one and waits until it listens. Call it on the thread of the test: the processes end with that thread.
    pub fn start() -> Result<Self, Failure> {
        let launch = Arc::new(Launch::prepare()?);
        let mut keystone = launch.keystone()?;
        let mut cinder = launch.cinder()?;
        launch::wait(&mut keystone, launch.keystone_address())?;
        launch::wait(&mut cinder, launch.cinder_address())?;
        let started = Self {
            nova: Mutex::new(None),
            cinder,
            keystone,
            launch,
        };
        started.load_policies()?;
        Ok(started)
    }

    /// Ends Cinder as a crash would, and starts it again with its database. Keystone keeps running.
    pub fn crash(&mut self) -> Result<(), Failure> {
        self.cinder.kill_9()?;
        self.cinder = self.launch.cinder()?;
        launch::wait(&mut self.cinder, self.launch.cinder_address())
    }

    /// Where Cinder listens.
    pub fn cinder(&self) -> SocketAddrV4 {
        self.launch.cinder_address()
    }

    /// The file that is a volume; it is there once its creation has begun.
    pub fn file_of(&self, id: &str) -> PathBuf {
        self.launch.volumes().join(format!("volume-{id}"))
    }

    /// The directory of a backup's files, while the backup is there.
    pub fn backup(&self, id: &str) -> PathBuf {
        let mut path = self.launch.backups();
        // `PosixBackupDriver.update_container_name`.
        path.extend([id.get(..2), id.get(2..4), Some(id)].into_iter().flatten());
        path
    }

    /// The log of all processes.
    pub fn log(&self) -> String {
        self.launch.log()
    }

    /// The last errors in the log.
    pub fn errors(&self) -> String {
        let log = self.log();
        let errors: Vec<&str> = log.lines().filter(|it| it.contains(" ERROR ")).collect();
        let first = errors.len().saturating_sub(SHOWN_ERRORS);
        errors.get(first..).unwrap_or_default().join("\n")
    }

    /// Attachments would outlive their volumes: ends their loop devices and removes their names.
    fn detach_all(&self) -> Result<(), Failure> {
        let volumes = self.launch.volumes();
        loop_devices::detach_below(&volumes)?;
        for file in fs::read_dir(&volumes).into_iter().flatten().flatten() {
            let name = file.file_name();
            let id = name.to_string_lossy();
            let serial = id
                .strip_prefix("volume-")
                .and_then(|id| id.get(..SERIAL_BYTES));
            // Absent unless the volume is attached.
            let link = serial.map(|it| Path::new(BY_ID).join(format!("virtio-{it}")));
            let _ = link.map(fs::remove_file);
        }
        Ok(())
    }
}

impl Drop for Cinder {
    fn drop(&mut self) {
        drop(lock(&self.nova).take());
        let _ = self.cinder.kill_9();
        let _ = self.keystone.kill_9();
        let _ = self.detach_all();
    }
}
