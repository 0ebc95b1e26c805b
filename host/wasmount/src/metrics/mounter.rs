//! The mounter of a host, with its requests counted.

use super::scrape::Scrape;
use super::{process, table};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wasmount_core::mounter::{
    MountError, Mounter, MounterRequest, MounterResponse, MounterStatus, ProcessUsage,
};
use wasmount_core::mutex::lock;

/// Sends each request on, and remembers how many there were, how long they took, and what the mounter said of its process.
pub(crate) struct CountedMounter {
    mounter: Arc<dyn Mounter>,
    is_remote: bool,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    kinds: BTreeMap<&'static str, Answered>,
    /// Of the last status; none: the last request for it failed.
    process: Option<ProcessUsage>,
}

/// The requests of one kind that were answered.
#[derive(Default)]
struct Answered {
    succeeded: u64,
    failed: u64,
    took: Duration,
}

impl CountedMounter {
    /// `is_remote`: it is in another process.
    pub(crate) fn new(mounter: Arc<dyn Mounter>, is_remote: bool) -> Self {
        Self {
            mounter,
            is_remote,
            counted: Mutex::default(),
        }
    }

    pub(super) fn set(&self, scrape: &mut Scrape) {
        let counted = lock(&self.counted);
        for (kind, answered) in &counted.kinds {
            let took = answered.took.as_secs_f64();
            scrape.set(&table::MOUNTER_REQUEST_SECONDS, &[kind], took);
            for (outcome, count) in [
                ("succeeded", answered.succeeded),
                ("failed", answered.failed),
            ] {
                scrape.set(&table::MOUNTER_REQUESTS, &[kind, outcome], count as f64);
            }
        }
        if let Some(usage) = counted.process.filter(|_| self.is_remote) {
            process::set(scrape, &usage, process::MOUNTER);
        }
    }
}

#[async_trait]
impl Mounter for CountedMounter {
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse, MountError> {
        let (kind, begin) = (request.name(), Instant::now());
        let asks_status = matches!(request, MounterRequest::Status);
        let response = self.mounter.perform(request).await;
        let mut counted = lock(&self.counted);
        let answered = counted.kinds.entry(kind).or_default();
        answered.took += begin.elapsed();
        match &response {
            Ok(_) => answered.succeeded += 1,
            Err(_) => answered.failed += 1,
        }
        if asks_status {
            counted.process = match &response {
                Ok(MounterResponse::Status(MounterStatus { process, .. })) => *process,
                _ => None,
            };
        }
        response
    }
}
