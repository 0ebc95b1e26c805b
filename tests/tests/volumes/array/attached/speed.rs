//! Time from NodeStageVolume over the socket to the usable device, beside the programs that an administrator attaches a disk with. It is printed, for a
//! person; nothing is asserted about it.

use super::{BYTES, NODE, NQN, Playground, assert_node_is_free, entries, name, run, until};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use wasmount_csi::wire::csi::v1::volume_capability::{AccessType, BlockVolume};
use wasmount_csi::wire::csi::v1::{NodeStageVolumeRequest, VolumeCapability};
use wasmount_tests::array::Protocol;
use wasmount_tests::requests;
use wasmount_tests::rounds::rounds;

/// Rounds of a thorough run.
const ROUNDS: usize = 30;

/// The only portal: what is done by hand is done once, too.
const ISCSI: &str = "127.0.0.1:3260";
const NVME: &str = "127.0.0.1:4420";

/// What the kernel's disks of both protocols are called in `/dev`.
const SCSI_DISKS: &str = "sd";
const NVME_DISKS: &str = "nvme";

/// Stages a raw volume and attaches the same disk by hand, in turn.
#[expect(clippy::print_stdout, reason = "a person reads it")]
async fn race(
    protocol: Protocol,
    disks: &str,
    program: &str,
    attach: impl Fn(),
    detach: impl Fn(),
) {
    let playground = Playground::start(protocol).await;
    let node = playground.node(&[]).await;
    let raw = VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..requests::capability()
    };
    let mut request = requests::create("pvc", BYTES);
    request.volume_capabilities = vec![raw.clone()];
    let (id, _) = node.orchestrator.create(request).await.unwrap();
    let volume = node.orchestrator.place("pvc", id).unwrap();
    let publish_context = node.orchestrator.attach(&volume.id, NODE).await.unwrap();
    let stage = NodeStageVolumeRequest {
        publish_context,
        volume_capability: Some(raw),
        ..requests::stage(&volume.id, &volume.staging)
    };
    let (mut staged, mut by_hand) = (Vec::new(), Vec::new());
    for _ in 0..rounds(ROUNDS) {
        let begin = Instant::now();
        node.orchestrator.stage_as(stage.clone()).await.unwrap();
        staged.push(begin.elapsed());
        node.orchestrator.unstage(&volume).await.unwrap();
        assert_node_is_free();
        let before = devices(disks);
        let begin = Instant::now();
        attach();
        until("the disk can be opened", || devices(disks) != before);
        by_hand.push(begin.elapsed());
        detach();
        assert_node_is_free();
    }
    let count = staged.len();
    let [staged, by_hand] = [staged, by_hand].map(median);
    let ratio = staged.as_secs_f64() / by_hand.as_secs_f64();
    println!(
        "NodeStageVolume of a raw volume {staged:.0?}, {program} {by_hand:.0?}: {ratio:.2} (medians of {count} in turn)"
    );
    let detached = node.orchestrator.detach(&volume.id, NODE);
    detached.await.unwrap();
    node.orchestrator.delete(&volume.id).await.unwrap();
    playground.end();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The disks of a protocol that can be opened.
fn devices(prefix: &str) -> BTreeSet<String> {
    let names = entries(Path::new("/sys/class/block")).into_iter();
    let names = names
        .map(|it| name(&it))
        .filter(|it| it.starts_with(prefix));
    let can_be_opened = |name: &String| fs::File::open(Path::new("/dev").join(name)).is_ok();
    names.filter(can_be_opened).collect()
}

/// The only target or subsystem of the array.
fn target(directory: &str) -> String {
    let directory = Path::new("/sys/kernel/config").join(directory);
    let made = entries(&directory).into_iter().filter(|it| it.is_dir());
    let mut names = made.map(|it| name(&it));
    names.find(|it| it.contains("wasmount")).unwrap()
}

fn of(portal: &str) -> Vec<SocketAddr> {
    vec![portal.parse().unwrap()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_speed_of_a_stage_beside_iscsiadm() {
    let iscsiadm = |more: &[&str]| {
        let target = target("target/iscsi");
        run(
            "iscsiadm",
            &[&["-m", "node", "-T", &target, "-p", ISCSI], more].concat(),
        );
    };
    let attach = || {
        iscsiadm(&["-o", "new"]);
        // It scans by itself.
        iscsiadm(&["--login"]);
    };
    let detach = || {
        iscsiadm(&["--logout"]);
        iscsiadm(&["-o", "delete"]);
        for directory in ["nodes", "ifaces", "send_targets"] {
            let _ = fs::remove_dir_all(Path::new("/etc/iscsi").join(directory));
        }
    };
    race(
        Protocol::Iscsi(of(ISCSI)),
        SCSI_DISKS,
        "iscsiadm",
        attach,
        detach,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_speed_of_a_stage_beside_nvme_connect() {
    let (ip, port) = NVME.split_once(':').unwrap();
    let nqn = format!("{NQN}{}", std::env::var("WASMOUNT_VM").unwrap());
    let attach = || {
        let target = target("nvmet/subsystems");
        let address = ["--transport=tcp", "--traddr", ip, "--trsvcid", port];
        let names = ["--nqn", &target, "--hostnqn", &nqn];
        run("nvme", &[&["connect"], &address[..], &names].concat());
    };
    let detach = || {
        run(
            "nvme",
            &["disconnect", "--nqn", &target("nvmet/subsystems")],
        )
    };
    race(
        Protocol::NvmeTcp(of(NVME)),
        NVME_DISKS,
        "nvme connect",
        attach,
        detach,
    )
    .await;
}
