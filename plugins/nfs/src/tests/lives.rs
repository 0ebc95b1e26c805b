//! Volumes and snapshots from creation to deletion.

use super::*;
use wasmount_guest::pool::Kind;

fn snapshot(name: &str, source: &str) -> Result<Snapshot, Error> {
    Nfs::create_snapshot(CreateSnapshotArgs {
        source_volume: source.to_owned(),
        name: name.to_owned(),
        parameters: Vec::new(),
        accessibility: None,
    })
}

fn copied(name: &str, source: ContentSource) -> Result<Volume, Error> {
    Nfs::create_volume(CreateVolumeArgs {
        content_source: Some(source),
        ..request(name, class(&[]), GIB)
    })
}

fn list() -> Vec<String> {
    let page = Nfs::list_volumes(PageRequest {
        max_entries: None,
        starting_token: None,
    });
    let entries = page.unwrap().entries.into_iter();
    entries.map(|entry| entry.volume.id).collect()
}

#[test]
fn a_volume_is_created_listed_grown_and_deleted() {
    fresh();
    let volume = created("pvc-1", &[("mountPermissions", "0770")]);
    assert_eq!(volume.capacity_bytes, GIB);
    assert_eq!(
        volume.context,
        pairs(&[
            ("server", "nas.example.com"),
            ("share", "/export"),
            ("subDir", "pvc-1")
        ])
    );
    assert_eq!(testing::mode("nas", "pvc-1"), Some(0o770));
    assert_eq!(testing::quota("nas", "pvc-1"), None);
    assert_eq!(created("pvc-1", &[("mountPermissions", "0770")]), volume);
    assert_eq!(list(), std::slice::from_ref(&volume.id));
    assert_eq!(expand(&volume.id, 2 * GIB), Ok(Expanded::to(2 * GIB)));
    let entry = Nfs::get_volume(volume.id.clone()).unwrap();
    assert_eq!(entry.volume.capacity_bytes, 2 * GIB);
    for _ in 0..2 {
        assert_eq!(Nfs::delete_volume(volume.id.clone()), Ok(()));
        assert_eq!(left_behind(), (vec![], vec![]));
    }
    assert_eq!(code(expand(&volume.id, GIB)), Some(Code::NotFound));
}

#[test]
fn the_same_name_with_another_size_or_source_is_refused() {
    fresh();
    let volume = created("pvc-1", &[]);
    let larger = Nfs::create_volume(request("pvc-1", class(&[]), 2 * GIB));
    assert_eq!(code(larger), Some(Code::AlreadyExists));
    let copy = copied("pvc-1", ContentSource::Volume(volume.id));
    assert_eq!(code(copy), Some(Code::AlreadyExists));
}

#[test]
fn space_is_reserved_only_if_the_administrator_says_so() {
    fresh();
    let huge = request("huge", class(&[]), 2 * POOL_BYTES);
    assert!(Nfs::create_volume(huge.clone()).is_ok());
    fresh();
    testing::set_setting("reserve", "true");
    assert_eq!(
        code(Nfs::create_volume(huge)),
        Some(Code::ResourceExhausted)
    );
    assert_eq!(left_behind(), (vec![], vec![]));
    let volume = created("pvc-1", &[]);
    assert_eq!(testing::quota("nas", "pvc-1"), Some(GIB));
    expand(&volume.id, 2 * GIB).unwrap();
    assert_eq!(testing::quota("nas", "pvc-1"), Some(2 * GIB));
    let available = |parameters| {
        let capabilities = vec![capability(AccessMode::SingleNodeWriter)];
        let args = CapacityArgs {
            capabilities,
            parameters,
            accessible_topology: None,
        };
        Nfs::get_capacity(args).unwrap().available_bytes
    };
    assert_eq!(available(class(&[])), POOL_BYTES - 2 * GIB);
    assert_eq!(available(pairs(&[("server", "other"), ("share", "/e")])), 0);
    assert_eq!(available(Vec::new()), 0);
}

#[test]
fn a_deleted_volume_is_kept_or_renamed_as_its_class_says() {
    fresh();
    let retained = created("a", &[("onDelete", "retain")]);
    let archived = created("b", &[("onDelete", "archive"), ("subDir", "team/b")]);
    for id in [retained.id, archived.id] {
        assert_eq!(Nfs::delete_volume(id.clone()), Ok(()));
        assert_eq!(Nfs::delete_volume(id), Ok(()));
    }
    assert_eq!(testing::state_keys(), Vec::<String>::new());
    assert_eq!(
        testing::pool_paths("nas"),
        ["a", "archived-team", "archived-team/b", "team"]
    );
    // The same claim again: the archive of the first is not replaced.
    let again = created("b", &[("onDelete", "archive"), ("subDir", "team/b")]);
    assert_eq!(Nfs::delete_volume(again.id), Ok(()));
    let archives = testing::pool_paths("nas");
    let archives = archives
        .iter()
        .filter(|path| path.starts_with("archived-team/b"));
    assert_eq!(archives.count(), 2);
}

#[test]
fn volumes_of_csi_driver_nfs_grow_and_go_without_a_record() {
    fresh();
    NAS.create_directory("pvc-old").unwrap();
    let id = "nas.example.com#export#pvc-old##";
    assert_eq!(expand(id, 2 * GIB), Ok(Expanded::to(2 * GIB)));
    assert_eq!(Nfs::delete_volume(id.to_owned()), Ok(()));
    assert_eq!(left_behind(), (vec![], vec![]));
    NAS.create_directory("pvc-older").unwrap();
    testing::set_setting("onDelete", "archive");
    let id = "nas.example.com/export/pvc-older";
    assert_eq!(Nfs::delete_volume(id.to_owned()), Ok(()));
    assert_eq!(testing::pool_paths("nas"), ["archived-pvc-older"]);
}

#[test]
fn an_id_never_names_more_than_its_directory() {
    fresh();
    created("pvc-1", &[]);
    for id in [
        "nas.example.com#export###",
        "nas.example.com#export#../x##",
        "fake",
    ] {
        assert_eq!(Nfs::delete_volume(id.to_owned()), Ok(()), "{id}");
    }
    let volume = created("pvc-2", &[]);
    let snapshot = snapshot("snap", &volume.id).unwrap();
    let id = format!("nas.example.com#export#{}##", snapshot.id);
    assert_eq!(code(Nfs::delete_volume(id)), Some(Code::InvalidArgument));
    let elsewhere = Nfs::delete_volume("other#export#pvc-1##".to_owned());
    assert_eq!(code(elsewhere), Some(Code::FailedPrecondition));
    assert!(testing::pool_paths("nas").contains(&"pvc-1".to_owned()));
    assert!(testing::pool_paths("nas").contains(&snapshot.id));
}

#[test]
fn a_directory_of_two_volumes_stays_until_the_last_is_deleted() {
    fresh();
    let first = created("a", &[("subDir", "shared")]);
    let second = created("b", &[("subDir", "shared")]);
    assert_ne!(first.id, second.id);
    Nfs::delete_volume(first.id).unwrap();
    assert_eq!(testing::pool_paths("nas"), ["shared"]);
    Nfs::delete_volume(second.id).unwrap();
    assert_eq!(left_behind(), (vec![], vec![]));
}

#[test]
fn of_two_half_deleted_volumes_the_first_takes_the_directory() {
    for (default, second, left) in [
        ("delete", "delete", &[][..]),
        ("delete", "retain", &["shared"]),
        ("retain", "delete", &["shared"]),
    ] {
        fresh();
        testing::set_setting("onDelete", default);
        let requests = [("a", "delete"), ("b", second)].map(|(name, on_delete)| {
            let class = class(&[("subDir", "shared"), ("onDelete", on_delete)]);
            request(name, class, GIB)
        });
        let create = |request: &CreateVolumeArgs| Nfs::create_volume(request.clone());
        let ids = requests.each_ref().map(|it| create(it).unwrap().id);
        for (request, id) in requests.iter().zip(&ids) {
            let mut calls = 0..;
            while code(create(request)) != Some(Code::Aborted) {
                let interrupted = Error::unavailable("interrupted");
                testing::fail_after(calls.next().unwrap(), interrupted);
                Nfs::delete_volume(id.clone()).unwrap_err();
                testing::mend();
            }
        }
        assert_eq!(testing::pool_paths("nas"), ["shared"]);
        for id in &ids {
            for _ in 0..2 {
                assert_eq!(Nfs::delete_volume(id.clone()), Ok(()));
                assert_eq!(testing::pool_paths("nas"), left, "{default}, {second}");
            }
        }
        assert_eq!(testing::state_keys(), [""; 0]);
    }
}

#[test]
fn copies_of_volumes_and_snapshots_are_volumes() {
    fresh();
    let volume = created("pvc-1", &[]);
    let snapshot = snapshot("snap", &volume.id).unwrap();
    assert_eq!((snapshot.ready_to_use, snapshot.size_bytes), (true, GIB));
    let restored = copied("pvc-2", ContentSource::Snapshot(snapshot.id.clone())).unwrap();
    let cloned = copied("pvc-3", ContentSource::Volume(volume.id.clone())).unwrap();
    for volume in [&restored, &cloned] {
        let id = VolumeId::parse(&volume.id).unwrap();
        assert_eq!(
            NAS.stat(&id.sub_dir).unwrap().unwrap().kind,
            Kind::Directory
        );
    }
    for id in [volume.id, restored.id, cloned.id] {
        Nfs::delete_volume(id).unwrap();
    }
    assert_eq!(
        testing::pool_paths("nas"),
        std::slice::from_ref(&snapshot.id)
    );
    Nfs::delete_snapshot(snapshot.id).unwrap();
    assert_eq!(left_behind(), (vec![], vec![]));
}

#[test]
fn a_source_that_is_gone_or_elsewhere_makes_no_volume() {
    fresh();
    let missing = ContentSource::Volume("nas.example.com#export#none##".to_owned());
    assert_eq!(code(copied("pvc-1", missing)), Some(Code::NotFound));
    testing::add_pool("far", POOL_BYTES);
    testing::set_setting("share.far", "far:/e");
    let far = pairs(&[("server", "far"), ("share", "/e")]);
    let source = Nfs::create_volume(request("far", far, GIB)).unwrap();
    let elsewhere = copied("pvc-1", ContentSource::Volume(source.id));
    assert_eq!(code(elsewhere), Some(Code::InvalidArgument));
    assert_eq!(testing::pool_paths("nas"), Vec::<String>::new());
}

#[test]
fn a_call_interrupted_anywhere_is_completed_by_its_retry() {
    let more = [
        ("subDir", "a/b"),
        ("mountPermissions", "0770"),
        ("onDelete", "archive"),
    ];
    for calls in 0.. {
        fresh();
        testing::fail_after(calls, Error::unavailable("interrupted"));
        let interrupted = Nfs::create_volume(request("pvc-1", class(&more), GIB));
        testing::mend();
        let volume = created("pvc-1", &more);
        testing::fail_after(calls, Error::unavailable("interrupted"));
        let deleted = Nfs::delete_volume(volume.id.clone());
        testing::mend();
        Nfs::delete_volume(volume.id).unwrap();
        assert_eq!(testing::state_keys(), Vec::<String>::new());
        let paths = testing::pool_paths("nas");
        assert_eq!(paths, ["a", "archived-a", "archived-a/b"], "{calls}");
        if interrupted.is_ok() && deleted.is_ok() {
            return assert!(calls > 3);
        }
    }
}

#[test]
fn a_half_deleted_volume_is_not_answered_as_a_new_one() {
    for on_delete in ["delete", "archive", "retain"] {
        let again = || Nfs::create_volume(request("pvc-1", class(&[("onDelete", on_delete)]), GIB));
        let mut half_deleted = 0;
        for calls in 0.. {
            fresh();
            testing::set_setting("reserve", "true");
            let id = again().unwrap().id;
            testing::fail_after(calls, Error::unavailable("interrupted"));
            let deleted = Nfs::delete_volume(id.clone());
            testing::mend();
            let place = format!("{on_delete}, interrupted after {calls} calls");
            match code(again()) {
                // The deletion did nothing yet, or all.
                None => assert_eq!(testing::quota("nas", "pvc-1"), Some(GIB), "{place}"),
                Some(code) => {
                    assert_eq!(code, Code::Aborted, "{place}");
                    half_deleted += 1;
                }
            }
            assert_eq!(Nfs::delete_volume(id), Ok(()), "{place}");
            assert_eq!(testing::state_keys(), Vec::<String>::new(), "{place}");
            for archive in testing::pool_paths("nas") {
                let is_promised = testing::quota("nas", &archive).is_some();
                assert!(!is_promised || archive == "pvc-1", "{place}: {archive}");
            }
            again().unwrap();
            assert_eq!(testing::quota("nas", "pvc-1"), Some(GIB), "{place}");
            if deleted.is_ok() {
                break;
            }
        }
        assert!(half_deleted > 0, "{on_delete}");
    }
}
