//! Each fault against an array, by what arrives and what the array holds afterwards.

use super::*;
use crate::array::{Array, ArrayOptions, PASSWORD, USER};
use serde_json::json;
use tokio::io::AsyncReadExt;

/// Faults of the test of randomness.
const DRAWN: usize = 200;

/// Sends one request over a connection of its own; the answer, as much as arrives.
async fn send(to: SocketAddr, head: &str, token: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: array\r\nconnection: close\r\nx-auth-token: {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut answer = Vec::new();
    // A connection that is closed before it is read may be reset.
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn log_in(array: &Array) -> String {
    let body = json!({ "user": USER, "password": PASSWORD }).to_string();
    let answer = send(array.address(), "POST /api/sessions", "", &body).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let token: serde_json::Value = serde_json::from_str(body).unwrap();
    token["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_fault_does_what_its_name_says() {
    let array = Array::start(ArrayOptions::default()).await.unwrap();
    let token = log_in(&array).await;
    let rate = FaultRate { of: 0, seed: 0 };
    let proxy = FaultProxy::start(array.address(), rate).await.unwrap();
    let (mut created, mut unheard, mut answered) = (0, 0, 0);
    for (number, (fault, arrives, done, lost)) in [
        (Fault::Refuse, "", 0, 0),
        (Fault::DropBefore, "", 0, 0),
        (Fault::DropAfter, "", 1, 1),
        (Fault::Delay, "HTTP/1.1 201", 1, 0),
        (Fault::Truncate, "HTTP/1.1 201", 1, 1),
        (Fault::DuplicateAnsweredLast, "HTTP/1.1 409", 1, 1),
        (Fault::DuplicateAnsweredFirst, "HTTP/1.1 201", 1, 1),
        (Fault::Reorder, "HTTP/1.1 201", 1, 0),
        (Fault::Busy, "HTTP/1.1 503", 0, 0),
        (Fault::TooMany, "HTTP/1.1 429", 0, 0),
        (Fault::BrokenAfter, "HTTP/1.1 500", 1, 1),
    ]
    .into_iter()
    .enumerate()
    {
        proxy.force(fault);
        let body = json!({ "name": format!("{number}"), "bytes": 1 }).to_string();
        let answer = send(proxy.address(), "POST /api/volumes", &token, &body).await;
        assert!(answer.starts_with(arrives), "{fault:?}: {answer}");
        assert_eq!(answer.is_empty(), arrives.is_empty(), "{fault:?}: {answer}");
        let is_whole = answer.ends_with('}');
        assert!(!(is_whole && fault == Fault::Truncate), "{answer}");
        created += done;
        unheard += lost;
        answered += match fault {
            Fault::DuplicateAnsweredLast | Fault::DuplicateAnsweredFirst => 2,
            _ => done,
        };
        assert_eq!(array.counts().volumes.len(), created, "{fault:?}");
        assert_eq!(proxy.done().get(&fault), Some(&1));
        assert_eq!(proxy.unheard("POST /api/volumes"), unheard, "{fault:?}");
        assert_eq!(proxy.answered("POST /api/volumes"), answered, "{fault:?}");
    }
}

#[tokio::test]
async fn a_mended_proxy_passes_everything_on() {
    let array = Array::start(ArrayOptions::default()).await.unwrap();
    let token = log_in(&array).await;
    let rate = FaultRate { of: 1, seed: 1 };
    let proxy = FaultProxy::start(array.address(), rate).await.unwrap();
    proxy.force(Fault::DropAfter);
    proxy.mend();
    let answer = send(proxy.address(), "GET /api/volumes", &token, "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = send(proxy.address(), "GET /api/volumes", "none", "").await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(proxy.done().is_empty());
}

#[test]
fn a_seed_gives_the_same_faults_and_another_seed_others() {
    let drawn = |seed| -> Vec<_> {
        let mut chance = Chance {
            rng: Rng::with_seed(seed),
            one_of: 3,
            ..Chance::default()
        };
        (0..DRAWN).map(|_| chance.next()).collect()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    let of_one = drawn(1);
    let faults = of_one.iter().flatten().count();
    assert!((DRAWN / 6..DRAWN / 2).contains(&faults), "{faults}");
    assert!(FAULTS.iter().all(|fault| of_one.contains(&Some(*fault))));
}

#[test]
fn connections_are_counted_together_and_at_a_time() {
    let mut connections = Connections::default();
    connections.opened();
    connections.opened();
    connections.open -= 1;
    connections.opened();
    let expected = Connections {
        accepted: 3,
        open: 2,
        most: 2,
    };
    assert_eq!(connections, expected);
}
