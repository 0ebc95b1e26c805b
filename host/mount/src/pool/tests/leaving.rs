//! A path that is being removed or renamed cannot be created, changed, staged or removed meanwhile, and its users are queried while it is marked.

use super::*;
use crate::block::loop_device::Tag;
use crate::confine::PoolPath;
use crate::plan::PoolPlace;
use crate::plan::options::MountFlags;
use crate::source::{directory, image};
use rustix::mount::MountAttrFlags;
use wasmount_core::mounter::VolumeKey;
use wasmount_core::names::{DriverName, VolumeId};

const MIB: u64 = 1 << 20;

fn place(path: &str) -> Place {
    Place::parse("data", path).unwrap()
}

#[test]
fn what_is_leaving_is_neither_made_nor_changed_nor_removed() {
    let fixture = Fixture::with(true);
    for path in ["all", "all/a", "other"] {
        fixture.done(create(path));
    }
    let pool = fixture.pools.open("data").unwrap();
    let leaving = pool.copies.leave(&place("all/a")).unwrap();
    for call in [
        create("all/a"),
        create("all/a/b"),
        create_image("all/a/b", MIB),
        resize_image("all/a", MIB),
        set_quota("all/a", Some(MIB)),
        set_permissions("all/a", 0o700),
        rename("other", "all/a"),
        rename("all/a", "new"),
        remove("all/a"),
        remove("all"),
        remove_image("all/a"),
    ] {
        assert_eq!(kind(fixture.call(call.clone())), "under way", "{call:?}");
    }
    // The directory that contains it, and a path beside it.
    for call in [
        create("all"),
        set_permissions("all", 0o755),
        create("all/b"),
        remove("all/b"),
    ] {
        fixture.done(call);
    }
    drop(leaving);
    fixture.done(create("all/a"));
    fixture.done(remove("all/a"));
}

#[test]
fn privileged_what_is_being_removed_is_not_staged() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    fixture.done(create_image("image", MIB));
    let flags = MountFlags {
        set: MountAttrFlags::empty(),
        clear: MountAttrFlags::empty(),
    };
    let stage = |path: &str| directory(&staged(&fixture, path), flags);
    let pool = fixture.pools.open("data").unwrap();
    let leaving = ["a", "image"].map(|path| pool.copies.leave(&place(path)).unwrap());
    let tag = Tag::staged(&VolumeKey {
        driver: DriverName::parse("a").unwrap(),
        volume: VolumeId::parse("volume_id", "v").unwrap(),
    });
    let image = image::attach(&staged(&fixture, "image"), true, &tag).map(drop);
    for refused in [stage("a").map(drop), stage("a/b").map(drop), image] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, MountError::UnderWay { .. }), "{refused}");
    }
    drop(leaving);
    stage("a").unwrap();
}

/// A place as a plan names it.
fn staged(fixture: &Fixture, path: &str) -> PoolPlace {
    PoolPlace {
        pool: "data".to_owned(),
        directory: fixture.path(""),
        path: PoolPath::parse(path).unwrap(),
    }
}

/// A driver that tries to stage a path while it is asked whether it uses it.
#[derive(Default)]
struct Stager {
    place: Mutex<Option<PoolPlace>>,
    refused: Mutex<Vec<bool>>,
}

impl InUse for Stager {
    fn may_use(&self, _: &str, _: &dyn Fn(&str) -> bool) -> bool {
        true
    }

    fn uses(&self, _: &str, _: &dyn Fn(&str) -> bool) -> bool {
        let place = self.place.lock().unwrap();
        let place = place.as_ref().unwrap();
        let pool = std::fs::File::open(&place.directory).unwrap();
        let staged = refuse_leaving(&pool, place);
        self.refused.lock().unwrap().push(staged.is_err());
        false
    }
}

#[test]
fn users_are_asked_once_what_leaves_cannot_be_staged_any_more() {
    let fixture = Fixture::with(true);
    for path in ["tree", "moved"] {
        fixture.done(create(path));
    }
    fixture.done(create_image("image", MIB));
    let grant = PoolGrant {
        storage: PoolStorage::Directory(fixture.path("")),
        full_copies: true,
        mount_options: vec![],
    };
    let stager = Arc::new(Stager::default());
    let in_use: Arc<dyn InUse> = Arc::<Stager>::clone(&stager);
    let granted = BTreeMap::from([("data".to_owned(), grant)]);
    let pools = opened_for(&granted, in_use, &fixture.path(""));
    for (path, call) in [
        ("tree", remove("tree")),
        ("moved", rename("moved", "there")),
        ("image", remove_image("image")),
    ] {
        *stager.place.lock().unwrap() = Some(staged(&fixture, path));
        assert_eq!(pools.call(call), Ok(PoolReply::Done), "{path}");
    }
    assert_eq!(*stager.refused.lock().unwrap(), [true; 3]);
}
