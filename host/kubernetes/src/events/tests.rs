//! What is sent to the API server, and what happens when it does not answer.

use super::*;
use crate::tests::api_double::{Reply, api_double};

#[test]
fn a_note_is_cut_between_characters_at_the_api_limit() {
    let cut = shortened("ä".repeat(NOTE_BYTES), NOTE_BYTES);
    assert_eq!(cut.len(), 1023, "one more character would be too much");
    assert!(cut.ends_with("ä…"));
}

#[test]
fn an_event_refers_to_its_object_as_kubectl_looks_for_it() {
    let (name, uid) = ("s".to_owned(), Some("u".to_owned()));
    let api_version = "snapshot.storage.k8s.io/v1";
    let snapshot = About::object(
        api_version,
        "VolumeSnapshot",
        Some("n".to_owned()),
        name,
        uid,
    );
    let reference = snapshot.reference();
    assert_eq!(
        reference.api_version.as_deref(),
        Some("snapshot.storage.k8s.io/v1")
    );
    assert_eq!(reference.uid.as_deref(), Some("u"));
    assert_eq!(About::node("w").reference().uid.as_deref(), Some("w"));
}

fn node() -> About {
    About::node("n")
}

async fn warn(events: &Events, note: &str) -> bool {
    let note = note.to_owned();
    events.warn(&node(), "CSINodeDrift", "Compare", note).await
}

#[tokio::test]
async fn notes_become_events_and_repeated_ones_are_counted() {
    let (client, requests) = api_double(|request| Reply::Object(request.body.clone()));
    let events = Events::new(Some(client), "n".to_owned());
    for note in ["a.b: no entry", "c.d: no entry", "a.b: no label"] {
        assert!(warn(&events, note).await);
    }
    // From the same host, by another component of it.
    assert!(warn(&events.clone(), "c.d: no entry").await);
    let requests = requests.lock().unwrap();
    let notes: Vec<_> = requests
        .iter()
        .map(|it| (it.method.as_str(), it.body["note"].as_str().unwrap()))
        .collect();
    assert_eq!(
        notes,
        [
            ("POST", "a.b: no entry"),
            ("POST", "c.d: no entry"),
            ("POST", "a.b: no label"),
            ("PATCH", "c.d: no entry"),
        ]
    );
    assert_eq!(requests[3].body["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn notes_that_were_not_said_for_long_are_forgotten() {
    let (client, _) = api_double(|request| Reply::Object(request.body.clone()));
    let events = Events::new(Some(client), "n".to_owned());
    for number in 0..100 {
        assert!(warn(&events, &number.to_string()).await);
    }
    tokio::time::sleep(COUNTED).await;
    assert!(warn(&events, "last").await);
    assert_eq!(events.by_note.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_delays_no_driver() {
    let (client, requests) = api_double(|_| Reply::Never);
    let events = Events::new(Some(client), "n".to_owned());
    assert!(!warn(&events, "x").await);
    assert_eq!(requests.lock().unwrap().len(), 1);
}
