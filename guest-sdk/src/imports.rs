//! Where the functions of the host come from: in a component from its imports, elsewhere from the fakes of [`crate::testing`]. Apart so
//! that no other file asks which it is; both sides have the same signatures, so a difference is a compile error on one of the two targets.

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::imports::wasmount::csi::{call, node_plan, pool, secrets, state};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::{call, node_plan, pool, secrets, state};
