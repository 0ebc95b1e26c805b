//! NVMe over TCP against the kernel's own target (nvmet) on loopback: volumes of a host whose subsystem has one address or two.

mod authentication;
mod encryption;
mod kernel;
mod kills;
mod lives;
mod others;
mod paths;
mod recovery;
mod target;
mod volume;

pub(crate) use kills::Killed;
