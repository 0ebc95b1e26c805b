//! plugins/array against a storage array on the network: csi-sanity, and lives through a proxy that treats requests badly. No volume is created twice
//! and none is lost, no session stays behind, no call is final that has changed something, and no password, token or private key is anywhere.

mod attached;
mod guest_memory;
mod lives;
mod sanity;
mod secrecy;

use aho_corasick::AhoCorasick;
use std::ffi::OsString;
use std::path::Path;
use wasmount_tests::array::{Array, ArrayOptions, PASSWORD, TOKEN_PREFIX};
use wasmount_tests::documents;
use wasmount_tests::fault_proxy::{FaultProxy, FaultRate};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::tls_front::TlsFront;

/// The request of a login: if its answer is lost, nobody can end the session.
const LOGIN: &str = "POST /api/sessions";

/// An array, the proxy before it, TLS before that, and a host that knows only the latter.
struct Scene {
    array: Array,
    proxy: FaultProxy,
    front: TlsFront,
    host: Host,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// Where one request of `one_of` meets a fault.
    async fn of(one_of: usize, options: ArrayOptions) -> Self {
        Self::with(one_of, options, Vec::new()).await
    }

    /// The same, with further arguments of the host.
    async fn with(one_of: usize, options: ArrayOptions, more: Vec<OsString>) -> Self {
        wasmount_tests::root::needs_root();
        let folder = tempfile::tempdir().unwrap();
        let array = Array::start(options).await.unwrap();
        let rate = FaultRate {
            of: one_of,
            seed: seed(),
        };
        let proxy = FaultProxy::start(array.address(), rate).await.unwrap();
        let front = TlsFront::start(proxy.address()).await.unwrap();
        let document = documents::array_behind(folder.path(), &front).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            any_paths: true,
            more,
            ..HostOptions::default()
        });
        Self {
            array,
            proxy,
            front,
            host: host.unwrap(),
            _folder: folder,
        }
    }

    /// What must not be shown: the password, any token, the private key of the host in each form.
    fn secrets(&self) -> Vec<Vec<u8>> {
        let texts = [PASSWORD, TOKEN_PREFIX].map(|text| text.as_bytes().to_vec());
        texts.into_iter().chain(self.front.key_forms()).collect()
    }

    /// Ends the host on a sound network: it logs out, and leaves no trace of its credentials.
    fn end(mut self) {
        self.proxy.mend();
        self.host.terminate().unwrap();
        let counts = self.array.counts();
        let unheard = self.proxy.unheard(LOGIN);
        assert!(
            counts.sessions <= unheard,
            "{} sessions are left, {unheard} answers to logins were lost; {}",
            counts.sessions,
            self.proxy
        );
        assert_eq!(counts.refused_logins, 0, "{}", self.proxy);
        let log = self.host.log();
        for secret in self.secrets() {
            assert!(!holds(log.as_bytes(), &secret), "it was logged");
            assert_absent(&self.host.data(), &secret);
            assert_absent(&self.host.run(), &secret);
        }
    }
}

/// A new one each time; a failing test shows it.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::from(now.unwrap().subsec_nanos())
}

fn holds(content: &[u8], secret: &[u8]) -> bool {
    AhoCorasick::new([secret]).unwrap().is_match(content)
}

/// No file below a directory holds these bytes.
pub(crate) fn assert_absent(directory: &Path, secret: &[u8]) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (kind, path) = (entry.file_type().unwrap(), entry.path());
        if kind.is_dir() {
            assert_absent(&path, secret);
        } else if kind.is_file() {
            let content = std::fs::read(&path).unwrap();
            assert!(
                !holds(&content, secret),
                "{} holds a secret",
                path.display()
            );
        }
    }
}
