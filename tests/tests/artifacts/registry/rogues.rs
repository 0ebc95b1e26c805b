//! Servers that are no registry, met by the program itself: each ends the command with one line, in bounded time, and leaves no file.
//! `registry::tests` of the room has the rest of what a server may do.

use crate::registry::certificates::Certificates;
use crate::registry::server::{refused, text, wasmount};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Answers every connection with these bytes, then with more of them as long as anybody listens if `endless`.
fn answering(answer: &'static [u8], endless: bool) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let mut sent = stream.write_all(answer);
                while endless && sent.is_ok() {
                    sent = stream.write_all(&[b' '; 1 << 16]);
                }
            });
        }
    });
    port
}

fn pull(port: u16, folder: &Path, more: &[&str]) -> String {
    let reference = format!("oci://localhost:{port}/x:1");
    let output = folder.join("out.wasm");
    let said = refused(wasmount(&["pull", &reference, "-o", text(&output)]).args(more));
    assert!(!output.exists());
    said
}

#[test]
fn an_absent_registry_is_reported_after_retries() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let said = pull(port, folder.path(), &["--plain-http"]);
    let wanted = format!("the registry localhost:{port} cannot be reached");
    assert!(said.contains(&wanted), "{said}");
}

#[test]
fn a_server_that_says_nothing_costs_the_time_that_was_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let port = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", false);
    // It hangs up at once: this is truncation, tried again until the time is over.
    let said = pull(port, folder.path(), &["--plain-http", "--timeout", "2"]);
    assert!(said.contains("ended after 0 bytes"), "{said}");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let start = Instant::now();
    let said = pull(port, folder.path(), &["--plain-http", "--timeout", "2"]);
    assert!(said.contains("was too slow: not done after 2 s"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20));
    drop(listener);
}

#[test]
fn a_manifest_of_a_gigabyte_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
    let start = Instant::now();
    let said = pull(answering(head, true), folder.path(), &["--plain-http"]);
    assert!(said.contains("it is larger than 1048576 bytes"), "{said}");
    let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let said = pull(answering(head, true), folder.path(), &["--plain-http"]);
    assert!(said.contains("it is larger than 1048576 bytes"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// Ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_redirect_out_of_tls_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path());
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    // With -HTTP it sends files as they are, head and all.
    let served = folder.path().join("served/v2/x/manifests");
    std::fs::create_dir_all(&served).unwrap();
    let answer = format!(
        "HTTP/1.1 307 x\r\nlocation: http://localhost:{port}/plain\r\ncontent-length: 0\r\n\r\n"
    );
    std::fs::write(served.join("1"), answer).unwrap();
    let server = Command::new("setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            "openssl",
            "s_server",
            "-HTTP",
            "-quiet",
        ])
        .args(["-accept", &format!("127.0.0.1:{port}")])
        .arg("-cert")
        .arg(&certificates.certificate)
        .arg("-key")
        .arg(&certificates.key)
        .current_dir(folder.path().join("served"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Ended(server);
    // Until it listens, attempts are made again.
    let said = pull(
        port,
        folder.path(),
        &["--ca-file", text(&certificates.authority)],
    );
    assert!(
        said.contains("from TLS to plain HTTP; it is not followed"),
        "{said}"
    );
}

#[test]
fn what_a_registry_says_is_cut_and_turns_nothing_around() {
    let folder = tempfile::tempdir().unwrap();
    let kind = format!("\u{202e}{}", "x".repeat(900_000));
    let digest = format!("sha256:{}", "0".repeat(64));
    let blob = |kind: &str| format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":2}}"#);
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
        blob("a"),
        blob(&kind)
    );
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{manifest}",
        manifest.len()
    );
    let port = answering(answer.leak().as_bytes(), false);
    let said = pull(port, folder.path(), &["--plain-http"]);
    assert!(
        said.contains("is not a Wasm artifact: its layer is ` xxx"),
        "{said}"
    );
    assert!(said.len() < 1000, "{}", said.len());
}

#[test]
fn a_time_that_no_clock_holds_is_refused() {
    let most = "18446744073709551615";
    let mut command = wasmount(&[
        "pull",
        "oci://localhost:1/x:1",
        "-o",
        "x",
        "--timeout",
        most,
    ]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("86400"), "{said}");
}
