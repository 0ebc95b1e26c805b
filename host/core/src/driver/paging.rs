//! Joins a backend's pages of a list into one answer.
//!
//! The backend is asked for pages of its own, which are joined up to what a client accepts; then a token marks the next position. A page that is too
//! large is requested again, with half of its entries.

use super::work::Work;
use crate::attributes::Attributes;
use crate::error::Error;
use crate::snapshot::Snapshot;
use crate::topology::Topology;
use crate::volume::{ContentSource, Page, PageRequest, Volume, VolumeEntry};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Most entries that a backend is asked for at a time. 1000: with ids and contexts of ordinary length a few hundred kB, and a guest may return 4 MiB
/// (`limits.hostCallBytes`).
const ENTRIES_AT_A_TIME: u32 = 1000;

/// Most bytes of one answer, by estimate. Three quarters of the 4 MiB that gRPC clients accept: the estimate is not exact.
pub(super) const ANSWER_BYTES: usize = 3 << 20;

/// Size of a message field beside its content: its number and length, and those of the enclosing message.
const FIELD_BYTES: usize = 16;

/// Most pages without an entry in one list. 1000: a backend that filters after reading may have some, and at 1000 entries a page it has skipped over
/// a million by then.
const EMPTY_PAGES: usize = 1000;

/// The progress of one list. A list without an end would grow the host's memory.
#[derive(Default)]
pub(super) struct Progress {
    /// The tokens so far, which must not repeat. Hashes, with a key that no plugin knows: each token may have a kilobyte.
    tokens: HashSet<u64>,
    hasher: RandomState,
    empty_pages: usize,
}

impl Progress {
    /// The page of this token is read next. Rejects a token that was used before.
    pub(super) fn goes_on(
        &mut self,
        work: &Work,
        function: &'static str,
        token: Option<&String>,
    ) -> Result<(), Error> {
        work.in_time(function)?;
        match token {
            Some(token) if !self.tokens.insert(self.hasher.hash_one(token)) => {
                Err(work.bad_answer(function, "next-token leads back to a page that was read"))
            }
            _ => Ok(()),
        }
    }

    /// A page was read. Rejects more empty pages than any list has.
    pub(super) fn read<T>(
        &mut self,
        work: &Work,
        function: &'static str,
        page: &Page<T>,
    ) -> Result<(), Error> {
        self.empty_pages += usize::from(page.entries.is_empty());
        if self.empty_pages > EMPTY_PAGES {
            return Err(work.bad_answer(function, "more than 1000 of its pages have no entry"));
        }
        Ok(())
    }
}

/// Pages of `function` from the client's position on, as many as one answer holds.
pub(super) async fn joined<T, F>(
    work: &Work,
    function: &'static str,
    request: PageRequest,
    bytes_of: fn(&T) -> usize,
    mut query: impl FnMut(PageRequest) -> F,
) -> Result<Page<T>, Error>
where
    F: Future<Output = Result<Page<T>, Error>>,
{
    let answer = |entries, next_token| {
        Ok(Page {
            entries,
            next_token,
        })
    };
    let mut entries = Vec::new();
    let mut bytes = 0;
    let mut progress = Progress::default();
    let mut token = request.starting_token;
    let mut at_a_time = ENTRIES_AT_A_TIME;
    loop {
        let remaining = request
            .max_entries
            .map(|most| most.saturating_sub(length(&entries)));
        if remaining == Some(0) {
            return answer(entries, token);
        }
        progress.goes_on(work, function, token.as_ref())?;
        let page = loop {
            let most = remaining.unwrap_or(at_a_time).min(at_a_time);
            let page = query(PageRequest {
                max_entries: Some(most),
                starting_token: token.clone(),
            })
            .await?;
            let page_bytes = page.entries.iter().map(bytes_of).sum::<usize>();
            if bytes + page_bytes <= ANSWER_BYTES {
                bytes += page_bytes;
                break page;
            }
            if !entries.is_empty() {
                // The next call reads this page again.
                return answer(entries, token);
            }
            let count = length(&page.entries).min(most);
            if count <= 1 {
                // One entry cannot be divided; the client may accept more than the estimate.
                bytes += page_bytes;
                break page;
            }
            at_a_time = count / 2;
        };
        progress.read(work, function, &page)?;
        entries.extend(page.entries);
        token = page.next_token;
        if token.is_none() {
            return answer(entries, None);
        }
    }
}

fn length<T>(entries: &[T]) -> u32 {
    u32::try_from(entries.len()).unwrap_or(u32::MAX)
}

/// The approximate size of a listed volume in an answer.
pub(super) fn bytes_of_volume(entry: &VolumeEntry) -> usize {
    let VolumeEntry { volume, status } = entry;
    let Volume {
        id,
        capacity_bytes: _,
        context,
        content_source,
        accessible_topology,
    } = volume;
    let source = match content_source {
        None => 0,
        Some(ContentSource::Snapshot(id)) => field(id.as_str()),
        Some(ContentSource::Volume(id)) => field(id.as_str()),
    };
    let nodes = status
        .published_nodes
        .iter()
        .map(|node| field(node.as_str()));
    let condition = status.condition.as_ref();
    // The size and the two messages.
    3 * FIELD_BYTES
        + field(id.as_str())
        + map(context)
        + source
        + places(accessible_topology)
        + nodes.sum::<usize>()
        + condition.map_or(0, |condition| field(&condition.message))
}

/// The approximate size of a listed snapshot in an answer.
pub(super) fn bytes_of_snapshot(snapshot: &Snapshot) -> usize {
    let Snapshot {
        id,
        source_volume,
        size_bytes: _,
        created_at: _,
        ready_to_use: _,
        group,
        accessible_topology,
    } = snapshot;
    // Size, creation time, readiness and the message.
    4 * FIELD_BYTES
        + field(id.as_str())
        + field(source_volume.as_str())
        + group.as_ref().map_or(0, |group| field(group.as_str()))
        + places(accessible_topology)
}

/// The approximate size of a string in an answer.
pub(super) fn field(text: &str) -> usize {
    FIELD_BYTES + text.len()
}

fn map(map: &Attributes) -> usize {
    map.iter()
        .map(|(key, value)| field(key) + field(value))
        .sum()
}

fn places(places: &[Topology]) -> usize {
    places
        .iter()
        .map(|place| FIELD_BYTES + map(&place.segments))
        .sum()
}
