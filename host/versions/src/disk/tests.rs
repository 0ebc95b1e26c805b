//! What is on disk after each kind of failure, and what is rejected.

use super::*;
use crate::history::tests::{history_of, new_version};

async fn opened(folder: &Path) -> (Arc<Disk>, History) {
    let disk = Disk::new(folder.join("versions"));
    let history = disk.open().await.unwrap();
    (disk, history)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder.join("versions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_was_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, mut history) = opened(folder.path()).await;
    assert_eq!(history, History::default());
    history.admit(new_version("a", "1"), false, jiff::Timestamp::UNIX_EPOCH);
    disk.write(&history).await.unwrap();
    let (_, read) = opened(folder.path()).await;
    assert_eq!(read, history);
}

#[tokio::test]
async fn files_and_directory_are_the_hosts_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = opened(folder.path()).await;
    disk.write(&history_of(2)).await.unwrap();
    disk.keep(&digest_of(b"one"), Arc::new(b"one".to_vec()))
        .await
        .unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = folder.path().join("versions");
    assert_eq!(mode(&directory), 0o700);
    for name in names(folder.path()) {
        assert_eq!(mode(&directory.join(name)), 0o600);
    }
}

#[tokio::test]
async fn a_partial_file_of_a_killed_host_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = opened(folder.path()).await;
    let history = history_of(3);
    disk.write(&history).await.unwrap();
    for (name, stays) in [("00.wasm.unfinished", false), (slots::NAMES[0], true)] {
        let half = folder.path().join("versions").join(name);
        fs::write(&half, "{\"turn\":").unwrap();
        let (_, read) = opened(folder.path()).await;
        assert_eq!(read, history);
        assert_eq!(half.exists(), stays);
    }
}

#[tokio::test]
async fn a_history_that_cannot_be_read_is_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let other_form = serde_json::to_string(&history_of(1))
        .unwrap()
        .replace("\"format\":2", "\"format\":1");
    let name = slots::NAMES[1];
    for text in ["{", "", &other_form] {
        let (disk, _) = opened(folder.path()).await;
        disk.history.lock().unwrap().write(text.as_bytes()).unwrap();
        let (disk, read) = opened(folder.path()).await;
        assert_eq!(read, History::default());
        assert_eq!(names(folder.path()), [format!("{name}.unreadable")]);
        // What is written afterwards is read again.
        disk.write(&history_of(2)).await.unwrap();
        let (_, read) = opened(folder.path()).await;
        assert_eq!(read, history_of(2));
        fs::remove_file(folder.path().join("versions").join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_component_is_kept_whole_and_other_bytes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = opened(folder.path()).await;
    let digest = digest_of(b"one");
    disk.keep(&digest, Arc::new(b"one".to_vec())).await.unwrap();
    assert_eq!(disk.component_of(&digest).await.unwrap(), b"one");
    fs::write(disk.component(&digest), b"two").unwrap();
    let refusal = disk.component_of(&digest).await.unwrap_err();
    assert!(matches!(refusal, Refusal::OtherDigest { expected, .. } if expected == digest));
    assert_eq!(names(folder.path()), [""; 0]);
}

#[tokio::test]
async fn components_that_no_version_needs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, history) = opened(folder.path()).await;
    disk.write(&history).await.unwrap();
    for bytes in [&b"one"[..], b"two", b"three"] {
        disk.keep(&digest_of(bytes), Arc::new(bytes.to_vec()))
            .await
            .unwrap();
    }
    disk.remove_others([digest_of(b"two")].into()).await;
    assert!(disk.component_of(&digest_of(b"two")).await.is_ok());
    assert_eq!(names(folder.path()).len(), 2);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("versions"), "in the way").unwrap();
    let disk = Disk::new(folder.path().join("versions"));
    let refusal = disk.open().await.err();
    let refusal = refusal.unwrap();
    let describe = refusal.to_string();
    assert!(
        describe.starts_with("could not make the directory ")
            && describe.contains("repair the disk"),
        "{describe}"
    );
}

#[tokio::test]
async fn a_backend_that_is_gone_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, history) = opened(folder.path()).await;
    disk.write(&history).await.unwrap();
    remove(folder.path().join("versions")).await.unwrap();
    assert!(!folder.path().join("versions").exists());
    remove(folder.path().join("versions")).await.unwrap();
}
