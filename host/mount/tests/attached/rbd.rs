//! Images of a real Ceph (RBD), which the kernel maps.

mod cluster;
mod kills;
mod lives;
mod others;
mod recovery;

pub(crate) use kills::Killed;
