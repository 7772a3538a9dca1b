/* Stands in for the CUDA runtime and driver on a machine without a GPU: tensor maps are printed, not encoded. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int maps;

static int encode(void *map, int type, uint32_t rank, void *address, const uint64_t *dim, const uint64_t *stride, const uint32_t *box,
                  const uint32_t *step, int interleave, int swizzle, int promotion, int fill) {
  (void)promotion;
  memset(map, 0, 128);
  uint64_t mark[2] = {0x70616D726F736E65ull, (uint64_t)maps++};
  memcpy(map, mark, sizeof mark);
  printf("map %d %p %u", type, address, rank);
  for (uint32_t i = 0; i < rank; i++) printf(" %llu", (unsigned long long)dim[i]);
  for (uint32_t i = 0; i + 1 < rank; i++) printf(" %llu", (unsigned long long)stride[i]);
  for (uint32_t i = 0; i < rank; i++) printf(" %u", box[i]);
  for (uint32_t i = 0; i < rank; i++) printf(" %u", step[i]);
  printf(" %d %d %d\n", interleave, swizzle, fill);
  return 0;
}

static int version(int *v) { return *v = 13000, 0; }

int cudaGetDriverEntryPoint(const char *name, void **found, unsigned long long flags, int *status) {
  (void)flags;
  *found = strstr(name, "Encode") ? (void *)encode : (void *)version;
  if (status) *status = 0;
  return 0;
}
int cudaGetDriverEntryPoint_ptsz(const char *name, void **found, unsigned long long flags, int *status) {
  return cudaGetDriverEntryPoint(name, found, flags, status);
}
int cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned wanted, unsigned long long flags, int *status) {
  (void)wanted;
  return cudaGetDriverEntryPoint(name, found, flags, status);
}
int cudaDriverGetVersion(int *v) { return version(v); }
int cudaGetDevice(int *device) { return *device = 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { return (void)attribute, (void)device, *value = 8, 0; }
int cudaGetLastError(void) { return 0; }
const char *cudaGetErrorString(int code) { return (void)code, "none"; }

/* What nvcc's host code registers at its start. */
void **__cudaRegisterFatBinary(void *binary) { return (void)binary, (void **)&maps; }
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
void __cudaRegisterFunction(void) {}
void __cudaRegisterVar(void) {}
int __cudaPopCallConfiguration(void) { return 0; }
int __cudaLaunchKernel(void) { return 0; }
int __cudaGetKernel(void) { return 0; }
int __cudaInitModule(void) { return 0; }
int cudaMemsetAsync(void) { return 0; }
