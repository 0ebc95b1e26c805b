# Runs at the end of mmdebstrap, with the root file system as $1: makes a Ceph of one node on 127.0.0.1, in namespaces of its own, and stops it.
set -eu
# ceph-mgr imports each of its modules at its start: those that are neither part of every ceph-mgr nor used.
cd "$1/usr/share/ceph/mgr"
rm -r alerts influx insights iostat localpool mirroring osd_perf_query osd_support prometheus restful selftest snap_schedule stats telegraf \
  test_orchestrator zabbix
# Debian's module bcrypt is made with PyO3, which works in one interpreter of a process only (PyO3 issue 576), and ceph-mgr has one for each module.
cat >bcrypt.py <<'PYTHON'
import ctypes
import os

_library = ctypes.CDLL("libcrypt.so.1")
_library.crypt.restype = _library.crypt_gensalt.restype = ctypes.c_char_p


def gensalt(rounds=12):
    random = os.urandom(16)
    return _library.crypt_gensalt(b"$2b$", ctypes.c_ulong(rounds), random, len(random))


def hashpw(password, salt):
    return _library.crypt(password, salt)


def checkpw(password, hashed):
    return hashpw(password, hashed) == hashed
PYTHON
exec unshare --net --pid --fork --kill-child -- chroot "$1" sh -eu <<'SHELL'
ip link set lo up
fsid=8b0b3a5e-0000-4000-8000-000000000001
osd=8b0b3a5e-0000-4000-8000-000000000002
mkdir -p /run/ceph /var/lib/ceph/mon/ceph-a /var/lib/ceph/mgr/ceph-a /var/lib/ceph/osd/ceph-0 /var/lib/ceph/mds/ceph-a
# One copy of all data, on a disk of 1 GiB that is a sparse file.
cat >/etc/ceph/ceph.conf <<CONF
[global]
fsid = $fsid
mon host = 127.0.0.1
public addr = 127.0.0.1
cluster addr = 127.0.0.1
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon data avail warn = 1
mon data avail crit = 1
auth allow insecure global id reclaim = false
bluestore block size = 1073741824
mgr initial modules = dashboard
CONF
keys=$(mktemp) map=$(mktemp)
ceph-authtool "$keys" --create-keyring --gen-key --name mon. --cap mon 'allow *'
ceph-authtool /etc/ceph/ceph.client.admin.keyring --create-keyring --gen-key --name client.admin \
  --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *' --cap mgr 'allow *'
ceph-authtool "$keys" --import-keyring /etc/ceph/ceph.client.admin.keyring
monmaptool --clobber --create --add a 127.0.0.1 --fsid "$fsid" "$map"
ceph-mon --mkfs -i a --monmap "$map" --keyring "$keys"
ceph-mon -f -i a & mon=$!
ceph mon enable-msgr2
ceph auth get-or-create mgr.a mon 'allow profile mgr' osd 'allow *' mds 'allow *' -o /var/lib/ceph/mgr/ceph-a/keyring
ceph auth get-or-create mds.a mon 'profile mds' mgr 'profile mds' osd 'allow *' mds 'allow *' -o /var/lib/ceph/mds/ceph-a/keyring
ceph auth get-or-create osd.0 mon 'profile osd' mgr 'profile osd' osd 'allow *' -o /var/lib/ceph/osd/ceph-0/keyring
ceph osd new "$osd" 0
ceph-osd -i 0 --mkfs --osd-uuid "$osd"
for option in server_addr=127.0.0.1 server_port=8080 ssl=false; do
  ceph config set --force mgr "mgr/dashboard/${option%=*}" "${option#*=}"
done
ceph-mgr -f -i a & mgr=$!
ceph-osd -f -i 0 & osd=$!
ceph osd pool create metadata
ceph osd pool create data
ceph fs new cephfs metadata data
ceph-mds -f -i a & mds=$!
# The user of the REST API, and the MDS; both are there a moment after their daemons.
password=$(mktemp)
echo password-of-tests >"$password"
patiently() {
  for second in $(seq 60); do
    "$@" && return
    sleep 1
  done
  return 1
}
is_active() { ceph mds stat | grep up:active; }
patiently ceph dashboard ac-user-create csi -i "$password" administrator --force-password
patiently is_active
# The key of nodes, for the subvolumes of one group.
ceph auth get-or-create-key client.kubernetes mon 'allow r fsname=cephfs' mds 'allow rw fsname=cephfs path=/volumes/csi' \
  osd 'allow rw tag cephfs data=cephfs' >/etc/ceph/kubernetes.key
for process in "$mds" "$mgr" "$osd" "$mon"; do
  kill "$process"
  # A daemon that a signal ends has no status of success.
  wait "$process" || true
done
rm "$keys" "$map" "$password"
SHELL
