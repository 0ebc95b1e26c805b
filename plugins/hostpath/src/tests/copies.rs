//! Clones, snapshots, and the lists of volumes and snapshots.

use super::*;

#[test]
fn copies_begin_with_their_source_and_outlive_it() {
    for kind in KINDS {
        fresh();
        let volume = created("pvc-1", kind);
        let snapshot = taken("snap-1", &volume.id).unwrap();
        assert_eq!(snapshot, taken("snap-1", &volume.id).unwrap());
        assert_eq!((snapshot.size_bytes, snapshot.ready_to_use), (GIB, true));
        assert!(snapshot.created_at > 0);
        for (name, source) in [
            ("clone", ContentSource::Volume(volume.id.clone())),
            ("restored", ContentSource::Snapshot(snapshot.id.clone())),
        ] {
            let copy = copied(name, kind, source.clone(), 2 * GIB).unwrap();
            assert_eq!(copy.capacity_bytes, 2 * GIB);
            assert_eq!(copy.content_source, Some(source.clone()));
            assert_eq!(copied(name, kind, source, 2 * GIB), Ok(copy));
        }
        Hostpath::delete_volume(volume.id).unwrap();
        let source = ContentSource::Snapshot(snapshot.id.clone());
        copied("late", kind, source, GIB).unwrap();
        Hostpath::delete_snapshot(snapshot.id.clone()).unwrap();
        assert_eq!(
            code(Hostpath::get_snapshot(snapshot.id)),
            Some(Code::NotFound)
        );
        assert_eq!(testing::state_keys().len(), 3, "{kind}");
    }
}

#[test]
fn a_copy_that_cannot_be_is_refused_and_leaves_nothing() {
    fresh();
    let image = created("pvc-1", "image").id;
    taken("snap-1", &image).unwrap();
    let other = created("pvc-2", "directory").id;
    let there = left_behind();
    assert_eq!(code(taken("snap-1", &other)), Some(Code::AlreadyExists));
    for (kind, bytes, refusal) in [
        ("directory", GIB, Code::InvalidArgument),
        ("image", 2 * POOL_BYTES, Code::ResourceExhausted),
    ] {
        let source = ContentSource::Volume(image.clone());
        assert_eq!(code(copied("copy", kind, source, bytes)), Some(refusal));
        assert_eq!(left_behind(), there, "{kind}");
    }
    let smaller = CreateVolumeArgs {
        content_source: Some(ContentSource::Volume(image)),
        ..request("copy", "image", range(None, Some(GIB / 2)))
    };
    assert_eq!(
        code(Hostpath::create_volume(smaller)),
        Some(Code::OutOfRange)
    );
}

#[test]
fn everything_is_listed_once_in_pages() {
    fresh();
    let ids: Vec<_> = (0..5)
        .map(|number| created(&format!("pvc-{number}"), "image").id)
        .collect();
    for id in &ids {
        taken(id, id).unwrap();
    }
    let (mut found, mut starting_token) = (Vec::new(), None);
    loop {
        let page = Hostpath::list_volumes(PageRequest {
            max_entries: Some(2),
            starting_token,
        });
        let page = page.unwrap();
        assert!(page.entries.len() <= 2);
        found.extend(page.entries.into_iter().map(|entry| entry.volume.id));
        starting_token = page.next_token;
        // A deletion meanwhile does not shift the following entries.
        Hostpath::delete_volume(found[0].clone()).unwrap();
        if starting_token.is_none() {
            break;
        }
    }
    let mut sorted = ids.clone();
    sorted.sort();
    assert_eq!(found, sorted);
    let of_one = |source_volume: Option<String>, starting_token: Option<String>| {
        let page = PageRequest {
            max_entries: None,
            starting_token,
        };
        Hostpath::list_snapshots(ListSnapshotsArgs {
            source_volume,
            page,
        })
    };
    assert_eq!(of_one(None, None).unwrap().entries.len(), 5);
    let one = of_one(Some(ids[3].clone()), None).unwrap();
    assert_eq!(
        (one.entries.len(), &one.entries[0].source_volume),
        (1, &ids[3])
    );
    assert_eq!(
        of_one(Some("unknown".to_owned()), None).unwrap().entries,
        []
    );
    assert_eq!(
        code(of_one(None, Some("../..".to_owned()))),
        Some(Code::Aborted)
    );
}
