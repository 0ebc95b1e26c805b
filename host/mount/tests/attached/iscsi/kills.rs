//! A mounter that is killed at a step of the life of a disk.

use super::target::{Lio, assert_nothing_left};
use super::volume::{Volume, host_at};
use crate::host::Host;
use crate::kills::{GROWN_BYTES, Scene, kill_at_each_step};
use std::path::{Path, PathBuf};

/// The number that each of the disks has while it is there.
const LUN: u16 = 1;

pub(crate) struct Killed(Lio);

impl Killed {
    /// With disks that outlive it.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(Lio::start_in(folder))
    }
}

impl Scene for Killed {
    type Volume = Volume;
    const NAME: &'static str = "iSCSI";

    fn host(folder: &Path) -> Host {
        host_at(folder)
    }

    fn volume(number: u32) -> Volume {
        Volume::of(LUN, number)
    }

    fn offer(&mut self, number: u32) {
        self.0.offer(LUN, number);
    }

    fn grow(&mut self, number: u32) {
        self.0.grow(number, GROWN_BYTES);
    }

    fn file(&self, number: u32) -> PathBuf {
        self.0.image(number)
    }

    fn withdraw(&mut self, number: u32) {
        self.0.withdraw(LUN, number);
    }

    fn assert_nothing_left(host: &Host) {
        assert_nothing_left();
        assert_eq!(host.journal().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_survives_a_kill_at_each_step() {
    kill_at_each_step(Killed(Lio::start())).await;
}
