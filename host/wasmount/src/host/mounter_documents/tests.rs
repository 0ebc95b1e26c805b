//! Which grants follow from which files, decided without a mounter; and that a directory of Kubernetes is read whole.

use super::*;
use std::os::unix::fs::symlink;
use wasmount_core::document::FilesystemGrant;

/// The grants of a driver, which differ by this type of file system.
fn granted(driver: &str, fs_type: &str) -> Granted {
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: a }}\nspec:\n  driverName: {driver}\n  \
         plugin: {{ path: p.wasm }}\n  grants: {{ filesystems: [{{ type: {fs_type}, sources: [\"s:/*\"] }}] }}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    fs::write(&file, text).unwrap();
    let granted = reading(&file).unwrap();
    let types = granted.grants.filesystems.iter();
    let types: Vec<&str> = types
        .map(|it: &FilesystemGrant| it.fs_type.as_str())
        .collect();
    assert_eq!(types, [fs_type]);
    granted
}

fn files(all: &[(&str, Granted)]) -> BTreeMap<PathBuf, Granted> {
    let all = all.iter();
    all.map(|(file, granted)| (PathBuf::from(file), granted.clone()))
        .collect()
}

fn readings(all: &[(&str, Reading)]) -> BTreeMap<PathBuf, Reading> {
    let all = all.iter();
    all.map(|(file, reading)| (PathBuf::from(file), reading.clone()))
        .collect()
}

/// What is in effect afterwards, and which files are refused.
fn decided(
    before: &[(&str, Granted)],
    now: &[(&str, Reading)],
) -> (BTreeMap<PathBuf, Granted>, Vec<String>) {
    let line = DriverName::parse("line.example").unwrap();
    let named = BTreeMap::from([(PathBuf::from("line"), line)]);
    let (wanted, refused) = wanted(&files(before), readings(now), &named);
    let refused = refused.into_iter();
    let refused = refused.map(|(file, reason)| format!("{}: {reason}", file.display()));
    (wanted, refused.collect())
}

#[test]
fn files_that_come_change_and_go_change_their_own_grants() {
    let [a, b, c] = ["a.example", "b.example", "c.example"].map(|it| granted(it, "nfs4"));
    let other = granted("b.example", "ceph");
    let before = [("a", a), ("b", b)];
    let now = [("b", Ok(other.clone())), ("c", Ok(c.clone()))];
    let (wanted, refused) = decided(&before, &now);
    assert_eq!(wanted, files(&[("b", other), ("c", c)]));
    assert_eq!(refused, [""; 0]);
}

#[test]
fn a_document_that_is_not_accepted_changes_nothing() {
    let [a, b] = ["a.example", "b.example"].map(|it| granted(it, "nfs4"));
    let before = [("a", a.clone()), ("b", b.clone())];
    let invalid = || Err("it is no document".to_owned());
    let now = [("a", invalid()), ("b", Ok(b.clone())), ("new", invalid())];
    let (wanted, refused) = decided(&before, &now);
    assert_eq!(wanted, files(&before));
    assert_eq!(refused, ["a: it is no document", "new: it is no document"]);
    // The driver of another file, and one of the command line.
    let line = granted("line.example", "nfs4");
    let now = [("a", Ok(b.clone())), ("b", Ok(b)), ("c", Ok(line))];
    let (wanted, refused) = decided(&before, &now);
    assert_eq!(wanted, files(&before));
    assert_eq!(
        refused,
        [
            "a: b.example is the driver of b too",
            "c: line.example has a document on the command line"
        ]
    );
}

#[test]
fn a_driver_stays_with_the_file_that_had_it() {
    let a = granted("a.example", "nfs4");
    let second = granted("a.example", "ceph");
    let now = [("0-copy", Ok(second.clone())), ("a", Ok(a.clone()))];
    let (wanted, refused) = decided(&[("a", a.clone())], &now);
    assert_eq!(wanted, files(&[("a", a.clone())]));
    assert_eq!(refused, ["0-copy: a.example is the driver of a too"]);
    // Of two new ones the first has it; a renamed file is no second one.
    let (wanted, _) = decided(&[], &now);
    assert_eq!(wanted, files(&[("0-copy", second)]));
    let (wanted, refused) = decided(&[("a", a.clone())], &[("b", Ok(a.clone()))]);
    assert_eq!(wanted, files(&[("b", a)]));
    assert_eq!(refused, [""; 0]);
}

#[test]
fn a_file_may_change_its_driver_and_two_may_swap() {
    let [a, b, c] = ["a.example", "b.example", "c.example"].map(|it| granted(it, "nfs4"));
    let before = [("a", a.clone()), ("b", b.clone())];
    let (wanted, refused) = decided(&before, &[("a", Ok(c.clone())), ("b", Ok(b.clone()))]);
    assert_eq!(wanted, files(&[("a", c), ("b", b.clone())]));
    assert_eq!(refused, [""; 0]);
    let (wanted, refused) = decided(&before, &[("a", Ok(b.clone())), ("b", Ok(a.clone()))]);
    assert_eq!(wanted, files(&[("a", b), ("b", a)]));
    assert_eq!(refused, [""; 0]);
}

#[test]
fn a_document_of_the_command_line_keeps_its_driver() {
    let [line, a] = ["line.example", "a.example"].map(|it| granted(it, "nfs4"));
    let before = [("line", line.clone())];
    let (wanted, refused) = decided(&before, &[("line", Ok(a.clone()))]);
    assert_eq!(wanted, files(&before));
    assert_eq!(
        refused,
        ["line: driverName was line.example and is a.example: restart the mounter"]
    );
    let (wanted, _) = decided(&before, &[("line", Err("it is gone".to_owned()))]);
    assert_eq!(wanted, files(&before));
    let other = granted("line.example", "ceph");
    let now = [("line", Ok(other.clone())), ("a", Ok(a.clone()))];
    let (wanted, refused) = decided(&before, &now);
    assert_eq!(wanted, files(&[("line", other), ("a", a)]));
    assert_eq!(refused, [""; 0]);
}

#[test]
fn only_documents_of_the_directory_itself_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir(root.join("..2026")).unwrap();
    for name in ["a.yaml", "b.yaml", "registry-ca.pem"] {
        fs::write(root.join("..2026").join(name), "").unwrap();
        symlink(Path::new("..data").join(name), root.join(name)).unwrap();
    }
    symlink("..2026", root.join("..data")).unwrap();
    let expected = ["a.yaml", "b.yaml"].map(|it| root.join(it));
    assert_eq!(documents(root).unwrap(), expected.into());
    assert!(documents(&root.join("none")).is_err());
}
