"""A tool that uses botocore with keys of no worth. Its argument is the port of the hosts that stand for AWS."""
import datetime
import sys

import botocore.auth
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

port = sys.argv[1]
session = botocore.session.get_session()


def client(service, host, **config):
    config = Config(retries={"max_attempts": 0}, **config)
    return session.create_client(service, region_name="eu-central-1", endpoint_url=f"https://{host}.eu-central-1.amazonaws.com:{port}", config=config)


s3 = client("s3", "s3", s3={"addressing_style": "path"})
for key in ("plain", "a b/ä+!'()*&=@:,;$~//y", "a%2Fb"):
    s3.put_object(Bucket="b", Key=key, Body=key.encode())
    got = s3.get_object(Bucket="b", Key=key)["Body"].read()
    assert got == key.encode(), (key, got)
assert s3.list_objects_v2(Bucket="b", Prefix="a b+/ä")["KeyCount"] > 0

signed = client("s3", "s3", s3={"addressing_style": "path", "payload_signing_enabled": True})
signed.put_object(Bucket="b", Key="signed", Body=b"x" * 100000)

sqs = client("sqs", "sqs")
assert sqs.send_message(QueueUrl=f"https://sqs.eu-central-1.amazonaws.com:{port}/1/q", MessageBody="hello")["MessageId"] == "m-1"

table = client("dynamodb", "dynamodb")
assert table.get_item(TableName="t", Key={"id": {"S": "1"}})["Item"]["id"]["S"] == "DynamoDB_20120810.GetItem"

# The sidecar refuses what another service's host is signed for.
try:
    client("sqs", "s3").send_message(QueueUrl=f"https://s3.eu-central-1.amazonaws.com:{port}/1/q", MessageBody="hello")
except ClientError as e:
    assert e.response["ResponseMetadata"]["HTTPStatusCode"] == 403, e
else:
    raise AssertionError("a request to S3 was signed for SQS")

# A clock that is wrong does not matter: the sidecar's counts.
botocore.auth.get_current_datetime = lambda remove_tzinfo=True: datetime.datetime(2001, 1, 1)
assert s3.list_objects_v2(Bucket="b")["KeyCount"] > 0
print("all done")
