//! NFS by Kerberos, with a realm in the VM: a server that lets nobody in without it, and nodes whose helper or key is missing.

use super::server::{Knfsd, LOOPBACK, SHARE, eventually, run, text};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::{CreateVolumeRequest, NodeStageVolumeRequest};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::{Orchestrator, Volume};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::requests;
use xtask::process::Process;

const REALM: &str = "WASMOUNT.TEST";
/// The principals of the server and of the node, by the name of the machine's address.
const SERVER: &str = "nfs/localhost";
const NODE: &str = "host/localhost";
/// Keys of the node: the valid ones, earlier ones that are not valid any more, and none.
const KEYS: &str = "node.keytab";
const OLD_KEYS: &str = "old.keytab";
const NO_KEYS: &str = "none.keytab";
/// Longest time of a call that Kerberos refuses: the kernel waits 15 s for a helper that does not answer.
const REFUSED_WITHIN: Duration = Duration::from_secs(20);
const OPTION: &str = "sec=krb5p";

/// A realm with a server and a node, both this machine. Its database and keys are in a directory.
struct Realm {
    folder: TempDir,
    /// Whatever runs until the end.
    daemons: Vec<Process>,
}

impl Realm {
    fn start() -> Self {
        run("modprobe", &["rpcsec_gss_krb5"]);
        let mut realm = Self {
            folder: tempfile::tempdir().unwrap(),
            daemons: Vec::new(),
        };
        let folder = realm.folder.path().display();
        let client = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = false\n\
             [realms]\n {REALM} = {{\n  kdc = {LOOPBACK}\n }}\n\
             [domain_realm]\n localhost = {REALM}\n"
        );
        let kdc = format!(
            "[realms]\n {REALM} = {{\n  database_name = {folder}/principals\n  key_stash_file = {folder}/stash\n  \
             kdc_listen = {LOOPBACK}:88\n  kdc_tcp_listen = {LOOPBACK}:88\n }}\n"
        );
        // Whom the server takes for root: the principal of the node.
        let names = format!(
            "[Translation]\nGSS-Methods = static\n[Static]\n{NODE}@{REALM} = root\n[General]\nLocal-Realms = {REALM}\n"
        );
        fs::write(realm.path("krb5.conf"), client).unwrap();
        fs::write(realm.path("kdc.conf"), kdc).unwrap();
        fs::write("/etc/idmapd.conf", names).unwrap();
        realm.run("kdb5_util", &["create", "-s", "-P", "master"]);
        for principal in [SERVER, NODE] {
            realm.administer(&format!("addprinc -randkey {principal}"));
        }
        // Each writing of a key makes a new one.
        for (file, principal) in [("server.keytab", SERVER), (OLD_KEYS, NODE), (KEYS, NODE)] {
            let path = realm.path(file);
            realm.administer(&format!("ktadd -k {} {principal}", path.display()));
        }
        realm.daemon("krb5kdc", &["-n"]);
        realm
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a program belong to the realm.
    fn configured<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("KRB5_CONFIG", self.path("krb5.conf"))
            .env("KRB5_KDC_PROFILE", self.path("kdc.conf"))
            .env("KRB5_KTNAME", self.path("server.keytab"))
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        let output = self.configured(&mut command).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
    }

    fn administer(&self, line: &str) {
        self.run("kadmin.local", &["-q", line]);
    }

    fn process(&self, program: &str, arguments: &[&str]) -> Process {
        let mut command = Process::command();
        self.configured(&mut command).arg(program).args(arguments);
        Process::start(command, &self.path("log")).unwrap()
    }

    fn daemon(&mut self, program: &str, arguments: &[&str]) {
        let daemon = self.process(program, arguments);
        self.daemons.push(daemon);
    }

    /// A server that lets in nobody else.
    fn server(&mut self) -> Knfsd {
        let server = Knfsd::start_with(LOOPBACK, "krb5p");
        self.daemon("rpc.svcgssd", &["-f", "-n"]);
        server
    }

    /// The helper of the node's kernel, with these keys.
    fn helper(&self, keys: &str) -> Process {
        let [keys, tickets] = [self.path(keys), self.folder.path().to_owned()];
        let arguments = ["-f", "-k", text(&keys), "-d", text(&tickets)];
        self.process("rpc.gssd", &arguments)
    }
}

fn create() -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: [("server", LOOPBACK), ("share", "/share")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..requests::create("pvc", 1 << 20)
    }
}

fn stage(
    volume: &Volume,
    context: &BTreeMap<String, String>,
    option: &str,
) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_context: context.clone(),
        volume_capability: Some(requests::mounted(Mode::SingleNodeWriter, &[option])),
        ..requests::stage(&volume.id, &volume.staging)
    }
}

/// A refusal that comes soon and names what is missing, and not the plugin.
fn assert_refused<T: std::fmt::Debug>(
    answer: Result<T, Status>,
    begun: Instant,
    case: &str,
    hints: &[&str],
) {
    let refusal = answer.unwrap_err();
    let message = refusal.message();
    assert_eq!(
        refusal.code(),
        Code::FailedPrecondition,
        "{case}: {message}"
    );
    for hint in hints {
        assert!(message.contains(hint), "{case}: {message}");
    }
    assert!(
        !message.contains("fault of the plugin"),
        "{case}: {message}"
    );
    assert!(begun.elapsed() < REFUSED_WITHIN, "{case}: {message}");
}

#[tokio::test]
async fn on_other_kernel_nfs_by_kerberos_needs_helper_and_key() {
    needs_other_kernel();
    let mut realm = Realm::start();
    let server = realm.server();
    let folder = tempfile::tempdir().unwrap();
    let document = documents::nfs(folder.path(), &Knfsd::source(SHARE), &[OPTION], &[]);
    let host = Host::start(HostOptions {
        backends: vec![document.unwrap()],
        ..HostOptions::default()
    });
    let mut host = host.unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let id = format!("{LOOPBACK}#{SHARE}#pvc##");
    let volume = orchestrator.place("pvc", id).unwrap();
    let mut context: BTreeMap<_, _> = create().parameters.into_iter().collect();
    context.insert("subDir".to_owned(), "pvc".to_owned());

    let kerberos = ["rpc.gssd", "/etc/krb5.keytab"];
    for keys in [None, Some(NO_KEYS), Some(OLD_KEYS)] {
        let _helper = keys.map(|keys| realm.helper(keys));
        let case = keys.unwrap_or("no helper");
        let begun = Instant::now();
        assert_refused(orchestrator.create(create()).await, begun, case, &kerberos);
        let begun = Instant::now();
        let staged = orchestrator
            .stage_as(stage(&volume, &context, OPTION))
            .await;
        assert_refused(staged, begun, case, &kerberos);
    }
    let _helper = realm.helper(KEYS);
    let (id, _) = eventually(async || orchestrator.create(create()).await).await;
    assert_eq!(id, volume.id);
    // The server says no to this one itself.
    let begun = Instant::now();
    let staged = orchestrator
        .stage_as(stage(&volume, &context, "sec=sys"))
        .await;
    assert_refused(staged, begun, "no Kerberos", &["mount option `sec`"]);

    use_and_remove(
        &orchestrator,
        &volume,
        stage(&volume, &context, OPTION),
        &server,
    )
    .await;
    assert!(host.terminate().unwrap().success());
}

/// The life of a volume on a node that may.
async fn use_and_remove(
    orchestrator: &Orchestrator,
    volume: &Volume,
    stage: NodeStageVolumeRequest,
    server: &Knfsd,
) {
    orchestrator.stage_as(stage).await.unwrap();
    orchestrator.publish(volume).await.unwrap();
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut lines = table.lines();
    let line = lines.find(|line| line.contains(text(&volume.target)));
    assert!(line.unwrap().contains(OPTION), "{table}");
    volume.write("by Kerberos").unwrap();
    let written = fs::read_to_string(server.share().join("pvc/data"));
    assert_eq!(written.unwrap(), "by Kerberos");
    orchestrator.tear_down(volume).await.unwrap();
    assert!(!server.share().join("pvc").exists());
}
