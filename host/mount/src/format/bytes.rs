//! Bytes of a device, read by its descriptor, and the numbers in them.
//!
//! It is apart so that no file system parses by index, and so that a read that fails is an error everywhere: what cannot be read is not blank.
//! It must not know what the numbers mean.

use super::words;
use crate::block::BlockDevice;
use crate::failure::kernel;
use rustix::io::{Errno, pread};
use wasmount_core::mounter::MountError;

/// Reads a range; shorter only at the end of the device.
pub(super) fn read_at(
    device: &BlockDevice,
    offset: u64,
    length: usize,
) -> Result<Vec<u8>, MountError> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match pread(&device.file, rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(kernel("read", words(device), errno)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// A number of two bytes, the lowest first.
pub(super) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// A number of four bytes, the lowest first.
pub(super) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// A number of eight bytes, the lowest first.
pub(super) fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Some bytes.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statistic_is_read_whole_or_absent() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(le16(&bytes, 1), Some(0x0302));
        assert_eq!(le32(&bytes, 4), Some(0x0807_0605));
        assert_eq!(le64(&bytes, 0), Some(0x0807_0605_0403_0201));
        assert_eq!(
            (le16(&bytes, 7), le32(&bytes, 5), le64(&bytes, 9)),
            (None, None, None)
        );
    }
}
