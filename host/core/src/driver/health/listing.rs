//! The walk of ControllerListVolumeHealth: all volumes of the backend, one after the other, and those that are not well are told.
//!
//! CSI wants volumes without a known adverse condition left out. One whose health could not be learnt is left out too, and logged: neither word would
//! be true of it. Where nothing could be learnt of any volume, the call fails, since an empty list would say that all are well.

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

/// Volumes that the backend is asked to list at a time. 256: few enough that a page which time cut short is soon read again. Always the same
/// number, so that the page is then the same too.
const VOLUMES_AT_A_TIME: u32 = 256;

/// What was learnt so far.
#[derive(Default)]
struct Learnt {
    unhealthy: Vec<VolumeHealth>,
    /// By our count.
    bytes: usize,
    /// Volumes whose health is known.
    known: usize,
    /// The first error about one whose health is not, and how many there are.
    unknown: Option<(Error, usize)>,
}

impl Work {
    /// Unhealthy volumes from the client's place on, as many as time, message and client allow.
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
        let mut learnt = Learnt::default();
        let mut progress = Progress::default();
        // Begins when there is a volume to ask about, so that each call comes further by one at least.
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
                if learnt.is_enough(most, until) {
                    return learnt.told(Some(from));
                }
                let said = self.health_said(&id, until).await;
                from.after = Some(id.clone());
                learnt.add(id, said);
            }
            let Some(next) = page.next_token else {
                return learnt.told(None);
            };
            from = HealthPosition {
                page: Some(next),
                after: None,
            };
            if learnt.is_enough(most, until) {
                return learnt.told(Some(from));
            }
        }
    }
}

impl Learnt {
    /// For one answer. Never before anything was learnt.
    fn is_enough(&self, most: usize, until: Instant) -> bool {
        let begun = self.known > 0 || self.unknown.is_some();
        let is_full = self.unhealthy.len() >= most || self.bytes >= ANSWER_BYTES;
        begun && (is_full || Instant::now() >= until)
    }

    fn add(&mut self, id: VolumeId, said: Result<Vec<Health>, Error>) {
        match said {
            Ok(findings) => {
                self.known += 1;
                if !findings.is_empty() {
                    let words = |finding: &Health| field(&finding.reason) + field(&finding.message);
                    self.bytes += field(id.as_str()) + findings.iter().map(words).sum::<usize>();
                    self.unhealthy.push(VolumeHealth { id, findings });
                }
            }
            // It was deleted since it was listed.
            Err(error) if error.code() == Code::NotFound => self.known += 1,
            Err(error) => {
                let (_, count) = self.unknown.get_or_insert((error, 0));
                *count += 1;
            }
        }
    }

    fn told(self, next: Option<HealthPosition>) -> Result<VolumeHealthPage, Error> {
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

/// The volumes of a page that were not looked at yet; all of them where the last one is gone.
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

    fn id(word: &str) -> VolumeId {
        VolumeId::parse("volume_id", word).unwrap()
    }

    #[test]
    fn a_page_goes_on_behind_the_last_volume_or_from_its_beginning() {
        let entry = |word: &str| VolumeEntry {
            volume: Volume {
                id: id(word),
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
