// The int8 filter for compute capability 9.0a: warpgroup products (wgmma) over tiles that the copy engine
// brings.
//
// A block owns 128 queries. One thread of the first warpgroup keeps a ring of row tiles filled by bulk
// copies, which announce themselves on barriers in shared memory; the layout in memory is the one wgmma
// reads, so a tile is one contiguous copy. Two warpgroups multiply 64 queries x 256 rows each and hold the
// products in registers; while one compares its products with the thresholds, the other keeps the tensor
// cores busy. A slot is free again when all eight warps have said so.
//
// Descriptors and fragment layouts: PTX ISA, "Asynchronous warpgroup level matrix instructions".
#include <math_constants.h>

#include "brute_force/cuda/append.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"

namespace kith::cuda {
namespace {

constexpr int BM = 128;
constexpr int BN = code_tile_rows;
constexpr int group_threads = 128;
constexpr int threads = 3 * group_threads;
constexpr int most_slots = 6;
constexpr int bias_slots = 4;
constexpr int barrier_bytes = 256;
static_assert((2 * most_slots + 1 + 2 * bias_slots) * 8 <= barrier_bytes);

struct Args {
  const std::uint8_t* codes;
  const std::int32_t* bias;
  const float* maxima;
  const std::uint8_t* query_codes;
  const QueryBound* bounds;
  std::int64_t queries;
  int chunks;
  int steps;
  int slots;
  bool all;
  Stage stage;
  Candidates out;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

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
__device__ inline void copy_bulk(std::uint32_t to, const void* from, std::uint32_t bytes,
                                 std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// A matrix in shared memory, rows of W bytes, K-major, swizzled by W bytes.
template <int W>
__device__ inline std::uint64_t describe(std::uint32_t address) {
  constexpr std::uint64_t swizzle = W == 128 ? 1 : (W == 64 ? 2 : 3);
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4U) | std::uint64_t{1} << 16U |
         static_cast<std::uint64_t>(8 * W / 16) << 32U | swizzle << 62U;
}

// d = a b, or d += a b: 64 queries x 256 rows x 32 values.
__device__ inline void multiply(int (&d)[128], std::uint64_t a, std::uint64_t b, int accumulate) {
  // clang-format off
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p;\n"
      "}\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]),
        "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]),
        "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
        "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]),
        "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]),
        "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]),
        "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]),
        "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63]),
        "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]), "+r"(d[70]), "+r"(d[71]),
        "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]), "+r"(d[76]), "+r"(d[77]), "+r"(d[78]), "+r"(d[79]),
        "+r"(d[80]), "+r"(d[81]), "+r"(d[82]), "+r"(d[83]), "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]),
        "+r"(d[88]), "+r"(d[89]), "+r"(d[90]), "+r"(d[91]), "+r"(d[92]), "+r"(d[93]), "+r"(d[94]), "+r"(d[95]),
        "+r"(d[96]), "+r"(d[97]), "+r"(d[98]), "+r"(d[99]), "+r"(d[100]), "+r"(d[101]), "+r"(d[102]), "+r"(d[103]),
        "+r"(d[104]), "+r"(d[105]), "+r"(d[106]), "+r"(d[107]), "+r"(d[108]), "+r"(d[109]), "+r"(d[110]), "+r"(d[111]),
        "+r"(d[112]), "+r"(d[113]), "+r"(d[114]), "+r"(d[115]), "+r"(d[116]), "+r"(d[117]), "+r"(d[118]), "+r"(d[119]),
        "+r"(d[120]), "+r"(d[121]), "+r"(d[122]), "+r"(d[123]), "+r"(d[124]), "+r"(d[125]), "+r"(d[126]), "+r"(d[127])
      : "l"(a), "l"(b), "r"(accumulate));
  // clang-format on
}

template <int W, bool triangle>
__device__ inline void produce(const Args& a, std::uint32_t q_codes, std::uint32_t ring, std::uint32_t ring_h,
                               std::uint32_t full, std::uint32_t empty, std::uint32_t bias_full,
                               std::uint32_t bias_empty, std::uint32_t query_barrier) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * BM;
  const auto query_bytes = static_cast<std::uint32_t>(a.chunks * BM * W);
  expect_bytes(query_barrier, query_bytes);
  copy_bulk(q_codes, a.query_codes + first * W * a.chunks, query_bytes, query_barrier);
  int slot = 0;
  std::uint32_t parity = 1;  // the slots are free at the start
  int turn = 0;
  for (std::int64_t position = blockIdx.y; position < a.stage.count; position += gridDim.y, ++turn) {
    const std::int64_t tile = a.stage.tile(position);
    const int bias_slot = turn % bias_slots;
    wait(bias_empty + bias_slot * 8, static_cast<std::uint32_t>(turn / bias_slots & 1) ^ 1U);
    expect_bytes(bias_full + bias_slot * 8, BN * 4);
    copy_bulk(ring_h + bias_slot * BN * 4, a.bias + tile * BN, BN * 4, bias_full + bias_slot * 8);
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      wait(empty + slot * 8, parity);
      const std::uint32_t bar = full + slot * 8;
      expect_bytes(bar, BN * W);
      copy_bulk(ring + slot * BN * W, a.codes + (tile * a.chunks + chunk) * (BN * W), BN * W, bar);
      if (++slot == a.slots) {
        slot = 0;
        parity ^= 1;
      }
    }
  }
}

template <int W, bool triangle>
__device__ inline void consume(const Args& a, int group, std::uint32_t q_codes, std::uint32_t ring,
                               const std::int32_t* ring_h, std::int32_t* thresholds, std::uint32_t full,
                               std::uint32_t empty, std::uint32_t bias_full, std::uint32_t bias_empty,
                               std::uint32_t query_barrier, WarpBuffer* buffers) {
  const int tid = static_cast<int>(threadIdx.x) % group_threads;
  const int warp = tid / 32;
  const int lane = tid % 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * BM + group * 64;
  if (tid < 64) {
    const QueryBound bound = first + tid < a.queries ? a.bounds[first + tid] : QueryBound{CUDART_INF, 0, 0};
    thresholds[tid] = threshold<triangle>(bound, a.maxima[0], a.maxima[1]);
  }
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
  const int row = warp * 16 + lane / 4;
  const int t0 = thresholds[row];
  const int t1 = thresholds[row + 8];
  Appender appender(buffers + warp, a.out);
  wait(query_barrier, 0);
  int slot = 0;
  std::uint32_t parity = 0;
  int turn = 0;
  int acc[128];
  for (std::int64_t position = blockIdx.y; position < a.stage.count; position += gridDim.y, ++turn) {
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      wait(full + slot * 8, parity);
      const std::uint64_t da = describe<W>(q_codes + chunk * BM * W + group * 64 * W);
      const std::uint64_t db = describe<W>(ring + slot * BN * W);
      const int left = a.steps - chunk * (W / 32);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      if (left >= W / 32) {
#pragma unroll
        for (int s = 0; s < W / 32; ++s) multiply(acc, da + 2 * s, db + 2 * s, chunk + s > 0 ? 1 : 0);
      } else {
        for (int s = 0; s < left; ++s) multiply(acc, da + 2 * s, db + 2 * s, chunk + s > 0 ? 1 : 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (lane == 0) arrive(empty + slot * 8);
      if (++slot == a.slots) {
        slot = 0;
        parity ^= 1;
      }
    }
    const std::int64_t tile = a.stage.tile(position);
    const int bias_slot = turn % bias_slots;
    wait(bias_full + bias_slot * 8, static_cast<std::uint32_t>(turn / bias_slots & 1));
    const std::int32_t* h = ring_h + bias_slot * BN + lane % 4 * 2;
    unsigned found[4] = {};
    int scores[128];    // of what was found: in local memory, so that the code below stays short
    bool some = false;  // the same in the whole warp
#pragma unroll
    for (int g = 0; g < 4; ++g) {  // 64 rows at once
      int largest0 = -2147483647;
      int largest1 = -2147483647;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const int2 bias = *reinterpret_cast<const int2*>(h + g * 64 + n * 8);
        const int i = (g * 8 + n) * 4;
        largest0 = __viaddmax_s32(acc[i], bias.x, largest0);
        largest0 = __viaddmax_s32(acc[i + 1], bias.y, largest0);
        largest1 = __viaddmax_s32(acc[i + 2], bias.x, largest1);
        largest1 = __viaddmax_s32(acc[i + 3], bias.y, largest1);
      }
      if (!__any_sync(0xffffffffU, a.all || largest0 >= t0 || largest1 >= t1)) continue;
      some = true;
#pragma unroll
      for (int n = 0; n < 8; ++n) {  // 8 rows at once
        const int2 bias = *reinterpret_cast<const int2*>(h + g * 64 + n * 8);
        const int i = (g * 8 + n) * 4;
        const int s0 = acc[i] + bias.x;
        const int s1 = acc[i + 1] + bias.y;
        const int s2 = acc[i + 2] + bias.x;
        const int s3 = acc[i + 3] + bias.y;
        const unsigned hits =
            a.all ? 15U
                  : (s0 >= t0 ? 1U : 0U) | (s1 >= t0 ? 2U : 0U) | (s2 >= t1 ? 4U : 0U) | (s3 >= t1 ? 8U : 0U);
        if (!__any_sync(0xffffffffU, hits != 0)) continue;
        scores[i] = s0;
        scores[i + 1] = s1;
        scores[i + 2] = s2;
        scores[i + 3] = s3;
        found[g] |= hits << (n * 4);
      }
    }
    if (some) {
#pragma unroll 1
      for (int g = 0; g < 4; ++g) {
        const unsigned here = g < 2 ? (g == 0 ? found[0] : found[1]) : (g == 2 ? found[2] : found[3]);
#pragma unroll 1
        for (unsigned left = __reduce_or_sync(0xffffffffU, here); left != 0; left &= left - 1) {
          const int i = __ffs(static_cast<int>(left)) - 1;
          const bool hit = (here >> i & 1U) != 0;
          const int score = hit ? scores[g * 32 + i] : no_row;
          const int column = g * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2;
          const std::int64_t q = first + row + i / 2 % 2 * 8;
          const auto id = static_cast<std::uint32_t>(row_of(tile, column, a.stage.tiles));
          if (a.all) {
            keep_in_place(a.out, a.queries, a.stage, q, position, column, id, score);
          } else {
            appender.add(hit, q, make_candidate(score, id));
          }
        }
      }
    }
    __syncwarp();
    if (lane == 0) arrive(bias_empty + bias_slot * 8);
  }
  appender.flush();
}

#endif

template <int W, bool triangle>
__global__ void __launch_bounds__(threads, 1) filter_kernel(const __grid_constant__ Args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char raw[];
  // Swizzled tiles want 1024-byte boundaries.
  const std::uint32_t start = (shared_address(raw) + 1023U) & ~1023U;
  unsigned char* const base = raw + (start - shared_address(raw));
  const std::uint32_t q_codes = start;
  const std::uint32_t ring = q_codes + static_cast<std::uint32_t>(a.chunks * BM * W);
  const std::uint32_t ring_h = ring + static_cast<std::uint32_t>(a.slots * BN * W);
  const std::uint32_t barriers = ring_h + static_cast<std::uint32_t>(bias_slots * BN * 4);
  const std::uint32_t full = barriers;
  const std::uint32_t empty = barriers + most_slots * 8;
  const std::uint32_t query_barrier = barriers + 2 * most_slots * 8;
  const std::uint32_t bias_full = query_barrier + 8;
  const std::uint32_t bias_empty = bias_full + bias_slots * 8;
  auto* const thresholds = reinterpret_cast<std::int32_t*>(base + (barriers - start) + barrier_bytes);
  auto* const buffers = reinterpret_cast<WarpBuffer*>(thresholds + 2 * 64);
  if (threadIdx.x == 0) {
    for (int s = 0; s < a.slots; ++s) {
      init_barrier(full + s * 8, 1);
      init_barrier(empty + s * 8, 8);
    }
    for (int s = 0; s < bias_slots; ++s) {
      init_barrier(bias_full + s * 8, 1);
      init_barrier(bias_empty + s * 8, 8);
    }
    init_barrier(query_barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      produce<W, triangle>(a, q_codes, ring, ring_h, full, empty, bias_full, bias_empty, query_barrier);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<W, triangle>(a, group - 1, q_codes, ring,
                         reinterpret_cast<const std::int32_t*>(base + (ring_h - start)),
                         thresholds + (group - 1) * 64, full, empty, bias_full, bias_empty, query_barrier,
                         buffers + (group - 1) * 4);
  }
#endif
}

std::size_t bytes_of(int chunks, int width, int slots) {
  return 1024U + static_cast<std::size_t>(chunks) * BM * width +
         static_cast<std::size_t>(slots) * BN * width + bias_slots * BN * 4U + barrier_bytes + 2U * 64U * 4U +
         8U * sizeof(WarpBuffer);
}

template <int W, bool triangle>
bool launch(const Int8Filter& f, int device, cudaStream_t stream) {
  const auto kernel = filter_kernel<W, triangle>;
  // Compiled for this chip, not by the driver from the instructions of an older one.
  static const bool native = [kernel] {
    cudaFuncAttributes attributes{};
    KITH_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    return attributes.binaryVersion == 90 && attributes.ptxVersion == 90;
  }();
  if (!native) return false;
  const auto shared = static_cast<std::size_t>(shared_limit(device));
  int slots = most_slots;
  while (slots > 2 && bytes_of(f.shape.chunks, W, slots) > shared) --slots;
  const std::size_t bytes = bytes_of(f.shape.chunks, W, slots);
  if (bytes > shared) return false;
  allow_shared(kernel, threads, bytes, device);
  const std::int64_t query_tiles = (f.queries + BM - 1) / BM;
  const Args args{f.rows.codes,   f.rows.bias,   f.rows.largest, f.query_codes, f.bounds, f.queries,
                  f.shape.chunks, f.shape.steps, slots,          f.all,         f.stage,  f.out};
  kernel<<<dim3(static_cast<unsigned>(query_tiles),
                choose_splits(query_tiles, f.stage.count, processors(device))),
           threads, bytes, stream>>>(args);
  check_launch("int8 filter (9.0a)");
  return true;
}

}  // namespace

bool run_int8_filter_sm90(const Int8Filter& f, int device, cudaStream_t stream) {
  if (f.query_tile != BM) return false;
  if (device_attribute(cudaDevAttrComputeCapabilityMajor, device) != 9 ||
      device_attribute(cudaDevAttrComputeCapabilityMinor, device) != 0) {
    return false;
  }
  switch (f.shape.width) {
    case 32: return f.triangle ? launch<32, true>(f, device, stream) : launch<32, false>(f, device, stream);
    case 64: return f.triangle ? launch<64, true>(f, device, stream) : launch<64, false>(f, device, stream);
    default: return f.triangle ? launch<128, true>(f, device, stream) : launch<128, false>(f, device, stream);
  }
}

}  // namespace kith::cuda
