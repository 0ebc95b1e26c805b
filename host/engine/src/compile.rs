//! Compiles a component to machine code: the pure function, and the trait by which it may run in another process. A serving host uses a confined
//! child process (`wasmount_child`).
//!
//! The host executes the resulting machine code, so it must come from this same program and be passed only to the host: see `cache` and
//! `wasmount_sys::component`.

use crate::error::{EngineError, describe};
use crate::settings::{self, Target};
use async_trait::async_trait;
use std::fmt;

/// Compiles components to machine code.
#[async_trait]
pub trait Compile: fmt::Debug + Send + Sync + 'static {
    /// The result of [`compile`] for these bytes. Concurrent calls are limited by the engine.
    async fn compile(&self, target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError>;
}

/// Compiles in this process, on a blocking thread: for tests and tools, where a crash of the compiler loses nothing else.
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

/// Compiles a component. It blocks, for seconds with a large one. Only WebAssembly is accepted: wasmtime's parser rejects machine code.
pub fn compile(target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
    settings::compiler(target)?
        .precompile_component(wasm)
        .map_err(|error| EngineError::Compile(describe(&error)))
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
