//! Real files, changed as editors, installers and Kubernetes change them.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Far below the coarse look, so that it is an event that tells.
const PATIENCE: Duration = Duration::from_secs(15);

struct Bench {
    folder: TempDir,
    files: watch::Sender<BTreeSet<PathBuf>>,
    told: mpsc::UnboundedReceiver<BTreeSet<PathBuf>>,
    _task: JoinHandle<()>,
}

impl Bench {
    async fn follow(names: &[&str], prepare: impl FnOnce(&std::path::Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let files = names.iter().map(|name| folder.path().join(name)).collect();
        let (files, followed) = watch::channel(files);
        let (tell, told) = mpsc::unbounded_channel();
        let tell = move |files| drop(tell.send(files));
        let task = tokio::spawn(follow(followed, Looks::new(), tell));
        // Until the first look was taken: a change before is no change.
        sleep(Duration::from_millis(300)).await;
        Self {
            folder,
            files,
            told,
            _task: task,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn next(&mut self) -> Vec<String> {
        let told = timeout(PATIENCE, self.told.recv()).await.unwrap().unwrap();
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        told.into_iter().map(name).collect()
    }
}

#[tokio::test]
async fn a_file_that_is_written_replaced_removed_or_made_is_told() {
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
    let looks = look_at(files.clone());
    fs::write(&files[1], "22").unwrap();
    let (_sender, followed) = watch::channel(BTreeSet::from(files.clone()));
    let (tell, mut told) = mpsc::unbounded_channel();
    let tell = move |files| drop(tell.send(files));
    let _task = tokio::spawn(follow(followed, looks, tell));
    let first = timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    assert_eq!(first, BTreeSet::from([files[1].clone()]));
}

#[tokio::test]
async fn a_link_of_kubernetes_that_is_swapped_is_told() {
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
async fn what_else_happens_in_the_directory_is_not_told() {
    let mut bench = Bench::follow(&["a"], |folder| {
        fs::write(folder.join("a"), "1").unwrap();
    })
    .await;
    fs::write(bench.path("other"), "1").unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(bench.told.try_recv().is_err());
    // From now on it counts, and that it is new to the list is no change.
    let both = BTreeSet::from([bench.path("a"), bench.path("other")]);
    bench.files.send_replace(both);
    sleep(Duration::from_millis(300)).await;
    fs::write(bench.path("other"), "22").unwrap();
    assert_eq!(bench.next().await, ["other"]);
}
