//! Encrypted disks behind a target: lives with a file system and raw, growth, and a host that was killed.

use super::target::{DISK_BYTES, Lio, assert_nothing_left};
use super::volume::{Volume, host};
use crate::host;
use std::fs;
use std::io::{Read, Write};
use wasmount_core::plan::attached::SecretScope;
use wasmount_core::plan::encryption::LUKS_KEY;
use wasmount_core::plan::{Luks, Plan, Source};
use wasmount_core::secrets::SecretOptions;

const PASSPHRASE: &str = "correct horse battery staple";
const PLAIN: &[u8] = b"nobody reads this on the storage";

/// A volume that is encrypted.
struct Encrypted(Volume);

impl host::Volume for Encrypted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn source(&self) -> Source {
        self.0.source()
    }

    fn secrets(&self) -> SecretOptions {
        SecretOptions::from_iter([(LUKS_KEY.to_owned(), PASSPHRASE.to_owned())])
    }

    fn is_raw(&self) -> bool {
        self.0.is_raw()
    }

    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    fn plan(&self) -> Plan {
        Plan {
            luks: Some(Luks::of(SecretScope::Backend, "key")),
            ..self.0.plan()
        }
    }
}

fn has_plain_text(content: &[u8]) -> bool {
    // What is written begins a block.
    content.chunks(PLAIN.len()).any(|it| it == PLAIN)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_encrypted_disk_lives_and_grows() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Encrypted(Volume::of(1, 1));
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
        assert!(!has_plain_text(&lio.content(1)));
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
    let mut volume = Encrypted(Volume::of(1, 1));
    volume.0.is_raw = true;
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let node = host.target(&volume);
    let mut file = fs::OpenOptions::new().write(true).open(&node).unwrap();
    file.write_all(PLAIN).unwrap();
    drop(file);
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    assert!(!has_plain_text(&lio.content(1)));
    volume.0.is_read_only = true;
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
