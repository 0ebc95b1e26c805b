//! A plugin that breaks every rule on purpose, one at a time: what to do is said by a parameter, a context entry or a setting named
//! `behaviour`. Without one it behaves. The tests of the host hold that the host stays whole and says what was wrong.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a panic is one of the bad things to do")]

mod answers;
mod resources;

use wasmount_guest::bindings::imports::wasmount::csi::node_plan;
use wasmount_guest::*;

const POOL: Pool = Pool::named("volumes");
/// Where a volume's behaviour is asked for.
const BEHAVIOUR: &str = "behaviour";

struct Misbehave;
export! {
    identity: Misbehave, controller: Misbehave, controller_expand: Misbehave, volume_listing: Misbehave, node_stage: Misbehave,
    node_hooks: Misbehave
}

impl Identity for Misbehave {
    fn get_plugin_info() -> PluginInfo {
        let info = PluginInfo::new("misbehave.wasmount.io", env!("CARGO_PKG_VERSION"));
        match setting(BEHAVIOUR).as_str() {
            "unknown-feature" => info.with_feature("clone-volumes"),
            "experimental-feature" => info.with_feature("x-anything"),
            "feature-without-export" => info.with_feature("publish-readonly"),
            "bad-name" => PluginInfo::new("not/a/name", "1"),
            "no-version" => PluginInfo::new("misbehave.wasmount.io", ""),
            "trap-at-admission" => panic!("no mood to be admitted"),
            _ => info,
        }
    }

    fn probe() -> Result<bool, Error> {
        match setting(BEHAVIOUR).as_str() {
            "not-ready" => Ok(false),
            "unwell" => Err(Error::unavailable("the storage system is away")),
            _ => Ok(true),
        }
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        match setting(BEHAVIOUR).as_str() {
            "bad-settings" => Err(Error::invalid_argument("`endpoint` is missing")),
            "doubtful-settings" => Ok(vec!["`endpoint` has no TLS".to_owned()]),
            _ => Ok(Vec::new()),
        }
    }
}

impl Controller for Misbehave {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let behaviour = value(&args.parameters, BEHAVIOUR);
        let volume = Volume::new(
            args.name.clone(),
            args.capacity.required_bytes.unwrap_or(1 << 30),
        );
        resources::misuse(&behaviour);
        outside_of_stage(&behaviour)?;
        answers::volume(&behaviour, volume)
    }

    fn delete_volume(id: VolumeId) -> Result<(), Error> {
        resources::misuse(&id);
        Ok(())
    }

    fn validate_volume_capabilities(_: ValidateArgs) -> Result<Validation, Error> {
        Ok(Validation::Confirmed)
    }
}

impl ControllerExpand for Misbehave {
    /// The id says how large the volume becomes.
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let bytes = args
            .id
            .parse()
            .map_err(|_| Error::not_found("no such volume"))?;
        Ok(Expanded::to(bytes))
    }
}

impl VolumeListing for Misbehave {
    /// The token says how many entries come.
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let count: usize = page
            .starting_token
            .and_then(|token| token.parse().ok())
            .unwrap_or(0);
        let entry = |number: usize| VolumeEntry {
            volume: Volume::new(format!("volume-{number}"), 1),
            status: VolumeStatus {
                published_nodes: Vec::new(),
                condition: None,
            },
        };
        Ok(VolumePage {
            entries: (0..count).map(entry).collect(),
            next_token: None,
        })
    }
}

impl NodeStage for Misbehave {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        let behaviour = value(&args.volume_context, BEHAVIOUR);
        resources::misuse(&behaviour);
        let secret = secrets::of_request("password");
        let password = secret
            .as_ref()
            .map(secrets::Secret::expose)
            .unwrap_or_default();
        match behaviour.as_str() {
            "no-source" => return Ok(()),
            "two-sources" => {
                plan.directory(&POOL, "a")?;
                // Goes on as if nothing had happened.
                let _ = plan.image(&POOL, "b");
                return Ok(());
            }
            "error-after-source" => {
                plan.directory(&POOL, "a")?;
                return Err(Error::unavailable("changed my mind"));
            }
            "state-on-node" => return state::get::<u64>("key").map(drop),
            "secret-in-plan" => {
                plan.filesystem(
                    "cifs",
                    "//server/share",
                    &[&format!("password={password}")],
                    &[],
                )?;
            }
            "unknown-secret" => {
                plan.filesystem("cifs", "//server/share", &[], &[("password", "no-such")])?;
            }
            "secret-by-name" => {
                plan.filesystem(
                    "cifs",
                    "//server/share",
                    &["vers=3.1.1"],
                    &[("password", "password")],
                )?;
            }
            "huge-plan" => {
                plan.directory(&POOL, "a")?;
                for number in 0..1000 {
                    plan.note(&number.to_string(), &"n".repeat(100))?;
                }
            }
            "huge-files" => {
                plan.files(&[File {
                    path: "a".to_owned(),
                    mode: 0o400,
                    content: vec![0; (1 << 20) + 1],
                }])?;
            }
            _ => {
                plan.directory(&POOL, &args.id)?;
                plan.default_fs_type("ext4")?;
                plan.mount_options(&["noatime"])?;
                plan.note("made-by", "misbehave")?;
            }
        }
        Ok(())
    }
}

impl NodeHooks for Misbehave {
    fn before_unstage(id: VolumeId, _: Attributes) -> Result<(), Error> {
        resources::misuse(&id);
        outside_of_stage(&id)
    }
}

/// Steps where there is no plan.
fn outside_of_stage(behaviour: &str) -> Result<(), Error> {
    match behaviour {
        "step-outside" => node_plan::directory("volumes", "a"),
        "ignored-step-outside" => {
            let _ = node_plan::tmpfs(None);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn setting(name: &str) -> String {
    value(&call::settings(), name)
}

fn value(attributes: &Attributes, name: &str) -> String {
    let found = attributes.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}
