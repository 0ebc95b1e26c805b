//! The token of a service account as kubelet projects it into a pod: bound to the pod, and with it to the node.

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use xtask::failure::Failure;

/// Creates a pod of the account on the node, and returns its token.
pub async fn token_on(
    client: &Client,
    namespace: &str,
    account: &str,
    node: &str,
) -> Result<String, Failure> {
    let what = format!("a token of {account} on {node}");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": format!("{account}-{node}") },
        "spec": {
            "serviceAccountName": account, "automountServiceAccountToken": false, "nodeName": node,
            "containers": [{ "name": "c", "image": "none" }],
        },
    }))
    .map_err(Failure::cannot(what.clone()))?;
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let parameters = PostParams::default();
    let pod = pods
        .create(&parameters, &pod)
        .await
        .map_err(Failure::cannot(what.clone()))?;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            bound_object_ref: Some(BoundObjectReference {
                kind: Some("Pod".to_owned()),
                api_version: Some("v1".to_owned()),
                name: pod.metadata.name,
                uid: pod.metadata.uid,
            }),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let given = accounts.create_token_request(account, &parameters, &request);
    let status = given.await.map_err(Failure::cannot(what.clone()))?.status;
    let token = status.and_then(|it| it.token);
    token.ok_or_else(|| {
        Failure::Unexpected(format!("{what} was asked for, and the answer has none"))
    })
}
