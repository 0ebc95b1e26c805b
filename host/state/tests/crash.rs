//! A host that is killed at any moment loses nothing that it acknowledged. A separate process, since only that can be killed.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows only the marked functions as tests"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use wasmount_core::names::DriverName;
use wasmount_core::state::{Expect, Keyspace, KeyspaceOwner, StateStore};
use wasmount_state::RedbStore;

const KILLS: u64 = 25;
const WRITERS: u64 = 4;
const DIRECTORY: &str = "WASMOUNT_TEST_STATE_DIRECTORY";

fn space() -> Keyspace {
    Keyspace {
        driver: DriverName::parse("crash").unwrap(),
        owner: KeyspaceOwner::Backend,
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that the other test kills"]
async fn writer() {
    let directory = std::env::var_os(DIRECTORY).expect("started by the other test");
    let store = RedbStore::open(Path::new(&directory)).unwrap();
    let start = store.scan(&space(), "", None, 1000).await.unwrap().len();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for i in start.. {
                    let key = format!("{writer}/{i}");
                    let value = key.repeat(20).into_bytes();
                    let put = store.put(&space(), &key, value, Expect::Any).await;
                    put.unwrap();
                    store.sync().await.unwrap();
                    writeln!(std::io::stdout().lock(), "acknowledged {key}").unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn what_a_killed_host_acknowledged_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["writer", "--exact", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .filter_map(|line| line.strip_prefix("acknowledged ").map(str::to_owned))
                .collect::<Vec<_>>()
        });
        // From the middle of opening to some hundred commits later.
        std::thread::sleep(Duration::from_millis(3 + kill * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(reader.join().unwrap());

        let store = RedbStore::open(directory.path()).unwrap();
        for key in &acknowledged {
            let entry = store.get(&space(), key).await.unwrap();
            let value = entry.expect("an acknowledged write is gone").value;
            assert_eq!(value, key.repeat(20).into_bytes());
        }
    }
    assert!(!acknowledged.is_empty(), "every kill came too early");
}
