"""Build the control plane's programs from Go modules, and find them again.

Everything comes from the Go module proxy that `go` is configured with: no container image, no
prebuilt download. Built programs live in a cache outside the checkout, one folder per module,
named after a hash of all that goes into the build. A folder appears whole or not at all.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
MANIFESTS = "config/components"


class BuildError(Exception):
    """A program is missing or could not be built; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoModule:
    """One folder with a go.mod of ours, and the programs built from it."""

    folder: str
    module: str
    programs: Mapping[str, str]
    """Package of each program, relative to the module."""
    optional: bool = False
    has_manifests: bool = False
    version_variables: tuple[str, ...] = ()
    """Variables to set at link time, whose names end in version, GitVersion, GitMajor or GitMinor."""
    tags: str = ""

    @property
    def version(self) -> str:
        """The version that go.mod requires, such as `v0.17.0`."""
        for line in (HERE / self.folder / "go.mod").read_text().splitlines():
            words = line.removeprefix("require ").split()
            if words[:1] == [self.module]:
                return words[1]
        raise BuildError(f"{self.folder}/go.mod does not require {self.module}.")

    @property
    def linker_flags(self) -> str:
        """Strip debug data, and tell the program its version (see `version_variables`)."""
        major, minor, _ = self.version.removeprefix("v").split(".")
        values = {"version": self.version, "gitversion": self.version, "gitmajor": major, "gitminor": minor}
        stamps = [f"-X {name}={values[name.rpartition('.')[2].lower()]}" for name in self.version_variables]
        return " ".join(["-s", "-w", *stamps])

    @property
    def home(self) -> Path:
        """The cache folder of exactly this build on this kind of machine."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / self.folder / name).read_bytes())
        recipe = (
            sorted(self.programs.items()),
            self.linker_flags,
            self.tags,
            sys.platform,
            platform.machine(),
        )
        digest.update(repr(recipe).encode())
        return cache_root() / f"{self.folder}-{digest.hexdigest()[:12]}"


# An API server without a version in it calls itself v0.0.0-master, which Kueue cannot parse.
_KUBE_VERSION = tuple(f"k8s.io/component-base/version.{name}" for name in ("gitVersion", "gitMajor", "gitMinor"))

MODULES = (
    GoModule(
        folder="etcd",
        module="go.etcd.io/etcd/server/v3",
        programs={"etcd": ""},
    ),
    GoModule(
        folder="kube",
        module="k8s.io/kubernetes",
        programs={name: f"/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")},
        version_variables=_KUBE_VERSION,
    ),
    GoModule(
        folder="kueue",
        module="sigs.k8s.io/kueue",
        programs={"kueue": "/cmd/kueue"},
        has_manifests=True,
        version_variables=("sigs.k8s.io/kueue/pkg/version.GitVersion",),
    ),
    GoModule(
        folder="jobset",
        module="sigs.k8s.io/jobset",
        programs={"jobset": ""},
        has_manifests=True,
    ),
    GoModule(
        # Its go.mod holds shared libraries at the versions of kube/, whose build leaves most of what it needs compiled.
        folder="helm",
        module="helm.sh/helm/v4",
        programs={"helm": "/cmd/helm"},
        optional=True,
        version_variables=("helm.sh/helm/v4/internal/version.version",),
    ),
    GoModule(
        folder="prometheus",
        module="github.com/prometheus/prometheus",
        programs={name: f"/cmd/{name}" for name in ("prometheus", "promtool")},
        optional=True,
        tags="remove_all_sd,enable_kubernetes_sd",
    ),
    GoModule(
        folder="victoriametrics",
        module="github.com/VictoriaMetrics/VictoriaMetrics",
        programs={"victoria-metrics": "/app/victoria-metrics"},
        optional=True,
    ),
)


@cache
def cache_root() -> Path:
    """Where built programs live: GPUYIELD_CONTROLPLANE_CACHE, or the user's cache folder; settled when first asked."""
    chosen = os.environ.get("GPUYIELD_CONTROLPLANE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpuyield-controlplane"


def program(name: str) -> Path:
    """The built program of that name.

    Raises:
        BuildError: It has not been built on this machine.
    """
    module = _module_of(name)
    path = module.home / name
    if not path.exists():
        raise BuildError(f"{name} is not built. Run: {HERE / 'build'} {module.folder}")
    return path


def manifests(folder: str) -> Path:
    """The module's own CRD, webhook and RBAC files, kept beside the program they belong to."""
    module = next(each for each in MODULES if each.folder == folder)
    return program(next(iter(module.programs))).parent / MANIFESTS


def is_built(folder: str) -> bool:
    """Whether all programs of the module are in the cache."""
    return next(each for each in MODULES if each.folder == folder).home.exists()


def build(module: GoModule) -> str:
    """Build one module unless the cache has it; safe to run twice at once.

    Returns:
        One line that says what happened and how long it took.

    Raises:
        BuildError: Go is missing, the proxy does not serve a module, or the code does not compile.
    """
    label = f"{module.folder:<16} {module.version:<10}"
    if module.home.exists():
        return f"{label} in the cache   {module.home}"
    started = time.monotonic()
    with _exclusive(module.home.with_suffix(".lock")):
        if not module.home.exists():
            _build_into(module)
    return f"{label} built in {time.monotonic() - started:5.1f} s {module.home}"


def _build_into(module: GoModule) -> None:
    """Compile into a folder beside the final one, then give it its name in one step."""
    with tempfile.TemporaryDirectory(dir=cache_root(), prefix=f".{module.folder}-") as scratch:
        stage = Path(scratch) / "stage"
        stage.mkdir()
        flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", module.linker_flags]
        if module.tags:
            flags += ["-tags", module.tags]
        for name, package in module.programs.items():
            _go(module, "build", *flags, "-o", f"{stage / name}", module.module + package)
        if module.has_manifests:
            source = _go(module, "list", "-m", "-f", "{{.Dir}}", module.module)
            shutil.copytree(Path(source) / MANIFESTS, stage / MANIFESTS)
            _make_writable(stage / MANIFESTS)
        stage.rename(module.home)


def _make_writable(folder: Path) -> None:
    """Undo the module cache's read-only bits, so that the cache can be deleted like any folder."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def _go(module: GoModule, *arguments: str) -> str:
    """Run the go command in the module's folder; CGO is off so that the programs are static."""
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    command = ["go", *arguments]
    try:
        done = subprocess.run(command, cwd=HERE / module.folder, env=environment, capture_output=True, text=True)
    except FileNotFoundError:
        raise BuildError("There is no `go` on PATH. Install Go 1.26 or newer, then run again.") from None
    if done.returncode:
        raise BuildError(_explain(module, done.stderr))
    return done.stdout.strip()


def _explain(module: GoModule, stderr: str) -> str:
    tail = "\n".join(f"    {line}" for line in stderr.strip().splitlines()[-12:])
    proxy_failed = any(word in stderr for word in ("/@v/", "dial tcp", "no such host", "GOPROXY"))
    hint = (
        "The Go module proxy could not be reached or does not serve a module: see `go env GOPROXY`."
        if proxy_failed
        else "The go command failed."
    )
    return f"{module.folder}: {hint}\n{tail}"


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold an advisory lock; the kernel drops it even when this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _module_of(name: str) -> GoModule:
    for module in MODULES:
        if name in module.programs:
            return module
    raise BuildError(f"No module here builds {name}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the named modules, or all that the control plane needs."""
    parser = argparse.ArgumentParser(prog="build", description=__doc__)
    names = [module.folder for module in MODULES]
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(names)}")
    parser.add_argument("--all", action="store_true", help="also the optional ones")
    options = parser.parse_args(arguments)
    unknown = set(options.modules) - set(names)
    if unknown:
        parser.error(f"unknown module {', '.join(sorted(unknown))}; choose of {', '.join(names)}")
    chosen = options.modules or [each.folder for each in MODULES if options.all or not each.optional]
    try:
        for module in (each for each in MODULES if each.folder in chosen):
            print(build(module), flush=True)
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
