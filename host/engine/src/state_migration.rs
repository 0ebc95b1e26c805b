//! Export `state-migration`: what becomes of another version's records, one page at a time. It is no CSI service and advertises nothing; who
//! pages, writes and swaps is decided in `versions`.

use crate::backend::WasmBackend;
use crate::bindings::exported::state_migration::StoredRecord;
use crate::component::Candidate;
use crate::function::{Access, Function};
use crate::program::Program;
use crate::session::call_guest;
use wasmount_core::backend::BackendError;
use wasmount_core::call::Call;
use wasmount_core::migration::{Migration, StateChange};
use wasmount_core::state::StateEntry;

const PLAN: Function =
    Function::reserved("state-migration", "plan-migration").with(Access::Migration);
const MIGRATE: Function =
    Function::reserved("state-migration", "migrate-records").with(Access::Migration);

impl Program {
    async fn plan_migration(
        &self,
        call: &Call,
        from_version: &str,
    ) -> Result<Migration, BackendError> {
        let closed = call_guest!(
            self,
            call,
            PLAN,
            state_migration.call_plan_migration(from_version)
        )?;
        closed.check(|checker, migration| checker.migration(migration))
    }

    async fn migrate(
        &self,
        call: &Call,
        from_version: &str,
        page: &[StateEntry],
    ) -> Result<Vec<StateChange>, BackendError> {
        let page: Vec<_> = page.iter().map(record_to_guest).collect();
        let closed = call_guest!(
            self,
            call,
            MIGRATE,
            state_migration.call_migrate_records(from_version, &page)
        )?;
        closed.check(|checker, changes| checker.state_changes(changes))
    }
}

macro_rules! migrating {
    ($type:ty) => {
        impl $type {
            /// Whether it says anything about records of other versions.
            pub fn has_migration(&self) -> bool {
                self.program().exports.state_migration.is_some()
            }

            /// What it makes of the records of another version, which is the `version` of that one's plugin info. Unneeded where it says
            /// nothing of migrations.
            pub async fn plan_migration(
                &self,
                call: &Call,
                from_version: &str,
            ) -> Result<Migration, BackendError> {
                if !self.has_migration() {
                    return Ok(Migration::Unneeded);
                }
                self.program().plan_migration(call, from_version).await
            }

            /// What becomes of a page of another version's records: checked, written by nobody yet. Each key stands in it once. A page holds at
            /// most [`wasmount_core::migration::MIGRATION_PAGE_ENTRIES`] records of together
            /// [`wasmount_core::migration::MIGRATION_PAGE_BYTES`], as the contract promises.
            pub async fn migrate(
                &self,
                call: &Call,
                from_version: &str,
                page: &[StateEntry],
            ) -> Result<Vec<StateChange>, BackendError> {
                self.program().migrate(call, from_version, page).await
            }
        }
    };
}

migrating!(Candidate);
migrating!(WasmBackend);

fn record_to_guest(entry: &StateEntry) -> StoredRecord {
    let StateEntry {
        key,
        value,
        revision: _,
    } = entry;
    StoredRecord {
        key: key.clone(),
        value: value.clone(),
    }
}
