//! `wasmount status --cluster`: the backends of a cluster in a table, a row for each version, with a line for each host that needs attention.

use crate::cli::admin::FormFlags;
use crate::cli::admin::table::{Cell, Table};
use crate::cli::show::{self, Tone};
use crate::cli::transfer::wait;
use crate::fault::Fault;
use crate::visible;
use std::path::PathBuf;
use wasmount_core::text::short_digest;
use wasmount_kubernetes::storage_backend::{BackendOverview, HostNotes, Overview, overview};
use wasmount_kubernetes::{ApiAccess, connect};

/// Reads the objects and prints them.
pub(super) fn run(kubeconfig: Option<PathBuf>, form: FormFlags) -> Result<(), Fault> {
    let access = kubeconfig.map_or(ApiAccess::AsKubectl, ApiAccess::Kubeconfig);
    let read = wait(async {
        match connect(&access).await? {
            Some(client) => overview(client).await.map(Some),
            None => Ok(None),
        }
    })?;
    let read = read.map_err(|error| Fault::Failed(error.describe()))?;
    let no_cluster = || Fault::Failed("there is no cluster: name a --kubeconfig".to_owned());
    let read = read.ok_or_else(no_cluster)?;
    show::answer(form.json, &read, text)
}

fn text(overview: &Overview) -> String {
    if overview.backends.is_empty() {
        return "the cluster has no StorageBackend objects\n".to_owned();
    }
    let mut table = Table::new([
        "BACKEND", "DRIVER", "READY", "CURRENT", "VERSION", "DIGEST", "HOSTS",
    ]);
    for backend in &overview.backends {
        rows(&mut table, backend);
    }
    let mut text = table.text();
    for backend in &overview.backends {
        for (tone, line) in notes(backend) {
            let line = tone.paint(&visible::line(&line));
            text.push_str(&format!("{}: {line}\n", visible::line(&backend.backend)));
        }
    }
    text
}

/// One for each version; one if no version serves.
fn rows(table: &mut Table, backend: &BackendOverview) {
    let mut versions = backend.versions.iter().map(|it| {
        [
            Cell::from(it.version.as_str()),
            short_digest(&it.digest).into(),
            it.hosts.to_string().into(),
        ]
    });
    let none = || ["-", "-", "-"].map(Cell::from);
    let [version, digest, hosts] = versions.next().unwrap_or_else(none);
    let ready = match backend.not_ready {
        None => Tone::Good,
        Some(_) => Tone::Bad,
    };
    table.row([
        backend.backend.as_str().into(),
        backend.driver.as_deref().unwrap_or("-").into(),
        Cell::toned(backend.ready.as_str(), ready),
        format!("{}/{}", backend.hosts.current, backend.hosts.total).into(),
        version,
        digest,
        hosts,
    ]);
    for [version, digest, hosts] in versions {
        let [backend, driver, ready, current] = ["", "", "", ""].map(Cell::from);
        table.row([backend, driver, ready, current, version, digest, hosts]);
    }
}

fn notes(backend: &BackendOverview) -> Vec<(Tone, String)> {
    let not_ready = backend.not_ready.iter();
    let not_ready = not_ready.map(|reason| (Tone::Bad, format!("not ready: {reason}")));
    not_ready
        .chain(of_hosts("in trouble", Tone::Bad, &backend.troubled))
        .chain(of_hosts("behind", Tone::Warning, &backend.behind))
        .chain(of_hosts("faulty", Tone::Warning, &backend.faulty))
        .collect()
}

fn of_hosts<'a>(
    what: &'a str,
    tone: Tone,
    hosts: &'a HostNotes,
) -> impl Iterator<Item = (Tone, String)> + 'a {
    let named = hosts.named.iter().map(move |it| {
        let digest = it.digest.as_deref().map_or("-", short_digest);
        let version = it.version.as_deref().unwrap_or("-");
        let (host, phase, reason) = (&it.host, &it.phase, &it.reason);
        format!("{host} is {what} ({phase}, {version} {digest}): {reason}")
    });
    let more = hosts.total.saturating_sub(hosts.named.len() as u64);
    let more = (more > 0).then(|| format!("{more} more hosts are {what}"));
    named.chain(more).map(move |line| (tone, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_kubernetes::storage_backend::{HostNote, Hosts, Version};

    fn version(number: &str, digest: String, hosts: u64) -> Version {
        Version {
            digest,
            version: number.to_owned(),
            hosts,
        }
    }

    fn backend() -> BackendOverview {
        BackendOverview {
            backend: "nfs".to_owned(),
            driver: Some("nfs.acme.io".to_owned()),
            generation: 4,
            ready: "12/12".to_owned(),
            hosts: Hosts {
                total: 12,
                current: 12,
            },
            not_ready: None,
            versions: vec![version("1.4.2", format!("sha256:{}", "a".repeat(64)), 12)],
            behind: HostNotes::default(),
            troubled: HostNotes::default(),
            faulty: HostNotes::default(),
        }
    }

    fn shown(backends: Vec<BackendOverview>) -> String {
        anstream::adapter::strip_str(&text(&Overview { backends })).to_string()
    }

    #[test]
    fn a_backend_that_is_well_is_one_row() {
        assert_eq!(
            shown(vec![backend()]),
            "BACKEND  DRIVER       READY  CURRENT  VERSION  DIGEST        HOSTS\n\
             nfs      nfs.acme.io  12/12  12/12    1.4.2    aaaaaaaaaaaa  12\n"
        );
        assert_eq!(
            shown(Vec::new()),
            "the cluster has no StorageBackend objects\n"
        );
    }

    /// The sample in the documentation is the actual output.
    #[test]
    fn what_differs_is_shown_as_in_the_docs() {
        let docs = include_str!("../../../../../../docs/admin.md");
        let digest = |start: &str| format!("sha256:{start}{}", "0".repeat(52));
        let note = |host: &str, phase: &str, version: &Version, reason: &str| HostNote {
            host: host.to_owned(),
            phase: phase.to_owned(),
            version: Some(version.version.clone()),
            digest: Some(version.digest.clone()),
            reason: reason.to_owned(),
        };
        let new = version("1.4.2", digest("9f3c2a71be04"), 9);
        let old = version("1.4.1", digest("0a1b2c3d4e5f"), 2);
        let differs = BackendOverview {
            ready: "11/12".to_owned(),
            hosts: Hosts {
                total: 12,
                current: 9,
            },
            not_ready: Some("11 of 12 hosts serve it".to_owned()),
            behind: HostNotes {
                total: 2,
                named: vec![
                    note("n1", "Serving", &old, "is at generation 3, the object at 4"),
                    note(
                        "n7",
                        "Serving",
                        &old,
                        "serves another component than most hosts",
                    ),
                ],
            },
            troubled: HostNotes {
                total: 1,
                named: vec![note(
                    "n2",
                    "Silent",
                    &new,
                    "has not reported for a while: is the host running?",
                )],
            },
            faulty: HostNotes {
                total: 1,
                named: vec![note(
                    "n5",
                    "Serving",
                    &new,
                    "the plugin last failed a call at 2026-11-29T02:11:40Z",
                )],
            },
            versions: vec![new, old],
            ..backend()
        };
        let printed = shown(vec![differs]);
        assert!(
            docs.contains(&format!("$ wasmount status --cluster\n{printed}```")),
            "{printed}"
        );
    }

    #[test]
    fn hosts_beyond_the_named_ones_are_counted() {
        let many = BackendOverview {
            behind: HostNotes {
                total: 13,
                named: vec![HostNote {
                    host: "n1".to_owned(),
                    phase: "Loading".to_owned(),
                    version: None,
                    digest: None,
                    reason: "a\u{1b}[2J".to_owned(),
                }],
            },
            ..backend()
        };
        let printed = shown(vec![many]);
        let lines: Vec<_> = printed.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "nfs: n1 is behind (Loading, - -): a\\u{1b}[2J",
                "nfs: 12 more hosts are behind",
            ]
        );
    }

    #[test]
    fn a_backend_without_a_version_is_one_row_of_dashes() {
        let nothing = BackendOverview {
            driver: None,
            ready: "0/0".to_owned(),
            hosts: Hosts::default(),
            versions: Vec::new(),
            ..backend()
        };
        assert_eq!(
            shown(vec![nothing]),
            "BACKEND  DRIVER  READY  CURRENT  VERSION  DIGEST  HOSTS\n\
             nfs      -       0/0    0/0      -        -       -\n"
        );
    }
}
