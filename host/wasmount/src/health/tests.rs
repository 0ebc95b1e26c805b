//! The health endpoints, requested over HTTP from real listeners.

use super::*;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use wasmount_core::names::DriverName;

fn ready(name: &str) -> (DriverName, Arc<Readiness>) {
    let name = DriverName::parse(name).unwrap();
    let readiness = Arc::new(Readiness::new([name.clone()]));
    readiness.set_host(None);
    readiness.set_plugin(&name, None);
    (name, readiness)
}

#[tokio::test]
async fn a_socket_that_answers_http2_is_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let path = answering(folder.path());
    let (name, readiness) = ready("a.b");
    readiness.change(&name, |it| it.socket = Some(path));
    let (status, body) = healthz(State(readiness)).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "a.b: ok\n"));
}

#[tokio::test]
async fn a_socket_that_only_the_kernel_accepts_is_not_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("csi.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let (name, readiness) = ready("a.b");
    readiness.change(&name, |it| it.socket = Some(path.clone()));
    let (status, body) = healthz(State(readiness)).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let expected = format!(
        "a.b: its socket {} accepts but does not answer\n",
        path.display()
    );
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_host_without_sockets_yet_is_healthy_and_not_ready() {
    let (_, readiness) = ready("a.b");
    let (status, _) = healthz(State(readiness.clone())).await;
    assert_eq!(status, StatusCode::OK);
    let (status, body) = readyz(State(readiness)).await;
    assert_eq!(
        (status, body.as_str()),
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "a.b: its socket is not there yet\n"
        )
    );
}

/// A driver's socket that answers.
fn answering(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("csi.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
        }
    });
    path
}

#[tokio::test]
async fn readiness_of_one_driver_is_asked_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (name, readiness) = ready("a.b");
    readiness.change(&name, |it| it.socket = Some(answering(folder.path())));
    let request = |driver: &str| readyz_of(State(readiness.clone()), Path(driver.to_owned()));
    assert_eq!(
        request("a.b").await,
        (StatusCode::OK, "a.b: ok\n".to_owned())
    );
    assert_eq!(request("c.d").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_driver_whose_socket_was_removed_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let (name, readiness) = ready("a.b");
    let path = answering(folder.path());
    readiness.change(&name, |it| it.socket = Some(path.clone()));
    assert_eq!(readyz(State(readiness.clone())).await.0, StatusCode::OK);
    std::fs::remove_file(&path).unwrap();
    let (status, body) = readyz(State(readiness.clone())).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let expected = format!(
        "a.b: its socket {} fails: No such file or directory (os error 2)\n",
        path.display()
    );
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_sick_plugin_makes_its_driver_unready_and_the_host_not() {
    let folder = tempfile::tempdir().unwrap();
    let (name, readiness) = ready("a.b");
    readiness.change(&name, |it| it.socket = Some(answering(folder.path())));
    readiness.set_plugin(&name, Some("no such file".to_owned()));
    assert_eq!(readyz(State(readiness.clone())).await.0, StatusCode::OK);
    let (status, body) = readyz_of(State(readiness), Path("a.b".to_owned())).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body, "a.b: no such file\n");
}

#[tokio::test]
async fn a_host_whose_objects_are_unread_is_not_ready() {
    let readiness = Arc::new(Readiness::new([]));
    assert_eq!(readyz(State(readiness.clone())).await.0, StatusCode::OK);
    readiness.set_objects(Some("unread".to_owned()));
    let expected = "StorageBackend objects: unread\n".to_owned();
    let answer = readyz(State(readiness.clone())).await;
    assert_eq!(answer, (StatusCode::SERVICE_UNAVAILABLE, expected));
    readiness.set_objects(None);
    assert_eq!(readyz(State(readiness)).await.0, StatusCode::OK);
}
