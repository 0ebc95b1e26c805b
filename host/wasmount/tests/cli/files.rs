//! Commands that read and write files of components, where such a file is missing, is something else, or would be lost. Apart because each has a
//! folder of its own, and needs no component that runs.

use crate::said;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Runs it in a folder: exit code, standard error, standard output.
fn run(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wasmount"));
    command.args(words).current_dir(folder);
    let output = command.env("WASMOUNT_KEY_PASSWORD", "").output().unwrap();
    let (code, errors) = said(&output);
    let printed = String::from_utf8(output.stdout).unwrap();
    (code, errors, printed)
}

/// With the smallest component, and its signatures.
fn scene() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
    folder
}

#[test]
fn a_component_is_not_saved_over_its_signatures_and_is_saved_beside_them() {
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
    // By another name it is still the file.
    fs::write(folder.join("p.wasm.sig"), "kept").unwrap();
    std::os::unix::fs::symlink("p.wasm.sig", folder.join("link")).unwrap();
    let (code, errors, _) = run(folder, &["save", "p.wasm", "-o", "link"]);
    assert_eq!(code, Some(64), "{errors}");
    assert_eq!(fs::read(folder.join("p.wasm.sig")).unwrap(), b"kept");
}
