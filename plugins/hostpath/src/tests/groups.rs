//! Group snapshots of several volumes at one moment, and snapshot metadata.

use super::*;

pub(super) fn taken_together(name: &str, volumes: &[&str]) -> Result<GroupSnapshot, Error> {
    Hostpath::create_group_snapshot(CreateGroupArgs {
        name: name.to_owned(),
        source_volumes: volumes.iter().map(|id| (*id).to_owned()).collect(),
        parameters: Vec::new(),
    })
}

#[test]
fn a_group_lives_from_creation_to_deletion() {
    fresh();
    let (a, b) = (created("pvc-1", "image").id, created("pvc-2", "image").id);
    let there = left_behind();
    let group = taken_together("group-1", &[&a, &b]).unwrap();
    assert_eq!(taken_together("group-1", &[&b, &a]), Ok(group.clone()));
    assert!(group.ready_to_use);
    let mut sources: Vec<_> = group.snapshots.iter().map(|it| &it.source_volume).collect();
    sources.sort();
    let mut both = [&a, &b];
    both.sort();
    assert_eq!(sources, both);
    let members: Vec<String> = group.snapshots.iter().map(|it| it.id.clone()).collect();
    for member in &group.snapshots {
        assert_eq!(member.group_snapshot_id.as_ref(), Some(&group.id));
        assert_eq!(
            Hostpath::get_snapshot(member.id.clone()),
            Ok(member.clone())
        );
        let alone = Hostpath::delete_snapshot(member.id.clone());
        assert_eq!(code(alone), Some(Code::InvalidArgument));
    }
    assert_eq!(
        Hostpath::get_group_snapshot(group.id.clone(), members.clone()),
        Ok(group.clone())
    );
    let source = ContentSource::Snapshot(members[0].clone());
    let restored = copied("restored", "image", source, GIB).unwrap().id;
    Hostpath::delete_volume(restored).unwrap();
    for _ in 0..2 {
        Hostpath::delete_group_snapshot(group.id.clone(), members.clone()).unwrap();
    }
    assert_eq!(left_behind(), there);
    let gone = Hostpath::get_group_snapshot(group.id, Vec::new());
    assert_eq!(code(gone), Some(Code::NotFound));
}

#[test]
fn a_group_that_cannot_be_is_refused_and_leaves_nothing() {
    fresh();
    testing::add_pool("fast", POOL_BYTES);
    let image = created("pvc-1", "image").id;
    let directory = created("pvc-2", "directory").id;
    let mut args = request("pvc-3", "image", range(None, None));
    args.parameters.extend(pairs(&[("pool", "fast")]));
    let elsewhere = Hostpath::create_volume(args).unwrap().id;
    let there = left_behind();
    for (volumes, refusal) in [
        (vec![], Code::InvalidArgument),
        (vec![image.as_str(), "volume-1"], Code::NotFound),
        (vec![&image, &directory], Code::FailedPrecondition),
        (vec![&image, &elsewhere], Code::FailedPrecondition),
    ] {
        assert_eq!(code(taken_together("group-1", &volumes)), Some(refusal));
        assert_eq!(left_behind(), there, "{volumes:?}");
    }
    let group = taken_together("group-1", &[&image]).unwrap();
    let others = taken_together("group-1", &[&elsewhere]);
    assert_eq!(code(others), Some(Code::AlreadyExists));
    let alien = vec![taken("snap-1", &image).unwrap().id];
    let id = || group.id.clone();
    for refused in [
        Hostpath::get_group_snapshot(id(), alien.clone()).map(drop),
        Hostpath::delete_group_snapshot(id(), alien),
    ] {
        assert_eq!(code(refused), Some(Code::InvalidArgument));
    }
    let unknown = Hostpath::delete_group_snapshot("group-1".to_owned(), Vec::new());
    assert_eq!(unknown, Ok(()));
    assert!(Hostpath::get_group_snapshot(id(), Vec::new()).is_ok());
}

#[test]
fn blocks_of_an_image_come_in_pages() {
    fresh();
    let id = created("pvc-1", "image").id;
    let base = taken("snap-1", &id).unwrap().id;
    let target = taken("snap-2", &id).unwrap().id;
    let all = Hostpath::get_allocated(target.clone(), 0, 0).unwrap();
    assert_eq!(all.volume_capacity_bytes, GIB);
    assert_eq!((all.extents.len(), all.next_offset), (4, None));
    let (mut found, mut offset) = (Vec::new(), Some(0));
    while let Some(at) = offset {
        let page = Hostpath::get_delta(base.clone(), target.clone(), at, 3).unwrap();
        assert!(page.extents.len() <= 3);
        found.extend(page.extents);
        offset = page.next_offset;
    }
    assert_eq!(found, all.extents);
}

#[test]
fn blocks_without_extents_are_rejected() {
    fresh();
    let image = created("pvc-1", "image").id;
    let snapshot = taken("snap-1", &image).unwrap().id;
    let other = taken("snap-2", &created("pvc-2", "image").id).unwrap().id;
    let directory = taken("snap-3", &created("pvc-3", "directory").id)
        .unwrap()
        .id;
    for (id, offset, refusal) in [
        (&snapshot, GIB + 1, Code::OutOfRange),
        (&directory, 0, Code::InvalidArgument),
        (&image, 0, Code::NotFound),
    ] {
        let answer = Hostpath::get_allocated(id.clone(), offset, 0);
        assert_eq!(code(answer), Some(refusal));
        let answer = Hostpath::get_delta(snapshot.clone(), id.clone(), offset, 0);
        assert_eq!(code(answer), Some(refusal));
    }
    let apart = Hostpath::get_delta(other, snapshot, 0, 0);
    assert_eq!(code(apart), Some(Code::InvalidArgument));
}
