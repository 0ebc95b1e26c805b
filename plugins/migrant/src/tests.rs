//! Tests of the versions on the host in memory: each reads its own records, and migrates those of another.

use super::*;
use wasmount_guest::testing;

fn version(schema: &str) {
    testing::set_setting("schema", schema);
}

fn create(name: &str, size: u64) -> Result<Volume, Error> {
    Migrant::create_volume(CreateVolumeArgs {
        name: name.to_owned(),
        capacity: CapacityRange {
            required_bytes: Some(size),
            limit_bytes: None,
        },
        capabilities: Vec::new(),
        parameters: Vec::new(),
        mutable_parameters: Vec::new(),
        content_source: None,
        accessibility: None,
    })
}

fn stored() -> Vec<StoredRecord> {
    let keys = testing::state_keys();
    let read = |key: String| {
        let value = state::require::<String>(&key).unwrap().value;
        StoredRecord::new(key, &value)
    };
    keys.into_iter().map(read).collect()
}

/// Migrates as the host does: all records, all changes.
fn migrate(from: &str) -> Result<(), Error> {
    for change in Migrant::migrate_records(from, stored())? {
        match change {
            RecordChange::Put(record) => {
                state::put(&record.key, &record.value, state::Expect::Any)?;
            }
            RecordChange::Remove(key) => state::delete(&key)?,
        }
    }
    Ok(())
}

fn sizes() -> Vec<(u64, String)> {
    let page = PageRequest {
        max_entries: None,
        starting_token: None,
    };
    let entries = Migrant::list_volumes(page).unwrap().entries;
    let shown = entries.into_iter().map(|entry| {
        let origin = entry.volume.context.require("origin").unwrap().to_owned();
        (entry.volume.capacity_bytes, origin)
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort_unstable();
    shown
}

fn pairs(pairs: &[(u64, &str)]) -> Vec<(u64, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(size, origin)| (*size, (*origin).to_owned()))
        .collect()
}

#[test]
fn each_version_reads_what_the_migration_made_of_the_one_before() {
    testing::reset();
    version("1");
    create("a", 7).unwrap();
    version("2");
    assert!(create("a", 7).is_err(), "the old form is not read");
    migrate("1.0.0").unwrap();
    create("b", 8).unwrap();
    assert_eq!(sizes(), pairs(&[(7, "1.0.0"), (8, "2.0.0")]));
    version("3");
    migrate("2.0.0").unwrap();
    create("c", 9).unwrap();
    let all = pairs(&[(7, "1.0.0"), (8, "2.0.0"), (9, "3.0.0")]);
    assert_eq!(sizes(), all);
    assert_eq!(testing::state_keys().len(), 6);
    for name in ["a", "b", "c"] {
        Migrant::delete_volume(id::from_name("volume", name)).unwrap();
    }
    assert_eq!(testing::state_keys(), [""; 0]);
}

#[test]
fn additive_means_the_earlier_version_keeps_all_records() {
    testing::reset();
    version("2");
    let made = create("b", 8).unwrap();
    version("1");
    assert_eq!(sizes(), pairs(&[(8, "1.0.0")]));
    let again = create("b", 8).unwrap();
    assert_eq!((&again.id, again.capacity_bytes), (&made.id, 8));
    assert_eq!(create("b", 9).unwrap_err().code, Code::AlreadyExists);
    create("a", 7).unwrap();
    // And to version 2 again, by the same migration.
    version("2");
    migrate("1.0.0").unwrap();
    assert_eq!(sizes(), pairs(&[(7, "1.0.0"), (8, "2.0.0")]));
    version("1");
    Migrant::delete_volume(made.id).unwrap();
    assert_eq!(sizes(), pairs(&[(7, "1.0.0")]));
}

#[test]
fn the_same_page_gives_the_same_changes() {
    testing::reset();
    version("1");
    create("a", 7).unwrap();
    version("3");
    let changes = || Migrant::migrate_records("1.0.0", stored()).unwrap();
    assert_eq!(changes(), changes());
    assert_eq!(changes().len(), 2);
}

#[test]
fn every_way_between_versions_is_planned_or_refused() {
    testing::reset();
    for (from, to, plan) in [
        ("1.0.0", "1", Some(Migration::Unneeded)),
        ("1.0.0", "2", Some(Migration::Additive)),
        ("1.0.0", "3", Some(Migration::Rewriting)),
        ("2.0.0", "1", Some(Migration::Unneeded)),
        ("2.0.0", "3", Some(Migration::Rewriting)),
        ("3.0.0", "3", Some(Migration::Unneeded)),
        ("3.0.0", "2", None),
        ("3.0.0", "1", None),
        ("9.0.0", "1", None),
    ] {
        version(to);
        assert_eq!(Migrant::plan_migration(from).ok(), plan, "{from} to {to}");
    }
}

#[test]
fn a_migration_stops_at_the_configured_record() {
    testing::reset();
    version("1");
    let id = create("a", 7).unwrap().id;
    version("2");
    testing::set_setting("stuck", &id);
    assert_eq!(migrate("1.0.0").unwrap_err().code, Code::DataLoss);
}

#[test]
fn a_version_that_is_not_there_is_refused_with_those_that_are() {
    testing::reset();
    version("4");
    let refused = Migrant::check_settings().unwrap_err().message;
    assert!(refused.contains("1, 2 and 3"), "{refused}");
}
