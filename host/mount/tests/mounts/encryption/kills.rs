//! Programs that are killed at every moment of the first stage, and what a killed host leaves: the next call ends well.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::thread::JoinHandle;

/// How often a program may end before it is seen, on a busy machine.
const ATTEMPTS: usize = 10;

/// Kills the first process whose arguments begin so, a while after it was seen. Returns whether there was one.
fn kill(words: &'static str, after: Duration, end: Arc<AtomicBool>) -> JoinHandle<bool> {
    std::thread::spawn(move || {
        let programs = Programs::new();
        while !end.load(Ordering::Relaxed) {
            for (process, mut arguments) in programs.running() {
                arguments.iter_mut().for_each(|it| *it = (*it).max(b' '));
                let id = process.file_name().unwrap().to_str();
                let id = id.and_then(|it| it.parse().ok());
                if let (true, Some(id)) = (arguments.starts_with(words.as_bytes()), id) {
                    // Its moment of death; if it ended before, the next attempt kills earlier.
                    std::thread::sleep(after);
                    return kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).is_ok();
                }
            }
            std::thread::sleep(LOOK);
        }
        false
    })
}

#[test]
fn on_other_kernel_a_first_stage_that_is_killed_ends_well_next() {
    privileged_alone(async |bench| {
        for (words, moments, is_formatted) in [
            ("cryptsetup luksFormat", [100, 0], false),
            ("cryptsetup open", [200, 0], false),
            ("cryptsetup config", [10, 0], true),
            ("mkfs.ext4", [10, 0], true),
        ] {
            let mut kills = 0;
            let attempts = moments.into_iter().chain([0; ATTEMPTS]);
            for milliseconds in attempts {
                if kills > 0 {
                    break;
                }
                let volume = match is_formatted {
                    true => prepared(&bench, "v", "ext4", 48).await,
                    false => Volume::of_image(&bench, "v", "ext4", 48).await,
                };
                let volume = volume.encrypted_by(PASSPHRASE);
                let is_over = Arc::new(AtomicBool::new(false));
                let killed = kill(words, Duration::from_millis(milliseconds), is_over.clone());
                let staged = volume.stage().await;
                is_over.store(true, Ordering::Relaxed);
                let is_killed = killed.join().unwrap();
                if staged.is_err() {
                    assert!(is_killed, "{staged:?}");
                    kills += 1;
                    bench.assert_clean();
                    assert_eq!(maps(), [""; 0], "{words} {milliseconds}");
                }
                volume.stage().await.unwrap();
                volume.publish("a").await.unwrap();
                write(&volume, "a");
                assert_eq!(read(&volume, "a"), PLAIN, "{words} {milliseconds}");
                end(&volume, &["a"]).await;
                let call = PoolCall::RemoveImage {
                    pool: "main".to_owned(),
                    path: "v.img".to_owned(),
                };
                bench.mounter.pool(driver(), call).await.unwrap();
            }
            assert!(kills > 0, "{words}");
        }
    });
}

#[test]
fn on_other_kernel_a_host_killed_before_the_mount_is_recovered() {
    privileged(|bench| async move {
        let plan = bench.image("v", 48 * MEBIBYTE).await;
        luks_format(&image(&bench, "v"));
        let access_type = crate::volume::mounted_as("ext4");
        let volume = Volume::new(&bench, "v", plan, access_type).encrypted_by(PASSPHRASE);
        volume.stage().await.unwrap();
        take_off(bench.staging("v"));
        drop(volume);
        // The map is open, nothing is mounted, and the stage is recorded as being made.
        bench.edit_journal("Settled", "Coming");
        let bench = bench.restarted();
        assert_eq!(maps().len(), 1);
        let unsettled = bench.mounter.unsettled(driver()).await;
        assert_eq!(unsettled, Ok(vec![key("v").volume]));
        bench.mounter.recover(key("v")).await.unwrap();
        bench.assert_clean();
        bench.assert_no_loop_devices();
        assert_eq!(maps(), [""; 0]);
    });
}

#[test]
fn on_other_kernel_only_a_new_header_without_a_key_is_replaced() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 48).await;
        let volume = volume.encrypted_by(PASSPHRASE);
        volume.stage().await.unwrap();
        end(&volume, &[]).await;
        let path = image(&bench, "v");
        let path = path.display();
        let erase = format!("cryptsetup luksErase --batch-mode {path}");
        shell(&format!(
            "cryptsetup config --label=wasmount-new {path} && {erase}"
        ));
        volume.stage().await.unwrap();
        end(&volume, &[]).await;
        // In use, it is never replaced.
        shell(&erase);
        let before = fs::read(image(&bench, "v")).unwrap();
        let text = refused(volume.stage().await);
        assert!(text.contains("has no key"), "{text}");
        assert!(before == fs::read(image(&bench, "v")).unwrap());
    });
}
