//! Mount points without a server: names, options, and what is mounted there already. The mounts themselves are tested on a kernel with NFS.

use super::*;
use crate::fs_context::FsContext;
use crate::namespace::in_a_namespace;
use rustix::mount::MountAttrFlags;

fn mount(source: &str, options: &[&str]) -> PoolMount {
    PoolMount {
        fs_type: "nfs4".to_owned(),
        source: source.to_owned(),
        options: options.iter().map(|&option| option.to_owned()).collect(),
    }
}

fn mount_point(folder: &Path, source: &str, options: &[&str]) -> MountPoint {
    let driver = DriverName::parse("nfs.test").unwrap();
    MountPoint::new(folder, &driver, "nas", &mount(source, options))
}

fn options_of(options: &[&str]) -> Vec<(String, String)> {
    let (filesystem, flags) = mount_point(Path::new("/run"), "nas:/export", options)
        .checked()
        .unwrap();
    assert!(flags.set.contains(MountAttrFlags::MOUNT_ATTR_NOSUID));
    filesystem.options
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn a_mount_point_is_named_by_its_whole_grant() {
    let driver = |name: &str| DriverName::parse(name).unwrap();
    let name = |driver, pool, mount: PoolMount| directory_name(driver, pool, &mount);
    let (a, b) = (driver("a.test"), driver("b.test"));
    let first = name(&a, "nas", mount("nas:/e", &["ro"]));
    assert_eq!(first, name(&a, "nas", mount("nas:/e", &["ro"])));
    for other in [
        name(&b, "nas", mount("nas:/e", &["ro"])),
        name(&a, "nas2", mount("nas:/e", &["ro"])),
        name(&a, "nas", mount("nas:/f", &["ro"])),
        name(&a, "nas", mount("nas:/e", &[])),
    ] {
        assert_ne!(first, other);
    }
}

#[test]
fn requests_are_bounded_unless_the_administrator_decides() {
    let bounded = [("softerr", ""), ("timeo", "100"), ("retrans", "2")];
    let vers = ("vers", "4.2");
    assert_eq!(options_of(&[]), pairs(&[&bounded[..], &[vers]].concat()));
    assert_eq!(
        options_of(&["hard", "timeo=600", "vers=4.1", "sec=krb5p"]),
        pairs(&[
            ("hard", ""),
            ("timeo", "600"),
            ("vers", "4.1"),
            ("sec", "krb5p"),
            ("retrans", "2"),
        ])
    );
}

#[test]
fn options_that_lead_elsewhere_are_refused() {
    for options in [
        &["addr=192.0.2.1"][..],
        &["vers=3"],
        &["timeo=1", "timeo=2"],
    ] {
        let refused = mount_point(Path::new("/run"), "nas:/export", options).checked();
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("correct `grants.pools`"), "{words}");
    }
    let refused = mount_point(Path::new("/run"), "nas:export", &[]).checked();
    assert!(matches!(refused, Err(MountError::Unusable(_))));
}

#[test]
fn errors_of_a_server_can_be_retried_and_others_stay() {
    let place = mount_point(Path::new("/run"), "nas:/export", &[]);
    for errno in [Errno::TIMEDOUT, Errno::STALE, Errno::HOSTUNREACH] {
        let explained = place.explain(kernel("mkdir", "a", errno));
        let words = explained.to_string();
        assert!(matches!(explained, MountError::Hung(_)), "{words}");
        assert!(words.contains("pool `nas` at `nas:/export`"), "{words}");
    }
    let other = kernel("mkdir", "a", Errno::PERM);
    assert_eq!(place.explain(other.clone()), other);
}

#[test]
fn privileged_what_is_mounted_by_others_is_not_used() {
    in_a_namespace(|| {
        let run = tempfile::tempdir().unwrap();
        let place = mount_point(run.path(), "nas:/export", &[]);
        let directory = place.mount_point().unwrap();
        // It has the source of the grant, and is of another type.
        let context = FsContext::open("tmpfs", "a share").unwrap();
        context.set("source", "nas:/export").unwrap();
        context.create(false).unwrap();
        let flags = MountFlags {
            set: MountAttrFlags::MOUNT_ATTR_NOSUID,
            clear: MountAttrFlags::empty(),
        };
        let made = context.mount(flags).unwrap();
        let onto = std::fs::File::open(&directory).unwrap();
        executor::move_onto(&made, &onto, "a mount").unwrap();
        let words = place.root().unwrap_err().to_string();
        assert!(words.contains("unmount that"), "{words}");
        drop((made, onto));
        take_down(&place.directory);
        assert!(!directory.exists());
        // Once more is a success.
        take_down(&place.directory);
    });
}
