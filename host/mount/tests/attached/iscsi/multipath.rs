//! Disks over two paths that multipathd joins: lives of volumes, encrypted too, too few paths, growth.

use super::target::{self, DISK_BYTES, Lio, disks, sessions, wwid};
use super::volume::{Volume, host};
use crate::encryption::{Disk, lives};
use crate::host::Host;
use crate::support::{Writer, run, until};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use wasmount_core::mounter::MountError;
use wasmount_tests::multipath::{Daemons, maps, paths, states};

pub(crate) fn assert_nothing_left() {
    assert_eq!(maps(), [""; 0]);
    target::assert_nothing_left();
}

/// That the volume lies on the only map, which has this many paths.
pub(crate) fn assert_on_map(host: &Host, volume: &Volume, count: usize) {
    let [map] = maps().try_into().unwrap();
    assert_eq!(paths(&map).len(), count);
    let number = fs::metadata(host.staging(volume)).unwrap().dev();
    let expected = fs::read_to_string(format!("/sys/class/block/{map}/dev")).unwrap();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    assert_eq!(format!("{major}:{minor}"), expected.trim());
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_map_is_used_and_nothing_is_left() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    for find_multipaths in ["strict", "greedy"] {
        let _daemons = Daemons::start(find_multipaths).unwrap();
        let host = host();
        let volume = Volume::of_two_paths(1, 1);
        host.stage(&volume).await.unwrap();
        assert_eq!(sessions().len(), 2);
        assert_eq!(disks(), [wwid(1), wwid(1)]);
        assert_on_map(&host, &volume, 2);
        host.stage(&volume).await.unwrap();
        host.publish(&volume).await.unwrap();
        fs::write(host.target(&volume).join("file"), find_multipaths).unwrap();
        host.unpublish(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
        assert_eq!(host.journal().len(), 0);
        host.stage(&volume).await.unwrap();
        let read = fs::read_to_string(host.staging(&volume).join("file"));
        assert_eq!(read.unwrap(), find_multipaths);
        host.unstage(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_raw_map_with_partitions_is_used() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    let host = host();
    let mut volume = Volume::of_two_paths(1, 1);
    volume.is_raw = true;
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let node = host.target(&volume);
    let command = format!(
        "echo 2048,4096 | sfdisk --quiet --no-reread {}",
        node.display()
    );
    run("sh", &["-c", &command]);
    let mut file = fs::OpenOptions::new().write(true).open(&node).unwrap();
    file.write_all(&[7; 100]).unwrap();
    drop(file);
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    assert_eq!(lio.content(1)[..100], [7; 100]);
    host.stage(&volume).await.unwrap();
    // udev has kpartx make the partition, which then holds the map. It fails if multipathd reloads the map at that moment, so it is called again.
    let [map] = maps().try_into().unwrap();
    let holders = format!("/sys/class/block/{map}/holders");
    until("a partition appears", || {
        let mut update = Command::new("kpartx");
        update.args(["-u", "-p", "-part"]);
        let _ = update.arg(format!("/dev/{map}")).output();
        fs::read_dir(&holders).unwrap().count() == 1
    });
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let mut first = [0];
    fs::File::open(&node)
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    assert_eq!(first, [7]);
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_writer_does_not_notice_a_lost_path() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    let host = host();
    let volume = Volume::of_two_paths(1, 1);
    host.stage(&volume).await.unwrap();
    let writer = Writer::start(host.staging(&volume).join("file"));
    for group in [1, 2] {
        lio.answer_by(group, false);
        until("a path is lost", || states() == ["active", "failed"]);
        lio.answer_by(group, true);
        until("both paths carry requests", || states() == ["active"; 2]);
    }
    writer.end();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_too_few_paths_are_refused() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let host = host();
    let mut volume = Volume::of_two_paths(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    lio.answer_by(2, false);
    let refused = host.stage(&volume).await.unwrap_err().to_string();
    assert!(
        refused.contains("1 of its 2 paths carry requests") && refused.contains("127.0.0.2:3260"),
        "{refused}"
    );
    assert_nothing_left();
    volume.minimum_paths = 1;
    host.stage(&volume).await.unwrap();
    assert_on_map(&host, &volume, 1);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_map_in_use_grows() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    let host = host();
    let volume = Volume::of_two_paths(1, 1);
    host.stage(&volume).await.unwrap();
    let size = || rustix::fs::statvfs(host.staging(&volume)).unwrap().f_blocks;
    let before = size();
    let refused = host.expand(&volume, 2 * DISK_BYTES).await.unwrap_err();
    assert!(refused.to_string().contains("are wanted"), "{refused}");
    lio.grow(1, 2 * DISK_BYTES);
    assert_eq!(
        host.expand(&volume, 2 * DISK_BYTES).await,
        Ok(2 * DISK_BYTES)
    );
    assert!(size() > before + before / 2);
    // A path that does not know the size yet: the call is to be repeated.
    lio.grow(1, 3 * DISK_BYTES);
    lio.answer_by(2, false);
    until("a path is lost", || states() == ["active", "failed"]);
    let refused = host.expand(&volume, 3 * DISK_BYTES).await.unwrap_err();
    assert!(matches!(refused, MountError::Hung(_)), "{refused}");
    lio.answer_by(2, true);
    until("both paths carry requests", || states() == ["active"; 2]);
    assert_eq!(
        host.expand(&volume, 3 * DISK_BYTES).await,
        Ok(3 * DISK_BYTES)
    );
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_encrypted_map_lives() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let _daemons = Daemons::start("strict").unwrap();
    let map = || {
        let [map] = maps().try_into().unwrap();
        assert_eq!(paths(&map).len(), 2);
        map
    };
    let disk = Disk {
        file: &lio.image(1),
        device: &map,
        grow: &|bytes| lio.grow(1, bytes),
        assert_nothing_left: &assert_nothing_left,
    };
    lives(&host(), Volume::of_two_paths(1, 1), disk).await;
}
