//! Commands that read and write component files, where such a file is missing, has another type, or would be overwritten.

use crate::{DOCUMENT, said};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Runs a command in a folder: exit code, standard error, standard output.
fn run(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wasmount"));
    command.args(words).current_dir(folder);
    let output = command.env("WASMOUNT_KEY_PASSWORD", "").output().unwrap();
    let (code, errors) = said(&output);
    let printed = String::from_utf8(output.stdout).unwrap();
    (code, errors, printed)
}

/// A folder with the smallest component, and its signatures.
fn scene() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
    folder
}

#[test]
fn a_component_is_saved_beside_its_signatures() {
    let folder = scene();
    let folder = folder.path();
    for name in ["p.wasm.sig", "p.wasm.bundle"] {
        for written in [
            name.to_owned(),
            format!("./{name}"),
            folder.join(name).display().to_string(),
        ] {
            let (code, errors, _) = run(folder, &["save", "p.wasm", "-o", &written]);
            assert_eq!(code, Some(64), "{errors}");
            let expected =
                "there a host looks for signatures of p.wasm; name another file, such as p.tar";
            assert!(errors.contains(expected), "{errors}");
            assert!(!folder.join(name).exists());
        }
    }
    let (code, errors, _) = run(folder, &["save", "p.wasm", "-o", "p.tar"]);
    assert_eq!(code, Some(0), "{errors}");
    // Another path of the same file.
    fs::write(folder.join("p.wasm.sig"), "kept").unwrap();
    std::os::unix::fs::symlink("p.wasm.sig", folder.join("link")).unwrap();
    let (code, errors, _) = run(folder, &["save", "p.wasm", "-o", "link"]);
    assert_eq!(code, Some(64), "{errors}");
    assert_eq!(fs::read(folder.join("p.wasm.sig")).unwrap(), b"kept");
}

/// Private keys of two people, in PKCS #8, and the names of their files.
const KEYS: [(&str, &str); 2] = [
    (
        "ann.key",
        "-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2NY7yUULFyrMpr6I\n\
    VWohL14I9dxCtHoo8PiSckHWQQShRANCAAQwkZGc10S0jHSaJuDf3yCOHIUNKIgL\n\
    RWWinsBQjxJ3qaAYptTFgz3hji7NxB4TVNTwJ90/prBKoZ6Zw8M2SnA5\n\
    -----END PRIVATE KEY-----\n",
    ),
    (
        "bob.key",
        "-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5CQNumQsZvo9BoLE\n\
    wKMKVzK/IBP6F2w+gfRDjnUr/FyhRANCAATRKJThAjrxcTEz2lPsBkT/EgQL7MJK\n\
    zAwgzZ1YNUmZgwhFm9C/PDxfCShbEqvbjquzbQ5J4O8gxFgRSUceqPN3\n\
    -----END PRIVATE KEY-----\n",
    ),
];

#[test]
fn a_first_signature_may_be_an_added_one() {
    let folder = scene();
    let folder = folder.path();
    for (name, key) in KEYS {
        fs::write(folder.join(name), key).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    for (key, lines) in [("ann.key", 1), ("ann.key", 1), ("bob.key", 2)] {
        let signed = run(folder, &["sign", "p.wasm", "--add", "--key", key]);
        assert_eq!(signed, (Some(0), String::new(), "p.wasm.sig\n".to_owned()));
        let text = fs::read_to_string(folder.join("p.wasm.sig")).unwrap();
        assert_eq!(text.lines().count(), lines, "{text}");
    }
    // Signatures that exist but cannot be read are an error, not missing signatures.
    fs::remove_file(folder.join("p.wasm.sig")).unwrap();
    fs::create_dir(folder.join("p.wasm.sig")).unwrap();
    let (code, errors, _) = run(folder, &["sign", "p.wasm", "--add", "--key", "ann.key"]);
    assert_eq!(code, Some(1), "{errors}");
}

#[test]
fn a_file_that_is_no_component_is_not_pushed() {
    let folder = scene();
    fs::write(folder.path().join("script"), "#!/bin/sh\n").unwrap();
    let (code, errors, _) = run(folder.path(), &["push", "script", "oci://a.b/c:1"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        errors,
        "wasmount: script is not pushed: it is not WebAssembly, which begins with the bytes `\\0asm`; name the file that the toolchain made\n"
    );
}

#[test]
fn a_missing_temporary_directory_is_named_with_the_fix() {
    let folder = scene();
    fs::write(folder.path().join("b.yaml"), DOCUMENT).unwrap();
    for words in [
        &["inspect", "p.wasm"][..],
        &["check", "p.wasm", "--backend", "b.yaml"],
        &["call", "p.wasm", "Probe"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wasmount"));
        command.args(words).current_dir(folder.path());
        let output = command.env("TMPDIR", "/nowhere/tmp").output().unwrap();
        let (code, errors) = said(&output);
        assert_eq!(code, Some(1), "{words:?}: {errors}");
        let expected = "no temporary directory can be made: in /nowhere/tmp: No such file or directory (os error 2); make that directory, or name another by TMPDIR";
        assert!(errors.contains(expected), "{words:?}: {errors}");
    }
}

#[test]
fn a_warning_of_manifests_is_a_comment_of_the_yaml_too() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |document: &str| {
        fs::write(folder.path().join("backend.yaml"), document).unwrap();
        let words = ["manifests", "--as-object", "--backend", "backend.yaml"];
        run(folder.path(), &words)
    };
    let (code, text, yaml) = printed(DOCUMENT);
    assert_eq!(code, Some(0), "{text}");
    let begin = "---\n# Warning: the object names files of this machine";
    assert!(yaml.starts_with(begin), "{yaml}");
    assert!(
        text.starts_with("wasmount: warning: the object names files"),
        "{text}"
    );
    let in_registry = DOCUMENT.replace("path: plugin.wasm", "reference: a.example/b:1");
    let (code, text, yaml) = printed(&in_registry);
    assert_eq!((code, text.as_str()), (Some(0), ""));
    assert!(!yaml.contains("Warning"), "{yaml}");
}
