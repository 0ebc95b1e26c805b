//! Objects planted at the target of a raw block volume: nothing is written through them, hidden under the device or removed with it.

use super::*;
use crate::volume::Volume;
use std::os::unix::fs::{FileTypeExt, symlink};

#[test]
fn privileged_a_planted_raw_target_is_rejected_and_kept() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "planted", "raw", 1).await;
        volume.stage().await.unwrap();
        let outside = bench.path("outside/file");
        fs::write(&outside, "").unwrap();
        let at = |name: &str| bench.target(name);
        symlink(&outside, at("link")).unwrap();
        symlink(bench.path("outside/missing"), at("dangling")).unwrap();
        symlink(bench.path("kubelet/stage-planted"), at("inside")).unwrap();
        run("mkfifo", &[text(&at("pipe"))]);
        run("mknod", &[text(&at("node")), "c", "1", "3"]);
        fs::create_dir(at("empty")).unwrap();
        fs::create_dir(at("full")).unwrap();
        fs::write(at("full").join("data"), "kept").unwrap();
        fs::write(at("file"), "kept").unwrap();
        for (name, published, unpublished) in [
            ("link", "OutsideRoots", "OutsideRoots"),
            ("dangling", "OutsideRoots", "OutsideRoots"),
            ("inside", "OutsideRoots", "OutsideRoots"),
            ("pipe", "OtherwiseThere", "InUse"),
            ("node", "OtherwiseThere", "InUse"),
            ("full", "OtherwiseThere", "InUse"),
            ("file", "OtherwiseThere", "InUse"),
        ] {
            for readonly in [false, true] {
                let refused = volume.publish_as(name, WRITER, readonly).await;
                assert_eq!(variant(refused), published, "{name}");
            }
            assert_eq!(variant(volume.unpublish(name).await), unpublished, "{name}");
        }
        let refused = volume.publish("empty").await;
        assert_eq!(variant(refused), "OtherwiseThere");
        // An empty directory counts as missing: the undo removes it.
        assert!(!at("empty").exists());
        assert_eq!(bench.mounts(), []);
        // Nothing was created through a link, and the planted objects are unchanged.
        assert!(!bench.path("outside/missing").exists());
        assert!(at("link").is_symlink() && at("dangling").is_symlink());
        assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "kept");
        let kept = at("full").join("data");
        assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
        for name in ["link", "dangling", "inside", "pipe", "node", "file"] {
            fs::remove_file(at(name)).unwrap();
        }
        fs::remove_dir_all(at("full")).unwrap();
        assert_eq!(bench.loop_devices(), 1);
        volume.end(&[]).await;
    });
}
