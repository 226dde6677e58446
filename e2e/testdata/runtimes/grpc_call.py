# One gRPC call to a server that speaks none: its answer, whatever it is, came through the proxy.
import sys
import urllib.parse
import grpc

target = urllib.parse.urlsplit(sys.argv[1]).netloc
with grpc.secure_channel(target, grpc.ssl_channel_credentials()) as channel:
    try:
        channel.unary_unary("/v1.Orders/Get")(b"", timeout=20)
    except grpc.RpcError as e:
        print(e.code(), e.details())
