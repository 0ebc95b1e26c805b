//! Import `pool`: trees and images of the granted pools. Requests go to the mounter, which knows grants and paths; this module only ensures their
//! order: an object is not destroyed before the record that describes it is durable, and a change is on stable storage before a record, a request or an
//! answer can tell of it.

use super::Answer;
use crate::bindings::imported::pool::{Entry, Extents, Host, Usage};
use crate::convert::Convert;
use crate::host_error::HostError;
use crate::invocation::Invocation;
use std::sync::Arc;
use tracing::Instrument;
use wasmount_core::blame::Blame;
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::{PoolCall, PoolReply};

impl Invocation {
    async fn checked_pool_call(&mut self, call: PoolCall) -> Answer<PoolReply> {
        let strings = call.strings();
        let mut strings = strings.iter();
        if let Some(string) = strings.find(|string| self.redactor.finds_secret_in(string)) {
            let reason = "a path in a pool contains the value of a secret: every process on the node can read it there";
            return Err(HostError::rejected(reason, Blame::argument(*string)));
        }
        if call.is_reading() {
            return Ok(self.call_pool(call).await?);
        }
        self.may_change("a pool")?;
        if call.is_destructive() {
            self.sync().await?;
        }
        let changed = self.call_pool(call.clone()).await;
        if changed.is_ok() {
            self.unsynced_pools.note(&call);
        }
        self.effects.of_pool(call, changed.as_ref().err());
        let reply = changed?;
        // A request to a storage system may tell of the change.
        if self.unsynced_pools.is_full() || !self.parts.network.is_empty() {
            self.sync_pools().await?;
        }
        Ok(reply)
    }

    /// Returns when all changes in pools are on stable storage. After an error they count as unsynced.
    pub(crate) async fn sync_pools(&mut self) -> Result<(), MountError> {
        while let Some(sync) = self.unsynced_pools.sync() {
            let span = tracing::debug_span!("sync pool");
            self.call_pool(sync).instrument(span).await?;
            self.unsynced_pools.synced();
        }
        Ok(())
    }

    async fn call_pool(&mut self, call: PoolCall) -> Result<PoolReply, MountError> {
        let (driver, mounter) = (self.parts.driver.clone(), Arc::clone(&self.parts.mounter));
        if !call.is_destructive() {
            return self.waiting(mounter.pool(driver, call)).await;
        }
        // Also for a guest that is stopped meanwhile: the claims of its call last until this has ended. Other calls may end late, and must not block
        // the teardown of a volume while their storage hangs.
        let work = async move { mounter.pool(driver, call).await };
        let job = self.call.jobs.spawn(work.in_current_span());
        let ended = self.waiting(job).await;
        ended.unwrap_or_else(|_| Err(MountError::lost_worker()))
    }
}

/// Host functions that are one call of a pool each, with the reply that belongs to it.
macro_rules! pool_calls {
    ($($function:ident($($argument:ident: $type:ty),*) -> $answer:ty = $call:ident, $reply:pat => $value:expr;)+) => {$(
        async fn $function(&mut self, pool: String $(, $argument: $type)*) -> Answer<$answer> {
            let span = tracing::debug_span!("host call", function = concat!("pool.", stringify!($function)));
            match self.checked_pool_call(PoolCall::$call { pool $(, $argument)* }).instrument(span).await? {
                $reply => Ok($value),
                _ => Err(unexpected()),
            }
        }
    )+};
}

impl Host for Invocation {
    async fn names(&mut self) -> wasmtime::Result<Vec<String>> {
        match self.checked_pool_call(PoolCall::Names).await? {
            PoolReply::Names(names) => Ok(names),
            _ => Err(unexpected().into()),
        }
    }

    pool_calls! {
        capacity() -> Usage = Capacity, PoolReply::Capacity(usage) => usage.convert();
        stat(path: String) -> Option<Entry> = Stat, PoolReply::Stat(entry) => entry.convert();
        list(path: String, after: Option<String>, limit: u32) -> Vec<Entry> = List, PoolReply::List(entries) => entries.convert();
        create_directory(path: String) -> () = CreateDirectory, PoolReply::Done => ();
        remove_directory(path: String) -> () = RemoveDirectory, PoolReply::Done => ();
        create_image(path: String, size_bytes: u64) -> () = CreateImage, PoolReply::Done => ();
        resize_image(path: String, size_bytes: u64) -> () = ResizeImage, PoolReply::Done => ();
        remove_image(path: String) -> () = RemoveImage, PoolReply::Done => ();
        clone_image(source: String, target: String) -> () = CloneImage, PoolReply::Done => ();
        clone_images(copies: Vec<(String, String)>) -> () = CloneImages, PoolReply::Done => ();
        clone_directory(source: String, target: String) -> () = CloneDirectory, PoolReply::Done => ();
        rename(source: String, target: String) -> () = Rename, PoolReply::Done => ();
        set_permissions(path: String, mode: u32, uid: Option<u32>, gid: Option<u32>) -> () = SetPermissions, PoolReply::Done => ();
        set_quota(path: String, bytes: Option<u64>) -> bool = SetQuota, PoolReply::Quota { enforced } => enforced;
        allocated_extents(path: String, offset: u64, limit: u32) -> Extents
            = AllocatedExtents, PoolReply::Extents(extents) => extents.convert();
        changed_extents(base: String, target: String, offset: u64, limit: u32) -> Extents
            = ChangedExtents, PoolReply::Extents(extents) => extents.convert();
    }
}

/// The mounter may be another process, of another version.
fn unexpected() -> HostError {
    let reason = "the mounter answered a pool call with an unexpected reply: its version differs from this host's";
    HostError::new(Code::Internal, reason)
}
