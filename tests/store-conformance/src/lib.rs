//! The conformance test of state stores, as one function over the trait. The store must be empty; files are not examined.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it is a test, and may end where it fails"
)]

use std::sync::Arc;
use wasmount_core::names::DriverName;
use wasmount_core::state::{
    Expect, Keyspace, KeyspaceOwner, Outcome, STATE_KEY_BYTES, STATE_SCAN_ENTRIES,
    STATE_VALUE_BYTES, StateEntry, StateError, StateStore, StateWrite, record_bytes,
};

/// The backend keyspace of a driver.
pub fn space(driver: &str) -> Keyspace {
    Keyspace {
        driver: DriverName::parse(driver).unwrap(),
        owner: KeyspaceOwner::Backend,
    }
}

/// Checks a store against all rules.
pub async fn conforms(store: Arc<dyn StateStore>) {
    a_value_comes_back_as_it_was_put(&*store).await;
    a_revision_grows_with_every_change_of_a_key(&*store).await;
    a_write_happens_only_as_expected(&*store).await;
    a_removal_of_nothing_is_done(&*store).await;
    keyspaces_never_meet(&*store).await;
    a_scan_goes_in_key_order_page_by_page(&*store).await;
    a_scan_answer_is_bounded(&*store).await;
    limits_are_kept(&*store).await;
    the_size_of_a_space_is_that_of_its_records(&*store).await;
    several_writes_are_one(&*store).await;
    of_many_callers_one_wins(&store).await;
}

/// Writes are atomic if the store supports that; if it says that it does not, nothing is changed.
async fn several_writes_are_one(store: &dyn StateStore) {
    let (one, other) = (space("several"), space("several-others"));
    done(store, &one, "gone", "1").await;
    let write = |space: &Keyspace, key: &str, value: Option<&str>| StateWrite {
        space: space.clone(),
        key: key.to_owned(),
        value: value.map(|value| value.as_bytes().to_owned()),
    };
    let writes = vec![
        write(&one, "new", Some("2")),
        write(&one, "gone", None),
        write(&other, "new", Some("3")),
        write(&other, "absent", None),
    ];
    let applied = store.apply(writes).await;
    let value = async |space: &Keyspace, key: &str| {
        let entry = store.get(space, key).await.unwrap();
        entry.map(|entry| String::from_utf8(entry.value).unwrap())
    };
    let there = [
        value(&one, "new").await,
        value(&one, "gone").await,
        value(&other, "new").await,
    ];
    if store.has_transactions() {
        applied.unwrap();
        assert_eq!(there, [Some("2".to_owned()), None, Some("3".to_owned())]);
        let too_long = "k".repeat(STATE_KEY_BYTES + 1);
        let writes = vec![write(&one, "new", None), write(&one, &too_long, Some("1"))];
        let refused = store.apply(writes).await;
        assert!(matches!(refused, Err(StateError::TooLarge { .. })));
        assert_eq!(value(&one, "new").await.as_deref(), Some("2"));
    } else {
        assert!(matches!(applied, Err(StateError::NoTransactions)));
        assert_eq!(there, [None, Some("1".to_owned()), None]);
    }
}

async fn the_size_of_a_space_is_that_of_its_records(store: &dyn StateStore) {
    let space = space("sizes");
    assert_eq!(store.size(&space).await.unwrap(), 0);
    done(store, &space, "k", "1234").await;
    done(store, &space, "other", "").await;
    let (first, other) = (record_bytes("k", 4), record_bytes("other", 0));
    assert_eq!(store.size(&space).await.unwrap(), first + other);
    done(store, &space, "k", "1").await;
    assert!(store.size(&space).await.unwrap() >= record_bytes("k", 1) + other);
    store.sync().await.unwrap();
    let both = record_bytes("k", 1) + other;
    assert_eq!(store.size(&space).await.unwrap(), both);
    for key in ["k", "other", "absent"] {
        store.remove(&space, key, Expect::Any).await.unwrap();
    }
    store.sync().await.unwrap();
    assert_eq!(store.size(&space).await.unwrap(), 0);
}

async fn done(store: &dyn StateStore, space: &Keyspace, key: &str, value: &str) -> u64 {
    let put = store.put(space, key, value.into(), Expect::Any).await;
    match put.unwrap() {
        Outcome::Done(revision) => revision,
        conflict => panic!("{conflict:?}"),
    }
}

async fn keys(
    store: &dyn StateStore,
    space: &Keyspace,
    prefix: &str,
    after: Option<&str>,
    limit: u32,
) -> Vec<String> {
    let entries = store.scan(space, prefix, after, limit).await.unwrap();
    entries.into_iter().map(|entry| entry.key).collect()
}

async fn a_value_comes_back_as_it_was_put(store: &dyn StateStore) {
    let space = space("values");
    assert_eq!(store.get(&space, "k").await.unwrap(), None);
    let bytes = vec![0, 0xff, b'\n', 0x80];
    for (key, value) in [
        ("k", bytes),
        ("", b"empty key".to_vec()),
        ("ä\n/..", vec![]),
    ] {
        let put = store.put(&space, key, value.clone(), Expect::Any).await;
        let Outcome::Done(revision) = put.unwrap() else {
            panic!("conflict");
        };
        let entry = StateEntry {
            key: key.to_owned(),
            value,
            revision,
        };
        assert_eq!(store.get(&space, key).await.unwrap(), Some(entry.clone()));
        store.sync().await.unwrap();
        assert_eq!(store.get(&space, key).await.unwrap(), Some(entry));
    }
}

async fn a_revision_grows_with_every_change_of_a_key(store: &dyn StateStore) {
    let space = space("revisions");
    let first = done(store, &space, "k", "1").await;
    let second = done(store, &space, "k", "1").await;
    assert!(second > first);
    let removed = store.remove(&space, "k", Expect::Any).await.unwrap();
    assert_eq!(removed, Outcome::Done(second));
    store.sync().await.unwrap();
    assert!(done(store, &space, "k", "1").await > second);
}

async fn a_write_happens_only_as_expected(store: &dyn StateStore) {
    let space = space("expectations");
    let absent = store.put(&space, "k", b"1".to_vec(), Expect::Revision(1));
    assert_eq!(absent.await.unwrap(), Outcome::Conflict(None));
    let first = store.put(&space, "k", b"1".to_vec(), Expect::Absent).await;
    let Outcome::Done(revision) = first.unwrap() else {
        panic!("conflict");
    };
    let stored = Some(StateEntry {
        key: "k".to_owned(),
        value: b"1".to_vec(),
        revision,
    });
    for expect in [Expect::Absent, Expect::Revision(revision + 1)] {
        let put = store.put(&space, "k", b"2".to_vec(), expect).await;
        assert_eq!(put.unwrap(), Outcome::Conflict(stored.clone()));
        let remove = store.remove(&space, "k", expect).await;
        assert_eq!(remove.unwrap(), Outcome::Conflict(stored.clone()));
        assert_eq!(store.get(&space, "k").await.unwrap(), stored);
        // The same result once it is durable.
        store.sync().await.unwrap();
    }
    let removed = store.remove(&space, "k", Expect::Revision(revision)).await;
    assert_eq!(removed.unwrap(), Outcome::Done(revision));
    assert_eq!(store.get(&space, "k").await.unwrap(), None);
}

async fn a_removal_of_nothing_is_done(store: &dyn StateStore) {
    let space = space("removals");
    for expect in [Expect::Any, Expect::Absent] {
        let removed = store.remove(&space, "k", expect).await.unwrap();
        assert_eq!(removed, Outcome::Done(0));
    }
    let conflict = store
        .remove(&space, "k", Expect::Revision(1))
        .await
        .unwrap();
    assert_eq!(conflict, Outcome::Conflict(None));
}

async fn keyspaces_never_meet(store: &dyn StateStore) {
    let backend = space("spaces");
    let host = Keyspace {
        owner: KeyspaceOwner::Host,
        ..backend.clone()
    };
    let other = space("spaces.other");
    done(store, &backend, "k", "backend").await;
    for space in [&host, &other] {
        assert_eq!(store.get(space, "k").await.unwrap(), None);
        assert!(keys(store, space, "", None, 10).await.is_empty());
        store.remove(space, "k", Expect::Any).await.unwrap();
    }
    assert!(store.get(&backend, "k").await.unwrap().is_some());
}

async fn a_scan_goes_in_key_order_page_by_page(store: &dyn StateStore) {
    let space = space("scans");
    for key in ["b/1", "a/2", "c", "b/10", "b", "b/2", "gone"] {
        done(store, &space, key, key).await;
    }
    store.sync().await.unwrap();
    // Pending and durable records are one sequence.
    done(store, &space, "b/11", "new").await;
    done(store, &space, "b/2", "changed").await;
    store.remove(&space, "gone", Expect::Any).await.unwrap();
    assert_eq!(
        keys(store, &space, "", None, 100).await,
        ["a/2", "b", "b/1", "b/10", "b/11", "b/2", "c"]
    );
    assert_eq!(keys(store, &space, "b/", None, 2).await, ["b/1", "b/10"]);
    assert_eq!(
        keys(store, &space, "b/", Some("b/10"), 2).await,
        ["b/11", "b/2"]
    );
    assert!(keys(store, &space, "b/", Some("b/2"), 2).await.is_empty());
    // An `after` that is not a key, before and after the prefix.
    assert_eq!(keys(store, &space, "b/", Some("a"), 1).await, ["b/1"]);
    assert!(keys(store, &space, "b/", Some("bz"), 1).await.is_empty());
    assert!(keys(store, &space, "", None, 0).await.is_empty());
    let changed = store.scan(&space, "b/2", None, 1).await.unwrap();
    assert_eq!(changed[0].value, b"changed");
}

async fn a_scan_answer_is_bounded(store: &dyn StateStore) {
    let space = space("bounds");
    let many = usize::try_from(STATE_SCAN_ENTRIES).unwrap() + 1;
    for i in 0..many {
        done(store, &space, &format!("{i:05}"), "").await;
    }
    let first = keys(store, &space, "", None, u32::MAX).await;
    assert!(!first.is_empty() && first.len() < many);
    let mut all = first;
    while let Some(last) = all.last().cloned() {
        let page = keys(store, &space, "", Some(&last), u32::MAX).await;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert_eq!(all.len(), many);
}

async fn limits_are_kept(store: &dyn StateStore) {
    let space = space("limits");
    let key = "k".repeat(STATE_KEY_BYTES);
    let put = store.put(&space, &key, vec![0; STATE_VALUE_BYTES], Expect::Any);
    assert!(matches!(put.await.unwrap(), Outcome::Done(_)));
    store.sync().await.unwrap();
    let long = "k".repeat(STATE_KEY_BYTES + 1);
    let refused = |error: StateError| match error {
        StateError::TooLarge {
            what,
            length,
            limit,
        } => (what, length, limit),
        other => panic!("{other}"),
    };
    let key_refused = ("key", STATE_KEY_BYTES + 1, STATE_KEY_BYTES);
    let put = store.put(&space, &long, vec![], Expect::Any).await;
    assert_eq!(refused(put.unwrap_err()), key_refused);
    let get = store.get(&space, &long).await;
    assert_eq!(refused(get.unwrap_err()), key_refused);
    let remove = store.remove(&space, &long, Expect::Any).await;
    assert_eq!(refused(remove.unwrap_err()), key_refused);
    let large = vec![0; STATE_VALUE_BYTES + 1];
    let put = store.put(&space, "k", large, Expect::Any).await;
    assert_eq!(
        refused(put.unwrap_err()),
        ("value", STATE_VALUE_BYTES + 1, STATE_VALUE_BYTES)
    );
}

async fn of_many_callers_one_wins(store: &Arc<dyn StateStore>) {
    const CALLERS: u64 = 8;
    const TURNS: u64 = 50;
    let space = space("callers");
    done(&**store, &space, "counter", "0").await;
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, space) = (Arc::clone(store), space.clone());
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    increment(&*store, &space).await;
                    store.sync().await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let counter = store.get(&space, "counter").await.unwrap().unwrap();
    assert_eq!(counter.value, (CALLERS * TURNS).to_string().into_bytes());
}

async fn increment(store: &dyn StateStore, space: &Keyspace) {
    loop {
        let entry = store.get(space, "counter").await.unwrap().unwrap();
        let count: u64 = String::from_utf8(entry.value).unwrap().parse().unwrap();
        let next = (count + 1).to_string().into_bytes();
        let put = store.put(space, "counter", next, Expect::Revision(entry.revision));
        if matches!(put.await.unwrap(), Outcome::Done(_)) {
            return;
        }
    }
}
