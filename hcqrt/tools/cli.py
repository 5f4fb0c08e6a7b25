"""The `hcqrt` command: picks the machine, says which it is, and runs a subcommand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hcqrt.config import Config
from hcqrt.errors import HCQError
from hcqrt.fileio import System

DEFAULT_EMULATED = "emulated:sm_86"
NODES = {"NV": ("/dev/nvidiactl", "/dev/nvidia0")}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hcqrt", description="GPU kernels through the kernel driver's own ioctls.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("smoke", "show that submit, signal, copy and kernels work"), ("info", "list the GPUs found")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--device", action="append", metavar="NAME", help="NV, NV:1, …; may be repeated")
        command.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else")
        which = command.add_mutually_exclusive_group()
        which.add_argument("--real", action="store_true", help="this machine's hardware")
        which.add_argument("--emulated", metavar="SPEC", nargs="?", const="sm_86", help="CHIP[@DRIVER],… to emulate")
        if name == "smoke":
            command.add_argument("--quick", action="store_true", help="fewer repetitions")
    return parser


def choose_system(args: argparse.Namespace) -> System:
    """What was asked for; else HCQRT_SYSTEM; else the hardware where nodes exist, the emulator where not."""
    if args.real:
        return System.default("real")
    if args.emulated:
        return System.default(f"emulated:{args.emulated}")
    spec = Config.from_environ().system
    if spec:
        return System.default(spec)
    real = System.default("real")
    if all(real.exists(node) for node in NODES["NV"]):
        return real
    return System.default(DEFAULT_EMULATED)


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser().parse_args(argv)
    try:
        system = choose_system(args)
        if args.command == "info":
            from hcqrt.tools.info import run_info

            return run_info(system, args.device or [], as_json=args.json)
        from hcqrt.tools.smoke import run_smoke

        return run_smoke(system, args.device or ["NV"], as_json=args.json, quick=args.quick)
    except (HCQError, ValueError) as error:
        print(f"hcqrt {args.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
