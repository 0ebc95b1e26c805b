//! Images with crafted content: set-user programs and device nodes in a file system, and content that is not a supported file system, through a
//! complete stage.

use super::*;
use crate::volume::{Volume, mounted_as};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use wasmount_core::pool::PoolCall;
use wasmount_core::volume::{AccessType, MountAccess};

/// Writes content to an image.
type Craft = fn(&Path);

/// The user without any permission (`nobody`).
const NOBODY: u32 = 65_534;

/// Creates in an ext4 what a tenant could create: a program that runs as its owner, root, and nodes of `/dev/zero` and of a disk.
fn craft(image: &Path) {
    run("mkfs.ext4", &["-q", "-F", text(image)]);
    let program = ["/usr/bin/id", "/bin/id"]
        .into_iter()
        .find(|path| Path::new(path).is_file())
        .unwrap();
    for request in [
        &format!("write {program} id"),
        "sif id mode 0104755",
        "sif id uid 0",
        "mknod zero c 1 5",
        "sif zero mode 020666",
        "mknod disk b 7 0",
        "sif disk mode 060666",
    ] {
        run("debugfs", &["-w", "-R", request, text(image)]);
    }
}

#[test]
fn privileged_setuid_and_devices_in_an_image_do_not_work() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 32).await;
        craft(&bench.path("pool/v.img"));
        volume.stage().await.unwrap();
        volume.publish("rw").await.unwrap();
        volume.publish_as("ro", WRITER, true).await.unwrap();
        for (point, flags) in bench.mounts() {
            let flags: Vec<_> = flags.split(',').collect();
            assert!(
                flags.contains(&"nosuid") && flags.contains(&"nodev"),
                "{point:?}: {flags:?}"
            );
        }
        // Makes the path accessible for the user `nobody`.
        for directory in [bench.path(""), bench.path("kubelet")] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for target in ["rw", "ro"] {
            let target = bench.target(target);
            let mode = fs::metadata(target.join("id")).unwrap().mode();
            assert_eq!(mode & 0o7777, 0o4755);
            let ran = Command::new(target.join("id"))
                .arg("-u")
                .uid(NOBODY)
                .output()
                .unwrap();
            assert_eq!(ran.stdout, format!("{NOBODY}\n").as_bytes(), "{ran:?}");
            for node in ["zero", "disk"] {
                let opened = File::open(target.join(node));
                let error = opened.unwrap_err().raw_os_error();
                assert_eq!(error, Some(rustix::io::Errno::ACCESS.raw_os_error()));
            }
        }
        volume.end(&["rw", "ro"]).await;
    });
}

fn digest(path: &Path) -> Vec<u8> {
    Sha256::digest(fs::read(path).unwrap()).to_vec()
}

fn partition(image: &Path, label: &str) {
    let mut tool = Command::new("sfdisk")
        .args(["--quiet", "--label", label])
        .arg(image)
        .stdin(Stdio::piped())
        .spawn()
        .expect("this test needs `sfdisk` of the Debian package fdisk");
    tool.stdin.take().unwrap().write_all(b",\n").unwrap();
    assert!(tool.wait().unwrap().success());
}

fn encrypt(image: &Path) {
    let key = image.with_extension("key");
    fs::write(&key, "a key").unwrap();
    let quick = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
    let arguments = [
        &["luksFormat", "-q"],
        &quick[..],
        &[text(image), text(&key)],
    ];
    run("cryptsetup", &arguments.concat());
}

/// LVM labels only block devices.
fn label_for_lvm(image: &Path) {
    let device = run("losetup", &["--find", "--show", text(image)]);
    let device = device.trim_end();
    run("pvcreate", &["-q", "--yes", device]);
    run("losetup", &["--detach", device]);
}

fn put(image: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, offset).unwrap();
}

#[test]
fn privileged_foreign_contents_are_rejected_and_unchanged() {
    privileged(async |bench| {
        let crafts: [(&str, Craft); 9] = [
            ("dos", |image| partition(image, "dos")),
            ("gpt", |image| partition(image, "gpt")),
            ("luks", encrypt),
            ("lvm", label_for_lvm),
            ("swap", |image| drop(run("mkswap", &[text(image)]))),
            ("ext2", |image| {
                drop(run("mkfs.ext2", &["-q", "-F", text(image)]));
            }),
            ("two", |image| {
                run("mkfs.ext4", &["-q", "-F", text(image)]);
                put(image, 0, b"XFSB");
                put(image, 0x1_0040, b"_BHRfS_M");
            }),
            ("bytes", |image| put(image, 77_777, b"data of somebody")),
            ("end", |image| put(image, 32 * MEBIBYTE - 10, b"somebody")),
        ];
        for (name, craft) in crafts {
            let volume = Volume::of_image(&bench, name, "ext4", 32).await;
            let image = bench.path("pool").join(format!("{name}.img"));
            craft(&image);
            let before = digest(&image);
            for access_type in [
                mounted_as("ext4"),
                mounted_as("xfs"),
                mounted_as("btrfs"),
                AccessType::Mount(MountAccess::default()),
            ] {
                let volume = volume.with(access_type);
                for _ in 0..2 {
                    let refused = variant(volume.stage().await);
                    assert!(
                        refused == "Unusable" || refused == "Damaged",
                        "{name}: {refused}"
                    );
                }
                let refused = variant(volume.publish_plan("t", true).await);
                assert!(
                    refused == "Unusable" || refused == "Damaged",
                    "{name}: {refused}"
                );
            }
            assert!(digest(&image) == before, "{name} was written to");
            bench.assert_clean();
            assert_let_go(&bench).await;
            // A user of the raw device may have created this content.
            let raw = volume.with(AccessType::Block);
            raw.stage().await.unwrap();
            raw.publish_as("t", WRITER, true).await.unwrap();
            raw.end(&["t"]).await;
            assert!(digest(&image) == before, "{name} was written to");
        }
    });
}

#[test]
fn privileged_two_images_with_one_uuid_are_two_volumes() {
    privileged(async |bench| {
        for (form, mebibytes) in [("ext4", 32), ("xfs", 300), ("btrfs", 128)] {
            let one = Volume::of_image(&bench, form, form, mebibytes).await;
            one.stage().await.unwrap();
            one.publish("one").await.unwrap();
            fs::write(bench.target("one").join("name"), "one").unwrap();
            one.unpublish("one").await.unwrap();
            one.unstage().await.unwrap();
            let twin = format!("{form}-twin.img");
            let call = PoolCall::CloneImage {
                pool: "main".to_owned(),
                source: format!("{form}.img"),
                target: twin.clone(),
            };
            bench.mounter.pool(driver(), call).await.unwrap();
            let two = Volume::new(&bench, "two", image_at(&twin), mounted_as(form));
            for (volume, target) in [(&one, "one"), (&two, "two")] {
                volume.stage().await.unwrap();
                volume.publish(target).await.unwrap();
                let file = bench.target(target).join("name");
                assert_eq!(fs::read_to_string(&file).unwrap(), "one", "{form}");
                fs::write(file, target).unwrap();
            }
            for target in ["one", "two"] {
                let file = bench.target(target).join("name");
                assert_eq!(fs::read_to_string(file).unwrap(), target, "{form}");
            }
            two.unpublish("two").await.unwrap();
            two.unstage().await.unwrap();
            one.end(&["one"]).await;
        }
    });
}
