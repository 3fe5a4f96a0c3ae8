#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Usage: prometheus.py [--ctl PROGRAM]

Let a real Prometheus read what 'revdedupctl metrics' prints for a pool of two, load the rules of
systemd/examples, and ask it for each expression of the dashboard and of the rules: those of the
dashboard must have an answer, and rules that compare a volume's labels must find the right volume.
Metrics of attached volumes are taken from their names in cmd_metrics.c, with the value 1: vm1 has a
version in the pool, vm2 never had one.
"""

import argparse
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

TREE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
EXAMPLES = os.path.join(TREE, "systemd", "examples")
# The volumes that a rule finds at once, before it waits for as long as "for" says.
FOUND = {
    "RevdedupNoVersion": set(),
    "RevdedupNeverKept": {"vm2"},
    "RevdedupVolumeNeedsAttention": {"vm1", "vm2"},
}

parser = argparse.ArgumentParser()
parser.add_argument("--ctl", default=os.path.join(TREE, "build", "unit", "bin", "revdedupctl"))
args = parser.parse_args()


def ctl(*words):
    return subprocess.run([args.ctl, *words], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout


def make_metrics():
    """The text of a pool, scrubbed, deduplicated, with a volume that is elsewhere, too, and boots."""
    for pool in "pool", "there":
        ctl("init", pool, "--size", "64M", "--quiet")
    os.environ["REVDEDUP_POOL"] = os.path.abspath("pool")
    with open("image", "wb") as image:
        image.write(os.urandom(1 << 20))
    ctl("snapshot", "vm1", "--from", "image")
    ctl("scrub")
    ctl("dedup")
    ctl("send", "vm1", "--to", "there")
    with open(os.path.join(TREE, "userspace", "cli", "cmd_metrics.c"), encoding="utf-8") as source:
        devices = re.findall(r'^\t\{ "(device_[a-z_]*)"', source.read(), re.M)
    uid = re.search("uid: *([0-9a-f]{16})", ctl("show", "vm1"))[1]
    os.mkdir("pool/boot", 0o700)
    with open(f"pool/boot/{uid}.result", "w", encoding="utf-8") as result:
        result.write("time 1700000000\npassed 1\nwhy the guest's agent answers\n")
    text = ctl("metrics")
    for name in devices:
        text += "".join(f'revdedup_{name}{{volume="{volume}"}} 1\n' for volume in ("vm1", "vm2"))
    return text


def ask(port, path, **query):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        return {"error": json.load(error)["error"]}


def serve(text):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def free_port():
    with http.server.socketserver.TCPServer(("127.0.0.1", 0), None) as server:
        return server.server_address[1]


def start(target):
    with open("prometheus.yml", "w", encoding="utf-8") as config:
        config.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                     f"rule_files: ['{EXAMPLES}/prometheus-rules.yml']\n"
                     "scrape_configs:\n"
                     f"- {{job_name: node, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}\n")
    port = free_port()
    with open("prometheus.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(["prometheus", "--config.file=prometheus.yml",
                                    "--storage.tsdb.path=tsdb",
                                    f"--web.listen-address=127.0.0.1:{port}"],
                                   stdout=log, stderr=log)
    return process, port


def wait_for(port, process):
    for _ in range(1200):
        if process.poll() is not None:
            break
        try:
            if ask(port, "query", query="revdedup_pool_up")["result"]:
                return
        except (OSError, json.JSONDecodeError):
            # It does not listen yet, or says in plain words that it is not ready (503).
            pass
        time.sleep(0.1)
    with open("prometheus.log", encoding="utf-8") as log:
        sys.exit("not ok Prometheus reads nothing:\n" + log.read())


def check(port):
    failed = 0
    with open(os.path.join(EXAMPLES, "grafana-dashboard.json"), encoding="utf-8") as dashboard:
        panels = json.load(dashboard)["panels"]
    for panel in panels:
        for target in panel["targets"]:
            answer = ask(port, "query", query=target["expr"].replace("$instance", ".*"))
            good = bool(answer.get("result"))
            failed += not good
            print(f"{'ok' if good else 'not ok'} {panel['title']}: {target['expr']}"
                  f"{'' if good else ' -> ' + json.dumps(answer)}")
    rules = [rule for group in ask(port, "rules")["groups"] for rule in group["rules"]]
    for rule in rules:
        answer = ask(port, "query", query=rule["query"])
        found = {sample["metric"].get("volume") for sample in answer.get("result", [])}
        good = ("error" not in answer and rule["health"] != "err"
                and found == FOUND.get(rule["name"], found))
        failed += not good
        print(f"{'ok' if good else 'not ok'} {rule['name']}"
              f"{'' if good else ' -> ' + json.dumps(answer)}")
    missing = FOUND.keys() - {rule["name"] for rule in rules}
    for name in missing:
        print(f"not ok there is no rule {name}")
    return failed or missing


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    prometheus, its_port = start(serve(make_metrics()))
    try:
        wait_for(its_port, prometheus)
        result = check(its_port)
    finally:
        prometheus.terminate()
        prometheus.wait()
    os.chdir(TREE)
sys.exit(bool(result))
