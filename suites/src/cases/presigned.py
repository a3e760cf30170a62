"""Load on a radosgw by URLs that were signed ahead: presigned.py HOST:PORT ACCESS SECRET make|put|get BUCKET COUNT BYTES.

`put` writes COUNT new objects, `get` reads as many, over and over those that are there (BYTES is the number of them then). Eight processes with
a connection each; prints the seconds that they took together.
"""

import datetime
import hashlib
import hmac
import http.client
import multiprocessing
import sys
import time
import urllib.parse

HOST, ACCESS, SECRET, WHAT, BUCKET = sys.argv[1:6]
COUNT, NUMBER = map(int, sys.argv[6:8])
CLIENTS = 8

MOMENT = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
SCOPE = f"{MOMENT[:8]}/us-east-1/s3/aws4_request"
KEY = b"AWS4" + SECRET.encode()
for part in SCOPE.split("/"):
    KEY = hmac.new(KEY, part.encode(), hashlib.sha256).digest()
QUERY = "&".join(
    f"{name}={urllib.parse.quote(value, safe='')}"
    for name, value in [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", f"{ACCESS}/{SCOPE}"),
        ("X-Amz-Date", MOMENT),
        ("X-Amz-Expires", "86400"),
        ("X-Amz-SignedHeaders", "host"),
    ]
)


def signed(method, path):
    canonical = f"{method}\n{path}\n{QUERY}\nhost:{HOST}\n\nhost\nUNSIGNED-PAYLOAD"
    text = f"AWS4-HMAC-SHA256\n{MOMENT}\n{SCOPE}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    return f"{path}?{QUERY}&X-Amz-Signature={hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()}"


def ask(connection, method, url, body=None):
    connection.request(method, url, body)
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        sys.exit(f"{method} {url} answers {answer.status}: {data[:300]!r}")
    return data


def client(number, ready):
    """Every eighth object is this one's."""
    names = range(number, COUNT, CLIENTS)
    method, body = ("PUT", bytes(NUMBER)) if WHAT == "put" else ("GET", None)
    urls = [signed(method, f"/{BUCKET}/{name % NUMBER if WHAT == 'get' else name:07}") for name in names]
    connection = http.client.HTTPConnection(HOST, timeout=120)
    connection.connect()
    ready.wait()
    for url in urls:
        ask(connection, method, url, body)


if WHAT == "make":
    ask(http.client.HTTPConnection(HOST, timeout=120), "PUT", signed("PUT", f"/{BUCKET}"))
else:
    ready = multiprocessing.Barrier(CLIENTS + 1)
    clients = [multiprocessing.Process(target=client, args=(number, ready)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    ready.wait(300)
    began = time.monotonic()
    for one in clients:
        one.join()
    if any(one.exitcode for one in clients):
        sys.exit("a client has failed")
    print(time.monotonic() - began)
