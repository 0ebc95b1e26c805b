//! What an attacker would like the host to mount over, read or delete: a directory beside the host's, and how it looks untouched.

use std::fs;
use std::path::{Path, PathBuf};
use wasmount_tests::host::Host;
use wasmount_tests::leaks::below;
use xtask::mountinfo::mounts_below;

/// In the file that must stay.
const PRECIOUS: &str = "precious";

/// The directory.
pub(crate) struct Decoy {
    path: PathBuf,
}

impl Decoy {
    /// Beside the host's own directories. It has what a kubelet directory has, so that paths through a link to it exist.
    pub(crate) fn plant(host: &Host) -> Self {
        let path = host.root().join("decoy");
        for directory in ["globalmount", "mount"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        fs::write(path.join(PRECIOUS), PRECIOUS).unwrap();
        fs::write(path.join("data"), PRECIOUS).unwrap();
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing is mounted in it, and nothing came, went or changed.
    pub(crate) fn assert_untouched(&self) {
        let mounts = mounts_below(&self.path).unwrap();
        assert!(mounts.is_empty(), "mounted over the decoy: {mounts:?}");
        let mut found = below(&self.path).unwrap();
        found.sort();
        let expected = ["data", "globalmount", "mount", PRECIOUS];
        assert_eq!(found, expected.map(|name| self.path.join(name)));
        for file in ["data", PRECIOUS] {
            let content = fs::read_to_string(self.path.join(file)).unwrap();
            assert_eq!(content, PRECIOUS);
        }
    }
}
