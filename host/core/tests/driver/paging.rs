//! Lists: the backend's pages joined into one answer, up to the client's limit.

use crate::backend::entry;
use crate::common::*;
use crate::script::Act;
use std::time::Duration;
use wasmount_core::backend::BackendError;
use wasmount_core::error::Error;
use wasmount_core::volume::{Page, PageRequest, VolumeEntry};

fn with_volumes(bench: &Bench, count: usize) {
    *bench.backend.entries.lock().unwrap() = (0..count)
        .map(|number| entry(&format!("v{number}")))
        .collect();
}

async fn list(
    bench: &Bench,
    max_entries: Option<u32>,
    starting_token: Option<String>,
) -> Result<Page<VolumeEntry>, Error> {
    let page = PageRequest {
        max_entries,
        starting_token,
    };
    bench.driver.list_volumes(incoming(), page).await
}

/// The requested number of entries of each page.
fn asked(bench: &Bench) -> Vec<String> {
    let calls = bench.backend.script.calls();
    let listed = calls
        .iter()
        .filter_map(|call| call.strip_prefix("list_volumes "));
    listed.map(str::to_owned).collect()
}

#[tokio::test]
async fn everything_is_one_answer_where_the_client_sets_no_limit() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, 2500);
    let all = list(&bench, None, None).await.unwrap();
    assert_eq!((all.entries.len(), all.next_token), (2500, None));
    assert_eq!(asked(&bench), ["1000", "1000", "1000"]);
}

#[tokio::test]
async fn a_limit_over_backend_pages_is_reached_and_not_exceeded() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, 10);
    *bench.backend.page_entries.lock().unwrap() = 3;
    let page = list(&bench, Some(7), None).await.unwrap();
    assert_eq!(
        (page.entries.len(), page.next_token.as_deref()),
        (7, Some("7"))
    );
    assert_eq!(asked(&bench), ["7", "4", "1"]);
    let rest = list(&bench, Some(7), page.next_token).await.unwrap();
    assert_eq!((rest.entries.len(), rest.next_token), (3, None));
}

#[tokio::test]
async fn entries_above_the_answer_size_follow_once_in_the_next() {
    let bench = full_in_1_13(&[]);
    let context = attributes(&[("note", &"n".repeat(4000))]);
    let volumes = (0..2000).map(|number| {
        let mut listed = entry(&format!("v{number}"));
        listed.volume.context = context.clone();
        listed
    });
    *bench.backend.entries.lock().unwrap() = volumes.collect();
    *bench.backend.page_entries.lock().unwrap() = 100;
    let (mut seen, mut token) = (Vec::new(), None);
    loop {
        let page = list(&bench, None, token).await.unwrap();
        // 4 kB each: below the 4 MiB limit of clients.
        assert!((1..=1000).contains(&page.entries.len()));
        seen.extend(
            page.entries
                .into_iter()
                .map(|entry| entry.volume.id.into_string()),
        );
        token = page.next_token;
        if token.is_none() {
            break;
        }
    }
    let all: Vec<_> = (0..2000).map(|number| format!("v{number}")).collect();
    assert_eq!(seen, all);
}

/// The limit of Go's clients, in bytes (`defaultClientMaxReceiveMessageSize` of grpc-go).
const CLIENT_BYTES: usize = 4 << 20;

#[tokio::test]
async fn a_first_page_that_no_client_takes_is_asked_for_in_halves() {
    let bench = full_in_1_13(&[]);
    // The largest entry that a plugin may return: 4 KiB each.
    let note = "n".repeat(4096 - "note".len());
    let context = attributes(&[("note", &note)]);
    let volumes = (0..1500).map(|number| {
        let mut listed = entry(&format!("v{number}"));
        listed.volume.context = context.clone();
        listed
    });
    *bench.backend.entries.lock().unwrap() = volumes.collect();
    let (mut seen, mut token) = (Vec::new(), None);
    loop {
        let page = list(&bench, Some(1000), token).await.unwrap();
        assert!(page.entries.len() * 4096 < CLIENT_BYTES);
        let ids = page.entries.into_iter().map(|entry| entry.volume.id);
        seen.extend(ids.map(|id| id.into_string()));
        token = page.next_token;
        if token.is_none() {
            break;
        }
    }
    let all: Vec<_> = (0..1500).map(|number| format!("v{number}")).collect();
    assert_eq!(seen, all);
    assert_eq!(asked(&bench)[..2], ["1000", "500"]);
}

#[tokio::test]
async fn one_entry_above_the_bound_is_sent_and_not_asked_for_for_ever() {
    let bench = full_in_1_13(&[]);
    let context = attributes(&[("note", &"n".repeat(CLIENT_BYTES))]);
    let volumes = (0..3).map(|number| {
        let mut listed = entry(&format!("v{number}"));
        listed.volume.context = context.clone();
        listed
    });
    *bench.backend.entries.lock().unwrap() = volumes.collect();
    let page = list(&bench, None, None).await.unwrap();
    assert_eq!(
        (page.entries.len(), page.next_token.as_deref()),
        (1, Some("1"))
    );
    assert_eq!(asked(&bench), ["1000", "1", "1"]);
}

#[tokio::test]
async fn a_list_that_leads_back_to_a_page_is_the_plugins_fault() {
    for (first, again) in [(None, "0"), (Some("0".to_owned()), "0")] {
        let bench = full_in_1_13(&[]);
        with_volumes(&bench, 1);
        *bench.backend.same_token.lock().unwrap() = Some(again.to_owned());
        let error = list(&bench, None, first).await.unwrap_err();
        let Error::Backend(BackendError::BadAnswer {
            plugin, function, ..
        }) = &error
        else {
            panic!("{error}");
        };
        assert_eq!((plugin.name.as_str(), *function), ("fake", "list-volumes"));
    }
}

#[tokio::test]
async fn a_list_has_a_bounded_number_of_empty_pages() {
    for (empty, is_taken) in [(1000, true), (1001, false)] {
        let bench = full_in_1_13(&[]);
        with_volumes(&bench, 3);
        *bench.backend.empty_pages.lock().unwrap() = empty;
        match list(&bench, None, None).await {
            Ok(page) => assert!(is_taken && page.entries.len() == 3, "{empty}"),
            Err(error) => {
                let told = "more than 1000 of its pages have no entry";
                assert!(!is_taken && error.to_string().contains(told), "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_ends_with_the_time_of_its_call() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, 1000);
    *bench.backend.page_entries.lock().unwrap() = 1;
    // 1000 pages of 1 s each.
    bench
        .backend
        .script
        .on("list_volumes", Act::After(Duration::from_secs(1)));
    let error = list(&bench, None, None).await.unwrap_err();
    let told = "did not answer list-volumes within 60 s";
    assert!(error.to_string().contains(told), "{error}");
    assert!(asked(&bench).len() <= 61);
}
