//! Volumes that exist during the run: made before the first measurement, and undone after the last one.

use crate::life::Life;
use crate::measured::Measured;
use crate::phase::Phase;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use wasmount_core::mutex::lock;

/// Volumes of one phase, which repeats nothing.
pub(crate) struct Existing {
    phase: Arc<Phase>,
    lives: Arc<Mutex<Vec<Life>>>,
    lanes: u16,
}

impl Existing {
    /// Makes as many as the phase may begin, or fewer if one fails.
    pub(crate) async fn make(phase: Phase, lanes: u16) -> Self {
        let existing = Self {
            phase: Arc::new(phase),
            lives: Arc::default(),
            lanes,
        };
        let mut running = JoinSet::new();
        for _ in 0..lanes {
            let (phase, lives) = (Arc::clone(&existing.phase), Arc::clone(&existing.lives));
            running.spawn(async move {
                while let Some(life) = phase.next_prepared().await {
                    lock(&lives).push(life);
                }
            });
        }
        existing.wait(running).await;
        existing
    }

    /// Undoes them; what went wrong with them.
    pub(crate) async fn end(self) -> Measured {
        let mut running = JoinSet::new();
        for _ in 0..self.lanes {
            let (phase, lives) = (Arc::clone(&self.phase), Arc::clone(&self.lives));
            running.spawn(async move {
                loop {
                    let Some(life) = lock(&lives).pop() else {
                        return;
                    };
                    let paths = phase.end(life).await;
                    phase.remove(paths);
                }
            });
        }
        self.wait(running).await;
        self.phase.measured()
    }

    async fn wait(&self, mut running: JoinSet<()>) {
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                self.phase.lane_broke_down(&error);
            }
        }
    }
}
