//! The host calls of one call of the plugin: its records in the store, its pools through the mounter.
//!
//! The plugin waits on its own thread. A call of the store is ready at once unless it waits for the disk.

use crate::bindings::imported::{pool, state};
use crate::bindings::types::{self, Error};
use crate::convert::Convert;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::Handle;
use wasmount_core::attributes::Attributes;
use wasmount_core::call::Call;
use wasmount_core::code::Code;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::DriverName;
use wasmount_core::pool::{PoolCall, PoolReply, Unsynced};
use wasmount_core::state::{Keyspace, KeyspaceOwner, StateError, StateStore};
use wasmount_guest::testing::{Pools, State};

type Answer<T> = Result<T, Error>;

/// What all calls of the plugin share.
pub(crate) struct Host {
    pub(crate) driver: DriverName,
    pub(crate) settings: Attributes,
    pub(crate) node_name: String,
    pub(crate) state: Arc<dyn StateStore>,
    pub(crate) mounter: Arc<dyn Mounter>,
}

/// The records and pools of one call.
pub(crate) struct Storage {
    host: Arc<Host>,
    is_of_node: bool,
    /// Set before a write starts: one that failed may have taken effect.
    unsynced: Cell<bool>,
    unsynced_pools: RefCell<Unsynced>,
}

impl Storage {
    pub(crate) fn of(host: &Arc<Host>, call: &Call) -> Self {
        Self {
            host: Arc::clone(host),
            is_of_node: call.rpc.service() == "Node",
            unsynced: Cell::new(false),
            unsynced_pools: RefCell::default(),
        }
    }

    /// Makes all changes durable, those of pools first, as the engine does.
    pub(crate) fn sync(&self) -> Answer<()> {
        self.sync_pools()?;
        if self.unsynced.get() {
            wait(self.host.state.sync()).map_err(of_store)?;
            self.unsynced.set(false);
        }
        Ok(())
    }

    fn sync_pools(&self) -> Answer<()> {
        loop {
            let sync = self.unsynced_pools.borrow().sync();
            let Some(sync) = sync else {
                return Ok(());
            };
            self.mounter_call(sync)?;
            self.unsynced_pools.borrow_mut().synced();
        }
    }

    fn mounter_call(&self, call: PoolCall) -> Answer<PoolReply> {
        let Host {
            driver, mounter, ..
        } = &*self.host;
        let reply = wait(mounter.pool(driver.clone(), call));
        reply.map_err(|error| failed(error.code(), &error))
    }

    fn keys(&self) -> Answer<Keyspace> {
        if self.is_of_node {
            let reason = "state is not available on a node: pass what the node must know in the volume context";
            return Err(Error::failed_precondition(reason));
        }
        Ok(Keyspace {
            driver: self.host.driver.clone(),
            owner: KeyspaceOwner::Backend,
        })
    }

    /// As the engine does: what a record that is not durable yet may refer to is destroyed only after the record.
    fn pool(&self, call: PoolCall) -> Answer<PoolReply> {
        if call.is_destructive() {
            self.sync()?;
        }
        let reply = self.mounter_call(call.clone())?;
        self.unsynced_pools.borrow_mut().note(&call);
        Ok(reply)
    }
}

impl State for Storage {
    fn get(&self, key: &str) -> Answer<Option<state::Entry>> {
        let space = self.keys()?;
        let entry = wait(self.host.state.get(&space, key));
        Ok(entry.map_err(of_store)?.convert())
    }

    fn put(&self, key: &str, value: &[u8], expect: state::Expect) -> Answer<state::Outcome> {
        let space = self.keys()?;
        self.sync_pools()?;
        self.unsynced.set(true);
        let (value, expect) = (value.to_vec(), expect.convert());
        let outcome = wait(self.host.state.put(&space, key, value, expect));
        Ok(outcome.map_err(of_store)?.convert())
    }

    fn remove(&self, key: &str, expect: state::Expect) -> Answer<state::Outcome> {
        let space = self.keys()?;
        self.sync_pools()?;
        self.unsynced.set(true);
        let outcome = wait(self.host.state.remove(&space, key, expect.convert()));
        Ok(outcome.map_err(of_store)?.convert())
    }

    fn scan(&self, prefix: &str, after: Option<&str>, limit: u32) -> Answer<Vec<state::Entry>> {
        let space = self.keys()?;
        let entries = wait(self.host.state.scan(&space, prefix, after, limit));
        Ok(entries.map_err(of_store)?.convert())
    }
}

/// Functions that are one call of a pool each, with the reply that belongs to it.
macro_rules! pool_calls {
    ($($function:ident($($argument:ident: $type:ty),*) -> $answer:ty = $call:ident { $($field:ident: $value:expr),* }, $reply:pat => $result:expr;)+) => {$(
        fn $function(&self, pool: &str $(, $argument: $type)*) -> Answer<$answer> {
            let pool = pool.to_owned();
            match self.pool(PoolCall::$call { pool $(, $field: $value)* })? {
                $reply => Ok($result),
                _ => Err(unexpected()),
            }
        }
    )+};
}

impl Pools for Storage {
    fn names(&self) -> Vec<String> {
        match self.pool(PoolCall::Names) {
            Ok(PoolReply::Names(names)) => names,
            _ => Vec::new(),
        }
    }

    pool_calls! {
        capacity() -> pool::Usage = Capacity {}, PoolReply::Capacity(usage) => usage.convert();
        stat(path: &str) -> Option<pool::Entry> = Stat { path: path.to_owned() }, PoolReply::Stat(entry) => entry.convert();
        list(path: &str, after: Option<&str>, limit: u32) -> Vec<pool::Entry>
            = List { path: path.to_owned(), after: after.map(str::to_owned), limit: limit }, PoolReply::List(entries) => entries.convert();
        create_directory(path: &str) -> () = CreateDirectory { path: path.to_owned() }, PoolReply::Done => ();
        remove_directory(path: &str) -> () = RemoveDirectory { path: path.to_owned() }, PoolReply::Done => ();
        create_image(path: &str, size_bytes: u64) -> () = CreateImage { path: path.to_owned(), size_bytes: size_bytes }, PoolReply::Done => ();
        resize_image(path: &str, size_bytes: u64) -> () = ResizeImage { path: path.to_owned(), size_bytes: size_bytes }, PoolReply::Done => ();
        remove_image(path: &str) -> () = RemoveImage { path: path.to_owned() }, PoolReply::Done => ();
        clone_image(source: &str, target: &str) -> ()
            = CloneImage { source: source.to_owned(), target: target.to_owned() }, PoolReply::Done => ();
        clone_images(copies: &[(String, String)]) -> () = CloneImages { copies: copies.to_vec() }, PoolReply::Done => ();
        clone_directory(source: &str, target: &str) -> ()
            = CloneDirectory { source: source.to_owned(), target: target.to_owned() }, PoolReply::Done => ();
        rename(source: &str, target: &str) -> () = Rename { source: source.to_owned(), target: target.to_owned() }, PoolReply::Done => ();
        set_permissions(path: &str, mode: u32, uid: Option<u32>, gid: Option<u32>) -> ()
            = SetPermissions { path: path.to_owned(), mode: mode, uid: uid, gid: gid }, PoolReply::Done => ();
        set_quota(path: &str, bytes: Option<u64>) -> bool
            = SetQuota { path: path.to_owned(), bytes: bytes }, PoolReply::Quota { enforced } => enforced;
        allocated_extents(path: &str, offset: u64, limit: u32) -> pool::Extents
            = AllocatedExtents { path: path.to_owned(), offset: offset, limit: limit }, PoolReply::Extents(extents) => extents.convert();
        changed_extents(base: &str, target: &str, offset: u64, limit: u32) -> pool::Extents
            = ChangedExtents { base: base.to_owned(), target: target.to_owned(), offset: offset, limit: limit },
              PoolReply::Extents(extents) => extents.convert();
    }
}

/// Waits on a thread that the runtime has released.
fn wait<T>(work: impl Future<Output = T>) -> T {
    Handle::current().block_on(work)
}

fn of_store(error: StateError) -> Error {
    failed(error.code(), &error)
}

fn failed(code: Code, error: &impl Display) -> Error {
    let code: types::Code = code.convert();
    Error::new(code, error.to_string())
}

fn unexpected() -> Error {
    Error::internal("the mounter answered a pool call with an unexpected reply")
}
