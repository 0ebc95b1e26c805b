//! From a component to machine code: the pure step, and the trait behind which it may run in another process. A host that serves uses a confined
//! process (`wasmount_child`).
//!
//! What comes back is machine code that the host will run, so it must come from this very program and go only to the host: see
//! `cache` and `wasmount_sys::component`.

use crate::error::{EngineError, words};
use crate::settings::{self, Target};
use async_trait::async_trait;
use std::fmt;

/// Makes machine code of components.
#[async_trait]
pub trait Compile: fmt::Debug + Send + Sync + 'static {
    /// What [`compile`] makes of these bytes. It is not called for two components at a time more often than the engine allows.
    async fn compile(&self, target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError>;
}

/// Compiles in this process, on a blocking thread: for tests and tools, where nothing else is lost if the compiler dies.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcess;

#[async_trait]
impl Compile for InProcess {
    async fn compile(&self, target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
        let wasm = wasm.to_owned();
        tokio::task::spawn_blocking(move || compile(target, &wasm))
            .await
            .map_err(|_| EngineError::Lost)?
    }
}

/// Compiles a component. It blocks, and takes seconds for a large one. Only WebAssembly is taken: machine code is refused by wasmtime's parser.
pub fn compile(target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
    settings::compiler(target)?
        .precompile_component(wasm)
        .map_err(|error| EngineError::Compile(words(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_compile_and_nothing_else_does() {
        let empty = b"\0asm\x0d\0\x01\0";
        let code = compile(Target::Pooled, empty).unwrap();
        assert!(code.starts_with(b"\x7fELF"));
        for other in [&b"\0asm\x01\0\0\0"[..], b"garbage", &code] {
            let refused = compile(Target::Pooled, other);
            assert!(
                matches!(refused, Err(EngineError::Compile(_))),
                "{refused:?}"
            );
        }
    }
}
