//! The mount point of a pool: mounts what the grant names, or finds it mounted, verifies it, and unmounts it. It does not know what a pool is.

use crate::confine::DIRECTORY;
use crate::executor;
use crate::failure::{io, kernel, shown};
use crate::mountinfo::{self, MountLine};
use crate::plan::filesystem::{self, CheckedFilesystem, FilesystemStep};
use crate::plan::options::{MountFlags, RequestedOptions};
use crate::source;
use crate::threads::within;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasmount_core::document::{FilesystemGrant, Grants, PoolMount};
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;
use wasmount_core::secrets::SecretOptions;

/// Only the host may access a mount point.
const FOLDER_MODE: u32 = 0o700;
/// How long an unmount may take before the caller goes on. 2 s: it takes milliseconds unless the server does not answer; the kernel then finishes it.
const UNMOUNTED_WITHIN: Duration = Duration::from_secs(2);
/// Options that bound the time of a request, each with those of an administrator that replace it: after 10 s, 20 s and 30 s without an answer the kernel
/// reports an error (nfs(5), `softerr`). Every change of a pool is synced and checked, so no data is lost by that; `hard`, the kernel's default, never
/// ends.
const BOUNDED: [(&str, &[&str]); 3] = [
    ("softerr", &["hard", "soft", "softerr"]),
    ("timeo=100", &["timeo"]),
    ("retrans=2", &["retrans"]),
];

/// Where a pool is mounted, and what.
#[derive(Debug)]
pub(super) struct MountPoint {
    /// The driver's name of the pool.
    pub(super) pool: String,
    mount: PoolMount,
    pub(super) directory: PathBuf,
}

impl MountPoint {
    /// The mount point of a grant, in the host's directory for mount points.
    pub(super) fn new(folder: &Path, driver: &DriverName, pool: &str, mount: &PoolMount) -> Self {
        Self {
            pool: pool.to_owned(),
            mount: mount.clone(),
            directory: folder.join(directory_name(driver, pool, mount)),
        }
    }

    /// The mount options of the grant, with a bound for the time of a request.
    fn checked(&self) -> Result<(CheckedFilesystem, MountFlags), MountError> {
        let named = |name: &&str| {
            let mut options = self.mount.options.iter();
            options.any(|option| option.split('=').next() == Some(*name))
        };
        let bounds = BOUNDED.iter().filter(|(_, names)| !names.iter().any(named));
        let bounds = bounds.map(|(option, _)| (*option).to_owned());
        let options: Vec<String> = self.mount.options.iter().cloned().chain(bounds).collect();
        // The administrator's own words: each option is granted, except for those that the host sets itself.
        let names = options.iter().filter_map(|option| option.split('=').next());
        let grant = FilesystemGrant {
            fs_type: self.mount.fs_type.clone(),
            sources: vec![self.mount.source.clone()],
            mount_options: names.map(str::to_owned).collect(),
            max_bytes: None,
        };
        let grants = Grants {
            filesystems: vec![grant],
            ..Grants::default()
        };
        let step = FilesystemStep {
            fs_type: &self.mount.fs_type,
            source: &self.mount.source,
            options: &options,
            secret_options: &[],
        };
        filesystem::check(&step, RequestedOptions::default(), None, &grants).map_err(|error| {
            // The sentence is about a plan; no plugin is involved.
            MountError::unusable(self, format!("{error}; correct `grants.pools`"))
        })
    }

    /// The root of the mount, which is made if it does not exist.
    pub(super) fn root(&self) -> Result<OwnedFd, MountError> {
        let (filesystem, flags) = self.checked()?;
        let directory = self.mount_point()?;
        let table = mountinfo::read()?;
        match topmost(&table, &directory) {
            Some(line) if shows(line, &filesystem) => {}
            Some(line) => {
                return Err(MountError::unusable(
                    self,
                    format!(
                        "`{}` is mounted at {}, where it should be; unmount that",
                        shown(&line.source),
                        directory.display()
                    ),
                ));
            }
            None => self.make(&filesystem, flags, &directory)?,
        }
        rustix::fs::open(&directory, DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| self.unreachable(errno))
    }

    /// Mounts it, and compares with the grant what the mount table shows.
    fn make(
        &self,
        filesystem: &CheckedFilesystem,
        flags: MountFlags,
        directory: &Path,
    ) -> Result<(), MountError> {
        let mount = source::filesystem::prepare(filesystem, flags, &SecretOptions::default())?;
        let onto = rustix::fs::open(directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| kernel("open the mount point of", self, errno))?;
        executor::move_onto(&mount, &onto, self)?;
        let verified = executor::verify_source(&mount, filesystem);
        drop(mount);
        if verified.is_err() {
            take_down(directory);
        } else {
            tracing::info!(pool = %self, directory = %directory.display(), "a pool is mounted");
        }
        verified
    }

    /// The mount point, without links as the mount table shows it.
    fn mount_point(&self) -> Result<PathBuf, MountError> {
        let failed = |error| io("make the mount point of", self, &error);
        let folder = self.directory.parent().unwrap_or(&self.directory);
        let mut builder = DirBuilder::new();
        builder.mode(FOLDER_MODE).recursive(true);
        builder.create(folder).map_err(failed)?;
        match DirBuilder::new().mode(FOLDER_MODE).create(&self.directory) {
            // A mount there need not answer.
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        // The last component is not followed, because a mount there may not answer.
        let name = self.directory.file_name().unwrap_or_default();
        Ok(folder.canonicalize().map_err(failed)?.join(name))
    }

    pub(super) fn unreachable(&self, errno: Errno) -> MountError {
        MountError::hung(
            self,
            format!(
                "{}; look at the server, the network and firewalls",
                std::io::Error::from(errno)
            ),
        )
    }

    /// Explains an error of the kernel that comes from the server or the way to it. It is not final: the same call may succeed later.
    pub(super) fn explain(&self, error: MountError) -> MountError {
        match error {
            MountError::Kernel { errno, text } if is_of_server(Errno::from_raw_os_error(errno)) => {
                MountError::hung(self, text)
            }
            error => error,
        }
    }
}

impl fmt::Display for MountPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = shown(&self.mount.source);
        write!(f, "pool `{}` at `{source}`", shown(&self.pool))
    }
}

/// Names a mount point by its grant: a changed grant gets another one.
fn directory_name(driver: &DriverName, name: &str, mount: &PoolMount) -> String {
    let PoolMount {
        fs_type,
        source,
        options,
    } = mount;
    let mut hash = Sha256::new();
    let words = [driver.as_str(), name, fs_type, source];
    for word in words.into_iter().chain(options.iter().map(String::as_str)) {
        // No word contains NUL, so no two grants have the same hash input.
        hash.update(word);
        hash.update([0]);
    }
    hex::encode(hash.finalize())
}

/// Of several mounts at one path, the table has the topmost last.
fn topmost<'t>(table: &'t [MountLine], directory: &Path) -> Option<&'t MountLine> {
    let mut lines = table.iter().rev();
    lines.find(|line| line.mount_point == directory)
}

/// Whether a mount is the one that the grant names.
fn shows(line: &MountLine, filesystem: &CheckedFilesystem) -> bool {
    let is_whole = line.root == Path::new("/");
    is_whole && filesystem::same(filesystem, &line.fs_type, &line.source)
}

/// Whether an error number means that a server is away, or does not know what it handed out earlier.
fn is_of_server(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::TIMEDOUT
            | Errno::STALE
            | Errno::IO
            | Errno::REMOTEIO
            | Errno::NOTCONN
            | Errno::CONNREFUSED
            | Errno::CONNRESET
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NOLCK
    )
}

/// Unmounts everything at a mount point and removes it. The mounts go at once, however busy they are: what still uses one keeps it until it ends.
pub(super) fn take_down(directory: &Path) {
    let path = directory.to_owned();
    let ended = within(UNMOUNTED_WITHIN, "pool-unmount", move || {
        loop {
            match unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(errno) => {
                    tracing::warn!(directory = %path.display(), %errno, "the mount of a pool cannot be unmounted");
                    return;
                }
            }
        }
        // It is not empty only if it never was a mount point.
        let _ = std::fs::remove_dir(&path);
    });
    if !matches!(ended, Ok(Some(()))) {
        tracing::warn!(directory = %directory.display(), "the server of a pool does not answer at its unmount; the kernel continues the unmount");
    }
}

#[cfg(test)]
mod tests;
