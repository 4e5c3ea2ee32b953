"""A collector that writes down what it is sent.

    otlp.py HTTP_PORT GRPC_PORT FILE [CERTIFICATE KEY]

Speaks OTLP over HTTP and over gRPC with grpcio and the messages of opentelemetry-proto, checks the header
`authorization`, and appends one JSON line to FILE for each export: {"over", "kind", "message"}. With a
certificate and its key, both PEM files, it speaks TLS.
"""

import json
import ssl
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

SECRET = "Bearer collector-secret"
http_port, grpc_port, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
lock = threading.Lock()


def note(over, kind, message):
    line = json.dumps({"over": over, "kind": kind, "message": MessageToDict(message)})
    with lock, open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    KINDS = {
        "/v1/traces": ("traces", trace_service_pb2.ExportTraceServiceRequest),
        "/v1/metrics": ("metrics", metrics_service_pb2.ExportMetricsServiceRequest),
    }

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        found = self.KINDS.get(self.path)
        status = 200
        if self.headers["authorization"] != SECRET:
            status = 401
        elif found is None or self.headers["content-type"] != "application/x-protobuf":
            status = 400
        else:
            message = found[1]()
            message.ParseFromString(body)
            note("http", found[0], message)
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def checked(context):
    if dict(context.invocation_metadata()).get("authorization") != SECRET:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you")


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        checked(context)
        note("grpc", "traces", request)
        return trace_service_pb2.ExportTraceServiceResponse()


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def Export(self, request, context):
        checked(context)
        note("grpc", "metrics", request)
        return metrics_service_pb2.ExportMetricsServiceResponse()


server = grpc.server(futures.ThreadPoolExecutor(2))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
http = ThreadingHTTPServer(("127.0.0.1", http_port), Http)
if len(sys.argv) > 4:
    certificate, key = sys.argv[4:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    with open(certificate, "rb") as chain, open(key, "rb") as secret:
        credentials = grpc.ssl_server_credentials([(secret.read(), chain.read())])
    server.add_secure_port(f"127.0.0.1:{grpc_port}", credentials)
else:
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
server.start()
http.serve_forever()
