//! OpenStack's metadata service, which tells each instance about itself. The host asks it, and no plugin does: one fixed request to a link-local
//! address, with the checks, limits and repetitions of a grant.

use crate::Network;
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::policy::Scope;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::document::network::{
    Auth, Host, HostName, NetworkGrant, Protocol, Rate, Scheme, ServiceName, Timeouts, Tls,
};
use wasmount_core::node_fact::{
    Instance, InvalidMetaData, META_DATA_BYTES, META_DATA_PATH, METADATA_SERVICE,
};
use wasmount_core::secrets::Secrets;

/// What messages call it.
const NAME: &str = "OpenStack's metadata service";
/// Until a connection exists. 2 s: the service is on the same host or one hop away; without it a router may drop the request.
const CONNECT: Duration = Duration::from_secs(2);
/// Until the answer begins. 5 s: Nova asks its database.
const FIRST_BYTE: Duration = Duration::from_secs(5);
/// With all repetitions. 10 s: then the config drive is read, within the same call.
const TOTAL: Duration = Duration::from_secs(10);

/// Why the metadata service did not tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The client cannot be set up.
    #[error("a client of {NAME} cannot be set up: {0}")]
    Setup(String),
    /// There is no answer.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The answer is no metadata.
    #[error("{NAME} answered {0}")]
    Status(StatusCode),
    /// The metadata names no instance.
    #[error("{NAME}: {0}")]
    Invalid(#[from] InvalidMetaData),
}

impl Network {
    /// What the metadata service says of this node.
    pub async fn metadata(&self, deadline: Instant) -> Result<Instance, MetadataError> {
        let endpoint = Endpoint::open(NAME, &grant(), &Secrets::default(), None, &self.cluster);
        let endpoint = endpoint.map_err(MetadataError::Setup)?;
        let scope = Scope {
            service: ServiceName::Node,
            may_change: false,
            deadline,
            request_id: "node-facts".to_owned(),
            request_secrets: Arc::default(),
        };
        let mut request = Request::new(Bytes::new());
        // The host comes from the grant.
        if let Ok(uri) = format!("/{META_DATA_PATH}").parse() {
            *request.uri_mut() = uri;
        }
        let answer = endpoint.send(&scope, request).await?;
        match answer.parts.status {
            StatusCode::OK => Ok(Instance::of_meta_data(&answer.body)?),
            other => Err(MetadataError::Status(other)),
        }
    }
}

fn grant() -> NetworkGrant {
    let service = Host {
        name: HostName::Address(IpAddr::V4(*METADATA_SERVICE.ip())),
        port: METADATA_SERVICE.port(),
    };
    NetworkGrant {
        hosts: vec![service],
        host_from: None,
        addresses: Vec::new(),
        scheme: Scheme::Http,
        services: BTreeSet::from([ServiceName::Node]),
        methods: BTreeSet::from([Method::GET.to_string()]),
        paths: vec![format!("/{META_DATA_PATH}")],
        tls: Tls::default(),
        proxy: None,
        protocol: Protocol::Http1,
        timeouts: Timeouts {
            connect: CONNECT,
            first_byte: FIRST_BYTE,
            total: TOTAL,
            ..Timeouts::default()
        },
        rate: Rate {
            limit: None,
            in_flight: 1,
        },
        max_body_bytes: META_DATA_BYTES,
        auth: Auth::None,
    }
}
