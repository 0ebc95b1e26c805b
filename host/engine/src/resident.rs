//! Components that are loaded now, by digest, and who wants them kept: so that going back to a version costs a look into a table. Apart
//! because it is bookkeeping without effects of its own; several backends may want the same component, and each speaks for itself alone.

use crate::cache::hex;
use crate::load::DIGEST_PREFIX;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmount_core::names::DriverName;
use wasmount_sys::component::Checksum;
use wasmtime::component::Component;

/// A component and what can be seen of it without linking it.
pub(crate) struct Resident {
    pub(crate) component: Component,
    /// `sha256:..` of the bytes that it was made from.
    pub(crate) digest: String,
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Residents {
    tables: Mutex<Tables<Arc<Resident>>>,
}

struct Tables<T> {
    loaded: HashMap<Checksum, T>,
    wanted: HashMap<DriverName, HashSet<Checksum>>,
}

impl<T> Default for Tables<T> {
    fn default() -> Self {
        Self {
            loaded: HashMap::new(),
            wanted: HashMap::new(),
        }
    }
}

impl Resident {
    pub(crate) fn new(engine: &wasmtime::Engine, key: &Checksum, component: Component) -> Self {
        let ty = component.component_type();
        let imports = ty.imports(engine).map(|(name, _)| name.to_owned());
        let exports = ty.exports(engine).map(|(name, _)| name.to_owned());
        let (imports, exports) = (imports.collect(), exports.collect());
        Self {
            component,
            digest: format!("{DIGEST_PREFIX}{}", hex(key)),
            imports,
            exports,
        }
    }
}

impl Residents {
    pub(crate) fn get(&self, key: &Checksum) -> Option<Arc<Resident>> {
        self.tables().loaded.get(key).cloned()
    }

    pub(crate) fn add(&self, key: Checksum, resident: &Arc<Resident>) {
        self.tables().loaded.insert(key, Arc::clone(resident));
    }

    /// Says what `owner` wants kept from now on; gives what nobody wants any more, which is not loaded any more.
    pub(crate) fn retain(&self, owner: &DriverName, keys: HashSet<Checksum>) -> Vec<Checksum> {
        self.tables().retain(owner, keys)
    }

    fn tables(&self) -> MutexGuard<'_, Tables<Arc<Resident>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Tables<T> {
    /// Only what this owner wanted before can go: what another has just loaded, it may want in a moment.
    fn retain(&mut self, owner: &DriverName, keys: HashSet<Checksum>) -> Vec<Checksum> {
        let before = if keys.is_empty() {
            self.wanted.remove(owner)
        } else {
            self.wanted.insert(owner.clone(), keys)
        };
        let mut unwanted: Vec<Checksum> = before.into_iter().flatten().collect();
        unwanted.retain(|key| !self.wanted.values().any(|wanted| wanted.contains(key)));
        for key in &unwanted {
            self.loaded.remove(key);
        }
        unwanted
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

    fn gone(tables: &mut Tables<()>, owner: &str, numbers: &[u8]) -> Vec<u8> {
        let gone = tables.retain(&name(owner), keys(numbers));
        let mut gone: Vec<u8> = gone.iter().map(|key| key[0]).collect();
        gone.sort_unstable();
        gone
    }

    fn loaded(tables: &Tables<()>) -> Vec<u8> {
        let mut loaded: Vec<u8> = tables.loaded.keys().map(|key| key[0]).collect();
        loaded.sort_unstable();
        loaded
    }

    #[test]
    fn what_nobody_wants_any_more_goes_and_what_another_wants_stays() {
        let mut tables = Tables {
            loaded: keys(&[1, 2, 3]).into_iter().map(|key| (key, ())).collect(),
            ..Tables::default()
        };
        assert_eq!(gone(&mut tables, "a", &[1, 2]), [0; 0]);
        assert_eq!(gone(&mut tables, "b", &[2, 3]), [0; 0]);
        assert_eq!(gone(&mut tables, "a", &[]), [1]);
        assert_eq!(loaded(&tables), [2, 3]);
        assert_eq!(gone(&mut tables, "b", &[3]), [2]);
        assert_eq!(loaded(&tables), [3]);
        assert_eq!(gone(&mut tables, "b", &[]), [3]);
        assert!(tables.wanted.is_empty() && tables.loaded.is_empty());
    }

    #[test]
    fn what_nobody_has_claimed_yet_stays() {
        let mut tables = Tables {
            loaded: keys(&[9]).into_iter().map(|key| (key, ())).collect(),
            ..Tables::default()
        };
        assert_eq!(gone(&mut tables, "a", &[1]), [0; 0]);
        assert_eq!(gone(&mut tables, "a", &[]), [1]);
        assert_eq!(loaded(&tables), [9]);
    }
}
