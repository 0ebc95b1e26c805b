//! Reads small files that the configuration names.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The kernel returned an error.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is a named pipe, a device or a directory.
    #[error("is not a regular file")]
    NotRegular,
    /// It is longer than allowed.
    #[error("is larger than {most} bytes")]
    TooLarge {
        /// The limit, in bytes.
        most: u64,
    },
}

/// Opens a regular file for reading. Links are followed: Kubernetes mounts every Secret as one.
pub(crate) fn open(path: &Path) -> Result<File, Refused> {
    // A pipe without a writer opens at once with this, and is rejected below; the flag has no effect on a regular file.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    if !file.metadata()?.is_file() {
        return Err(Refused::NotRegular);
    }
    Ok(file)
}

/// Reads all of a regular file of at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, Refused> {
    let file = open(path)?;
    // The size is only a hint for the capacity: the file may grow meanwhile, and files of /proc report 0.
    let capacity = file.metadata()?.len().min(most).saturating_add(1);
    bounded(file, most, usize::try_from(capacity).unwrap_or_default())
}

/// Reads all that a source has, at most `most` bytes.
pub(crate) fn bounded(source: impl Read, most: u64, capacity: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::with_capacity(capacity);
    let mut source = source.take(most.saturating_add(1));
    source.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Refused::TooLarge { most });
    }
    Ok(bytes)
}

/// The same, or none if there is no such file.
pub(crate) fn read_if_there(path: &Path, most: u64) -> Result<Option<Vec<u8>>, Refused> {
    match read(path, most) {
        Err(Refused::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(path: &Path) -> String {
        read(path, 4).unwrap_err().to_string()
    }

    #[test]
    fn a_regular_file_is_read_up_to_its_bound_through_links_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "1234").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            assert_eq!(read(path, 4).unwrap(), b"1234");
        }
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(message(&file), "is larger than 4 bytes");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, Mode::RWXU, 0).unwrap();
        for path in [
            pipe.as_path(),
            folder.path(),
            Path::new("/dev/zero"),
            Path::new("/dev/tty"),
        ] {
            let line = message(path);
            // Whether there is a terminal depends on the environment of this test.
            let no_terminal = line.starts_with("cannot be read: No such device");
            assert!(
                line == "is not a regular file" || no_terminal,
                "{path:?}: {line}"
            );
        }
    }
}
