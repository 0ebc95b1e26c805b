//! Each round.

use super::super::object::tests::{object, spec};
use super::*;
use crate::storage_backend::FORCE_DELETE;
use crate::storage_backend::report::tests::of_host;
use crate::tests::api_double::{Reply, api_double};
use std::collections::BTreeSet;

fn report(phase: Phase) -> ReportSpec {
    let spec = json!({ "backend": "a", "host": "n", "phase": phase });
    serde_json::from_value(spec).unwrap()
}

fn decided(object: &BackendObject, phases: &[Phase]) -> Finalizer {
    let specs: Vec<_> = phases.iter().map(|phase| report(*phase)).collect();
    let heard: Vec<_> = specs.iter().map(HostReport::of).collect();
    finalizer(object, &desired(object, true), &heard)
}

#[test]
fn the_finalizer_is_there_from_the_first_round_on() {
    let mut made = object("a", spec());
    assert_eq!(decided(&made, &[]), Finalizer::Add);
    made.metadata.finalizers = Some(vec!["other".to_owned(), FINALIZER.to_owned()]);
    assert_eq!(decided(&made, &[Phase::Serving]), Finalizer::Leave);
}

#[test]
fn a_deleted_backend_is_let_go_when_every_host_has_let_it_go() {
    let mut made = object("a", spec());
    let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    made.metadata.deletion_timestamp = Some(time);
    // An object that is deleted without our finalizer does not get it.
    assert_eq!(decided(&made, &[Phase::Serving]), Finalizer::Leave);
    made.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    for (phases, finalizer) in [
        (&[][..], Finalizer::Remove),
        (&[Phase::Removed, Phase::Removed], Finalizer::Remove),
        (&[Phase::Removed, Phase::Removing], Finalizer::Leave),
        (&[Phase::Removed, Phase::Serving], Finalizer::Leave),
    ] {
        assert_eq!(decided(&made, phases), finalizer, "{phases:?}");
    }
    let forced = [(FORCE_DELETE.to_owned(), "true".to_owned())];
    made.metadata.annotations = Some(forced.into());
    assert_eq!(decided(&made, &[Phase::Removing]), Finalizer::Remove);
}

#[tokio::test]
async fn the_condition_of_another_manager_is_no_reason_to_write() {
    let (client, requests) = api_double(|request| Reply::Object(request.body.clone()));
    let mut writer = StatusWriter::new(client, "n".to_owned());
    let mut made = object("a", spec());
    made.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let read = desired(&made, true);
    let ours = summary(&read, &[], &Status::default(), None, Timestamp::now());
    let mut status = serde_json::to_value(ours).unwrap();
    let other = json!({
        "type": "Audited", "status": "True", "reason": "Seen",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    status["conditions"]
        .as_array_mut()
        .unwrap()
        .insert(0, other);
    made.status = Some(status);
    let run = async |writer: &mut StatusWriter, made: &BackendObject| {
        let there = [("a".to_owned(), made.clone())].into();
        writer.round(&there, &Held::default()).await;
        requests.lock().unwrap().len()
    };
    assert_eq!(run(&mut writer, &made).await, 0);
    made.metadata.generation = Some(4);
    assert_eq!(run(&mut writer, &made).await, 1);
    let requests = requests.lock().unwrap();
    // Only our conditions are written: the server merges them by `type`.
    let written = requests[0].body["status"]["conditions"].as_array().unwrap();
    assert_eq!(written.len(), 4);
}

#[test]
fn a_status_that_cannot_be_read_is_none() {
    let mut made = object("a", spec());
    assert_eq!(status(&made), Status::default());
    made.status = Some(json!({ "conditions": 7 }));
    assert_eq!(status(&made), Status::default());
    let known = Status {
        ready: "1/1".to_owned(),
        ..Status::default()
    };
    made.status = Some(serde_json::to_value(&known).unwrap());
    assert_eq!(status(&made), known);
}

#[tokio::test(start_paused = true)]
async fn every_silent_host_is_looked_for() {
    let (client, requests) = api_double(|_| Reply::Object(json!({ "metadata": { "name": "n" } })));
    let mut writer = StatusWriter::new(client, "n".to_owned());
    let hosts: Vec<_> = (0..2 * SILENT_AT_ONCE).map(|it| format!("n{it}")).collect();
    for host in &hosts {
        let report = ReportObject::new(&format!("a.{host}"), &reports(), of_host(host));
        writer.take(Event::Apply(report));
    }
    tokio::time::advance(2 * SILENCE).await;
    let looked_for = || {
        let requests = requests.lock().unwrap();
        let nodes = requests
            .iter()
            .filter_map(|it| it.path.rsplit_once("/nodes/"));
        nodes.map(|(_, node)| node.to_owned()).collect::<Vec<_>>()
    };
    for rounds in 1..4 {
        writer.check_silent().await;
        let looked_for = looked_for();
        let different: BTreeSet<_> = looked_for.iter().cloned().collect();
        let expected = hosts.len().min(rounds * SILENT_AT_ONCE);
        // In the third round none is due again.
        assert_eq!((looked_for.len(), different.len()), (expected, expected));
    }
    tokio::time::advance(CHECK_INTERVAL).await;
    writer.check_silent().await;
    assert_eq!(looked_for().len(), 3 * SILENT_AT_ONCE);
}
