// The target is a name on the module; a later set-target replaces it.
// RUN: tkc-opt %s -p 'set-target{arch=sm_90a}' | filecheck %s
// RUN: tkc-opt %s -p 'set-target{arch=sm_100a},set-target{arch=sm_90a}' | filecheck %s

// CHECK: builtin.module attributes {tkc.target = "sm_90a"} {

builtin.module {
}
