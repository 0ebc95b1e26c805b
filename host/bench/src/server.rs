//! The processes of the server, as the kernel knows them: CPU time, memory, bytes written.

use procfs::process::Process;
use procfs::{ProcResult, WithCurrentSystemInfo};
use std::path::Path;
use tokio::net::UnixStream;

/// Bytes of a kibibyte, the unit of `/proc/PID/status`.
const KIB: u64 = 1024;

/// The processes.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) pids: Vec<i32>,
}

/// What they have used at one time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Usage {
    /// CPU time since their start, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Resident memory now, in bytes.
    pub(crate) resident: u64,
    /// The most that it ever was.
    pub(crate) peak: u64,
    /// Bytes that were written to disks since their start; none if the kernel does not tell this user.
    pub(crate) written: Option<u64>,
}

impl Server {
    /// The process that listens on a socket, as the kernel names the peer of a connection (unix(7), SO_PEERCRED), and others.
    pub(crate) async fn of(socket: &Path, others: &[u32]) -> Result<Self, String> {
        let stream = UnixStream::connect(socket).await;
        let peer = stream.and_then(|stream| stream.peer_cred());
        let peer = peer.map_err(|error| format!("its process cannot be found: {error}"))?;
        let pid = peer.pid().filter(|pid| *pid > 0);
        let pid = pid.ok_or("its process is in another PID namespace: run the benchmark there")?;
        let others = others.iter().map(|it| i32::try_from(*it));
        let others = others.collect::<Result<Vec<_>, _>>();
        let mut pids = others.map_err(|_| "a process id is out of range".to_owned())?;
        pids.retain(|it| *it != pid);
        pids.insert(0, pid);
        Ok(Self { pids })
    }

    /// What they have used so far.
    pub(crate) fn usage(&self) -> Result<Usage, String> {
        let mut all = Usage {
            written: Some(0),
            ..Usage::default()
        };
        for pid in &self.pids {
            let one = usage(*pid).map_err(|error| format!("/proc/{pid}: {error}"))?;
            all.cpu_seconds += one.cpu_seconds;
            all.resident += one.resident;
            all.peak += one.peak;
            all.written = all.written.zip(one.written).map(|(all, one)| all + one);
        }
        Ok(all)
    }
}

fn usage(pid: i32) -> ProcResult<Usage> {
    let process = Process::new(pid)?;
    let stat = process.stat()?;
    let resident = stat.rss_bytes().get();
    Ok(Usage {
        cpu_seconds: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
        resident,
        peak: process.status()?.vmhwm.map_or(resident, |it| it * KIB),
        written: process.io().ok().map(|io| io.write_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[tokio::test]
    async fn the_process_behind_a_socket_is_found_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("a.sock");
        let _listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let server = Server::of(&socket, &[1, process::id()]).await.unwrap();
        let own = i32::try_from(process::id()).unwrap();
        assert_eq!(server.pids, [own, 1]);
        let alone = Server::of(&socket, &[]).await.unwrap();
        let usage = alone.usage().unwrap();
        assert!(usage.resident > 0 && usage.peak >= usage.resident / 2);
    }

    #[tokio::test]
    async fn without_a_listener_or_a_process_it_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let none = Server::of(&folder.path().join("a.sock"), &[]).await;
        assert!(none.unwrap_err().starts_with("its process cannot be found"));
        let gone = Server {
            pids: vec![i32::MAX],
        };
        assert!(gone.usage().unwrap_err().contains("/proc/2147483647"));
    }
}
