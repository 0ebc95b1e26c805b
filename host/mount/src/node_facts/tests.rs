//! Files of a node in a directory of the test.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const IQN: &str = "iqn.2004-10.com.ubuntu:01:89bd0d4b5c2e";
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427";

struct Tree {
    folder: TempDir,
    sources: FactSources,
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = FactSources {
            etc: folder.path().join("etc"),
            sys: folder.path().join("sys"),
            proc: folder.path().join("proc"),
        };
        fs::create_dir(&sources.etc).unwrap();
        Self { folder, sources }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn iqn(&self) -> Result<Vec<String>, String> {
        let name = self.sources.name(INITIATOR_NAME, initiator_name);
        name.map_err(|error| error.to_string())
    }

    fn multipath(&self) -> Result<Vec<String>, String> {
        self.sources.multipath().map_err(|error| error.to_string())
    }
}

#[test]
fn an_initiator_name_is_read_between_comments() {
    for text in [
        format!("InitiatorName={IQN}\n"),
        format!("## DO NOT EDIT\n#InitiatorName=iqn.old\n\n  InitiatorName = {IQN} "),
    ] {
        assert_eq!(initiator_name(&text), Ok(Some(IQN)), "{text}");
    }
    assert_eq!(
        initiator_name("InitiatorName=eui.02004567A425678D"),
        Ok(Some("eui.02004567A425678D"))
    );
    // As Debian installs it: made at the first start.
    for text in ["", "GenerateName=yes\n", "#InitiatorName=iqn.a\n"] {
        assert_eq!(initiator_name(text), Ok(None), "{text}");
    }
}

#[test]
fn what_is_no_initiator_name_is_refused() {
    let long = format!("InitiatorName=iqn.{}", "a".repeat(NAME_BYTES));
    for (text, refused) in [
        ("InitiatorName=", InvalidName::Iscsi),
        ("InitiatorName=host", InvalidName::Iscsi),
        ("InitiatorName=iqn.a b", InvalidName::Iscsi),
        ("InitiatorName=iqn.a\"", InvalidName::Iscsi),
        (long.as_str(), InvalidName::Iscsi),
        ("InitiatorName=iqn.a\nInitiatorName=iqn.b", InvalidName::Two),
    ] {
        assert_eq!(initiator_name(text), Err(refused), "{text}");
    }
}

#[test]
fn a_host_nqn_is_the_only_line_of_its_file() {
    assert_eq!(host_nqn(&format!("{NQN}\n")), Ok(Some(NQN)));
    assert_eq!(host_nqn("\n"), Ok(None));
    let long = format!("nqn.{}", "a".repeat(NAME_BYTES));
    for (text, refused) in [
        ("host", InvalidName::Nvme),
        ("nqn.a b", InvalidName::Nvme),
        (long.as_str(), InvalidName::Nvme),
        ("nqn.a\nnqn.b\n", InvalidName::Two),
    ] {
        assert_eq!(host_nqn(text), Err(refused), "{text}");
    }
}

#[test]
fn a_name_is_read_anew_and_may_be_missing() {
    let tree = Tree::new();
    assert_eq!(tree.iqn(), Ok(Vec::new()));
    for name in ["iqn.a", "iqn.b"] {
        tree.write(
            "etc/iscsi/initiatorname.iscsi",
            format!("InitiatorName={name}\n"),
        );
        assert_eq!(tree.iqn(), Ok(vec![name.to_owned()]));
    }
}

#[test]
fn a_link_is_followed_within_etc_and_never_out_of_it() {
    let tree = Tree::new();
    tree.write("etc/static/initiatorname.iscsi", "InitiatorName=iqn.a");
    symlink("static", tree.sources.etc.join("iscsi")).unwrap();
    assert_eq!(tree.iqn(), Ok(vec!["iqn.a".to_owned()]));
    tree.write("elsewhere/initiatorname.iscsi", "InitiatorName=iqn.b");
    fs::remove_file(tree.sources.etc.join("iscsi")).unwrap();
    symlink("../elsewhere", tree.sources.etc.join("iscsi")).unwrap();
    let refused = tree.iqn().unwrap_err();
    assert!(refused.contains("leads out of that directory"), "{refused}");
}

#[test]
fn a_large_or_binary_file_is_no_name() {
    let tree = Tree::new();
    let limit = usize::try_from(NAME_FILE_BYTES).unwrap();
    for content in [vec![b'#'; limit + 1], vec![0xff]] {
        tree.write("etc/iscsi/initiatorname.iscsi", content);
        let refused = tree.iqn().unwrap_err();
        assert!(refused.contains("it is no text of at most"), "{refused}");
    }
    tree.write("etc/iscsi/initiatorname.iscsi", vec![b'#'; limit]);
    assert_eq!(tree.iqn(), Ok(Vec::new()));
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
