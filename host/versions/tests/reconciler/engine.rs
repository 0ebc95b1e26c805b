//! The engine of all tests of this program.

use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use wasmount_core::document::Limits;
use wasmount_engine::{Compile, Engine, EngineError, EngineOptions, InProcess, Target};

/// A compiler that remembers its results: the engine removes compiled code with its last backend, and the next test has the same components.
#[derive(Debug, Default)]
struct Remembering {
    code: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

#[async_trait]
impl Compile for Remembering {
    async fn compile(&self, target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
        let known = self.code.lock().unwrap().get(wasm).cloned();
        if let Some(code) = known {
            return Ok(code);
        }
        let code = InProcess.compile(target, wasm).await?;
        let mut all = self.code.lock().unwrap();
        all.insert(wasm.to_owned(), code.clone());
        Ok(code)
    }
}

/// One engine for all tests, and so one target of its compiler.
pub(crate) fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<(Arc<Engine>, tempfile::TempDir)> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().unwrap();
        let cache = Some(folder.path().join("cache"));
        let options = EngineOptions {
            compiler: Arc::new(Remembering::default()),
            ..EngineOptions::for_backends(cache, [&Limits::default()])
        };
        (Engine::new(options).unwrap(), folder)
    };
    &ENGINE.get_or_init(make).0
}
