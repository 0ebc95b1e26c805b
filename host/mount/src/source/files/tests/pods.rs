//! Effects of a pod that mounts its files writable on a swap.

use super::*;
use rustix::fs::FileType;
use std::os::unix::fs::PermissionsExt;

#[test]
fn privileged_files_stay_when_a_pod_fills_their_volume() {
    privileged(old(), WRITABLE, None, |volume| {
        let filling = volume.path.join("filling");
        let error = fs::write(&filling, vec![1; 64 << 20]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        let error = replace(&volume.root, &new(), None).unwrap_err();
        assert!(matches!(error, MountError::NoSpace { .. }), "{error}");
        let mut content = volume.content(".");
        content.remove("filling");
        assert_eq!(content, texts(&old()));
        fs::remove_file(&filling).unwrap();
        volume.replace(&new());
        volume.assert_shows(&new());
    });
}

#[test]
fn privileged_planted_links_lead_no_swap_outside() {
    privileged(old(), WRITABLE, None, |volume| {
        let at = |name: &str| volume.path.join(name);
        let plant = |name: &str, target: &Path| {
            let _ = fs::remove_file(at(name));
            let _ = fs::remove_dir_all(at(name));
            symlink(target, at(name)).unwrap();
        };
        let plants: [&dyn Fn(); 8] = [
            &|| plant("..data", &volume.outside),
            &|| plant("..data", Path::new("../outside")),
            &|| plant("..data", Path::new("..")),
            &|| plant("..data", Path::new("..data")),
            &|| {
                fs::remove_file(at("..data")).unwrap();
                fs::create_dir_all(at("..data/own")).unwrap();
            },
            &|| plant("..planted", &volume.outside),
            &|| plant("a", &volume.outside.join("a")),
            &|| {
                fs::remove_file(at("a")).unwrap();
                fs::create_dir_all(at("a/b")).unwrap();
            },
        ];
        for plant in plants {
            for files in [new(), old()] {
                plant();
                volume.replace(&files);
                volume.assert_shows(&files);
                volume.replace(&files);
                assert_eq!(volume.generations(), 1, "{:?}", volume.names());
                assert_eq!(
                    fs::read_to_string(volume.outside.join("a")).unwrap(),
                    "outside"
                );
            }
        }
        assert_eq!(fs::read_dir(&volume.outside).unwrap().count(), 1);
    });
}

#[test]
fn privileged_what_a_pod_changed_in_a_generation_is_put_right() {
    privileged(old(), WRITABLE, None, |volume| {
        let at = |name: &str| volume.path.join("..data").join(name);
        let changes: [&dyn Fn(); 7] = [
            &|| fs::write(at("a"), "bad a").unwrap(),
            &|| fs::write(at("more"), "").unwrap(),
            &|| fs::remove_file(at("d/g")).unwrap(),
            &|| fs::set_permissions(at("d"), fs::Permissions::from_mode(0o777)).unwrap(),
            &|| {
                fs::remove_file(at("a")).unwrap();
                symlink(volume.outside.join("a"), at("a")).unwrap();
            },
            &|| {
                fs::remove_file(at("a")).unwrap();
                let mode = Mode::RUSR;
                rustix::fs::mknodat(rustix::fs::CWD, at("a"), FileType::Fifo, mode, 0).unwrap();
            },
            &|| {
                fs::remove_file(at("a")).unwrap();
                fs::create_dir(at("a")).unwrap();
            },
        ];
        for change in changes {
            change();
            volume.replace(&old());
            volume.assert_shows(&old());
        }
    });
}

#[test]
fn privileged_leftovers_are_removed_and_pod_files_stay() {
    privileged(old(), WRITABLE, None, |volume| {
        fs::write(volume.path.join("own"), "own").unwrap();
        symlink("..data/elsewhere", volume.path.join("own-link")).unwrap();
        let mut directory =
            rustix::fs::openat(&volume.root, ".", DIRECTORY, Mode::empty()).unwrap();
        for depth in 0..3000 {
            let name = if depth == 0 { "..deep" } else { "deep" };
            rustix::fs::mkdirat(&directory, name, Mode::RWXU).unwrap();
            directory = open_confined(&directory, name, DIRECTORY).unwrap();
        }
        volume.replace(&old());
        assert_eq!(volume.generations(), 1, "{:?}", volume.names());
        assert_eq!(fs::read_to_string(volume.path.join("own")).unwrap(), "own");
        assert!(fs::symlink_metadata(volume.path.join("own-link")).is_ok());
    });
}
