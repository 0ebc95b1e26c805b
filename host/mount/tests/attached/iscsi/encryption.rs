//! Encrypted disks behind a target: lives with a file system and raw, growth, and a host that was killed.

use super::target::{DISK_BYTES, Lio, assert_nothing_left};
use super::volume::{Volume, host};
use crate::encryption::{Encrypted, PASSPHRASE, PLAIN, has_plain_text, maps, prepare};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io::{Read, Write};

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_encrypted_disk_lives_and_grows() {
    let lio = Lio::start();
    lio.offer(1, 1);
    prepare(&lio.image(1));
    let host = host();
    let volume = Encrypted::of(Volume::of(1, 1));
    for round in 0..2 {
        host.stage(&volume).await.unwrap();
        host.stage(&volume).await.unwrap();
        host.publish(&volume).await.unwrap();
        let file = host.target(&volume).join("file");
        if round == 0 {
            fs::write(&file, PLAIN).unwrap();
        }
        assert_eq!(fs::read(&file).unwrap(), PLAIN);
        assert!(!host.kept().contains(PASSPHRASE));
        host.unpublish(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
        assert!(!has_plain_text(&lio.image(1)));
    }
    host.stage(&volume).await.unwrap();
    let size = || {
        let seen = rustix::fs::statvfs(host.staging(&volume)).unwrap();
        seen.f_blocks * seen.f_frsize
    };
    let before = size();
    lio.grow(1, 2 * DISK_BYTES);
    let grown = host.expand(&volume, 2 * DISK_BYTES).await;
    assert_eq!(grown, Ok(2 * DISK_BYTES));
    assert!(size() > before + before / 2);
    // A killed host leaves the volume as it is.
    let host = host.restarted();
    host.recover().await;
    let read = fs::read(host.staging(&volume).join("file"));
    assert_eq!(read.unwrap(), PLAIN);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    assert_eq!(host.journal().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_encrypted_raw_disk_lives() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let mut volume = Encrypted::of(Volume::of(1, 1));
    volume.volume.is_raw = true;
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let node = host.target(&volume);
    let mut file = fs::OpenOptions::new().write(true).open(&node).unwrap();
    file.write_all(PLAIN).unwrap();
    drop(file);
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    assert!(!has_plain_text(&lio.image(1)));
    volume.volume.is_read_only = true;
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let mut first = vec![0; PLAIN.len()];
    let mut opened = fs::File::open(&node).unwrap();
    opened.read_exact(&mut first).unwrap();
    drop(opened);
    assert_eq!(first, PLAIN);
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_map_without_a_document_is_closed() {
    let lio = Lio::start();
    lio.offer(1, 1);
    prepare(&lio.image(1));
    let host = host();
    let volume = Encrypted::of(Volume::of(1, 1));
    host.stage(&volume).await.unwrap();
    let host = host.restarted_without_document().await;
    assert_eq!(maps(), 1);
    unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
    let host = host.restarted_without_document().await;
    assert_eq!((maps(), host.journal().len()), (0, 0));
    assert_nothing_left();
}
