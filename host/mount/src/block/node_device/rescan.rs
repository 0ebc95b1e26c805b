//! Has the SCSI hosts of the node look for new disks. Some hypervisors and storage systems do not announce a disk that they attach.

use crate::sysfs::{entries, write};
use std::path::Path;
use std::time::Instant;

/// Most hosts of one rescan. A node has one for each adapter, and one for each iSCSI session.
const HOSTS: usize = 256;
/// All channels, targets and LUNs of a host, in the format of the attribute `scan`.
const EVERYTHING: &str = "- - -";

/// Asks one host after the other, and says how it went: a host that fails does not matter if the disk is behind another. The kernel returns when
/// the host has looked, which can take seconds, so no further host is asked after `end`.
pub(super) fn rescan(sys: &Path, end: Instant) -> String {
    let class = sys.join("class/scsi_host");
    let mut hosts: Vec<_> = entries(&class).take(HOSTS).collect();
    hosts.sort_unstable();
    let mut asked = 0;
    let mut failures = Vec::new();
    for host in &hosts {
        match write(&class.join(host).join("scan"), EVERYTHING) {
            Ok(()) => asked += 1,
            Err(error) => failures.push(format!("{host}: {error}")),
        }
        if Instant::now() >= end {
            break;
        }
    }
    let first = failures.first().map(|it| format!(" ({it})"));
    let (all, first) = (hosts.len(), first.unwrap_or_default());
    format!("{asked} of {all} SCSI hosts looked for new disks{first}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn rescanned(hosts: &[(&str, bool)], time: Duration) -> (tempfile::TempDir, String) {
        let sys = tempfile::tempdir().unwrap();
        for (host, has_scan) in hosts {
            let host = sys.path().join("class/scsi_host").join(host);
            fs::create_dir_all(&host).unwrap();
            if *has_scan {
                fs::write(host.join("scan"), "").unwrap();
            }
        }
        let said = rescan(sys.path(), Instant::now() + time);
        (sys, said)
    }

    fn written(sys: &tempfile::TempDir, host: &str) -> String {
        let host = sys.path().join("class/scsi_host").join(host);
        fs::read_to_string(host.join("scan")).unwrap()
    }

    #[test]
    fn each_host_is_asked_and_a_failure_is_told() {
        let hosts = [("host0", true), ("host1", false), ("host2", true)];
        let (sys, said) = rescanned(&hosts, Duration::from_secs(600));
        assert_eq!(
            said,
            "2 of 3 SCSI hosts looked for new disks (host1: No such file or directory (os error 2))"
        );
        assert_eq!(written(&sys, "host0"), "- - -");
        assert_eq!(written(&sys, "host2"), "- - -");
        assert!(!sys.path().join("class/scsi_host/host1/scan").exists());
    }

    #[test]
    fn no_further_host_is_asked_after_the_end() {
        let (sys, said) = rescanned(&[("host0", true), ("host1", true)], Duration::ZERO);
        assert_eq!(said, "1 of 2 SCSI hosts looked for new disks");
        assert_eq!(written(&sys, "host0"), "- - -");
        assert_eq!(written(&sys, "host1"), "");
        let (_sys, said) = rescanned(&[], Duration::ZERO);
        assert_eq!(said, "0 of 0 SCSI hosts looked for new disks");
    }
}
