//! The loaded components, by digest, and the backends that retain them: so that a rollback to a version costs only a table look-up.

use crate::error::EngineError;
use crate::exports::Exports;
use crate::invocation::Invocation;
use crate::names::bounded;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};
use wasmount_core::document::{DIGEST_PREFIX, Wasi};
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_sys::component::Checksum;
use wasmtime::component::{Component, InstancePre};

/// A component, its imports and exports, and its linked form once it was linked.
pub(crate) struct Resident {
    pub(crate) component: Component,
    /// `sha256:..` of its source bytes.
    pub(crate) digest: String,
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    /// Without and with all of WASI, in the order of [`Wasi`].
    linked: [OnceLock<Linked>; 2],
}

/// A component linked with its imports; shared by every version that is built from it.
#[derive(Clone)]
pub(crate) struct Linked {
    pub(crate) pre: InstancePre<Invocation>,
    pub(crate) exports: Exports,
}

/// All loaded components.
#[derive(Default)]
pub(crate) struct Residents {
    tables: Mutex<Tables<Arc<Resident>>>,
}

struct Tables<T> {
    loaded: HashMap<Checksum, T>,
    retained: HashMap<DriverName, HashSet<Checksum>>,
}

impl<T> Default for Tables<T> {
    fn default() -> Self {
        Self {
            loaded: HashMap::new(),
            retained: HashMap::new(),
        }
    }
}

impl Resident {
    pub(crate) fn new(
        engine: &wasmtime::Engine,
        key: &Checksum,
        component: Component,
    ) -> Result<Self, EngineError> {
        let ty = component.component_type();
        let imports = bounded(ty.imports(engine).map(|(name, _)| name))?;
        let exports = bounded(ty.exports(engine).map(|(name, _)| name))?;
        Ok(Self {
            component,
            digest: format!("{DIGEST_PREFIX}{}", hex::encode(key)),
            imports,
            exports,
            linked: Default::default(),
        })
    }

    /// Links it, unless it was linked before.
    pub(crate) fn linked(
        &self,
        wasi: Wasi,
        link: impl FnOnce(&Self) -> Result<Linked, EngineError>,
    ) -> Result<Linked, EngineError> {
        let [minimal, full] = &self.linked;
        let place = match wasi {
            Wasi::Minimal => minimal,
            Wasi::Full => full,
        };
        if let Some(linked) = place.get() {
            return Ok(linked.clone());
        }
        let linked = link(self)?;
        Ok(place.get_or_init(|| linked).clone())
    }
}

impl Residents {
    pub(crate) fn get(&self, key: &Checksum) -> Option<Arc<Resident>> {
        lock(&self.tables).loaded.get(key).cloned()
    }

    pub(crate) fn add(&self, key: Checksum, resident: &Arc<Resident>) {
        lock(&self.tables).loaded.insert(key, Arc::clone(resident));
    }

    /// Sets the components that `owner` retains; returns those that no backend retains any more, and unloads them.
    pub(crate) fn retain(&self, owner: &DriverName, keys: HashSet<Checksum>) -> Vec<Checksum> {
        let is_idle = |resident: &Arc<Resident>| Arc::strong_count(resident) == 1;
        lock(&self.tables).retain(owner, keys, is_idle)
    }
}

impl<T> Tables<T> {
    /// Candidates for removal are the components that this owner retained before, and loaded ones that are idle: those were rejected. Another backend
    /// may be about to retain a component that it has just loaded.
    fn retain(
        &mut self,
        owner: &DriverName,
        keys: HashSet<Checksum>,
        is_idle: impl Fn(&T) -> bool,
    ) -> Vec<Checksum> {
        let before = if keys.is_empty() {
            self.retained.remove(owner)
        } else {
            self.retained.insert(owner.clone(), keys)
        };
        let mut unused: HashSet<Checksum> = before.into_iter().flatten().collect();
        let idle = self.loaded.iter().filter(|(_, loaded)| is_idle(loaded));
        unused.extend(idle.map(|(key, _)| *key));
        unused.retain(|key| {
            !self
                .retained
                .values()
                .any(|retained| retained.contains(key))
        });
        for key in &unused {
            self.loaded.remove(key);
        }
        unused.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> DriverName {
        DriverName::parse(name).unwrap()
    }

    fn keys(numbers: &[u8]) -> HashSet<Checksum> {
        numbers.iter().map(|number| [*number; 32]).collect()
    }

    /// The loaded components, and whether they are idle.
    fn of(loaded: &[u8], idle: bool) -> Tables<bool> {
        let loaded = keys(loaded).into_iter().map(|key| (key, idle));
        Tables {
            loaded: loaded.collect(),
            ..Tables::default()
        }
    }

    fn gone(tables: &mut Tables<bool>, owner: &str, numbers: &[u8]) -> Vec<u8> {
        let gone = tables.retain(&name(owner), keys(numbers), |idle| *idle);
        let mut gone: Vec<u8> = gone.iter().map(|key| key[0]).collect();
        gone.sort_unstable();
        gone
    }

    fn loaded(tables: &Tables<bool>) -> Vec<u8> {
        let mut loaded: Vec<u8> = tables.loaded.keys().map(|key| key[0]).collect();
        loaded.sort_unstable();
        loaded
    }

    #[test]
    fn only_code_that_a_version_uses_stays() {
        let mut tables = of(&[1, 2, 3], false);
        assert_eq!(gone(&mut tables, "a", &[1, 2]), [0; 0]);
        assert_eq!(gone(&mut tables, "b", &[2, 3]), [0; 0]);
        assert_eq!(gone(&mut tables, "a", &[]), [1]);
        assert_eq!(loaded(&tables), [2, 3]);
        assert_eq!(gone(&mut tables, "b", &[3]), [2]);
        assert_eq!(loaded(&tables), [3]);
        assert_eq!(gone(&mut tables, "b", &[]), [3]);
        assert!(tables.retained.is_empty() && tables.loaded.is_empty());
    }

    #[test]
    fn fresh_unclaimed_code_stays() {
        let mut tables = of(&[9], false);
        assert_eq!(gone(&mut tables, "a", &[1]), [0; 0]);
        assert_eq!(gone(&mut tables, "a", &[]), [1]);
        assert_eq!(loaded(&tables), [9]);
    }

    #[test]
    fn rejected_code_is_dropped_at_the_next_request() {
        let mut tables = of(&[1, 9], true);
        assert_eq!(gone(&mut tables, "a", &[1]), [9]);
        assert_eq!(loaded(&tables), [1]);
    }
}
