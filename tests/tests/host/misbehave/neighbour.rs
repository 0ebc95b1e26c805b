//! Another driver of the same host, used all the time: volumes live and die, and every call must succeed. How fast is not asked.

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::{Code, Status};
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES};
use wasmount_tests::requests;

/// Lives, one after the other.
pub(crate) struct Neighbour {
    lives: JoinHandle<Result<(), Status>>,
    lived: watch::Receiver<usize>,
    stop: watch::Sender<bool>,
}

impl Neighbour {
    pub(crate) fn start(orchestrator: Orchestrator) -> Self {
        let (count, lived) = watch::channel(0);
        let (stop, stopped) = watch::channel(false);
        let lives = tokio::spawn(async move {
            while !*stopped.borrow() {
                live(&orchestrator).await?;
                count.send_modify(|lived| *lived += 1);
            }
            Ok(())
        });
        Self { lives, lived, stop }
    }

    /// Waits for a life that began after this call.
    pub(crate) async fn lives_on(&self, after: &str) {
        let mut lived = self.lived.clone();
        let enough = *lived.borrow() + 2;
        let went_on = lived.wait_for(|lived| *lived >= enough).await;
        assert!(
            went_on.is_ok(),
            "after {after}: the neighbour had a failure"
        );
    }

    /// Ends with the life at hand: there was no failure in any.
    pub(crate) async fn rests(&mut self) {
        let _ = self.stop.send(true);
        (&mut self.lives).await.unwrap().unwrap();
    }
}

async fn live(orchestrator: &Orchestrator) -> Result<(), Status> {
    let (id, _) = orchestrator
        .create(requests::create("next-door", VOLUME_BYTES))
        .await?;
    let local = |error: &dyn std::fmt::Display| Status::new(Code::Unknown, error.to_string());
    let volume = orchestrator
        .place("next-door", id)
        .map_err(|error| local(&error))?;
    orchestrator.set_up(&volume).await?;
    volume.write("whole").map_err(|error| local(&error))?;
    orchestrator.stats(&volume.id, &volume.target).await?;
    orchestrator.unpublish(&volume).await?;
    orchestrator.unstage(&volume).await?;
    orchestrator.delete(&volume.id).await
}
