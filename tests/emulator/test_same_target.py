"""A branch whose two ways lead to the same place divides nothing."""

from __future__ import annotations

import numpy as np

import tkc

PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry same(.param .u64 out)
{
  .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p, %r1, 7;
  @%p bra NEXT;
NEXT:
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  add.u32 %r2, %r1, 100;
  st.global.u32 [%rd3], %r2;
  ret;
}
"""


def test_lanes_that_branch_to_where_the_others_go_anyway_go_on_with_them():
    out = np.zeros(64, np.uint32)
    report = tkc.emulate(PTX, grid=1, block=64, args=[out])
    assert not report.findings
    np.testing.assert_array_equal(out, np.arange(64) + 100)
