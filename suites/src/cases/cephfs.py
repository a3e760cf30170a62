"""A client of CephFS through libcephfs: steps given as arguments, `ok` when all of them saw what they should.

make: directories, files, renames, snapshots. check: all that `make` left. write FOLDER N: N files, each synced; their numbers are printed as
they are safe; fewer if the file STOP is there. read FOLDER N: all of those.
"""

import os
import sys
import time
import cephfs


def content(i):
    return (b"%d|" % i) * (1 + i * 37 % 4000)


def put(fs, path, data):
    fd = fs.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    fs.write(fd, data, 0)
    fs.fsync(fd, 0)
    fs.close(fd)


def get(fs, path):
    fd = fs.open(path, os.O_RDONLY)
    out = b""
    while part := fs.read(fd, len(out), 1 << 20):
        out += part
    fs.close(fd)
    return out


def names(fs, path):
    with fs.opendir(path) as d:
        found = set()
        while entry := fs.readdir(d):
            found.add(entry.d_name.decode())
        return found - {".", ".."}


def make(fs):
    fs.mkdirs("/a/b/c", 0o755)
    put(fs, "/a/small", b"one")
    put(fs, "/a/b/large", content(7) * 300)
    put(fs, "/a/b/gone", b"x")
    fs.rename("/a/b/gone", "/a/b/c/moved")
    fs.symlink("small", "/a/link")
    fs.link("/a/small", "/a/b/hard")
    fs.setxattr("/a/small", "user.tag", b"value", 0)
    # A snapshot keeps what was there, and goes.
    fs.mkdir("/a/.snap/first", 0o755)
    put(fs, "/a/small", b"two")
    fs.unlink("/a/b/large")
    fs.mkdir("/a/.snap/second", 0o755)
    fs.rmdir("/a/.snap/second")
    for i in range(100):
        put(fs, "/a/b/c/%d" % i, content(i))
    try:
        fs.rmdir("/a")
        raise AssertionError("a directory that isn't empty can't go")
    except cephfs.ObjectNotEmpty:
        pass


def check(fs):
    assert names(fs, "/a") == {"b", "small", "link"}, names(fs, "/a")
    assert names(fs, "/a/b") == {"c", "hard"}
    assert names(fs, "/a/.snap") == {"first"}
    assert get(fs, "/a/link") == b"two" == get(fs, "/a/b/hard")
    assert get(fs, "/a/b/c/moved") == b"x"
    assert get(fs, "/a/.snap/first/small") == b"one"
    assert get(fs, "/a/.snap/first/b/large") == content(7) * 300
    assert fs.getxattr("/a/small", "user.tag") == b"value"
    assert fs.stat("/a/small").st_nlink == 2
    for i in range(100):
        assert get(fs, "/a/b/c/%d" % i) == content(i), i


def write(fs, folder, n):
    fs.mkdirs(folder, 0o755)
    for i in range(n):
        put(fs, "%s/new" % folder, content(i))
        fs.rename("%s/new" % folder, "%s/%d" % (folder, i))
        print(i, flush=True)
        if os.path.exists(os.environ.get("STOP", "")):
            break
        time.sleep(float(os.environ.get("PAUSE", "0")))


def read(fs, folder, n):
    assert names(fs, folder) == {str(i) for i in range(n)}, names(fs, folder)
    for i in range(n):
        assert get(fs, "%s/%d" % (folder, i)) == content(i), i


fs = cephfs.LibCephFS(conffile=os.environ["CEPH_CONF"], auth_id="admin")
fs.mount()
steps = sys.argv[1:]
while steps:
    step = steps.pop(0)
    if step in ("make", "check"):
        {"make": make, "check": check}[step](fs)
    else:
        {"write": write, "read": read}[step](fs, steps.pop(0), int(steps.pop(0)))
fs.unmount()
fs.shutdown()
print("ok")
