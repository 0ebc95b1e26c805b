"""A driver of Cinder whose volumes are sparse files. Words in the name of a volume or of a snapshot make it fail or wait. An attached volume is a
loop device of this machine, which needs root."""

import os
import subprocess
import time

from cinder import exception
from cinder.volume import driver
from oslo_config import cfg

CAPACITY_GIB = 1000
SLOW_SECONDS = 5
BY_ID = "/dev/disk/by-id"
SERIAL_BYTES = 20


class FileDriver(driver.VolumeDriver):
    VERSION = "1"

    def check_for_setup_error(self):
        os.makedirs(self._directory(), exist_ok=True)

    def create_volume(self, volume):
        with open(self._path(volume), "wb") as file:
            self._obey(volume)
            file.truncate(volume.size << 30)

    def create_volume_from_snapshot(self, volume, snapshot):
        self._copy(snapshot, volume)

    def create_cloned_volume(self, volume, src_vref):
        self._copy(src_vref, volume)

    def extend_volume(self, volume, new_size):
        os.truncate(self._path(volume), new_size << 30)
        if os.path.islink(self._link(volume)):
            subprocess.check_call(["losetup", "--set-capacity", os.readlink(self._link(volume))])

    def create_snapshot(self, snapshot):
        self._copy(snapshot.volume, snapshot)

    def delete_volume(self, volume):
        if "fails-to-delete" in (volume.display_name or ""):
            raise exception.VolumeBackendAPIException(data="the name says so")
        if os.path.exists(self._path(volume)):
            os.unlink(self._path(volume))

    delete_snapshot = delete_volume

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector):
        link = self._link(volume)
        if not os.path.islink(link):
            attach = ["losetup", "--find", "--show", self._path(volume)]
            device = subprocess.check_output(attach, text=True).strip()
            os.makedirs(BY_ID, exist_ok=True)
            os.symlink(device, link)
        return {"driver_volume_type": "local", "data": {"device_path": link}}

    def terminate_connection(self, volume, connector, **kwargs):
        link = self._link(volume)
        if os.path.islink(link):
            subprocess.check_call(["losetup", "--detach", os.readlink(link)])
            os.unlink(link)

    def _directory(self):
        return os.path.join(cfg.CONF.state_path, "volumes")

    def _path(self, it):
        return os.path.join(self._directory(), it.name)

    def _link(self, volume):
        """As udev names a virtio disk whose serial number is what fits of the volume's id."""
        return f"{BY_ID}/virtio-{volume.id[:SERIAL_BYTES]}"

    def _copy(self, source, target):
        self._obey(target)
        subprocess.check_call(["cp", "--sparse=always", self._path(source), self._path(target)])
        if hasattr(target, "size"):
            os.truncate(self._path(target), target.size << 30)

    def _obey(self, it):
        name = it.display_name or ""
        if "is-slow" in name:
            time.sleep(SLOW_SECONDS)
        if "fails-to-create" in name:
            raise exception.VolumeBackendAPIException(data="the name says so")

    def _update_volume_stats(self):
        self._stats = {
            "volume_backend_name": self.configuration.safe_get("volume_backend_name"),
            "vendor_name": "Wasmount",
            "driver_version": self.VERSION,
            "storage_protocol": "local",
            "total_capacity_gb": CAPACITY_GIB,
            "free_capacity_gb": CAPACITY_GIB,
            "reserved_percentage": 0,
            "multiattach": True,
            "online_extend_support": True,
        }
