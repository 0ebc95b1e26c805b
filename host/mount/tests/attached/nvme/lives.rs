//! Whole lives of volumes, alone and in company.

use super::target::{Target, assert_nothing_left, controllers};
use super::volume::{Volume, host, uuid};
use crate::many;
use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// NGUID of a namespace, in the form of a UUID.
const NGUID: &str = "00253858-0000-0000-0000-000000000001";

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_namespace_lives_as_a_file_system() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), 64 * MIB);
    let host = host();
    let mut volume = Volume::of(1);
    for round in 0..2 {
        host.stage(&volume).await.unwrap();
        host.publish(&volume).await.unwrap();
        // A repetition finds it done.
        host.stage(&volume).await.unwrap();
        let file = host.target(&volume).join("file");
        if round == 0 {
            fs::write(&file, "kept").unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        host.unpublish(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left(&host);
    }
    volume.is_read_only = true;
    host.stage(&volume).await.unwrap();
    assert!(fs::write(host.staging(&volume).join("file"), "changed").is_err());
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_namespace_without_uuid_lives() {
    let mut target = Target::start(1);
    target.add_with_nguid(1, NGUID, 64 * MIB);
    let host = host();
    let volume = Volume {
        uuid: NGUID.to_owned(),
        ..Volume::of(1)
    };
    for _ in 0..2 {
        host.stage(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left(&host);
    }
    host.stage(&volume).await.unwrap();
    target.grow(1, 128 * MIB);
    assert_eq!(host.expand(&volume, 128 * MIB).await, Ok(128 * MIB));
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_namespace_lives_as_a_raw_device() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), 64 * MIB);
    let host = host();
    let mut volume = Volume::of(1);
    volume.is_raw = true;
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let device = host.target(&volume);
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .open(device)
        .unwrap();
    file.write_all(b"raw").unwrap();
    file.sync_all().unwrap();
    drop(file);
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
    let mut read = [0; 3];
    let mut disk = fs::File::open(target.file(1)).unwrap();
    disk.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"raw");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_many_volumes_share_one_connection() {
    let mut target = Target::start(1);
    let volumes: Vec<_> = (1..=many::volumes())
        .map(|number| {
            target.add(number, &uuid(number), 32 * MIB);
            Volume::of(number)
        })
        .collect();
    let host = Arc::new(host());
    many::stage(&host, &volumes).await;
    let (last, others) = volumes.split_last().unwrap();
    many::unstage(&host, others).await;
    // It is that of the last one, too.
    assert_eq!(controllers().len(), 1);
    host.unstage(last).await.unwrap();
    assert_nothing_left(&host);
    // The mapping of each device was right.
    host.stage(&volumes[0]).await.unwrap();
    let name = fs::read_to_string(host.staging(&volumes[0]).join("name")).unwrap();
    assert_eq!(name, volumes[0].name);
    host.unstage(&volumes[0]).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_mounted_namespace_grows() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), 32 * MIB);
    let host = host();
    let volume = Volume::of(1);
    host.stage(&volume).await.unwrap();
    let file_system = || rustix::fs::statvfs(host.staging(&volume)).unwrap();
    let before = file_system().f_blocks;
    let refused = host.expand(&volume, 64 * MIB).await.unwrap_err();
    assert!(refused.to_string().contains("33554432 bytes"), "{refused}");
    target.grow(1, 64 * MIB);
    assert_eq!(host.expand(&volume, 64 * MIB).await.unwrap(), 64 * MIB);
    assert!(file_system().f_blocks > before * 3 / 2);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}
