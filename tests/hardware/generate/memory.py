"""Programs of loads and stores in every space and width, generic addresses, cp.async and constants."""

from __future__ import annotations

from generate.writing import GLOBAL_INDEX, Program, buffer, joined, out

_ADDRESS = """
ld.param.u64 %d0, [source];
ld.param.u64 %d1, [out];
"""


def _widths() -> Program:
    """Each thread loads from 32 bytes of its own and stores what it got as 64-bit words."""
    p = Program(
        "memory_widths",
        "Loads of every width and vector with sign or zero extension; stores of every width.",
        "8.3",
    )
    loads: list[str] = []
    count = 0

    def keep(register: str, convert: str = "") -> None:
        nonlocal count
        loads.append(f"{convert}st.global.b64 [%d5+{8 * count}], {register};")
        count += 1

    for space in ("global", "shared"):
        at = {"global": "%d4", "shared": "%r4"}[space]
        for t in ("u8", "s8", "u16", "s16", "u32", "s32"):
            loads.append(f"ld.{space}.{t} %r20, [{at}+{4 if t.endswith('32') else 2}];")
            keep("%d20", "cvt.u64.u32 %d20, %r20;\n")
            loads.append(f"ld.{space}.{t} %d21, [{at}+{4 if t.endswith('32') else 2}];")
            keep("%d21")
        for t in ("b8", "s8", "u16"):
            loads.append(f"ld.{space}.{t} %h20, [{at}+6];")
            keep("%d20", "cvt.u64.u16 %d20, %h20;\n")
        loads.append(f"ld.{space}.b64 %d20, [{at}+8];")
        keep("%d20")
        loads.append(f"ld.{space}.b128 %q0, [{at}+16];\nmov.b128 {{%d20, %d21}}, %q0;")
        keep("%d20")
        keep("%d21")
        loads.append(f"ld.{space}.v2.b32 {{%r20, %r21}}, [{at}+8];\nmov.b64 %d20, {{%r21, %r20}};")
        keep("%d20")
        loads.append(
            f"ld.{space}.v4.b32 {{%r20, %r21, %r22, %r23}}, [{at}+16];\n"
            "mov.b64 %d20, {%r20, %r23};\nmov.b64 %d21, {%r22, %r21};"
        )
        keep("%d20")
        keep("%d21")
        loads.append(f"ld.{space}.v2.b64 {{%d20, %d21}}, [{at}];")
        keep("%d20")
        keep("%d21")
        loads.append(
            f"ld.{space}.v4.u8 {{%r20, %r21, %r22, %r23}}, [{at}+12];\n"
            "mov.b64 %d20, {%r20, %r21};\nmov.b64 %d21, {%r22, %r23};"
        )
        keep("%d20")
        keep("%d21")
        loads.append(
            f"ld.{space}.v4.s8 {{%r20, %r21, %r22, %r23}}, [{at}+12];\n"
            "mov.b64 %d20, {%r20, %r21};\nmov.b64 %d21, {%r22, %r23};"
        )
        keep("%d20")
        keep("%d21")
        loads.append(
            f"ld.{space}.v4.b16 {{%h20, %h21, %h22, %h23}}, [{at}+24];\nmov.b64 %d20, {{%h23, %h20, %h22, %h21}};"
        )
        keep("%d20")
    for tail in (
        ".nc",
        ".ca",
        ".cg",
        ".cs",
        ".lu",
        ".cv",
        ".L1::no_allocate",
        ".L2::128B",
        ".nc.L1::evict_last.L2::256B",
    ):
        loads.append(f"ld.global{tail}.b64 %d20, [%d4+8];")
        keep("%d20")
    for sem in ("relaxed.gpu", "acquire.sys", "volatile", "weak", "relaxed.cluster"):
        loads.append(f"ld.{sem}.global.b32 %r20, [%d4+4];")
        keep("%d20", "cvt.u64.u32 %d20, %r20;\n")
    body = joined(
        GLOBAL_INDEX,
        _ADDRESS,
        f"""
        mul.wide.u32 %d4, %r0, 32;
        add.u64 %d4, %d0, %d4;
        mov.u32 %r4, room;
        mad.lo.u32 %r4, %r0, 32, %r4;
        ld.global.v2.b64 {{%d10, %d11}}, [%d4];
        st.shared.v2.b64 [%r4], {{%d10, %d11}};
        ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d4+16];
        st.shared.v4.b32 [%r4+16], {{%r10, %r11, %r12, %r13}};
        mul.wide.u32 %d5, %r0, {8 * count};
        add.u64 %d5, %d1, %d5;
        """,
        *loads,
    )
    p.text(".shared .align 16 .b8 room[1024];")
    p.entry("loads", {"source": "u64", "out": "u64"}, body, threads=32)
    p.launch(
        "loads",
        "loads",
        ["source", "out"],
        {"source": buffer("b8", 1024, "bits", seed=880), "out": out("b64", 32 * count)},
        block=32,
    )
    stores = """
        mul.wide.u32 %d4, %r0, 32;
        add.u64 %d4, %d0, %d4;
        mul.wide.u32 %d5, %r0, 128;
        add.u64 %d5, %d1, %d5;
        ld.global.v2.b64 {%d10, %d11}, [%d4];
        ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%d4+16];
        cvt.u16.u32 %h10, %r10;
        st.global.b8 [%d5], %r10;
        st.global.u8 [%d5+1], %h10;
        st.global.b16 [%d5+2], %h10;
        st.global.u16 [%d5+4], %r11;
        st.global.b32 [%d5+8], %r12;
        st.global.u32 [%d5+12], %d10;
        st.global.b64 [%d5+16], %d11;
        st.global.v2.b32 [%d5+24], {%r13, %r12};
        st.global.v4.b32 [%d5+32], {%r13, %r12, %r11, %r10};
        st.global.v2.b64 [%d5+48], {%d11, %d10};
        mov.b128 %q0, {%d10, %d11};
        st.global.b128 [%d5+64], %q0;
        st.global.v4.b8 [%d5+80], {%r10, %r11, %r12, %r13};
        st.global.v2.b16 [%d5+84], {%h10, %h10};
        st.global.v2.b8 [%d5+88], {%r12, %r11};
        st.relaxed.gpu.global.b32 [%d5+92], %r12;
        st.release.sys.global.b64 [%d5+96], %d10;
        st.volatile.global.b32 [%d5+104], %r13;
        st.global.wt.b32 [%d5+108], %r11;
        st.global.L1::evict_last.b32 [%d5+112], %r11;
        mov.b64 %d12, 0x12F0000000000000;
        st.global.L2::cache_hint.b32 [%d5+116], %r12, %d12;
    """
    p.entry(
        "stores",
        {"source": "u64", "out": "u64"},
        joined(GLOBAL_INDEX, _ADDRESS, stores),
        threads=32,
    )
    p.launch(
        "stores",
        "stores",
        ["source", "out"],
        {
            "source": buffer("b8", 1024, "bits", seed=881),
            "out": buffer("b8", 4096, "fill", value=0xEE),
        },
        block=32,
    )
    return p


def _spaces() -> Program:
    p = Program(
        "memory_spaces",
        "Constants, initialised globals, local memory, parameters of every width, generic addresses.",
    )
    p.text("""
        .const .align 4 .b32 table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
        .const .align 8 .b64 wide[2] = {0x0123456789ABCDEF, 0xFEDCBA9876543210};
        .global .align 4 .b32 counters[4] = {10, 20, 30, 40};
        .global .align 1 .b8 bytes[5] = {1, 2, 3, 255, 128};
        .global .align 4 .f32 floats[2] = {1.5, 0fC0490FDB};
        .shared .align 16 .b32 box[64];
    """)
    body = joined(
        GLOBAL_INDEX,
        _ADDRESS,
        """
        .local .align 16 .b8 stack[64];
        mul.wide.u32 %d9, %r0, 4;
        add.u64 %d5, %d1, %d9;
        add.u64 %d9, %d0, %d9;
        ld.global.b32 %r10, [%d9];
        // constants, at an index of each lane
        and.b32 %r11, %r10, 7;
        mov.u64 %d10, table;
        mul.wide.u32 %d11, %r11, 4;
        add.u64 %d10, %d10, %d11;
        ld.const.b32 %r20, [%d10];
        ld.const.b64 %d12, [wide+8];
        mov.b64 {%r21, %r22}, %d12;
        mov.u64 %d13, counters;
        ld.global.b32 %r23, [%d13+8];
        ld.global.s8 %r24, [bytes+3];
        ld.global.f32 %r25, [floats+4];
        // local memory, written and read at different places
        mov.u64 %d14, stack;
        and.b32 %r12, %r10, 3;
        mul.wide.u32 %d15, %r12, 16;
        add.u64 %d15, %d14, %d15;
        mov.b32 %r13, 0;
        st.local.v4.b32 [%d14], {%r13, %r13, %r13, %r13};
        st.local.v4.b32 [%d14+16], {%r13, %r13, %r13, %r13};
        st.local.v4.b32 [%d14+32], {%r13, %r13, %r13, %r13};
        st.local.v4.b32 [%d14+48], {%r13, %r13, %r13, %r13};
        st.local.b32 [%d15+4], %r10;
        ld.local.b32 %r26, [%d14+20];
        // the same words through generic addresses
        cvta.local.u64 %d16, %d15;
        ld.b32 %r27, [%d16+4];
        mov.u64 %d17, box;
        cvta.shared.u64 %d18, %d17;
        mul.wide.u32 %d19, %r0, 4;
        add.u64 %d20, %d18, %d19;
        xor.b32 %r14, %r10, -1;
        st.b32 [%d20], %r14;
        bar.sync 0;
        cvta.to.shared.u64 %d21, %d20;
        ld.shared.b32 %r28, [%d21];
        isspacep.shared %p1, %d20;
        isspacep.global %p2, %d20;
        isspacep.local %p3, %d16;
        isspacep.global %p4, %d9;
        isspacep.const %p5, %d9;
        selp.b32 %r29, 1, 0, %p1;
        @%p2 or.b32 %r29, %r29, 2;
        @%p3 or.b32 %r29, %r29, 4;
        @%p4 or.b32 %r29, %r29, 8;
        @%p5 or.b32 %r29, %r29, 16;
        cvta.to.global.u64 %d22, %d9;
        ld.global.b32 %r30, [%d22];
        """,
        *(f"st.global.b32 [%d5+{256 * i}], %r{20 + i};" for i in range(11)),
    )
    p.entry("spaces", {"source": "u64", "out": "u64"}, body, threads=64)
    p.launch(
        "spaces",
        "spaces",
        ["source", "out"],
        {"source": buffer("b32", 64, "bits", seed=890), "out": out("b32", 64 * 11)},
        block=64,
    )
    p.parts.append(
        """.visible .entry parameters(
    .param .u8 byte,
    .param .s16 half,
    .param .u32 word,
    .param .u64 wide,
    .param .f32 single,
    .param .f64 double,
    .param .u64 out)
.reqntid 1, 1, 1
{
    .reg .b16 %h<4>;
    .reg .b32 %r<8>;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [out];
    ld.param.u8 %r0, [byte];
    ld.param.s16 %r1, [half];
    ld.param.u32 %r2, [word];
    ld.param.u64 %d1, [wide];
    ld.param.f32 %r3, [single];
    ld.param.f64 %d2, [double];
    ld.param.b16 %h0, [word+2];
    ld.param.v2.b32 {%r4, %r5}, [wide];
    cvt.u32.u16 %r6, %h0;
    st.global.b32 [%d0], %r0;
    st.global.b32 [%d0+4], %r1;
    st.global.b32 [%d0+8], %r2;
    st.global.b32 [%d0+12], %r3;
    st.global.b64 [%d0+16], %d1;
    st.global.b64 [%d0+24], %d2;
    st.global.b32 [%d0+32], %r4;
    st.global.b32 [%d0+36], %r5;
    st.global.b32 [%d0+40], %r6;
    ret;
}"""
    )
    scalars = [
        ("uint8", 200),
        ("uint16", 0x8001),
        ("uint32", 0xCAFEF00D),
        ("uint64", 0x0123456789ABCDEF),
    ]
    scalars += [("uint32", 0x40490FDB), ("uint64", 0x400921FB54442D18)]
    p.launch(
        "parameters",
        "parameters",
        [*({"scalar": t, "value": v} for t, v in scalars), "out"],
        {"out": out("b32", 11)},
        block=1,
    )
    return p


def _async_copies() -> Program:
    p = Program(
        "cp_async", "cp.async of 4, 8 and 16 bytes, cut short and filled with zeros, in groups."
    )
    p.text(".shared .align 16 .b8 room[8192];")
    body = joined(
        GLOBAL_INDEX,
        _ADDRESS,
        """
        mul.wide.u32 %d4, %r0, 64;
        add.u64 %d4, %d0, %d4;
        mov.u32 %r4, room;
        mad.lo.u32 %r4, %r0, 64, %r4;
        mov.b32 %r5, 0xA5A5A5A5;
        st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5};
        st.shared.v4.b32 [%r4+16], {%r5, %r5, %r5, %r5};
        st.shared.v4.b32 [%r4+32], {%r5, %r5, %r5, %r5};
        st.shared.v4.b32 [%r4+48], {%r5, %r5, %r5, %r5};
        and.b32 %r6, %r0, 15;
        and.b32 %r7, %r0, 7;
        and.b32 %r8, %r0, 3;
        cp.async.ca.shared.global [%r4], [%d4], 4;
        cp.async.ca.shared.global [%r4+8], [%d4+8], 8;
        cp.async.cg.shared.global [%r4+16], [%d4+16], 16, %r6;
        cp.async.commit_group;
        cp.async.ca.shared.global [%r4+32], [%d4+32], 8, %r7;
        cp.async.ca.shared.global [%r4+40], [%d4+40], 4, %r8;
        setp.gt.u32 %p1, %r8, 1;
        cp.async.ca.shared.global [%r4+48], [%d4+48], 16, %p1;
        cp.async.commit_group;
        cp.async.wait_group 1;
        ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r4+16];
        cp.async.wait_group 0;
        mul.wide.u32 %d5, %r0, 80;
        add.u64 %d5, %d1, %d5;
        st.global.v4.b32 [%d5+64], {%r20, %r21, %r22, %r23};
        cp.async.ca.shared.global [%r4+4], [%d4+60], 4;
        cp.async.wait_all;
        """,
        *(
            f"ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r4+{16 * i}];\n"
            f"st.global.v4.b32 [%d5+{16 * i}], {{%r20, %r21, %r22, %r23}};"
            for i in range(4)
        ),
    )
    p.entry("copies", {"source": "u64", "out": "u64"}, body, threads=128)
    p.launch(
        "copies",
        "copies",
        ["source", "out"],
        {"source": buffer("b8", 8192, "bits", seed=900), "out": out("b32", 2560)},
    )
    return p


def _hints() -> Program:
    p = Program(
        "hints",
        "Prefetches, cache policies, launch-order and timing instructions that change no value.",
    )
    body = joined(
        GLOBAL_INDEX,
        _ADDRESS,
        """
        mul.wide.u32 %d9, %r0, 4;
        add.u64 %d4, %d0, %d9;
        add.u64 %d5, %d1, %d9;
        griddepcontrol.wait;
        prefetch.global.L1 [%d4];
        prefetch.global.L2::evict_last [%d4];
        prefetchu.L1 [%d4];
        createpolicy.fractional.L2::evict_last.b64 %d10, 0.5;
        createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %d11, 0.25;
        ld.global.L2::cache_hint.b32 %r10, [%d4], %d10;
        ld.global.nc.L2::cache_hint.b32 %r11, [%d4+4], %d11;
        griddepcontrol.launch_dependents;
        nanosleep.u32 20;
        fence.sc.cta;
        fence.acq_rel.gpu;
        membar.cta;
        membar.gl;
        fence.proxy.alias;
        fence.proxy.async;
        fence.proxy.async.global;
        fence.proxy.async.shared::cta;
        add.u32 %r10, %r10, %r11;
        st.global.b32 [%d5], %r10;
        shr.u64 %d10, %d10, 32;
        cvt.u32.u64 %r12, %d10;
        st.global.b32 [%d5+256], %r12;
        shr.u64 %d11, %d11, 32;
        cvt.u32.u64 %r12, %d11;
        st.global.b32 [%d5+512], %r12;
        """,
    )
    p.entry("hints", {"source": "u64", "out": "u64"}, body, threads=64)
    p.launch(
        "hints",
        "hints",
        ["source", "out"],
        {"source": buffer("b32", 80, "bits", seed=910), "out": out("b32", 192)},
        block=64,
    )
    p.entry(
        "registers",
        {"source": "u64", "out": "u64"},
        joined(
            GLOBAL_INDEX,
            _ADDRESS,
            """
            setp.ge.u32 %p1, %r2, 128;
            mul.wide.u32 %d9, %r0, 4;
            add.u64 %d4, %d0, %d9;
            add.u64 %d5, %d1, %d9;
            @%p1 bra MORE;
            setmaxnreg.dec.sync.aligned.u32 40;
            ld.global.b32 %r10, [%d4];
            add.u32 %r10, %r10, 1;
            st.global.b32 [%d5], %r10;
            bra DONE;
            MORE:
            setmaxnreg.inc.sync.aligned.u32 152;
            ld.global.b32 %r10, [%d4];
            sub.u32 %r10, %r10, 1;
            st.global.b32 [%d5], %r10;
            DONE:
            """,
        ),
        threads=256,
        limit=".maxnreg 128",
    )
    p.launch(
        "registers",
        "registers",
        ["source", "out"],
        {"source": buffer("b32", 256, "bits", seed=911), "out": out("b32", 256)},
        block=256,
    )
    return p


def programs() -> list[Program]:
    return [_widths(), _spaces(), _async_copies(), _hints()]
