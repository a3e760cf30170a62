#!/usr/bin/python3
"""Who may do what: caps.py CEPH_CONF [PART]

Prints a line for each entity, operation and place: `entity | operation | place | errno`, 0 for what went through. Each entity's capabilities
come first. Run on a stock cluster to record, and on ours to compare. Every operation can be done again and again. What `x` covers by itself is
the default of 18.2 (`osd_class_default_list`): a cluster to record from must not open it, while it loads all classes (`osd_class_load_list = *`).

PART is `prepare`, or then `objects`, `monitor` or `endpoints`, which may run beside each other; without it all of them run in turn.
"""
import errno
import json
import sys
import time

import rados

sys.dont_write_bytecode = True
from caps_copy import Copier
from caps_ends import MGR, MGR_CAPS, TELL_CAPS, TELL_MGR, TELL_MON, TELL_OSD, TELL_OSD_CAPS

conf = sys.argv[1]
PARTS = sys.argv[2:] or ["prepare", "objects", "monitor", "endpoints"]
admin = rados.Rados(conffile=conf, name="client.admin")
admin.connect()


def mon(cluster, line, inbuf=b""):
    command = line if isinstance(line, dict) else {"prefix": line}
    return cluster.mon_command(json.dumps(dict(command, format="json")), inbuf, timeout=5)


def must(command):
    ret, out, err = mon(admin, command)
    assert ret == 0, (command, ret, err)
    return out


# Pools, namespaces, objects.
POOLS = ["t1", "t2", "tagged", "images"]
PLACES = [("t1", "", "ok_o"), ("t1", "", "other"), ("t1", "a", "ok_o"), ("t1", "ab", "other"), ("t1", "b", "other"),
          ("t2", "", "ok_o"), ("t2", "a", "other"), ("tagged", "", "other"), ("images", "", "rbd_info"), ("images", "", "rbd_header.1")]
if "prepare" in PARTS:
    for pool in POOLS:
        must({"prefix": "osd pool create", "pool": pool, "pg_num": 8})
    for pool, app in [("t1", "rados"), ("t2", "rados"), ("tagged", "cephfs"), ("images", "rbd")]:
        must({"prefix": "osd pool application enable", "pool": pool, "app": app})
    must({"prefix": "osd pool application set", "pool": "tagged", "app": "cephfs", "key": "data", "value": "a"})
    for key in ["secret", "dm-crypt/osd/0/luks", "rbd/mirror/site", "rbd/mirror/peer/1/y", "cephfs/mirror/peer/x"]:
        must({"prefix": "config-key set", "key": key, "val": "x"})
    for pool, namespace, name in PLACES:
        with admin.open_ioctx(pool) as io:
            io.set_namespace(namespace)
            io.write_full(name, b"x")
            io.set_xattr(name, "k", b"v")
    with admin.open_ioctx("t1") as io:
        io.write_full("hello", b"x")
        try:
            io.execute("ok_o.r", "hello", "record_hello", b"")  # so that it is there for everybody
        except rados.ObjectExists:
            pass
    # Until the manager has heard of every group it can't say whether an OSD may go.
    for prefix in ["osd ok-to-stop", "osd safe-to-destroy"]:
        command = json.dumps({"prefix": prefix, "ids": ["0"], "format": "json"})
        while abs(admin.mgr_command(command, b"", timeout=5)[0]) == errno.EAGAIN:
            time.sleep(0.1)


def omap(io, name):
    with rados.ReadOpCtx() as op:
        pairs, _ = io.get_omap_vals(op, "", "", 9)
        io.operate_read_op(op, name)
        list(pairs)


def set_omap(io, name):
    with rados.WriteOpCtx() as op:
        io.set_omap(op, ("k",), (b"v",))
        io.operate_write_op(op, name)


def lock(io, name):
    io.lock_exclusive(name, "l", "c", flags=1)  # again, if it is held
    io.unlock(name, "l", "c")


# On objects. Texts: sent to a class. Those with `*` are done in every place, the others in the first only.
OBJECT = [
    ("read *", lambda io, o: io.read(o)),
    ("write_full *", lambda io, o: io.write_full(o, b"x")),
    ("stat", lambda io, o: io.stat(o)),
    ("append", lambda io, o: io.append(o, b"")),
    ("truncate", lambda io, o: io.trunc(o, 1)),
    ("getxattr", lambda io, o: io.get_xattr(o, "k")),
    ("setxattr", lambda io, o: io.set_xattr(o, "k", b"v")),
    ("omap", omap),
    ("set_omap", set_omap),
    ("remove", lambda io, o: io.remove_object(o + ".nosuch")),
    ("list", lambda io, o: list(io.list_objects())[:1]),
    ("notify", lambda io, o: io.notify(o, "", 1000)),
    ("lock *", lock),
    ("lock.get_info", lambda io, o: io.execute(o, "lock", "get_info", b"\x01\x01\x05\0\0\0\x01\0\0\0l")),
    ("hello.say_hello *", lambda io, o: io.execute(o, "hello", "say_hello", b"")),
    ("hello.record_hello", lambda io, o: io.execute(o + ".r", "hello", "record_hello", b"")),
    ("hello.nosuch", lambda io, o: io.execute(o, "hello", "nosuch", b"")),
    ("sdk.test_coverage_write", lambda io, o: io.execute(o + ".s", "sdk", "test_coverage_write", b"")),
    ("nosuch.nosuch", lambda io, o: io.execute(o, "nosuch", "nosuch", b"")),
    ("rbd.metadata_list *", lambda io, o: io.execute(o, "rbd", "metadata_list", b"\0\0\0\0\x09\0\0\0\0\0\0\0")),
    ("rbd.dir_list", lambda io, o: io.execute(o, "rbd", "dir_list", b"\0\0\0\0\x09\0\0\0\0\0\0\0")),
    ("rbd.metadata_set *", lambda io, o: io.execute(o, "rbd", "metadata_set", b"\x01\0\0\0\x01\0\0\0k\x01\0\0\0v")),
]
# From one place to another.
TARGET = ("t1", "", "ok_copy")
COPIES = [(("t1", "", "ok_o"), TARGET), (("t1", "", "other"), TARGET), (("t1", "a", "ok_o"), TARGET), (("t2", "", "ok_o"), TARGET),
          (("tagged", "", "other"), TARGET), (("images", "", "rbd_info"), TARGET), (("t2", "", "ok_nosuch"), TARGET),
          (("t1", "", "ok_o"), ("t1", "a", "ok_copy")), (("t1", "b", "other"), ("t1", "a", "ok_copy")), (("t1", "", "ok_o"), ("t2", "", "ok_copy")),
          (("t1", "", "ok_o"), ("images", "", "rbd_copy"))]
OSD_CAPS = {
    "all": "allow *",
    "r": "allow r",
    "w": "allow w",
    "rw": "allow rw",
    "rx": "allow rx",
    "wx": "allow wx",
    "rwx": "allow rwx",
    "pool": "allow rw pool=t1",
    "pool-r": "allow r pool t1",
    "two": "allow r pool=t1, allow w pool=t1",
    "ns": "allow rwx pool=t1 namespace=a",
    "ns-star": "allow rwx pool=t1 namespace=a*",
    "ns-empty": 'allow rwx pool=t1 namespace=""',
    "ns-any": "allow rw namespace=a",
    "prefix": "allow rw object_prefix ok_",
    "pool-prefix": "allow rw pool=t1 object_prefix ok_",
    "tag": "allow rwx tag cephfs data=a",
    "tag-any": "allow rwx tag cephfs *=*",
    "tag-other": "allow rwx tag cephfs data=b",
    "tag-app": "allow rw tag rbd *=*",
    "class": "allow class hello",
    "method": "allow class hello say_hello",
    "method-rw": "allow rw, allow class hello record_hello",
    "class-read": "allow class-read",
    "class-write": "allow class-write",
    "rwclass": "allow r class-read class-write",
    "class-unlisted": "allow rwx, allow class sdk",
    "net-in": "allow rw network 127.0.0.0/8",
    "net-out": "allow rw network 10.0.0.0/8",
    "net-both": "allow r network 127.0.0.0/8, allow rw network 10.0.0.0/8",
    "all-net-out": "allow * network 10.0.0.0/8",
    "all-net-in": "allow * network 127.0.0.0/8",
    "pool-net-out": "allow r, allow rw pool=t1 network 10.0.0.0/8",
    "class-net-out": "allow r, allow class hello say_hello network 10.0.0.0/8",
    "profile-net-in": "profile rbd pool=images network 127.0.0.0/8",
    "profile-net-out": "profile rbd pool=images network 10.0.0.0/8",
    "profile-rbd": "profile rbd pool=images",
    "profile-rbd-all": "profile rbd",
    "profile-rbd-ro": "profile rbd-read-only pool=images",
    "profile-rbd-ns": "profile rbd pool=t1 namespace=a",
    "profile-ro": "profile read-only pool=t1",
    "profile-rw": "profile read-write",
    "profile-nosuch": "profile nosuch",
}

# At the monitor.
MON = [
    "status", "health", "osd dump", "osd tree", "osd lspools", "mon dump", "quorum_status", "mgr dump", "fs ls", "mds stat", "auth ls", "auth export",
    "config dump", "config-key ls", "config-key dump", "osd blocklist ls", "osd crush rule ls", "versions", "fsid", "node ls",
    {"prefix": "auth get", "entity": "client.admin"},
    {"prefix": "auth get-key", "entity": "client.admin"},
    {"prefix": "auth get-or-create", "entity": "client.made", "caps": ["mon", "profile rbd", "osd", "profile rbd pool=x"]},
    {"prefix": "auth get-or-create", "entity": "client.most", "caps": ["mon", "allow *"]},
    {"prefix": "auth rm", "entity": "client.nosuch"},
    {"prefix": "config-key get", "key": "secret"},
    {"prefix": "config-key get", "key": "dm-crypt/osd/0/luks"},
    {"prefix": "config-key exists", "key": "secret"},
    {"prefix": "config-key set", "key": "mine", "val": "x"},
    {"prefix": "config-key set", "key": "daemon-private/client.m-osd/x", "val": "x"},
    {"prefix": "config-key set", "key": "rbd/mirror/peer/x", "val": "x"},
    {"prefix": "config-key get", "key": "rbd/mirror/peer/x"},
    {"prefix": "config set", "who": "client.z", "name": "debug_ms", "value": "0/0"},
    {"prefix": "config rm", "who": "client.z", "name": "debug_ms"},
    {"prefix": "config get", "who": "client.z"},
    {"prefix": "osd set", "key": "noout"},
    {"prefix": "osd unset", "key": "noout"},
    {"prefix": "osd pool create", "pool": "t1", "pg_num": 8},
    {"prefix": "osd pool set", "pool": "t1", "var": "nodelete", "val": "false"},
    {"prefix": "osd pool get", "pool": "t1", "var": "size"},
    {"prefix": "osd pool rm", "pool": "nosuch", "pool2": "nosuch", "yes_i_really_really_mean_it": True},
    {"prefix": "osd blocklist", "blocklistop": "add", "addr": "192.168.9.9:0/7"},
    {"prefix": "osd blocklist", "blocklistop": "add", "addr": "192.168.9.9"},
    {"prefix": "osd blocklist", "blocklistop": "rm", "addr": "192.168.9.8:0/7"},
    {"prefix": "log", "logtext": ["hello"]},
    {"prefix": "osd out", "ids": ["77"]},
    "pg stat", "osd df", "osd pool stats",
    # Who is fenced: an address with and without a number, a network.
    {"prefix": "osd blocklist", "blocklistop": "add", "addr": "192.168.9.9:0/0"},
    {"prefix": "osd blocklist", "blocklistop": "add", "addr": "192.168.9.9:6800/7"},
    {"prefix": "osd blocklist", "range": "range", "blocklistop": "add", "addr": "192.168.9.0/24"},
    {"prefix": "osd blocklist", "range": "range", "blocklistop": "rm", "addr": "192.168.9.0/24"},
    # Keys for others: with the capabilities that a profile is for, with more, and with none.
    *({"prefix": "auth get-or-create", "entity": entity, "caps": caps} for entity, caps in [
        ("mds.made", ["mon", "allow profile mds", "osd", "allow rwx", "mds", "allow"]),
        ("mds.seen", ["mon", "allow profile mds", "osd", "allow rwx", "mds", "allow", "mgr", "profile mds"]),
        ("mds.wide", ["mon", "allow profile mds", "osd", "allow rwx", "mds", "allow", "mgr", "allow *"]),
        ("mds.most", ["mon", "allow *", "osd", "allow *", "mds", "allow *"]),
        ("mgr.made", ["mon", "allow profile mgr"]),
        ("mgr.full", ["mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"]),
        ("mgr.most", ["mon", "allow *"]),
        ("client.rgw.made", ["mon", "allow rw", "osd", "allow rwx"]),
        ("client.rgw.most", ["mon", "allow *", "osd", "allow *"]),
        ("client.rgw.wide", ["mon", "allow rw", "osd", "allow rwx", "mgr", "allow *"]),
        ("client.mirror", ["mon", "profile rbd-mirror", "osd", "profile rbd"]),
        ("client.seen", ["mon", "profile rbd", "osd", "profile rbd pool=x, profile rbd-read-only pool=y", "mgr", "profile rbd pool=x"]),
        ("client.wide", ["mon", "profile rbd", "osd", "allow *"]),
        ("client.mds", ["mon", "profile rbd", "osd", "profile rbd", "mds", "allow *"]),
        ("osd.9", ["mon", "profile rbd", "osd", "profile rbd"]),
    ]),
    *({"prefix": "auth get-or-create", "entity": entity} for entity in ["client.admin", "mds.made", "mgr.most", "client.made", "client.bare"]),
    {"prefix": "auth get-or-create-key", "entity": "client.made", "caps": ["mon", "profile rbd", "osd", "profile rbd pool=x"]},
    # The same with a constraint's own name for them.
    {"prefix": "auth get-or-create", "entity": "client.most", "caps": ["mon", "allow *"], "caps_mon": "profile rbd", "caps_osd": "profile rbd"},
    {"prefix": "auth get-or-create", "entity": "client.admin", "caps_mon": "profile rbd", "caps_osd": "profile rbd"},
    {"prefix": "auth get-or-create", "entity": "mds.most", "caps_mon": "allow profile mds", "caps_osd": "allow rwx", "caps_mds": "allow"},
    {"prefix": "auth get-or-create", "entity": "client.rgw.most", "caps_mon": "allow rw", "caps_osd": "allow rwx"},
    {"prefix": "auth caps", "entity": "client.made", "caps": ["mon", "profile rbd", "osd", "profile rbd pool=x"]},
    {"prefix": "auth print-key", "entity": "client.admin"},
    # What daemons and mirrors keep.
    {"prefix": "config-key get", "key": "rbd/mirror/site"},
    {"prefix": "config-key get", "key": "rbd/mirror/peer/1/y"},
    {"prefix": "config-key set", "key": "rbd/mirror/site", "val": "x"},
    {"prefix": "config-key get", "key": "cephfs/mirror/peer/x"},
    {"prefix": "config-key set", "key": "daemon-private/client.m-mds/x", "val": "x"},
    {"prefix": "config-key set", "key": "daemon-private/client.m-mgr/x", "val": "x"},
    {"prefix": "config set", "who": "osd.9", "name": "osd_mclock_max_capacity_iops_hdd", "value": "300"},
    {"prefix": "config set", "who": "osd.9", "name": "osd_max_backfills", "value": "2"},
    {"prefix": "config rm", "who": "osd.9", "name": "osd_max_backfills"},
    {"prefix": "config rm", "who": "osd.9", "name": "osd_mclock_max_capacity_iops_hdd"},
    {"prefix": "osd purge-new", "id": 77, "yes_i_really_mean_it": True},
    {"prefix": "osd pool rmsnap", "pool": "t1", "snap": "nosuch"},
    {"prefix": "fs set", "fs_name": "nosuch", "var": "max_mds", "val": "1"},
    {"prefix": "fs authorize", "filesystem": "nosuch", "entity": "client.nosuch", "caps": ["/", "r"]},
    {"prefix": "mds fail", "role_or_gid": "nosuch"},
]
# Over MPoolOp and MMonGetVersion, and at the OSD as a daemon.
OTHER = [
    ("mksnap", lambda c, io: io.create_snap("s") or io.remove_snap("s")),
    ("selfmanaged_snap t2", lambda c, io: io.remove_self_managed_snap(io.create_self_managed_snap())),
    ("wait_for_latest_osdmap", lambda c, io: c.wait_for_latest_osdmap()),
    ("tell osd.0 version", lambda c, io: ret(c.osd_command(0, '{"prefix": "version"}', b"", timeout=5))),
    ("blocklist_add", lambda c, io: c.blocklist_add("192.168.9.9:0/9", 60)),
]
# Questions that are not answered where they are not allowed: asked by few, since each takes until the client gives up.
SILENT = ["m-all", "m-r", "m-simple", "m-service-rw"]
SILENT_OTHER = [("get_pool_stats", lambda c, io: io.get_stats()), ("get_cluster_stats", lambda c, io: c.get_cluster_stats())]
# As silent: the map of OSDs for those who may not have it. Two are asked.
UNMAPPED = "m-x m-w m-auth m-config-key m-command-with m-command-prefix m-command-regex m-command-caps m-mon m-crash m-role-definer m-bootstrap-rbd m-bootstrap-rbd-mirror m-nosuch m-all-net-out m-profile-net-out".split()
# mon, osd
MON_CAPS = {
    "m-all": ("allow *", "allow *"),
    "m-r": ("allow r", "allow r"),
    "m-rw": ("allow rw", "allow rw"),
    "m-rwx": ("allow rwx", "allow rwx"),
    "m-x": ("allow x", ""),
    "m-w": ("allow w", ""),
    "m-service": ("allow service osd r", ""),
    "m-service-rw": ("allow service osd rw, allow service mon r", ""),
    "m-auth": ("allow service auth rx", ""),
    "m-config-key": ("allow service config-key r", ""),
    "m-command": ('allow command "osd tree"', ""),
    "m-command-with": ('allow command "config-key get" with key=secret', ""),
    "m-command-prefix": ('allow command "config-key get" with key prefix dm-crypt/', ""),
    "m-command-regex": ('allow command "config-key get" with key regex "sec.*"', ""),
    "m-command-caps": ('allow command "auth get-or-create" with entity prefix client. caps_mon="profile rbd"', ""),
    "m-two": ('allow r, allow command "osd set"', ""),
    "m-net-in": ("allow r network 127.0.0.0/8", ""),
    "m-net-out": ("allow r, allow * network 10.0.0.0/8", ""),
    "m-net-both": ("allow r network 127.0.0.0/8, allow rw network 10.0.0.0/8", ""),
    "m-all-net-in": ("allow * network 127.0.0.0/8", ""),
    "m-all-net-out": ("allow * network 10.0.0.0/8", ""),
    "m-service-net-out": ("allow r, allow service osd rw network 10.0.0.0/8", ""),
    "m-command-net-out": ('allow r, allow command "osd set" network 10.0.0.0/8', ""),
    "m-profile-net-in": ("profile rbd network 127.0.0.0/8", ""),
    "m-profile-net-out": ("profile rbd network 10.0.0.0/8", ""),
    "m-rbd": ("profile rbd", "profile rbd pool=t2"),
    "m-rbd-ro": ("profile rbd-read-only", "profile rbd-read-only"),
    "m-rbd-mirror": ("profile rbd-mirror", "profile rbd"),
    "m-rbd-mirror-peer": ("profile rbd-mirror-peer", ""),
    "m-ro": ("profile read-only", "profile read-only"),
    "m-rw-profile": ("profile read-write", ""),
    "m-osd": ("allow profile osd", "allow *"),
    "m-mgr": ("allow profile mgr", ""),
    "m-mds": ("allow profile mds", ""),
    "m-mon": ("allow profile mon", ""),
    "m-crash": ("profile crash", ""),
    "m-fs-client": ("profile fs-client", ""),
    "m-simple": ("profile simple-rados-client", "allow rw"),
    "m-simple-blocklist": ("profile simple-rados-client-with-blocklist", ""),
    "m-role-definer": ("profile role-definer", ""),
    "m-bootstrap-osd": ("allow profile bootstrap-osd", ""),
    "m-bootstrap-mds": ("allow profile bootstrap-mds", ""),
    "m-bootstrap-mgr": ("allow profile bootstrap-mgr", ""),
    "m-bootstrap-rgw": ("allow profile bootstrap-rgw", ""),
    "m-bootstrap-rbd": ("allow profile bootstrap-rbd", ""),
    "m-bootstrap-rbd-mirror": ("profile bootstrap-rbd-mirror", ""),
    "m-cephfs-mirror": ("profile cephfs-mirror", ""),
    "m-nosuch": ("profile nosuch", ""),
}

def ret(answer):
    if answer[0] != 0:
        raise OSError(abs(answer[0]), answer[2])


def outcome(f, *args):
    try:
        f(*args)
        return 0
    except (rados.Error, OSError) as e:
        return abs(e.errno or 0)


def row(*fields):
    print(" | ".join(str(f) for f in fields))


def user(name, copies=False, **caps):
    """A user that is connected, or None, and its second half for copies."""
    words = [w for service, text in caps.items() if text for w in (service, text)]
    print(f"# {name}: " + "; ".join(f"{s} {t}" for s, t in caps.items() if t))
    out = json.loads(must({"prefix": "auth get-or-create-key", "entity": f"client.{name}", "caps": words}))
    keyring = {"key": out["key"], "keyring": "/dev/null", "rados_osd_op_timeout": "5", "rados_mon_op_timeout": "5", "client_mount_timeout": "10"}
    for _ in range(5):  # a stock monitor may not know yet whom it has just made
        cluster = rados.Rados(conffile=conf, name=f"client.{name}", conf=keyring)
        code = outcome(cluster.connect)
        if code != 13:
            break
    if code:
        row(name, "connect", "", code)
        return None
    return (cluster, Copier(conf, f"client.{name}", keyring)) if copies else cluster


def words_of(command):
    """A command as the record has it; names of arguments stand where a value alone says too little."""
    if isinstance(command, str):
        return command
    flat = {k: " ".join(v) if isinstance(v, list) else str(v) for k, v in command.items()}
    return " ".join(f"{k}={v}" if k.startswith("caps_") else v for k, v in flat.items())


def as_json(command):
    return json.dumps(dict({"prefix": command} if isinstance(command, str) else command, format="json"))


def place_of(place):
    return "/".join(place)


for name, cap in OSD_CAPS.items() if "objects" in PARTS else []:
    cluster, copier = user(name, copies=True, mon="allow r", osd=cap)
    ios = {}
    for op, f in OBJECT:
        for pool, namespace, obj in PLACES if op.endswith("*") else PLACES[:1]:
            io = ios.setdefault(pool, cluster.open_ioctx(pool))
            io.set_namespace(namespace)
            row(name, op.rstrip(" *"), f"{pool}/{namespace}/{obj}", outcome(f, io, obj))
    for source, target in COPIES:
        row(name, "copy_from", f"{place_of(source)} > {place_of(target)}", copier.copy(source, target))
    copier.close()
    for io in ios.values():
        io.close()
    cluster.shutdown()

for name, (mon_cap, osd_cap) in MON_CAPS.items() if "monitor" in PARTS else []:
    cluster = user(name, mon=mon_cap, osd=osd_cap)
    if cluster is None:
        continue
    for command in MON:
        row(name, "mon", words_of(command), abs(mon(cluster, command)[0]))
    if name in UNMAPPED:
        cluster.shutdown()
        continue
    try:
        io = cluster.open_ioctx("t2")
    except rados.Error as e:
        row(name, "open_ioctx", "t2", abs(e.errno))
        cluster.shutdown()
        continue
    for op, f in OTHER[:2] + (SILENT_OTHER if name in SILENT else []) + OTHER[2:]:
        row(name, op, "", outcome(f, cluster, io))
    io.close()
    cluster.shutdown()

for name, cap in MGR_CAPS.items() if "endpoints" in PARTS else []:
    cluster = user(name, mon="allow r", mgr=cap)
    for command in MGR:
        row(name, "mgr", words_of(command), abs(cluster.mgr_command(as_json(command), b"", timeout=5)[0]))
    cluster.shutdown()

names = json.loads(must("mon dump"))["mons"][0]["name"], json.loads(must("mgr dump"))["active_name"]
for name, cap in TELL_CAPS.items() if "endpoints" in PARTS else []:
    cluster = user(f"t-mon-{name}", mon=cap)
    for command in TELL_MON:
        row(f"t-mon-{name}", "tell mon", words_of(command), abs(cluster.mon_command(as_json(command), b"", timeout=5, target=names[0])[0]))
    cluster.shutdown()
    cluster = user(f"t-mgr-{name}", mon="allow r", mgr=cap)
    for command in TELL_MGR:
        row(f"t-mgr-{name}", "tell mgr", words_of(command), abs(cluster.mgr_command(as_json(command), b"", timeout=5, target=names[1])[0]))
    cluster.shutdown()
for name, cap in (TELL_CAPS | TELL_OSD_CAPS).items() if "endpoints" in PARTS else []:
    cluster = user(f"t-osd-{name}", mon="allow r", osd=cap)
    for command in TELL_OSD:
        row(f"t-osd-{name}", "tell osd", words_of(command), abs(cluster.osd_command(0, as_json(command), b"", timeout=5)[0]))
    cluster.shutdown()
