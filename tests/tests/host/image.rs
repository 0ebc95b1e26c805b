//! The image of Wasmount: that it holds all that the host runs, shown by running it there and nowhere else.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use wasmount_tests::root::needs_root;
use xtask::command;
use xtask::image;
use xtask::platform::Architecture;
use xtask::workspace::Workspace;

/// Unpacks an image as a node does, layer upon layer; gives what its configuration says.
fn unpack(archive: &Path, root: &Path) -> Value {
    let layout = tempfile::tempdir().unwrap();
    untar(archive, layout.path());
    let json = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        layout.path().join("blobs").join(digest.replace(':', "/"))
    };
    let index = json(&layout.path().join("index.json"));
    let manifest = json(&blob(&index["manifests"][0]));
    for layer in manifest["layers"].as_array().unwrap() {
        untar(&blob(layer), root);
    }
    json(&blob(&manifest["config"]))["config"].clone()
}

fn untar(archive: &Path, into: &Path) {
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive);
    command::read(tar.arg("--directory").arg(into)).unwrap();
}

#[test]
fn privileged_the_image_runs_the_host_and_its_tools() {
    needs_root();
    let workspace = Workspace::locate().unwrap();
    let program = workspace.host_program();
    let name = image::wasmount_name();
    let own = Architecture::of_this_machine().unwrap();
    let archive = image::wasmount(&workspace, own, &program, &name).unwrap();
    let root = tempfile::tempdir().unwrap();
    let config = unpack(&archive, root.path());
    let entrypoint = config["Entrypoint"][0].as_str().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let mut chroot = Command::new("chroot");
        chroot.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        chroot.arg(root.path()).arg(program);
        let said = command::try_read(chroot.args(arguments)).unwrap();
        // 16 is how e2fsck says that it was asked for its version alone.
        let fine = [Some(0), Some(16)].contains(&said.status.code());
        assert!(fine, "{program}: {said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    let version = run(entrypoint, &["--version"]);
    let built = command::read(Command::new(&program).arg("--version")).unwrap();
    assert_eq!(version, built);
    let tools = [
        ("blkid", "-V"),
        ("mkfs.ext4", "-V"),
        ("e2fsck", "-V"),
        ("mkfs.xfs", "-V"),
        ("xfs_logprint", "-V"),
        ("mkfs.btrfs", "-V"),
        ("btrfs", "version"),
    ];
    for (tool, version) in tools {
        run(tool, &[version]);
    }
    // It knows no way to tell its version without a file system to work on.
    assert_eq!(
        run("sh", &["-c", "command -v resize2fs"]),
        "/usr/sbin/resize2fs\n"
    );
}
