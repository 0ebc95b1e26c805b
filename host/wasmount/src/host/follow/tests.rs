//! Real files, changed as editors, installers and Kubernetes change them.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Far below the poll interval, so that only an event can cause the change.
const TIMEOUT: Duration = Duration::from_secs(15);

struct Bench {
    folder: TempDir,
    receiver: mpsc::UnboundedReceiver<BTreeSet<PathBuf>>,
    _task: JoinHandle<()>,
}

impl Bench {
    async fn follow(names: &[&str], prepare: impl FnOnce(&std::path::Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let mut states = read_states(names.iter().map(|name| folder.path().join(name)));
        let (sender, receiver) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                let files = changed(&mut states).await;
                if sender.send(files).is_err() {
                    return;
                }
            }
        });
        // Until the files are watched: an earlier change would be seen without an event.
        sleep(Duration::from_millis(300)).await;
        Self {
            folder,
            receiver,
            _task: task,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn next(&mut self) -> Vec<String> {
        let changed = timeout(TIMEOUT, self.receiver.recv())
            .await
            .unwrap()
            .unwrap();
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        changed.into_iter().map(name).collect()
    }
}

#[tokio::test]
async fn each_change_of_a_file_is_reported() {
    let mut bench = Bench::follow(&["a", "b"], |folder| {
        fs::write(folder.join("a"), "1").unwrap();
    })
    .await;
    fs::write(bench.path("a"), "22").unwrap();
    assert_eq!(bench.next().await, ["a"]);
    fs::write(bench.path("new"), "333").unwrap();
    fs::rename(bench.path("new"), bench.path("a")).unwrap();
    assert_eq!(bench.next().await, ["a"]);
    fs::remove_file(bench.path("a")).unwrap();
    assert_eq!(bench.next().await, ["a"]);
    fs::write(bench.path("b"), "1").unwrap();
    assert_eq!(bench.next().await, ["b"]);
}

#[tokio::test]
async fn changes_between_listing_and_watching_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["same", "other"].map(|name| folder.path().join(name));
    for file in &files {
        fs::write(file, "1").unwrap();
    }
    let mut states = read_states(files.clone());
    fs::write(&files[1], "22").unwrap();
    let first = timeout(TIMEOUT, changed(&mut states)).await.unwrap();
    assert_eq!(first, BTreeSet::from([files[1].clone()]));
    assert_eq!(states, read_states(files));
}

#[tokio::test]
async fn a_swapped_link_of_kubernetes_is_reported() {
    let mut bench = Bench::follow(&["password"], |folder| {
        for version in ["..1", "..2"] {
            fs::create_dir(folder.join(version)).unwrap();
            fs::write(folder.join(version).join("password"), version).unwrap();
        }
        symlink("..1", folder.join("..data")).unwrap();
        symlink("..data/password", folder.join("password")).unwrap();
    })
    .await;
    symlink("..2", bench.path("..data_tmp")).unwrap();
    fs::rename(bench.path("..data_tmp"), bench.path("..data")).unwrap();
    assert_eq!(bench.next().await, ["password"]);
}

#[tokio::test]
async fn changes_of_other_files_are_not_reported() {
    let mut bench = Bench::follow(&["a"], |folder| {
        fs::write(folder.join("a"), "1").unwrap();
    })
    .await;
    fs::write(bench.path("other"), "1").unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(bench.receiver.try_recv().is_err());
}

#[test]
fn of_another_list_only_new_files_are_examined() {
    let folder = tempfile::tempdir().unwrap();
    let [known, gone, new] = ["known", "gone", "new"].map(|name| folder.path().join(name));
    let before = read_states([known.clone(), gone]);
    for file in [&known, &new] {
        fs::write(file, "1").unwrap();
    }
    let states = states_of([known.clone(), new.clone()], &before);
    let of_new = FileState::at(&new);
    let expected = FileStates::from([(known, FileState::Nothing), (new, of_new)]);
    assert_eq!(states, expected);
}

#[test]
fn a_watch_names_the_directory_or_the_nearest_parent() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("a"), "").unwrap();
    for path in ["a", "b", "c/d/e"] {
        let found = directories(&root.join(path));
        assert_eq!(found, BTreeSet::from([root.clone()]), "{path}");
    }
}

#[tokio::test]
async fn a_directory_is_reported_when_its_entries_change() {
    let mut bench = Bench::follow(&["documents"], |folder| {
        fs::create_dir(folder.join("documents")).unwrap();
    })
    .await;
    let file = bench.path("documents/a.yaml");
    fs::write(&file, "1").unwrap();
    assert_eq!(bench.next().await, ["documents"]);
    fs::remove_file(&file).unwrap();
    assert_eq!(bench.next().await, ["documents"]);
}

#[test]
fn a_mounted_secret_is_watched_at_each_link() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let first = root.join("..2026");
    fs::create_dir(&first).unwrap();
    fs::write(first.join("password"), "").unwrap();
    symlink("..2026", root.join("..data")).unwrap();
    symlink("..data/password", root.join("password")).unwrap();
    assert_eq!(
        directories(&root.join("password")),
        BTreeSet::from([root, first])
    );
}

#[test]
fn links_in_a_circle_end() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    symlink("b", root.join("a")).unwrap();
    symlink("a", root.join("b")).unwrap();
    assert_eq!(directories(&root.join("a")), BTreeSet::from([root]));
}

#[test]
fn a_file_looks_the_same_until_something_is_done_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    assert_eq!(FileState::at(&file), FileState::Nothing);
    fs::write(&file, "1").unwrap();
    let first = FileState::at(&file);
    assert_eq!(FileState::at(&file), first);
    // The same content, and perhaps the same tick of the clock: another inode.
    let other = folder.path().join("b");
    fs::write(&other, "1").unwrap();
    fs::rename(&other, &file).unwrap();
    assert_ne!(FileState::at(&file), first);
}

#[test]
fn a_file_is_as_old_as_its_last_change_whatever_cp_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    let age = Duration::from_secs(2);
    let soon = SystemTime::now() + Duration::from_secs(10);
    assert!(
        !FileState::at(&file).is_older_than(age, soon),
        "there is none"
    );
    fs::write(&file, "1").unwrap();
    let state = FileState::at(&file);
    assert!(state.is_older_than(age, soon));
    assert!(!state.is_older_than(age, SystemTime::now()));
    assert!(!state.is_older_than(Duration::ZERO, UNIX_EPOCH), "to come");
    // `cp -p` sets the mtime back, but cannot set the ctime back.
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened.set_modified(UNIX_EPOCH).unwrap();
    assert!(!FileState::at(&file).is_older_than(age, SystemTime::now()));
}
