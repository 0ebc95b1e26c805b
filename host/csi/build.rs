//! Generates Rust from `proto/`, without `protoc`. Messages with a field marked `csi_secret` get a `Debug` that prints only the name instead of the
//! derived one. They are found by that mark and not by a list, so that a new secret cannot be forgotten.

use protox::prost_reflect::{DescriptorPool, MessageDescriptor};
use std::error::Error;
use std::path::PathBuf;

/// Has no secret mark, but the specification allows sensitive data in its `mount_flags`.
const SENSITIVE_WITHOUT_MARK: &str = "csi.v1.VolumeCapability.MountVolume";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(["csi.proto"])?;

    // Encoded by protox: prost's own types would drop the marks.
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;

    let mut unformattable = with_secrets(&compiler.descriptor_pool())?;
    unformattable.push(SENSITIVE_WITHOUT_MARK.to_owned());
    let debug: String = unformattable.iter().map(|it| name_only(it)).collect();
    std::fs::write(out.join("debug.rs"), debug)?;
    tonic_prost_build::configure()
        // Maps in key order, as on the wire in tests and in the core's own maps.
        .btree_map(".")
        .build_server(false)
        .skip_debug(unformattable)
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// Full names of all messages with a field marked `csi_secret`.
fn with_secrets(pool: &DescriptorPool) -> Result<Vec<String>, Box<dyn Error>> {
    let mark = pool
        .get_extension_by_name("csi.v1.csi_secret")
        .ok_or("csi.proto defines no csi_secret")?;
    let secretive = |message: &MessageDescriptor| {
        message
            .fields()
            .any(|field| field.options().get_extension(&mark).as_bool() == Some(true))
    };
    Ok(pool
        .all_messages()
        .filter(secretive)
        .map(|message| message.full_name().to_owned())
        .collect())
}

/// A `Debug` of a message that prints its name. A nested message is in a module named after the outer one.
fn name_only(full_name: &str) -> String {
    let path = full_name
        .trim_start_matches("csi.v1.")
        .replace("VolumeCapability.", "volume_capability::");
    let name = full_name.rsplit('.').next().unwrap_or_default();
    format!(
        "impl ::std::fmt::Debug for {path} {{
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {{
                f.write_str(\"{name}\")
            }}
        }}
        "
    )
}
