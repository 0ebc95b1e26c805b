//! Devices with another key, other content or another owner: nothing is changed.

use super::*;
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};

/// How long the removal of what has no record may take, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

#[test]
fn on_other_kernel_a_wrong_key_changes_nothing() {
    privileged(async |bench| {
        let volume = prepared(&bench, "v", "ext4", 48).await;
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        write(&volume, "a");
        end(&volume, &["a"]).await;
        let before = fs::read(image(&bench, "v")).unwrap();
        for wrong in ["correct horse battery staple", "x"] {
            let wrong = volume.clone().encrypted_by(wrong);
            let text = refused(wrong.stage().await);
            assert!(text.contains("does not take this passphrase"), "{text}");
            assert!(!text.contains("horse"), "{text}");
            bench.assert_clean();
            bench.assert_no_loop_devices();
            assert_eq!(maps(), [""; 0]);
        }
        let empty = volume.clone().encrypted_by("");
        assert_eq!(variant(empty.stage().await), "Invalid");
        assert!(before == fs::read(image(&bench, "v")).unwrap());
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        assert_eq!(read(&volume, "a"), PLAIN);
        end(&volume, &["a"]).await;
    });
}

#[test]
fn on_other_kernel_foreign_data_is_not_encrypted() {
    const BYTES: u64 = 48 * MEBIBYTE;
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 48).await;
        let volume = volume.encrypted_by(PASSPHRASE);
        let path = image(&bench, "v");
        let text = path.to_str().unwrap();
        let fresh = || fs::File::create(&path).unwrap().set_len(BYTES).unwrap();
        let luks1 = format!(
            "printf k | cryptsetup luksFormat -q --type=luks1 --pbkdf-force-iterations=1000 {text} -"
        );
        for (line, named) in [
            (format!("mkfs.ext4 -q {text}"), "ext4 without encryption"),
            (format!("mkswap {text}"), "swap"),
            (luks1, "LUKS1"),
            (byte_at(text, 40 << 10), "byte 40960 is not 0"),
            (byte_at(text, BYTES - 1), "is not 0"),
        ] {
            fresh();
            shell(&line);
            let before = fs::read(&path).unwrap();
            let refusal = refused(volume.stage().await);
            assert!(refusal.contains(named), "{refusal}");
            assert!(before == fs::read(&path).unwrap(), "{named}");
            bench.assert_clean();
            bench.assert_no_loop_devices();
            assert_eq!(maps(), [""; 0]);
        }
        // And the other way round: an encrypted image is not formatted for a volume that is not.
        fresh();
        volume.stage().await.unwrap();
        volume.unstage().await.unwrap();
        let mut plain = volume.clone();
        plain.plan.luks = None;
        let refusal = refused(plain.stage().await);
        assert!(refusal.contains("crypto_LUKS"), "{refusal}");
    });
}

fn byte_at(path: &str, offset: u64) -> String {
    format!("printf d | dd of={path} bs=1 seek={offset} conv=notrunc status=none")
}

/// Changes the metadata in both copies of a header, and with it their checksums (LUKS2 On-Disk Format Specification, 2).
fn edit_metadata(image: &Path, from: &str, to: &str) {
    const COPY_BYTES: usize = 16 << 10;
    const METADATA: usize = 4 << 10;
    const CHECKSUM: std::ops::Range<usize> = 448..512;
    let mut bytes = fs::read(image).unwrap();
    for copy in bytes.chunks_mut(COPY_BYTES).take(2) {
        let metadata = String::from_utf8(copy[METADATA..].to_vec()).unwrap();
        // Its end has zeros.
        let mut metadata = metadata.replace(from, to).into_bytes();
        metadata.resize(COPY_BYTES - METADATA, 0);
        copy[METADATA..].copy_from_slice(&metadata);
        copy[CHECKSUM].fill(0);
        let digest = Sha256::digest(&*copy);
        copy[CHECKSUM][..digest.len()].copy_from_slice(&digest);
    }
    fs::write(image, bytes).unwrap();
}

#[test]
fn on_other_kernel_a_header_that_weakens_is_not_opened() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 48).await;
        let volume = volume.encrypted_by("k");
        let path = image(&bench, "v");
        let null =
            "--cipher=cipher_null-ecb --key-size=256 --pbkdf=pbkdf2 --pbkdf-force-iterations=1000";
        let small = "--pbkdf=argon2id --pbkdf-memory=32 --pbkdf-force-iterations=4";
        for (options, named) in [(null, "cipher_null"), (small, "600000 KiB")] {
            let format = "cryptsetup luksFormat -q --type=luks2";
            shell(&format!(
                "printf k | {format} {options} {} -",
                path.display()
            ));
            // Who demands so much need not compute it.
            edit_metadata(&path, "\"memory\":32,", "\"memory\":600000,");
            let text = refused(volume.stage().await);
            assert!(text.contains(named), "{text}");
            bench.assert_clean();
            assert_eq!(maps(), [""; 0]);
        }
    });
}

#[test]
fn on_other_kernel_stale_maps_are_closed_and_others_stay() {
    const ELSE: &str = "wasmount-else";
    privileged(|bench| async move {
        let volume = prepared(&bench, "v", "ext4", 48).await;
        volume.stage().await.unwrap();
        take_off(bench.staging("v"));
        drop(volume);
        let other = bench.path("other.img");
        let file = fs::File::create(&other).unwrap();
        file.set_len(MEBIBYTE).unwrap();
        let device = shell(&format!("losetup --find --show {}", other.display()));
        // Of another host that has a driver of the same name, and of no host.
        let own = maps().pop().unwrap();
        let (driver_part, _) = own.rsplit_once('-').unwrap();
        let another = format!("{driver_part}-0123456789abcdef01234567");
        let uuid = format!("CRYPT-LUKS2-0123456789abcdef0123456789abcdef-{another}");
        let table = |at: u32| format!("--table '0 8 linear {device} {at}'");
        shell(&format!(
            "dmsetup create {another} --uuid {uuid} {}",
            table(0)
        ));
        shell(&format!("dmsetup create {ELSE} {}", table(8)));
        assert_eq!(maps().len(), 3);
        let bench = bench.without_journal();
        assert_eq!(bench.mounter.unsettled(driver()).await, Ok(Vec::new()));
        // In the background.
        let end = Instant::now() + SOON;
        while maps().contains(&own) {
            assert!(Instant::now() < end, "{:?}", maps());
            tokio::time::sleep(PAUSE).await;
        }
        assert_eq!(maps().len(), 2);
        for name in [another.as_str(), ELSE] {
            shell(&format!("dmsetup remove --retry {name}"));
        }
        shell(&format!("losetup --detach {device}"));
        bench.assert_no_loop_devices();
    });
}

#[test]
fn on_other_kernel_a_lost_journal_keeps_an_encrypted_volume() {
    privileged(|bench| async move {
        let mut bench = bench;
        for (form, access_type) in [
            ("ext4", crate::volume::mounted_as("ext4")),
            ("raw", AccessType::Block),
        ] {
            let plan = bench.image(form, 48 * MEBIBYTE).await;
            luks_format(&image(&bench, form));
            for round in 0..2 {
                let (plan, access_type) = (plan.clone(), access_type.clone());
                let volume = Volume::new(&bench, form, plan, access_type);
                let volume = volume.encrypted_by(PASSPHRASE);
                volume.stage().await.unwrap();
                volume.publish("a").await.unwrap();
                if round == 0 {
                    write(&volume, "a");
                }
                assert_eq!(read(&volume, "a"), PLAIN, "{form}");
                drop(volume);
                bench = bench.without_journal();
                assert_eq!(bench.mounter.unsettled(driver()).await, Ok(Vec::new()));
                assert_eq!(maps().len(), 1, "{form}");
            }
            bench.unpublish(form, "a").await.unwrap();
            bench.unstage(form).await.unwrap();
            bench.assert_clean();
            bench.assert_no_loop_devices();
            assert_eq!(maps(), [""; 0], "{form}");
        }
    });
}
