//! Accepted and refused files of plans.

use super::*;
use proptest::prelude::*;

fn file(path: &str, content: &[u8]) -> PlanFile {
    PlanFile {
        path: path.to_owned(),
        mode: 0o440,
        content: content.to_vec(),
    }
}

fn checked(paths: &[&str]) -> Result<CheckedFiles, MountError> {
    let files: Vec<_> = paths.iter().map(|path| file(path, b"x")).collect();
    check(&files, Vec::new())
}

fn reason(result: Result<CheckedFiles, MountError>) -> String {
    match result {
        Err(MountError::Invalid { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_of_plain_parts_are_taken_with_their_directories() {
    let long = "x".repeat(255);
    let files = checked(&["tls/key", "tls/deep/..x", "name", ".hidden", &long, "a\\b"]).unwrap();
    let directories: Vec<_> = files.directories.keys().collect();
    assert_eq!(directories, ["", "tls", "tls/deep"]);
    let top: Vec<_> = files.top_names().collect();
    assert_eq!(top, [".hidden", "a\\b", "name", "tls", &long]);
    assert!(files.has_top_name("tls") && !files.has_top_name("key"));
    let places: Vec<_> = files.files.iter().map(CheckedFile::place).collect();
    assert_eq!(places[3], ("tls/deep", "..x"));
    assert_eq!(places[4], ("tls", "key"));
    assert_eq!(files.files[0].mode, 0o440);
    assert_eq!(files.files[0].content.as_slice(), b"x");
}

#[test]
fn no_files_are_an_empty_volume() {
    let files = check(&[], Vec::new()).unwrap();
    assert!(files.files.is_empty());
    assert_eq!(files.directories.len(), 1);
    assert_eq!(files.top_names().count(), 0);
}

#[test]
fn a_path_that_leads_elsewhere_or_is_the_hosts_is_refused() {
    let (long_part, long_path) = ("x".repeat(256), "x/".repeat(2048));
    for (path, word) in [
        ("", "is empty"),
        ("/a", "empty part"),
        ("a/", "empty part"),
        ("a//b", "empty part"),
        (".", "`.` or `..`"),
        ("..", "`.` or `..`"),
        ("a/../b", "`.` or `..`"),
        ("a/./b", "`.` or `..`"),
        ("a\0", "NUL"),
        (&long_part, "255"),
        (&long_path, "4095"),
        ("..data", "reserved for the host"),
        ("..data/x", "reserved for the host"),
        ("...", "reserved for the host"),
    ] {
        let reason = reason(checked(&[path]));
        assert!(reason.contains(word), "{path:?}: {reason}");
    }
}

#[test]
fn files_that_cannot_lie_beside_each_other_are_refused() {
    assert!(reason(checked(&["a", "b", "a"])).contains("twice"));
    for paths in [["a", "a/b"], ["a/b", "a"], ["a/b/c/d", "a/b"]] {
        assert!(reason(checked(&paths)).contains("directory"), "{paths:?}");
    }
    checked(&["a", "a.b", "ab/c", "a-b/c"]).unwrap();
}

#[test]
fn a_mode_is_of_permissions_only() {
    for (mode, is_taken) in [
        (0, true),
        (0o777, true),
        (0o1777, false),
        (0o4755, false),
        (0o100_644, false),
    ] {
        let mut file = file("a", b"");
        file.mode = mode;
        assert_eq!(check(&[file], Vec::new()).is_ok(), is_taken, "{mode:o}");
    }
}

#[test]
fn what_is_too_much_is_refused_and_the_last_that_fits_is_not() {
    let halves = |more: usize| {
        [
            file("a", &vec![0; CONTENT_BYTES / 2]),
            file("b", &vec![0; CONTENT_BYTES / 2 + more]),
        ]
    };
    check(&halves(0), Vec::new()).unwrap();
    assert!(reason(check(&halves(1), Vec::new())).contains("1048577"));
    let many =
        |count: usize| -> Vec<_> { (0..count).map(|i| file(&format!("d/{i}"), b"")).collect() };
    check(&many(ENTRIES - 1), Vec::new()).unwrap();
    assert!(reason(check(&many(ENTRIES), Vec::new())).contains("1024"));
    let deep = format!("{}x", "d/".repeat(ENTRIES));
    assert!(reason(checked(&[&deep])).contains("1024"));
}

#[test]
fn neither_a_refusal_nor_a_debug_text_shows_content() {
    let files = check(&[file("a", b"hunter22")], Vec::new()).unwrap();
    let text = format!("{files:?}");
    assert!(
        text.contains("8 bytes") && !text.contains("hunter22"),
        "{text}"
    );
    assert!(!text.contains(&format!("{:?}", b"hunter22")), "{text}");
}

proptest! {
    #[test]
    fn files_that_are_taken_can_be_written_in_one_tree(paths in prop::collection::vec("[ab./]{1,6}|a\0", 0..6)) {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        if let Ok(files) = checked(&paths) {
            prop_assert_eq!(files.files.len(), paths.len());
            let directory = tempfile::tempdir().unwrap();
            for (path, _) in files.directories.iter().skip(1) {
                std::fs::create_dir(directory.path().join(path)).unwrap();
            }
            for file in &files.files {
                let (parent, name) = file.place();
                let path = directory.path().join(parent).join(name);
                std::fs::OpenOptions::new().write(true).create_new(true).open(path).unwrap();
            }
            for (path, names) in &files.directories {
                prop_assert_eq!(std::fs::read_dir(directory.path().join(path)).unwrap().count(), names.len());
            }
        }
    }
}
