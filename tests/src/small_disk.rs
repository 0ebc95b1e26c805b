//! A file system in memory that a test can fill to the last byte.

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use xtask::failure::Failure;

/// The file that fills it.
const FILLING: &str = "filling";

/// Bytes in one write while it is filled; the rest is filled byte by byte.
const PIECE: usize = 64 << 10;

/// Mounted until this is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of this many bytes over a directory.
    pub fn mount(path: &Path, bytes: u64) -> Result<Self, Failure> {
        Self::with_options(path, &format!("size={bytes}"))
    }

    /// Mounts a file system of this many inodes over a directory.
    pub fn of_inodes(path: &Path, inodes: u64) -> Result<Self, Failure> {
        Self::with_options(path, &format!("nr_inodes={inodes}"))
    }

    fn with_options(path: &Path, options: &str) -> Result<Self, Failure> {
        let options = CString::new(options).unwrap_or_default();
        mount("small-disk", path, "tmpfs", MountFlags::empty(), &*options)
            .map_err(|errno| failed("mount a file system in memory at", path, errno))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// From now on it cannot be written to.
    pub fn make_read_only(&self) -> Result<(), Failure> {
        mount_remount(&self.path, MountFlags::RDONLY, c"")
            .map_err(|errno| failed("make read-only", &self.path, errno))
    }

    /// It can be written to again.
    pub fn make_writable(&self) -> Result<(), Failure> {
        mount_remount(&self.path, MountFlags::empty(), c"")
            .map_err(|errno| failed("make writable", &self.path, errno))
    }

    /// Fills it to the last byte.
    pub fn fill(&self) -> Result<(), Failure> {
        let path = self.path.join(FILLING);
        fill(&path).map_err(Failure::cannot(format!("fill {}", path.display())))
    }

    /// Frees all of that.
    pub fn free(&self) -> Result<(), Failure> {
        let path = self.path.join(FILLING);
        fs::remove_file(&path).map_err(Failure::cannot(format!("remove {}", path.display())))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a host of a failed test may still run, and must not keep it mounted.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn fill(path: &Path) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    let piece = vec![b'x'; PIECE];
    for length in [PIECE, 1] {
        let piece = piece.get(..length).unwrap_or_default();
        loop {
            match file.write_all(piece) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn failed(what: &str, path: &Path, errno: rustix::io::Errno) -> Failure {
    Failure::cannot(format!("{what} {}", path.display()))(errno)
}
