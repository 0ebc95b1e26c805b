//! A plugin with three versions, selected by the setting `schema`, whose volumes are records alone: the tests of migrations check how each version
//! handles the records of the others. With the setting `stuck` a migration fails at the record of that id; with `wary` a version rejects the records
//! of a newer one, as a version that does not know the newer one would.
//!
//! Version 1 writes `size`; version 2 `size origin`, of which version 1 reads the first word; version 3 `origin:size`, which no other version reads,
//! and an index of the volumes that each version created.

mod record;

use record::{Record, Schema};
use wasmount_guest::*;

/// The size for a claim that names none.
const DEFAULT_BYTES: u64 = 1 << 30;
/// The smallest size of a volume.
const MINIMUM_BYTES: u64 = 1;

struct Migrant;
export! { identity: Migrant, controller: Migrant, volume_lookup: Migrant, volume_listing: Migrant, state_migration: Migrant }

impl Identity for Migrant {
    fn get_plugin_info() -> PluginInfo {
        let version = Schema::of_settings().map_or("0.0.0", Schema::version);
        PluginInfo::new("migrant.wasmount.io", version)
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        Schema::of_settings().map(|_| Vec::new())
    }
}

impl Controller for Migrant {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let schema = Schema::of_settings()?;
        let id = id::from_name(record::VOLUME, &args.name);
        let known = find(schema, &id)?;
        let size = known.as_ref().map(|known| known.size_bytes);
        let size_bytes = args.capacity.agree(size, MINIMUM_BYTES, DEFAULT_BYTES)?;
        let record = match known {
            // The record stays as written: it may hold more than this version reads, and a later version needs that.
            Some(known) => known,
            None => {
                let record = Record {
                    size_bytes,
                    origin: schema.version().to_owned(),
                };
                for (key, text) in schema.written(&id, &record) {
                    state::create(&key, &text)?;
                }
                record
            }
        };
        Ok(record.volume(id))
    }

    fn delete_volume(id: VolumeId) -> Result<(), Error> {
        let schema = Schema::of_settings()?;
        if let Some(record) = find(schema, &id)? {
            for (key, _) in schema.written(&id, &record).iter().rev() {
                state::delete(key)?;
            }
        }
        Ok(())
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        get(&args.id).map(|_| Validation::Confirmed)
    }
}

impl VolumeLookup for Migrant {
    fn get_volume(id: VolumeId) -> Result<VolumeEntry, Error> {
        get(&id).map(|record| VolumeEntry::new(record.volume(id)))
    }
}

impl VolumeListing for Migrant {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let schema = Schema::of_settings()?;
        let prefix = format!("{}-", record::VOLUME);
        let page = state::page(&prefix, &page, |id, text: String| {
            let record = schema.read(&id, &text)?;
            Ok(Some(VolumeEntry::new(record.volume(id))))
        })?;
        Ok(page.into())
    }
}

impl StateMigration for Migrant {
    fn plan_migration(from_version: &str) -> Result<Migration, Error> {
        let (to, from) = (Schema::of_settings()?, Schema::of_version(from_version)?);
        let settings = call::settings();
        if from > to && settings.value("wary").is_some() {
            return Err(Error::failed_precondition(format!(
                "records of version {from_version} are newer than this version"
            )));
        }
        to.plan(from)
    }

    fn migrate_records(
        from_version: &str,
        page: Vec<StoredRecord>,
    ) -> Result<Vec<RecordChange>, Error> {
        let (to, from) = (Schema::of_settings()?, Schema::of_version(from_version)?);
        let settings = call::settings();
        let stuck = settings.value("stuck");
        let mut changes = Vec::new();
        for stored in &page {
            if stuck == Some(stored.key.as_str()) {
                return Err(Error::data_loss(format!("stuck at `{}`", stored.key)));
            }
            let text = stored.read::<String>()?;
            // Written before a rollback: it holds more than the older version reads.
            if to.read(&stored.key, &text).is_ok() {
                continue;
            }
            let record = from.read(&stored.key, &text)?;
            let written = to.written(&stored.key, &record);
            changes.extend(
                written
                    .into_iter()
                    .map(|(key, text)| RecordChange::put(key, &text)),
            );
        }
        Ok(changes)
    }
}

fn find(schema: Schema, id: &str) -> Result<Option<Record>, Error> {
    let there = state::get::<String>(id)?;
    there.map(|there| schema.read(id, &there.value)).transpose()
}

fn get(id: &str) -> Result<Record, Error> {
    let found = find(Schema::of_settings()?, id)?;
    found.ok_or_else(|| Error::not_found(format!("there is no volume `{id}`")))
}

#[cfg(test)]
mod tests;
