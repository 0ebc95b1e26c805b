//! A mounter that is killed at a step of the life of a namespace.

use super::target::{Target, assert_nothing_left};
use super::volume::{Volume, host_at, uuid};
use crate::host::Host;
use crate::kills::{GROWN_BYTES, Scene, kill_at_each_step};
use std::path::{Path, PathBuf};

const BYTES: u64 = 64 << 20;

pub(crate) struct Killed(Target);

impl Scene for Killed {
    type Volume = Volume;
    const NAME: &'static str = "NVMe";

    fn host(folder: &Path) -> Host {
        host_at(folder)
    }

    fn volume(number: u32) -> Volume {
        Volume::of(number + 1)
    }

    fn offer(&mut self, number: u32) {
        let id = number + 1;
        self.0.add(id, &uuid(id), BYTES);
    }

    fn grow(&mut self, number: u32) {
        self.0.grow(number + 1, GROWN_BYTES);
    }

    fn file(&self, number: u32) -> PathBuf {
        self.0.file(number + 1).to_owned()
    }

    fn withdraw(&mut self, number: u32) {
        self.0.remove(number + 1);
    }

    fn assert_nothing_left(host: &Host) {
        assert_nothing_left(host);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_namespace_survives_a_kill_at_each_step() {
    kill_at_each_step(Killed(Target::start(1))).await;
}
