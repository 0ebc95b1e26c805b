//! What an array refuses, and what it holds.

use super::*;

fn store(job: Duration) -> Store {
    Store::new(ArrayOptions {
        total_bytes: 100,
        job,
        hosts: vec!["a".to_owned(), "b".to_owned()],
    })
}

fn status<T>(answer: Result<T, Refusal>) -> u16 {
    answer.map_or_else(|Refusal(status, _)| status.as_u16(), |_| 200)
}

#[test]
fn a_name_is_given_once_and_the_pool_is_finite() {
    let mut store = store(Duration::ZERO);
    let first = store.create_volume("x", 60, None).unwrap();
    assert_eq!((first.state, first.bytes), ("ready", 60));
    assert_eq!(status(store.create_volume("x", 60, None)), 409);
    assert_eq!(status(store.create_volume("y", 41, None)), 507);
    assert_eq!(status(store.grow(&first.id, 59)), 422);
    assert_eq!(status(store.grow(&first.id, 101)), 507);
    assert_eq!(status(store.grow(&first.id, 100)), 200);
    assert_eq!(store.free_bytes(), 0);
    assert_eq!(store.counts(0).created, 1);
}

#[test]
fn a_snapshot_is_the_source_of_volumes_as_large() {
    let mut store = store(Duration::from_secs(3600));
    let volume = store.create_volume("x", 10, None).unwrap();
    assert_eq!(volume.state, "creating");
    let snapshot = store.create_snapshot("s", &volume.id).unwrap();
    let from = || Some(snapshot.id.clone());
    assert_eq!(status(store.create_volume("y", 9, from())), 422);
    assert_eq!(status(store.create_volume("y", 10, from())), 200);
    assert_eq!(
        status(store.create_volume("z", 9, Some(String::new()))),
        404
    );
    assert_eq!(status(store.create_snapshot("t", "none")), 404);
    let (found, more) = store.list(Kind::Volume, None, None, "", 1);
    assert_eq!((found[0].name.as_str(), more), ("x", true));
    let (found, more) = store.list(Kind::Volume, None, None, &found[0].id, 1);
    assert_eq!((found[0].name.as_str(), more), ("y", false));
}

#[test]
fn an_attached_volume_is_held_by_its_host() {
    let mut store = store(Duration::ZERO);
    let id = store.create_volume("x", 1, None).unwrap().id;
    assert_eq!(status(store.attach(&id, "none", false)), 404);
    for _ in 0..2 {
        assert_eq!(status(store.attach(&id, "a", false)), 200);
    }
    assert_eq!(status(store.attach(&id, "a", true)), 409);
    assert_eq!(status(store.attach(&id, "b", false)), 423);
    assert_eq!(status(store.delete_volume(&id)), 409);
    assert_eq!(status(store.detach(&id, Some("b"))), 404);
    assert_eq!(status(store.detach(&id, Some("a"))), 200);
    assert_eq!(status(store.detach(&id, None)), 200);
    assert_eq!(status(store.delete_volume(&id)), 200);
    assert_eq!(status(store.delete_volume(&id)), 404);
}

#[test]
fn a_session_lasts_until_logout_or_expiry() {
    let mut store = store(Duration::ZERO);
    assert_eq!(status(store.login(USER, "wrong")), 401);
    let [one, two] = [(); 2].map(|()| store.login(USER, PASSWORD).unwrap());
    store.logout(&one);
    assert!(!store.has_session(&one) && store.has_session(&two));
    store.expire_sessions();
    assert!(!store.has_session(&two));
    let counts = store.counts(0);
    assert_eq!(
        (counts.logins, counts.refused_logins, counts.sessions),
        (2, 1, 0)
    );
}
