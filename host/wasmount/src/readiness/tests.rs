//! What makes a driver unready, in which order, and the reported reasons.

use super::*;

fn named(name: &str) -> DriverName {
    DriverName::parse(name).unwrap()
}

/// One driver that has everything it needs.
fn well() -> (DriverName, Readiness) {
    let name = named("a.b");
    let readiness = Readiness::new([name.clone()]);
    readiness.set_host(None);
    readiness.change(&name, |it| it.socket = Some(PathBuf::from("/s/csi.sock")));
    readiness.set_plugin(&name, None);
    (name, readiness)
}

fn reached_and_ready(readiness: &Readiness) -> [Option<String>; 2] {
    let report = readiness.report();
    let driver = report.drivers.values().next().unwrap();
    [report.not_reached(driver), report.not_ready(driver)]
}

fn both(reason: &str) -> [Option<String>; 2] {
    [Some(reason.to_owned()), Some(reason.to_owned())]
}

#[test]
fn a_driver_is_ready_when_host_socket_and_plugin_are() {
    let name = named("a.b");
    let readiness = Readiness::new([name.clone()]);
    assert_eq!(reached_and_ready(&readiness), both("the host is starting"));
    readiness.set_host(None);
    let expected = both("its socket is not there yet");
    assert_eq!(reached_and_ready(&readiness), expected);
    readiness.change(&name, |it| it.socket = Some(PathBuf::from("/s/csi.sock")));
    let expected = both("its plugin is being loaded");
    assert_eq!(reached_and_ready(&readiness), expected);
    readiness.set_plugin(&name, None);
    assert_eq!(reached_and_ready(&readiness), [None, None]);
}

#[test]
fn a_host_whose_records_are_lost_is_not_ready_and_says_so() {
    let (_, readiness) = well();
    readiness.set_lost_records("they are gone".to_owned());
    // A later report of the mounter's watch does not hide it.
    readiness.set_host(None);
    assert_eq!(reached_and_ready(&readiness), both("they are gone"));
    let report = readiness.report();
    assert_eq!(report.of_host(), Some("they are gone".to_owned()));
    let troubles = report.troubles();
    let key = (TroubleKind::StorageNotUsable, None);
    assert_eq!(troubles.get(&key), Some(&"they are gone".to_owned()));
}

#[test]
fn a_host_is_unready_until_its_plugin_was_loaded_once() {
    let name = named("a.b");
    let readiness = Readiness::new([name.clone()]);
    readiness.set_host(None);
    readiness.change(&name, |it| it.socket = Some(PathBuf::from("/s/csi.sock")));
    let unsigned = Some("it is not signed".to_owned());
    readiness.set_plugin(&name, unsigned.clone());
    assert_eq!(reached_and_ready(&readiness), both("it is not signed"));
    readiness.set_plugin(&name, None);
    assert_eq!(reached_and_ready(&readiness), [None, None]);
    readiness.set_plugin(&name, unsigned);
    let expected = [None, Some("it is not signed".to_owned())];
    assert_eq!(reached_and_ready(&readiness), expected);
}

#[test]
fn an_added_driver_counts_until_the_host_has_served_one() {
    let readiness = Readiness::new([]);
    readiness.set_host(None);
    let [added, later] = ["a.b", "c.d"].map(named);
    let reached = |name: &DriverName| {
        let report = readiness.report();
        report.not_reached(&report.drivers[name])
    };
    let unsigned = Some("it is not signed".to_owned());
    for name in [&added, &later] {
        readiness.add(name);
        readiness.change(name, |it| it.socket = Some(PathBuf::from("/s/csi.sock")));
        readiness.set_plugin(name, unsigned.clone());
        assert_eq!(reached(name), unsigned);
    }
    readiness.set_plugin(&added, None);
    assert_eq!([&added, &later].map(reached), [None, None]);
    // It is lost again.
    readiness.set_plugin(&added, unsigned);
    assert_eq!(reached(&added), None);
}

#[test]
fn a_driver_that_kubelet_has_not_taken_is_not_reached() {
    let (name, readiness) = well();
    let mut status = RegistrationStatus::default();
    readiness.change(&name, |it| it.registration = Some(status.clone()));
    let expected = both("it was not announced to kubelet yet");
    assert_eq!(reached_and_ready(&readiness), expected);
    status.reason = Some("it said no".to_owned());
    readiness.change(&name, |it| it.registration = Some(status.clone()));
    let expected = both("it said no");
    assert_eq!(reached_and_ready(&readiness), expected);
    status.registered = true;
    readiness.change(&name, |it| it.registration = Some(status));
    assert_eq!(reached_and_ready(&readiness), [None, None]);
}

#[test]
fn a_driver_that_csinode_does_not_have_is_not_reached() {
    let (name, readiness) = well();
    readiness.change(&name, |it| it.listing = Some(ListingStatus::default()));
    let expected = both("CSINode does not have it: it was not checked yet");
    assert_eq!(reached_and_ready(&readiness), expected);
    let listed = ListingStatus {
        listed: true,
        ..ListingStatus::default()
    };
    readiness.change(&name, |it| it.listing = Some(listed));
    assert_eq!(reached_and_ready(&readiness), [None, None]);
}

#[test]
fn an_unhealthy_plugin_makes_its_driver_unready_not_the_host() {
    let (name, readiness) = well();
    readiness.set_plugin(&name, Some("no such file".to_owned()));
    let expected = [None, Some("no such file".to_owned())];
    assert_eq!(reached_and_ready(&readiness), expected);
    readiness.set_plugin(&name, None);
    readiness.change(&name, |it| it.storage = Some("the pool hangs".to_owned()));
    let expected = [None, Some("the pool hangs".to_owned())];
    assert_eq!(reached_and_ready(&readiness), expected);
}

#[test]
fn one_driver_without_plugin_leaves_the_other_ready() {
    let (good, readiness) = well();
    let bad = named("bad");
    readiness.add(&bad);
    readiness.change(&bad, |it| it.socket = Some(PathBuf::from("/s")));
    readiness.set_plugin(&bad, Some("no such file".to_owned()));
    let report = readiness.report();
    let of = |name| report.not_ready(&report.drivers[name]);
    assert_eq!(of(&good), None);
    assert_eq!(of(&bad).as_deref(), Some("no such file"));
    // It was added while the host served.
    assert_eq!(report.not_reached(&report.drivers[&bad]), None);
}

#[test]
fn a_late_report_of_a_removed_driver_is_ignored() {
    let (name, readiness) = well();
    readiness.remove(&name);
    readiness.change(&name, |it| it.storage = Some("it hangs".to_owned()));
    assert!(readiness.report().drivers.is_empty());
    readiness.add(&name);
    let expected = both("its socket is not there yet");
    assert_eq!(reached_and_ready(&readiness), expected);
}

#[test]
fn what_is_only_not_there_yet_is_no_trouble() {
    let name = named("a.b");
    let readiness = Readiness::new([name.clone()]);
    assert_eq!(readiness.report().troubles(), Troubles::new());
    readiness.set_host(Some(AWAITING_MOUNTER.to_owned()));
    assert_eq!(readiness.report().troubles(), Troubles::new());
    readiness.set_host(Some("the mounter does not answer".to_owned()));
    readiness.set_plugin(&name, Some("no such file".to_owned()));
    readiness.change(&name, |it| it.storage = Some("the pool hangs".to_owned()));
    let expected = [
        (
            (TroubleKind::CannotMount, None),
            "the mounter does not answer".to_owned(),
        ),
        (
            (TroubleKind::PluginNotLoaded, Some(name.clone())),
            "no such file".to_owned(),
        ),
        (
            (TroubleKind::StorageNotUsable, Some(name)),
            "the pool hangs".to_owned(),
        ),
    ];
    assert_eq!(readiness.report().troubles(), Troubles::from(expected));
}

#[test]
fn objects_without_a_driver_count_until_one_has_served() {
    let readiness = Readiness::new([]);
    let reason = || Some("unread".to_owned());
    assert_eq!(readiness.report().no_driver(), None);
    readiness.set_objects(reason());
    assert_eq!(readiness.report().no_driver(), reason());
    let name = named("a.b");
    readiness.add(&name);
    assert_eq!(readiness.report().no_driver(), reason());
    readiness.set_plugin(&name, None);
    assert_eq!(readiness.report().no_driver(), None);
}
