//! What a run is asked to do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Which RPCs are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Whole lives of volumes, from Probe to DeleteVolume.
    Life,
    /// CreateVolume and DeleteVolume.
    CreateDelete,
    /// NodePublishVolume and NodeUnpublishVolume of one staged volume.
    Publish,
    /// NodeGetVolumeStats of one published volume.
    Stats,
    /// Probe.
    Probe,
}

/// How connections are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// A new connection for each Node RPC, as kubelet has, and one for all others, as a sidecar has.
    Kubelet,
    /// One for all RPCs.
    One,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Repetitions of the mix, for each socket.
    Total(u64),
    /// Time, for all sockets together.
    Time(Duration),
}

/// The options of a run. They cannot be formatted, since they hold secrets.
#[derive(Clone)]
pub struct Options {
    /// The sockets: one, or two to compare.
    pub sockets: Vec<PathBuf>,
    /// What is repeated.
    pub mix: Mix,
    /// How much of it is measured.
    pub amount: Amount,
    /// How much time of the same load passes before, for each socket.
    pub warm_up: Duration,
    /// Repetitions side by side.
    pub concurrency: u16,
    /// In how many parts the work of each socket is done, if there are two: they take turns.
    pub rounds: u16,
    /// How connections are used.
    pub connections: Connections,
    /// Timeout of an RPC.
    pub timeout: Duration,
    /// The parameters of CreateVolume.
    pub parameters: BTreeMap<String, String>,
    /// The secrets of every RPC that takes some.
    pub secrets: BTreeMap<String, String>,
    /// Where staging and target paths are made, in kubelet's layout; none: in a temporary directory.
    pub kubelet_dir: Option<PathBuf>,
    /// A directory on the disk whose speed stands beside the figures.
    pub disk: Option<PathBuf>,
    /// Processes of the server besides the one that owns the socket; only with one socket.
    pub pids: Vec<u32>,
    /// How many volumes of each socket exist during the run.
    pub existing: u64,
    /// How many more are published, each at one target path.
    pub published: u64,
    /// Whether syncs of the server are counted by strace, in further repetitions.
    pub counts_syncs: bool,
}

impl Amount {
    /// The share of one round of one socket.
    pub(crate) fn part(self, round: u16, rounds: u16, sockets: usize) -> Self {
        match self {
            Self::Time(time) => {
                let sockets = u32::try_from(sockets).unwrap_or(u32::MAX).max(1);
                Self::Time(time / u32::from(rounds) / sockets)
            }
            Self::Total(total) => {
                let rest = total % u64::from(rounds);
                Self::Total(total / u64::from(rounds) + u64::from(u64::from(round) < rest))
            }
        }
    }
}

impl Mix {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Life => "life",
            Self::CreateDelete => "create-delete",
            Self::Publish => "publish",
            Self::Stats => "stats",
            Self::Probe => "probe",
        }
    }
}

impl Connections {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::One => "one",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_rounds_are_the_whole() {
        let total = |round| Amount::Total(23).part(round, 10, 2);
        let parts: Vec<_> = (0..10).map(total).collect();
        let (more, fewer) = (Amount::Total(3), Amount::Total(2));
        assert_eq!(parts, [[more; 3].as_slice(), &[fewer; 7]].concat());
        let time = Amount::Time(Duration::from_secs(40)).part(0, 10, 2);
        assert_eq!(time, Amount::Time(Duration::from_secs(2)));
        assert_eq!(Amount::Total(7).part(0, 1, 1), Amount::Total(7));
    }
}
