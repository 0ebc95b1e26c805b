//! Volumes without a stage step: files that change as a whole at each republish, and images and devices that are published directly.

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use std::fs;
use std::io::Write;
use std::path::Path;
use wasmount_core::plan::{Plan, PlanFile, Source};
use wasmount_core::volume::AccessType;

fn files(content: &[(&str, &str)]) -> Plan {
    let file = |(path, content): &(&str, &str)| PlanFile {
        path: (*path).to_owned(),
        mode: 0o440,
        content: content.as_bytes().to_vec(),
    };
    plan(Source::Files {
        files: content.iter().map(file).collect(),
    })
}

#[test]
fn privileged_files_are_published_and_replaced_as_a_whole() {
    privileged(async |bench| {
        let mut volume = Volume::new(
            &bench,
            "v",
            files(&[("a", "1"), ("d/b", "1")]),
            mounted_as("ext4"),
        );
        volume.publish_plan("t", true).await.unwrap();
        let target = bench.target("t");
        let read = |name: &str| fs::read_to_string(target.join(name)).ok();
        assert_eq!(
            (read("a"), read("d/b")),
            (Some("1".to_owned()), Some("1".to_owned()))
        );
        assert!(fs::write(target.join("a"), "x").is_err());
        let mounts = bench.mounts();
        volume.plan = files(&[("a", "2"), ("c", "2")]);
        volume.publish_plan("t", true).await.unwrap();
        assert_eq!(
            (read("a"), read("c"), read("d/b")),
            (Some("2".to_owned()), Some("2".to_owned()), None)
        );
        assert_eq!(bench.mounts(), mounts);
        assert_eq!(
            variant(volume.publish_plan("t", false).await),
            "OtherwiseThere"
        );
        volume.unpublish("t").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_the_journal_has_no_file_contents() {
    privileged(async |bench| {
        let volume = Volume::new(&bench, "v", files(&[("a", "hunter22")]), mounted_as("ext4"));
        volume.publish_plan("t", false).await.unwrap();
        let [entry] = bench.journal_files().try_into().unwrap();
        // Bytes would be shown as numbers.
        let text = fs::read_to_string(entry).unwrap();
        assert!(
            !text.contains("hunter22") && !text.contains("104,117"),
            "{text}"
        );
        let bench = bench.without_journal();
        bench.unpublish("v", "t").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_files_that_could_lead_elsewhere_are_refused() {
    privileged(async |bench| {
        for path in ["../a", "/a", "a/../../b", "..data", "", "a//b"] {
            let volume = Volume::new(&bench, "v", files(&[(path, "x")]), mounted_as("ext4"));
            assert_eq!(
                variant(volume.publish_plan("t", false).await),
                "Invalid",
                "{path:?}"
            );
        }
        bench.assert_clean();
    });
}

fn write_device(device: &Path) -> std::io::Result<()> {
    let mut device = fs::File::options().write(true).open(device)?;
    device.write_all(&[1; 4096])?;
    device.sync_all()
}

#[test]
fn privileged_an_image_is_published_without_a_stage_step() {
    privileged(async |bench| {
        for (form, mebibytes) in [("ext4", 32), ("raw", 16)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            for (readonly, target) in [(false, "rw"), (true, "ro")] {
                for _ in 0..2 {
                    volume.publish_plan(target, readonly).await.unwrap();
                }
                let other = volume.publish_plan(target, !readonly).await;
                assert_eq!(variant(other), "OtherwiseThere", "{form}");
                let place = bench.target(target);
                let written = match volume.access_type {
                    AccessType::Block => write_device(&place),
                    _ => fs::write(place.join("data"), "x"),
                };
                assert_eq!(written.is_err(), readonly, "{form}");
                volume.unpublish(target).await.unwrap();
                bench.assert_clean();
                bench.assert_no_loop_devices();
            }
        }
    });
}

#[test]
fn privileged_a_raw_image_has_one_device_for_each_target() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        volume.publish_plan("a", false).await.unwrap();
        volume.publish_plan("b", true).await.unwrap();
        bench.assert_loop_devices(2);
        volume.unpublish("a").await.unwrap();
        bench.assert_loop_devices(1);
        volume.unpublish("b").await.unwrap();
        bench.assert_clean();
        bench.assert_no_loop_devices();
    });
}
