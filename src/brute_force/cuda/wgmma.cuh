// Instructions of compute capability 9.0a: barriers in shared memory, copies of the copy engine that announce
// themselves there, and products of a warpgroup (wgmma).
//
// Descriptors and fragment layouts: PTX ISA, "Asynchronous warpgroup level matrix instructions".
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace kith::brute_force::cuda {
namespace {

__device__ inline void init_barrier(std::uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the same barrier of the other block of a pair.
__device__ inline void arrive_there(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ inline std::uint32_t rank_in_pair() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Both blocks of a pair meet here, every thread of them.
__device__ inline void meet() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ inline void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// Whether a wait for it would be over.
__device__ inline bool passed(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
__device__ inline void copy_bulk(std::uint32_t to, const void* from, std::uint32_t bytes,
                                 std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// To the same place of both blocks of a pair, announced at the barrier of each.
__device__ inline void copy_bulk_to_both(std::uint32_t to, const void* from, std::uint32_t bytes,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
      "[%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(static_cast<unsigned short>(3))
      : "memory");
}

// A matrix in shared memory, rows of W bytes, K-major, swizzled by W bytes.
template <int W>
__device__ inline std::uint64_t describe(std::uint32_t address) {
  constexpr std::uint64_t swizzle = W == 128 ? 1 : (W == 64 ? 2 : 3);
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4U) | std::uint64_t{1} << 16U |
         static_cast<std::uint64_t>(8 * W / 16) << 32U | swizzle << 62U;
}

// clang-format off
#define KITH_PRODUCTS_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KITH_PRODUCTS_128 KITH_PRODUCTS_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define KITH_SUMS_64(kind) \
  kind(d[0]), kind(d[1]), kind(d[2]), kind(d[3]), kind(d[4]), kind(d[5]), kind(d[6]), kind(d[7]), \
  kind(d[8]), kind(d[9]), kind(d[10]), kind(d[11]), kind(d[12]), kind(d[13]), kind(d[14]), kind(d[15]), \
  kind(d[16]), kind(d[17]), kind(d[18]), kind(d[19]), kind(d[20]), kind(d[21]), kind(d[22]), kind(d[23]), \
  kind(d[24]), kind(d[25]), kind(d[26]), kind(d[27]), kind(d[28]), kind(d[29]), kind(d[30]), kind(d[31]), \
  kind(d[32]), kind(d[33]), kind(d[34]), kind(d[35]), kind(d[36]), kind(d[37]), kind(d[38]), kind(d[39]), \
  kind(d[40]), kind(d[41]), kind(d[42]), kind(d[43]), kind(d[44]), kind(d[45]), kind(d[46]), kind(d[47]), \
  kind(d[48]), kind(d[49]), kind(d[50]), kind(d[51]), kind(d[52]), kind(d[53]), kind(d[54]), kind(d[55]), \
  kind(d[56]), kind(d[57]), kind(d[58]), kind(d[59]), kind(d[60]), kind(d[61]), kind(d[62]), kind(d[63])
#define KITH_SUMS_128(kind) KITH_SUMS_64(kind), \
  kind(d[64]), kind(d[65]), kind(d[66]), kind(d[67]), kind(d[68]), kind(d[69]), kind(d[70]), kind(d[71]), \
  kind(d[72]), kind(d[73]), kind(d[74]), kind(d[75]), kind(d[76]), kind(d[77]), kind(d[78]), kind(d[79]), \
  kind(d[80]), kind(d[81]), kind(d[82]), kind(d[83]), kind(d[84]), kind(d[85]), kind(d[86]), kind(d[87]), \
  kind(d[88]), kind(d[89]), kind(d[90]), kind(d[91]), kind(d[92]), kind(d[93]), kind(d[94]), kind(d[95]), \
  kind(d[96]), kind(d[97]), kind(d[98]), kind(d[99]), kind(d[100]), kind(d[101]), kind(d[102]), kind(d[103]), \
  kind(d[104]), kind(d[105]), kind(d[106]), kind(d[107]), kind(d[108]), kind(d[109]), kind(d[110]), kind(d[111]), \
  kind(d[112]), kind(d[113]), kind(d[114]), kind(d[115]), kind(d[116]), kind(d[117]), kind(d[118]), kind(d[119]), \
  kind(d[120]), kind(d[121]), kind(d[122]), kind(d[123]), kind(d[124]), kind(d[125]), kind(d[126]), kind(d[127])
// clang-format on

// d = a b, or d += a b: 64 x 256 or 64 x 128, of 32 bytes of codes.
#define KITH_MULTIPLY(Type, n, instruction, products, sums, kind, more, a_, b_, accumulate_)       \
  __device__ inline void multiply(Type(&d)[n], std::uint64_t a, std::uint64_t b, int accumulate) { \
    asm volatile(                                                                                  \
        "{\n"                                                                                      \
        ".reg .pred p;\n"                                                                          \
        "setp.ne.b32 p, " accumulate_                                                              \
        ", 0;\n"                                                                                   \
        "wgmma.mma_async.sync.aligned." instruction " {" products "}, " a_ ", " b_ ", p" more      \
        ";\n"                                                                                      \
        "}\n"                                                                                      \
        : sums(kind)                                                                               \
        : "l"(a), "l"(b), "r"(accumulate));                                                        \
  }
#define KITH_INTEGER "+r"
#define KITH_FLOAT "+f"
KITH_MULTIPLY(std::int32_t, 128, "m64n256k32.s32.s8.s8", KITH_PRODUCTS_128, KITH_SUMS_128, KITH_INTEGER, "",
              "%128", "%129", "%130")
KITH_MULTIPLY(float, 128, "m64n256k16.f32.f16.f16", KITH_PRODUCTS_128, KITH_SUMS_128, KITH_FLOAT,
              ", 1, 1, 0, 0", "%128", "%129", "%130")
KITH_MULTIPLY(std::int32_t, 64, "m64n128k32.s32.s8.s8", KITH_PRODUCTS_64, KITH_SUMS_64, KITH_INTEGER, "",
              "%64", "%65", "%66")
KITH_MULTIPLY(float, 64, "m64n128k16.f32.f16.f16", KITH_PRODUCTS_64, KITH_SUMS_64, KITH_FLOAT, ", 1, 1, 0, 0",
              "%64", "%65", "%66")
#undef KITH_MULTIPLY
#undef KITH_INTEGER
#undef KITH_FLOAT
#undef KITH_PRODUCTS_64
#undef KITH_PRODUCTS_128
#undef KITH_SUMS_64
#undef KITH_SUMS_128

// So many steps of codes, of 32 bytes each, as a group of products to wait for.
template <int steps, class Value, int n>
__device__ inline void multiply_steps(Value (&acc)[n], std::uint64_t a, std::uint64_t b, int accumulate) {
  // What was done with the registers of `acc` comes before the products.
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int s = 0; s < steps; ++s) multiply(acc, a + 2 * s, b + 2 * s, s > 0 ? 1 : accumulate);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// A chunk of up to `most` steps, of which `left` may be all that are left.
template <int most, class Value, int n>
__device__ inline void multiply_chunk(int left, Value (&acc)[n], std::uint64_t a, std::uint64_t b,
                                      int accumulate) {
  switch (min(most, left)) {
    case 1: multiply_steps<1>(acc, a, b, accumulate); break;
    case 2: multiply_steps<2>(acc, a, b, accumulate); break;
    case 3: multiply_steps<3>(acc, a, b, accumulate); break;
    default: multiply_steps<most>(acc, a, b, accumulate);
  }
}

}  // namespace
}  // namespace kith::brute_force::cuda

#endif
