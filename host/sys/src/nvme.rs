//! What an NVMe namespace is, by the storage itself and not by what the kernel remembers (`NVME_IOCTL_ADMIN_CMD` of `linux/nvme_ioctl.h`).

use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::os::fd::AsFd;
use std::time::Duration;

/// Size of what the command Identify returns, in bytes (NVM Express Base Specification 2.0, 5.17).
pub const IDENTIFY_BYTES: usize = 4096;

/// The command Identify.
const IDENTIFY: u8 = 0x06;

/// What the command Identify is asked for: its value of CNS (Figure 273).
#[derive(Debug, Clone, Copy)]
pub enum Identify {
    /// The namespace: its size and format (5.17.2.1).
    Namespace = 0x00,
    /// The list of its identification descriptors (5.17.2.3).
    Descriptors = 0x03,
}

/// `struct nvme_admin_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    /// Opcode and flags.
    head: [u8; 4],
    namespace: u32,
    /// Words 2 and 3, and metadata.
    unused: [u64; 2],
    data: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// `NVME_IOCTL_ADMIN_CMD`.
const ADMIN_COMMAND: Opcode = opcode::read_write::<AdminCommand>(b'N', 0x41);

/// What the storage says of a namespace, by the opened controller or namespace. All are zeros if it refused the command, which names nothing.
pub fn identify(
    device: impl AsFd,
    namespace: u32,
    what: Identify,
    timeout: Duration,
) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
    let mut buffer = Box::new([0; IDENTIFY_BYTES]);
    let mut command = AdminCommand {
        head: [IDENTIFY, 0, 0, 0],
        namespace,
        data: buffer.as_mut_ptr() as u64,
        data_bytes: IDENTIFY_BYTES as u32,
        words_10_to_15: [what as u32, 0, 0, 0, 0, 0],
        timeout_ms: timeout.as_millis().try_into().unwrap_or(u32::MAX),
        ..AdminCommand::default()
    };
    // SAFETY: the request reads and writes a `struct nvme_admin_cmd`, and fills at most `data_bytes` of the buffer to which that points.
    unsafe { ioctl(device, Updater::<ADMIN_COMMAND, _>::new(&mut command)) }?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::fs::File;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<AdminCommand>(), 72);
    }

    #[test]
    fn what_is_no_nvme_device_says_so() {
        let file = File::open("/dev/null").unwrap();
        let second = Duration::from_secs(1);
        let error = identify(&file, 1, Identify::Namespace, second).unwrap_err();
        assert_eq!(error, Errno::NOTTY);
    }
}
