//! Entries on disk and in memory.

use super::*;
use crate::failure::MountSetupError;
use crate::records::{ASIDE, QUARANTINED, file_name};
use std::fs;
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;
use wasmount_core::names::VolumeId;
use wasmount_core::plan::{Plan, PlanFile, Source};
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

fn key(volume: &str) -> VolumeKey {
    VolumeKey {
        driver: DriverName::parse("a.test").unwrap(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    }
}

fn identity(inode: u64) -> Identity {
    Identity {
        device_major: 8,
        device_minor: 1,
        inode,
    }
}

fn capability(flags: &[&str]) -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess {
            mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..MountAccess::default()
        }),
        access_mode: AccessMode::SingleNodeWriter,
    }
}

fn files_plan() -> Plan {
    let file = PlanFile {
        path: "token".to_owned(),
        mode: 0o400,
        content: b"hunter22".to_vec(),
    };
    Plan {
        source: Source::Files { files: vec![file] },
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::new(),
        luks: None,
    }
}

fn stage(path: &str) -> StageRecord {
    StageRecord {
        progress: Progress::Settled,
        path: path.to_owned(),
        capability: RecordedCapability::of(&capability(&["password=hunter22"])),
        plan: recorded_plan(&files_plan()),
        identity: Some(identity(7)),
        block: None,
        read_only: false,
    }
}

fn put(journal: &Journal, volume: &str, path: &str) {
    journal
        .update(&key(volume), |entry| {
            entry.stage = Some(stage(path));
            Ok(())
        })
        .unwrap();
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory.join(Entry::DIRECTORY)).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn an_entry_outlives_the_host_and_goes_when_it_is_empty() {
    let run = tempfile::tempdir().unwrap();
    put(&Journal::open(run.path()).unwrap(), "v", "/k/a");
    let journal = Journal::open(run.path()).unwrap();
    assert_eq!(journal.entry(&key("v")).stage, Some(stage("/k/a")));
    assert_eq!(journal.holders_of("/k/a"), [(key("v"), identity(7))]);
    assert_eq!(journal.holders_of("/k/b"), []);
    assert_eq!(journal.entry(&key("w")), Entry::empty(key("w")));
    journal
        .update(&key("v"), |entry| {
            entry.stage = None;
            Ok(())
        })
        .unwrap();
    assert_eq!(files(run.path()), Vec::<PathBuf>::new());
    assert_eq!(journal.holders_of("/k/a"), []);
}

#[test]
fn labels_are_distinguished_and_not_recorded() {
    let of = |flags: &[&str]| RecordedCapability::of(&capability(flags));
    let own = r#"context="u:r:t:s0:c1,c2""#;
    let labelled = of(&[own, "noatime"]);
    assert_eq!(labelled.label, of(&[own]).label);
    assert_ne!(labelled.label, of(&["context=u:r:t:s0"]).label);
    assert_eq!(of(&["noatime"]).label, None);
    for recorded in [labelled, of(&["noatime"])] {
        let text = serde_json::to_string(&recorded).unwrap();
        assert!(!text.contains("u:r:t"), "{text}");
        // An entry of an earlier host version has no label.
        assert_eq!(text.contains("label"), recorded.label.is_some());
        let read: RecordedCapability = serde_json::from_str(&text).unwrap();
        assert_eq!(read, recorded);
    }
}

#[test]
fn holders_of_a_path_follow_every_change() {
    let run = tempfile::tempdir().unwrap();
    let journal = Journal::open(run.path()).unwrap();
    let holders = |journal: &Journal, path| {
        let holders = journal.holders_of(path).into_iter();
        holders
            .map(|(key, _)| key.volume.into_string())
            .collect::<Vec<_>>()
    };
    put(&journal, "v", "/k/a");
    put(&journal, "w", "/k/a");
    assert_eq!(holders(&journal, "/k/a"), ["v", "w"]);
    put(&journal, "w", "/k/b");
    assert_eq!(holders(&journal, "/k/a"), ["v"]);
    assert_eq!(holders(&journal, "/k/b"), ["w"]);
    drop(journal);
    let journal = Journal::open(run.path()).unwrap();
    assert_eq!(holders(&journal, "/k/a"), ["v"]);
    for volume in ["v", "w"] {
        let gone = |entry: &mut Entry| {
            entry.stage = None;
            Ok(())
        };
        journal.update(&key(volume), gone).unwrap();
    }
    assert!(is_empty(&journal));
}

fn is_empty(journal: &Journal) -> bool {
    journal.entries(|_| true).is_empty()
}

#[test]
fn no_content_secret_or_mount_flag_reaches_the_disk() {
    let run = tempfile::tempdir().unwrap();
    put(&Journal::open(run.path()).unwrap(), "v", "/k/a");
    let [file] = files(run.path()).try_into().unwrap();
    let text = fs::read_to_string(file).unwrap();
    assert!(
        text.contains("token") && !text.contains("hunter22"),
        "{text}"
    );
    let bytes = format!("{:?}", b"hunter22");
    assert!(!text.contains(bytes.trim_matches(['[', ']'])), "{text}");
}

#[test]
fn capabilities_differ_by_flags_without_showing_them() {
    let of = |flags: &[&str]| RecordedCapability::of(&capability(flags));
    assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
    assert_ne!(of(&["a", "b"]), of(&["ab"]));
    assert_ne!(of(&["a"]), of(&[]));
}

#[test]
fn a_change_that_fails_changes_nothing() {
    let run = tempfile::tempdir().unwrap();
    let journal = Journal::open(run.path()).unwrap();
    put(&journal, "v", "/k/a");
    let refused = journal.update(&key("v"), |entry| {
        entry.stage = None;
        Err::<(), _>(MountError::not_found("x"))
    });
    assert!(refused.is_err());
    assert_eq!(journal.entry(&key("v")).stage, Some(stage("/k/a")));
    // The file cannot be written because its directory is gone.
    fs::remove_dir_all(run.path()).unwrap();
    let refused = journal.update(&key("w"), |entry| {
        entry.stage = Some(stage("/k/b"));
        Ok(())
    });
    assert!(matches!(refused, Err(MountError::Kernel { .. })));
    assert_eq!(journal.entry(&key("w")), Entry::empty(key("w")));
}

#[test]
fn a_second_host_is_refused_the_journal() {
    let run = tempfile::tempdir().unwrap();
    let first = Journal::open(run.path()).unwrap();
    put(&first, "v", "/k/a");
    let refused = Journal::open(run.path());
    assert!(matches!(refused, Err(MountSetupError::InUse { .. })));
    drop(first);
    let second = Journal::open(run.path()).unwrap();
    assert_eq!(second.holders_of("/k/a").len(), 1);
}

#[test]
fn what_cannot_be_read_is_put_aside_and_the_rest_is_there() {
    let run = tempfile::tempdir().unwrap();
    let journal = Journal::open(run.path()).unwrap();
    for volume in ["torn", "later", "moved", "whole"] {
        put(&journal, volume, "/k/a");
    }
    let directory = run.path().join(Entry::DIRECTORY);
    let file = |volume: &str| directory.join(file_name(&key(volume)));
    let text = fs::read_to_string(file("torn")).unwrap();
    fs::write(file("torn"), &text[..text.len() - 1]).unwrap();
    let later = fs::read_to_string(file("later")).unwrap();
    let schema = |number| format!("\"schema\":{number},");
    assert!(later.contains(&schema(Entry::SCHEMA)));
    fs::write(
        file("later"),
        later.replace(&schema(Entry::SCHEMA), &schema(Entry::SCHEMA + 1)),
    )
    .unwrap();
    fs::rename(file("moved"), directory.join("00.json")).unwrap();
    fs::write(file("whole").with_extension(ASIDE), "half").unwrap();
    drop(journal);

    let journal = Journal::open(run.path()).unwrap();
    let known: Vec<_> = journal
        .of_driver(&key("whole").driver)
        .into_iter()
        .map(|entry| entry.key)
        .collect();
    assert_eq!(known, [key("whole")]);
    let mut ends: Vec<_> = files(run.path())
        .into_iter()
        .map(|path| path.extension().unwrap().to_str().unwrap().to_owned())
        .collect();
    ends.sort();
    assert_eq!(ends, ["json", QUARANTINED, QUARANTINED, QUARANTINED]);
}

#[test]
fn a_volumes_file_is_named_by_driver_and_id_together() {
    let other = VolumeKey {
        driver: DriverName::parse("a.tes").unwrap(),
        volume: VolumeId::parse("volume_id", "tv").unwrap(),
    };
    assert_ne!(file_name(&key("v")), file_name(&other));
    let slashes = file_name(&key("../../etc/passwd"));
    assert!(slashes.len() == 69 && !slashes.contains('/'), "{slashes}");
}
