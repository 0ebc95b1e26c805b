//! Clients that run volume lifecycles side by side until they are stopped; a failed call is a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::{Code, Status};
use wasmount_tests::host::Host;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::requests;

/// Lives side by side.
pub(crate) const AT_ONCE: usize = 8;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Lives under way.
pub(crate) struct Lives {
    tasks: JoinSet<Result<(), Failed>>,
    stop: Arc<AtomicBool>,
    whole: Arc<AtomicUsize>,
}

/// A call that failed, and which.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) life: String,
    pub(crate) call: &'static str,
    pub(crate) status: Status,
}

impl Lives {
    /// Begins all of them, each with a connection of its own, as sidecars and kubelet have.
    pub(crate) async fn begin(host: &Host, name: &str) -> Self {
        let mut lives = Self {
            tasks: JoinSet::new(),
            stop: Arc::default(),
            whole: Arc::default(),
        };
        for lane in 0..AT_ONCE {
            let orchestrator = host.orchestrator().await.unwrap();
            let (stop, whole) = (lives.stop.clone(), lives.whole.clone());
            let name = format!("{name}-{lane}");
            lives.tasks.spawn(async move {
                let mut number = 0;
                while !stop.load(Ordering::SeqCst) {
                    live(&orchestrator, format!("{name}-{number}")).await?;
                    whole.fetch_add(1, Ordering::SeqCst);
                    number += 1;
                }
                Ok(())
            });
        }
        lives
    }

    /// At least one whole life beside others, each to its end.
    pub(crate) async fn some(host: &Host, name: &str) {
        let mut lives = Self::begin(host, name).await;
        while lives.whole() == 0 {
            lives.assert_none_failed();
            sleep(LOOK).await;
        }
        lives.end().await;
    }

    /// No call has failed so far.
    pub(crate) fn assert_none_failed(&mut self) {
        let ended = self.tasks.try_join_next();
        assert!(ended.is_none(), "{ended:?}");
    }

    /// How many were whole so far.
    pub(crate) fn whole(&self) -> usize {
        self.whole.load(Ordering::SeqCst)
    }

    /// Lets each end its volume; how many lives were whole. No call may have failed.
    pub(crate) async fn end(mut self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap().unwrap_or_else(|failed| panic!("{failed:?}"));
        }
        self.whole()
    }

    /// Waits until each was cut off; which of them by a call that failed.
    pub(crate) async fn cut_off(mut self) -> Vec<Failed> {
        self.stop.store(true, Ordering::SeqCst);
        let mut failed = Vec::new();
        while let Some(ended) = self.tasks.join_next().await {
            failed.extend(ended.unwrap().err());
        }
        failed
    }
}

/// One life; what the pod wrote is what it reads.
async fn live(orchestrator: &Orchestrator, name: String) -> Result<(), Failed> {
    let failed = |call: &'static str| {
        let life = name.clone();
        move |status| Failed { life, call, status }
    };
    let request = requests::create(&name, 1 << 20);
    let created = orchestrator.create(request).await;
    let (id, _) = created.map_err(failed("CreateVolume"))?;
    let volume = orchestrator.place(&name, id).unwrap();
    let staged = orchestrator.stage(&volume).await;
    staged.map_err(failed("NodeStageVolume"))?;
    let published = orchestrator.publish(&volume).await;
    published.map_err(failed("NodePublishVolume"))?;
    volume.write(&name).unwrap();
    let known = orchestrator.is_known(&volume.id).await;
    known.map_err(failed("ValidateVolumeCapabilities"))?;
    assert_eq!(volume.read_at(&volume.staging).unwrap(), name);
    let stats = orchestrator.stats(&volume.id, &volume.target).await;
    stats.map_err(failed("NodeGetVolumeStats"))?;
    let unpublished = orchestrator.unpublish(&volume).await;
    unpublished.map_err(failed("NodeUnpublishVolume"))?;
    let unstaged = orchestrator.unstage(&volume).await;
    unstaged.map_err(failed("NodeUnstageVolume"))?;
    let deleted = orchestrator.delete(&volume.id).await;
    deleted.map_err(failed("DeleteVolume"))?;
    match orchestrator.is_known(&volume.id).await {
        Err(status) if status.code() == Code::NotFound => Ok(()),
        Err(status) => Err(failed("ValidateVolumeCapabilities")(status)),
        Ok(_) => panic!("{name} is there after its deletion"),
    }
}
