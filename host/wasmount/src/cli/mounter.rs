//! `wasmount mounter`: its flags, and their validation without side effects.
//!
//! It opens only the documents; only their grants are used, plugins are never read.

use super::common::{CommonFlags, MountFlags, existing, makeable, plain, socket_fits};
use crate::fault::Fault;
use crate::host::{self, MounterOptions};
use crate::telemetry::Spans;
use clap::{ArgGroup, Args};
use std::path::{Path, PathBuf};

/// Serve mounts and pools on a Unix socket, for a host without privileges
#[derive(Debug, Args)]
// A directory may have them all.
#[command(mut_arg("backend", |it| it.required(false)))]
#[command(group(ArgGroup::new("granted").args(["backend", "backend_dir"]).required(true).multiple(true)))]
#[command(after_help = "\
Example, beside `wasmount serve --mounter unix:/run/wasmount/mounter.sock` with the same documents:
  $ wasmount mounter --socket /run/wasmount/mounter.sock \\
      --backend directory.yaml

It reads the grants of the documents only, and grants nothing that its own copy does not. Both processes must be of one version.

Exit codes: 0 after a clean stop (SIGTERM, SIGINT), 64 for wrong flags or documents, 1 for any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    common: CommonFlags,

    /// Directory of StorageBackend documents (`*.yaml`). Files that are added, changed or removed take effect without a restart
    #[arg(long, value_name = "DIR", env)]
    backend_dir: Option<PathBuf>,

    #[command(flatten)]
    mount: MountFlags,

    /// Mount pools and no volumes, as for a controller: no staging or target path is accepted, and `--path-root` has no effect
    #[arg(long, env)]
    pools_only: bool,

    /// Directory for data that outlives a reboot, and for pools with relative paths; locked by one mounter
    #[arg(long, value_name = "DIR", env, default_value = "/var/lib/wasmount")]
    data_dir: PathBuf,

    /// Socket to listen on, in an existing directory that the client can enter
    #[arg(
        long,
        value_name = "FILE",
        env,
        default_value = "/run/wasmount/mounter.sock"
    )]
    socket: PathBuf,

    /// User id whose processes may connect: that of `wasmount serve`
    #[arg(long, value_name = "UID", env, default_value_t = 0)]
    client_uid: u32,
}

/// Serves until a signal.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        mount,
        data_dir,
        socket,
        ..
    } = flags;
    let (backends, grace) = flags.common.begin(Spans::Told)?;
    makeable("--data-dir", &data_dir)?;
    makeable("--run-dir", &mount.run_dir)?;
    plain("--kubelet-dir", &mount.kubelet_dir)?;
    plain("--socket", &socket)?;
    let folder = socket.parent().unwrap_or(Path::new("/"));
    // The default is in the run directory, which is created at the start.
    if folder != mount.run_dir {
        makeable("--socket", folder)?;
    }
    socket_fits("--socket", &socket, &socket)?;
    if let Some(directory) = &flags.backend_dir {
        existing("--backend-dir", directory)?;
    }
    let options = MounterOptions {
        backend_dir: flags.backend_dir,
        places: mount.places(!flags.pools_only)?,
        data_dir,
        socket,
        client_uid: flags.client_uid,
        grace,
    };
    host::mount(options, backends)
}
