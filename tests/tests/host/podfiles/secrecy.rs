//! A token lies in its file and nowhere else: not in a log of any level, a journal, a state, an answer, an argument or a variable of a
//! process, and not in what a failed call says.

use crate::podfiles::pod::{Arrival, Pod, TOKENS};
use crate::podfiles::{FORMS, assert_nothing_left, serving_with};
use std::fs;
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_capability::{AccessType, BlockVolume};
use wasmount_csi::wire::csi::v1::{NodePublishVolumeRequest, VolumeCapability};
use wasmount_tests::requests;
use wasmount_tests::secret_search::SecretSearch;
use xtask::clients::Clients;

/// All that the host and what it stands on ever say.
const LEVELS: &str = "trace,h2=trace,hyper=trace,tonic=trace,tower=trace,wasmtime=trace";
/// What must be in the log for a look at it to mean anything: the finest lines of the host's own, and of what it stands on.
const FINEST: [&str; 2] = ["TRACE", "h2::"];

/// What is wrong with a call that carries tokens.
type Mischief = (&'static str, fn(&mut NodePublishVolumeRequest, &Pod));

const MISCHIEF: [Mischief; 9] = [
    ("no JSON", |it, pod| tokens(it, pod.token(1))),
    ("a string", |it, pod| {
        tokens(it, format!("\"{}\"", pod.token(1)));
    }),
    ("no record", |it, pod| {
        tokens(it, format!(r#"{{"a":"{}"}}"#, pod.token(1)));
    }),
    ("cut", |it, pod| {
        tokens(it, format!(r#"{{"a":{{"token":"{}"#, pod.token(1)));
    }),
    ("an audience that is the token", |it, pod| {
        let token = pod.token(1);
        tokens(it, format!(r#"{{"{token}":{{"token":"{token}"}}}}"#));
    }),
    ("an attribute that is the token", |it, pod| {
        it.volume_context.insert(pod.token(1), "x".to_owned());
    }),
    ("a file that is named by it", |it, pod| {
        let key = format!("file./{}", pod.token(1));
        it.volume_context.insert(key, "x".to_owned());
    }),
    ("a target outside", |it, _| {
        it.target_path = "/etc/outside".to_owned();
    }),
    ("a device", |it, _| {
        it.volume_capability = Some(VolumeCapability {
            access_type: Some(AccessType::Block(BlockVolume {})),
            ..requests::capability()
        });
    }),
];

fn tokens(request: &mut NodePublishVolumeRequest, document: String) {
    request.secrets.insert(TOKENS.to_owned(), document);
}

async fn provoke(clients: &Clients, pod: &Pod) {
    for (what, change) in MISCHIEF {
        let mut request = pod.request(Arrival::Secret, 1);
        change(&mut request, pod);
        let refused = clients.clone().node.node_publish_volume(request).await;
        let refused = refused.map(drop).unwrap_err();
        // An audience that contains a token makes the plugin return a plan that shows it.
        let expected = match what {
            "an audience that is the token" => Code::Internal,
            _ => Code::InvalidArgument,
        };
        assert_eq!(refused.code(), expected, "{what}: {refused}");
        assert!(!format!("{refused:?}").contains(&pod.secret), "{what}");
    }
}

#[tokio::test]
async fn privileged_a_token_is_in_its_file_and_nowhere_else() {
    for split in FORMS {
        let (mut host, mut clients) = serving_with(split, &["--log", LEVELS]).await;
        let pod = Pod::new(&host, "secretive");
        provoke(&clients, &pod).await;
        assert!(!pod.target.exists());
        for (generation, arrival) in Arrival::BOTH.into_iter().enumerate() {
            pod.publish(&clients, arrival, generation).await.unwrap();
        }
        // Another way to publish what is there: refused by the mount room, which has had the files.
        let mut request = pod.request(Arrival::Context, 2);
        request.readonly = true;
        let refused = clients.node.node_publish_volume(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists);
        assert!(!format!("{refused:?}").contains(&pod.secret));
        provoke(&clients, &pod).await;

        let search = SecretSearch::of([pod.secret.as_str()]).unwrap();
        let token = fs::read(pod.target.join("..data/token")).unwrap();
        assert_eq!(search.found_in(token), search.all());
        assert_eq!(search.found_around(&host).unwrap(), [""; 0]);
        // Nor in what a killed host leaves.
        host.kill_9().unwrap();
        assert_eq!(search.found_around(&host).unwrap(), [""; 0]);
        host.restart().unwrap();
        let clients = host.client().await.unwrap();
        pod.unpublish(&clients).await.unwrap();
        assert_nothing_left(&host);
        assert_eq!(search.found_around(&host).unwrap(), [""; 0]);
        let log = host.log();
        for word in FINEST {
            assert!(log.contains(word), "nothing of {word} was logged");
        }
    }
}
