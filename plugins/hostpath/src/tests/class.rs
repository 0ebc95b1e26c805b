//! The parameters of a StorageClass: pool and file system.

use super::*;

#[test]
fn a_class_chooses_pool_and_file_system() {
    fresh();
    testing::add_pool("fast", POOL_BYTES);
    let made = |parameters: &[(&str, &str)], capacity| {
        let mut args = request("pvc-1", "image", capacity);
        args.parameters.extend(pairs(parameters));
        Hostpath::create_volume(args)
    };
    let volume = made(&[("pool", "fast"), ("fsType", "xfs")], range(Some(1), None)).unwrap();
    assert_eq!(volume.capacity_bytes, 300 << 20);
    assert_eq!(testing::pool_paths("fast").concat(), volume.id);
    assert_eq!(
        volume.context,
        pairs(&[("pool", "fast"), ("fsType", "xfs")])
    );
    let plan = staged(&volume.id, volume.context, Vec::new()).unwrap();
    assert_eq!(plan.default_fs_type.as_deref(), Some("xfs"));
    assert!(matches!(plan.source, Source::Image { pool, .. } if pool == "fast"));
    let other_class = made(&[("pool", "fast")], range(Some(1), None));
    assert_eq!(code(other_class), Some(Code::AlreadyExists));
}

#[test]
fn a_class_that_cannot_be_is_refused_and_leaves_nothing() {
    for (parameters, limit, refusal) in [
        (["pool", "none"], None, Code::InvalidArgument),
        (["fsType", "zfs"], None, Code::InvalidArgument),
        (["fsType", "xfs"], Some(200 << 20), Code::OutOfRange),
        (["fsType", "btrfs"], Some(100 << 20), Code::OutOfRange),
    ] {
        fresh();
        let mut args = request("pvc-1", "image", range(Some(1), limit));
        args.parameters
            .extend(pairs(&[(parameters[0], parameters[1])]));
        let answer = Hostpath::create_volume(args);
        assert_eq!(code(answer), Some(refusal), "{parameters:?}");
        assert_eq!(left_behind(), (vec![], vec![]));
    }
    fresh();
    let mut named = request("pvc-1", "image", range(Some(1), Some(200 << 20)));
    let AccessType::Mount(mount) = &mut named.capabilities[0].access_type else {
        panic!("a request is for a mount");
    };
    mount.fs_type = Some("xfs".to_owned());
    assert_eq!(code(Hostpath::create_volume(named)), Some(Code::OutOfRange));
}
