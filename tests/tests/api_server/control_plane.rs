//! The control plane that other tests stand on: what they take for granted of it is shown here, once.

use crate::server::Server;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use xtask::cluster;
use xtask::cluster::access::{NODE_NAME, User};

const NAMESPACE: &str = "default";

fn named<T>(name: &str, of: impl FnOnce(ObjectMeta) -> T) -> T {
    of(ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    })
}

fn node(name: &str) -> Node {
    named(name, |metadata| Node {
        metadata,
        ..Node::default()
    })
}

async fn create_node(client: Client, name: &str) -> Result<Node, kube::Error> {
    let nodes = Api::<Node>::all(client);
    nodes.create(&PostParams::default(), &node(name)).await
}

/// HTTP's number of a refusal.
fn refusal<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> u16 {
    match outcome {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("no refusal: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_lets_a_node_touch_only_itself() {
    let server = Server::shared().await;
    let client = server.plane.client_of(User::Node).await.unwrap();
    create_node(client.clone(), NODE_NAME).await.unwrap();
    assert_eq!(refusal(create_node(client.clone(), "another").await), 403);
    let maps = Api::<ConfigMap>::namespaced(client, NAMESPACE);
    assert_eq!(refusal(maps.list(&Default::default()).await), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_issues_and_reviews_tokens() {
    let server = Server::shared().await;
    let admin = server.client().await;
    let accounts = Api::<ServiceAccount>::namespaced(admin, NAMESPACE);
    let account = named("driver", |metadata| ServiceAccount {
        metadata,
        ..ServiceAccount::default()
    });
    let parameters = PostParams::default();
    accounts.create(&parameters, &account).await.unwrap();
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let given = accounts
        .create_token_request("driver", &parameters, &request)
        .await
        .unwrap();
    let token = given.status.unwrap().token.unwrap();
    let client_of = async |token: &str| {
        let path = server.plane.kubeconfig_of("driver", token).unwrap();
        cluster::client(&path).await.unwrap()
    };
    // 403: it is known, and may do nothing. 401: it is not known.
    let known = client_of(&token).await;
    assert_eq!(refusal(create_node(known, "n").await), 403);
    let unknown = client_of("made-up").await;
    assert_eq!(refusal(create_node(unknown, "n").await), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_restarts_with_its_objects() {
    let server = Server::start().await;
    let plane = &server.plane;
    let client = server.client().await;
    create_node(client.clone(), NODE_NAME).await.unwrap();
    let nodes = Api::<Node>::all(client);
    plane.stop_api();
    nodes.get(NODE_NAME).await.unwrap_err();
    plane.start_api().await.unwrap();
    nodes.get(NODE_NAME).await.unwrap();
    plane.stop_etcd();
    plane.start_etcd().unwrap();
    plane.ready().await.unwrap();
    nodes.get(NODE_NAME).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_ends_with_its_owner() {
    let server = Server::start().await;
    let client = server.client().await;
    let nodes = Api::<Node>::all(client);
    nodes.list(&Default::default()).await.unwrap();
    drop(server);
    let start = std::time::Instant::now();
    while nodes.list(&Default::default()).await.is_ok() {
        assert!(start.elapsed().as_secs() < 30, "it still answers");
    }
}
