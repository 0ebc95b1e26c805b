//! Malicious strings in a plan or a request: paths, mount options, facts of a device.

use super::*;
use crate::volume::{Volume, mounted_as};
use wasmount_core::pool::PoolCall;
use wasmount_core::volume::{AccessType, MountAccess};

#[test]
fn privileged_image_paths_that_could_lead_elsewhere_are_refused() {
    privileged(async |bench| {
        let canary = Canary::plant(bench.path("outside/canary"));
        fs::create_dir(bench.path("pool/a")).unwrap();
        let (long, long_part) = ("a/".repeat(2048) + "b", "x".repeat(256));
        for path in [
            "..",
            ".",
            "",
            "../outside/canary",
            "a/../../outside/canary",
            "a/./../../outside/canary",
            "a//b",
            "a/",
            text(&canary.path),
            "/",
            "a\0b",
            "a\0/../../outside/canary",
            ".wasmount",
            ".wasmount/trash/a",
            &long,
            &long_part,
        ] {
            for access_type in [AccessType::Block, mounted_as("ext4")] {
                let volume = Volume::new(&bench, "v", image_at(path), access_type);
                let expected = bench.refusal(path, "Invalid");
                assert_eq!(variant(volume.stage().await), expected, "{path:?}");
                let published = volume.publish_plan("t", false).await;
                assert_eq!(variant(published), expected, "{path:?}");
            }
        }
        bench.assert_clean();
        assert_let_go(&bench).await;
        canary.assert_untouched();
    });
}

#[test]
fn privileged_image_names_that_look_like_ways_out_are_names() {
    privileged(async |bench| {
        let mut bench = bench;
        // For the kernel a name ends only at `/` and NUL. The two in the middle look like `..`.
        for name in [
            "a\nb",
            "..\\outside\\canary",
            "\u{2025}",
            "\u{ff0e}\u{ff0e}",
            "...",
            ".. ",
            "a (deleted)",
            "a\\012b",
            "%2e%2e%2foutside",
            "$(id)`id`;'\"",
        ] {
            let call = PoolCall::CreateImage {
                pool: "main".to_owned(),
                path: name.to_owned(),
                size_bytes: MEBIBYTE,
            };
            bench.mounter.pool(driver(), call).await.unwrap();
            let inode = fs::metadata(bench.path("pool").join(name)).unwrap().ino();
            let volume = Volume::new(&bench, "odd", image_at(name), AccessType::Block);
            volume.stage().await.unwrap();
            volume.publish("t").await.unwrap();
            let bound = bindings(&bench);
            assert!(bound.iter().all(|(_, bound)| *bound == inode), "{name:?}");
            assert_eq!(bound.len(), 1, "{name:?}");
            bench = bench.without_journal();
            bench.unpublish("odd", "t").await.unwrap();
            bench.unstage("odd").await.unwrap();
            bench.assert_clean();
            assert_let_go(&bench).await;
        }
    });
}

/// Options that no plan and no request may use without a grant, or at all.
const SMUGGLED: [(&str, &str); 28] = [
    ("suid", "NotGranted"),
    ("dev", "NotGranted"),
    ("exec", "NotGranted"),
    ("exec,suid", "Invalid"),
    ("ro,suid", "Invalid"),
    ("noatime,dev", "Invalid"),
    ("ro\nsuid", "Invalid"),
    ("ro suid", "Invalid"),
    ("ro\0suid", "Invalid"),
    ("", "Invalid"),
    ("upperdir=/etc", "NotGranted"),
    ("lowerdir=/etc", "NotGranted"),
    ("loop", "NotGranted"),
    ("loop=/dev/loop0", "NotGranted"),
    ("offset=4096", "NotGranted"),
    ("journal_dev=0x700", "NotGranted"),
    ("journal_path=/dev/loop0", "NotGranted"),
    ("device=/dev/loop0", "NotGranted"),
    ("logdev=/dev/loop0", "NotGranted"),
    ("rtdev=/dev/loop0", "NotGranted"),
    ("errors=panic", "Invalid"),
    ("fatal_errors=panic", "Invalid"),
    ("fd=3", "NotGranted"),
    ("source=/etc/passwd", "NotGranted"),
    ("subvol=..", "NotGranted"),
    ("context=system_u:object_r:etc_t:s0", "NotGranted"),
    ("remount", "NotGranted"),
    ("bind", "NotGranted"),
];

/// Names that the host sets itself, or that lead to other storage: they cannot be granted either.
const RESERVED: [(&str, &[&str]); 4] = [
    ("ext4", &["source", "journal_dev", "journal_path"]),
    ("xfs", &["source", "logdev", "rtdev"]),
    ("btrfs", &["source", "device", "subvol"]),
    ("overlay", &["source"]),
];

fn refusal(fs_type: &str, option: &str, otherwise: &'static str) -> &'static str {
    let name = option.split('=').next().unwrap();
    let is_reserved = RESERVED
        .iter()
        .any(|(of, names)| *of == fs_type && names.contains(&name));
    if is_reserved { "Invalid" } else { otherwise }
}

fn with_options(fs_type: &str, options: &[&str]) -> AccessType {
    AccessType::Mount(MountAccess {
        fs_type: Some(fs_type.to_owned()),
        mount_flags: options.iter().map(|it| (*it).to_owned()).collect(),
        ..MountAccess::default()
    })
}

/// In the request and in the plan, alone and after a valid option.
async fn assert_smugglers_are_refused(bench: &Bench, plan: &Plan, fs_type: &str) {
    for (option, expected) in SMUGGLED {
        let mut by_plan = plan.clone();
        by_plan.mount_options = vec![option.to_owned()];
        for volume in [
            Volume::new(bench, "odd", plan.clone(), with_options(fs_type, &[option])),
            Volume::new(
                bench,
                "odd",
                plan.clone(),
                with_options(fs_type, &["noatime", option]),
            ),
            Volume::new(bench, "odd", by_plan, mounted_as(fs_type)),
        ] {
            let found = variant(volume.stage().await);
            let expected = bench.refusal(option, refusal(fs_type, option, expected));
            assert_eq!(found, expected, "{fs_type} with {option:?}");
        }
    }
    bench.assert_clean();
}

#[test]
fn privileged_options_of_images_and_devices_cannot_be_smuggled() {
    privileged(async |bench| {
        let image = bench.image("v", MEBIBYTE).await;
        let device = NodeDevice::attach(&bench, "v", MEBIBYTE);
        let device = (
            plan(Source::Device {
                facts: vec![("by-id".to_owned(), device.by_id())],
                wait_ms: 0,
            }),
            device,
        );
        for fs_type in ["ext4", "xfs", "btrfs"] {
            assert_smugglers_are_refused(&bench, &image, fs_type).await;
            assert_smugglers_are_refused(&bench, &device.0, fs_type).await;
        }
        assert_let_go(&bench).await;
        // It was refused before anything was written.
        for file in ["pool/v.img", "outside/v"] {
            assert_eq!(fs::metadata(bench.path(file)).unwrap().blocks(), 0);
        }
    });
}

#[test]
fn privileged_options_by_name_are_checked() {
    privileged(async |bench| {
        let overlay = plan(Source::Filesystem {
            fs_type: "overlay".to_owned(),
            source: "layers".to_owned(),
            options: Vec::new(),
            secret_options: Vec::new(),
            backend_secret_options: Vec::new(),
            sealed_options: Vec::new(),
        });
        for (option, expected) in SMUGGLED {
            // Options of an overlay that are granted to the bench's driver.
            if option.contains("erdir=") {
                continue;
            }
            for plan in [
                Plan {
                    mount_options: vec![option.to_owned()],
                    ..overlay.clone()
                },
                plan(Source::Filesystem {
                    fs_type: "overlay".to_owned(),
                    source: "layers".to_owned(),
                    options: vec![option.to_owned()],
                    secret_options: Vec::new(),
                    backend_secret_options: Vec::new(),
                    sealed_options: Vec::new(),
                }),
            ] {
                let volume = Volume::new(&bench, "v", plan, mounted_as("overlay"));
                let found = variant(volume.stage().await);
                let expected = bench.refusal(option, refusal("overlay", option, expected));
                assert_eq!(found, expected, "{option:?}");
            }
        }
        // A granted option must not occur twice: the kernel would use the last one.
        let twice = Plan {
            mount_options: vec!["upperdir=/b".to_owned(), "upperdir=/etc".to_owned()],
            ..overlay
        };
        let volume = Volume::new(&bench, "v", twice, mounted_as("overlay"));
        assert_eq!(variant(volume.stage().await), "Invalid");
        bench.assert_clean();
    });
}

#[test]
fn privileged_options_of_a_raw_volume_mean_nothing() {
    privileged(async |bench| {
        let mut plan = bench.image("optional", MEBIBYTE).await;
        plan.mount_options = vec!["suid".to_owned(), "exec".to_owned()];
        let volume = Volume::new(&bench, "optional", plan, AccessType::Block);
        volume.stage().await.unwrap();
        volume.publish("t").await.unwrap();
        let [(_, flags)] = bench.mounts().try_into().unwrap();
        let flags: Vec<_> = flags.split(',').collect();
        assert!(flags.contains(&"nosuid") && flags.contains(&"noexec"));
        volume.end(&["t"]).await;
    });
}

#[test]
fn privileged_facts_of_a_device_are_no_paths() {
    privileged(async |bench| {
        let device = NodeDevice::attach(&bench, "v", MEBIBYTE);
        let name = device.by_id();
        let around = format!("../by-id/{name}");
        let through = format!("wasmount-test-/../{name}");
        let ended = format!("{name}\0");
        for facts in [
            vec![("by-id", around.as_str())],
            vec![("by-id", &through)],
            vec![("by-id", &ended)],
            vec![("by-id", "..")],
            vec![("by-id", "")],
            vec![("by-id", "/dev/loop0")],
            vec![("by-path", "../../loop0")],
            vec![("partition", "1")],
            vec![("partition", "../1"), ("by-id", &name)],
            vec![("label", "a")],
            vec![("uuid", "a")],
            vec![("by-id", &name), ("by-id", &name)],
            vec![],
        ] {
            let owned = |(fact, value): &(&str, &str)| ((*fact).to_owned(), (*value).to_owned());
            let plan = plan(Source::Device {
                facts: facts.iter().map(owned).collect(),
                wait_ms: 0,
            });
            for access_type in [AccessType::Block, mounted_as("ext4")] {
                let volume = Volume::new(&bench, "v", plan.clone(), access_type);
                let words: String = facts.iter().map(|(_, value)| *value).collect();
                let expected = bench.refusal(&words, "Invalid");
                assert_eq!(variant(volume.stage().await), expected, "{facts:?}");
            }
        }
        bench.assert_clean();
        assert_eq!(fs::metadata(bench.path("outside/v")).unwrap().blocks(), 0);
    });
}
