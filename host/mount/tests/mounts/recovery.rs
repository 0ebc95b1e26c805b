//! What a killed host leaves. The test edits the journal to the state of that moment; the kernel's state is real.

use crate::bench::*;
use std::fs;
use wasmount_core::mounter::Staged;

#[test]
fn privileged_a_settled_volume_survives_a_restart_untouched() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let bench = bench.restarted();
        assert_eq!(bench.mounter.unsettled(driver()).await, Ok(Vec::new()));
        bench.mounter.recover(key("v")).await.unwrap();
        assert_eq!(bench.staged("v").await, Ok(Staged::AsWanted));
        bench.publish("v", "v").await.unwrap();
        assert_eq!(bench.mounts().len(), 2);
    });
}

#[test]
fn privileged_work_that_was_killed_is_undone_or_finished() {
    // The mount was made or not yet; the stage was being made or removed.
    for progress in ["Coming", "Going"] {
        for is_mounted in [true, false] {
            privileged(move |bench| async move {
                bench.volume("v");
                bench.stage("v").await.unwrap();
                bench.edit_journal("Settled", progress);
                if !is_mounted {
                    take_off(bench.staging("v"));
                }
                let bench = bench.restarted();
                assert_eq!(bench.staged("v").await, Ok(Staged::No));
                assert_eq!(
                    bench.mounter.unsettled(driver()).await,
                    Ok(vec![key("v").volume])
                );
                bench.mounter.recover(key("v")).await.unwrap();
                bench.assert_clean();
                bench.stage("v").await.unwrap();
            });
        }
    }
}

#[test]
fn privileged_a_killed_publish_leaves_nothing() {
    for progress in ["Coming", "Going"] {
        for (is_mounted, is_made) in [(true, true), (false, true), (false, false)] {
            privileged(move |bench| async move {
                bench.in_use("v").await;
                let [file] = bench.journal_files().try_into().unwrap();
                let text = fs::read_to_string(&file).unwrap();
                let (stage, targets) = text.split_once("\"targets\"").unwrap();
                let targets = targets.replace("Settled", progress);
                fs::write(&file, format!("{stage}\"targets\"{targets}")).unwrap();
                if !is_mounted {
                    take_off(bench.target("v"));
                }
                if !is_made {
                    fs::remove_dir(bench.target("v")).unwrap();
                }
                let bench = bench.restarted();
                assert_eq!(
                    bench.mounter.unsettled(driver()).await,
                    Ok(vec![key("v").volume])
                );
                bench.mounter.recover(key("v")).await.unwrap();
                assert!(!bench.target("v").exists());
                assert_eq!(bench.staged("v").await, Ok(Staged::AsWanted));
                bench.unstage("v").await.unwrap();
                bench.assert_clean();
            });
        }
    }
}

#[test]
fn privileged_a_killed_stage_spares_other_mounts() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        bench.edit_journal("Settled", "Coming");
        take_off(bench.staging("v"));
        bench.mount_something_at(&bench.staging("v"));
        let bench = bench.restarted();
        bench.mounter.recover(key("v")).await.unwrap();
        assert_eq!(bench.mounts_at(&bench.staging("v")), 1);
        assert_eq!(bench.journal_files().len(), 0);
    });
}

#[test]
fn privileged_records_of_mounts_that_a_reboot_took_are_dropped() {
    privileged(async |bench| {
        bench.in_use("v").await;
        take_off(bench.target("v"));
        take_off(bench.staging("v"));
        let bench = bench.restarted();
        assert_eq!(
            bench.mounter.unsettled(driver()).await,
            Ok(vec![key("v").volume])
        );
        bench.mounter.recover(key("v")).await.unwrap();
        assert_eq!(bench.journal_files().len(), 0);
        assert_eq!(bench.mounter.unsettled(driver()).await, Ok(Vec::new()));
        // The client's unpublish removes its directory.
        bench.unpublish("v", "v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_torn_entry_is_quarantined() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let [file] = bench.journal_files().try_into().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, &text[..text.len() / 2]).unwrap();
        let bench = bench.restarted();
        let [aside] = bench.journal_files().try_into().unwrap();
        assert_eq!(aside, file.with_extension("quarantined"));
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        assert_eq!(bench.mounts(), []);
    });
}

#[test]
fn privileged_recovery_is_limited_to_its_driver() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        bench.edit_journal("Settled", "Coming");
        let bench = bench.restarted();
        let other = wasmount_core::names::DriverName::parse("other.test").unwrap();
        assert_eq!(bench.mounter.unsettled(other).await, Ok(Vec::new()));
    });
}

#[test]
fn privileged_a_shared_root_differs_from_a_private_one() {
    privileged(async |bench| {
        let status = bench.mounter.status().await.unwrap();
        assert_eq!(status.unshared_roots, [""; 0]);
        // This process itself.
        let process = status.process.unwrap();
        assert!(
            process.resident_bytes > 1 << 20 && process.threads > 1,
            "{process:?}"
        );
        let (outside, missing) = (bench.path("outside"), bench.path("missing"));
        let bench = bench.with_roots(&[outside.clone(), missing.clone()]);
        let status = bench.mounter.status().await.unwrap();
        let [first, second] = status.unshared_roots.try_into().unwrap();
        assert!(
            first.contains(outside.to_str().unwrap()) && first.contains("not on a shared mount"),
            "{first}"
        );
        assert!(second.ends_with("does not exist"), "{second}");
    });
}
