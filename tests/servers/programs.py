"""Real servers as programs: Debian's packages, extracted, and those built from Go modules.

Nothing is installed. Packages are extracted into a cache outside the clone (`GPUYIELD_SERVERS_CACHE`, else the user's
cache folder); what was built from Go modules is found by `controlplane/binaries.py`.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

CONTROLPLANE = Path(__file__).resolve().parents[1] / "controlplane"
_PACKAGES = ("prometheus", "victoria-metrics", "libzstd1")


class ProgramMissing(Exception):
    """A program cannot be had on this machine; the message says why."""


def debian_program(name: str) -> Path:
    """A program of Debian's packages, extracted on first use.

    Raises:
        ProgramMissing: There is no apt, or it does not have the package.
    """
    path = _debian_root() / "usr" / "bin" / name
    if not path.exists():
        raise ProgramMissing(f"Debian's packages {', '.join(_PACKAGES)} have no {name}.")
    return path


def debian_environment() -> dict[str, str]:
    """The environment in which a Debian program finds the libraries extracted beside it."""
    folders = [str(path.parent) for path in _debian_root().rglob("libzstd.so.1")]
    known = os.environ.get("LD_LIBRARY_PATH")
    return os.environ | {"LD_LIBRARY_PATH": ":".join([*folders, *([known] if known else [])])}


def built_program(name: str) -> Path:
    """A program built from Go modules.

    Raises:
        ProgramMissing: It has not been built.
    """
    binaries = _binaries()
    try:
        found: Path = binaries.program(name)
    except binaries.BuildError as err:
        raise ProgramMissing(str(err)) from err
    return found


def _binaries() -> ModuleType:
    """The control plane's build script, which is a program of its own and no package."""
    name = "controlplane_binaries"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, CONTROLPLANE / "binaries.py")
        if spec is None or spec.loader is None:
            raise ProgramMissing(f"{CONTROLPLANE} has no binaries.py.")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@cache
def cache_root() -> Path:
    """Where extracted packages live: the same all session long, whatever home a test gives itself."""
    chosen = os.environ.get("GPUYIELD_SERVERS_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuyield-servers"


def remember_caches() -> None:
    """Settle where programs are looked for, before a test changes the environment."""
    cache_root()
    if (CONTROLPLANE / "binaries.py").exists():
        _binaries().cache_root()


def _debian_root() -> Path:
    """The folder into which the packages were extracted: whole, or not there at all."""
    home = cache_root() / f"debian-{platform.machine()}"
    if home.exists():
        return home
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise ProgramMissing("There is no apt-get here to fetch Prometheus and VictoriaMetrics from Debian.")
    cache_root().mkdir(parents=True, exist_ok=True)
    with _exclusive(home.with_suffix(".lock")):
        if not home.exists():
            _extract_packages(home)
    return home


def _extract_packages(home: Path) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".debian-") as scratch:
        done = subprocess.run(
            ["apt-get", "download", *_PACKAGES], cwd=scratch, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ProgramMissing(f"apt-get download {' '.join(_PACKAGES)} failed: {done.stderr.strip()[-300:]}")
        stage = Path(scratch) / "stage"
        for package in sorted(Path(scratch).glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(stage)], check=True)
        stage.rename(home)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
