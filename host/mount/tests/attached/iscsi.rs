//! iSCSI against the kernel's own target (LIO) and the node's open-iscsi and multipathd: sessions, disks and what is left of them.

mod encryption;
mod kills;
mod lives;
mod login;
mod multipath;
mod multipath_faults;
mod others;
mod recovery;
mod target;
mod volume;

pub(crate) use kills::{Killed, KilledMaps};
pub(crate) use target::entries;
