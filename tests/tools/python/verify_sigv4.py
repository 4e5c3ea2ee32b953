"""An HTTP server that takes what is signed as AWS takes it, and nothing else.

Usage: verify_sigv4.py PORT REGION SERVICE ACCESS_KEYS

Each request's signature is made anew by botocore from the request as it arrived and compared. ACCESS_KEYS is a JSON file
that maps access key ids to [secret access key, session token]; it is read for each request. The answer is JSON: 200 with
what was covered, or 403 with why not.
"""

import hashlib
import json
import sys
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PORT, REGION, SERVICE, KEYS = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]


class Signer(SigV4Auth):
    """Signs the headers that a request says it covers, as of the date that it names."""

    def __init__(self, credentials, covered):
        super().__init__(credentials, SERVICE, REGION)
        self.covered = covered

    def headers_to_sign(self, request):
        wanted = super().headers_to_sign(request)
        for name in list(wanted):
            if name.lower() not in self.covered:
                del wanted[name]
        return wanted


def check(method, path, headers, body):
    authorization = headers.get("Authorization", "")
    algorithm, _, rest = authorization.partition(" ")
    if algorithm != "AWS4-HMAC-SHA256":
        return None, "MissingAuthenticationToken"
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    key, day, region, service, end = fields["Credential"].split("/")
    with open(KEYS) as file:
        known = json.load(file)
    if key not in known:
        return None, "InvalidClientTokenId"
    secret, token = known[key]
    if (region, service, end) != (REGION, SERVICE, "aws4_request"):
        return None, "SignatureDoesNotMatch: scope"
    date = headers.get("X-Amz-Date", "")
    age = datetime.now(timezone.utc) - datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if not date.startswith(day) or abs(age.total_seconds()) > 300:
        return None, "SignatureDoesNotMatch: date"
    if headers.get("X-Amz-Security-Token") != token:
        return None, "InvalidClientTokenId: token"
    if headers.get("X-Amz-Content-SHA256") != hashlib.sha256(body).hexdigest():
        return None, "SignatureDoesNotMatch: body"
    covered = fields["SignedHeaders"].split(";")
    given = [name.lower() for name in headers.keys()]
    uncovered = [n for n in given if (n == "host" or n.startswith("x-amz-")) and n not in covered]
    if uncovered or "host" not in covered:
        return None, f"SignatureDoesNotMatch: {uncovered} is not covered"
    request = AWSRequest(method=method, url=f"http://{headers['Host']}{path}", data=body)
    for name, value in headers.items():
        if name.lower() != "authorization":
            request.headers[name] = value
    request.context["timestamp"] = date
    signer = Signer(Credentials(key, secret, token), covered)
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    if signature != fields["Signature"]:
        return None, f"SignatureDoesNotMatch: {canonical}"
    return {"key": key, "covered": covered, "body": body.decode()}, None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found, refusal = check(self.command, self.path, self.headers, body)
        text = json.dumps(found if found else {"code": refusal}).encode()
        self.send_response(200 if found else 403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = answer


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
