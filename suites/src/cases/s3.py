"""Speaks S3 with a radosgw: s3.py HOST:PORT ACCESS SECRET. Prints `ok` at the end; says what differs otherwise.

Only what Python itself has: requests are signed here (AWS signature, version 4).
"""

import datetime
import hashlib
import hmac
import http.client
import itertools
import os
import re
import sys
import time
import urllib.parse

HOST, ACCESS, SECRET = sys.argv[1:4]
CONNECTION = http.client.HTTPConnection(HOST, timeout=60)


def key_of(date):
    key = b"AWS4" + SECRET.encode()
    for part in (date, "us-east-1", "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def ask(method, path, query=None, body=b"", headers=None, expect=200):
    """Sends a signed request; gives the answer's headers and body."""
    moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    path = urllib.parse.quote(path)
    query = "&".join(f"{urllib.parse.quote(k, safe='')}={urllib.parse.quote(str(v), safe='')}" for k, v in sorted((query or {}).items()))
    sha = hashlib.sha256(body).hexdigest()
    headers = {"host": HOST, "x-amz-content-sha256": sha, "x-amz-date": moment, **(headers or {})}
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, path, query, *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, sha])
    scope = f"{moment[:8]}/us-east-1/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(key_of(moment[:8]), text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={ACCESS}/{scope}, SignedHeaders={names}, Signature={signature}"
    CONNECTION.request(method, path + ("?" + query if query else ""), body, headers)
    answer = CONNECTION.getresponse()
    data = answer.read()
    if answer.status != expect:
        sys.exit(f"{method} {path}?{query} answers {answer.status}, not {expect}: {data[:300]!r}")
    return answer.headers, data


def same(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got!r}, not {wanted!r}")


def found(tag, data):
    return re.findall(rf"<{tag}>(.*?)</{tag}>", data.decode())


def names(bucket, **query):
    """The keys of a bucket, page by page."""
    keys, query = [], {"list-type": 2, "max-keys": 7, **query}
    while True:
        _, data = ask("GET", f"/{bucket}", query)
        keys += found("Key", data)
        token = found("NextContinuationToken", data)
        if not token:
            return keys
        query["continuation-token"] = token[0]


def plain():
    ask("PUT", "/plain")
    keys = [f"dir/{i:02}" for i in range(20)] + ["a", "b", "\u0434\u0430", "z"]
    for key in keys:
        ask("PUT", f"/plain/{key}", body=key.encode() * 100)
    same("all keys", names("plain"), sorted(keys))
    _, data = ask("GET", "/plain", {"delimiter": "/"})
    same("folded", found("Key", data), ["a", "b", "z", "\u0434\u0430"])
    same("folders", found("Prefix", data)[-1:], ["dir/"])
    same("in a folder", names("plain", prefix="dir/1"), [f"dir/1{i}" for i in range(10)])
    _, data = ask("GET", "/plain/dir/07")
    same("bytes", data, b"dir/07" * 100)
    ask("PUT", "/plain/a", body=b"again")
    ask("PUT", "/plain/copy", headers={"x-amz-copy-source": "/plain/a"})
    same("a copy", ask("GET", "/plain/copy")[1], b"again")
    ask("GET", "/plain/none", expect=404)
    ask("DELETE", "/plain", expect=409)
    for key in [*keys, "copy"]:
        ask("DELETE", f"/plain/{key}", expect=204)
    same("nothing left", names("plain"), [])
    ask("DELETE", "/plain", expect=204)


def versions():
    ask("PUT", "/versions")
    ask("PUT", "/versions/old", body=b"from before")
    on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    ask("PUT", "/versions", {"versioning": ""}, on)
    ids = [ask("PUT", "/versions/obj", body=f"version {i}".encode())[0]["x-amz-version-id"] for i in range(3)]
    ask("PUT", "/versions/old", body=b"new")
    same("the newest", ask("GET", "/versions/obj")[1], b"version 2")
    same("the first", ask("GET", "/versions/obj", {"versionId": ids[0]})[1], b"version 0")
    same("from before", ask("GET", "/versions/old", {"versionId": "null"})[1], b"from before")
    marker = ask("DELETE", "/versions/obj", expect=204)[0]["x-amz-version-id"]
    ask("GET", "/versions/obj", expect=404)
    same("what shows", names("versions"), ["old"])
    _, data = ask("GET", "/versions", {"versions": "", "prefix": "obj"})
    same("versions", found("VersionId", data), [marker, *reversed(ids)])
    ask("DELETE", "/versions/obj", {"versionId": marker}, expect=204)
    ask("DELETE", "/versions/obj", {"versionId": ids[2]}, expect=204)
    same("the one before", ask("GET", "/versions/obj")[1], b"version 1")
    _, data = ask("GET", "/versions", {"versions": ""})
    for key, version in zip(found("Key", data), found("VersionId", data)):
        ask("DELETE", f"/versions/{key}", {"versionId": version}, expect=204)
    same("nothing left", found("VersionId", ask("GET", "/versions", {"versions": ""})[1]), [])
    ask("DELETE", "/versions", expect=204)


def uploads():
    ask("PUT", "/uploads")
    upload = found("UploadId", ask("POST", "/uploads/big", {"uploads": ""})[1])[0]
    parts = [bytes([i]) * (5 << 20) for i in range(2)] + [b"end"]
    etags = []
    for number, part in [(1, b"thrown away"), *enumerate(parts, 1)]:
        headers, _ = ask("PUT", "/uploads/big", {"partNumber": number, "uploadId": upload}, part)
        etags.append(headers["etag"])
    done = "".join(f"<Part><PartNumber>{i}</PartNumber><ETag>{tag}</ETag></Part>" for i, tag in enumerate(etags[1:], 1))
    done = f"<CompleteMultipartUpload>{done}</CompleteMultipartUpload>"
    ask("POST", "/uploads/big", {"uploadId": upload}, done.encode())
    same("an upload in parts", ask("GET", "/uploads/big")[1], b"".join(parts))
    same("its bucket", names("uploads"), ["big"])
    upload = found("UploadId", ask("POST", "/uploads/other", {"uploads": ""})[1])[0]
    ask("PUT", "/uploads/other", {"partNumber": 1, "uploadId": upload}, b"part")
    ask("DELETE", "/uploads/other", {"uploadId": upload}, expect=204)
    ask("DELETE", "/uploads/big", expect=204)
    ask("DELETE", "/uploads", expect=204)
    ask("GET", "/uploads", expect=404)


def kept():
    """A bucket that stays, with 30 objects of 1,000 bytes."""
    ask("PUT", "/kept")
    for i in range(30):
        ask("PUT", f"/kept/{i:02}", body=bytes([i]) * 1000)


def mixed():
    """A bucket that stays, with some of everything: objects from before versions, versions, a delete marker, an upload under way."""
    ask("PUT", "/mixed")
    for key in ["dir/1", "dir/2", "old", "\u0434\u0430"]:
        ask("PUT", f"/mixed/{key}", body=key.encode())
    ask("PUT", "/mixed", {"versioning": ""}, b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
    for i in range(3):
        ask("PUT", "/mixed/obj", body=b"%d" % i)
    ask("PUT", "/mixed/old", body=b"new")
    ask("DELETE", "/mixed/obj", expect=204)
    ask("POST", "/mixed/upload", {"uploads": ""})


def grow():
    """That bucket gets more of everything, and loses some."""
    ask("PUT", "/mixed/obj", body=b"back again")
    ask("PUT", "/mixed/dir/3", body=b"new" * 2000)
    ask("DELETE", "/mixed/dir/1", expect=204)
    _, data = ask("GET", "/mixed", {"versions": "", "prefix": "old"})
    ask("DELETE", "/mixed/old", {"versionId": found("VersionId", data)[0]}, expect=204)
    upload = found("UploadId", ask("GET", "/mixed", {"uploads": ""})[1])[0]
    etag = ask("PUT", "/mixed/upload", {"partNumber": 1, "uploadId": upload}, b"part")[0]["etag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    ask("POST", "/mixed/upload", {"uploadId": upload}, f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode())
    ask("POST", "/mixed/upload", {"uploads": ""})


def versioned():
    """That bucket with versions from the start on: zones of stock don't agree about objects that are older than versions."""
    ask("PUT", "/mixed")
    ask("PUT", "/mixed", {"versioning": ""}, b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
    for key in ["dir/1", "dir/2", "old", "\u0434\u0430"]:
        ask("PUT", f"/mixed/{key}", body=key.encode())
    for i in range(3):
        ask("PUT", "/mixed/obj", body=b"%d" % i)
    ask("PUT", "/mixed/old", body=b"new")
    ask("DELETE", "/mixed/obj", expect=204)
    ask("POST", "/mixed/upload", {"uploads": ""})


def tell():
    """Prints all that there is of that bucket."""
    _, data = ask("GET", "/mixed", {"versions": ""})
    versions = re.findall(r"<(Version|DeleteMarker)>(.*?)</\1>", data.decode())
    for kind, version in versions:
        key, number, latest = (found(tag, version.encode())[0] for tag in ("Key", "VersionId", "IsLatest"))
        body = ask("GET", f"/mixed/{key}", {"versionId": number})[1] if kind == "Version" else b""
        print(kind, key, number, latest, len(body), hashlib.sha256(body).hexdigest())
    print("listed", names("mixed"), "uploads", found("UploadId", ask("GET", "/mixed", {"uploads": ""})[1]))


def told(i):
    return b"%d|" % i * (1 + i * 37 % 4000)


def stream():
    """Puts one object after the other until the file STOP is there, each until it is acknowledged; their numbers are printed then."""
    ask("PUT", "/stream")
    for i in itertools.count():
        end = time.monotonic() + 120
        while True:
            try:
                ask("PUT", f"/stream/{i:06}", body=told(i))
                break
            except (OSError, http.client.HTTPException, SystemExit) as e:
                if time.monotonic() > end:
                    sys.exit(f"{i} is not taken for 120 s: {e}")
                CONNECTION.close()
                time.sleep(0.1)
        print(i, flush=True)
        if os.path.exists(os.environ["STOP"]):
            return
        time.sleep(float(os.environ.get("PAUSE", "0")))


def streamed():
    """COUNT objects are there, whole, and no others."""
    count = int(os.environ["COUNT"])
    same("what was acknowledged", names("stream", **{"max-keys": 1000}), [f"{i:06}" for i in range(count)])
    for i in range(count):
        same("an object", ask("GET", f"/stream/{i:06}")[1], told(i))


def check():
    same("what was kept", names("kept"), [f"{i:02}" for i in range(30)])
    for i in range(30):
        same("its bytes", ask("GET", f"/kept/{i:02}")[1], bytes([i]) * 1000)


def halve():
    """Every second object of what was kept goes, and the others are written anew."""
    for i in range(30):
        if i % 2:
            ask("DELETE", f"/kept/{i:02}", expect=204)
        else:
            ask("PUT", f"/kept/{i:02}", body=bytes([i]) * 2000, headers={"x-amz-meta-turn": "second"})


def halved():
    same("what was kept", names("kept"), [f"{i:02}" for i in range(0, 30, 2)])
    for i in range(0, 30, 2):
        headers, body = ask("GET", f"/kept/{i:02}")
        same("its bytes", (body, headers["x-amz-meta-turn"]), (bytes([i]) * 2000, "second"))


for step in sys.argv[4:] or ["plain", "versions", "uploads", "kept", "check"]:
    globals()[step]()
print("ok")
