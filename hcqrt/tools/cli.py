"""The `hcqrt` command: picks the machine, says which it is, and runs a subcommand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hcqrt.config import Config
from hcqrt.errors import HCQError
from hcqrt.fileio import System
from hcqrt.opening import KINDS, devices, parse_name

NODES = {"NV": ("/dev/nvidiactl", "/dev/nvidia0"), "QCOM": ("/dev/kgsl-3d0",)}
EMULATED = {"NV": "sm_86", "QCOM": "a630"}  # the chip to emulate where no node of the kind exists


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hcqrt", description="GPU kernels through the kernel driver's own ioctls.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("smoke", "show that submit, signal, copy and kernels work"), ("info", "list the GPUs found")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--device", action="append", metavar="NAME", help="NV, NV:1, QCOM, …; may be repeated")
        command.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else")
        which = command.add_mutually_exclusive_group()
        which.add_argument("--real", action="store_true", help="this machine's hardware")
        which.add_argument(
            "--emulated", metavar="SPEC", nargs="?", const="sm_86,a630", help="CHIP[@DRIVER],… to emulate"
        )
        if name == "smoke":
            command.add_argument("--quick", action="store_true", help="fewer repetitions")
    return parser


def asked_system(args: argparse.Namespace) -> System | None:
    """The machine that the arguments or HCQRT_SYSTEM ask for, None where they leave it open."""
    if args.real:
        return System.default("real")
    spec = f"emulated:{args.emulated}" if args.emulated else Config.from_environ().system
    return System.default(spec) if spec else None


def choose_systems(args: argparse.Namespace) -> list[tuple[System, str]]:
    """Each device to look at, and its machine: hardware where its nodes exist, one emulated machine for the rest."""
    asked = asked_system(args)
    if asked is not None:
        names = args.device or [info.name for info in devices(asked)] or list(KINDS)
        return [(asked, name) for name in names]
    names = args.device or list(KINDS)
    real, kinds = System.default("real"), {name: parse_name(name)[0] for name in names}
    absent = [kind for kind in NODES if kind in kinds.values() and not all(map(real.exists, NODES[kind]))]
    emulated = System.default("emulated:" + ",".join(EMULATED[kind] for kind in absent)) if absent else real
    return [(emulated if kinds[name] in absent else real, name) for name in names]


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser().parse_args(argv)
    try:
        chosen = choose_systems(args)
        if args.command == "info":
            from hcqrt.tools.info import run_info

            return run_info(chosen, args.device or [], as_json=args.json)
        from hcqrt.tools.smoke import run_smoke

        return run_smoke(chosen, as_json=args.json, quick=args.quick)
    except (HCQError, ValueError) as error:
        print(f"hcqrt {args.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
