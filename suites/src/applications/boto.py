"""Keeps a folder in a bucket by boto3: boto.py URL BUCKET up|down FOLDER. What is larger than 5 MiB goes in parts."""

import os
import sys

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

url, bucket, step, folder = sys.argv[1:]
# A server that is away for some seconds is waited for.
patience = Config(retries={"max_attempts": 10, "mode": "standard"}, read_timeout=120, s3={"addressing_style": "path"})
s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", config=patience)
parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)

if step == "up":
    s3.create_bucket(Bucket=bucket)
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            s3.upload_file(path, bucket, "all/" + os.path.relpath(path, folder), Config=parts)
else:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="all/"):
        for entry in page.get("Contents", []):
            path = os.path.join(folder, entry["Key"].removeprefix("all/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            s3.download_file(bucket, entry["Key"], path, Config=parts)
