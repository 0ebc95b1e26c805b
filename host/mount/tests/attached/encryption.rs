//! Volumes that the mounter encrypts, on disks of any protocol.

use crate::host::{self, Host};
use crate::iscsi::entries;
use crate::support::run;
use std::fs;
use std::io::Read;
use std::path::Path;
use wasmount_core::plan::attached::SecretScope;
use wasmount_core::plan::encryption::LUKS_KEY;
use wasmount_core::plan::{Luks, Plan, Source};
use wasmount_core::secrets::SecretOptions;

pub(crate) const PASSPHRASE: &str = "correct horse battery staple";
/// What is written to volumes, and must not be on their storage.
pub(crate) const PLAIN: &[u8] = b"nobody reads this on the storage";
/// The size of the smallest block of ext4.
const BLOCK: usize = 1 << 10;
/// How much of a disk is read at a time.
const PIECE: usize = 1 << 20;

/// A volume that is encrypted.
pub(crate) struct Encrypted<V> {
    pub(crate) volume: V,
    passphrase: &'static str,
}

impl<V> Encrypted<V> {
    pub(crate) fn of(volume: V) -> Self {
        Self {
            volume,
            passphrase: PASSPHRASE,
        }
    }
}

impl<V: host::Volume> host::Volume for Encrypted<V> {
    fn name(&self) -> &str {
        self.volume.name()
    }

    fn source(&self) -> Source {
        self.volume.source()
    }

    fn secrets(&self) -> SecretOptions {
        SecretOptions::from_iter([(LUKS_KEY.to_owned(), self.passphrase.to_owned())])
    }

    fn is_raw(&self) -> bool {
        self.volume.is_raw()
    }

    fn is_read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn plan(&self) -> Plan {
        Plan {
            luks: Some(Luks::of(SecretScope::Backend, "key")),
            ..self.volume.plan()
        }
    }
}

/// A blank disk, as a test sees it.
pub(crate) struct Disk<'a> {
    /// Where the storage system keeps it.
    pub(crate) file: &'a Path,
    /// The kernel's name of the device that volumes on it use.
    pub(crate) device: &'a dyn Fn() -> String,
    /// Makes it as large as this.
    pub(crate) grow: &'a dyn Fn(u64),
    pub(crate) assert_nothing_left: &'a dyn Fn(),
}

/// A volume is staged for the first time, grows in use, and is found again; a wrong passphrase opens nothing.
pub(crate) async fn lives(host: &Host, volume: impl host::Volume, disk: Disk<'_>) {
    prepare(disk.file);
    let bytes = 2 * fs::metadata(disk.file).unwrap().len();
    let mut volume = Encrypted::of(volume);
    let assert_nothing_left = || {
        (disk.assert_nothing_left)();
        assert_eq!((maps(), host.journal().len()), (0, 0));
    };
    host.stage(&volume).await.unwrap();
    host.stage(&volume).await.unwrap();
    host.publish(&volume).await.unwrap();
    let holders = Path::new("/sys/class/block").join((disk.device)());
    assert_eq!((entries(&holders.join("holders")).len(), maps()), (1, 1));
    let file = host.target(&volume).join("file");
    fs::write(&file, PLAIN).unwrap();
    let size = || {
        let seen = rustix::fs::statvfs(host.staging(&volume)).unwrap();
        seen.f_blocks * seen.f_frsize
    };
    let before = size();
    (disk.grow)(bytes);
    assert_eq!(host.expand(&volume, bytes).await, Ok(bytes));
    assert!(size() > before + before / 2);
    assert_eq!(fs::read(&file).unwrap(), PLAIN);
    assert!(!host.kept().contains(PASSPHRASE));
    host.unpublish(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    assert!(!has_plain_text(disk.file));

    volume.passphrase = "correct horse";
    let refused = host.stage(&volume).await.unwrap_err().to_string();
    assert!(
        refused.contains("does not take this passphrase"),
        "{refused}"
    );
    assert_nothing_left();

    volume.passphrase = PASSPHRASE;
    host.stage(&volume).await.unwrap();
    let read = fs::read(host.staging(&volume).join("file"));
    assert_eq!(read.unwrap(), PLAIN);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

/// Gives a blank disk the header of an unfinished first stage, with a key that takes no time. That of the mounter itself takes more than a second of the
/// VM's CPU whenever the volume is opened.
pub(crate) fn prepare(disk: &Path) {
    let disk = disk.display();
    let options = "-q --type=luks2 --label=wasmount-new --sector-size=512 --key-size=512";
    let key = "--pbkdf=pbkdf2 --pbkdf-force-iterations=1000 --key-file=-";
    let format = format!("printf '{PASSPHRASE}' | cryptsetup luksFormat {options} {key} {disk}");
    run("sh", &["-c", &format]);
}

/// How many devices of dm-crypt there are.
pub(crate) fn maps() -> usize {
    let devices = entries(Path::new("/sys/class/block")).into_iter();
    let maps = devices.filter(|device| {
        let uuid = fs::read_to_string(device.join("dm/uuid"));
        uuid.is_ok_and(|uuid| uuid.starts_with("CRYPT-"))
    });
    maps.count()
}

/// Whether the storage has what was written. It begins a block of the file system.
pub(crate) fn has_plain_text(disk: &Path) -> bool {
    let mut file = fs::File::open(disk).unwrap();
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece).unwrap();
        let mut blocks = piece[..length].chunks(BLOCK);
        if length == 0 || blocks.any(|block| block.starts_with(PLAIN)) {
            return length > 0;
        }
    }
}
