//! Volumes and snapshots in pages, in the order of their ids: a token is the last id of the page before, so that what comes and goes
//! meanwhile moves nothing.
//!
//! It does not know what an entry looks like: the listed make their own.
use crate::Hostpath;
use crate::record::{Record, SNAPSHOT, VOLUME, existing};
use wasmount_guest::*;

/// Entries of a page where the caller does not say: one answer stays far below 1 MiB.
const PAGE: u32 = 1000;

impl VolumeListing for Hostpath {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let (entries, next_token) = read(VOLUME, page, |id, record| Some(entry(id, record)))?;
        Ok(VolumePage {
            entries,
            next_token,
        })
    }
}

impl VolumeLookup for Hostpath {
    fn get_volume(id: String) -> Result<VolumeEntry, Error> {
        let record = existing(VOLUME, &id)?.value;
        Ok(entry(id, record))
    }
}

impl SnapshotListing for Hostpath {
    fn list_snapshots(args: ListSnapshotsArgs) -> Result<SnapshotPage, Error> {
        let source = args.source_volume;
        let (entries, next_token) = read(SNAPSHOT, args.page, |id, record| {
            let is_asked_for = source.is_none() || record.source == source;
            is_asked_for.then(|| record.into_snapshot(id))
        })?;
        Ok(SnapshotPage {
            entries,
            next_token,
        })
    }
}

fn entry(id: String, record: Record) -> VolumeEntry {
    VolumeEntry {
        volume: record.into_volume(id),
        status: VolumeStatus {
            published_nodes: Vec::new(),
            condition: None,
        },
    }
}

fn read<T>(
    prefix: &str,
    page: PageRequest,
    show: impl Fn(String, Record) -> Option<T>,
) -> Result<(Vec<T>, Option<String>), Error> {
    let mut after = page.starting_token;
    if after
        .as_ref()
        .is_some_and(|token| !id::is_from_name(prefix, token))
    {
        return Err(Error::aborted(
            "this token was not given here: list from the beginning",
        ));
    }
    let limit = page.max_entries.unwrap_or(PAGE).clamp(1, PAGE);
    let mut shown = Vec::new();
    loop {
        let records = state::scan::<Record>(prefix, after.as_deref(), limit)?;
        if records.is_empty() {
            return Ok((shown, None));
        }
        for (id, record) in records {
            if u32::try_from(shown.len()).is_ok_and(|shown| shown == limit) {
                return Ok((shown, after));
            }
            shown.extend(show(id.clone(), record.value));
            after = Some(id);
        }
    }
}
