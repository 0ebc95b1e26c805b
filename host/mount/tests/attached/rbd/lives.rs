//! Whole lives of images: with a file system, raw, encrypted, growing.

use super::cluster::{Cluster, MIB, assert_nothing_left, host, mapped};
use std::fs;
use std::io::{Read, Write};
use wasmount_core::plan::rbd::ImageAccess;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_image_of_ceph_lives_with_ext4() {
    let cluster = Cluster::start();
    let host = host();
    let mut image = cluster.create("ext4");
    for round in 0..2 {
        host.stage(&image).await.unwrap();
        host.publish(&image).await.unwrap();
        // A repetition finds it done.
        host.stage(&image).await.unwrap();
        assert_eq!(mapped().len(), 1);
        let file = host.target(&image).join("file");
        if round == 0 {
            fs::write(&file, "kept").unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        // The key is nowhere, in the kernel neither.
        let told = &mapped()[0];
        assert!(told.contains(",exclusive,"), "{told}");
        assert!(!told.contains(&cluster.key) && !told.contains("secret="));
        assert!(!host.kept().contains(&cluster.key));
        host.unpublish(&image).await.unwrap();
        host.unstage(&image).await.unwrap();
        host.unstage(&image).await.unwrap();
        assert_nothing_left(&host);
    }
    image.access = ImageAccess::ReadOnly;
    host.stage(&image).await.unwrap();
    assert!(fs::write(host.staging(&image).join("file"), "changed").is_err());
    host.unstage(&image).await.unwrap();
    assert_nothing_left(&host);
    cluster.remove("ext4");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_image_of_ceph_lives_raw_and_grows() {
    let cluster = Cluster::start();
    let host = host();
    let mut image = cluster.create("raw");
    image.is_raw = true;
    image.access = ImageAccess::Shared;
    host.stage(&image).await.unwrap();
    host.publish(&image).await.unwrap();
    let mut device = fs::File::options()
        .read(true)
        .write(true)
        .open(host.target(&image))
        .unwrap();
    device.write_all(b"raw").unwrap();
    device.sync_all().unwrap();
    let mut device_read = [0; 3];
    fs::File::open(host.target(&image))
        .unwrap()
        .read_exact(&mut device_read)
        .unwrap();
    assert_eq!(&device_read, b"raw");
    cluster
        .ceph
        .rbd(&["resize", "--no-progress", "--size", "96M", "raw"])
        .unwrap();
    assert_eq!(host.expand(&image, 96 * MIB).await.unwrap(), 96 * MIB);
    drop(device);
    host.unpublish(&image).await.unwrap();
    host.unstage(&image).await.unwrap();
    assert_nothing_left(&host);
    let content = cluster.content("raw");
    assert_eq!(
        (content.len() as u64, &content[..3]),
        (96 * MIB, &b"raw"[..])
    );
    cluster.remove("raw");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_encrypted_image_of_ceph_grows_mounted() {
    let cluster = Cluster::start();
    let host = host();
    let mut image = cluster.create("encrypted");
    image.is_encrypted = true;
    image.access = ImageAccess::Shared;
    host.stage(&image).await.unwrap();
    let plain = "nobody reads this in Ceph";
    fs::write(host.staging(&image).join("file"), plain).unwrap();
    let file_system = || rustix::fs::statvfs(host.staging(&image)).unwrap();
    let before = file_system().f_blocks;
    let refused = host.expand(&image, 128 * MIB).await.unwrap_err();
    assert!(refused.to_string().contains("67108864 bytes"), "{refused}");
    cluster
        .ceph
        .rbd(&["resize", "--no-progress", "--size", "128M", "encrypted"])
        .unwrap();
    assert_eq!(host.expand(&image, 128 * MIB).await.unwrap(), 128 * MIB);
    assert!(file_system().f_blocks > before * 3 / 2);
    host.unstage(&image).await.unwrap();
    assert_nothing_left(&host);
    let content = cluster.content("encrypted");
    assert!(content.starts_with(b"LUKS"));
    let mut windows = content.windows(plain.len());
    assert!(!windows.any(|it| it == plain.as_bytes()));
    cluster.remove("encrypted");
}
