//! The host is killed at every system call of every step that changes something, one after the other until the step survives; each time it is
//! started again over the same directories.
//!
//! Of images the tools are killed as well (mkfs, fsck), which must be repeated until they come to their end.
//!
//! What a step does not change on its way (waiting, reading, closing) is no moment of its own.
//!
//! strace counts the calls of each thread by itself. Where a step makes the same call in two threads, as create and delete do when they sync,
//! the kill comes at the first of them: the committer's first fdatasync is hit only by chance, in `under_load`.

use crate::kill::step::{Life, Step, assert_all_or_nothing, assert_no_volumes, begin, options};
use std::collections::BTreeSet;
use tonic::Code;
use wasmount_tests::host::Host;
use wasmount_tests::kinds::Kind;
use wasmount_tests::leaks::{hostpath_pool, left_behind};
use wasmount_tests::orchestrator::{Orchestrator, patiently};
use wasmount_tests::strace::{Recording, Strace};

/// What can change a file, a mount or what a client sees, and what finds the place to do so.
const SYSCALLS: [&str; 29] = [
    "execve",
    "openat",
    "openat2",
    "open_tree",
    "mount_setattr",
    "move_mount",
    "umount2",
    "statx",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "write",
    "pwrite64",
    "writev",
    "sendto",
    "ftruncate",
    "fallocate",
    "fchmod",
    "fchmodat",
    "fchown",
    "fsync",
    "fdatasync",
    "ioctl",
    "quotactl_fd",
];

/// More moments of one call name than any step has: an end for a step that never survives.
const MOST: usize = 200;

/// A host that is killed again and again.
struct Killed {
    host: Host,
    orchestrator: Orchestrator,
    kind: Kind,
    lives: usize,
}

impl Killed {
    async fn start(kind: Kind) -> Self {
        begin();
        let host = Host::start(options()).unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        Self {
            host,
            orchestrator,
            kind,
            lives: 0,
        }
    }

    /// A volume for which all steps before this one were answered.
    async fn before(&mut self, step: Step) -> Life {
        self.lives += 1;
        let (name, pool) = (format!("pvc-{}", self.lives), hostpath_pool(&self.host));
        let mut life = Life::new(self.kind, name, pool, &self.orchestrator);
        for earlier in Step::ALL.into_iter().filter(|it| *it < step) {
            earlier.call(&self.orchestrator, &mut life).await.unwrap();
        }
        life
    }

    /// The names of the system calls that a step makes.
    async fn record(&mut self, step: Step) -> BTreeSet<String> {
        let mut life = self.before(step).await;
        let recording = Recording::begin(self.host.id(), &SYSCALLS).unwrap();
        step.call(&self.orchestrator, &mut life).await.unwrap();
        let calls = recording.end().unwrap();
        self.orchestrator.tear_down(&life.volume).await.unwrap();
        calls
    }

    /// Kills the host, or the tool that it runs for the step, at the `nth` call of this name; false if the step survived.
    async fn kill_at(&mut self, step: Step, syscall: &str, nth: usize) -> bool {
        let moment = format!("{step:?} killed at {syscall} {nth}");
        let mut life = self.before(step).await;
        let strace = Strace::kill_at(self.host.id(), syscall, nth).unwrap();
        let answer = step.call(&self.orchestrator, &mut life).await;
        drop(strace);
        // A process that is dying may be there for a while, but answers no more.
        let survived = self.orchestrator.has_plugin().await.is_ok();
        let is_cut_off = !survived || answer.is_err();
        if !survived {
            self.host.restart().unwrap();
            self.orchestrator = self.host.orchestrator().await.unwrap();
        }
        // A directory needs no tool.
        let by_tool = survived && self.kind != Kind::Directory;
        if is_cut_off {
            assert!(!survived || by_tool, "{moment}: not killed, and {answer:?}");
            assert_all_or_nothing(&self.host, &self.orchestrator, &life, step).await;
            let retried = patiently(&[Code::Aborted], || {
                let (orchestrator, mut life) = (self.orchestrator.clone(), life.clone());
                async move {
                    step.call(&orchestrator, &mut life).await?;
                    Ok(life)
                }
            });
            life = retried
                .await
                .unwrap_or_else(|status| panic!("{moment}: the retry: {status:?}"));
        }
        let torn_down = self.orchestrator.tear_down(&life.volume).await;
        assert!(torn_down.is_ok(), "{moment}: {torn_down:?}");
        let left = left_behind(&self.host, &hostpath_pool(&self.host)).unwrap();
        assert!(left.is_empty(), "{moment}: {left:#?}");
        assert_no_volumes(&self.orchestrator).await;
        is_cut_off
    }

    /// Kills at every call of a step. `musts`: where it must at least have been killed, so that nothing passes by not happening.
    async fn kill_at_every_call(mut self, step: Step, musts: &[&str]) {
        // Tools make hundreds of calls that are no more than reading and writing: there the musts alone are moments.
        let whole = self.kind == Kind::Directory;
        let calls = self.record(step).await;
        let missing: Vec<_> = musts.iter().filter(|it| !calls.contains(**it)).collect();
        assert!(missing.is_empty(), "{step:?} made only {calls:?}");
        for syscall in calls
            .iter()
            .filter(|it| whole || musts.contains(&it.as_str()))
        {
            let mut nth = 1;
            while self.kill_at(step, syscall, nth).await {
                nth += 1;
                assert!(nth < MOST, "{step:?} was always killed at {syscall}");
            }
            let must = musts.contains(&syscall.as_str());
            assert!(nth > 1 || !must, "{step:?} was never killed at {syscall}");
        }
    }
}

#[tokio::test]
async fn privileged_create_may_be_killed_at_every_call() {
    let musts = ["mkdirat", "fchmod", "fsync", "fdatasync"];
    let killed = Killed::start(Kind::Directory).await;
    killed.kill_at_every_call(Step::Create, &musts).await;
}

#[tokio::test]
async fn privileged_stage_may_be_killed_at_every_call() {
    let musts = [
        "openat2",
        "open_tree",
        "mount_setattr",
        "move_mount",
        "rename",
    ];
    let killed = Killed::start(Kind::Directory).await;
    killed.kill_at_every_call(Step::Stage, &musts).await;
}

#[tokio::test]
async fn privileged_publish_may_be_killed_at_every_call() {
    let musts = [
        "mkdirat",
        "open_tree",
        "mount_setattr",
        "move_mount",
        "rename",
    ];
    let killed = Killed::start(Kind::Directory).await;
    killed.kill_at_every_call(Step::Publish, &musts).await;
}

#[tokio::test]
async fn privileged_unpublish_may_be_killed_at_every_call() {
    let musts = ["umount2", "unlinkat", "rename"];
    let killed = Killed::start(Kind::Directory).await;
    killed.kill_at_every_call(Step::Unpublish, &musts).await;
}

#[tokio::test]
async fn privileged_unstage_may_be_killed_at_every_call() {
    let musts = ["umount2", "rename", "unlink"];
    let killed = Killed::start(Kind::Directory).await;
    killed.kill_at_every_call(Step::Unstage, &musts).await;
}

#[tokio::test]
async fn privileged_delete_may_be_killed_at_every_call() {
    let musts = ["renameat2", "unlinkat", "fsync"];
    let killed = Killed::start(Kind::Directory).await;
    killed.kill_at_every_call(Step::Delete, &musts).await;
}

#[tokio::test]
async fn privileged_stage_of_an_image_and_its_tools_may_be_killed() {
    let musts = ["execve", "fsync", "ioctl", "move_mount", "rename"];
    let killed = Killed::start(Kind::Filesystem("ext4")).await;
    killed.kill_at_every_call(Step::Stage, &musts).await;
}

#[tokio::test]
async fn privileged_unstage_of_an_image_may_be_killed_at_every_call() {
    let musts = ["umount2", "unlink"];
    let killed = Killed::start(Kind::Filesystem("ext4")).await;
    killed.kill_at_every_call(Step::Unstage, &musts).await;
}

#[tokio::test]
async fn privileged_raw_image_stage_may_be_killed_at_every_call() {
    let musts = ["ioctl", "rename"];
    let killed = Killed::start(Kind::Block).await;
    killed.kill_at_every_call(Step::Stage, &musts).await;
}

#[tokio::test]
async fn privileged_raw_image_publish_may_be_killed_at_every_call() {
    let musts = ["open_tree", "move_mount", "rename"];
    let killed = Killed::start(Kind::Block).await;
    killed.kill_at_every_call(Step::Publish, &musts).await;
}

#[tokio::test]
async fn privileged_raw_image_unstage_may_be_killed_at_every_call() {
    let musts = ["ioctl", "unlink"];
    let killed = Killed::start(Kind::Block).await;
    killed.kill_at_every_call(Step::Unstage, &musts).await;
}
