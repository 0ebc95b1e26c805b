//! Renewals under readers, and under SIGKILL of the host: what is read is of one generation, whole, and there.

use crate::podfiles::pod::{Arrival, Pod};
use crate::podfiles::{FORMS, assert_nothing_left, serving};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_tests::rounds::rounds;

/// A day's, of a token of an hour that is renewed in time.
const RENEWALS: usize = 100;
/// How often the host is killed in the middle of one.
const KILLS: u32 = 20;
/// How much later in the call each kill comes than the last but one. A renewal takes some milliseconds.
const LATER: Duration = Duration::from_millis(1);
/// Between two looks at a reader.
const LOOK: Duration = Duration::from_micros(200);

/// What one reading gives: generations of the files.
type Reading = fn(&Pod) -> io::Result<BTreeSet<usize>>;

/// A program in the pod that reads all its files, again and again.
struct Reader {
    passes: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reader {
    /// `most`: how many generations one pass may see.
    fn start(pod: &Pod, reading: Reading, most: usize) -> Self {
        let passes = Arc::<AtomicUsize>::default();
        let is_over = Arc::<AtomicBool>::default();
        let (pod, counted, over) = (pod.clone(), passes.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let mut newest = 0;
            while !over.load(Ordering::SeqCst) {
                let found =
                    reading(&pod).unwrap_or_else(|error| panic!("a file is missing: {error}"));
                assert!(found.len() <= most, "a mix of {found:?}");
                let oldest = *found.first().unwrap();
                assert!(oldest >= newest, "{found:?} came after {newest}");
                newest = oldest;
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self {
            passes,
            is_over,
            thread,
        }
    }

    /// Waits until the pass that is under way has ended: a renewal comes a minute after the last, and no reader takes that long.
    async fn passed(&self) {
        let before = self.passes.load(Ordering::SeqCst);
        while self.passes.load(Ordering::SeqCst) == before && !self.thread.is_finished() {
            sleep(LOOK).await;
        }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        assert!(self.passes.load(Ordering::SeqCst) >= rounds(RENEWALS));
    }
}

#[tokio::test]
async fn privileged_a_reader_sees_one_generation_during_renewals() {
    for (split, readonly) in FORMS.into_iter().zip([true, false]) {
        let (host, mut clients) = serving(split).await;
        let pod = Pod::new(&host, "reader");
        let mut request = pod.request(Arrival::Secret, 0);
        request.readonly = readonly;
        clients.node.node_publish_volume(request).await.unwrap();
        // File by file the renewal may come between two; each is whole, and there.
        let readers = [
            Reader::start(&pod, Pod::at_once, 1),
            Reader::start(&pod, Pod::by_paths, 2),
        ];
        for generation in 1..=rounds(RENEWALS) {
            let arrival = Arrival::BOTH[generation % 2];
            let mut request = pod.request(arrival, generation);
            request.readonly = readonly;
            clients.node.node_publish_volume(request).await.unwrap();
            // What was answered is there.
            assert_eq!(pod.at_once().unwrap(), BTreeSet::from([generation]));
            for reader in &readers {
                reader.passed().await;
            }
        }
        readers.into_iter().for_each(Reader::end);
        assert_eq!(host.mounts().unwrap(), std::slice::from_ref(&pod.target));
        pod.unpublish(&clients).await.unwrap();
        assert_nothing_left(&host);
    }
}

#[tokio::test]
async fn privileged_a_killed_renewal_leaves_whole_files() {
    let (mut host, mut clients) = serving(None).await;
    let pod = Pod::new(&host, "survivor");
    pod.publish(&clients, Arrival::Secret, 0).await.unwrap();
    let mut generation = 0;
    let mut renewed = 0;
    for kill in 0..KILLS {
        let renewal = tokio::spawn({
            let (pod, clients) = (pod.clone(), clients.clone());
            let next = generation + 1;
            async move { pod.publish(&clients, Arrival::Secret, next).await }
        });
        let (old, new) = (
            BTreeSet::from([generation]),
            BTreeSet::from([generation + 1]),
        );
        if kill % 2 == 0 {
            sleep(LATER * (kill / 2)).await;
        } else {
            // Just when the files have changed, before that is answered or recorded.
            while pod.at_once().unwrap() == old && !renewal.is_finished() {
                tokio::task::yield_now().await;
            }
        }
        host.kill_9().unwrap();
        let answered = renewal.await.unwrap().is_ok();
        let found = pod.at_once().unwrap();
        assert!(
            found == new || (!answered && found == old),
            "{found:?} {answered}"
        );
        assert_eq!(pod.by_paths().unwrap(), found);
        renewed += u32::from(found == new);
        host.restart().unwrap();
        clients = host.client().await.unwrap();
        // The next round of kubelet's.
        generation += 2;
        pod.publish(&clients, Arrival::Secret, generation)
            .await
            .unwrap();
        assert_eq!(pod.at_once().unwrap(), BTreeSet::from([generation]));
    }
    assert!(renewed >= KILLS / 2, "{renewed}");
    pod.unpublish(&clients).await.unwrap();
    assert_nothing_left(&host);
}
