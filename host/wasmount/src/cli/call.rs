//! `wasmount call`: its flags, and one call from the request to the report.
//!
//! The call takes the same path as kubelet's, except for the socket and the mounts. It never shows a request.

mod plan;
mod report;
mod request;
mod state_file;
mod tape_file;

use super::serve::ProfileArg;
use super::show;
use super::subject::{CacheFlags, SecretFlags, subject};
use crate::fault::Fault;
use crate::host::{Pools, Storage, Workbench, block_on, changes};
use crate::telemetry::LogCapture;
use clap::Args;
use report::Report;
use std::collections::BTreeMap;
use std::path::PathBuf;
use wasmount_core::node_fact::NodeFact;
use wasmount_csi::by_name::NamedCall;
use wasmount_versions::AdmissionReport;

/// Make one CSI call on a plugin, without a host, and show answer, plan, records, log and resource use
#[derive(Debug, Args)]
#[command(after_help = "\
Examples; the second call finds the records of the first:
  $ wasmount call plugin.wasm GetCapacity
  $ wasmount call plugin.wasm CreateVolume @create.yaml \\
      --state records.json --pools /tmp/pools
  $ wasmount call plugin.wasm NodeStageVolume - --backend backend.yaml --json
  $ wasmount call plugin.wasm ListVolumes --backend backend.yaml \\
      --http-record tape.json

A request is CSI's message by its own names, such as `volume_id: a` or `{\"volumeId\":\"a\"}`. Secrets in it reach the plugin and are never
shown. Nothing is mounted: of stage and publish the recorded plan is shown, held against the grants of the document; without one it is
shown which grants it needs. Each call is a fresh instance, as in a host.

Exit codes: 0 if the call was answered with OK, 1 if it failed or could not be made, 64 for wrong flags, documents or requests.")]
pub(crate) struct Flags {
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A CSI RPC, such as `CreateVolume`
    #[arg(value_name = "RPC")]
    rpc: String,

    /// The request in YAML or JSON: `@FILE`, `-` for standard input, or `{..}` [default: empty]
    #[arg(value_name = "REQUEST")]
    request: Option<String>,

    /// The StorageBackend document with settings, secrets, grants and limits
    #[arg(long, value_name = "FILE", env)]
    backend: Option<PathBuf>,

    /// State records as a JSON file: read before the call, written after it, created if missing
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Directory of the pools, kept after the call [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pools: Option<PathBuf>,

    /// Name of a pool, for a call without a document; may be repeated
    #[arg(
        long,
        value_name = "NAME",
        env,
        value_delimiter = ',',
        default_value = "volumes"
    )]
    pool: Vec<String>,

    /// A fact of the node, and of each node for the controller, such as `zone=a`; `zone=` for none. May be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "backend")]
    node_fact: Vec<String>,

    /// Record the conversation with the storage systems of the document in this file, without credentials
    #[arg(long, value_name = "FILE", requires = "backend")]
    http_record: Option<PathBuf>,

    /// Answer the requests of the plugin from a recorded conversation; nothing is sent, and secrets of network grants may be missing
    #[arg(
        long,
        value_name = "FILE",
        requires = "backend",
        conflicts_with = "http_record"
    )]
    http_replay: Option<PathBuf>,

    /// Allow the call to use the pools that the document grants, which belong to a host
    #[arg(long, requires = "backend", conflicts_with = "pools")]
    touch_pools: bool,

    #[command(flatten)]
    cache: CacheFlags,

    #[command(flatten)]
    secrets: SecretFlags,

    /// CSI version to speak
    #[arg(long, value_name = "VERSION", env, default_value = "1.12")]
    csi_profile: ProfileArg,

    /// Print one JSON object
    #[arg(long, env)]
    json: bool,
}

/// Makes the call.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let request = request::read(flags.request.as_deref())?;
    let call = NamedCall::parse(&flags.rpc, &request)
        .map_err(|refused| Fault::flag("call", &flags.rpc, refused))?;
    // The request may hold secrets.
    drop(request);
    let mut configured = subject(&flags.file, flags.backend.as_deref(), &flags.pool)?;
    flags.secrets.put(&mut configured)?;
    let before = match &flags.state {
        Some(file) => state_file::read(file)?,
        None => Default::default(),
    };
    let storage = flags.storage()?;
    let node_facts = flags.node_facts()?;
    let pools = flags.pools();
    let cache = flags.cache.directory()?;
    let log_capture = LogCapture::listen();
    let (rpc, profile) = (call.rpc(), flags.csi_profile.into());
    let called = block_on(async {
        let workbench = Workbench::set_up(configured, &pools, cache, storage).await?;
        let workbench = workbench.with_node_facts(node_facts);
        let admitted = workbench.admit(&mut AdmissionReport::default()).await;
        let admitted = admitted.map_err(Fault::failed("the plugin cannot serve"))?;
        // Log lines of the admission are not part of the call.
        drop(log_capture.take());
        workbench.call(admitted, call, profile, &before).await
    })?;
    if let Some(file) = &flags.state {
        state_file::write(file, &called.records)?;
    }
    let failed = match &flags.http_record {
        Some(file) => tape_file::write(file, &called.conversation).err(),
        None => tape_file::check(flags.http_replay.as_deref(), &called.conversation).err(),
    };
    let report = Report {
        rpc,
        changes: changes(&before, &called.records),
        called,
        log: log_capture.take(),
    };
    if flags.json {
        show::print_json(&report.json())?;
    } else {
        show::print(&report.text()?)?;
    }
    match failed {
        Some(failed) => Err(failed),
        None if report.is_ok() => Ok(()),
        None => Err(Fault::Found),
    }
}

impl Flags {
    fn storage(&self) -> Result<Storage, Fault> {
        Ok(match &self.http_replay {
            Some(file) => Storage::Replayed(tape_file::read(file)?),
            None if self.http_record.is_some() => Storage::Recorded,
            None => Storage::Granted,
        })
    }

    fn node_facts(&self) -> Result<BTreeMap<NodeFact, Vec<String>>, Fault> {
        let mut facts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for given in &self.node_fact {
            let (name, value) = given.split_once('=').unwrap_or((given, ""));
            let fact = NodeFact::parse(name).ok_or_else(|| {
                let reason = format!("write NAME=VALUE; known facts are {}", NodeFact::names());
                Fault::flag("--node-fact", given, reason)
            })?;
            let values = facts.entry(fact).or_default();
            values.extend((!value.is_empty()).then(|| value.to_owned()));
        }
        Ok(facts)
    }

    fn pools(&self) -> Pools {
        match &self.pools {
            Some(directory) => Pools::Below(directory.clone()),
            None if self.touch_pools => Pools::Granted,
            None if self.backend.is_some() => Pools::Closed,
            None => Pools::Temporary,
        }
    }
}
