//! Calls that are interrupted after every host call: a retry completes them, and the result is the same as without the interruption.

use super::*;

fn volume_1() -> String {
    id::from_name("volume", "pvc-1")
}

#[test]
fn a_call_that_ends_half_way_is_completed_by_its_retry() {
    type Call = fn() -> Result<(), Error>;
    let image: Call =
        || Hostpath::create_volume(request("pvc-1", "image", range(Some(GIB), None))).map(drop);
    let directory: Call =
        || Hostpath::create_volume(request("pvc-1", "directory", range(Some(GIB), None))).map(drop);
    let clone: Call = || {
        let source = ContentSource::Volume(volume_1());
        copied("pvc-2", "image", source, 2 * GIB).map(drop)
    };
    let snapshot: Call = || taken("snap-1", &volume_1()).map(drop);
    let grow: Call = || expand(&volume_1(), range(Some(2 * GIB), None)).map(drop);
    let modify: Call = || Hostpath::modify_volume(volume_1(), pairs(&[("atime", "false")]));
    let attach: Call = || attached::publish(&volume_1(), "node-1", false).map(drop);
    let detach: Call = || Hostpath::controller_unpublish_volume(volume_1(), None);
    let group: Call = || groups::taken_together("group-1", &[&volume_1()]).map(drop);
    let delete_group: Call =
        || Hostpath::delete_group_snapshot(id::from_name("group", "group-1"), Vec::new());
    let delete_snapshot: Call = || Hostpath::delete_snapshot(id::from_name("snapshot", "snap-1"));
    let image_in_use: Call = || {
        let id = Hostpath::create_volume(request("pvc-1", "image", range(Some(GIB), None)))?.id;
        taken("snap-1", &id)?;
        groups::taken_together("group-1", &[&id])?;
        attached::publish(&id, "node-1", false).map(drop)
    };
    let delete: Call = || Hostpath::delete_volume(volume_1());
    let nothing: Call = || Ok(());
    for (before, call) in [
        (nothing, image),
        (nothing, directory),
        (image, clone),
        (image, snapshot),
        (image, grow),
        (directory, grow),
        (image, delete),
        (directory, delete),
        (image, modify),
        (image, attach),
        (image_in_use, detach),
        (image, group),
        (image_in_use, delete_group),
        (image_in_use, delete_snapshot),
    ] {
        let outcome = |point| {
            fresh();
            before().unwrap();
            testing::fail_after(point, Error::unavailable("power cut"));
            let cut_off = call();
            testing::mend();
            let is_whole = cut_off.is_ok();
            if !is_whole {
                call().unwrap();
            }
            let quota = testing::quota("volumes", &volume_1());
            let left = (left_behind(), size_in_pool(&volume_1()), quota);
            (is_whole, left)
        };
        let (_, whole) = outcome(usize::MAX);
        for point in 0.. {
            let (is_whole, left) = outcome(point);
            assert_eq!(left, whole, "ended after {point} host calls");
            if is_whole {
                break;
            }
        }
    }
}

#[test]
fn a_half_made_copy_whose_source_is_gone_leaves_nothing() {
    for point in 0..12 {
        fresh();
        let source = created("pvc-1", "image").id;
        let clone = || copied("pvc-2", "image", ContentSource::Volume(volume_1()), 2 * GIB);
        testing::fail_after(point, Error::unavailable("power cut"));
        let cut_off = clone();
        testing::mend();
        if cut_off.is_ok() {
            continue;
        }
        Hostpath::delete_volume(source).unwrap();
        assert_eq!(code(clone()), Some(Code::NotFound), "{point}");
        assert_eq!(
            left_behind(),
            (vec![], vec![]),
            "ended after {point} host calls"
        );
    }
}

#[test]
fn a_half_deleted_volume_is_not_answered_as_a_new_one() {
    for kind in KINDS {
        fresh();
        let id = created("pvc-1", kind).id;
        let mut points = 0..;
        while size_in_pool(&id).is_some() {
            testing::fail_after(points.next().unwrap(), Error::unavailable("power cut"));
            Hostpath::delete_volume(id.clone()).unwrap_err();
            testing::mend();
        }
        let again = || Hostpath::create_volume(request("pvc-1", kind, range(Some(GIB), None)));
        assert_eq!(code(again()), Some(Code::Aborted), "{kind}");
        Hostpath::delete_volume(id.clone()).unwrap();
        again().unwrap();
        assert!(size_in_pool(&id).is_some(), "{kind}");
    }
}

#[test]
fn an_interrupted_expansion_blocks_no_smaller_one() {
    let mut was_half_grown = 0;
    for point in 0..12 {
        fresh();
        let id = created("pvc-1", "image").id;
        testing::fail_after(point, Error::unavailable("power cut"));
        let cut_off = expand(&id, range(Some(3 * GIB), None));
        testing::mend();
        if cut_off.is_ok() {
            continue;
        }
        was_half_grown += u64::from(size_in_pool(&id) == Some(3 * GIB));
        let snapshot = taken("snap-1", &id).unwrap().id;
        let blocks = Hostpath::get_allocated(snapshot.clone(), 0, 0).unwrap();
        let end = blocks.extents.last().unwrap();
        assert!(end.offset_bytes + end.size_bytes <= blocks.volume_capacity_bytes);
        let source = ContentSource::Snapshot(snapshot);
        let restored = copied("pvc-2", "image", source, GIB).unwrap();
        assert_eq!(restored.capacity_bytes, GIB, "{point}");
        let clone = copied("pvc-3", "image", ContentSource::Volume(id.clone()), GIB);
        assert_eq!(clone.unwrap().capacity_bytes, GIB, "{point}");
        // As when the request is reduced afterwards, because of a ResourceQuota or by a user (KEP-1790).
        let less = expand(&id, range(Some(2 * GIB), None)).unwrap();
        assert_eq!(less.capacity_bytes, 2 * GIB, "{point}");
    }
    assert!(was_half_grown > 0);
}
