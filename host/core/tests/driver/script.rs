//! The script of a fake and its recorded calls: a call can be made to wait, to fail or to panic, by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use wasmount_core::backend::{BackendError, PluginLabel};
use wasmount_core::call::Call;
use wasmount_core::code::Code;

/// How long a test waits for a call to arrive, in real time. 10 s: far beyond a loaded machine's delays, far below the calls' budget.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What happens when a call arrives.
#[derive(Clone)]
pub(crate) enum Act {
    /// It waits for a permit, even if it is cancelled.
    Wait(Arc<Semaphore>),
    /// It waits until it is cancelled.
    UntilCancelled,
    /// It takes this long.
    After(Duration),
    /// It never ends.
    Hang,
    /// It fails, and the job that it started ends when it gets a permit.
    LeaveJob(Arc<Semaphore>),
    /// It fails.
    Fail(BackendError),
    /// A bug.
    Panic,
}

#[derive(Default)]
pub(crate) struct Script {
    calls: Mutex<Vec<String>>,
    acts: Mutex<HashMap<&'static str, Act>>,
}

impl Script {
    pub(crate) fn on(&self, name: &'static str, act: Act) {
        self.acts.lock().unwrap().insert(name, act);
    }

    pub(crate) fn off(&self, name: &'static str) {
        self.acts.lock().unwrap().remove(name);
    }

    /// Makes a call wait; each added permit lets one continue.
    pub(crate) fn hold(&self, name: &'static str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.on(name, Act::Wait(gate.clone()));
        gate
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        let calls = self.calls();
        calls
            .iter()
            .filter(|call| call.split(' ').next() == Some(name))
            .count()
    }

    /// Returns once `count` calls of that name have arrived.
    pub(crate) async fn arrived(&self, name: &str, count: usize) {
        let begun = Instant::now();
        while self.count(name) < count {
            assert!(begun.elapsed() < PATIENCE, "{name} did not arrive");
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn call(
        &self,
        name: &'static str,
        about: &str,
        call: Option<&Call>,
    ) -> Result<(), BackendError> {
        let entry = format!("{name} {about}").trim().to_owned();
        self.calls.lock().unwrap().push(entry);
        let act = self.acts.lock().unwrap().get(name).cloned();
        match act {
            None => Ok(()),
            Some(Act::Wait(gate)) => {
                gate.acquire().await.unwrap().forget();
                Ok(())
            }
            Some(Act::UntilCancelled) => {
                call.unwrap().cancelled.cancelled().await;
                self.calls.lock().unwrap().push(format!("stopped {name}"));
                Err(BackendError::Cancelled)
            }
            Some(Act::After(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::LeaveJob(gate)) => {
                let job = async move { gate.acquire().await.unwrap().forget() };
                call.unwrap().jobs.spawn(job);
                Err(answered(Code::DeadlineExceeded))
            }
            Some(Act::Fail(error)) => Err(error),
            Some(Act::Panic) => panic!("as the test wants it"),
        }
    }
}

pub(crate) fn label() -> PluginLabel {
    PluginLabel {
        name: "fake".to_owned(),
        version: "1.2.3".to_owned(),
        digest: "sha256:0".to_owned(),
    }
}

pub(crate) fn answered(code: Code) -> BackendError {
    BackendError::Answered {
        code,
        message: "as the test wants it".to_owned(),
    }
}

pub(crate) fn trapped() -> BackendError {
    BackendError::Trapped {
        plugin: label(),
        function: "any",
        reason: "as the test wants it".to_owned(),
    }
}
