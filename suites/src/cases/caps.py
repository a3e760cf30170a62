#!/usr/bin/python3
"""Who may do what: caps.py CEPH_CONF

Prints a line for each entity, operation and place: `entity | operation | place | errno`, 0 for what went through. Each entity's capabilities
come first. Run on a stock cluster to record, and on ours to compare. Every operation can be done again and again. What `x` covers by itself is
the default of 18.2 (`osd_class_default_list`): a cluster to record from must not open it, while it loads all classes (`osd_class_load_list = *`).
"""
import json
import sys

import rados

conf = sys.argv[1]
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
for pool in POOLS:
    must({"prefix": "osd pool create", "pool": pool, "pg_num": 8})
for pool, app in [("t1", "rados"), ("t2", "rados"), ("tagged", "cephfs"), ("images", "rbd")]:
    must({"prefix": "osd pool application enable", "pool": pool, "app": app})
must({"prefix": "osd pool application set", "pool": "tagged", "app": "cephfs", "key": "data", "value": "a"})
must({"prefix": "config-key set", "key": "secret", "val": "x"})
must({"prefix": "config-key set", "key": "dm-crypt/osd/0/luks", "val": "x"})
PLACES = [("t1", "", "ok_o"), ("t1", "", "other"), ("t1", "a", "ok_o"), ("t1", "ab", "other"), ("t1", "b", "other"),
          ("t2", "", "ok_o"), ("t2", "a", "other"), ("tagged", "", "other"), ("images", "", "rbd_info"), ("images", "", "rbd_header.1")]
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
UNMAPPED = "m-x m-w m-auth m-config-key m-command-with m-command-prefix m-command-regex m-command-caps m-mon m-crash m-role-definer m-bootstrap-rbd m-bootstrap-rbd-mirror m-nosuch".split()
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
# At the manager.
MGR = ["pg stat", "osd df", {"prefix": "pg dump", "dumpcontents": ["sum"]}, "osd perf", {"prefix": "osd ok-to-stop", "ids": ["0"]}]
MGR_CAPS = {
    "g-none": "",
    "g-all": "allow *",
    "g-r": "allow r",
    "g-rw": "allow rw",
    "g-x": "allow x",
    "g-pg": "allow service pg r",
    "g-command": 'allow command "pg stat"',
    "g-ro": "profile read-only",
    "g-rbd": "profile rbd",
    "g-net-out": "allow r network 10.0.0.0/8",
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


def user(name, **caps):
    words = [w for service, text in caps.items() if text for w in (service, text)]
    print(f"# {name}: " + "; ".join(f"{s} {t}" for s, t in caps.items() if t))
    out = json.loads(must({"prefix": "auth get-or-create-key", "entity": f"client.{name}", "caps": words}))
    keyring = {"key": out["key"], "keyring": "/dev/null", "rados_osd_op_timeout": "5", "rados_mon_op_timeout": "5", "client_mount_timeout": "10"}
    cluster = rados.Rados(conffile=conf, name=f"client.{name}", conf=keyring)
    code = outcome(cluster.connect)
    if code:
        row(name, "connect", "", code)
        return None
    return cluster


for name, cap in OSD_CAPS.items():
    cluster = user(name, mon="allow r", osd=cap)
    ios = {}
    for op, f in OBJECT:
        for pool, namespace, obj in PLACES if op.endswith("*") else PLACES[:1]:
            io = ios.setdefault(pool, cluster.open_ioctx(pool))
            io.set_namespace(namespace)
            row(name, op.rstrip(" *"), f"{pool}/{namespace}/{obj}", outcome(f, io, obj))
    for io in ios.values():
        io.close()
    cluster.shutdown()

for name, (mon_cap, osd_cap) in MON_CAPS.items():
    cluster = user(name, mon=mon_cap, osd=osd_cap)
    if cluster is None:
        continue
    for command in MON:
        words = command if isinstance(command, str) else " ".join(" ".join(v) if isinstance(v, list) else str(v) for v in command.values())
        row(name, "mon", words, abs(mon(cluster, command)[0]))
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

for name, cap in MGR_CAPS.items():
    cluster = user(name, mon="allow r", mgr=cap)
    for command in MGR:
        command = {"prefix": command} if isinstance(command, str) else command
        words = " ".join(" ".join(v) if isinstance(v, list) else v for v in command.values())
        row(name, "mgr", words, abs(cluster.mgr_command(json.dumps(dict(command, format="json")), b"", timeout=5)[0]))
    cluster.shutdown()
