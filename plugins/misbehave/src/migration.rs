//! Export `state-migration`. The setting `behaviour` selects the misbehaviour, since the calls have no volume.

use crate::behaviour::{Table, begin, find, names};
use crate::{BEHAVIOUR, Misbehave, POOL, setting};
use wasmount_guest::*;

const PLANS: Table<fn() -> Result<Migration, Error>> = &[
    ("migrate", || Ok(Migration::Rewriting)),
    ("migrate-and-forget", || Ok(Migration::Rewriting)),
    ("write-in-migration", || Ok(Migration::Rewriting)),
    ("pool-in-migration", || Ok(Migration::Rewriting)),
    ("change-twice", || Ok(Migration::Additive)),
    ("trap-in-migration", || Ok(Migration::Additive)),
    ("spin-in-migration", || Ok(Migration::Additive)),
    ("refuse-migration", || {
        Err(Error::failed_precondition("go by version 0.0.9"))
    }),
    ("trap-in-plan", || panic!("no mood to plan")),
];

/// Migrates a page.
type Migrate = fn(&[StoredRecord]) -> Result<Vec<RecordChange>, Error>;

const MIGRATIONS: Table<Migrate> = &[
    ("migrate", |page| {
        Ok(page
            .iter()
            .map(|record| record.rewritten(&"migrated".to_owned()))
            .collect())
    }),
    ("migrate-and-forget", |page| {
        Ok(page
            .iter()
            .map(|record| RecordChange::remove(record.key.clone()))
            .collect())
    }),
    ("write-in-migration", |_| {
        state::create("written", &1_u64).map(|_| Vec::new())
    }),
    ("pool-in-migration", |_| {
        // A migration may read.
        POOL.stat("old")?;
        POOL.remove_directory("old").map(|()| Vec::new())
    }),
    ("change-twice", |_| {
        Ok(vec![
            RecordChange::put("a", &1_u64),
            RecordChange::remove("a"),
        ])
    }),
    ("trap-in-migration", |_| panic!("no mood to migrate")),
    ("spin-in-migration", |_| begin("spin").map(|()| Vec::new())),
];

impl StateMigration for Misbehave {
    fn plan_migration(_: &str) -> Result<Migration, Error> {
        find(PLANS, &setting(BEHAVIOUR)).map_or(Ok(Migration::Unneeded), |plan| plan())
    }

    fn migrate_records(_: &str, page: Vec<StoredRecord>) -> Result<Vec<RecordChange>, Error> {
        find(MIGRATIONS, &setting(BEHAVIOUR)).map_or(Ok(Vec::new()), |migrate| migrate(&page))
    }
}

/// The names of misbehaviours in a migration.
pub fn all_names() -> String {
    names(PLANS)
}
