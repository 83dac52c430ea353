"""A delay planted in the known-truth server, whose engine calls no library function that delay.c could
replace."""

import json
import os
import sys

DELAY_NS = 50_000_000

if os.environ.get("PLANTED_DELAY") == "server" and "svload.truth" in sys.orig_argv:
    from svload import _native

    serve = _native.truth_serve

    def truth_serve(text: str, *ends: int) -> str:
        config = json.loads(text)
        asked = config.get("service_time", {"constant_ns": 0})
        if "constant_ns" in asked:
            config["service_time"] = {"constant_ns": asked["constant_ns"] + DELAY_NS}
        return str(serve(json.dumps(config), *ends))

    _native.truth_serve = truth_serve
