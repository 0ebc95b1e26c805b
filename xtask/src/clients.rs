//! Clients of one CSI socket, as a container orchestrator uses them.

use crate::failure::Failure;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use wasmount_csi::wire::csi::v1::controller_client::ControllerClient;
use wasmount_csi::wire::csi::v1::group_controller_client::GroupControllerClient;
use wasmount_csi::wire::csi::v1::identity_client::IdentityClient;
use wasmount_csi::wire::csi::v1::node_client::NodeClient;
use wasmount_csi::wire::csi::v1::snapshot_metadata_client::SnapshotMetadataClient;
use wasmount_csi::wire::csi::v1::{GetPluginCapabilitiesRequest, ProbeRequest};

/// Timeout until a plugin is ready. Its first compilation takes seconds on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// Between two requests.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One client for each service, over one connection.
#[derive(Debug, Clone)]
pub struct Clients {
    /// `csi.v1.Identity`.
    pub identity: IdentityClient<Channel>,
    /// `csi.v1.Controller`.
    pub controller: ControllerClient<Channel>,
    /// `csi.v1.GroupController`.
    pub group_controller: GroupControllerClient<Channel>,
    /// `csi.v1.SnapshotMetadata`.
    pub snapshot_metadata: SnapshotMetadataClient<Channel>,
    /// `csi.v1.Node`.
    pub node: NodeClient<Channel>,
}

impl Clients {
    /// Connects to a socket.
    pub async fn connect(socket: &Path) -> Result<Self, Failure> {
        let failed = || Failure::cannot(format!("connect to {}", socket.display()));
        let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))
            .map_err(failed())?
            .connect()
            .await
            .map_err(failed())?;
        Ok(Self {
            identity: IdentityClient::new(channel.clone()),
            controller: ControllerClient::new(channel.clone()),
            group_controller: GroupControllerClient::new(channel.clone()),
            snapshot_metadata: SnapshotMetadataClient::new(channel.clone()),
            node: NodeClient::new(channel),
        })
    }

    /// Waits until the driver is ready and its plugin answers. The host reports ready as soon as it serves (one failing plugin must not
    /// cause a restart), and answers UNAVAILABLE, which is retriable, until the plugin is loaded.
    pub async fn ready(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let answer = match self.probe().await {
                Ok(true) => return Ok(()),
                Ok(false) => "not ready".to_owned(),
                Err(status) => format!("{:?}: {}", status.code(), status.message()),
            };
            if start.elapsed() > READY {
                return Err(Failure::Unexpected(format!(
                    "the driver is not ready after {} s, it says: {answer}",
                    READY.as_secs()
                )));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn probe(&mut self) -> Result<bool, Status> {
        let probe = self.identity.probe(ProbeRequest {}).await?;
        let capabilities = GetPluginCapabilitiesRequest {};
        self.identity.get_plugin_capabilities(capabilities).await?;
        // Absent means ready (CSI specification, ProbeResponse).
        Ok(probe.get_ref().ready != Some(false))
    }
}
