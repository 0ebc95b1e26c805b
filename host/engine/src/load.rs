//! Loads components: from the cache, or compiled and mapped from the cache.

use crate::cache::{Cache, parse_hex};
use crate::compile::Compile;
use crate::error::EngineError;
use crate::resident::{Resident, Residents};
use crate::settings::Target;
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};
use sha2::{Digest, Sha256};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use wasmount_core::document::DIGEST_PREFIX;
use wasmount_core::mutex::lock;
use wasmount_sys::component::{Checksum, map_component};
use wasmtime::Engine;
use wasmtime::component::Component;

/// One compiler at a time for this many processors: compilers take CPU time from calls.
const PROCESSORS_OF_A_COMPILER: usize = 2;
/// At least this many: a component that takes minutes must not block all others.
const COMPILERS_MIN: usize = 2;
/// At most this many, because of their memory.
const COMPILERS_MAX: usize = 4;

/// Number of remembered failures: more than any host has backends, and few enough for a linear search.
const REMEMBERED: usize = 64;

/// Loads compiled code.
pub(crate) struct Loader {
    pub(crate) engine: Engine,
    pub(crate) target: Target,
    pub(crate) cache: Option<Cache>,
    pub(crate) compiler: Arc<dyn Compile>,
    pub(crate) residents: Residents,
    refused: Refused,
    compilers: Semaphore,
    /// How often a component was compiled, successfully or not, and how long that took.
    pub(crate) compilations: Mutex<(u64, Duration)>,
}

impl Loader {
    pub(crate) fn new(
        engine: Engine,
        target: Target,
        cache: Option<Cache>,
        compiler: Arc<dyn Compile>,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let compilers = processors / PROCESSORS_OF_A_COMPILER;
        Self {
            engine,
            target,
            cache,
            compiler,
            residents: Residents::default(),
            refused: Refused::default(),
            compilers: Semaphore::new(compilers.clamp(COMPILERS_MIN, COMPILERS_MAX)),
            compilations: Mutex::default(),
        }
    }

    /// Finds or compiles a component of this digest.
    pub(crate) async fn load(
        self: &Arc<Self>,
        key: Checksum,
        wasm: &[u8],
    ) -> Result<Arc<Resident>, EngineError> {
        if let Some(resident) = self.find(key).await? {
            return Ok(resident);
        }
        let _turn = self.compilers.acquire().await;
        // The previous holder of the permit may have compiled the same component, or tried.
        if let Some(resident) = self.find(key).await? {
            return Ok(resident);
        }
        let code = self.compile(key, wasm).await?;
        // In one blocking step: code on disk is registered, so that it is removed even if the caller has gone meanwhile.
        self.blocking(move |loader| {
            let component = loader.keep_and_map(&key, &code)?;
            loader.reside(key, component)
        })
        .await?
    }

    async fn compile(&self, key: Checksum, wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
        if let Some(reason) = self.refused.reason(&key) {
            return Err(EngineError::Compile(reason));
        }
        let began = Instant::now();
        let compiled = self.compiler.compile(self.target, wasm).await;
        let (count, time) = &mut *lock(&self.compilations);
        *count += 1;
        *time += began.elapsed();
        if let Err(EngineError::Compile(reason)) = &compiled {
            self.refused.remember(key, reason);
        }
        compiled
    }

    /// The loaded component, or its code in the cache.
    pub(crate) async fn find(
        self: &Arc<Self>,
        key: Checksum,
    ) -> Result<Option<Arc<Resident>>, EngineError> {
        if let Some(resident) = self.residents.get(&key) {
            return Ok(Some(resident));
        }
        let found = self.blocking(move |loader| {
            let cache = loader.cache.as_ref();
            let component = cache.and_then(|cache| cache.get(&loader.engine, &key))?;
            share_images(&component);
            Some(loader.reside(key, component))
        });
        found.await?.transpose()
    }

    /// Registers a component, so that it is found, and removed when no backend retains it. One whose names exceed a limit is removed.
    fn reside(&self, key: Checksum, component: Component) -> Result<Arc<Resident>, EngineError> {
        match Resident::new(&self.engine, &key, component) {
            Ok(resident) => {
                let resident = Arc::new(resident);
                self.residents.add(key, &resident);
                Ok(resident)
            }
            Err(error) => {
                self.remove(&key);
                Err(error)
            }
        }
    }

    fn remove(&self, key: &Checksum) {
        if let Some(Err(error)) = self.cache.as_ref().map(|cache| cache.remove(key)) {
            tracing::warn!(%error, "an unused compiled component stays in the cache");
        }
    }

    /// Removes components from the cache. A component that cannot be removed only occupies disk space.
    pub(crate) async fn forget(self: &Arc<Self>, keys: Vec<Checksum>) {
        let forgotten = self.blocking(move |loader| {
            for key in &keys {
                loader.remove(key);
            }
        });
        let _ = forgotten.await;
    }

    /// Removes all other components from the cache.
    pub(crate) async fn retain(self: &Arc<Self>, keep: HashSet<Checksum>) {
        let retained = self.blocking(move |loader| {
            match loader.cache.as_ref().map(|cache| cache.retain(&keep)) {
                None | Some(Ok(0)) => {}
                Some(Ok(files)) => {
                    tracing::info!(files, "removed compiled components that no backend claims any more");
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "compiled components that no backend claims any more stay in the cache");
                }
            }
        });
        let _ = retained.await;
    }

    fn keep_and_map(&self, key: &Checksum, code: &[u8]) -> Result<Component, EngineError> {
        let kept = self.cache.as_ref().and_then(|cache| {
            if let Err(error) = cache.put(key, code) {
                tracing::warn!(%error, "the compiled component is not kept: the next start compiles again");
                return None;
            }
            cache.get(&self.engine, key)
        });
        let component = match kept {
            Some(component) => component,
            None => map_unkept(&self.engine, code)?,
        };
        share_images(&component);
        Ok(component)
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let loader = Arc::clone(self);
        spawn_blocking(move || work(&loader))
            .await
            .map_err(|_| EngineError::Lost)
    }
}

/// Components that did not compile, each with its reason: another attempt would fail in the same way, after the same minutes.
#[derive(Debug, Default)]
struct Refused {
    last: Mutex<VecDeque<(Checksum, String)>>,
}

impl Refused {
    /// Why it did not compile.
    fn reason(&self, key: &Checksum) -> Option<String> {
        let last = lock(&self.last);
        let found = last.iter().find(|(refused, _)| refused == key);
        found.map(|(_, reason)| reason.clone())
    }

    /// Drops the oldest entry above the limit.
    fn remember(&self, key: Checksum, reason: &str) {
        let mut last = lock(&self.last);
        last.push_back((key, reason.to_owned()));
        if last.len() > REMEMBERED {
            last.pop_front();
        }
    }
}

/// The key of a component.
pub(crate) fn key(wasm: &[u8]) -> Checksum {
    Sha256::digest(wasm).into()
}

/// The key of a digest as [`crate::LoadedComponent::digest`] writes it.
pub(crate) fn key_of_digest(digest: &str) -> Option<Checksum> {
    parse_hex(digest.strip_prefix(DIGEST_PREFIX)?)
}

/// Otherwise the first call would bear the cost.
fn share_images(component: &Component) {
    if let Err(error) = component.initialize_copy_on_write_image() {
        tracing::warn!(
            error = format!("{error:#}"),
            "memory images cannot be shared: instances start more slowly"
        );
    }
}

/// Maps code without a cache: from a memory file that is sealed against writes.
fn map_unkept(engine: &Engine, code: &[u8]) -> Result<Component, EngineError> {
    let not_mapped = |error: &dyn std::fmt::Display| {
        EngineError::NotCompiled(format!("its code cannot be mapped: {error}"))
    };
    let mut file = sealed(code).map_err(|error| not_mapped(&error))?;
    map_component(engine, &mut file, &key(code)).map_err(|error| not_mapped(&error))
}

fn sealed(code: &[u8]) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("compiled", flags)?);
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    file.write_all(code)?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::compile;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn code_is_mapped_without_a_cache_and_only_for_its_engine() {
        let engine = crate::settings::compiler(Target::Pooled).unwrap();
        let code = compile(Target::Pooled, COMPONENT).unwrap();
        assert!(map_unkept(&engine, &code).is_ok());
        let other = crate::settings::compiler(Target::Unpooled).unwrap();
        assert!(map_unkept(&other, &code).is_err());
        assert!(map_unkept(&engine, COMPONENT).is_err());
    }

    #[test]
    fn a_digest_and_its_key_are_one() {
        let digest = format!("{DIGEST_PREFIX}{}", hex::encode(key(COMPONENT)));
        assert_eq!(key_of_digest(&digest), Some(key(COMPONENT)));
        for other in ["", "sha256:", "sha512:00", &digest[..70]] {
            assert_eq!(key_of_digest(other), None, "{other}");
        }
    }

    #[test]
    fn the_last_refusals_are_remembered_and_older_ones_forgotten() {
        let refused = Refused::default();
        for number in 0..=64 {
            refused.remember([number; 32], &number.to_string());
        }
        assert_eq!(refused.reason(&[0; 32]), None);
        assert_eq!(refused.reason(&[1; 32]).unwrap(), "1");
        assert_eq!(refused.reason(&[64; 32]).unwrap(), "64");
    }
}
