//! Import `pool`: trees and images of the granted pools. Requests go to the mounter, which knows grants and paths; this module only ensures their
//! order: an object is not destroyed before the record that describes it is durable.

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
            return Err(HostError::new(
                Code::InvalidArgument,
                "a path in a pool holds the value of a secret: everybody on the node can read it there",
            )
            .blaming(Code::Internal, Blame::argument(*string)));
        }
        if call.is_reading() {
            return Ok(self.call_pool(call).await?);
        }
        self.may_change("a pool")?;
        if call.is_destructive() {
            self.sync().await?;
        }
        let changed = self.call_pool(call.clone()).await;
        self.effects.of_pool(call, changed.as_ref().err());
        Ok(changed?)
    }

    async fn call_pool(&mut self, call: PoolCall) -> Result<PoolReply, MountError> {
        let (driver, mounter) = (self.parts.driver.clone(), Arc::clone(&self.parts.mounter));
        self.waits_for_storage = true;
        let reply = if call.is_destructive() {
            // Also for a guest that is stopped meanwhile: the claims of its call last until this has ended. Other calls may end late, and must not
            // block the teardown of a volume while their storage hangs.
            let work = async move { mounter.pool(driver, call).await };
            let job = self.call.jobs.spawn(work.in_current_span());
            job.await.unwrap_or_else(|_| {
                Err(MountError::unreachable(
                    "its worker ended without an answer: this is a bug of the host",
                ))
            })
        } else {
            mounter.pool(driver, call).await
        };
        self.waits_for_storage = false;
        reply
    }

    async fn pool_extents(&mut self, call: PoolCall) -> Answer<Extents> {
        match self.checked_pool_call(call).await? {
            PoolReply::Extents(extents) => Ok(extents.convert()),
            _ => Err(unexpected()),
        }
    }
}

/// The functions that change a pool and return nothing: each is the pool call of the same name.
macro_rules! changes {
    ($($function:ident => $call:ident($($argument:ident: $type:ty),+))+) => {$(
        async fn $function(&mut self, pool: String, $($argument: $type),+) -> Answer<()> {
            match self.checked_pool_call(PoolCall::$call { pool, $($argument),+ }).await? {
                PoolReply::Done => Ok(()),
                _ => Err(unexpected()),
            }
        }
    )+};
}

impl Host for Invocation {
    async fn names(&mut self) -> wasmtime::Result<Vec<String>> {
        // The contract defines no error for this function: without an answer the guest is stopped.
        match self.checked_pool_call(PoolCall::Names).await? {
            PoolReply::Names(names) => Ok(names),
            _ => Err(unexpected().into()),
        }
    }

    async fn capacity(&mut self, pool: String) -> Answer<Usage> {
        match self.checked_pool_call(PoolCall::Capacity { pool }).await? {
            PoolReply::Capacity(usage) => Ok(usage.convert()),
            _ => Err(unexpected()),
        }
    }

    async fn stat(&mut self, pool: String, path: String) -> Answer<Option<Entry>> {
        match self
            .checked_pool_call(PoolCall::Stat { pool, path })
            .await?
        {
            PoolReply::Stat(entry) => Ok(entry.convert()),
            _ => Err(unexpected()),
        }
    }

    async fn list(
        &mut self,
        pool: String,
        path: String,
        after: Option<String>,
        limit: u32,
    ) -> Answer<Vec<Entry>> {
        let call = PoolCall::List {
            pool,
            path,
            after,
            limit,
        };
        match self.checked_pool_call(call).await? {
            PoolReply::List(entries) => Ok(entries.convert()),
            _ => Err(unexpected()),
        }
    }

    changes! {
        create_directory => CreateDirectory(path: String)
        remove_directory => RemoveDirectory(path: String)
        create_image => CreateImage(path: String, size_bytes: u64)
        resize_image => ResizeImage(path: String, size_bytes: u64)
        remove_image => RemoveImage(path: String)
        clone_image => CloneImage(source: String, target: String)
        clone_images => CloneImages(copies: Vec<(String, String)>)
        clone_directory => CloneDirectory(source: String, target: String)
        rename => Rename(source: String, target: String)
        set_permissions => SetPermissions(path: String, mode: u32, uid: Option<u32>, gid: Option<u32>)
    }

    async fn set_quota(&mut self, pool: String, path: String, bytes: Option<u64>) -> Answer<bool> {
        match self
            .checked_pool_call(PoolCall::SetQuota { pool, path, bytes })
            .await?
        {
            PoolReply::Quota { enforced } => Ok(enforced),
            _ => Err(unexpected()),
        }
    }

    async fn allocated_extents(
        &mut self,
        pool: String,
        path: String,
        offset: u64,
        limit: u32,
    ) -> Answer<Extents> {
        let call = PoolCall::AllocatedExtents {
            pool,
            path,
            offset,
            limit,
        };
        self.pool_extents(call).await
    }

    async fn changed_extents(
        &mut self,
        pool: String,
        base: String,
        target: String,
        offset: u64,
        limit: u32,
    ) -> Answer<Extents> {
        let call = PoolCall::ChangedExtents {
            pool,
            base,
            target,
            offset,
            limit,
        };
        self.pool_extents(call).await
    }
}

/// The mounter may be another process, of another version.
fn unexpected() -> HostError {
    let reason = "the mounter answered a pool call with what was not asked: it is of another version than this host";
    HostError::new(Code::Internal, reason)
}
