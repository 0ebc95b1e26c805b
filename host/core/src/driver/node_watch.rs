//! Keeps NodeGetInfo's answer up to date without anybody's call.
//!
//! It only asks; what an answer is, and what of it stands, is `node_info`'s.

use super::Driver;
use crate::call::Incoming;
use crate::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Pause after the first question that failed; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses. 30 s: what a person who mends a backend will wait for. A plugin that comes is asked at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Driver {
    /// Tells what is kept, then what each plugin says that is put to use, and its limit anew in each `period`. Never ends.
    pub async fn watch_node_info(self: &Arc<Self>, period: Option<Duration>) {
        let mut offers = self.offers();
        let mut pause = FIRST_PAUSE;
        loop {
            let has_plugin = offers.borrow_and_update().is_some();
            let next = match self.ask_of_node(has_plugin).await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    period
                }
                Err(error) => {
                    let paused = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    tracing::warn!(
                        driver = %self.name(), %error, retry_seconds = paused.as_secs(),
                        "the node has no description: the last one remains in force"
                    );
                    Some(paused)
                }
            };
            let time = async {
                match next {
                    Some(next) => sleep(next).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = time => {}
                // Its sender is the driver's own.
                _ = offers.changed() => pause = FIRST_PAUSE,
            }
        }
    }

    async fn ask_of_node(self: &Arc<Self>, has_plugin: bool) -> Result<(), Error> {
        self.tell_kept_node().await?;
        if has_plugin {
            self.refresh_node_info(own_question()).await?;
        }
        Ok(())
    }
}

/// Nobody's call.
fn own_question() -> Incoming {
    Incoming {
        request_id: "node-info".to_owned(),
        ..Incoming::default()
    }
}
