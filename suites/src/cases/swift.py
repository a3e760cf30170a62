"""Speaks Swift with a radosgw: swift.py HOST:PORT USER KEY [STEP ...]. Prints `ok` at the end; says what differs otherwise.

Only what Python itself has. Steps: plain, listing, versions, large.
"""

import hashlib
import http.client
import json
import sys
import urllib.parse

HOST, USER, KEY = sys.argv[1:4]
CONNECTION = http.client.HTTPConnection(HOST, timeout=60)


def send(method, path, headers, body=b""):
    CONNECTION.request(method, path, body, headers)
    answer = CONNECTION.getresponse()
    return answer, answer.read()


LOGIN, _ = send("GET", "/auth/v1.0", {"X-Auth-User": USER, "X-Auth-Key": KEY})
if LOGIN.status not in (200, 204):
    sys.exit(f"the login answers {LOGIN.status}")
TOKEN = LOGIN.headers["X-Auth-Token"]
ROOT = urllib.parse.urlparse(LOGIN.headers["X-Storage-Url"]).path


def ask(method, path, query=None, body=b"", headers=None, expect=(200, 201, 202, 204)):
    """Sends a request with the token; gives the answer's headers and body."""
    query = "?" + urllib.parse.urlencode(query) if query else ""
    answer, data = send(method, ROOT + urllib.parse.quote(path) + query, {"X-Auth-Token": TOKEN, **(headers or {})}, body)
    if answer.status not in (expect if isinstance(expect, tuple) else (expect,)):
        sys.exit(f"{method} {path}{query} answers {answer.status}, not {expect}: {data[:300]!r}")
    return answer.headers, data


def same(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got!r}, not {wanted!r}")


def names(container, **query):
    """The names in a container, page by page; folders with their slash."""
    found, query = [], {"format": "json", "limit": 7, **query}
    while True:
        page = json.loads(ask("GET", f"/{container}", query)[1] or b"[]")
        found += [entry.get("name") or entry["subdir"] for entry in page]
        if not page:
            return found
        query["marker"] = found[-1]


def empty(*containers):
    for container in containers:
        for name in names(container):
            ask("DELETE", f"/{container}/{name}")
        ask("DELETE", f"/{container}", expect=204)


def plain():
    ask("PUT", "/box", headers={"X-Container-Meta-Colour": "blue"}, expect=201)
    same("a container's metadata", ask("HEAD", "/box")[0]["X-Container-Meta-Colour"], "blue")
    headers, _ = ask("PUT", "/box/one", body=b"hello", headers={"X-Object-Meta-Kind": "word", "Content-Type": "text/x"}, expect=201)
    same("a checksum", headers["etag"].strip('"'), hashlib.md5(b"hello").hexdigest())
    headers, data = ask("GET", "/box/one")
    same("an object", (data, headers["X-Object-Meta-Kind"], headers["Content-Type"]), (b"hello", "word", "text/x"))
    same("a range", ask("GET", "/box/one", headers={"Range": "bytes=1-3"}, expect=206)[1], b"ell")
    ask("PUT", "/box/bad", body=b"hello", headers={"ETag": "0" * 32}, expect=422)
    ask("POST", "/box/one", headers={"X-Object-Meta-Kind": "other"}, expect=202)
    same("changed metadata", ask("HEAD", "/box/one")[0]["X-Object-Meta-Kind"], "other")
    ask("PUT", "/box/two", headers={"X-Copy-From": "/box/one"}, expect=201)
    same("a copy", ask("GET", "/box/two")[1], b"hello")
    ask("GET", "/box/none", expect=404)
    ask("DELETE", "/box", expect=409)
    headers, _ = ask("HEAD", "/box")
    same("a container's sums", (headers["X-Container-Object-Count"], headers["X-Container-Bytes-Used"]), ("2", "10"))
    same("the account", [c["name"] for c in json.loads(ask("GET", "", {"format": "json"})[1]) if c["name"] == "box"], ["box"])
    empty("box")


def listing():
    ask("PUT", "/list", expect=201)
    keys = sorted([f"dir/{i:02}" for i in range(20)] + ["a", "b", "\u0434\u0430", "z"])
    for key in keys:
        ask("PUT", f"/list/{key}", body=key.encode())
    same("all names", names("list"), keys)
    same("folded", names("list", delimiter="/"), ["a", "b", "dir/", "z", "\u0434\u0430"])
    same("in a folder", names("list", prefix="dir/1"), [f"dir/1{i}" for i in range(10)])
    same("up to a name", names("list", end_marker="dir/03"), ["a", "b", "dir/00", "dir/01", "dir/02"])
    empty("list")


def versions():
    ask("PUT", "/old", expect=201)
    ask("PUT", "/new", headers={"X-Versions-Location": "old"}, expect=201)
    for i in range(3):
        ask("PUT", "/new/obj", body=b"version %d" % i)
    same("versions kept", len(names("old")), 2)
    for i in (2, 1, 0):
        same("the newest", ask("GET", "/new/obj")[1], b"version %d" % i)
        ask("DELETE", "/new/obj", expect=204)
    ask("GET", "/new/obj", expect=404)
    empty("new", "old")


def large():
    ask("PUT", "/parts", expect=201)
    ask("PUT", "/large", expect=201)
    parts = [bytes([i]) * (1 << 20) for i in range(3)]
    tags = [ask("PUT", f"/parts/p/{i}", body=part)[0]["etag"].strip('"') for i, part in enumerate(parts)]
    # One that is whatever its parts are when it is read.
    ask("PUT", "/large/dynamic", headers={"X-Object-Manifest": "parts/p/"}, expect=201)
    same("parts in a row", ask("GET", "/large/dynamic")[1], b"".join(parts))
    same("a range over two", ask("GET", "/large/dynamic", headers={"Range": f"bytes={(1 << 20) - 2}-{(1 << 20) + 1}"}, expect=206)[1], b"\0\0\1\1")
    # One whose parts were settled.
    listed = [{"path": f"/parts/p/{i}", "etag": tags[i], "size_bytes": 1 << 20} for i in (2, 0)]
    ask("PUT", "/large/static", {"multipart-manifest": "put"}, json.dumps(listed).encode(), expect=201)
    same("listed parts", ask("GET", "/large/static")[1], parts[2] + parts[0])
    ask("DELETE", "/large/static", {"multipart-manifest": "delete"})
    same("its parts are gone", names("parts"), ["p/1"])
    empty("parts", "large")


for step in sys.argv[4:] or ["plain", "listing", "versions", "large"]:
    globals()[step]()
print("ok")
