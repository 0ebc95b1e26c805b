//! What each access mode of CSI allows a pod, with a file system and with a raw block device; and which properties a target may have for itself.

use crate::bench::*;
use crate::volume::Volume;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess};

/// A mode, the answer for a second target on one node (`None`: it is published there too), and whether a pod may write.
const MODES: [(AccessMode, Option<&str>, bool); 7] = [
    (AccessMode::SingleNodeWriter, None, true),
    (AccessMode::SingleNodeReaderOnly, None, false),
    (AccessMode::MultiNodeReaderOnly, None, false),
    (AccessMode::MultiNodeSingleWriter, None, true),
    (AccessMode::MultiNodeMultiWriter, None, true),
    (AccessMode::SingleNodeSingleWriter, Some("InUse"), true),
    (AccessMode::SingleNodeMultiWriter, None, true),
];

/// Writes as a pod does, and returns only after the data is on storage.
fn write(access_type: &AccessType, target: &Path) -> std::io::Result<()> {
    let mut file = match access_type {
        AccessType::Block => File::options().write(true).open(target)?,
        _ => File::create(target.join("data"))?,
    };
    file.write_all(&[1; 4096])?;
    file.sync_all()
}

#[test]
fn privileged_each_access_mode_has_its_targets_and_its_writes() {
    privileged(async |bench| {
        for (form, mebibytes) in [("ext4", 32), ("raw", 16)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            // An existing file system: none is made for reading only.
            volume.stage().await.unwrap();
            volume.end(&[]).await;
            for (mode, second, may_write) in MODES {
                let row = format!("{form}, {mode:?}");
                volume
                    .stage_as(mode)
                    .await
                    .unwrap_or_else(|error| panic!("{row}: {error}"));
                volume
                    .publish_as("a", mode, false)
                    .await
                    .unwrap_or_else(|error| panic!("{row}: {error}"));
                let other = volume.publish_as("b", mode, false).await;
                let mut shown = vec!["a"];
                match second {
                    None => {
                        other.unwrap_or_else(|error| panic!("{row}: {error}"));
                        shown.push("b");
                    }
                    Some(expected) => {
                        assert_eq!(variant(other), expected, "{row}");
                        assert!(!bench.target("b").exists(), "{row}");
                    }
                }
                for target in &shown {
                    let written = write(&volume.access_type, &bench.target(target));
                    assert_eq!(written.is_ok(), may_write, "{row} at {target}: {written:?}");
                }
                volume.end(&shown).await;
            }
            let later = volume.stage_as(AccessMode::Other(8)).await;
            assert_eq!(variant(later), "Unsupported", "{form}");
        }
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_noexec_target_of_an_image_is_its_own() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 32).await;
        volume.stage().await.unwrap();
        let noexec = volume.with(AccessType::Mount(MountAccess {
            fs_type: Some("ext4".to_owned()),
            mount_flags: vec!["noexec".to_owned()],
            ..MountAccess::default()
        }));
        for _ in 0..2 {
            noexec.publish("without").await.unwrap();
        }
        volume.publish("with").await.unwrap();
        let program = bench.target("with").join("program");
        // Not by this process: a child of another test would have the program open for writing as well, until its exec.
        let copied = Command::new("cp").arg("/bin/true").arg(&program).status();
        assert!(copied.unwrap().success());
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        assert!(Command::new(&program).status().unwrap().success());
        let refused = Command::new(bench.target("without").join("program")).status();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(variant(volume.publish("without").await), "OtherwiseThere");
        volume.end(&["with", "without"]).await;
    });
}
