"""A real engine: llama-cpp-python's server with a model of random weights. `python llama.py` builds its environment.

It has no wheel, so its C++ is compiled: 8 processor minutes. What was built lives in a cache outside the checkout
(`GPUYIELD_ENGINES_CACHE`, else the user's cache folder), in a virtual environment of its own, whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ports import free_port

VERSION = "0.3.36"
PACKAGES = (f"llama-cpp-python[server]=={VERSION}", "gguf==0.19.0")
MODEL = "tiny"
_LEAVE_OUT = (
    "LLAVA_BUILD",
    "GGML_OPENMP",
    "LLAMA_CURL",
    "LLAMA_BUILD_TOOLS",
    "LLAMA_BUILD_TESTS",
    "LLAMA_BUILD_SERVER",
)
_BUILD_S = 1_500
_START_S = 60
_WRITER = Path(__file__).with_name("tiny_model.py")


class EngineMissing(Exception):
    """The engine is not there; the message says what to do."""


@cache
def cache_root() -> Path:
    """Where built engines live."""
    chosen = os.environ.get("GPUYIELD_ENGINES_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuyield-engines"


def home() -> Path:
    """The environment of this version, on this kind of machine, for this Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache_root() / f"llama-cpp-python-{VERSION}-{python}-{platform.machine()}"


def python() -> Path:
    """The Python that has the engine.

    Raises:
        EngineMissing: It was not built.
    """
    if not _stamp().exists():
        raise EngineMissing(f"llama-cpp-python {VERSION} is not built here. Run: python {Path(__file__).resolve()}")
    return home() / "bin" / "python"


def build() -> str:
    """Build the environment unless it is there; what happened, in a line.

    Raises:
        EngineMissing: There is no compiler, no package, or not enough time.
    """
    cache_root().mkdir(parents=True, exist_ok=True)
    with home().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _stamp().exists():
            return f"llama-cpp-python {VERSION} in the cache {home()}"
        if shutil.which("c++") is None:
            raise EngineMissing("There is no C++ compiler to build llama-cpp-python with.")
        began = time.monotonic()
        shutil.rmtree(home(), ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home())], check=True)
        arguments = " ".join(f"-D{name}=OFF" for name in _LEAVE_OUT)
        command = [str(home() / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *PACKAGES]
        environment = os.environ | {
            "CMAKE_ARGS": arguments,
            "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1),
        }
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_BUILD_S)
        except subprocess.TimeoutExpired:
            raise EngineMissing(f"llama-cpp-python was not built within {_BUILD_S // 60} min.") from None
        if done.returncode:
            raise EngineMissing(f"llama-cpp-python cannot be built: {done.stderr.strip()[-400:]}")
        _stamp().touch()
        return f"llama-cpp-python {VERSION} built in {time.monotonic() - began:.0f} s {home()}"


@contextmanager
def running_llama(folder: Path, *, seed: int = 1) -> Iterator[str]:
    """Keep the engine up with a model written to `folder`; its URL.

    Raises:
        EngineMissing: It was not built.
    """
    interpreter, model, port = python(), folder / "tiny.gguf", free_port()
    subprocess.run([str(interpreter), str(_WRITER), str(model), str(seed)], check=True)
    command = [str(interpreter), "-m", "llama_cpp.server", "--model", str(model), "--model_alias", MODEL]
    command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "2048", "--n_threads", "1"]
    # Else a new request ends the one that runs.
    command += ["--n_threads_batch", "1", "--interrupt_requests", "False", "--verbose", "False"]
    log = folder / "engine.log"
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said, cwd=folder) as process:
        try:
            _wait_until_up(f"http://127.0.0.1:{port}/v1", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/models", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"the engine did not start: {log.read_text(errors='replace')[-1000:]}")


def _stamp() -> Path:
    return home() / "built"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except EngineMissing as err:
        sys.exit(str(err))
