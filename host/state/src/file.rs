//! The file below redb. Space is reserved when the file grows, so a full disk is met there, before anything is written. redb's own backend makes the
//! file longer but sparse; then a write in the middle of a commit fails, and a store that has to be opened again on a full disk may not be able to.

use redb::StorageBackend;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// An open store file.
#[derive(Debug)]
pub(crate) struct ReservedFile(File);

impl ReservedFile {
    /// Takes a file that was opened for reading and writing.
    pub(crate) fn new(file: File) -> Self {
        Self(file)
    }
}

impl StorageBackend for ReservedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let now = self.0.metadata()?.len();
        if len > now {
            match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), now, len - now) {
                Ok(()) => return Ok(()),
                // NFS before 4.2 and some FUSE file systems cannot reserve: there a write may fail later, which is handled too.
                Err(rustix::io::Errno::OPNOTSUPP) => {}
                Err(errno) => {
                    // Part of it may have been reserved; redb goes by the length that it knows.
                    self.0.set_len(now)?;
                    return Err(errno.into());
                }
            }
        }
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn growing_reserves_the_space() {
        let file = ReservedFile::new(tempfile::tempfile().unwrap());
        file.set_len(1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20);
        assert!(file.0.metadata().unwrap().blocks() * 512 >= 1 << 20);
    }

    #[test]
    fn shrinking_gives_it_back() {
        let file = ReservedFile::new(tempfile::tempfile().unwrap());
        file.set_len(1 << 20).unwrap();
        file.set_len(4096).unwrap();
        assert_eq!(file.len().unwrap(), 4096);
        assert!(file.0.metadata().unwrap().blocks() * 512 <= 64 << 10);
    }

    #[test]
    fn a_read_past_the_end_is_an_error() {
        let file = ReservedFile::new(tempfile::tempfile().unwrap());
        file.write(0, b"abc").unwrap();
        assert!(file.read(1, &mut [0; 3]).is_err());
    }
}
