"""On a machine with a GPU: `tkc.scales` gives the same bits for PyTorch and CuPy arrays on the device as for NumPy's.

    python tests/gpu/check_scales.py

Needs array-api-compat, and PyTorch or CuPy.
"""

from __future__ import annotations

import numpy as np

from tkc import scales

CASES = (
    ("e4m3", "ue8m0", 32),
    ("e5m2", "ue8m0", 32),
    ("e3m2", "ue8m0", 32),
    ("e2m3", "ue8m0", 32),
    ("e2m1", "ue8m0", 32),
    ("e2m1", "ue4m3", 16),
)


def devices():
    """(name, to the device, back to NumPy) of each library at hand."""
    try:
        import torch

        yield "torch", lambda x: torch.from_numpy(x).cuda(), lambda x: x.cpu().numpy()
    except ImportError:
        pass
    try:
        import cupy

        yield "cupy", cupy.asarray, cupy.asnumpy
    except ImportError:
        pass


def main() -> int:
    rng = np.random.default_rng()
    checked = 0
    for library, there, back in devices():
        for dtype, scale, block in CASES:
            values = (
                rng.standard_normal((2, 130, 208)) * np.exp2(rng.integers(-9, 9, (2, 130, 1)))
            ).astype(np.float32)
            values[0, 3, 40] = np.nan
            expected = scales.quantise(values, dtype, scale=scale, block=block)
            got = scales.quantise(there(values), dtype, scale=scale, block=block)
            assert got.global_scale == expected.global_scale
            np.testing.assert_array_equal(back(got.data), expected.data)
            np.testing.assert_array_equal(back(got.scales), expected.scales)
            packed = scales.interleave(got.scales, scale)
            np.testing.assert_array_equal(back(packed), scales.interleave(expected.scales, scale))
            plain = scales.row_major(packed, *expected.scales.shape[1:])
            np.testing.assert_array_equal(back(plain), expected.scales)
            options = dict(scale=scale, block=block, global_scale=got.global_scale)
            np.testing.assert_array_equal(
                back(scales.dequantise(got.data, got.scales, dtype, **options)),
                scales.dequantise(expected.data, expected.scales, dtype, **options),
            )
            checked += 1
        print(f"{library}: {len(CASES)} formats agree with NumPy")
    assert checked, "neither PyTorch nor CuPy is here"
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
