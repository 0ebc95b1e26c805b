//! A mounter that is killed at a step of the life of an image.

use super::cluster::{Cluster, Image, assert_nothing_left, host_at};
use crate::host::Host;
use crate::kills::{GROWN_BYTES, Scene, kill_at_each_step};
use std::fs;
use std::path::{Path, PathBuf};
use wasmount_core::plan::rbd::ImageAccess;

/// Where the process that is killed finds the id of each image, and the key.
const FOLDER: &str = "/run/wasmount-test-images";

pub(crate) struct Killed(Cluster);

fn name(number: u32) -> String {
    format!("killed-{number}")
}

impl Scene for Killed {
    type Volume = Image;
    const NAME: &'static str = "RBD";

    fn host(folder: &Path) -> Host {
        host_at(folder)
    }

    fn volume(number: u32) -> Image {
        let name = name(number);
        let text = fs::read_to_string(Path::new(FOLDER).join(&name)).unwrap();
        let (id, key) = text.split_once(' ').unwrap();
        Image {
            name,
            id: id.to_owned(),
            key: key.to_owned(),
            // An exclusive image cannot grow while it is mapped.
            access: ImageAccess::Shared,
            is_raw: false,
            is_encrypted: false,
        }
    }

    fn offer(&mut self, number: u32) {
        let Image { name, id, key, .. } = self.0.create(&name(number));
        fs::create_dir_all(FOLDER).unwrap();
        fs::write(Path::new(FOLDER).join(name), format!("{id} {key}")).unwrap();
    }

    fn grow(&mut self, number: u32) {
        let size = format!("{}M", GROWN_BYTES >> 20);
        let grow = ["resize", "--no-progress", "--size", &size, &name(number)];
        self.0.ceph.rbd(&grow).unwrap();
    }

    fn file(&self, number: u32) -> PathBuf {
        self.0.ceph.export(&name(number)).unwrap()
    }

    fn withdraw(&mut self, number: u32) {
        self.0.remove(&name(number));
    }

    fn assert_nothing_left(host: &Host) {
        assert_nothing_left(host);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_image_of_ceph_survives_a_kill_each_step() {
    kill_at_each_step(Killed(Cluster::start())).await;
}
