//! Encrypted namespaces.

use super::target::{Target, assert_nothing_left};
use super::volume::{Volume, host, uuid};
use crate::encryption::{Disk, lives};

const BYTES: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_encrypted_namespace_lives_and_grows() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let device = || target.device(1).trim_start_matches("/dev/").to_owned();
    let disk = Disk {
        file: target.file(1),
        device: &device,
        grow: &|bytes| target.grow(1, bytes),
        assert_nothing_left: &|| assert_nothing_left(&host),
    };
    lives(&host, Volume::of(1), disk).await;
}
