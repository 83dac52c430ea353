"""Make the files beside this one with a real JMeter: `python -m tests.store.jmeter.make JMETER_HOME [NAME…]`.

JMETER_HOME holds bin/ and lib/ of JMeter 5.6.3, made of its Maven artifacts. Each case runs a plan against a server of
this process and keeps the results as the case's settings write them, with the dashboard's statistics.json.
"""

from __future__ import annotations

import gzip
import http.server
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.servers import completed
from tests.store.jmeter.cases import CASES, Plan, Sampler

HERE = Path(__file__).parent


class Pages(http.server.BaseHTTPRequestHandler):
    """`/ok`, `/moved` (a redirect), `/page` (two images), `/missing`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(0.003)
        images = b'<html><img src="/ok?a"><img src="/ok?b"></html>'
        status = {"/moved": 302, "/missing": 404}.get(self.path, 200)
        body = images if self.path == "/page" else b"" if status == 302 else b"x" * 200
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if self.path == "/page" else "image/png")
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", "/ok")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: a line a request would be in the way."""


def jmx(plan: Plan, port: int, xml: str) -> str:
    """The test plan; with `xml` a listener that writes the results there as XML."""
    groups = "".join(_group(name, plan, port) for name in plan.groups)
    listener = _xml_listener(xml) if xml else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><jmeterTestPlan version="1.2" properties="5.0" jmeter="5.6.3"><hashTree>'
        '<TestPlan guiclass="TestPlanGui" testclass="TestPlan" testname="Plan"/><hashTree>'
        f"{groups}{listener}</hashTree></hashTree></jmeterTestPlan>"
    )


def _group(name: str, plan: Plan, port: int) -> str:
    samplers = "".join(_sampler(one, port) for one in plan.samplers)
    for transaction in reversed(plan.transactions):
        samplers = (
            f'<TransactionController guiclass="TransactionControllerGui" testclass="TransactionController" testname="{transaction}"><boolProp name="TransactionController.parent">'
            f"{str(plan.parent).lower()}</boolProp></TransactionController><hashTree>{samplers}</hashTree>"
        )
    return (
        f'<ThreadGroup guiclass="ThreadGroupGui" testclass="ThreadGroup" testname="{name}"><intProp name="ThreadGroup.num_threads">{plan.threads}</intProp>'
        f'<intProp name="ThreadGroup.ramp_time">{plan.ramp_s}</intProp><stringProp name="ThreadGroup.on_sample_error">continue'
        '</stringProp><elementProp name="ThreadGroup.main_controller" elementType="LoopController"><intProp '
        f'name="LoopController.loops">{plan.loops}</intProp><boolProp name="LoopController.continue_forever">false</boolProp></elementProp></ThreadGroup><hashTree>{samplers}</hashTree>'
    )


def _sampler(one: Sampler, port: int) -> str:
    name = one.name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    if one.path:
        at = 1 if one.path == "refused" else port
        path = "/" if one.path == "refused" else one.path
        return (
            f'<HTTPSamplerProxy guiclass="HttpTestSampleGui" testclass="HTTPSamplerProxy" testname="{name}"><stringProp name="HTTPSampler.domain">127.0.0.1</stringProp><intProp '
            f'name="HTTPSampler.port">{at}</intProp><stringProp name="HTTPSampler.path">{path}</stringProp><stringProp '
            'name="HTTPSampler.method">GET</stringProp><boolProp name="HTTPSampler.follow_redirects">true</boolProp>'
            '<boolProp name="HTTPSampler.use_keepalive">true</boolProp><boolProp name="HTTPSampler.image_parser">'
            f'{str(one.path == "/page").lower()}</boolProp><elementProp name="HTTPsampler.Arguments" elementType="Arguments">'
            '<collectionProp name="Arguments.arguments"/></elementProp></HTTPSamplerProxy><hashTree/>'
        )
    said = {"Sleep_Time": one.sleep_ms, "Sleep_Mask": one.mask, "Label": "", "ResponseCode": one.code,
            "ResponseMessage": one.message, "Status": "OK" if one.ok else "no", "SamplerData": "", "ResultData": "abc"}  # fmt: skip
    arguments = "".join(
        f'<elementProp name="{key}" elementType="Argument"><stringProp name="Argument.name">{key}</stringProp>'
        f'<stringProp name="Argument.value">{value}</stringProp></elementProp>'
        for key, value in said.items()
    )
    return (
        f'<JavaSampler guiclass="JavaTestSamplerGui" testclass="JavaSampler" testname="{name}"><elementProp name="arguments" elementType="Arguments"><collectionProp '
        f'name="Arguments.arguments">{arguments}</collectionProp></elementProp><stringProp name="classname">'
        "org.apache.jmeter.protocol.java.test.JavaTest</stringProp></JavaSampler><hashTree/>"
    )


def _xml_listener(file: str) -> str:
    kept = ("time", "latency", "timestamp", "success", "label", "code", "message", "threadName", "subresults", "bytes", "sentBytes", "threadCounts", "connectTime", "xml", "url")  # fmt: skip
    fields = "".join(f"<{name}>true</{name}>" for name in kept)
    return (
        '<ResultCollector guiclass="SimpleDataWriter" testclass="ResultCollector" testname="File"><objProp><name>saveConfig</name><value class="SampleSaveConfiguration">'
        f'{fields}</value></objProp><stringProp name="filename">{file}</stringProp></ResultCollector><hashTree/>'
    )


def make(name: str, home: Path, port: int) -> None:
    """Run a case and keep its results."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        xml = str(base / "results.xml") if case.xml else ""
        (base / "plan.jmx").write_text(jmx(case.plan, port, xml), encoding="utf-8")
        settings = {"jmeter.reportgenerator.statistic_window": "1000000", "jmeter.reportgenerator.overall_granularity": "1000",
                    **({} if case.xml else case.settings)}  # fmt: skip
        command = [
            "java",
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-Djava.awt.headless=true",
            f"-Djmeter.home={home}",
        ]
        command += [
            "-jar",
            str(home / "bin" / "ApacheJMeter.jar"),
            "-n",
            "-t",
            "plan.jmx",
            "-l",
            "results.jtl",
            "-e",
            "-o",
            "page",
        ]
        command += [f"-J{key}={value}" for key, value in settings.items()]
        done = completed(command, cwd=base)
        page = base / "page" / "statistics.json"
        if not page.exists():
            raise SystemExit(f"{name}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        results = base / ("results.xml" if case.xml else "results.jtl")
        (HERE / f"{name}.jtl.gz").write_bytes(gzip.compress(results.read_bytes(), mtime=0))
        (HERE / f"{name}.statistics.json").write_bytes(page.read_bytes())


def main(words: list[str]) -> int:
    """Make all cases, or those named."""
    home = Path(words[0]).resolve()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in words[1:] or CASES:
            make(name, home, server.server_port)
            print(name, (HERE / f"{name}.jtl.gz").stat().st_size, flush=True)
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
