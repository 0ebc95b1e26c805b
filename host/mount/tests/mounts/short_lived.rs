//! Volumes whose content ends with them, through their full lifecycle: a tmpfs, staged or not, and the files of a plugin.

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use std::fs;
use std::path::Path;
use wasmount_core::plan::{Plan, PlanFile, Source};
use wasmount_core::volume::AccessMode;

const READER: AccessMode = AccessMode::SingleNodeReaderOnly;
/// Written by a pod: half of the tmpfs, and not a multiple of any block.
const WRITTEN_BYTES: usize = TMPFS_BYTES as usize / 2 + 77;
/// Content of a plugin's file.
const GIVEN: &str = "given by the plugin";

fn tmpfs() -> Plan {
    plan(Source::Tmpfs {
        size_bytes: Some(TMPFS_BYTES),
    })
}

fn files() -> Plan {
    plan(Source::Files {
        files: vec![PlanFile {
            path: "given".to_owned(),
            mode: 0o440,
            content: GIVEN.as_bytes().to_vec(),
        }],
    })
}

/// Bytes that depend on their offset.
fn written() -> Vec<u8> {
    (0..WRITTEN_BYTES as u32)
        .map(|place| place.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect()
}

fn assert_no_write(target: &Path, name: &str) {
    let error = fs::write(target.join("more"), "x").unwrap_err();
    assert_eq!(
        error.kind(),
        std::io::ErrorKind::ReadOnlyFilesystem,
        "{name}"
    );
}

/// The content of a plugin's file, if the volume has one.
fn given(target: &Path) -> Option<String> {
    fs::read_to_string(target.join("given")).ok()
}

#[test]
fn privileged_what_has_no_stage_step_lives_and_keeps_nothing() {
    privileged(async |bench| {
        for (name, plan, expected) in [
            ("tmpfs", tmpfs(), None),
            ("files", files(), Some(GIVEN.to_owned())),
        ] {
            let volume = Volume::new(&bench, name, plan, mounted_as("ext4"));
            let (writing, reading) = (bench.target("rw"), bench.target("ro"));
            for _ in 0..2 {
                volume.publish_plan("rw", false).await.unwrap();
            }
            assert_eq!(given(&writing), expected, "{name}");
            fs::write(writing.join("data"), written()).unwrap();
            assert!(fs::read(writing.join("data")).unwrap() == written());
            for _ in 0..2 {
                volume.publish_plan("ro", true).await.unwrap();
            }
            assert_eq!(given(&reading), expected, "{name}");
            assert_no_write(&reading, name);
            for (target, readonly) in [("rw", true), ("ro", false)] {
                let changed = volume.publish_plan(target, readonly).await;
                assert_eq!(variant(changed), "OtherwiseThere", "{name} at {target}");
            }
            let other = volume
                .publish_plan_as("rw", AccessMode::SingleNodeMultiWriter, false)
                .await;
            assert_eq!(variant(other), "OtherwiseThere", "{name}");
            assert!(volume.stats("rw").await.unwrap().bytes.used.unwrap() > 0);
            for target in ["rw", "ro", "rw", "ro"] {
                volume.unpublish(target).await.unwrap();
                assert!(!bench.target(target).exists(), "{name}");
            }
            bench.assert_clean();

            volume.publish_plan_as("ro", READER, false).await.unwrap();
            assert!(!reading.join("data").exists(), "{name} kept what was there");
            assert_eq!(given(&reading), expected, "{name}");
            assert_no_write(&reading, name);
            volume.unpublish("ro").await.unwrap();
            bench.assert_clean();
        }
    });
}

#[test]
fn privileged_a_staged_tmpfs_ends_with_its_stage() {
    privileged(async |bench| {
        let volume = Volume::new(&bench, "tmpfs", tmpfs(), mounted_as("ext4"));
        let (writing, reading) = (bench.target("rw"), bench.target("ro"));
        assert_eq!(variant(volume.publish("rw").await), "NotStaged");
        for _ in 0..2 {
            volume.stage().await.unwrap();
        }
        assert_eq!(variant(volume.stage_as(READER).await), "OtherwiseThere");
        volume.publish("rw").await.unwrap();
        fs::write(writing.join("data"), written()).unwrap();
        volume.unpublish("rw").await.unwrap();
        // Its content lives in the stage.
        volume.publish_as("ro", WRITER, true).await.unwrap();
        assert!(fs::read(reading.join("data")).unwrap() == written());
        assert_no_write(&reading, "tmpfs");
        assert_eq!(variant(volume.unstage().await), "InUse");
        volume.end(&["ro"]).await;

        volume.stage().await.unwrap();
        volume.publish("rw").await.unwrap();
        assert!(!writing.join("data").exists(), "it kept what was there");
        volume.end(&["rw"]).await;
    });
}
