//! Copies of copies: each generation holds what the one before held at that moment, and from then on none hears of another, in whatever order
//! they go.

use crate::conformance::driver::Driver;
use wasmount_tests::copies::{begun_with, cloned, delete_snapshot, restored, snapshot};
use wasmount_tests::kinds::{Kind, random_bytes};

/// No whole number of blocks.
const CONTENT_BYTES: usize = 50_003;

/// Clones of clones; every second one by way of a snapshot.
const GENERATIONS: usize = 4;

async fn generations_stand_alone(kind: Kind, file_system: &str) {
    let driver = Driver::over(file_system).await;
    let orchestrator = &driver.orchestrator;
    let mut content = random_bytes(CONTENT_BYTES);
    let first = kind.created(orchestrator, "generation-0").await.unwrap();
    kind.set_up(orchestrator, &first).await.unwrap();
    kind.write(&first.target, &content).unwrap();
    let mut family = vec![(first, content.clone())];
    let mut snapshots = Vec::new();
    for number in 1..=GENERATIONS {
        let (parent, _) = family.last().unwrap();
        // What is copied is not being written: a directory has no moment of its own otherwise.
        orchestrator.unpublish(parent).await.unwrap();
        orchestrator.unstage(parent).await.unwrap();
        let from = if number % 2 == 0 {
            let taken = snapshot(orchestrator, &parent.id, &format!("taken-{number}"))
                .await
                .unwrap();
            snapshots.push(taken.clone());
            restored(&taken)
        } else {
            cloned(&parent.id)
        };
        kind.set_up(orchestrator, parent).await.unwrap();
        let name = format!("generation-{number}");
        let child = begun_with(orchestrator, kind, &name, from).await.unwrap();
        let found = kind.read(&child.target, CONTENT_BYTES).unwrap();
        assert!(
            found == content,
            "{kind:?}: generation {number} begins with other bytes"
        );
        content = random_bytes(CONTENT_BYTES);
        kind.write(&child.target, &content).unwrap();
        family.push((child, content.clone()));
    }
    // The oldest is deleted first: nothing depends on it.
    while !family.is_empty() {
        for (volume, content) in &family {
            let found = kind.read(&volume.target, CONTENT_BYTES).unwrap();
            assert!(
                found == *content,
                "{kind:?}: {} holds other bytes",
                volume.target.display()
            );
        }
        let (oldest, _) = family.remove(0);
        orchestrator.tear_down(&oldest).await.unwrap();
        if !snapshots.is_empty() {
            delete_snapshot(orchestrator, &snapshots.remove(0))
                .await
                .unwrap();
        }
    }
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_generations_of_directories_stand_alone() {
    generations_stand_alone(Kind::Directory, "btrfs").await;
}

#[tokio::test]
async fn privileged_generations_of_ext4_images_stand_alone() {
    generations_stand_alone(Kind::Filesystem("ext4"), "xfs").await;
}

#[tokio::test]
async fn privileged_generations_of_raw_block_images_stand_alone() {
    generations_stand_alone(Kind::Block, "ext4").await;
}
