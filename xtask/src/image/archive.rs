//! An image in one file: the OCI image layout as a tar archive (OCI image specification 1.1), which containerd, podman and skopeo read.
//!
//! The same content gives the same bytes: times, owners and the order of a directory do not affect it.

use crate::failure::Failure;
use crate::files;
use crate::platform::Architecture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// Mode of files: every user may read and run them; images need no other mode.
const MODE: u32 = 0o755;

/// The media type of a manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Bytes of a layer that are read at a time.
const CHUNK: usize = 1 << 16;

/// An image, and the program that it runs by default.
#[derive(Debug, Clone)]
pub struct Image<'a> {
    /// The name with registry and tag, such as `wasmount.local/busybox:1`.
    pub name: &'a str,
    /// The program, with its first arguments.
    pub entrypoint: &'a [&'a str],
    /// Default arguments, which a pod can replace.
    pub arguments: &'a [&'a str],
    /// The processor that its programs are for.
    pub architecture: Architecture,
    /// Uncompressed tar archives, the lowest first.
    pub layers: &'a [PathBuf],
}

/// An entry in a layer.
#[derive(Debug, Clone)]
pub enum Content {
    /// A program or another file, as it is on this machine.
    File(PathBuf),
    /// A symbolic link to this.
    Link(&'static str),
}

/// A blob of the layout.
struct Blob {
    digest: String,
    size: u64,
}

/// Writes a layer with these entries, each at its path in the image.
pub fn write_layer(path: &Path, contents: &[(String, Content)]) -> Result<(), Failure> {
    write(path, |archive| {
        for (name, content) in contents {
            match content {
                Content::File(source) => {
                    let file = File::open(source)?;
                    let size = file.metadata()?.len();
                    archive.append_data(&mut header(EntryType::Regular, size), name, file)?;
                }
                Content::Link(target) => {
                    archive.append_link(&mut header(EntryType::Symlink, 0), name, target)?;
                }
            }
        }
        Ok(())
    })
}

impl Image<'_> {
    /// Writes the image into a file.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut layers = Vec::new();
        for layer in self.layers {
            let failed = Failure::cannot(format!("read {}", layer.display()));
            layers.push(blob_of(layer).map_err(failed)?);
        }
        let config = self.config(&layers).to_string();
        let config_blob = Blob::of(config.as_bytes());
        let manifest = manifest(&config_blob, &layers).to_string();
        let manifest_blob = Blob::of(manifest.as_bytes());
        let index = self.index(&manifest_blob).to_string();
        write(path, |archive| {
            text(archive, "oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)?;
            text(archive, "index.json", &index)?;
            text(archive, &manifest_blob.path(), &manifest)?;
            text(archive, &config_blob.path(), &config)?;
            for (source, blob) in self.layers.iter().zip(&layers) {
                let mut header = header(EntryType::Regular, blob.size);
                archive.append_data(&mut header, blob.path(), File::open(source)?)?;
            }
            Ok(())
        })
    }

    fn config(&self, layers: &[Blob]) -> Value {
        let layers: Vec<_> = layers.iter().map(|it| &it.digest).collect();
        json!({
            "architecture": self.architecture.name(),
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Cmd": self.arguments,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": layers},
        })
    }

    fn index(&self, manifest: &Blob) -> Value {
        let tag = self.name.rsplit(':').next();
        // The annotation with the whole name is containerd's own; the specification defines only that of the tag.
        let annotations = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": tag,
        });
        let manifest = json!({
            "mediaType": MANIFEST,
            "digest": manifest.digest,
            "size": manifest.size,
            "platform": {"architecture": self.architecture.name(), "os": "linux"},
            "annotations": annotations,
        });
        json!({"schemaVersion": 2, "manifests": [manifest]})
    }
}

impl Blob {
    fn of(content: &[u8]) -> Self {
        Self {
            digest: named(&Sha256::digest(content)),
            size: content.len() as u64,
        }
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }

    fn descriptor(&self, media: &str) -> Value {
        json!({"mediaType": media, "digest": self.digest, "size": self.size})
    }
}

fn manifest(config: &Blob, layers: &[Blob]) -> Value {
    let layer = |it: &Blob| it.descriptor("application/vnd.oci.image.layer.v1.tar");
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": layers.iter().map(layer).collect::<Vec<_>>(),
    })
}

/// The SHA-256 of a file, in hexadecimal.
pub fn digest_of(path: &Path) -> io::Result<String> {
    let blob = blob_of(path)?;
    let digest = blob.digest.split(':').next_back();
    Ok(digest.unwrap_or_default().to_owned())
}

/// The blob of a file that may be larger than memory.
fn blob_of(path: &Path) -> io::Result<Blob> {
    let mut file = BufReader::new(File::open(path)?);
    let mut digest = Sha256::new();
    let mut size = 0;
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => {
                digest.update(chunk.get(..read).unwrap_or_default());
                size += read as u64;
            }
        }
    }
    Ok(Blob {
        digest: named(&digest.finalize()),
        size,
    })
}

fn named(digest: &[u8]) -> String {
    format!("sha256:{}", hex::encode(digest))
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(MODE);
    header.set_size(size);
    header
}

fn text(archive: &mut Builder<File>, name: &str, content: &str) -> io::Result<()> {
    let mut header = header(EntryType::Regular, content.len() as u64);
    archive.append_data(&mut header, name, content.as_bytes())
}

/// Writes a tar archive.
fn write(
    path: &Path,
    fill: impl FnOnce(&mut Builder<File>) -> io::Result<()>,
) -> Result<(), Failure> {
    files::complete(path, |unfinished| {
        File::create(unfinished)
            .and_then(|file| {
                let mut archive = Builder::new(file);
                fill(&mut archive)?;
                archive.into_inner()?.flush()
            })
            .map_err(Failure::cannot(format!("write {}", path.display())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn image(directory: &Path, content: &str) -> Vec<u8> {
        let program = directory.join("program");
        std::fs::write(&program, content).unwrap();
        let layer = directory.join("layer.tar");
        let contents = [
            ("bin/program".to_owned(), Content::File(program)),
            ("bin/other".to_owned(), Content::Link("program")),
        ];
        write_layer(&layer, &contents).unwrap();
        let path = directory.join("image.tar");
        let image = Image {
            name: "wasmount.local/test:1",
            entrypoint: &["/bin/program"],
            arguments: &["--help"],
            architecture: Architecture::Arm64,
            layers: &[layer],
        };
        image.write(&path).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn equal_contents_give_equal_images() {
        let directory = tempfile::tempdir().unwrap();
        let first = image(directory.path(), "a");
        assert_eq!(image(directory.path(), "a"), first);
        assert_ne!(image(directory.path(), "b"), first);
    }

    #[test]
    fn every_blob_is_named_by_digest_and_indexed() {
        let directory = tempfile::tempdir().unwrap();
        let archive = image(directory.path(), "a");
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(&*archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if let Some(digest) = name.strip_prefix("blobs/") {
                assert_eq!(digest.replace('/', ":"), Blob::of(&content).digest);
            }
            files.insert(name, content);
        }
        let read = |path: &str| serde_json::from_slice::<Value>(&files[path]).unwrap();
        let blob = |it: &Value| format!("blobs/{}", it.as_str().unwrap().replace(':', "/"));
        let index = read("index.json");
        let manifest = read(&blob(&index["manifests"][0]["digest"]));
        let config = read(&blob(&manifest["config"]["digest"]));
        let platform = json!({"architecture": "arm64", "os": "linux"});
        assert_eq!(index["manifests"][0]["platform"], platform);
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["config"]["Entrypoint"], json!(["/bin/program"]));
        let layer = &manifest["layers"][0]["digest"];
        assert_eq!(config["rootfs"]["diff_ids"][0], *layer);
        let layer = files[&blob(layer)].clone();
        let names: Vec<_> = tar::Archive::new(&*layer)
            .entries()
            .unwrap()
            .map(|it| it.unwrap().path().unwrap().into_owned())
            .collect();
        assert_eq!(names, [Path::new("bin/program"), Path::new("bin/other")]);
        assert_eq!(files.len(), 5, "{:?}", files.keys());
    }
}
