// A lowered kernel prints and parses back, registers named, in the short and in the generic form.
// RUN: tkc-opt %s | tkc-opt | filecheck %s
// RUN: tkc-opt --print-op-generic %s | tkc-opt | filecheck %s

// CHECK: ptx.kernel {sym_name = "tma_copy", params = [{name = "M", kind = "s32"}
// CHECK: ptx.imm {value = -1 : i64} : () -> (!ptx.reg<b32>)
// CHECK: ptx.special {register = "%tid.x"} : () -> (!ptx.reg<b32, {{[0-9]+}}>)
// CHECK: ptx.if %{{.*}} : (!ptx.reg<pred, {{[0-9]+}}>) do {
// CHECK-NEXT: ptx.mbarrier.init
// CHECK: ptx.elect.sync
// CHECK: ptx.for
// CHECK: ptx.repeat () do {
// CHECK: ptx.until

builtin.module attributes {tkc.target = "sm_100a"} {
  ptx.kernel {sym_name = "tma_copy", params = [{name = "M", kind = "s32"}, {name = "N", kind = "s32"}, {name = "X_map", kind = "tensormap"}, {name = "Y_map", kind = "tensormap"}], reqntid = 64 : i64, shared_bytes = 65608 : i64, contract = {}} do {
    %0 = ptx.imm {value = 5 : i64} : () -> (!ptx.reg<b32>)
    %1 = ptx.imm {value = 0 : i64} : () -> (!ptx.reg<b32>)
    %2 = ptx.imm {value = 1 : i64} : () -> (!ptx.reg<b32>)
    %3 = ptx.imm {value = -1 : i64} : () -> (!ptx.reg<b32>)
    %4 = ptx.imm {value = 127 : i64} : () -> (!ptx.reg<b32>)
    %5 = ptx.imm {value = 7 : i64} : () -> (!ptx.reg<b32>)
    %6 = ptx.imm {value = 63 : i64} : () -> (!ptx.reg<b32>)
    %7 = ptx.imm {value = 6 : i64} : () -> (!ptx.reg<b32>)
    %8 = ptx.imm {value = 3 : i64} : () -> (!ptx.reg<b32>)
    %9 = ptx.imm {value = 16384 : i64} : () -> (!ptx.reg<b32>)
    %10 = ptx.imm {value = 4 : i64} : () -> (!ptx.reg<b32>)
    %11 = ptx.imm {value = 14 : i64} : () -> (!ptx.reg<b32>)
    %12 = ptx.special {register = "%tid.x"} : () -> (!ptx.reg<b32, 0>)
    %13 = ptx.special {register = "%laneid"} : () -> (!ptx.reg<b32, 1>)
    %14 = ptx.shr %12, %0 {type = ".u32"} : (!ptx.reg<b32, 0>, !ptx.reg<b32>) -> (!ptx.reg<b32, 2>)
    %15 = ptx.shared_base : () -> (!ptx.reg<b32, 3>)
    %16 = ptx.param {param = "M"} : () -> (!ptx.reg<b32, 4>)
    %17 = ptx.param {param = "N"} : () -> (!ptx.reg<b32, 5>)
    %18 = ptx.setp %12, %1 {compare = ".eq", type = ".u32"} : (!ptx.reg<b32, 0>, !ptx.reg<b32>) -> (!ptx.reg<pred, 1>)
    ptx.if %18 : (!ptx.reg<pred, 1>) do {
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65536 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65544 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65552 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65560 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65568 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65576 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65584 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65592 : i64} : (!ptx.reg<b32, 3>, !ptx.reg<b32>)
      ptx.fence.mbarrier_init
    }
    ptx.barrier.cta.sync %1 : (!ptx.reg<b32>)
    %19 = ptx.setp %14, %1 {compare = ".eq", type = ".u32"} : (!ptx.reg<b32, 2>, !ptx.reg<b32>) -> (!ptx.reg<pred, 2>)
    %20 = ptx.param_address {param = "X_map"} : () -> (!ptx.reg<b64, 0>)
    %21 = ptx.param_address {param = "Y_map"} : () -> (!ptx.reg<b64, 1>)
    ptx.if %19 : (!ptx.reg<pred, 2>) do {
      %22 = ptx.elect.sync %3 : (!ptx.reg<b32>) -> (!ptx.reg<pred, 3>)
      ptx.if %22 : (!ptx.reg<pred, 3>) do {
        %23 = ptx.add %16, %4 {type = ".u32"} : (!ptx.reg<b32, 4>, !ptx.reg<b32>) -> (!ptx.reg<b32, 6>)
        %24 = ptx.shr %23, %5 {type = ".u32"} : (!ptx.reg<b32, 6>, !ptx.reg<b32>) -> (!ptx.reg<b32, 7>)
        %25 = ptx.add %17, %6 {type = ".u32"} : (!ptx.reg<b32, 5>, !ptx.reg<b32>) -> (!ptx.reg<b32, 8>)
        %26 = ptx.shr %25, %7 {type = ".u32"} : (!ptx.reg<b32, 8>, !ptx.reg<b32>) -> (!ptx.reg<b32, 9>)
        %27 = ptx.mul.lo %24, %26 {type = ".s32"} : (!ptx.reg<b32, 7>, !ptx.reg<b32, 9>) -> (!ptx.reg<b32, 10>)
        %28 = ptx.special {register = "%ctaid.x"} : () -> (!ptx.reg<b32, 11>)
        %29 = ptx.special {register = "%nctaid.x"} : () -> (!ptx.reg<b32, 12>)
        %30 = ptx.mov %1 {type = ".b32"} : (!ptx.reg<b32>) -> (!ptx.reg<b32, 13>)
        %31 = ptx.mov %1 {type = ".b32"} : (!ptx.reg<b32>) -> (!ptx.reg<b32, 14>)
        %32, %33 = ptx.for %28, %27, %29, %30, %31 {type = ".s32"} : (!ptx.reg<b32, 11>, !ptx.reg<b32, 10>, !ptx.reg<b32, 12>, !ptx.reg<b32, 13>, !ptx.reg<b32, 14>) -> (!ptx.reg<b32, 13>, !ptx.reg<b32, 14>) do {
        ^bb0(%34: !ptx.reg<b32, 11>, %35: !ptx.reg<b32, 13>, %36: !ptx.reg<b32, 14>):
          %37 = ptx.rem %34, %26 {type = ".u32"} : (!ptx.reg<b32, 11>, !ptx.reg<b32, 9>) -> (!ptx.reg<b32, 15>)
          %38 = ptx.div %34, %26 {type = ".u32"} : (!ptx.reg<b32, 11>, !ptx.reg<b32, 9>) -> (!ptx.reg<b32, 16>)
          %39 = ptx.xor %36, %2 {type = ".b32"} : (!ptx.reg<b32, 14>, !ptx.reg<b32>) -> (!ptx.reg<b32, 17>)
          %40 = ptx.shl %35, %8 {type = ".b32"} : (!ptx.reg<b32, 13>, !ptx.reg<b32>) -> (!ptx.reg<b32, 18>)
          %41 = ptx.add %15, %40 {type = ".u32"} : (!ptx.reg<b32, 3>, !ptx.reg<b32, 18>) -> (!ptx.reg<b32, 19>)
          ptx.repeat () do {
            %42 = ptx.mbarrier.try_wait.parity %41, %39 {sem = ".acquire", scope = ".cta", space = ".shared::cta", bar_offset = 65568 : i64} : (!ptx.reg<b32, 19>, !ptx.reg<b32, 17>) -> (!ptx.reg<pred, 4>)
            ptx.until %42 : (!ptx.reg<pred, 4>)
          }
          %43 = ptx.shl %35, %8 {type = ".b32"} : (!ptx.reg<b32, 13>, !ptx.reg<b32>) -> (!ptx.reg<b32, 20>)
          %44 = ptx.add %15, %43 {type = ".u32"} : (!ptx.reg<b32, 3>, !ptx.reg<b32, 20>) -> (!ptx.reg<b32, 21>)
          ptx.mbarrier.arrive.expect_tx %44, %9 {sem = ".release", scope = ".cta", space = ".shared::cta", bar_offset = 65536 : i64} : (!ptx.reg<b32, 21>, !ptx.reg<b32>)
          %45 = ptx.add %35, %2 {type = ".s32"} : (!ptx.reg<b32, 13>, !ptx.reg<b32>) -> (!ptx.reg<b32, 22>)
          %46 = ptx.setp %45, %10 {compare = ".eq", type = ".s32"} : (!ptx.reg<b32, 22>, !ptx.reg<b32>) -> (!ptx.reg<pred, 5>)
          %47 = ptx.selp %1, %45, %46 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32, 22>, !ptx.reg<pred, 5>) -> (!ptx.reg<b32, 23>)
          %48 = ptx.selp %2, %1, %46 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<pred, 5>) -> (!ptx.reg<b32, 24>)
          %49 = ptx.xor %36, %48 {type = ".b32"} : (!ptx.reg<b32, 14>, !ptx.reg<b32, 24>) -> (!ptx.reg<b32, 14>)
          %50 = ptx.shl %38, %5 {type = ".b32"} : (!ptx.reg<b32, 16>, !ptx.reg<b32>) -> (!ptx.reg<b32, 25>)
          %51 = ptx.shl %37, %7 {type = ".b32"} : (!ptx.reg<b32, 15>, !ptx.reg<b32>) -> (!ptx.reg<b32, 26>)
          %52 = ptx.shl %35, %11 {type = ".b32"} : (!ptx.reg<b32, 13>, !ptx.reg<b32>) -> (!ptx.reg<b32, 27>)
          %53 = ptx.add %15, %52 {type = ".u32"} : (!ptx.reg<b32, 3>, !ptx.reg<b32, 27>) -> (!ptx.reg<b32, 28>)
          %54 = ptx.shl %35, %8 {type = ".b32"} : (!ptx.reg<b32, 13>, !ptx.reg<b32>) -> (!ptx.reg<b32, 29>)
          %55 = ptx.add %15, %54 {type = ".u32"} : (!ptx.reg<b32, 3>, !ptx.reg<b32, 29>) -> (!ptx.reg<b32, 30>)
          ptx.cp.async.bulk.tensor.load %53, %20, %51, %50, %55 {dim = ".2d", space = ".shared::cluster", bar_offset = 65536 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 1, 0, 0>} : (!ptx.reg<b32, 28>, !ptx.reg<b64, 0>, !ptx.reg<b32, 26>, !ptx.reg<b32, 25>, !ptx.reg<b32, 30>)
          %56 = ptx.mov %47 {type = ".b32"} : (!ptx.reg<b32, 23>) -> (!ptx.reg<b32, 13>)
          ptx.yield %56, %49 : (!ptx.reg<b32, 13>, !ptx.reg<b32, 14>)
        }
      }
    }, {
      %57 = ptx.elect.sync %3 : (!ptx.reg<b32>) -> (!ptx.reg<pred, 6>)
      ptx.if %57 : (!ptx.reg<pred, 6>) do {
        %58 = ptx.add %16, %4 {type = ".u32"} : (!ptx.reg<b32, 4>, !ptx.reg<b32>) -> (!ptx.reg<b32, 31>)
        %59 = ptx.shr %58, %5 {type = ".u32"} : (!ptx.reg<b32, 31>, !ptx.reg<b32>) -> (!ptx.reg<b32, 32>)
        %60 = ptx.add %17, %6 {type = ".u32"} : (!ptx.reg<b32, 5>, !ptx.reg<b32>) -> (!ptx.reg<b32, 33>)
        %61 = ptx.shr %60, %7 {type = ".u32"} : (!ptx.reg<b32, 33>, !ptx.reg<b32>) -> (!ptx.reg<b32, 34>)
        %62 = ptx.mul.lo %59, %61 {type = ".s32"} : (!ptx.reg<b32, 32>, !ptx.reg<b32, 34>) -> (!ptx.reg<b32, 35>)
        %63 = ptx.special {register = "%ctaid.x"} : () -> (!ptx.reg<b32, 36>)
        %64 = ptx.special {register = "%nctaid.x"} : () -> (!ptx.reg<b32, 37>)
        %65 = ptx.mov %1 {type = ".b32"} : (!ptx.reg<b32>) -> (!ptx.reg<b32, 38>)
        %66 = ptx.mov %1 {type = ".b32"} : (!ptx.reg<b32>) -> (!ptx.reg<b32, 39>)
        %67, %68 = ptx.for %63, %62, %64, %65, %66 {type = ".s32"} : (!ptx.reg<b32, 36>, !ptx.reg<b32, 35>, !ptx.reg<b32, 37>, !ptx.reg<b32, 38>, !ptx.reg<b32, 39>) -> (!ptx.reg<b32, 38>, !ptx.reg<b32, 39>) do {
        ^bb0(%69: !ptx.reg<b32, 36>, %70: !ptx.reg<b32, 38>, %71: !ptx.reg<b32, 39>):
          %72 = ptx.rem %69, %61 {type = ".u32"} : (!ptx.reg<b32, 36>, !ptx.reg<b32, 34>) -> (!ptx.reg<b32, 40>)
          %73 = ptx.div %69, %61 {type = ".u32"} : (!ptx.reg<b32, 36>, !ptx.reg<b32, 34>) -> (!ptx.reg<b32, 41>)
          %74 = ptx.shl %70, %8 {type = ".b32"} : (!ptx.reg<b32, 38>, !ptx.reg<b32>) -> (!ptx.reg<b32, 42>)
          %75 = ptx.add %15, %74 {type = ".u32"} : (!ptx.reg<b32, 3>, !ptx.reg<b32, 42>) -> (!ptx.reg<b32, 43>)
          ptx.repeat () do {
            %76 = ptx.mbarrier.try_wait.parity %75, %71 {sem = ".acquire", scope = ".cta", space = ".shared::cta", bar_offset = 65536 : i64} : (!ptx.reg<b32, 43>, !ptx.reg<b32, 39>) -> (!ptx.reg<pred, 7>)
            ptx.until %76 : (!ptx.reg<pred, 7>)
          }
          %77 = ptx.add %70, %2 {type = ".s32"} : (!ptx.reg<b32, 38>, !ptx.reg<b32>) -> (!ptx.reg<b32, 44>)
          %78 = ptx.setp %77, %10 {compare = ".eq", type = ".s32"} : (!ptx.reg<b32, 44>, !ptx.reg<b32>) -> (!ptx.reg<pred, 8>)
          %79 = ptx.selp %1, %77, %78 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32, 44>, !ptx.reg<pred, 8>) -> (!ptx.reg<b32, 45>)
          %80 = ptx.selp %2, %1, %78 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<pred, 8>) -> (!ptx.reg<b32, 46>)
          %81 = ptx.xor %71, %80 {type = ".b32"} : (!ptx.reg<b32, 39>, !ptx.reg<b32, 46>) -> (!ptx.reg<b32, 39>)
          %82 = ptx.shl %73, %5 {type = ".b32"} : (!ptx.reg<b32, 41>, !ptx.reg<b32>) -> (!ptx.reg<b32, 47>)
          %83 = ptx.shl %72, %7 {type = ".b32"} : (!ptx.reg<b32, 40>, !ptx.reg<b32>) -> (!ptx.reg<b32, 48>)
          %84 = ptx.shl %70, %11 {type = ".b32"} : (!ptx.reg<b32, 38>, !ptx.reg<b32>) -> (!ptx.reg<b32, 49>)
          %85 = ptx.add %15, %84 {type = ".u32"} : (!ptx.reg<b32, 3>, !ptx.reg<b32, 49>) -> (!ptx.reg<b32, 50>)
          ptx.cp.async.bulk.tensor.store %21, %83, %82, %85 {dim = ".2d", operandSegmentSizes = array<i32: 1, 2, 1, 0>} : (!ptx.reg<b64, 1>, !ptx.reg<b32, 48>, !ptx.reg<b32, 47>, !ptx.reg<b32, 50>)
          ptx.cp.async.bulk.commit_group
          ptx.cp.async.bulk.wait_group.read {count = 0 : i64}
          %86 = ptx.shl %70, %8 {type = ".b32"} : (!ptx.reg<b32, 38>, !ptx.reg<b32>) -> (!ptx.reg<b32, 51>)
          %87 = ptx.add %15, %86 {type = ".u32"} : (!ptx.reg<b32, 3>, !ptx.reg<b32, 51>) -> (!ptx.reg<b32, 52>)
          ptx.mbarrier.arrive %87 {sem = ".release", scope = ".cta", space = ".shared::cta", bar_offset = 65568 : i64} : (!ptx.reg<b32, 52>)
          %88 = ptx.mov %79 {type = ".b32"} : (!ptx.reg<b32, 45>) -> (!ptx.reg<b32, 38>)
          ptx.yield %88, %81 : (!ptx.reg<b32, 38>, !ptx.reg<b32, 39>)
        }
        ptx.cp.async.bulk.wait_group {count = 0 : i64}
      }
    }
  }
}
