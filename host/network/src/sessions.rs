//! What the logins of a plugin yielded, for the interface `session` of the contract: in the memory of this process only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};
use wasmount_core::mutex::lock;
use zeroize::Zeroizing;

/// Most keys of a version: one session each with the systems of a site.
const KEYS_MAX: usize = 256;
/// Longest key in bytes.
const KEY_BYTES: usize = 256;
/// Longest value in bytes: cookies and tokens, not data.
const VALUE_BYTES: usize = 64 << 10;

/// Why a value cannot be kept or found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The key is too long.
    #[error("the key of a session has more than {KEY_BYTES} bytes")]
    KeyTooLong,
    /// The value is too large.
    #[error("the value of a session has more than {VALUE_BYTES} bytes")]
    ValueTooLarge,
    /// There are too many keys.
    #[error("more than {KEYS_MAX} sessions are kept; use fewer keys")]
    TooManyKeys,
    /// Another call logs in and has not finished.
    #[error("another call logs in and was not ready in time")]
    Waiting,
}

/// What is known of a session.
pub enum SessionFound {
    /// Its value.
    Value(Zeroizing<Vec<u8>>),
    /// The caller is the one to log in.
    Yours(Lease),
}

/// The right to log in. When it is dropped without a value, the next caller gets it.
pub struct Lease {
    slot: Arc<Slot>,
    _turn: OwnedMutexGuard<()>,
}

/// The sessions of one version of a backend.
#[derive(Default)]
pub struct SessionStore(Mutex<BTreeMap<String, Arc<Slot>>>);

#[derive(Default)]
struct Slot {
    value: Mutex<Option<(Zeroizing<Vec<u8>>, Instant)>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl SessionStore {
    /// The value of a key, or the right to make one; while another caller makes one, waits until the deadline.
    pub async fn get(&self, key: &str, deadline: Instant) -> Result<SessionFound, SessionError> {
        let slot = self.slot(key)?;
        if let Some(value) = slot.value() {
            return Ok(SessionFound::Value(value));
        }
        let turn = timeout_at(deadline, Arc::clone(&slot.turn).lock_owned()).await;
        let _turn = turn.map_err(|_| SessionError::Waiting)?;
        Ok(match slot.value() {
            Some(value) => SessionFound::Value(value),
            None => SessionFound::Yours(Lease { slot, _turn }),
        })
    }

    /// The values that are texts.
    pub(crate) fn texts(&self) -> Vec<Zeroizing<String>> {
        let slots = lock(&self.0);
        let values = slots.values().filter_map(|slot| slot.value());
        values
            .filter_map(|value| Some(Zeroizing::new(str::from_utf8(&value).ok()?.to_owned())))
            .collect()
    }

    /// Forgets a value that the system refused; one that replaced it stays.
    pub fn invalidate(&self, key: &str, value: &[u8]) {
        let slot = lock(&self.0).get(key).cloned();
        if let Some(slot) = slot {
            lock(&slot.value).take_if(|(known, _)| known.as_slice() == value);
        }
    }

    fn slot(&self, key: &str) -> Result<Arc<Slot>, SessionError> {
        if key.len() > KEY_BYTES {
            return Err(SessionError::KeyTooLong);
        }
        let mut slots = lock(&self.0);
        if let Some(slot) = slots.get(key) {
            return Ok(Arc::clone(slot));
        }
        if slots.len() >= KEYS_MAX {
            // Slots that no call uses and that have no value any more.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.value().is_some());
        }
        if slots.len() >= KEYS_MAX {
            return Err(SessionError::TooManyKeys);
        }
        Ok(Arc::clone(slots.entry(key.to_owned()).or_default()))
    }
}

impl Slot {
    fn value(&self) -> Option<Zeroizing<Vec<u8>>> {
        let mut value = lock(&self.value);
        value.take_if(|(_, until)| *until <= Instant::now());
        value.as_ref().map(|(value, _)| value.clone())
    }
}

impl Lease {
    /// Keeps the value for the next callers, for this long.
    pub fn keep(self, value: Vec<u8>, lasts: Duration) -> Result<(), SessionError> {
        let value = Zeroizing::new(value);
        if value.len() > VALUE_BYTES {
            return Err(SessionError::ValueTooLarge);
        }
        *lock(&self.slot.value) = Some((value, Instant::now() + lasts));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn lease(store: &SessionStore, key: &str) -> Lease {
        match store.get(key, Instant::now() + LONG).await.unwrap() {
            SessionFound::Yours(lease) => lease,
            SessionFound::Value(_) => panic!("there is a value"),
        }
    }

    async fn value(store: &SessionStore, key: &str) -> Option<Vec<u8>> {
        match store.get(key, Instant::now() + LONG).await.unwrap() {
            SessionFound::Yours(_) => None,
            SessionFound::Value(value) => Some(value.to_vec()),
        }
    }

    #[tokio::test]
    async fn one_caller_logs_in_and_the_others_get_its_value() {
        let store = Arc::new(SessionStore::default());
        let first = lease(&store, "a").await;
        let others: Vec<_> = (0..100)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { value(&store, "a").await })
            })
            .collect();
        let late = store.get("a", Instant::now()).await;
        assert!(matches!(late, Err(SessionError::Waiting)));
        first.keep(b"token".to_vec(), LONG).unwrap();
        for other in others {
            assert_eq!(other.await.unwrap().as_deref(), Some(&b"token"[..]));
        }
        assert_eq!(value(&store, "b").await, None);
    }

    #[tokio::test]
    async fn a_lease_without_value_passes_to_the_next_caller() {
        let store = SessionStore::default();
        drop(lease(&store, "a").await);
        lease(&store, "a").await.keep(b"1".to_vec(), LONG).unwrap();
        store.invalidate("a", b"other");
        assert_eq!(value(&store, "a").await.as_deref(), Some(&b"1"[..]));
        store.invalidate("a", b"1");
        assert_eq!(value(&store, "a").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_ends_with_its_time() {
        let store = SessionStore::default();
        let held = lease(&store, "a").await;
        held.keep(b"1".to_vec(), Duration::from_secs(5)).unwrap();
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(value(&store, "a").await.is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(value(&store, "a").await, None);
    }

    #[tokio::test]
    async fn keys_and_values_are_bounded() {
        let store = SessionStore::default();
        let long = "k".repeat(KEY_BYTES + 1);
        let refused = store.get(&long, Instant::now() + LONG).await;
        assert!(matches!(refused, Err(SessionError::KeyTooLong)));
        let large = vec![0; VALUE_BYTES + 1];
        let refused = lease(&store, "a").await.keep(large, LONG);
        assert_eq!(refused, Err(SessionError::ValueTooLarge));
        for number in 0..KEYS_MAX {
            let held = lease(&store, &number.to_string()).await;
            held.keep(b"1".to_vec(), LONG).unwrap();
        }
        let refused = store.get("more", Instant::now() + LONG).await;
        assert!(matches!(refused, Err(SessionError::TooManyKeys)));
        // What has ended makes room.
        store.invalidate("7", b"1");
        assert_eq!(value(&store, "more").await, None);
    }
}
