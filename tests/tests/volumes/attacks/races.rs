//! A directory on the way to a mount is swapped for a link to the decoy, and back, as fast as another thread can, while the host works on it.

use crate::attacks::decoy::Decoy;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use tonic::Code;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};
use wasmount_tests::root::needs_root;
use wasmount_tests::rounds::rounds;

/// Times that all four calls are made during the swapping.
const ROUNDS: usize = 250;

/// Swaps, until it is stopped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
    directory: PathBuf,
    link: PathBuf,
}

impl Swapper {
    /// Exchanges a directory and a link to somewhere else.
    fn start(directory: &Path, to: &Path) -> Self {
        let link = directory.with_extension("link");
        symlink(to, &link).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let swaps = Arc::new(AtomicUsize::new(0));
        let thread = thread::spawn({
            let (stop, swaps) = (stop.clone(), swaps.clone());
            let (directory, link) = (directory.to_owned(), link.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    // Refused while a mount is on it.
                    if swap(&directory, &link).is_ok() {
                        swaps.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self {
            stop,
            swaps,
            thread: Some(thread),
            directory: directory.to_owned(),
            link,
        }
    }

    /// Takes off a mount that moved away with the directory, as the attacker must. Within one directory the kernel looks for a mount
    /// before it renames and not again, so a mount that comes in between moves along.
    fn let_go(&self) {
        if !self.link.is_symlink() {
            while unmount(&self.link, UnmountFlags::NOFOLLOW).is_ok() {}
        }
    }

    /// Ends it with the directory in its place; gives how often it swapped.
    fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.let_go();
        if self.directory.is_symlink() {
            swap(&self.directory, &self.link).unwrap();
        }
        fs::remove_file(&self.link).unwrap();
        self.swaps.load(Ordering::Relaxed)
    }
}

fn swap(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// Makes the calls of a life round after round while `swapped` is a directory at one moment and a link at the next.
async fn attack(swapped: impl Fn(&Volume) -> PathBuf) {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let decoy = Decoy::plant(&host);
    let swapper = Swapper::start(&swapped(&volume), decoy.path());
    let mut done = [0; 4];
    for _ in 0..rounds(ROUNDS) {
        let codes = round(&orchestrator, &volume).await;
        for (done, code) in done.iter_mut().zip(codes) {
            *done += usize::from(code == Code::Ok);
        }
        decoy.assert_untouched();
        swapper.let_go();
    }
    let swaps = swapper.end();
    assert!(swaps > rounds(ROUNDS), "only {swaps} swaps");
    assert!(done.iter().all(|done| *done > 0), "never done: {done:?}");
    // The paths lead again to where what is still mounted was mounted.
    orchestrator.tear_down(&volume).await.unwrap();
    decoy.assert_untouched();
    let left = left_behind(&host, &directory_pool(&host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

async fn round(orchestrator: &Orchestrator, volume: &Volume) -> [Code; 4] {
    [
        code(&orchestrator.stage(volume).await),
        code(&orchestrator.publish(volume).await),
        code(&orchestrator.unpublish(volume).await),
        code(&orchestrator.unstage(volume).await),
    ]
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap().to_owned()
}

#[tokio::test]
async fn privileged_a_staging_path_that_becomes_a_link_leads_nowhere() {
    attack(|volume| volume.staging.clone()).await;
}

#[tokio::test]
async fn privileged_a_staging_path_parent_link_leads_nowhere() {
    attack(|volume| parent(&volume.staging)).await;
}

#[tokio::test]
async fn privileged_a_target_parent_link_leads_nowhere() {
    attack(|volume| parent(&volume.target)).await;
}

#[tokio::test]
async fn privileged_a_target_grandparent_link_leads_nowhere() {
    attack(|volume| parent(&parent(&volume.target))).await;
}

/// The target itself is made by the host, so the attacker puts a link there whenever nothing is.
#[tokio::test]
async fn privileged_a_target_that_is_a_link_leads_nowhere() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let decoy = Decoy::plant(&host);
    orchestrator.stage(&volume).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let planter = thread::spawn({
        let (stop, target) = (stop.clone(), volume.target.clone());
        let to = decoy.path().to_owned();
        move || {
            let mut planted = 0;
            while !stop.load(Ordering::Relaxed) {
                if symlink(&to, &target).is_ok() {
                    planted += 1;
                    thread::yield_now();
                    fs::remove_file(&target).unwrap();
                }
            }
            planted
        }
    });
    for _ in 0..rounds(ROUNDS) {
        let _ = orchestrator.publish(&volume).await;
        decoy.assert_untouched();
        let _ = orchestrator.unpublish(&volume).await;
        decoy.assert_untouched();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(planter.join().unwrap() > 0, "it was never quick enough");
    orchestrator.tear_down(&volume).await.unwrap();
    decoy.assert_untouched();
    let left = left_behind(&host, &directory_pool(&host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test]
async fn privileged_a_volume_tree_link_is_not_followed() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let decoy = Decoy::plant(&host);
    let tree = directory_pool(&host).join(&volume.id);
    fs::write(tree.join("own"), "").unwrap();
    let swapper = Swapper::start(&tree, decoy.path());
    let link = swapper.link.clone();
    for _ in 0..rounds(ROUNDS) {
        if orchestrator.stage(&volume).await.is_ok() {
            assert!(volume.staging.join("own").exists(), "another tree");
        }
        decoy.assert_untouched();
        orchestrator.unstage(&volume).await.unwrap();
    }
    assert!(swapper.end() > rounds(ROUNDS));
    // And with the link in its place for good.
    symlink(decoy.path(), &link).unwrap();
    swap(&tree, &link).unwrap();
    assert_eq!(
        code(&orchestrator.stage(&volume).await),
        Code::InvalidArgument
    );
    assert!(host.mounts().unwrap().is_empty());
    let _ = orchestrator.delete(&volume.id).await;
    decoy.assert_untouched();
    if tree.is_symlink() {
        fs::remove_file(&tree).unwrap();
    }
    fs::rename(&link, &tree).unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    decoy.assert_untouched();
}
