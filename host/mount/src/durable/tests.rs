//! What outlives the host, what is written to disk, and how a torn file is handled.

use super::*;
use crate::failure::MountSetupError;
use crate::records::{ASIDE, QUARANTINED, file_name};
use std::fs;
use std::path::{Path, PathBuf};
use wasmount_core::mutex::lock;
use wasmount_core::names::{DriverName, VolumeId};

fn key(volume: &str) -> VolumeKey {
    VolumeKey {
        driver: DriverName::parse("a.example").unwrap(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    }
}

fn notes(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("name".to_owned(), value.to_owned())])
}

fn an_intent() -> FormatIntent {
    FormatIntent {
        source: Source::Image {
            pool: "pool".to_owned(),
            path: "a/b".to_owned(),
        },
        backing: Some(Identity {
            device_major: 8,
            device_minor: 1,
            inode: 12,
        }),
        size_bytes: 1 << 30,
        fs_type: "xfs".to_owned(),
        uuid: Uuid::parse_str("01234567-89ab-4cde-8f01-23456789abcd").unwrap(),
    }
}

fn files(state: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(state.join(DurableRecord::DIRECTORY)).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn what_was_said_is_known_to_the_next_host() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    durable.set_notes(&key("v"), &notes("x")).unwrap();
    durable.set_intent(&key("v"), Some(an_intent())).unwrap();
    drop(durable);
    let durable = Durable::open(state.path()).unwrap();
    assert_eq!(durable.notes(&key("v")), notes("x"));
    assert_eq!(durable.intent(&key("v")), Some(an_intent()));
    assert_eq!(durable.notes(&key("other")), BTreeMap::new());
    assert_eq!(durable.intent(&key("other")), None);
}

#[test]
fn intents_and_notes_are_removed_independently() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    durable.set_notes(&key("v"), &notes("x")).unwrap();
    durable.set_intent(&key("v"), Some(an_intent())).unwrap();
    durable.set_intent(&key("v"), None).unwrap();
    assert_eq!(durable.notes(&key("v")), notes("x"));
    assert_eq!(durable.intent(&key("v")), None);
    durable.set_intent(&key("v"), Some(an_intent())).unwrap();
    durable.set_notes(&key("v"), &BTreeMap::new()).unwrap();
    assert_eq!(durable.intent(&key("v")), Some(an_intent()));
}

#[test]
fn a_volume_without_a_record_has_no_file() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    durable.set_notes(&key("v"), &BTreeMap::new()).unwrap();
    durable.set_intent(&key("v"), None).unwrap();
    assert!(files(state.path()).is_empty());
    durable.set_notes(&key("v"), &notes("x")).unwrap();
    durable.set_intent(&key("v"), Some(an_intent())).unwrap();
    assert_eq!(files(state.path()).len(), 1);
    durable.set_notes(&key("v"), &BTreeMap::new()).unwrap();
    durable.set_intent(&key("v"), None).unwrap();
    assert!(files(state.path()).is_empty());
    assert_eq!(durable.notes(&key("v")), BTreeMap::new());
}

#[test]
fn what_is_unchanged_is_not_written_again() {
    use std::os::unix::fs::MetadataExt;
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    durable.set_notes(&key("v"), &notes("x")).unwrap();
    let inode = |state: &Path| files(state)[0].metadata().unwrap().ino();
    let first = inode(state.path());
    durable.set_notes(&key("v"), &notes("x")).unwrap();
    durable.set_intent(&key("v"), None).unwrap();
    assert_eq!(inode(state.path()), first);
    durable.set_notes(&key("v"), &notes("y")).unwrap();
    assert_ne!(inode(state.path()), first);
}

#[test]
fn an_unwritable_change_fails_and_changes_nothing() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    durable.set_notes(&key("v"), &notes("x")).unwrap();
    fs::remove_dir_all(state.path().join(DurableRecord::DIRECTORY)).unwrap();
    let error = durable
        .set_intent(&key("v"), Some(an_intent()))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("write on the durable records"),
        "{error}"
    );
    assert_eq!(durable.intent(&key("v")), None);
}

#[test]
fn a_torn_file_is_put_aside_and_the_others_are_read() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    for volume in ["whole", "torn"] {
        durable.set_notes(&key(volume), &notes("x")).unwrap();
    }
    drop(durable);
    let file = |volume: &str| {
        state
            .path()
            .join(DurableRecord::DIRECTORY)
            .join(file_name(&key(volume)))
    };
    let bytes = fs::read(file("torn")).unwrap();
    fs::write(file("torn"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(file("whole").with_extension(ASIDE), "half").unwrap();
    let durable = Durable::open(state.path()).unwrap();
    assert_eq!(durable.notes(&key("whole")), notes("x"));
    assert_eq!(durable.notes(&key("torn")), BTreeMap::new());
    assert!(file("torn").with_extension(QUARANTINED).exists());
    assert!(!file("whole").with_extension(ASIDE).exists());
}

#[test]
fn who_reads_does_not_wait_for_who_writes() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    durable.set_notes(&key("v"), &notes("x")).unwrap();
    std::thread::scope(|scope| {
        let changing = lock(&durable.changing);
        let change = scope.spawn(|| durable.set_notes(&key("v"), &notes("y")));
        assert_eq!(durable.notes(&key("v")), notes("x"));
        assert_eq!(durable.intent(&key("v")), None);
        // Nor does who changes nothing.
        durable.set_notes(&key("other"), &BTreeMap::new()).unwrap();
        durable.set_intent(&key("other"), None).unwrap();
        drop(changing);
        change.join().unwrap().unwrap();
    });
    assert_eq!(durable.notes(&key("v")), notes("y"));
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| durable.set_notes(&key("v"), &notes("x")).unwrap());
        scope.spawn(|| durable.set_intent(&key("v"), Some(an_intent())).unwrap());
    });
    drop(durable);
    let durable = Durable::open(state.path()).unwrap();
    assert_eq!(durable.notes(&key("v")), notes("x"));
    assert_eq!(durable.intent(&key("v")), Some(an_intent()));
}

#[test]
fn a_second_host_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let _durable = Durable::open(state.path()).unwrap();
    let error = Durable::open(state.path()).unwrap_err();
    assert!(matches!(error, MountSetupError::InUse { .. }), "{error}");
}

#[test]
fn an_old_intent_is_forgotten_unless_its_volume_is_staged() {
    let state = tempfile::tempdir().unwrap();
    let durable = Durable::open(state.path()).unwrap();
    let intent = FormatIntent {
        uuid: Uuid::now_v7(),
        ..an_intent()
    };
    for volume in ["staged", "noted", "old"] {
        let recorded = Some(intent.clone());
        durable.set_intent(&key(volume), recorded).unwrap();
    }
    durable.set_notes(&key("noted"), &notes("x")).unwrap();
    let is_staged = |it: &VolumeKey| *it == key("staged");
    // Whole seconds are in a UUID.
    let almost = SystemTime::now() + INTENT_KEPT - Duration::from_secs(2);
    durable.forget_intents(almost, is_staged);
    assert_eq!(files(state.path()).len(), 3);
    durable.forget_intents(SystemTime::now() + INTENT_KEPT, is_staged);
    let found = ["staged", "noted", "old"].map(|it| durable.intent(&key(it)).is_some());
    assert_eq!(found, [true, false, false]);
    assert_eq!(durable.notes(&key("noted")), notes("x"));
    assert_eq!(files(state.path()).len(), 2);
}
