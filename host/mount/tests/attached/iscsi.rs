//! iSCSI against the kernel's own target (LIO) and the node's open-iscsi: sessions, disks and what is left of them.

mod encryption;
mod lives;
mod login;
mod others;
mod recovery;
mod target;
mod volume;
