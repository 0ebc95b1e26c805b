//! The host is killed at every system call by which a call of plugins/array reaches its array, its client or its files: the retry succeeds, and the
//! array has each volume once, attached once, and in the end none.

use crate::conformance::driver::Driver;
use std::collections::{BTreeMap, BTreeSet};
use tonic::{Code, Status};
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, patiently};
use wasmount_tests::requests;
use wasmount_tests::strace::{Recording, Strace};
use xtask::say;

/// What sends, receives or keeps something. The answer to a request is lost by a kill at the call that would read it.
const SYSCALLS: [&str; 10] = [
    "connect",
    "fdatasync",
    "fsync",
    "pwrite64",
    "recvfrom",
    "recvmsg",
    "sendmsg",
    "sendto",
    "write",
    "writev",
];

/// More moments of one call name than any step has: an end for a step that never survives.
const MOST: usize = 200;

/// The name of the node of the tests' hosts, which the array knows.
const NODE: &str = "test-node";

/// A call of a volume's life at the array, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Create,
    Attach,
    Detach,
    Delete,
}

impl Step {
    const ALL: [Step; 4] = [Step::Create, Step::Attach, Step::Detach, Step::Delete];

    async fn call(
        self,
        orchestrator: &Orchestrator,
        name: &str,
        id: &mut String,
    ) -> Result<(), Status> {
        match self {
            Step::Create => {
                let request = requests::create(name, VOLUME_BYTES);
                (*id, _) = orchestrator.create(request).await?;
            }
            Step::Attach => drop(orchestrator.attach(id, NODE).await?),
            Step::Detach => orchestrator.detach(id, NODE).await?,
            Step::Delete => orchestrator.delete(id).await?,
        }
        Ok(())
    }
}

/// A host that is killed again and again, before an array that is not.
struct Killed {
    driver: Driver,
    lives: usize,
}

impl Killed {
    /// A volume for which all steps before this one were answered: its name and its id.
    async fn before(&mut self, step: Step) -> (String, String) {
        self.lives += 1;
        let (name, mut id) = (format!("pvc-{}", self.lives), String::new());
        for earlier in Step::ALL.into_iter().filter(|it| *it < step) {
            let called = earlier.call(&self.driver.orchestrator, &name, &mut id);
            called.await.unwrap();
        }
        (name, id)
    }

    /// The rest of the life, from this step on; the array then has nothing of it.
    async fn end(&self, step: Step, name: &str, id: &mut String) {
        for later in Step::ALL.into_iter().filter(|it| *it >= step) {
            let orchestrator = self.driver.orchestrator.clone();
            let done = patiently(&[Code::Aborted, Code::Unavailable], || {
                let (orchestrator, mut id) = (orchestrator.clone(), id.clone());
                async move {
                    later.call(&orchestrator, name, &mut id).await?;
                    Ok(id)
                }
            });
            *id = done.await.unwrap();
        }
        self.driver.assert_nothing_left();
        assert_eq!(self.driver.array().counts().created, self.lives);
    }

    /// The names of the system calls that a step makes.
    async fn record(&mut self, step: Step) -> BTreeSet<String> {
        let (name, mut id) = self.before(step).await;
        let recording = Recording::begin(self.driver.host.id(), &SYSCALLS).unwrap();
        let called = step.call(&self.driver.orchestrator, &name, &mut id);
        called.await.unwrap();
        let calls = recording.end().unwrap();
        self.end(step, &name, &mut id).await;
        calls
    }

    /// Kills the host at the `nth` call of this name; false if the step survived.
    async fn kill_at(&mut self, step: Step, syscall: &str, nth: usize) -> bool {
        let (name, mut id) = self.before(step).await;
        let strace = Strace::kill_at(self.driver.host.id(), syscall, nth).unwrap();
        let _ = step.call(&self.driver.orchestrator, &name, &mut id).await;
        drop(strace);
        let survived = self.driver.orchestrator.has_plugin().await.is_ok();
        if !survived {
            self.driver.kill_and_restart().await;
        }
        let counts = self.driver.array().counts();
        assert!(
            counts.volumes.len() <= 1 && counts.attachments.len() <= 1,
            "{counts:?}"
        );
        self.end(step, &name, &mut id).await;
        !survived
    }

    async fn kill_at_every_call(mut self, step: Step) {
        let calls = self.record(step).await;
        let mut kills = BTreeMap::new();
        for syscall in calls {
            let mut nth = 1;
            while self.kill_at(step, &syscall, nth).await {
                nth += 1;
                assert!(nth < MOST, "{step:?} was always killed at {syscall}");
            }
            kills.insert(syscall, nth - 1);
        }
        say::line(&format!("{step:?} was killed at {kills:?}"));
        // The request to the array, and its answer.
        for must in ["recvfrom", "writev"] {
            assert!(kills.get(must).is_some_and(|it| *it > 0), "{kills:?}");
        }
    }
}

async fn killed(step: Step) {
    let driver = Driver::of_array(ArrayOptions::default()).await;
    let killed = Killed { driver, lives: 0 };
    killed.kill_at_every_call(step).await;
}

#[tokio::test]
async fn privileged_create_at_an_array_may_be_killed_at_each_call() {
    killed(Step::Create).await;
}

#[tokio::test]
async fn privileged_attach_may_be_killed_at_each_call() {
    killed(Step::Attach).await;
}

#[tokio::test]
async fn privileged_detach_may_be_killed_at_each_call() {
    killed(Step::Detach).await;
}

#[tokio::test]
async fn privileged_delete_at_an_array_may_be_killed_at_each_call() {
    killed(Step::Delete).await;
}
