//! Import `state`: the durable keys of the backend. It belongs to the controller service: on a node, where the same plugin may run in another
//! process with another store, every function returns an error.

use super::Answer;
use crate::bindings::imported::state::{Entry, Expect, Host, Outcome};
use crate::convert::Convert;
use crate::function::Access;
use crate::host_error::HostError;
use crate::invocation::Invocation;
use wasmount_core::blame::Blame;
use wasmount_core::code::Code;
use wasmount_core::state::{
    Keyspace, KeyspaceOwner, STATE_KEY_BYTES, STATE_SCAN_ENTRIES, STATE_VALUE_BYTES, StateEntry,
    StateError, check_length, record_bytes,
};

impl Invocation {
    fn own_keys(&self) -> Answer<Keyspace> {
        let reason = if self.call.rpc.service() == "Node" {
            "state is not available on a node: pass what the node must know in the volume context"
        } else if self.access == Access::Migration {
            "state is not available while records are migrated: the page has the records, answer with the changes"
        } else {
            return Ok(Keyspace {
                driver: self.parts.driver.clone(),
                owner: KeyspaceOwner::Backend,
            });
        };
        Err(HostError::new(Code::FailedPrecondition, reason))
    }

    /// After a read: what a call that may write has seen must be durable before its answer, too. A repeated CreateVolume is answered from the record
    /// of the first attempt, which the disk may have failed to store.
    fn note_read(&mut self, space: &Keyspace) {
        self.unsynced |= self.access == Access::ReadWrite && !self.parts.state.is_durable(space);
    }

    /// The same for a call that may write.
    fn writable_keys(&self) -> Answer<Keyspace> {
        let space = self.own_keys()?;
        self.may_change("state")?;
        Ok(space)
    }

    /// The store is not encrypted on the disk of a node: a secret must not be stored there.
    fn check_content(&self, key: &str, value: &[u8]) -> Answer<()> {
        check_key(key)?;
        check_length("the value", value.len(), STATE_VALUE_BYTES)?;
        if self.redactor.finds_secret_in(key) || self.redactor.finds_secret_in(value) {
            let text = format!("{key} {}", String::from_utf8_lossy(value));
            let reason = "a record of the state contains the value of a secret, and the store is not encrypted: keep its name, and read the value in each call";
            return Err(HostError::rejected(reason, Blame::argument(text)));
        }
        Ok(())
    }

    /// The records of one backend must not fill the disk for all. Concurrent calls may exceed the limit by what they write at that moment.
    async fn check_space(&mut self, space: &Keyspace, key: &str, value_bytes: usize) -> Answer<()> {
        let (store, limit) = (&self.parts.state, self.parts.limits.state_bytes);
        let added = record_bytes(key, value_bytes);
        if store.size(space).await?.saturating_add(added) <= limit {
            return Ok(());
        }
        let replaced = store.get(space, key).await?;
        let replaced = replaced.map_or(0, |there| record_bytes(key, there.value.len()));
        if added <= replaced {
            return Ok(());
        }
        // The size may be too high: durable records are counted exactly.
        store.sync().await?;
        let others = store.size(space).await?.saturating_sub(replaced);
        if others.saturating_add(added) > limit {
            return Err(StateError::OverLimit { limit }.into());
        }
        Ok(())
    }
}

impl Host for Invocation {
    #[tracing::instrument(
        level = "debug",
        skip_all,
        name = "host call",
        fields(function = "state.get")
    )]
    async fn get(&mut self, key: String) -> Answer<Option<Entry>> {
        let space = self.own_keys()?;
        check_key(&key)?;
        let entry = self.parts.state.get(&space, &key).await?;
        self.note_read(&space);
        Ok(entry.convert())
    }

    #[tracing::instrument(
        level = "debug",
        skip_all,
        name = "host call",
        fields(function = "state.put")
    )]
    async fn put(&mut self, key: String, value: Vec<u8>, expect: Expect) -> Answer<Outcome> {
        let space = self.writable_keys()?;
        self.check_content(&key, &value)?;
        self.check_space(&space, &key, value.len()).await?;
        // From here on the record can become durable at any time, with those of other calls.
        self.sync_pools().await?;
        self.unsynced = true;
        let expect = expect.convert();
        let outcome = self.parts.state.put(&space, &key, value, expect).await;
        self.effects.of_put(key, &outcome);
        Ok(outcome?.convert())
    }

    #[tracing::instrument(
        level = "debug",
        skip_all,
        name = "host call",
        fields(function = "state.remove")
    )]
    async fn remove(&mut self, key: String, expect: Expect) -> Answer<Outcome> {
        let space = self.writable_keys()?;
        check_key(&key)?;
        self.sync_pools().await?;
        self.unsynced = true;
        let expect = expect.convert();
        let outcome = self.parts.state.remove(&space, &key, expect).await?;
        self.effects.of_remove(key, &outcome);
        Ok(outcome.convert())
    }

    /// An answer ends before it exceeds the limit of one host call, but has at least one entry if there is any.
    #[tracing::instrument(
        level = "debug",
        skip_all,
        name = "host call",
        fields(function = "state.scan")
    )]
    async fn scan(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> Answer<Vec<Entry>> {
        let space = self.own_keys()?;
        check_length("the prefix", prefix.len(), STATE_KEY_BYTES)?;
        let limit = limit.min(STATE_SCAN_ENTRIES);
        let state = &self.parts.state;
        let found = state.scan(&space, &prefix, after.as_deref(), limit).await?;
        self.note_read(&space);
        let (most, mut bytes) = (self.parts.limits.host_call_bytes, 0_usize);
        let fits = |(index, entry): &(usize, StateEntry)| {
            bytes = bytes.saturating_add(entry.key.len() + entry.value.len());
            *index == 0 || bytes <= most
        };
        let entries = found.into_iter().enumerate().take_while(fits);
        Ok(entries.map(|(_, entry)| entry.convert()).collect())
    }
}

fn check_key(key: &str) -> Answer<()> {
    if key.is_empty() || key.contains('\0') {
        let reason = "a key of the state is empty or contains a NUL byte";
        return Err(HostError::rejected(reason, Blame::argument(key)));
    }
    Ok(check_length("the key", key.len(), STATE_KEY_BYTES)?)
}
