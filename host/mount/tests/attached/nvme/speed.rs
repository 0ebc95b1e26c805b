//! A stage beside `nvme connect`.

use super::target::{NQN, Target, assert_nothing_left};
use super::volume::{HOST_NQN, Volume, host, uuid};
use crate::speed::{Times, rounds};
use crate::support::run;
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_speed_of_a_stage_beside_nvme_connect() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), 64 << 20);
    let host = host();
    let mut volume = Volume::of(1);
    volume.is_raw = true;
    let address = Target::address(0);
    let (ip, port) = address.split_once(':').unwrap();
    let of_target = ["--transport=tcp", "--traddr", ip, "--trsvcid", port];
    let connect = [&["connect"], &of_target[..], &["--nqn", NQN]].concat();
    let connect = [&connect[..], &["--hostnqn", HOST_NQN]].concat();
    let mut times = Times::default();
    for _ in 0..rounds() {
        times
            .stage(async { host.stage(&volume).await.unwrap() })
            .await;
        host.unstage(&volume).await.unwrap();
        assert_nothing_left(&host);
        times.by_hand(|| {
            run("nvme", &connect);
            drop(fs::File::open(target.device(1)).unwrap());
        });
        run("nvme", &["disconnect", "--nqn", NQN]);
        assert_nothing_left(&host);
    }
    times.print("nvme connect");
}
