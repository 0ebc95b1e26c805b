//! Import `pool`: trees and images of the granted pools. Requests go to the mounter, which knows grants and paths; this module only ensures their
//! order: an object is not destroyed before the record that describes it is durable.

use super::Answer;
use crate::bindings::imported::pool::{Entry, Extents as GuestExtents, Host, Kind, Usage};
use crate::bindings::types;
use crate::host_error::HostError;
use crate::invocation::Invocation;
use std::sync::Arc;
use tracing::Instrument;
use wasmount_core::blame::Blame;
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::{Extents, PoolCall, PoolEntry, PoolEntryKind, PoolReply, PoolUsage};
use wasmount_core::snapshot::Extent;

impl Invocation {
    async fn ask_pool(&mut self, call: PoolCall) -> Answer<PoolReply> {
        let words = call.words();
        let mut words = words.iter();
        if let Some(word) = words.find(|word| self.redactor.finds_secret_in(word)) {
            return Err(HostError::told(
                Code::InvalidArgument,
                "a path in a pool holds the value of a secret: everybody on the node can read it there",
            )
            .blaming(Code::Internal, Blame::word(*word)));
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

    async fn ask_extents(&mut self, call: PoolCall) -> Answer<GuestExtents> {
        match self.ask_pool(call).await? {
            PoolReply::Extents(extents) => Ok(extents_to_guest(extents)),
            _ => Err(unexpected()),
        }
    }

    async fn change_pool(&mut self, call: PoolCall) -> Answer<()> {
        match self.ask_pool(call).await? {
            PoolReply::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }
}

impl Host for Invocation {
    async fn names(&mut self) -> wasmtime::Result<Vec<String>> {
        // The contract defines no error for this function: without an answer the guest is stopped.
        let error = match self.ask_pool(PoolCall::Names).await {
            Ok(PoolReply::Names(names)) => return Ok(names),
            Ok(_) => unexpected(),
            Err(error) => error,
        };
        Err(error.into_stop())
    }

    async fn capacity(&mut self, pool: String) -> Answer<Usage> {
        match self.ask_pool(PoolCall::Capacity { pool }).await? {
            PoolReply::Capacity(usage) => {
                let PoolUsage {
                    total_bytes,
                    available_bytes,
                } = usage;
                Ok(Usage {
                    total_bytes,
                    available_bytes,
                })
            }
            _ => Err(unexpected()),
        }
    }

    async fn stat(&mut self, pool: String, path: String) -> Answer<Option<Entry>> {
        match self.ask_pool(PoolCall::Stat { pool, path }).await? {
            PoolReply::Stat(entry) => Ok(entry.map(entry_to_guest)),
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
        match self.ask_pool(call).await? {
            PoolReply::List(entries) => Ok(entries.into_iter().map(entry_to_guest).collect()),
            _ => Err(unexpected()),
        }
    }

    async fn create_directory(&mut self, pool: String, path: String) -> Answer<()> {
        self.change_pool(PoolCall::CreateDirectory { pool, path })
            .await
    }

    async fn remove_directory(&mut self, pool: String, path: String) -> Answer<()> {
        self.change_pool(PoolCall::RemoveDirectory { pool, path })
            .await
    }

    async fn create_image(&mut self, pool: String, path: String, size_bytes: u64) -> Answer<()> {
        let call = PoolCall::CreateImage {
            pool,
            path,
            size_bytes,
        };
        self.change_pool(call).await
    }

    async fn resize_image(&mut self, pool: String, path: String, size_bytes: u64) -> Answer<()> {
        let call = PoolCall::ResizeImage {
            pool,
            path,
            size_bytes,
        };
        self.change_pool(call).await
    }

    async fn clone_image(&mut self, pool: String, source: String, target: String) -> Answer<()> {
        let call = PoolCall::CloneImage {
            pool,
            source,
            target,
        };
        self.change_pool(call).await
    }

    async fn clone_directory(
        &mut self,
        pool: String,
        source: String,
        target: String,
    ) -> Answer<()> {
        let call = PoolCall::CloneDirectory {
            pool,
            source,
            target,
        };
        self.change_pool(call).await
    }

    async fn remove_image(&mut self, pool: String, path: String) -> Answer<()> {
        self.change_pool(PoolCall::RemoveImage { pool, path }).await
    }

    async fn clone_images(&mut self, pool: String, copies: Vec<(String, String)>) -> Answer<()> {
        self.change_pool(PoolCall::CloneImages { pool, copies })
            .await
    }

    async fn allocated_extents(
        &mut self,
        pool: String,
        path: String,
        offset: u64,
        limit: u32,
    ) -> Answer<GuestExtents> {
        let call = PoolCall::AllocatedExtents {
            pool,
            path,
            offset,
            limit,
        };
        self.ask_extents(call).await
    }

    async fn changed_extents(
        &mut self,
        pool: String,
        base: String,
        target: String,
        offset: u64,
        limit: u32,
    ) -> Answer<GuestExtents> {
        let call = PoolCall::ChangedExtents {
            pool,
            base,
            target,
            offset,
            limit,
        };
        self.ask_extents(call).await
    }

    async fn rename(&mut self, pool: String, source: String, target: String) -> Answer<()> {
        let call = PoolCall::Rename {
            pool,
            source,
            target,
        };
        self.change_pool(call).await
    }

    async fn set_permissions(
        &mut self,
        pool: String,
        path: String,
        mode: u32,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Answer<()> {
        let call = PoolCall::SetPermissions {
            pool,
            path,
            mode,
            uid,
            gid,
        };
        self.change_pool(call).await
    }

    async fn set_quota(&mut self, pool: String, path: String, bytes: Option<u64>) -> Answer<bool> {
        match self
            .ask_pool(PoolCall::SetQuota { pool, path, bytes })
            .await?
        {
            PoolReply::Quota { enforced } => Ok(enforced),
            _ => Err(unexpected()),
        }
    }
}

fn entry_to_guest(entry: PoolEntry) -> Entry {
    let PoolEntry {
        path,
        kind,
        size_bytes,
        allocated_bytes,
    } = entry;
    Entry {
        path,
        kind: match kind {
            PoolEntryKind::Directory => Kind::Directory,
            PoolEntryKind::Image => Kind::Image,
            PoolEntryKind::Other(kind) => Kind::Other(kind),
        },
        size_bytes,
        allocated_bytes,
    }
}

fn extents_to_guest(extents: Extents) -> GuestExtents {
    let Extents {
        ranges,
        next_offset,
    } = extents;
    let to_guest = |extent| {
        let Extent {
            offset_bytes,
            size_bytes,
        } = extent;
        types::Extent {
            offset_bytes,
            size_bytes,
        }
    };
    GuestExtents {
        ranges: ranges.into_iter().map(to_guest).collect(),
        next_offset,
    }
}

/// The mounter may be another process, of another version.
fn unexpected() -> HostError {
    let reason = "the mounter answered a pool call with what was not asked: it is of another version than this host";
    HostError::told(Code::Internal, reason)
}
