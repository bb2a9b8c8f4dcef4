"""`python -m crawlproj.demo`: serve a demo web by hand, and print the seeds to crawl it from."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from crawlproj.demo.serve import run
from crawlproj.demo.spec import DemoError, WebSpec

FAILED = 1
WRONG_USE = 2


def main() -> int:
    options = vars(_parser().parse_args())
    port, log_path = options.pop("port"), options.pop("log")
    is_controlled = options.pop("control")
    try:
        spec = WebSpec(**options)
        if not is_controlled:
            print(_welcome(spec), file=sys.stderr)
        run(spec, port, log_path, is_controlled=is_controlled)
    except DemoError as error:
        return _fail(str(error), WRONG_USE)
    except OSError as error:
        hint = "choose another --port (0 picks a free one) or --log"
        return _fail(f"cannot use {error.filename or 'a socket'}: {error.strerror}; {hint}", FAILED)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m crawlproj.demo", usage="%(prog)s [options]", description=__doc__
    )
    for field in fields(WebSpec):
        name = f"--{field.name.replace('_', '-')}"
        kind = type(field.default)
        parser.add_argument(name, type=kind, default=field.default, help=f"[{field.default}]")
    parser.add_argument("--port", type=_port, default=8000, help="0 picks a free one [8000]")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write the request log here")
    parser.add_argument(
        "--control", action="store_true", help="answer `flush` on stdin, and end with stdin"
    )
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 2**16:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to 65535 are")
    return port


def _welcome(spec: WebSpec) -> str:
    return f"{spec.hosts} hosts, {spec.pages} pages; Ctrl-C ends it. Seeds, once they are served:"


def _fail(message: str, code: int) -> int:
    print(f"demo: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
