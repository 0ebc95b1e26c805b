//! From bytes to a component: found in the cache or compiled. Apart because it is the one place of this crate that blocks; all of it runs in
//! one task on a blocking thread.

use crate::cache::{Cache, hex};
use crate::error::EngineError;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use wasmount_sys::component::Checksum;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Machine code, ready to be linked.
pub(crate) struct Loaded {
    pub(crate) component: Component,
    /// `sha256:..` of the bytes that it was made from.
    pub(crate) digest: String,
    pub(crate) from_cache: bool,
}

/// Finds or compiles a component. Only WebAssembly is taken: machine code from outside is refused by wasmtime's parser.
pub(crate) async fn load(
    engine: Engine,
    cache: Option<Arc<Cache>>,
    wasm: Vec<u8>,
) -> Result<Loaded, EngineError> {
    tokio::task::spawn_blocking(move || load_blocking(&engine, cache.as_deref(), &wasm))
        .await
        .map_err(|_| EngineError::Lost)?
}

fn load_blocking(
    engine: &Engine,
    cache: Option<&Cache>,
    wasm: &[u8],
) -> Result<Loaded, EngineError> {
    let key: Checksum = Sha256::digest(wasm).into();
    let cached = cache.and_then(|cache| cache.get(engine, &key));
    let from_cache = cached.is_some();
    let component = match cached {
        Some(component) => component,
        None => compile(engine, cache, &key, wasm)?,
    };
    // Else the first call would pay for it.
    if let Err(error) = component.initialize_copy_on_write_image() {
        tracing::warn!(
            error = format!("{error:#}"),
            "memory images cannot be shared: instances start more slowly"
        );
    }
    Ok(Loaded {
        component,
        digest: format!("sha256:{}", hex(&key)),
        from_cache,
    })
}

fn compile(
    engine: &Engine,
    cache: Option<&Cache>,
    key: &Checksum,
    wasm: &[u8],
) -> Result<Component, EngineError> {
    let component = Component::from_binary(engine, wasm)
        .map_err(|error| EngineError::Compile(format!("{error:#}")))?;
    if let Some(Err(error)) = cache.map(|cache| cache.put(key, &component)) {
        tracing::warn!(
            error = format!("{error:#}"),
            "the compiled component is not kept: the next start compiles again"
        );
    }
    Ok(component)
}
