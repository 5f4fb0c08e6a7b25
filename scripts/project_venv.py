"""Makes the project's virtual environments from nothing and keeps them current. Runs on any Python 3."""

import hashlib
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEAST = (3, 10)
SOURCES = ("pyproject.toml", "setup.py", "hcqrt/emu/engine")  # what an installation depends on


def fail(text):
    sys.stderr.write(text + "\n")
    sys.exit(1)


def check_python(command):
    """Version of an interpreter as a tuple, after one clear line when it is too old or lacks venv."""
    probe = "import sys; print('%d.%d' % sys.version_info[:2]); import venv, ensurepip"
    run = subprocess.run([command, "-c", probe], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text = run.stdout.decode().split()
    version = tuple(int(part) for part in text[0].split(".")) if text else (0, 0)
    if version < LEAST:
        found = text[0] if text else "not a Python"
        fail("hcqrt needs Python %d.%d or later, %s is %s; set PYTHON to a newer one" % (LEAST + (command, found)))
    if run.returncode:
        fail("Python %d.%d has no venv module; install it (package python3-venv) and try again" % version)
    return version


def fingerprint(command, extras):
    digest = hashlib.sha256(repr((check_python(command), sorted(extras), ROOT)).encode())
    for source in SOURCES:
        path = os.path.join(ROOT, source)
        files = [path]
        if os.path.isdir(path):
            names = [name for name in sorted(os.listdir(path)) if name.endswith((".c", ".h", ".py"))]
            files = [os.path.join(path, name) for name in names]
        for name in files:
            if os.path.exists(name):
                with open(name, "rb") as file:
                    digest.update(file.read())
    return digest.hexdigest()


def read_stamp(stamp):
    try:
        with open(stamp) as file:
            lines = file.read().split("\n")
    except OSError:
        return "", set()
    return lines[0], set(filter(None, lines[1:]))


def ensure(extras=(), name=".venv", command=None):
    """The interpreter of a virtual environment with hcqrt (editable) and its extras; made or updated when needed."""
    command = command or os.environ.get("PYTHON") or sys.executable or "python3"
    folder = os.path.join(ROOT, name)
    python = os.path.join(folder, "bin", "python")
    stamp = os.path.join(folder, "hcqrt-stamp")
    have, installed = read_stamp(stamp)
    wanted = installed | set(extras)
    mark = fingerprint(command, wanted)
    if have == mark and os.path.exists(python):
        return python
    if not os.path.exists(python) or read_stamp(stamp)[0] == "":
        run([command, "-m", "venv", "--clear", folder])
        wanted = set(extras)
        mark = fingerprint(command, wanted)
    target = ROOT + ("[%s]" % ",".join(sorted(wanted)) if wanted else "")
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", target])
    with open(stamp, "w") as file:
        file.write("\n".join([mark] + sorted(wanted)))
    return python


def run(command):
    """Run a set-up step; its output is shown only when it fails, progress goes to standard error."""
    sys.stderr.write("set-up: %s\n" % " ".join(os.path.relpath(c, ROOT) if c.startswith(ROOT) else c for c in command))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)
    if done.returncode:
        fail(done.stdout.decode(errors="replace") + "set-up failed: %s" % " ".join(command))
