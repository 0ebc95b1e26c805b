//! Lives of volumes: one with a file system, a raw one, many at a time, one that grows.

use super::target::{DISK_BYTES, Lio, assert_nothing_left, disks, sessions, wwid};
use super::volume::{Volume, host};
use crate::host::Host;
use crate::many;
use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_is_used_and_nothing_is_left() {
    let lio = Lio::start();
    lio.offer(0, 1);
    lio.offer(255, 2);
    let host = host();
    for (lun, number) in [(0, 1), (255, 2)] {
        let volume = Volume::of(lun, number);
        host.stage(&volume).await.unwrap();
        // The other disk of the target is not for this node.
        assert_eq!(disks(), [wwid(number)]);
        host.stage(&volume).await.unwrap();
        host.publish(&volume).await.unwrap();
        fs::write(host.target(&volume).join("file"), "kept").unwrap();
        host.unpublish(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
        assert_eq!(host.journal().len(), 0);
        host.stage(&volume).await.unwrap();
        let read = fs::read_to_string(host.staging(&volume).join("file"));
        assert_eq!(read.unwrap(), "kept");
        host.unstage(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_raw_disk_is_used_and_nothing_is_left() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let mut volume = Volume::of(1, 1);
    volume.is_raw = true;
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let node = host.target(&volume);
    let mut file = fs::OpenOptions::new().write(true).open(&node).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    drop(file);
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    assert_eq!(lio.content(1)[..4096], [7; 4096]);
    volume.is_read_only = true;
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let mut first = [0];
    fs::File::open(&node)
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    assert_eq!(first, [7]);
    let written = fs::OpenOptions::new().write(true).open(&node);
    assert!(written.and_then(|mut file| file.write_all(&[8])).is_err());
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_many_volumes_share_one_session() {
    let lio = Lio::start();
    let volumes: Vec<_> = (0..many::volumes())
        .map(|number| {
            let lun = u16::try_from(number).unwrap();
            lio.offer(lun, number);
            Volume::of(lun, number)
        })
        .collect();
    let host = Arc::new(host());
    many::stage(&host, &volumes).await;
    assert_eq!(sessions().len(), 1);
    assert_eq!(disks().len(), volumes.len());
    host.unstage(&volumes[0]).await.unwrap();
    // The session is that of the others, too.
    assert_eq!((sessions().len(), disks().len()), (1, volumes.len() - 1));
    many::unstage(&host, &volumes).await;
    assert_nothing_left();
    assert_eq!(host.journal().len(), 0);
    host.stage(&volumes[7]).await.unwrap();
    let read = fs::read_to_string(host.staging(&volumes[7]).join("name"));
    assert_eq!(read.unwrap(), volumes[7].name);
    host.unstage(&volumes[7]).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_in_use_grows() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Volume::of(1, 1);
    host.stage(&volume).await.unwrap();
    let before = capacity(&host, &volume);
    let refused = host.expand(&volume, 2 * DISK_BYTES).await.unwrap_err();
    assert!(refused.to_string().contains("are wanted"), "{refused}");
    lio.grow(1, 2 * DISK_BYTES);
    assert_eq!(
        host.expand(&volume, 2 * DISK_BYTES).await,
        Ok(2 * DISK_BYTES)
    );
    assert!(capacity(&host, &volume) > before + before / 2);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

fn capacity(host: &Host, volume: &Volume) -> u64 {
    let seen = rustix::fs::statvfs(host.staging(volume)).unwrap();
    seen.f_blocks * seen.f_frsize
}
