//! How hosts reach the contents of volumes: what every protocol does for the array.

mod lio;
mod nvmet;

pub(crate) use lio::Lio;
pub(crate) use nvmet::Nvmet;

use crate::records::{Attachment, Connection, Host};
use std::fmt::Debug;
use std::path::Path;
use xtask::failure::Failure;

/// Digits of an array's id that tell the names of its targets from those of others.
const ID_DIGITS: usize = 12;

/// A target of the kernel. It is made again at every start of the array; only what hosts see of it stays the same.
pub(crate) trait DataPath: Debug + Send {
    /// Makes the target, without hosts and volumes, and removes what a killed array left. Nobody can log in yet.
    fn start(&self) -> Result<(), Failure>;

    /// Lets hosts log in: they are known, and their volumes are there. An initiator that came back too early would take that for the end of its session.
    fn open(&self) -> Result<(), Failure> {
        (0..self.portals()).try_for_each(|index| self.set_portal(index, true))
    }

    /// The name of a host's initiator, if it has one of this protocol.
    fn initiator<'a>(&self, host: &'a Host) -> Option<&'a str>;

    /// Lets the initiator of a host log in, with the host's credentials from now on.
    fn admit(&self, initiator: &str, host: &Host) -> Result<(), Failure>;

    /// Ends the sessions of an initiator, and lets it log in no more.
    fn dismiss(&self, initiator: &str) -> Result<(), Failure>;

    /// Shows a volume to the initiator of a host, and to no other at this LUN.
    fn attach(&self, file: &Path, attachment: &Attachment<'_>) -> Result<(), Failure>;

    /// Hides it from the host with this LUN; the sessions stay. Also what was attached in part. `is_last`: no other host has it.
    fn detach(&self, id: &str, lun: u16, is_last: bool) -> Result<(), Failure>;

    /// Takes over the size of the file of an attached volume.
    fn grow(&self, id: &str) -> Result<(), Failure>;

    /// What an attached volume's host must know.
    fn connection(&self, id: &str, serial: &str, lun: u16) -> Connection;

    /// Number of the portals.
    fn portals(&self) -> usize;

    /// Makes a portal answer, or breaks all its sessions and refuses new ones.
    fn set_portal(&self, index: usize, is_up: bool) -> Result<(), Failure>;

    /// Removes the target.
    fn stop(&self) -> Result<(), Failure>;
}
