//! What a killed host leaves. The test edits the journal to the state of that moment; the state of kernel and target is real.

use super::target::{Lio, assert_nothing_left, disks, sessions, wwid};
use super::volume::{DRIVER, Volume, host, host_of};
use crate::support::until;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::time::{Duration, Instant};

/// How long a start may take that waits for no target, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_staged_disk_outlives_its_host() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Volume::of(1, 1);
    host.stage(&volume).await.unwrap();
    let host = host.restarted();
    host.recover().await;
    assert_eq!((sessions().len(), disks().len()), (1, 1));
    host.stage(&volume).await.unwrap();
    fs::write(host.staging(&volume).join("file"), "kept").unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_what_a_killed_host_began_is_undone() {
    let lio = Lio::start();
    lio.offer(1, 1);
    // Being staged or unstaged, before and after the mount.
    for progress in ["Coming", "Going"] {
        for is_mounted in [true, false] {
            let host = host();
            let volume = Volume::of(1, 1);
            host.stage(&volume).await.unwrap();
            let [file] = host.journal().try_into().unwrap();
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("Settled", progress)).unwrap();
            if !is_mounted {
                unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
            }
            let host = host.restarted();
            host.recover().await;
            assert_nothing_left();
            assert_eq!(host.journal().len(), 0);
            host.stage(&volume).await.unwrap();
            host.unstage(&volume).await.unwrap();
            assert_nothing_left();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_record_without_a_session_is_dropped() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Volume::of(1, 1);
    host.stage(&volume).await.unwrap();
    // As a reboot takes mount, disk and session.
    let [file] = host.journal().try_into().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    let mut host = host;
    for progress in ["Settled", "Coming", "Going"] {
        fs::write(&file, text.replace("Settled", progress)).unwrap();
        host = host.restarted();
        host.recover().await;
        assert_eq!(host.journal().len(), 0, "{progress}");
    }
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_session_without_a_record_is_ended() {
    let lio = Lio::start();
    lio.offer(1, 1);
    for answers in [true, false] {
        let host = host();
        let volume = Volume::of(1, 1);
        host.stage(&volume).await.unwrap();
        let host = host.restarted_without_run_directory();
        unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
        assert_eq!((sessions().len(), disks().len()), (1, 1));
        lio.answer(answers);
        let begin = Instant::now();
        host.recover().await;
        // A target that is away delays no start.
        assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
        assert_nothing_left();
        lio.answer(true);
        host.stage(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_session_in_use_or_of_others_stays() {
    let lio = Lio::start();
    let mut raw = Volume::of(2, 2);
    raw.is_raw = true;
    for volume in [Volume::of(1, 1), raw] {
        let number = volume.paths[0].lun;
        lio.offer(number, number.into());
        // Of another driver, without a record too.
        lio.offer(number + 2, (number + 2).into());
        let other = host_of("other.test");
        let others = Volume::of(number + 2, (number + 2).into());
        other.stage(&others).await.unwrap();
        let other = other.restarted_without_run_directory();
        unmount(other.staging(&others), UnmountFlags::empty()).unwrap();

        let host = host();
        host.stage(&volume).await.unwrap();
        host.publish(&volume).await.unwrap();
        let host = host.restarted_without_run_directory();
        host.recover().await;
        // To end a session takes longer than to see that it is in use.
        other.recover().await;
        until("the other session ends", || sessions().len() == 1);
        assert_eq!(disks(), [wwid(number.into())]);
        host.unpublish(&volume).await.unwrap();
        host.unstage(&volume).await.unwrap();
        host.recover().await;
        assert_nothing_left();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_only_unused_disks_without_record_go() {
    let lio = Lio::start();
    let volumes = [1, 2, 3, 4].map(|number| {
        lio.offer(number, number.into());
        Volume::of(number, number.into())
    });
    let [recorded, mut raw, unused, mounted] = volumes;
    raw.is_raw = true;
    let host = host();
    for volume in [&recorded, &raw, &unused, &mounted] {
        host.stage(volume).await.unwrap();
    }
    host.publish(&raw).await.unwrap();
    unmount(host.staging(&unused), UnmountFlags::empty()).unwrap();
    for file in host.journal() {
        let text = fs::read_to_string(&file).unwrap();
        if !text.contains(&recorded.wwid) {
            fs::remove_file(file).unwrap();
        }
    }
    let host = host.restarted();
    host.recover().await;
    until("the unused disk goes", || disks().len() == 3);
    assert_eq!(disks(), [wwid(1), wwid(2), wwid(4)]);
    fs::write(host.staging(&recorded).join("file"), "written").unwrap();
    fs::write(host.staging(&mounted).join("file"), "written").unwrap();
    host.unpublish(&raw).await.unwrap();
    for volume in [&raw, &mounted, &recorded] {
        host.unstage(volume).await.unwrap();
    }
    // A teardown without a record leaves the disk to the next start.
    host.recover().await;
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_without_a_document_is_detached() {
    let lio = Lio::start();
    lio.offer(1, 1);
    for progress in ["Settled", "Coming", "Going"] {
        let host = host();
        let volume = Volume::of(1, 1);
        host.stage(&volume).await.unwrap();
        unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
        let [file] = host.journal().try_into().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("Settled", progress)).unwrap();
        // A driver with a document asks for its recovery itself.
        let host = host.restarted_beside(&[DRIVER]).await;
        assert_eq!((sessions().len(), disks().len()), (1, 1));
        let host = host.restarted_beside(&["other.test"]).await;
        assert_nothing_left();
        assert_eq!(host.journal().len(), 0, "{progress}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_disks_in_use_stay_without_a_document() {
    let lio = Lio::start();
    let volumes = [1, 2, 3].map(|number| {
        lio.offer(number, number.into());
        Volume::of(number, number.into())
    });
    let [mounted, mut raw, mut staged] = volumes;
    (raw.is_raw, staged.is_raw) = (true, true);
    let host = host();
    for volume in [&mounted, &raw, &staged] {
        host.stage(volume).await.unwrap();
    }
    host.publish(&mounted).await.unwrap();
    host.publish(&raw).await.unwrap();
    let file = host.target(&mounted).join("file");
    fs::write(&file, "kept").unwrap();
    let host = host.restarted_without_document().await;
    assert_eq!((sessions().len(), disks().len()), (1, 3));
    assert_eq!(host.journal().len(), 3);
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    // A teardown needs no document.
    for volume in [&mounted, &raw, &staged] {
        host.unpublish(volume).await.unwrap();
        host.unstage(volume).await.unwrap();
    }
    assert_nothing_left();
    assert_eq!(host.journal().len(), 0);
}
