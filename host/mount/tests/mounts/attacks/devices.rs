//! A plugin that names another volume's device: the loop device of an image, or a disk that is in use.
//!
//! Names in `/dev/disk/by-id` come from the disks themselves, so the name alone proves nothing.

use super::*;
use crate::volume::{Volume, mounted_as};
use sha2::{Digest, Sha256};
use std::os::unix::fs::symlink;
use wasmount_core::volume::AccessType;

/// A name in `/dev/disk/by-id` that is granted to the bench's driver, for any device. Removed when it is dropped.
struct Name(PathBuf);

impl Name {
    fn of(bench: &Bench, device: &Path) -> Self {
        let names = Path::new("/dev/disk/by-id");
        fs::create_dir_all(names).unwrap();
        let directory = bench.path("");
        let unique = directory.file_name().unwrap().to_str().unwrap();
        let link = names.join(format!(
            "wasmount-test-{}-alias",
            unique.trim_start_matches('.')
        ));
        symlink(device, &link).unwrap();
        Self(link)
    }

    fn plan(&self) -> Plan {
        by_id(self.0.file_name().unwrap().to_str().unwrap())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn by_id(name: &str) -> Plan {
    plan(Source::Device {
        facts: vec![("by-id".to_owned(), name.to_owned())],
        wait_ms: 0,
    })
}

fn digest(path: &Path) -> Vec<u8> {
    Sha256::digest(fs::read(path).unwrap()).to_vec()
}

/// With a file system that would be made on it, and raw; with a stage step and without.
async fn assert_refused(bench: &Bench, plan: &Plan, why: &str) {
    for access_type in [mounted_as("ext4"), mounted_as("xfs"), AccessType::Block] {
        let thief = Volume::new(bench, "thief", plan.clone(), access_type);
        assert_eq!(variant(thief.stage().await), "InUse", "{why}");
        assert_eq!(variant(thief.publish_plan("thief", false).await), "InUse");
        assert_eq!(variant(thief.publish_plan("thief", true).await), "InUse");
    }
    assert!(!bench.target("thief").exists());
}

#[test]
fn privileged_the_loop_device_of_a_volume_is_no_device_source() {
    privileged(async |bench| {
        for (name, form) in [("lent-ext4", "ext4"), ("lent-raw", "raw")] {
            let victim = Volume::of_image(&bench, name, form, 32).await;
            victim.stage().await.unwrap();
            let alias = Name::of(&bench, &only_device(&bench));
            let image = bench.path("pool").join(format!("{name}.img"));
            run("sync", &[text(&image)]);
            let before = digest(&image);
            assert_refused(&bench, &alias.plan(), form).await;
            victim.publish(form).await.unwrap();
            assert_refused(&bench, &alias.plan(), form).await;
            run("sync", &[text(&image)]);
            if form == "raw" {
                assert_eq!(digest(&image), before);
            }
            victim.end(&[form]).await;
        }
    });
}

#[test]
fn privileged_a_device_of_one_volume_is_refused_to_another() {
    privileged(async |bench| {
        for (form, access_type) in [("ext4", mounted_as("ext4")), ("raw", AccessType::Block)] {
            let device = NodeDevice::attach(&bench, form, 32 * MEBIBYTE);
            let plan = by_id(&device.by_id());
            let victim = Volume::new(&bench, "victim", plan.clone(), access_type);
            victim.stage().await.unwrap();
            assert_refused(&bench, &plan, form).await;
            victim.publish("victim").await.unwrap();
            assert_refused(&bench, &plan, form).await;
            victim.unpublish("victim").await.unwrap();
            victim.unstage().await.unwrap();
            // It is available again.
            let next = Volume::new(&bench, "next", plan, AccessType::Block);
            next.stage().await.unwrap();
            next.unstage().await.unwrap();
        }
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_device_without_stage_is_refused_to_another() {
    privileged(async |bench| {
        let device = NodeDevice::attach(&bench, "v", 32 * MEBIBYTE);
        let plan = by_id(&device.by_id());
        let victim = Volume::new(&bench, "victim", plan.clone(), AccessType::Block);
        victim.publish_plan("victim", false).await.unwrap();
        assert_refused(&bench, &plan, "published").await;
        victim.unpublish("victim").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_an_ungranted_device_name_is_rejected() {
    privileged(async |bench| {
        let device = NodeDevice::attach(&bench, "v", MEBIBYTE);
        let other = by_id(
            &device
                .by_id()
                .replacen("wasmount-test-", "wasmount-other-", 1),
        );
        let volume = Volume::new(&bench, "v", other, AccessType::Block);
        let refused = variant(volume.stage().await);
        assert!(
            refused == "NotFound" || refused == "NotGranted",
            "{refused}"
        );
        // A file in place of a device, under a granted name.
        let file = bench.path("outside/file");
        fs::write(&file, "").unwrap();
        let name = Name::of(&bench, &file);
        let volume = Volume::new(&bench, "v", name.plan(), AccessType::Block);
        let refused = variant(volume.stage().await);
        assert!(refused == "NotFound" || refused == "Unusable", "{refused}");
        bench.assert_clean();
    });
}
