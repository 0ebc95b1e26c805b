//! Encrypted devices of the node.

use super::*;

const BYTES: u64 = 48 * MEBIBYTE;
/// The size of the smallest block of ext4.
const BLOCK: usize = 1 << 10;

#[test]
fn on_other_kernel_an_encrypted_device_lives_and_grows() {
    privileged(async |bench| {
        let device = NodeDevice::attach(&bench, "v", BYTES);
        let node = Path::new("/dev/disk/by-id").join(device.by_id());
        let storage = bench.path("outside").join("v");
        luks_format(&node);
        let alternatives = ["none".to_owned(), device.by_id()];
        let alternatives = alternatives.map(|name| vec![("by-id".to_owned(), name)]);
        let source = Source::AnyDevice {
            alternatives: alternatives.to_vec().try_into().unwrap(),
            rescan: false,
            wait_ms: 1000,
        };
        let access_type = crate::volume::mounted_as("ext4");
        let volume = Volume::new(&bench, "v", plan(source), access_type);
        let volume = volume.encrypted_by(PASSPHRASE);
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        assert_eq!(maps().len(), 1);
        write(&volume, "a");
        let size = || rustix::fs::statvfs(bench.target("a")).unwrap().f_blocks;
        let before = size();
        shell(&format!("truncate -s {} {}", 2 * BYTES, storage.display()));
        shell(&format!("losetup --set-capacity {}", node.display()));
        assert_eq!(volume.expand_to_image(2 * BYTES).await, Ok(2 * BYTES));
        assert!(size() > before + before / 2);
        assert_eq!(read(&volume, "a"), PLAIN);
        end(&volume, &["a"]).await;
        let stored = fs::read(&storage).unwrap();
        let mut blocks = stored.chunks(BLOCK);
        assert!(!blocks.any(|block| block.starts_with(PLAIN)));
        let wrong = volume.clone().encrypted_by("x");
        let text = refused(wrong.stage().await);
        assert!(text.contains("does not take this passphrase"), "{text}");
        bench.assert_clean();
        assert_eq!(maps(), [""; 0]);
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        assert_eq!(read(&volume, "a"), PLAIN);
        end(&volume, &["a"]).await;
    });
}
