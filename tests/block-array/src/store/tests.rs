//! What an array refuses, and what it holds.

use super::*;
use crate::options::{PASSWORD, USER};
use crate::records::Chap;

const WRITER: Mode = Mode {
    readonly: false,
    shared: false,
};
const READER: Mode = Mode {
    readonly: true,
    ..WRITER
};

fn store(job: Duration) -> Store {
    Store::new().with(ArrayOptions {
        total_bytes: 100,
        most_volumes: 3,
        job,
        hosts: vec!["a".to_owned(), "b".to_owned()],
        ..ArrayOptions::default()
    })
}

fn new(name: &str, bytes: u64) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        bytes,
        ..NewVolume::default()
    }
}

fn from_snapshot(name: &str, bytes: u64, id: &str) -> NewVolume {
    NewVolume {
        snapshot: Some(id.to_owned()),
        ..new(name, bytes)
    }
}

fn snapshot(store: &mut Store, name: &str, volume: &str) -> Answer<Object> {
    store.create_snapshot(name.to_owned(), volume)
}

fn host(iqn: &str) -> Host {
    Host {
        iqn: Some(iqn.to_owned()),
        ..Host::default()
    }
}

fn status<T>(answer: Answer<T>) -> u16 {
    answer.map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
}

#[test]
fn a_name_is_given_once_and_the_pool_is_finite() {
    let mut store = store(Duration::ZERO);
    let first = store.create_volume(new("x", 60)).unwrap();
    assert_eq!((first.state, first.bytes), (State::Ready, 60));
    assert_eq!(status(store.create_volume(new("x", 60))), 409);
    assert_eq!(status(store.create_volume(new("y", 41))), 507);
    assert_eq!(status(store.create_volume(new("y", 0))), 422);
    assert_eq!(status(store.change(&first.id, Some(59), None)), 422);
    assert_eq!(status(store.change(&first.id, Some(101), None)), 507);
    assert_eq!(status(store.change(&first.id, Some(100), None)), 200);
    assert_eq!(store.free_bytes(), 0);
    assert_eq!(store.counts(0).created, 1);
}

#[test]
fn volumes_are_as_many_as_the_quota_says() {
    let mut store = store(Duration::ZERO);
    let names = ["x", "y", "z"];
    let ids = names.map(|name| store.create_volume(new(name, 1)).unwrap().id);
    assert_eq!(status(store.create_volume(new("more", 1))), 507);
    store.delete(Kind::Volume, &ids[0]).unwrap();
    assert_eq!(status(store.create_volume(new("more", 1))), 200);
}

#[test]
fn a_snapshot_is_the_source_of_volumes_as_large() {
    let mut store = store(Duration::ZERO);
    let volume = store.create_volume(new("x", 10)).unwrap();
    let taken = snapshot(&mut store, "s", &volume.id).unwrap();
    let mut from = |name, bytes, id| status(store.create_volume(from_snapshot(name, bytes, id)));
    assert_eq!(from("y", 9, &taken.id), 422);
    assert_eq!(from("y", 10, &taken.id), 200);
    assert_eq!(from("z", 9, ""), 404);
    let both = NewVolume {
        volume: Some(volume.id.clone()),
        ..from_snapshot("z", 10, &taken.id)
    };
    assert_eq!(status(store.create_volume(both.clone())), 422);
    let copy = NewVolume {
        snapshot: None,
        ..both
    };
    let copy = store.create_volume(copy).unwrap();
    assert_eq!(copy.source, Some(volume.id));
    assert_eq!(status(snapshot(&mut store, "t", "none")), 404);
}

#[test]
fn a_list_is_given_in_pages_and_by_name() {
    let mut store = store(Duration::ZERO);
    for name in ["x", "y"] {
        store.create_volume(new(name, 1)).unwrap();
    }
    let list = |name, marker: &str| {
        let (found, more) = store.list(Kind::Volume, name, None, marker, 1);
        (
            found[0].object.name.clone(),
            found[0].object.id.clone(),
            more,
        )
    };
    let (name, id, more) = list(None, "");
    assert_eq!((name.as_str(), more), ("x", true));
    let (name, _, more) = list(None, &id);
    assert_eq!((name.as_str(), more), ("y", false));
    assert_eq!(list(Some("y"), "").0, "y");
}

#[test]
fn what_is_being_made_can_be_neither_attached_nor_copied() {
    let mut store = store(Duration::from_secs(3600));
    let id = store.create_volume(new("x", 10)).unwrap().id;
    let shown = store.get(Kind::Volume, &id).unwrap().shown();
    assert_eq!(shown.state, State::Creating);
    assert_eq!(status(store.attach(&id, "a", WRITER)), 409);
    assert_eq!(status(snapshot(&mut store, "s", &id)), 409);
    assert_eq!(status(store.delete(Kind::Volume, &id)), 200);
}

#[test]
fn a_source_stays_as_it_is_while_it_is_copied() {
    let mut store = store(Duration::ZERO);
    let id = store.create_volume(new("x", 10)).unwrap().id;
    let taken = snapshot(&mut store, "s", &id).unwrap().id;
    store.set_state(&taken, State::Creating);
    assert_eq!(status(store.attach(&id, "a", WRITER)), 409);
    assert_eq!(status(store.delete(Kind::Volume, &id)), 409);
    assert_eq!(status(store.change(&id, Some(20), None)), 409);
    assert_eq!(status(store.delete(Kind::Snapshot, &taken)), 409);
    store.set_state(&taken, State::Error);
    let restored = store.create_volume(from_snapshot("y", 10, &taken));
    assert_eq!(status(restored), 409);
    assert_eq!(status(store.attach(&id, "a", WRITER)), 200);
    assert_eq!(status(store.delete(Kind::Snapshot, &taken)), 200);
}

#[test]
fn an_attached_volume_is_held_by_its_host() {
    let mut store = store(Duration::ZERO);
    let id = store.create_volume(new("x", 1)).unwrap().id;
    assert_eq!(status(store.attach(&id, "none", WRITER)), 404);
    for _ in 0..2 {
        assert_eq!(status(store.attach(&id, "a", WRITER)), 200);
    }
    assert_eq!(status(store.attach(&id, "a", READER)), 409);
    assert_eq!(status(store.attach(&id, "b", WRITER)), 423);
    assert_eq!(status(store.delete(Kind::Volume, &id)), 409);
    assert_eq!(status(store.delete_host("a")), 409);
    assert_eq!(status(store.check_attached(&id, Some("b"))), 404);
    assert_eq!(status(store.check_attached(&id, Some("a"))), 200);
    store.detach(&id, "a");
    assert_eq!(status(store.check_attached(&id, None)), 200);
    assert_eq!(status(store.check_attached(&id, Some("a"))), 404);
    assert_eq!(status(store.delete(Kind::Volume, &id)), 200);
    assert_eq!(status(store.delete(Kind::Volume, &id)), 404);
    assert_eq!(status(store.delete_host("a")), 200);
}

#[test]
fn hosts_share_a_volume_if_each_asks_for_it() {
    let mut store = store(Duration::ZERO);
    let id = store.create_volume(new("x", 1)).unwrap().id;
    let shared = Mode {
        shared: true,
        ..WRITER
    };
    assert_eq!(store.attach(&id, "a", shared).unwrap().luns["a"], 1);
    assert_eq!(status(store.attach(&id, "b", WRITER)), 423);
    assert_eq!(status(store.attach(&id, "a", WRITER)), 409);
    assert_eq!(store.attach(&id, "b", shared).unwrap().luns["b"], 2);
    let shown = store.get(Kind::Volume, &id).unwrap().shown();
    assert_eq!(shown.hosts, ["a", "b"]);
    store.detach(&id, "a");
    assert_eq!(status(store.delete_host("a")), 200);
    assert_eq!(status(store.delete_host("b")), 409);
    assert_eq!(status(store.delete(Kind::Volume, &id)), 409);
    store.detach(&id, "b");
    assert_eq!(status(store.attach(&id, "b", WRITER)), 200);
    assert_eq!(status(store.attach(&id, "b", shared)), 409);
}

#[test]
fn a_lun_is_used_again_and_a_serial_number_never() {
    let mut store = store(Duration::ZERO);
    let [one, two] = ["x", "y"].map(|name| store.create_volume(new(name, 1)).unwrap().id);
    let lun = |store: &mut Store, id: &str| store.attach(id, "a", WRITER).unwrap().luns["a"];
    assert_eq!(lun(&mut store, &one), 1);
    assert_eq!(lun(&mut store, &two), 2);
    let serial = store.get(Kind::Volume, &one).unwrap().serial.clone();
    store.detach(&one, "a");
    store.delete(Kind::Volume, &one).unwrap();
    let other = store.create_volume(new("x", 1)).unwrap().id;
    assert_eq!(lun(&mut store, &other), 1);
    assert_ne!(store.get(Kind::Volume, &other).unwrap().serial, serial);
    assert_ne!(other, one);
}

#[test]
fn a_host_has_an_initiator_of_its_own() {
    let mut store = store(Duration::ZERO);
    let iqn = "iqn.1993-08.org.debian:01:1234";
    store.put_host("a", host(iqn)).unwrap();
    assert_eq!(status(store.put_host("a", host(iqn))), 200);
    assert_eq!(status(store.put_host("b", host(iqn))), 409);
    for wrong in [
        "",
        "iqn.2026-01.x/../y",
        "IQN.2026-01.x",
        "wwn.1",
        "iqn.a b",
    ] {
        assert_eq!(status(store.put_host("b", host(wrong))), 422, "{wrong}");
    }
    let id = store.create_volume(new("x", 1)).unwrap().id;
    store.attach(&id, "a", WRITER).unwrap();
    let other = host("iqn.1993-08.org.debian:01:5678");
    assert_eq!(status(store.put_host("a", other)), 409);
}

#[test]
fn a_host_of_nvme_has_a_name_of_its_own() {
    let mut store = store(Duration::ZERO);
    let named = |nqn: &str| Host {
        nqn: Some(nqn.to_owned()),
        ..Host::default()
    };
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";
    assert_eq!(status(store.put_host("a", named(nqn))), 200);
    assert_eq!(status(store.put_host("b", named(nqn))), 409);
    for wrong in ["", "iqn.2026-01.x", "nqn.x/../y", "nqn.a b"] {
        assert_eq!(status(store.put_host("b", named(wrong))), 422, "{wrong}");
    }
    // Hosts without a name are not the same host.
    assert_eq!(status(store.put_host("c", Host::default())), 200);
    assert_eq!(status(store.put_host("d", Host::default())), 200);
}

#[test]
fn a_password_of_a_host_is_one_line_and_never_shown() {
    let mut store = store(Duration::ZERO);
    let with = |password: &str| Host {
        chap: Some(Chap {
            user: "user".to_owned(),
            password: password.into(),
        }),
        ..Host::default()
    };
    assert_eq!(status(store.put_host("a", with(""))), 422);
    assert_eq!(status(store.put_host("a", with("two\nlines"))), 422);
    assert_eq!(status(store.put_host("a", with("twelve-bytes"))), 200);
    assert!(!format!("{store:?}").contains("twelve-bytes"));
}

#[test]
fn a_key_of_a_host_is_one_of_dhchap_and_never_shown() {
    let mut store = store(Duration::ZERO);
    let with = |key: &str| Host {
        dhchap_key: Some(key.into()),
        ..Host::default()
    };
    for wrong in ["", "twelve-bytes", "DHHC-1:00:two\nlines"] {
        assert_eq!(status(store.put_host("a", with(wrong))), 422, "{wrong}");
    }
    assert_eq!(status(store.put_host("a", with("DHHC-1:00:secret:"))), 200);
    assert!(!format!("{store:?}").contains("secret:"));
}

#[test]
fn records_outlive_the_array_and_sessions_do_not() {
    let mut store = store(Duration::ZERO);
    let token = store.login(USER, PASSWORD).unwrap();
    let id = store.create_volume(new("x", 1)).unwrap().id;
    store.attach(&id, "a", READER).unwrap();
    let kept = serde_json::to_string(&store).unwrap();
    let mut again: Store = serde_json::from_str(&kept).unwrap();
    assert_eq!(again.id(), store.id());
    assert!(!again.has_session(&token));
    let record = again.get(Kind::Volume, &id).unwrap();
    assert_eq!((record.luns["a"], record.readonly), (1, true));
    assert_eq!(record.shown().hosts, ["a"]);
    again = again.with(ArrayOptions::default());
    assert_ne!(again.create_volume(new("y", 1)).unwrap().id, id);
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
