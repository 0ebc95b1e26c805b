//! Files of a node in a directory of the test.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const IQN: &str = "iqn.2004-10.com.ubuntu:01:89bd0d4b5c2e";
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const MACHINE: &str = "0123456789abcdef0123456789abcdef";
const UUID: &str = "11111111-2222-4333-8444-555555555555";

struct Node {
    root: TempDir,
    files: InitiatorFiles,
}

impl Node {
    fn with(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        let node = Self {
            files: InitiatorFiles::of(Some(root.path())),
            root,
        };
        for (name, text) in files {
            node.write(&format!("etc/{name}"), text);
        }
        node
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn iqn(&self) -> Result<Option<String>, String> {
        self.files.iqn().map_err(|error| error.to_string())
    }
}

fn parsed(name: Result<Option<String>, InvalidName>) -> Option<String> {
    name.unwrap()
}

#[test]
fn an_initiator_name_is_read_between_comments() {
    for text in [
        format!("InitiatorName={IQN}\n"),
        format!("## DO NOT EDIT\n#InitiatorName=iqn.old\n\n  InitiatorName = {IQN} "),
    ] {
        assert_eq!(
            parsed(initiator_name(&text)).as_deref(),
            Some(IQN),
            "{text}"
        );
    }
    let eui = parsed(initiator_name("InitiatorName=eui.02004567A425678D"));
    assert_eq!(eui.as_deref(), Some("eui.02004567A425678D"));
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
    assert_eq!(parsed(host_nqn(&format!("{NQN}\n"))).as_deref(), Some(NQN));
    assert_eq!(host_nqn("\n"), Ok(None));
    let long = format!("nqn.{}", "a".repeat(NAME_BYTES));
    for (text, refused) in [
        ("host", InvalidName::Nvme),
        ("nqn.a b", InvalidName::Nvme),
        ("nqn.a,duplicate_connect", InvalidName::Nvme),
        (long.as_str(), InvalidName::Nvme),
        ("nqn.a\nnqn.b\n", InvalidName::Two),
    ] {
        assert_eq!(host_nqn(text), Err(refused), "{text}");
    }
}

#[test]
fn a_name_is_read_anew_and_may_be_missing() {
    let node = Node::with(&[]);
    assert_eq!(node.iqn(), Ok(None));
    assert_eq!(node.files.nqn().unwrap(), None);
    for name in ["iqn.a", "iqn.b"] {
        node.write(
            "etc/iscsi/initiatorname.iscsi",
            format!("InitiatorName={name}\n"),
        );
        assert_eq!(node.iqn(), Ok(Some(name.to_owned())));
    }
}

#[test]
fn a_link_is_followed_within_etc_and_never_out_of_it() {
    let node = Node::with(&[("static/initiatorname.iscsi", "InitiatorName=iqn.a")]);
    let link = node.root.path().join("etc/iscsi");
    symlink("static", &link).unwrap();
    assert_eq!(node.iqn(), Ok(Some("iqn.a".to_owned())));
    node.write("elsewhere/initiatorname.iscsi", "InitiatorName=iqn.b");
    fs::remove_file(&link).unwrap();
    symlink("../elsewhere", &link).unwrap();
    let refused = node.iqn().unwrap_err();
    assert!(refused.contains("leads out of that directory"), "{refused}");
}

#[test]
fn a_large_or_binary_file_is_no_name() {
    let node = Node::with(&[]);
    let limit = usize::try_from(FILE_BYTES).unwrap();
    for content in [vec![b'#'; limit + 1], vec![0xff]] {
        node.write("etc/iscsi/initiatorname.iscsi", content);
        let refused = node.iqn().unwrap_err();
        assert!(refused.contains("it is no text of at most"), "{refused}");
    }
    node.write("etc/iscsi/initiatorname.iscsi", vec![b'#'; limit]);
    assert_eq!(node.iqn(), Ok(None));
}

#[test]
fn the_files_of_nvme_cli_are_taken_and_kept() {
    let node = Node::with(&[
        ("nvme/hostnqn", "nqn.2014-08.org.acme:node\n"),
        ("nvme/hostid", UUID),
    ]);
    let host = node.files.nvme_host().unwrap();
    assert_eq!(host.nqn, "nqn.2014-08.org.acme:node");
    assert_eq!(host.id.to_string(), UUID);
    let kept = fs::read_to_string(node.root.path().join("etc/nvme/hostnqn")).unwrap();
    assert_eq!(kept, "nqn.2014-08.org.acme:node\n");
}

#[test]
fn a_missing_id_is_that_of_the_nqn() {
    let node = Node::with(&[("nvme/hostnqn", &format!("{UUID_NQN}{UUID}"))]);
    assert_eq!(node.files.nvme_host().unwrap().id.to_string(), UUID);
}

#[test]
fn a_missing_nqn_is_told_first_and_kept_at_a_connect() {
    let node = Node::with(&[("machine-id", MACHINE)]);
    let told = node.files.nqn().unwrap().unwrap();
    assert!(!node.root.path().join("etc/nvme").exists());
    let made = node.files.nvme_host().unwrap();
    assert_eq!(made.nqn, told);
    assert_eq!(made.nqn, format!("{UUID_NQN}{}", made.id));
    assert!(!made.nqn.replace('-', "").contains(MACHINE));
    fs::remove_file(node.root.path().join("etc/machine-id")).unwrap();
    assert_eq!(node.files.nvme_host().unwrap(), made);
}

#[test]
fn a_node_without_identity_is_told_what_to_write() {
    for (files, expected) in [
        (&[][..], "to /etc/nvme/hostnqn"),
        (&[("nvme/hostnqn", "iqn.a")][..], "`nvme gen-hostnqn`"),
        (
            &[("nvme/hostnqn", "nqn.a"), ("nvme/hostid", "b")][..],
            "it has no UUID",
        ),
        (&[("nvme/hostnqn", "nqn.a")][..], "no machine id"),
    ] {
        let node = Node::with(files);
        let error = node.files.nvme_host().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
