//! `wasmount volumes`: the volumes of a driver that are in use on this node.

use super::DriverFlags;
use super::table::Table;
use crate::fault::Fault;
use clap::Args;
use wasmount_control::Client;
use wasmount_control::messages::Volumes;

/// Show the volumes of a driver that are staged or published on this node
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount volumes directory.wasmount.io

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,
}

/// Requests the volumes and prints them.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let volumes = async |client: &Client, driver: &str| client.volumes(driver).await;
    flags.of.answer(volumes, text).map(drop)
}

fn text(volumes: &Volumes) -> String {
    if volumes.volumes.is_empty() {
        return format!("no volume of {} is in use here\n", volumes.driver);
    }
    let mut table = Table::new(["VOLUME", "STAGED", "PUBLISHED"]);
    for volume in &volumes.volumes {
        let staged = volume.staged.as_deref().unwrap_or("-");
        let mut published = volume.published.iter().map(String::as_str);
        let first = published.next().unwrap_or("-");
        table.row([volume.id.as_str().into(), staged.into(), first.into()]);
        for path in published {
            table.row(["".into(), "".into(), path.into()]);
        }
    }
    table.text()
}
