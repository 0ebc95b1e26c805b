//! A mounter that is killed at a step of the life of a disk: a plain one, and an encrypted one over two paths.

use super::multipath;
use super::target::{Lio, assert_nothing_left};
use super::volume::{Volume, host_at};
use crate::encryption::{Encrypted, PASSPHRASE, maps};
use crate::host::Host;
use crate::kills::{GROWN_BYTES, ROUNDS_WITH_KEYS, Scene, kill_at_each_step};
use crate::support::run;
use std::path::{Path, PathBuf};
use wasmount_tests::multipath::Daemons;

/// The number that each of the disks has while it is there.
const LUN: u16 = 1;
/// What the test sees of an encrypted disk.
const PLAIN: &str = "/dev/mapper/plain";

pub(crate) struct Killed(Lio);

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

/// With multipathd, which joins both paths, and a map of dm-crypt above.
pub(crate) struct KilledMaps {
    /// They end before their disks.
    _daemons: Daemons,
    lio: Lio,
}

impl Scene for KilledMaps {
    type Volume = Encrypted<Volume>;
    const NAME: &'static str = "encrypted over two paths of iSCSI";
    const ROUNDS: usize = ROUNDS_WITH_KEYS;

    fn host(folder: &Path) -> Host {
        host_at(folder)
    }

    fn volume(number: u32) -> Encrypted<Volume> {
        Encrypted::of(Volume::of_two_paths(LUN, number))
    }

    fn offer(&mut self, number: u32) {
        self.lio.offer(LUN, number);
    }

    fn grow(&mut self, number: u32) {
        self.lio.grow(number, GROWN_BYTES);
    }

    fn file(&self, number: u32) -> PathBuf {
        let image = self.lio.image(number);
        let open = format!(
            "printf '{PASSPHRASE}' | cryptsetup open --key-file=- {} plain",
            image.display()
        );
        run("sh", &["-c", &open]);
        PathBuf::from(PLAIN)
    }

    fn withdraw(&mut self, number: u32) {
        if Path::new(PLAIN).exists() {
            run("cryptsetup", &["close", "plain"]);
        }
        self.lio.withdraw(LUN, number);
    }

    fn assert_nothing_left(host: &Host) {
        multipath::assert_nothing_left();
        assert_eq!((maps(), host.journal().len()), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_survives_a_kill_at_each_step() {
    kill_at_each_step(Killed(Lio::start())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_maps_survive_a_kill_at_each_step() {
    let lio = Lio::start_with_two_paths();
    let _daemons = Daemons::start("strict").unwrap();
    kill_at_each_step(KilledMaps { _daemons, lio }).await;
}
