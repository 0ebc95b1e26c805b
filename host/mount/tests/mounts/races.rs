//! An attacker with write permission below a root swaps the target, or the directory above it, for a link while a publish runs.

use crate::bench::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of publishes under attack. Each takes well below a millisecond, so this takes a second or two.
const ROUNDS: usize = 400;

/// Swaps two names until it is stopped, in the namespace of the thread that starts it.
pub(crate) fn swap_for_ever(
    one: PathBuf,
    other: PathBuf,
) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // It fails while one of them is a mount point or is missing: that is the kernel's answer to the attack.
            let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
        }
    });
    (stop, thread)
}

/// Publishes and unpublishes. Some publishes succeed, between two swaps, and most are refused; returns how many succeeded.
async fn publish_under_attack(bench: &Bench, target: &Path) -> usize {
    let outside = bench.path("outside");
    let mut request = bench.publish_request("v", "a", capability(WRITER), false);
    request.target_path = node_path(target);
    let mut published = 0;
    for _ in 0..ROUNDS {
        published += usize::from(bench.mounter.publish(request.clone()).await.is_ok());
        let escaped = bench
            .mounts()
            .into_iter()
            .any(|(point, _)| point.starts_with(&outside));
        assert!(!escaped, "a mount escaped: {:?}", bench.mounts());
        let _ = bench.unpublish_path("v", target).await;
    }
    assert!(published < ROUNDS, "the link was never met");
    published
}

#[test]
fn privileged_a_target_that_is_swapped_for_a_link_leads_nowhere() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        let (target, link) = (bench.target("a"), bench.path("kubelet/link"));
        fs::create_dir(&target).unwrap();
        symlink(bench.path("outside"), &link).unwrap();
        let (stop, thread) = swap_for_ever(target.clone(), link.clone());
        // Perhaps none: a mount may move along with the first swap, and then the link stays in the place of the target.
        publish_under_attack(&bench, &target).await;
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        // After the attacker has stopped, all calls succeed.
        for path in [&target, &link] {
            if path.is_symlink() {
                fs::remove_file(path).unwrap();
            }
            bench.unpublish_path("v", path).await.unwrap();
        }
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_parent_that_is_swapped_for_a_link_leads_nowhere() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        let (parent, link) = (bench.path("kubelet/pod"), bench.path("kubelet/link"));
        fs::create_dir(&parent).unwrap();
        fs::create_dir(bench.path("outside/target-a")).unwrap();
        symlink(bench.path("outside"), &link).unwrap();
        let (stop, thread) = swap_for_ever(parent.clone(), link.clone());
        let target = parent.join("target-a");
        let published = publish_under_attack(&bench, &target).await;
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(published > 0, "the directory was never met");
        if parent.is_symlink() {
            renameat_with(CWD, &parent, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        }
        bench.unpublish_path("v", &target).await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
        assert!(bench.path("outside/target-a").is_dir());
    });
}
