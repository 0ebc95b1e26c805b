//! Parameters, settings and ids.

use super::*;
use crate::class::{Class, OnDelete};
use crate::share::Settings;

fn sub_dir(template: &str, metadata: &[(&str, &str)]) -> Result<String, Error> {
    let parameters = class(&[&[("subDir", template)], metadata].concat());
    let id = Class::read(&parameters)?.id("pvc-1", &parameters)?;
    Ok(id.sub_dir)
}

#[test]
fn a_class_of_csi_driver_nfs_is_read_in_any_case() {
    let read = Class::read(&pairs(&[
        ("Server", "nas.example.com"),
        ("SHARE", "/export"),
        ("subdir", "${pv.metadata.name}"),
        ("onDelete", "Archive"),
        ("mountPermissions", "0775"),
        ("uid", "243"),
        ("gid", "0"),
        (
            "csi.storage.k8s.io/provisioner-secret-name",
            "mount-options",
        ),
    ]));
    let class = Class {
        server: "nas.example.com".to_owned(),
        share: "/export".to_owned(),
        sub_dir: Some("${pv.metadata.name}".to_owned()),
        on_delete: Some(OnDelete::Archive),
        mode: Some(0o775),
        uid: Some(243),
        gid: Some(0),
        mount_options: Vec::new(),
    };
    assert_eq!(read, Ok(class));
    assert_eq!(
        Class::read(&class_with("mountPermissions", "0")).map(|it| it.mode),
        Ok(None)
    );
}

fn class_with(key: &str, value: &str) -> Attributes {
    class(&[(key, value)])
}

#[test]
fn a_parameter_that_does_not_fit_is_refused_by_name() {
    for (key, value) in [
        ("mountPermissions", "0888"),
        ("mountPermissions", "10000"),
        ("onDelete", "keep"),
        ("uid", "-1"),
        ("gid", "2147483648"),
        ("subdirs", "a"),
    ] {
        let refused = Class::read(&class_with(key, value)).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
        let words = refused.message.to_lowercase();
        assert!(words.contains(&key.to_lowercase()), "{words}");
    }
    for missing in [&[("server", "a")][..], &[("share", "/a")]] {
        assert_eq!(
            code(Class::read(&pairs(missing))),
            Some(Code::InvalidArgument)
        );
    }
}

#[test]
fn templates_are_replaced_by_what_kubernetes_says() {
    let metadata = [
        ("csi.storage.k8s.io/pvc/name", "claim"),
        ("csi.storage.k8s.io/pvc/namespace", "team"),
        ("csi.storage.k8s.io/pv/name", "pvc-1"),
    ];
    let all = "${pvc.metadata.namespace}/${pvc.metadata.name}/${pv.metadata.name}";
    assert_eq!(sub_dir(all, &metadata), Ok("team/claim/pvc-1".to_owned()));
    assert_eq!(sub_dir("/fixed/", &[]), Ok("fixed".to_owned()));
}

#[test]
fn a_path_that_leads_elsewhere_is_refused() {
    for template in [
        "..",
        "a/../b",
        "a#b",
        "/",
        "${pvc.metadata.name}",
        "${pvc.metadata.uid}",
    ] {
        assert_eq!(
            code(sub_dir(template, &[])),
            Some(Code::InvalidArgument),
            "{template}"
        );
    }
    let hostile = [("csi.storage.k8s.io/pvc/name", "../..")];
    let refused = sub_dir("a/${pvc.metadata.name}", &hostile);
    assert_eq!(code(refused), Some(Code::InvalidArgument));
}

#[test]
fn ids_are_those_of_csi_driver_nfs() {
    let id = |more: &[(&str, &str)]| {
        let parameters = class(more);
        Class::read(&parameters)
            .unwrap()
            .id("pvc-1", &parameters)
            .unwrap()
            .text()
    };
    for (more, text) in [
        (&[][..], "nas.example.com#export#pvc-1##"),
        (&[("subDir", "a/b")], "nas.example.com#export#a/b#pvc-1#"),
        (&[("onDelete", "delete")], "nas.example.com#export#pvc-1##"),
        (
            &[("onDelete", "retain")],
            "nas.example.com#export#pvc-1##retain",
        ),
        (
            &[("subDir", "a"), ("onDelete", "archive")],
            "nas.example.com#export#a#pvc-1#archive",
        ),
    ] {
        assert_eq!(id(more), text);
        assert_eq!(VolumeId::parse(text).unwrap().text(), text);
    }
}

#[test]
fn older_ids_are_understood_and_others_are_none() {
    for (text, server, share, sub_dir) in [
        ("nas#export/team#pvc-1", "nas", "export/team", "pvc-1"),
        ("nas/export/pvc-1", "nas", "export", "pvc-1"),
        ("nas/a/b/pvc-1", "nas", "a/b", "pvc-1"),
        ("nas##pvc-1##", "nas", "", "pvc-1"),
    ] {
        let id = VolumeId::parse(text).unwrap();
        assert_eq!(
            (&*id.server, &*id.share, &*id.sub_dir),
            (server, share, sub_dir)
        );
    }
    for text in [
        "",
        "x",
        "nas#export",
        "nas#export#",
        "#export#a",
        "nas#e#../a",
        "nas#..#a",
        "nas#e#a#b#keep",
        "a#b#c#d#delete#f",
    ] {
        assert_eq!(VolumeId::parse(text), None, "{text}");
    }
}

#[test]
fn a_name_that_is_no_directory_is_hashed() {
    fresh();
    let volume = created("a/../b#c", &[]);
    let id = VolumeId::parse(&volume.id).unwrap();
    assert!(id::is_from_name("volume", &id.sub_dir), "{}", id.sub_dir);
    assert_eq!(testing::pool_paths("nas"), [id.sub_dir]);
}

#[test]
fn a_share_is_that_of_a_pool_or_lies_in_it() {
    fresh();
    testing::add_pool("inner", GIB);
    testing::set_setting("share.inner", "nas.example.com:/export/inner");
    testing::add_pool("six", GIB);
    testing::set_setting("share.six", "[fd00::1]:/");
    let settings = Settings::read().unwrap();
    let place = |server: &str, share: &str| {
        let place = settings.place(server, share, "a")?;
        Ok::<_, Error>((place.pool.name().to_owned(), place.path))
    };
    let found = |pool: &str, path: &str| Ok((pool.to_owned(), path.to_owned()));
    assert_eq!(place("nas.example.com", "/export/"), found("nas", "a"));
    assert_eq!(
        place("nas.example.com", "export/team"),
        found("nas", "team/a")
    );
    assert_eq!(
        place("nas.example.com", "/export/inner"),
        found("inner", "a")
    );
    assert_eq!(place("fd00::1", "/srv"), found("six", "srv/a"));
    for (server, share) in [
        ("other", "/export"),
        ("nas.example.com", "/exports"),
        ("nas.example.com", "/"),
    ] {
        assert_eq!(
            code(place(server, share)),
            Some(Code::FailedPrecondition),
            "{server} {share}"
        );
    }
}

#[test]
fn settings_are_held_against_the_grants() {
    fresh();
    assert_eq!(Nfs::check_settings(), Ok(Vec::new()));
    testing::add_pool("spare", GIB);
    let warnings = Nfs::check_settings().unwrap();
    assert!(warnings.concat().contains("`share.spare`"), "{warnings:?}");
    testing::remove_pool("nas");
    assert_eq!(code(Nfs::check_settings()), Some(Code::FailedPrecondition));
    for (key, value) in [
        ("share.nas", "nas"),
        ("share.nas", ":/a"),
        ("onDelete", "keep"),
        ("reserve", "yes"),
        ("shares", ""),
    ] {
        fresh();
        testing::set_setting(key, value);
        assert_eq!(
            code(Nfs::check_settings()),
            Some(Code::InvalidArgument),
            "{key}"
        );
    }
}
