//! Channels over a pair of sockets: a message arrives whole, and nothing else is taken for one.

use super::*;
use proptest::prelude::*;

/// A channel, and the socket of the other side.
fn pair() -> (Channel, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Channel(ours), theirs)
}

/// A channel to which the other side sent these bytes, and nothing after them.
async fn after(sent: &[u8]) -> Channel {
    let (channel, mut theirs) = pair();
    theirs.write_all(sent).await.unwrap();
    channel
}

/// The message as the other side receives it.
async fn crossed(message: &[u8]) -> Vec<u8> {
    let (mut channel, theirs) = pair();
    let mut other = Channel(theirs);
    let (sent, received) = tokio::join!(channel.send(message), other.receive(None));
    sent.unwrap();
    received.unwrap().to_vec()
}

#[tokio::test]
async fn a_message_that_is_too_large_is_not_received() {
    let length = u32::try_from(MESSAGE_BYTES).unwrap() + 1;
    let mut channel = after(&length.to_le_bytes()).await;
    let refused = channel.receive(None).await;
    let bytes = MESSAGE_BYTES + 1;
    assert!(
        matches!(refused, Err(Disconnected::Violation(Violation::TooLarge { bytes: found })) if found == bytes),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_large_message_waits_for_a_permit() {
    let none = Semaphore::new(0);
    for (bytes, waits) in [(SMALL_BYTES, false), (SMALL_BYTES + 1, true)] {
        let message = vec![0; bytes];
        let (mut channel, theirs) = pair();
        let mut other = Channel(theirs);
        let receiving = timeout(Duration::from_millis(50), other.receive(Some(&none)));
        let (_, received) = tokio::join!(channel.send(&message), receiving);
        assert_eq!(received.is_err(), waits, "{bytes}");
    }
}

#[tokio::test]
async fn a_message_that_is_cut_short_is_not_a_message() {
    let whole = [&3u32.to_le_bytes()[..], b"abc"].concat();
    for end in 1..whole.len() {
        let cut = after(&whole[..end]).await.receive(None).await;
        assert!(matches!(cut, Err(Disconnected::Half)), "{end}: {cut:?}");
    }
    let none = after(b"").await.receive(None).await;
    assert!(matches!(none, Err(Disconnected::Closed)), "{none:?}");
    let message = after(&whole).await.receive(None).await.unwrap();
    assert_eq!(message.as_slice(), b"abc");
}

#[tokio::test]
async fn a_greeting_is_understood_as_far_as_its_version_is() {
    let ours = Greeting::of(BootId::new_v4());
    assert_eq!(after(&ours.bytes()).await.greeting().await.unwrap(), ours);
    let later = |rest: &[u8]| [&b"wasmount"[..], &(VERSION + 2).to_le_bytes(), rest].concat();
    for rest in [&b""[..], b"and more of it than ours has"] {
        let greeting = after(&later(rest)).await.greeting().await.unwrap();
        assert_eq!(greeting.version, VERSION + 2);
    }
    let refused = after(b"GET / HTTP/1.1").await.greeting().await;
    assert!(
        matches!(refused, Err(Disconnected::Violation(Violation::NoGreeting))),
        "{refused:?}"
    );
    let ours = ours.bytes();
    for cut in [&ours[..11], &ours[..12], &ours[..27]] {
        let refused = after(cut).await.greeting().await;
        assert!(
            matches!(refused, Err(Disconnected::Half | Disconnected::Closed)),
            "{refused:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_message_crosses(bytes in 1usize..(5 * SMALL_BYTES)) {
        let message: Vec<u8> = (0..bytes).map(|it| it.to_le_bytes()[0]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        prop_assert!(runtime.block_on(crossed(&message)) == message);
    }
}
