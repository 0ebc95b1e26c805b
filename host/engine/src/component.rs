//! The steps from a component to a backend: load, link with a trial load, admit.

use crate::backend::WasmBackend;
use crate::engine::Engine;
use crate::error::{EngineError, describe};
use crate::exports::Exports;
use crate::function::{CHECK_SETTINGS, GET_PLUGIN_INFO, PROBE};
use crate::gate::Gate;
use crate::guest_call::{GuestCall, call_guest};
use crate::invocation::BackendParts;
use crate::limits::SharedMemory;
use crate::load::{key, key_of_digest};
use crate::program::{PluginInfo, Program};
use crate::resident::{Linked, Resident};
use std::sync::Arc;
use wasmount_core::backend::{BackendError, PluginLabel};
use wasmount_core::call::Call;
use wasmount_core::document::Wasi;
use wasmount_core::services::{Feature, Service, ServiceSet};

/// The version in errors of a plugin that has not returned its own yet.
const UNKNOWN_VERSION: &str = "of unknown version";

/// Compiled, not linked: its imports and exports can be inspected.
pub struct LoadedComponent {
    engine: Arc<Engine>,
    resident: Arc<Resident>,
    wasi: Wasi,
}

/// Linked and trial-loaded: it can be called for its identity.
pub struct Candidate {
    program: Program,
}

impl Engine {
    /// Compiles a component, or finds its compiled code. `wasm` is WebAssembly, never machine code.
    pub async fn load(self: &Arc<Self>, wasm: Vec<u8>) -> Result<LoadedComponent, EngineError> {
        let hashed = tokio::task::spawn_blocking(move || (key(&wasm), wasm));
        let (key, wasm) = hashed.await.map_err(|_| EngineError::Lost)?;
        let resident = self.loader.load(key, &wasm).await?;
        Ok(LoadedComponent::new(Arc::clone(self), resident))
    }

    /// The component of a digest that was compiled before, without its bytes: a loaded one is found in microseconds, one of the cache is mapped
    /// again. None: its bytes are needed. It was admitted earlier; the caller must ensure that it may serve.
    pub async fn load_compiled(self: &Arc<Self>, digest: &str) -> Option<LoadedComponent> {
        let key = key_of_digest(digest)?;
        let resident = self.loader.find(key).await.ok().flatten()?;
        Some(LoadedComponent::new(Arc::clone(self), resident))
    }
}

impl LoadedComponent {
    fn new(engine: Arc<Engine>, resident: Arc<Resident>) -> Self {
        Self {
            engine,
            resident,
            wasi: Wasi::default(),
        }
    }

    /// Selects the part of WASI that it is linked with.
    pub fn with_wasi(self, wasi: Wasi) -> Self {
        Self { wasi, ..self }
    }

    /// `sha256:..` of its bytes.
    pub fn digest(&self) -> &str {
        &self.resident.digest
    }

    /// Names of its imports, such as `wasmount:csi/state@0.1.0`.
    pub fn imports(&self) -> &[String] {
        &self.resident.imports
    }

    /// Names of its exports.
    pub fn exports(&self) -> &[String] {
        &self.resident.exports
    }

    /// Links it, starts one instance, and loads every known export: this verifies that its exports have the types of the contract.
    pub async fn prepare(
        &self,
        parts: BackendParts,
        call: &Call,
    ) -> Result<Candidate, EngineError> {
        self.check_slot_size(&parts)?;
        let Linked { pre, exports } = self.resident.linked(self.wasi, |resident| {
            let linker = self.engine.linkers.with(self.wasi);
            let pre = linker
                .instantiate_pre(&resident.component)
                .map_err(|error| EngineError::Link(describe(&error)))?;
            let exports = Exports::find(&pre, &resident.exports)?;
            Ok(Linked { pre, exports })
        })?;
        if exports.identity.is_none() {
            return Err(EngineError::NoIdentity);
        }
        let label = PluginLabel {
            name: format!("for {}", parts.driver),
            version: UNKNOWN_VERSION.to_owned(),
            digest: self.resident.digest.clone(),
        };
        let program = Program {
            _in_use: Arc::clone(&self.resident),
            pre,
            exports,
            gate: Gate::new(parts.limits.concurrency),
            memory: Arc::new(SharedMemory::new(&parts.limits)),
            rate: Arc::default(),
            engine: Arc::clone(&self.engine),
            parts: Arc::new(parts),
            label,
        };
        trial_load(&program, call).await?;
        Ok(Candidate { program })
    }

    /// The slots of the pool have one size, fixed at the start of the host.
    fn check_slot_size(&self, parts: &BackendParts) -> Result<(), EngineError> {
        let Some(slot) = self.engine.slot else {
            return Ok(());
        };
        let count = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let (memory, table) = (parts.limits.memory_bytes, parts.limits.table_elements);
        within_slot("memory", memory, count(slot.memory_bytes))?;
        within_slot("tableElements", count(table), count(slot.table_elements))
    }
}

impl Candidate {
    /// The services that it exports.
    pub fn services(&self) -> Vec<Service> {
        self.program.exports.services()
    }

    /// Its name, version and digest, as far as known.
    pub fn label(&self) -> &PluginLabel {
        &self.program.label
    }

    /// Calls `get-plugin-info`.
    pub async fn plugin_info(&self, call: &Call) -> Result<PluginInfo, BackendError> {
        // The only export that cannot return an error.
        call_guest!(self, call, GET_PLUGIN_INFO => identity.call_get_plugin_info(), Ok)?
            .check(|checker, info| checker.plugin_info(info))
    }

    /// Calls `check-settings`; returns warnings for the administrator.
    pub async fn check_settings(&self, call: &Call) -> Result<Vec<String>, BackendError> {
        call_guest!(self, call, CHECK_SETTINGS => identity.call_check_settings())?
            .check(|checker, warnings| Ok(checker.warnings(&warnings)))
    }

    /// Calls `probe`.
    pub async fn probe(&self, call: &Call) -> Result<bool, BackendError> {
        call_guest!(self, call, PROBE => identity.call_probe())?.check(|_, ready| Ok(ready))
    }

    /// Sets its name and version from its answer, so that its faults are reported under that name.
    pub fn named(mut self, info: &PluginInfo) -> Self {
        let PluginLabel { name, version, .. } = &mut self.program.label;
        *name = info.name.to_string();
        *version = info.version.clone();
        self
    }

    /// Converts it into a backend. `features` are those of `info` that this host knows.
    pub fn into_backend(
        self,
        info: PluginInfo,
        features: impl IntoIterator<Item = Feature>,
    ) -> WasmBackend {
        let candidate = self.named(&info);
        WasmBackend {
            offer: ServiceSet::new(candidate.services(), features),
            program: candidate.program,
            manifest: info.manifest,
        }
    }
}

fn within_slot(key: &'static str, requested: u64, most: u64) -> Result<(), EngineError> {
    if requested > most {
        return Err(EngineError::LimitTooHigh {
            key,
            requested,
            most,
        });
    }
    Ok(())
}

/// Starts one instance and loads every export from it.
async fn trial_load(program: &Program, call: &Call) -> Result<(), EngineError> {
    let instantiate = |error: BackendError| EngineError::Instantiate(error.to_string());
    let mut guest_call = GuestCall::open(program, call, GET_PLUGIN_INFO)
        .await
        .map_err(instantiate)?;
    let proved = program
        .exports
        .prove(&mut guest_call.store, &guest_call.instance);
    guest_call.close(Ok(Ok(()))).await.map_err(instantiate)?;
    proved
}
