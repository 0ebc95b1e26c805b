//! Faults of joined paths: other disks at the number, no path left, a host that is killed.

use super::multipath::{assert_nothing_left, assert_on_map};
use super::target::{DISK_BYTES, Lio, disks, entries, wwid};
use super::volume::{Volume, host};
use crate::support::until;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use wasmount_tests::multipath::{Daemons, maps, paths, remove_maps, states};

/// Longer than a teardown waits for a lost path, and for its parts.
const BOUND: Duration = Duration::from_secs(90);

/// Has the kernel find a logical unit on all sessions.
fn scan(lun: u16) {
    for host in entries(Path::new("/sys/class/iscsi_host")) {
        let scan = Path::new("/sys/class/scsi_host").join(host.file_name().unwrap());
        fs::write(scan.join("scan"), format!("0 0 {lun}")).unwrap();
    }
}

fn is_untouched(lio: &Lio, number: u32) -> bool {
    lio.content(number).iter().all(|byte| *byte == 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_path_to_another_disk_never_joins() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    lio.offer(2, 2);
    lio.unmap_by(2, 1);
    lio.map_by(2, 1, 2);
    for find_multipaths in ["strict", "greedy"] {
        let _daemons = Daemons::start(find_multipaths).unwrap();
        let host = host();
        let mut volume = Volume::of_two_paths(1, 1);
        let refused = host.stage(&volume).await.unwrap_err().to_string();
        assert!(
            refused.contains(&wwid(1)) && refused.contains(&wwid(2)),
            "{refused}"
        );
        assert_nothing_left();
        volume.minimum_paths = 1;
        host.stage(&volume).await.unwrap();
        assert_eq!(disks(), [wwid(1)]);
        assert_on_map(&host, &volume, 1);
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
        assert!(is_untouched(&lio, 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_map_of_a_reused_number_is_removed() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    lio.offer(2, 2);
    let _daemons = Daemons::start("greedy").unwrap();
    let host = host();
    let neighbour = Volume::of_two_paths(2, 2);
    host.stage(&neighbour).await.unwrap();
    // What a host of long ago left: the map of a disk whose number then became another one's.
    scan(1);
    until("the map appears", || {
        maps().len() == 2 && maps().iter().all(|map| paths(map).len() == 2)
    });
    lio.unmap(1);
    lio.offer(1, 3);
    let refused = host.stage(&Volume::of_two_paths(1, 1)).await.unwrap_err();
    assert!(refused.to_string().contains(&wwid(3)), "{refused}");
    assert!(is_untouched(&lio, 1) && is_untouched(&lio, 3));
    let reused = Volume::of_two_paths(1, 3);
    host.stage(&reused).await.unwrap();
    assert_eq!(disks(), [wwid(2), wwid(2), wwid(3), wwid(3)]);
    assert_eq!(maps().len(), 2);
    host.unstage(&reused).await.unwrap();
    host.unstage(&neighbour).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_path_whose_disk_changes_leaves_the_map() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    lio.offer(2, 2);
    let _daemons = Daemons::start("strict").unwrap();
    let host = host();
    // Raw, and not written to: the kernel sends requests by each path until somebody compares.
    let mut volume = Volume::of_two_paths(1, 1);
    volume.is_raw = true;
    host.stage(&volume).await.unwrap();
    lio.unmap_by(2, 1);
    lio.map_by(2, 1, 2);
    lio.grow(1, 2 * DISK_BYTES);
    assert_eq!(
        host.expand(&volume, 2 * DISK_BYTES).await,
        Ok(2 * DISK_BYTES)
    );
    let [map] = maps().try_into().unwrap();
    assert_eq!(paths(&map).len(), 1);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    assert!(is_untouched(&lio, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_teardown_without_a_path_ends() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    let host = host();
    let volume = Volume::of_two_paths(1, 1);
    host.stage(&volume).await.unwrap();
    fs::write(host.staging(&volume).join("file"), [7; 1 << 20]).unwrap();
    lio.answer(false);
    until("both paths are lost", || states() == ["failed"; 2]);
    let begin = Instant::now();
    host.unstage(&volume).await.unwrap();
    assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
    assert_nothing_left();
    lio.answer(true);
    host.stage(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_what_a_killed_host_left_of_a_map_is_removed() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    // What is gone already at the moment of the kill.
    type Gone = fn(&str);
    let moments: [(&str, Gone); 6] = [
        ("the mount is there", |_| {}),
        ("nothing but the mount is gone", |staging| {
            unmount(staging, UnmountFlags::empty()).unwrap();
        }),
        ("the map is gone", |staging| {
            unmount(staging, UnmountFlags::empty()).unwrap();
            remove_maps().unwrap();
        }),
        ("a path is gone", |staging| {
            unmount(staging, UnmountFlags::empty()).unwrap();
            let [map] = maps().try_into().unwrap();
            let path = paths(&map).remove(0);
            fs::write(format!("/sys/class/block/{path}/device/delete"), "1").unwrap();
        }),
        ("map and a path are gone", |staging| {
            unmount(staging, UnmountFlags::empty()).unwrap();
            let [map] = maps().try_into().unwrap();
            let path = paths(&map).remove(0);
            remove_maps().unwrap();
            fs::write(format!("/sys/class/block/{path}/device/delete"), "1").unwrap();
        }),
        ("the paths are gone", |staging| {
            unmount(staging, UnmountFlags::empty()).unwrap();
            let [map] = maps().try_into().unwrap();
            for path in paths(&map) {
                fs::write(format!("/sys/class/block/{path}/device/delete"), "1").unwrap();
            }
        }),
    ];
    // A stage is killed before or after its mount, a teardown at each step.
    let coming = moments[..2].iter().map(|it| ("Coming", it));
    let going = moments.iter().map(|it| ("Going", it));
    let mut host = host();
    for (progress, (moment, gone)) in coming.chain(going) {
        let volume = Volume::of_two_paths(1, 1);
        host.stage(&volume).await.unwrap();
        let [file] = host.journal().try_into().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("Settled", progress)).unwrap();
        gone(host.staging(&volume).to_str().unwrap());
        host = host.restarted();
        host.recover().await;
        assert_eq!(maps(), [""; 0], "{moment}");
        assert_nothing_left();
        assert_eq!(host.journal().len(), 0, "{moment}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_map_without_a_record_is_removed() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    let host = host();
    let volume = Volume::of_two_paths(1, 1);
    host.stage(&volume).await.unwrap();
    assert_on_map(&host, &volume, 2);
    // In use, and then not.
    let host = host.restarted_without_run_directory();
    host.recover().await;
    assert_on_map(&host, &volume, 2);
    unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
    host.recover().await;
    until("the map is removed", || maps().is_empty());
    assert_nothing_left();
}
