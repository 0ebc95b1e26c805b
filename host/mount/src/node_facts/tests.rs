//! Files of a node in a directory of the test.

use super::*;
use tempfile::TempDir;

struct Tree {
    folder: TempDir,
    sources: FactSources,
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = FactSources {
            initiator: InitiatorFiles::of(Some(folder.path())),
            sys: folder.path().join("sys"),
            proc: folder.path().join("proc"),
        };
        Self { folder, sources }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn multipath(&self) -> Result<Vec<String>, String> {
        self.sources.multipath().map_err(|error| error.to_string())
    }
}

#[test]
fn multipath_is_that_of_the_kernel_and_of_a_running_daemon() {
    let tree = Tree::new();
    assert_eq!(tree.multipath(), Ok(Vec::new()));
    tree.write("sys/module/nvme_core/parameters/multipath", "N\n");
    assert_eq!(tree.multipath(), Ok(Vec::new()));
    tree.write("sys/module/nvme_core/parameters/multipath", "Y\n");
    tree.write("sys/module/dm_multipath/refcnt", "0\n");
    tree.write(
        "proc/net/unix",
        "Num RefCount Protocol Flags Type St Inode Path\n",
    );
    // In a network namespace without hardware the daemon is not seen.
    fs::create_dir_all(tree.sources.sys.join("class/net/eth0")).unwrap();
    let refused = tree.multipath().unwrap_err();
    assert!(refused.contains("hostNetwork"), "{refused}");
    fs::create_dir(tree.sources.sys.join("class/net/eth0/device")).unwrap();
    assert_eq!(tree.multipath(), Ok(vec!["nvme".to_owned()]));
    let socket =
        format!("0000000000000000: 00000002 00000000 00010000 0001 01 20961 {MULTIPATHD}\n");
    tree.write("proc/net/unix", socket);
    assert_eq!(
        tree.multipath(),
        Ok(vec!["dm".to_owned(), "nvme".to_owned()])
    );
}
