//! csi-sanity with disks of the kernel's own targets.

use super::{Playground, iscsi, nvme};
use crate::array::sanity::{NOT_OFFERED, OFFERED, run};
use crate::sanity::assert_passed;
use wasmount_tests::array::Protocol;
use wasmount_tests::sanity::SECRET;

async fn each_spec_passes(protocol: Protocol) {
    let playground = Playground::start(protocol).await;
    let host = &playground.host;
    host.client().await.unwrap();
    let outcome = run(host, host.socket());
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
    assert!(!host.log().contains(SECRET), "a secret was logged");
    playground.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_sanity_array_over_iscsi() {
    each_spec_passes(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_sanity_array_over_nvme() {
    each_spec_passes(nvme()).await;
}
