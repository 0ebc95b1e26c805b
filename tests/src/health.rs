//! The health checks of a host, requested as kubelet does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use xtask::cluster::loopback_addresses;
use xtask::failure::Failure;

/// Time limit for an expected answer: the plugin is compiled meanwhile, and the host checks its roots every 10 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(50);

/// The address where a host answers.
#[derive(Debug, Clone, Copy)]
pub struct Health(SocketAddr);

impl Health {
    /// An address for `--listen-health`, on a loopback address that nothing else uses: a port of 127.0.0.1 could be taken before the host has it.
    pub fn at_a_free_port() -> Result<Self, Failure> {
        loopback_addresses()
            .find_map(|host| TcpListener::bind((host, 0)).ok()?.local_addr().ok())
            .map(Self)
            .ok_or_else(|| {
                Failure::missing("a free port", "no loopback address has one: end a program")
            })
    }

    /// The address for the command line.
    pub fn address(&self) -> String {
        self.0.to_string()
    }

    /// Status and body of a check.
    pub fn get(&self, path: &str) -> Result<(String, String), Failure> {
        let (head, body) = self.request(path, "*/*")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        Ok((status.to_owned(), body))
    }

    /// Content type and text of the metrics for this `Accept` header.
    pub fn metrics(&self, accept: &str) -> Result<(String, String), Failure> {
        let (head, body) = self.request("/metrics", accept)?;
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        let content_type = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let (_, content_type) = content_type.unwrap_or_default();
        Ok((content_type.to_owned(), body))
    }

    fn request(&self, path: &str, accept: &str) -> Result<(String, String), Failure> {
        let failed = || Failure::cannot(format!("ask {path} of the host"));
        let mut stream = TcpStream::connect(self.0).map_err(failed())?;
        write!(stream, "GET {path} HTTP/1.0\r\nAccept: {accept}\r\n\r\n").map_err(failed())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed())?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        Ok((head.to_owned(), body.to_owned()))
    }

    /// Repeats the check until this is the answer; a host that is starting does not answer at once.
    pub fn becomes(&self, path: &str, status: &str, body: &str) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let answer = self.get(path);
            if let Ok((found, said)) = &answer
                && (found.as_str(), said.as_str()) == (status, body)
            {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(Failure::Unexpected(format!(
                    "{path} does not become {status} {body:?}, it is {answer:?}"
                )));
            }
            thread::sleep(PAUSE);
        }
    }
}
