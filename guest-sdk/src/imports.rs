//! Where the functions of the host come from: in a component from its imports, elsewhere from the fakes of [`crate::testing`].

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::imports::wasmount::csi::{call, node_plan, pool, secrets, state};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::{call, node_plan, pool, secrets, state};
