"""How often a watcher hears each NOTIFY while its connection to the OSD is cut, at each place where it could be.

    notify.py run CONF NAMESPACE POOL PLACES SLOW watcher|notifier [COMMAND...]
                                              prints a line of JSON for each cut, and one of all
    notify.py watch CONF POOL OBJECT SLOW     a watcher that takes SLOW milliseconds to answer: prints what it hears
    notify.py notify CONF POOL OBJECT         sends each line of its input as a notification: prints how it ended

PLACES is `13`: each thirteenth byte either way; or `7:60`: 60 places drawn from seed 7, and for a watcher that is slow moments instead: milliseconds
after the notification came by (its pings would count as bytes). COMMAND is what watcher and notifier are started with: another release's folder.

The one whose connections are cut runs in a network namespace without a way out. What it dials on its loopback is taken by a proxy that goes on
outside, and that ends connections to the OSD after a number of bytes: whatever a client or server does is not changed.
"""

import ctypes
import json
import os
import queue
import random
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time

import rados

CLONE_NEWNET = 0x40000000
#: Bytes after which a connection is cut; a NOTIFY, its acknowledgement and the answer to that are shorter.
BYTES = 480
#: The same in secure mode.
SEALED_BYTES = 460


class Proxy:
    """Takes connections in the namespace and goes on with them outside."""

    def __init__(self, namespace):
        self.namespace, self.lock = namespace, threading.Lock()
        #: The direction ("down" is from the OSD to the watcher) and how many bytes more it may carry; or "after" and how many milliseconds more
        #: the connection has once the OSD has said something.
        self.armed, self.cuts = None, 0

    def serve(self, port, is_osd):
        made = queue.Queue()
        threading.Thread(target=self.listen, args=(port, made), daemon=True).start()
        listener = made.get()
        threading.Thread(target=self.accept, args=(listener, port, is_osd), daemon=True).start()

    def listen(self, port, made):
        # A thread of its own: it stays in the namespace, and the socket with it.
        with open("/var/run/netns/" + self.namespace) as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        made.put(listener)

    def accept(self, listener, port, is_osd):
        while True:
            inner, _ = listener.accept()
            outer = socket.create_connection(("127.0.0.1", port))
            for end in (inner, outer):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.carry, args=(inner, outer, is_osd), daemon=True).start()

    def carry(self, inner, outer, is_osd):
        ends = {inner: (outer, "up"), outer: (inner, "down")}
        end_at = None
        try:
            while True:
                ready = select.select(list(ends), [], [], end_at and max(0, end_at - time.time()))[0]
                if end_at and time.time() >= end_at:
                    self.cuts += 1
                    return
                for source in ready:
                    target, direction = ends[source]
                    data = source.recv(65536)
                    cut = False
                    with self.lock:
                        if is_osd and self.armed and self.armed[0] == direction:
                            cut = len(data) >= self.armed[1]
                            data = data[: self.armed[1]]
                            self.armed = None if cut else (direction, self.armed[1] - len(data))
                        elif is_osd and self.armed and self.armed[0] == "after" and direction == "down":
                            end_at, self.armed = time.time() + self.armed[1] / 1000, None
                    if data:
                        target.sendall(data)
                    if cut:
                        self.cuts += 1
                        # What was sent arrives before the end does.
                        time.sleep(0.01)
                    if cut or not data:
                        return
        except OSError:
            pass
        finally:
            for end in ends:
                # The server is told by a reset, as of a client whose network is gone.
                if end is outer:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()


def watch(conf, pool, name, slow):
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect()
    ioctx = cluster.open_ioctx(pool)

    def heard(notify_id, _notifier, _watch, data):
        print("HEARD", notify_id, bytes(data).decode(errors="replace").strip("\0"), flush=True)
        # The answer goes out when this returns.
        time.sleep(slow / 1000)

    held = ioctx.watch(name, heard, lambda *error: print("ERROR", *error, flush=True))
    print("WATCHING", flush=True)
    sys.stdin.read()
    held.close()


def notify(conf, pool, name):
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect()
    ioctx = cluster.open_ioctx(pool)
    print("READY", flush=True)
    for line in sys.stdin:
        try:
            ioctx.notify(name, line.strip(), 20000)
            print("acknowledged", flush=True)
        except rados.Error as error:
            print("errno", error.errno, flush=True)


def osd_ports(cluster):
    code, out, _ = cluster.mon_command(json.dumps({"prefix": "osd dump", "format": "json"}), b"")
    assert code == 0
    return [int(a["addr"].rsplit(":", 1)[1]) for osd in json.loads(out)["osds"] for a in osd["public_addrs"]["addrvec"]]


def places(text, slow):
    """What [`run`] goes through: directions with bytes, or "after" with milliseconds."""
    if ":" not in text:
        return [(way, count) for way in ("down", "up") for count in range(1, BYTES + 1, int(text))]
    seed, count = (int(word) for word in text.split(":"))
    chance = random.Random(seed)
    ways = ["after"] if slow > 0 else ["down", "up"]
    return [(way, chance.randint(1, 2 * slow if way == "after" else SEALED_BYTES)) for way in chance.choices(ways, k=count)]


def run(conf, namespace, pool, where, slow, cut, *prefix):
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect()
    ioctx = cluster.open_ioctx(pool)
    ioctx.write_full("watched", b"x")
    proxy = Proxy(namespace)
    with open(conf) as text:
        monitors = re.search(r"mon.host\s*=\s*(.*)", text.read()).group(1)
    for port in {int(p) for p in re.findall(r":(\d+)", monitors)}:
        proxy.serve(port, False)
    for port in osd_ports(cluster):
        proxy.serve(port, True)

    def start(verb, away):
        inside = ["ip", "netns", "exec", namespace] if away else []
        command = [*inside, *prefix, "/usr/bin/python3", __file__, verb, conf, pool, "watched"]
        command += [str(slow)] if verb == "watch" else []
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    watcher, notifier = start("watch", cut == "watcher"), start("notify", cut == "notifier")
    assert notifier.stdout.readline().strip() == "READY"
    heard, errors, ready = [], [], threading.Event()

    def listen():
        for line in watcher.stdout:
            word, *rest = line.split()
            if word == "HEARD":
                heard.append((int(rest[0]), rest[1]))
            elif word == "ERROR":
                errors.append(line.strip())
            ready.set()

    threading.Thread(target=listen, daemon=True).start()
    assert ready.wait(60), "the watcher does not come"

    def notify(text):
        notifier.stdin.write(text + "\n")
        notifier.stdin.flush()
        return notifier.stdout.readline().strip()

    def wait_heard(text):
        end = time.time() + 40
        while time.time() < end and all(said != text for _, said in heard):
            time.sleep(0.002)

    rows = []
    for number, (direction, count) in enumerate(places(where, slow)):
        tag, before, started = "%s%d.%d" % (direction, count, number), proxy.cuts, time.time()
        with proxy.lock:
            proxy.armed = (direction, count)
        result = notify(tag)
        if direction == "after":
            # It may come after the answer.
            time.sleep(count / 1000)
        with proxy.lock:
            proxy.armed = None
        # What comes now of the first is late: the connection is whole, and another notification went through it.
        after = notify(tag + "after")
        wait_heard(tag + "after")
        rows.append({"at": tag, "cut": proxy.cuts > before, "result": result, "after": after, "ms": int((time.time() - started) * 1000)})
    # Late ones had their time.
    time.sleep(2)
    order = [text for _, text in heard]
    ids = {}
    for number, text in heard:
        ids.setdefault(text, set()).add(number)
    for row in rows:
        at, after = row["at"], row["at"] + "after"
        row["heard"], row["after_heard"] = order.count(at), order.count(after)
        row["ids"] = len(ids.get(at, ()))
        behind = order[order.index(after) :] if after in order else []
        row["late"] = behind.count(at)
        print(json.dumps(row))
    sums = {}
    for row in rows:
        way = row["at"].rstrip("0123456789.")
        key = "%s, %s, heard %d" % (way, "cut" if row["cut"] else "whole", row["heard"])
        sums[key] = sums.get(key, 0) + 1
    print(json.dumps({"all": sums, "late": sum(r["late"] for r in rows), "errors": errors, "slowest_ms": max(r["ms"] for r in rows)}))
    for process in (watcher, notifier):
        process.stdin.close()
        process.wait(30)
    cluster.shutdown()


if __name__ == "__main__":
    if sys.argv[1] == "watch":
        watch(*sys.argv[2:5], int(sys.argv[5]))
    elif sys.argv[1] == "notify":
        notify(*sys.argv[2:5])
    else:
        run(*sys.argv[2:6], int(sys.argv[6]), *sys.argv[7:])
