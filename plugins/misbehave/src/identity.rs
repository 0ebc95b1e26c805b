//! Export `identity`. The setting `behaviour` selects the misbehaviour, since nothing else is known at admission.

use crate::behaviour::effects::{destroy, look};
use crate::behaviour::secrets::password;
use crate::behaviour::{Table, begin, find, known, names, random, spoil};
use crate::{BEHAVIOUR, Misbehave, setting};
use wasmount_guest::*;

const INFOS: Table<fn(&mut PluginInfo)> = &[
    ("unknown-feature", |info| feature(info, "clone-volumes")),
    ("experimental-feature", |info| feature(info, "x-anything")),
    ("contradicting-feature", |info| {
        feature(info, "node-only-expansion")
    }),
    ("bad-name", |info| info.name = "not/a/name".to_owned()),
    ("no-version", |info| info.version = String::new()),
    ("other-version-each-time", |info| {
        info.version = random().to_string()
    }),
    ("markup-in-version", |info| {
        info.version = "<img src=x onerror=document.title='owned'>".to_owned();
    }),
    ("secret-in-name", |info| info.name = password()),
    ("secret-in-version", |info| info.version = password()),
    ("secret-in-manifest", |info| {
        info.manifest.push(("password".to_owned(), password()));
    }),
    ("secret-in-feature", |info| feature(info, &password())),
    ("destroy-as-another", |info| {
        destroy();
        info.name = "another.wasmount.io".to_owned();
    }),
    ("trap-at-admission", |_| panic!("no mood to be admitted")),
];

const PROBES: Table<fn() -> Result<bool, Error>> = &[
    ("not-ready", || Ok(false)),
    ("unwell", || {
        Err(Error::unavailable("the storage system is away"))
    }),
    ("destroy-in-probe", || {
        destroy();
        panic!("probed enough")
    }),
    // A rejected write is the answer.
    ("write-in-probe", || {
        state::create("probed", &1_u64).map(|_| true)
    }),
    ("trap-in-probe", || panic!("no mood to be probed")),
];

/// A check of the settings; returns warnings.
type Check = fn() -> Result<Vec<String>, Error>;

const CHECKS: Table<Check> = &[
    ("bad-settings", || {
        Err(Error::invalid_argument("`endpoint` is missing"))
    }),
    ("doubtful-settings", || {
        Ok(vec!["`endpoint` has no TLS".to_owned()])
    }),
    ("secret-in-warning", || Ok(vec![password()])),
    ("destroy-in-check", || {
        destroy();
        Err(Error::invalid_argument("there is nothing left to serve"))
    }),
    ("look-in-check", || look().map(|()| Vec::new())),
    ("trap-in-check", || panic!("no mood to be checked")),
    ("spin-in-check", || begin("spin").map(|()| Vec::new())),
    ("sleep-in-check", || begin("sleep").map(|()| Vec::new())),
    ("allocate-in-check", || {
        begin("allocate").map(|()| Vec::new())
    }),
];

impl Identity for Misbehave {
    fn get_plugin_info() -> PluginInfo {
        let mut info = PluginInfo::new("misbehave.wasmount.io", env!("CARGO_PKG_VERSION"));
        info.manifest = known();
        spoil(INFOS, &setting(BEHAVIOUR), info)
    }

    fn probe() -> Result<bool, Error> {
        find(PROBES, &setting(BEHAVIOUR)).map_or(Ok(true), |probe| probe())
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        find(CHECKS, &setting(BEHAVIOUR)).map_or(Ok(Vec::new()), |check| check())
    }
}

/// The names of misbehaviours at admission.
pub fn all_names() -> String {
    [names(INFOS), names(PROBES), names(CHECKS)].join(" ")
}

fn feature(info: &mut PluginInfo, feature: &str) {
    info.features.push(feature.to_owned());
}
