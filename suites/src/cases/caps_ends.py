"""What is asked of the endpoints: of the manager's own commands and of others sent there, and of the commands to one daemon.

Each command is a prefix or a dictionary; each capability has the name of the entity that is given it.
"""

# The manager's own, and commands of the monitor, which the manager does not run for anybody.
MGR = [
    "pg stat", "osd df", {"prefix": "pg dump", "dumpcontents": ["sum"]}, "osd perf", {"prefix": "osd ok-to-stop", "ids": ["0"]},
    "pg ls", "pg dump_stuck", "osd pool stats", "osd blocked-by", {"prefix": "osd safe-to-destroy", "ids": ["0"]},
    {"prefix": "osd scrub", "who": "0"}, {"prefix": "osd pool scrub", "who": ["t1"]}, "osd test-reweight-by-utilization",
    {"prefix": "osd purge", "id": 77, "yes_i_really_mean_it": True}, {"prefix": "config show", "who": "osd.0"}, "service dump",
    {"prefix": "config-key get", "key": "secret"}, "config-key dump", {"prefix": "auth get", "entity": "client.admin"}, "auth ls",
    {"prefix": "auth get-or-create", "entity": "client.most", "caps": ["mon", "allow *"]}, "config dump",
    {"prefix": "osd set", "key": "noout"},
    {"prefix": "osd pool rm", "pool": "nosuch", "pool2": "nosuch", "yes_i_really_really_mean_it": True}, "osd dump", "status",
    {"prefix": "osd pool create", "pool": "t1", "pg_num": 8}, {"prefix": "osd blocklist", "blocklistop": "add", "addr": "192.168.9.9:0/7"},
    "nosuch command",
]
MGR_CAPS = {
    "g-none": "",
    "g-all": "allow *",
    "g-r": "allow r",
    "g-w": "allow w",
    "g-rw": "allow rw",
    "g-rwx": "allow rwx",
    "g-x": "allow x",
    "g-pg": "allow service pg r",
    "g-osd": "allow service osd rw",
    "g-config-key": "allow service config-key rw, allow service auth rwx",
    "g-command": 'allow command "pg stat"',
    "g-command-mon": 'allow command "config-key get", allow command "auth ls"',
    "g-command-with": 'allow command "osd scrub" with who=0, allow command "config show" with who=osd.1',
    "g-module": "allow module rbd_support rw",
    "g-ro": "profile read-only",
    "g-rw-profile": "profile read-write",
    "g-rbd": "profile rbd",
    "g-rbd-ro": "profile rbd-read-only",
    "g-rbd-pool": "profile rbd pool=images",
    "g-crash": "profile crash",
    "g-daemon": "allow profile osd",
    "g-net-in": "allow r network 127.0.0.0/8",
    "g-net-out": "allow r network 10.0.0.0/8",
    "g-net-both": "allow r network 127.0.0.0/8, allow rw network 10.0.0.0/8",
    "g-all-net-out": "allow r, allow * network 10.0.0.0/8",
    "g-profile-net-out": "profile read-only network 10.0.0.0/8",
    "g-command-net-out": 'allow command "pg stat" network 10.0.0.0/8',
}

# To one daemon: what it says of itself, and what changes it.
TELL_MON = ["mon_status", "config show", {"prefix": "config set", "var": "debug_ms", "val": ["0/0"]}, "nosuch"]
TELL_MGR = ["config show", {"prefix": "config get", "var": "debug_ms"}, {"prefix": "config set", "var": "debug_ms", "val": ["0/0"]},
            {"prefix": "config-key get", "key": "secret"}, "nosuch"]
TELL_OSD = ["version", "status", "perf dump", "config show", {"prefix": "config get", "var": "debug_ms"}, "dump_ops_in_flight",
            "dump_historic_ops", {"prefix": "config set", "var": "debug_ms", "val": ["0/0"]},
            {"prefix": "injectargs", "injected_args": ["--debug_ms=0/0"]}, {"prefix": "bench", "count": 4096, "size": 4096},
            "flush_pg_stats", {"prefix": "config-key get", "key": "secret"}, "nosuch"]
TELL_CAPS = {
    "all": "allow *",
    "rwx": "allow rwx",
    "rw": "allow rw",
    "r": "allow r",
    "both": "allow r, allow *",
    "net-in": "allow r, allow * network 127.0.0.0/8",
    "net-out": "allow r, allow * network 10.0.0.0/8",
    "ro": "profile read-only",
    "profile": "profile rbd",
}
# At OSDs only.
TELL_OSD_CAPS = {
    "pool": "allow * pool=t1",
    "namespace": "allow * namespace=a",
    "prefix": "allow * object_prefix ok_",
    "class": "allow class hello",
}
