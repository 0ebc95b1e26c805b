//! The list of all metrics. The host exports what it names, and the page `docs/metrics.md` has the same table; a test compares them.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A metric.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Its whole name, as a query has it.
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) labels: &'static [&'static str],
    /// Its meaning, in the output and in the documentation.
    pub(super) help: &'static str,
}

macro_rules! metrics {
    ($($id:ident = $kind:ident $name:literal [$($label:ident),*]: $help:literal;)+) => {
        $(pub(super) static $id: Metric = Metric {
            name: $name,
            kind: MetricType::$kind,
            labels: &[$(stringify!($label)),*],
            help: $help,
        };)+

        /// All metrics, in the order of the documentation.
        pub(super) const ALL: &[&Metric] = &[$(&$id),+];
    };
}

// Drivers are those of the documents, methods and codes those of CSI and gRPC, grants and pools the names in a document.
metrics! {
    BUILD_INFO = Info "wasmount_build_info" [version]: "Version of the host; always 1";

    CSI_CALL_DURATION = Histogram "wasmount_csi_call_duration_seconds" [driver, method, code]:
        "Time from the headers of a CSI call to its answer; Canceled: the client disconnected";
    CSI_CALLS_IN_FLIGHT = Gauge "wasmount_csi_calls_in_flight" [driver]: "CSI calls that are not answered yet";
    CLAIMS_REJECTED = Counter "wasmount_claims_rejected_total" [driver]:
        "Calls that were ABORTED because another call works on the same object";

    DRIVER_READY = Gauge "wasmount_driver_ready" [driver]: "1: no reason is known against it, as in /readyz/<driver>";
    DRIVER_PHASE = Gauge "wasmount_driver_phase" [driver, phase]: "1 for the phase of the driver, 0 for each other one";
    DRIVER_HELD = Gauge "wasmount_driver_held" [driver]: "1: it stays at a version, whatever its document says";
    DRIVER_PAUSED = Gauge "wasmount_driver_paused" [driver]: "1: only commands change its version";
    DRIVER_DRAINED = Gauge "wasmount_driver_drained" [driver]: "1: it takes no new work";
    DRIVER_LEADER = Gauge "wasmount_driver_leader" [driver]: "1: this host is the elected one; absent without an election";
    DRIVER_REGISTERED = Gauge "wasmount_driver_registered" [driver]:
        "1: kubelet has accepted it; absent if the host does not register it";
    DRIVER_LISTED = Gauge "wasmount_driver_listed" [driver]:
        "1: CSINode and Node agree with the driver; absent if they are not watched";
    REGISTRATIONS = Counter "wasmount_registrations_total" [driver]: "How often kubelet accepted the driver";
    REGISTRATION_REFUSALS = Counter "wasmount_registration_refusals_total" [driver]: "How often kubelet rejected the driver";
    REGISTRATION_REBINDS = Counter "wasmount_registration_rebinds_total" [driver]:
        "How often its registration socket was bound again";
    LISTING_DRIFTS = Counter "wasmount_listing_drifts_total" [driver]: "How often CSINode or Node ceased to agree with the driver";
    HANDOVER_GAP = Gauge "wasmount_handover_gap_seconds" [driver]: "How long no host served it before this host took over";
    RECOVERIES = Counter "wasmount_recoveries_total" [driver, outcome]:
        "Volumes with unfinished work of an earlier host: succeeded or failed";

    PLUGIN_LOADED = Gauge "wasmount_plugin_loaded" [driver]: "1: the driver has a plugin";
    PLUGIN_INFO = Info "wasmount_plugin_info" [driver, version, digest]: "The version that serves; always 1";
    PLUGIN_SERVING_SINCE = Gauge "wasmount_plugin_serving_since_timestamp_seconds" [driver]:
        "Unix time of the last swap or rollback: when the version that serves began to";
    PLUGIN_SHARE = Gauge "wasmount_plugin_share_percent" [driver]:
        "Share of the volumes that a new version serves beside it; 0: none does";
    PLUGIN_SWAPS = Counter "wasmount_plugin_swaps_total" [driver]: "How often another version was activated";
    PLUGIN_SWAP_SECONDS = Counter "wasmount_plugin_swap_seconds_total" [driver, step]:
        "Time of these swaps: proving (fetch, compile, admit) and switching (with writing), of which writing waited for the disk";
    PLUGIN_ROLLBACKS = Counter "wasmount_plugin_rollbacks_total" [driver, trigger]:
        "How often a version was rolled back: by the host for its faults, or by a command";
    PLUGIN_REFUSALS = Counter "wasmount_plugin_refusals_total" [driver, kind]: "Versions that were rejected";
    PLUGIN_FAULTS = Counter "wasmount_plugin_faults_total" [driver, kind]: "Calls that failed by a fault of the plugin";
    PLUGIN_CALLS = Counter "wasmount_plugin_calls_total" [driver, method]: "Calls that used the plugin and have ended";
    PLUGIN_CPU = Counter "wasmount_plugin_cpu_seconds_total" [driver, method]: "CPU time of the plugin in these calls";
    PLUGIN_SECONDS = Counter "wasmount_plugin_seconds_total" [driver, method]:
        "Time of the plugin's functions in these calls, with what they wait for";
    PLUGIN_MEMORY_PEAK = Gauge "wasmount_plugin_memory_peak_bytes" [driver, method]:
        "The most linear memory that one of these calls had since the start of the host";
    PLUGIN_PLACES = Gauge "wasmount_plugin_concurrency_limit" [driver]: "Calls that may run in the plugin at a time (limits.concurrency)";
    PLUGIN_RUNNING = Gauge "wasmount_plugin_concurrency_used" [driver]: "Calls that run in the plugin now";
    PLUGIN_WAITING = Gauge "wasmount_plugin_concurrency_waiting" [driver]: "Calls that wait for one of these places";

    NETWORK_REQUESTS = Counter "wasmount_network_requests_total" [driver, grant, outcome]:
        "Requests of the plugin: succeeded (a status below 400), rejected (4xx), failed (5xx), unsent, lost (sent, without an answer)";
    NETWORK_LOGINS = Counter "wasmount_network_logins_total" [driver, grant, outcome]: "Logins of the host: succeeded or failed";
    NETWORK_RETRIES = Counter "wasmount_network_retries_total" [driver, grant]: "Requests that were sent again";
    NETWORK_IN_FLIGHT = Gauge "wasmount_network_requests_in_flight" [driver, grant]: "Requests that are not answered yet";
    NETWORK_SECONDS = Counter "wasmount_network_request_seconds_total" [driver, grant]:
        "Time that requests took, with waiting, logins and retries";

    STORAGE_USABLE = Gauge "wasmount_storage_usable" [driver]: "1: its pools can be used on this node";
    POOL_SIZE = Gauge "wasmount_pool_size_bytes" [driver, pool]: "Size of the pool, at most 30 s ago";
    POOL_AVAILABLE = Gauge "wasmount_pool_available_bytes" [driver, pool]:
        "Bytes that can still be promised: free space less what is promised and not written yet; at most 30 s ago";
    POOL_PROMISED = Gauge "wasmount_pool_promised_bytes" [driver, pool]:
        "Bytes that are promised to volumes and not written yet, at most 30 s ago";
    POOL_USED = Gauge "wasmount_pool_used_bytes" [driver, pool]:
        "Bytes of the pool's file system that are not free, whoever wrote them, at most 30 s ago";
    VOLUMES_STAGED = Gauge "wasmount_volumes_staged" [driver]: "Volumes that are staged on this node, at most 30 s ago";
    VOLUMES_PUBLISHED = Gauge "wasmount_volumes_published" [driver]:
        "Paths of pods at which volumes are published on this node, at most 30 s ago";

    COMPILATIONS = Counter "wasmount_compilations_total" []: "How often a component was compiled, successfully or not";
    COMPILATION_SECONDS = Counter "wasmount_compilation_seconds_total" []: "Time that compilations took";
    STORE_SIZE = Gauge "wasmount_store_size_bytes" []: "Size of the file of the state store; absent if records are in the API server";
    STORE_COMMITS = Counter "wasmount_store_commits_total" []: "Commits of the state store, successful or not";
    STORE_COMMIT_SECONDS = Counter "wasmount_store_commit_seconds_total" []: "Time that these commits took";

    MOUNTER_REQUESTS = Counter "wasmount_mounter_requests_total" [request, outcome]:
        "Requests to the mounter that were answered: succeeded or failed";
    MOUNTER_REQUEST_SECONDS = Counter "wasmount_mounter_request_seconds_total" [request]:
        "Time of these requests, with the way to a mounter in another process";
    MOUNTER_CPU = Counter "wasmount_mounter_cpu_seconds_total" []:
        "CPU time of the mounter's process; like all of its process, at most 2 s ago, and absent if the mounter is in the host's process or does not answer";
    MOUNTER_RESIDENT = Gauge "wasmount_mounter_resident_memory_bytes" []: "Resident memory of the mounter's process";
    MOUNTER_VIRTUAL = Gauge "wasmount_mounter_virtual_memory_bytes" []: "Virtual memory of the mounter's process";
    MOUNTER_THREADS = Gauge "wasmount_mounter_threads" []: "Threads of the mounter's process";
    MOUNTER_OPEN_FDS = Gauge "wasmount_mounter_open_fds" []: "Open file descriptors of the mounter's process";
    MOUNTER_MAX_FDS = Gauge "wasmount_mounter_max_fds" []: "How many the mounter's process may have open";
    MOUNTER_START = Gauge "wasmount_mounter_start_time_seconds" []: "Unix time of the start of the mounter's process";

    PROCESS_CPU = Counter "process_cpu_seconds_total" []: "CPU time of the host's process, in user and kernel mode";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" []: "Resident memory of the process";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" []: "Virtual memory of the process, most of it reserved for instances and not used";
    PROCESS_THREADS = Gauge "process_threads" []: "Threads of the process";
    PROCESS_OPEN_FDS = Gauge "process_open_fds" []: "Open file descriptors of the process";
    PROCESS_MAX_FDS = Gauge "process_max_fds" []: "How many it may have open";
    PROCESS_START = Gauge "process_start_time_seconds" []: "Unix time of the start of the process";
}

impl Metric {
    /// The name of the family in OpenMetrics, without suffix and unit, and the unit.
    pub(super) fn family(&self) -> (&'static str, Option<Unit>) {
        let suffix = match self.kind {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        let family = self.name.strip_suffix(suffix).unwrap_or(self.name);
        for (unit, suffix) in [(Unit::Seconds, "_seconds"), (Unit::Bytes, "_bytes")] {
            if let Some(family) = family.strip_suffix(suffix) {
                return (family, Some(unit));
            }
        }
        (family, None)
    }
}
