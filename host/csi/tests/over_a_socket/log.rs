//! The log of a call: its failure once, with its RPC; never a request.

use crate::support::{Served, refused, volume_named};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use tonic::Code;
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Level};
use wasmount_csi::wire::csi::v1 as wire;

const SECRET: &str = "hunter2-hunter2";

/// With a single subscriber, tracing asks the thread that first reaches a log line, and if that thread has no subscriber the line is disabled for all
/// threads (tracing-core, `callsite::Dispatchers::rebuilder`): so there are two.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Everything that is logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap();
        String::from_utf8_lossy(&bytes)
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures the log of this test, whose runtime has one thread.
fn caught(level: Level) -> (Log, tracing::subscriber::DefaultGuard) {
    LazyLock::force(&ANOTHER);
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[tokio::test]
async fn a_failed_call_is_logged_once_with_name_driver_and_subject() {
    let (log, _guard) = caught(Level::WARN);
    let served = Served::whole();
    let get = wire::ControllerGetVolumeRequest {
        volume_id: "v-gone".to_owned(),
    };
    assert_eq!(
        refused(served.controller().await.controller_get_volume(get).await).0,
        Code::NotFound
    );
    let lines = log.lines();
    let [line] = lines.as_slice() else {
        panic!("{lines:#?}")
    };
    for part in [
        "WARN",
        "rpc=ControllerGetVolume",
        "driver=memory.wasmount.io",
        "request_id=",
        "volume=\"v-gone\"",
        "code=NotFound",
        "v-gone does not exist",
    ] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
}

#[tokio::test]
async fn a_change_is_logged_at_info_a_read_is_not() {
    let (log, _guard) = caught(Level::INFO);
    let served = Served::whole();
    let mut controller = served.controller().await;
    let already = log.lines().len();
    let list = wire::ListVolumesRequest::default();
    controller.list_volumes(list).await.unwrap();
    controller.create_volume(volume_named("a")).await.unwrap();
    let lines = log.lines().split_off(already);
    let [line] = lines.as_slice() else {
        panic!("{lines:#?}")
    };
    for part in [
        "INFO",
        "rpc=CreateVolume",
        "driver=memory.wasmount.io",
        "version=7",
        "volume=\"a\"",
        "call answered code=Ok duration_ms=",
    ] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
}

#[tokio::test]
async fn no_level_of_logging_shows_a_secret() {
    let (log, _guard) = caught(Level::TRACE);
    let served = Served::whole();
    let secrets = BTreeMap::from([("password".to_owned(), SECRET.to_owned())]);
    let taken = wire::CreateVolumeRequest {
        secrets: secrets.clone(),
        ..volume_named("a")
    };
    let refused = wire::CreateVolumeRequest {
        secrets,
        ..volume_named("")
    };
    let mut controller = served.controller().await;
    controller.create_volume(taken).await.unwrap();
    controller.create_volume(refused).await.unwrap_err();
    assert_eq!(
        served.backend.password.lock().unwrap().as_deref(),
        Some(SECRET)
    );
    let lines = log.lines();
    assert!(lines.iter().any(|line| line.contains("call answered")));
    let leaks = lines
        .iter()
        .filter(|line| line.contains(SECRET))
        .collect::<Vec<_>>();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
