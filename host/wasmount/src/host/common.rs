//! What all backends of a host share.

use super::controller::Elections;
use super::csi_node::CsiNodes;
use super::kubernetes::Cluster;
use super::registration::Place;
use super::shared_services::SharedServices;
use super::{FatalError, HostOptions};
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What all backends of a host share.
pub(super) struct Common {
    pub(super) options: HostOptions,
    pub(super) services: SharedServices,
    pub(super) cluster: Cluster,
    pub(super) csi_nodes: CsiNodes,
    pub(super) place: Place,
    pub(super) readiness: Arc<Readiness>,
    pub(super) metrics: Arc<Metrics>,
    /// How many files the process may have open.
    pub(super) descriptors: u64,
    /// Ends the host.
    pub(super) fatal: mpsc::UnboundedSender<FatalError>,
    pub(super) elections: Option<Elections>,
}
