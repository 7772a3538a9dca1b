"""Fixtures for every test: golden files, seeds, and the marks `gpu`, `soak` and `early`."""

from __future__ import annotations

import ctypes
import difflib
import gc
import os
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from shares import share

os.environ["TKC_CACHE"] = (
    "off"  # a test looks at what this compiler does; tests of the cache switch it on
)

# Products of a few tiles: threads of a library for them are in the way of other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile(
    "tests",
    settings(),
    deadline=None,  # how long an example takes is the machine's; each test has its timeout
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless",
        action="store_true",
        help="rewrite the golden files instead of comparing with them",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives to the end: 14,000 tests are not looked through again by each garbage collection."""
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_report_header() -> str:
    return f"TKC_SEED={_base_seed()} (chooses other random data)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share(config, items)
    long = pytest.mark.skip(reason="a long run: make soak")
    no_gpu = pytest.mark.skip(reason="no CUDA GPU here")
    items.sort(key=lambda item: item.get_closest_marker("early") is None)
    for item in items:
        if item.get_closest_marker("soak") and "soak" not in config.option.markexpr:
            if not (config.option.bless and "golden" in getattr(item, "fixturenames", ())):
                item.add_marker(long)  # but whatever is kept is kept anew
        elif item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(0))  # it has a bound of its own
        if item.get_closest_marker("gpu") and not has_gpu():
            item.add_marker(no_gpu)


@cache
def has_gpu() -> bool:
    """Whether the CUDA driver is here and finds a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


def _base_seed() -> int:
    return int(os.environ.get("TKC_SEED") or 0)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed of this test's own, the same in every run; a failure prints it, TKC_SEED moves it."""
    chosen = zlib.crc32(request.node.nodeid.encode()) ^ _base_seed()
    print(f"seed {chosen} (TKC_SEED={_base_seed()})")
    return chosen


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(text, "gemm-sm_100a.ptx")` compares with `tests/golden/<test path>/gemm-sm_100a.ptx`."""

    def compare(text: str, name: str) -> None:
        test = request.path.relative_to(TESTS).with_suffix("")
        path = GOLDEN / test / name
        if request.config.getoption("--bless"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        bless = f"to accept: pytest {request.node.nodeid!r} --bless"
        if not path.exists():
            pytest.fail(f"no golden file {path.relative_to(TESTS.parent)}\n{bless}", pytrace=False)
        wanted = path.read_text(encoding="utf-8")
        if text != wanted:
            lines = difflib.unified_diff(
                wanted.splitlines(),
                text.splitlines(),
                f"golden/{test}/{name}",
                "this run",
                lineterm="",
                n=3,
            )
            pytest.fail("\n".join([*lines, bless]), pytrace=False)

    return compare
