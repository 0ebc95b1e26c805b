//! Swaps from the view of a reader, and what a killed swap leaves.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn privileged_a_swap_adds_removes_and_keeps_one_generation() {
    privileged(old(), WRITABLE, None, |volume| {
        let before = volume
            .path
            .join(fs::read_link(volume.path.join("..data")).unwrap());
        volume.replace(&new());
        volume.assert_shows(&new());
        // A program that is reading the old files can finish.
        assert_eq!(fs::read_to_string(before.join("gone")).unwrap(), "old gone");
        assert_eq!(volume.generations(), 2);
        volume.replace(&old());
        volume.assert_shows(&old());
        assert!(!before.exists());
        assert_eq!(volume.generations(), 2);
        volume.replace(&files(&[]));
        volume.assert_shows(&files(&[]));
    });
}

#[test]
fn privileged_equal_files_write_nothing_and_clean_up() {
    privileged(old(), WRITABLE, None, |volume| {
        volume.replace(&new());
        let all = |volume: &Volume| {
            let mut found = Vec::new();
            for name in [
                "..data",
                "..data/.",
                "..data/a",
                "..data/d/e/f",
                "..data/d",
                "a",
                "come",
            ] {
                let status = fs::symlink_metadata(volume.path.join(name)).unwrap();
                found.push((name, status.ino(), status.ctime(), status.ctime_nsec()));
            }
            found
        };
        let before = all(volume);
        volume.replace(&new());
        assert_eq!(all(volume), before);
        assert_eq!(volume.generations(), 1);
        let top = fs::metadata(&volume.path).unwrap();
        volume.replace(&new());
        let again = fs::metadata(&volume.path).unwrap();
        assert_eq!(
            (top.ctime(), top.ctime_nsec()),
            (again.ctime(), again.ctime_nsec())
        );
    });
}

#[test]
fn privileged_changed_mode_name_or_content_is_a_change() {
    privileged(files(&[("a", b"one")]), WRITABLE, None, |volume| {
        let mut generation = fs::read_link(volume.path.join("..data")).unwrap();
        let other_mode = PlanFile {
            path: "a".to_owned(),
            mode: 0o404,
            content: b"two".to_vec(),
        };
        for files in [
            files(&[("a", b"two")]),
            check(&[other_mode], Vec::new()).unwrap(),
            files(&[("b", b"two")]),
            files(&[("b", b"two"), ("c", b"")]),
            files(&[("b", b"two")]),
        ] {
            volume.replace(&files);
            let now = fs::read_link(volume.path.join("..data")).unwrap();
            assert_ne!(now, generation, "{files:?}");
            generation = now;
            volume.assert_shows(&files);
        }
    });
}

#[test]
fn privileged_a_read_only_mount_gets_new_files() {
    privileged(old(), WRITABLE.read_only(true), None, |volume| {
        volume.replace(&new());
        volume.assert_shows(&new());
        let error = fs::write(volume.path.join("x"), "").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    });
}

#[test]
fn privileged_a_killed_swap_leaves_one_whole_generation() {
    privileged(old(), WRITABLE, None, |volume| {
        let clone = clone_mount(&volume.root, WHAT).unwrap();
        for killed_after in 0..=5 {
            volume.replace(&old());
            volume.replace(&old());
            let generation = generation::write(&clone, &new(), None).unwrap();
            if killed_after == 0 {
                fs::remove_file(volume.path.join(&generation).join("d/e/f")).unwrap();
            }
            if killed_after >= 2 {
                symlink(&generation, volume.path.join(fresh_name().unwrap())).unwrap();
            }
            if killed_after >= 3 {
                put_link(&clone, DATA, &generation).unwrap();
            }
            if killed_after >= 4 {
                name_files(&clone, &new()).unwrap();
            }
            if killed_after >= 5 {
                forget_names(&clone, &new()).unwrap();
            }
            let shown = if killed_after < 3 { old() } else { new() };
            assert_eq!(volume.content("..data"), texts(&shown), "{killed_after}");
            volume.replace(&new());
            volume.assert_shows(&new());
            assert!(
                volume.generations() <= 2,
                "{killed_after}: {:?}",
                volume.names()
            );
            volume.replace(&new());
            assert_eq!(
                volume.generations(),
                1,
                "{killed_after}: {:?}",
                volume.names()
            );
        }
    });
}

/// How long a swap waits for the reader before it checks whether the reader has failed.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a reader sees at one time, through the directory to which `..data` leads.
fn snapshot(path: &Path) -> Vec<String> {
    let directory = fs::File::open(path.join("..data")).unwrap();
    let read = |name: &str| {
        let file = open_confined(&directory, name, OFlags::RDONLY).unwrap();
        std::io::read_to_string(fs::File::from(file)).unwrap()
    };
    ["a", "b", "d/c"].map(read).to_vec()
}

#[test]
fn privileged_readers_see_one_generation_during_swaps() {
    let numbered = |number: usize| {
        let text = format!("{number} ").repeat(number % 50 + 1);
        files(&[
            ("a", text.as_bytes()),
            ("b", text.as_bytes()),
            ("d/c", text.as_bytes()),
        ])
    };
    privileged(numbered(0), WRITABLE.read_only(true), None, move |volume| {
        let (is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        let swapper = std::thread::current();
        let read_on = || {
            while !is_over.load(Ordering::Relaxed) {
                let found = snapshot(&volume.path);
                assert!(found[0] == found[1] && found[0] == found[2], "{found:?}");
                for name in ["a", "b", "d/c"] {
                    assert!(!fs::read(volume.path.join(name)).unwrap().is_empty());
                }
                rounds.fetch_add(1, Ordering::Relaxed);
                swapper.unpark();
            }
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(read_on);
            let swapped = (1..=1000).try_for_each(|number| {
                replace(&volume.root, &numbered(number), None)?;
                // The one generation before stays for readers. So the reader may finish its current round, and is then in the next one.
                let before = rounds.load(Ordering::Relaxed);
                while rounds.load(Ordering::Relaxed) == before && !reader.is_finished() {
                    std::thread::park_timeout(PATIENCE);
                }
                Ok::<_, MountError>(())
            });
            is_over.store(true, Ordering::Relaxed);
            swapped.unwrap();
        });
        assert_eq!(snapshot(&volume.path)[0], "1000 ");
    });
}
