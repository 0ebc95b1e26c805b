//! The walk of ControllerListVolumeHealth: all volumes of the backend, one after the other; unhealthy ones are returned.
//!
//! CSI requires volumes without a known adverse condition to be left out. A volume with unknown health is left out too, and logged: neither answer
//! would be true. If the health of every volume is unknown, the call fails, since an empty list would mean that all are healthy.

use super::in_time;
use crate::code::Code;
use crate::driver::paging::{ANSWER_BYTES, Progress, field};
use crate::driver::work::Work;
use crate::driver::{HealthPosition, ListVolumeHealthRequest, VolumeHealth, VolumeHealthPage};
use crate::error::Error;
use crate::health::Health;
use crate::names::VolumeId;
use crate::volume::{PageRequest, VolumeEntry};
use tokio::time::Instant;

/// Volumes that the backend lists at a time. 256: few enough that a page which the deadline interrupted is quickly read again. The number is
/// constant, so that the page is then the same.
const VOLUMES_AT_A_TIME: u32 = 256;

/// The results so far.
#[derive(Default)]
struct Walk {
    unhealthy: Vec<VolumeHealth>,
    /// An estimate of the answer's size.
    bytes: usize,
    /// Volumes whose health is known.
    known: usize,
    /// The first error about a volume with unknown health, and the number of such volumes.
    unknown: Option<(Error, usize)>,
}

impl Work {
    /// Unhealthy volumes from the client's position on, as many as time, message size and client allow.
    pub(super) async fn unhealthy_volumes(
        &self,
        request: ListVolumeHealthRequest,
    ) -> Result<VolumeHealthPage, Error> {
        let ListVolumeHealthRequest {
            max_entries,
            mut from,
        } = request;
        let most = max_entries.map_or(usize::MAX, |most| most as usize);
        let backend = self.backend()?;
        let mut walk = Walk::default();
        let mut progress = Progress::default();
        // Starts with the first volume, so that each call advances by at least one.
        let mut until = None;
        loop {
            progress.goes_on(self, "list-volumes", from.page.as_ref())?;
            let page = PageRequest {
                max_entries: Some(VOLUMES_AT_A_TIME),
                starting_token: from.page.clone(),
            };
            let page = backend.list_volumes(&self.call, page).await?;
            progress.read(self, "list-volumes", &page)?;
            let until = *until.get_or_insert_with(in_time);
            for id in behind(page.entries, from.after.as_ref()) {
                if walk.is_enough(most, until) {
                    return walk.answer(Some(from));
                }
                let health = self.backend_health(&id, until).await;
                from.after = Some(id.clone());
                walk.add(id, health);
            }
            let Some(next) = page.next_token else {
                return walk.answer(None);
            };
            from = HealthPosition {
                page: Some(next),
                after: None,
            };
            if walk.is_enough(most, until) {
                return walk.answer(Some(from));
            }
        }
    }
}

impl Walk {
    /// Whether the answer is complete. Never before the first result.
    fn is_enough(&self, most: usize, until: Instant) -> bool {
        let begun = self.known > 0 || self.unknown.is_some();
        let is_full = self.unhealthy.len() >= most || self.bytes >= ANSWER_BYTES;
        begun && (is_full || Instant::now() >= until)
    }

    fn add(&mut self, id: VolumeId, health: Result<Vec<Health>, Error>) {
        match health {
            Ok(findings) => {
                self.known += 1;
                if !findings.is_empty() {
                    let bytes_of =
                        |finding: &Health| field(&finding.reason) + field(&finding.message);
                    self.bytes += field(id.as_str()) + findings.iter().map(bytes_of).sum::<usize>();
                    self.unhealthy.push(VolumeHealth { id, findings });
                }
            }
            // It was deleted after it was listed.
            Err(error) if error.code() == Code::NotFound => self.known += 1,
            Err(error) => {
                let (_, count) = self.unknown.get_or_insert((error, 0));
                *count += 1;
            }
        }
    }

    fn answer(self, next: Option<HealthPosition>) -> Result<VolumeHealthPage, Error> {
        match self.unknown {
            Some((error, _)) if self.known == 0 => return Err(error),
            Some((error, volumes)) => {
                tracing::warn!(volumes, %error, "the health of some volumes is unknown: they are omitted from the list");
            }
            None => {}
        }
        Ok(VolumeHealthPage {
            entries: self.unhealthy,
            next,
        })
    }
}

/// The volumes of a page after the last one that was checked; all of them if that one was deleted.
fn behind(page: Vec<VolumeEntry>, last: Option<&VolumeId>) -> Vec<VolumeId> {
    let ids = page.into_iter().map(|entry| entry.volume.id);
    let mut ids: Vec<_> = ids.collect();
    if let Some(place) = ids.iter().position(|id| Some(id) == last) {
        ids.drain(..=place);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Volume;

    fn id(text: &str) -> VolumeId {
        VolumeId::parse("volume_id", text).unwrap()
    }

    #[test]
    fn a_page_goes_on_behind_the_last_volume_or_from_its_beginning() {
        let entry = |text: &str| VolumeEntry {
            volume: Volume {
                id: id(text),
                capacity_bytes: 0,
                context: Default::default(),
                content_source: None,
                accessible_topology: Vec::new(),
            },
            status: Default::default(),
        };
        let page = || ["a", "b", "c"].map(entry).to_vec();
        for (last, rest) in [
            (None, vec!["a", "b", "c"]),
            (Some("a"), vec!["b", "c"]),
            (Some("c"), vec![]),
            (Some("gone"), vec!["a", "b", "c"]),
        ] {
            let rest: Vec<_> = rest.into_iter().map(id).collect();
            assert_eq!(behind(page(), last.map(id).as_ref()), rest);
        }
    }
}
