// The filter of codes for compute capability 9.0a: warpgroup products (wgmma) over tiles that the copy engine
// brings.
//
// A block owns 128 queries. One thread of the first warpgroup keeps a ring of row tiles filled by bulk
// copies, which announce themselves on barriers in shared memory; the layout in memory is the one wgmma
// reads, so a tile is one contiguous copy. Two warpgroups multiply 64 queries x 256 rows each and hold the
// products in registers; while one compares its products with the thresholds, the other keeps the tensor
// cores busy. A slot is free again when all eight warps have said so.
//
// Where the queries' codes leave no room for a ring they come along with the rows, chunk by chunk. That is
// half as much again from the second-level cache, which is the bound, so two blocks are a pair (a cluster):
// they look at the same rows, and each brings one half of every tile to both. A slot is then free when the
// warps of both blocks have said so. (Pairs with resident queries were measured, and slower.)
#include <type_traits>

#include <math_constants.h>

#include "brute_force/cuda/append.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/runs.cuh"
#include "brute_force/cuda/scores.cuh"
#include "brute_force/cuda/wgmma.cuh"
#include "cuda/capability.hpp"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
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
  const float* largest;
  const std::uint8_t* query_codes;
  const QueryBound* bounds;
  CodeTest test;
  std::int64_t queries;
  int query_tile;  // of the image
  int chunks;
  int steps;
  int slots;
  bool all;
  bool best;  // keep the best of each run and nothing else (run_look)
  Stage stage;
  Candidates out;
};

// What a slot holds: a chunk of a tile of rows, in a pair also of the queries.
__host__ __device__ constexpr int slot_bytes(int width, bool pair) {
  return BN * width + (pair ? BM * width : 0);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int W, bool pair>
__device__ inline void produce(const Args& a, std::uint32_t q_codes, std::uint32_t ring, std::uint32_t ring_h,
                               std::uint32_t full, std::uint32_t empty, std::uint32_t bias_full,
                               std::uint32_t bias_empty, std::uint32_t query_barrier) {
  // The second block of the last pair may have no queries: it takes somebody else's, and keeps nothing.
  const std::int64_t last = (a.queries + BM - 1) / BM - 1;
  const std::int64_t query_tile = blockIdx.x < last ? blockIdx.x : last;
  const std::int64_t in_tile = query_tile * BM % a.query_tile;
  const std::uint8_t* queries =
      a.query_codes + ((query_tile * BM - in_tile) * a.chunks + in_tile) * W;  // chunks lie a tile apart
  const int next_chunk = a.query_tile * W;
  if constexpr (!pair) {
    expect_bytes(query_barrier, static_cast<std::uint32_t>(a.chunks * BM * W));
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      copy_bulk(q_codes + chunk * BM * W, queries + chunk * next_chunk, BM * W, query_barrier);
    }
  }
  const auto bytes = static_cast<std::uint32_t>(slot_bytes(W, pair));
  int slot = 0;
  std::uint32_t parity = 1;  // the slots are free at the start
  int turn = 0;
  const std::int64_t block = pair ? blockIdx.x / 2 : blockIdx.x;  // both look at the same tiles
  const std::int64_t count = a.stage.count_of(block);
  for (std::int64_t position = blockIdx.y; position < count; position += gridDim.y, ++turn) {
    const std::int64_t tile = a.stage.tile(block, position);
    const int bias_slot = turn % bias_slots;
    wait(bias_empty + bias_slot * 8, static_cast<std::uint32_t>(turn / bias_slots & 1) ^ 1U);
    expect_bytes(bias_full + bias_slot * 8, BN * 4);
    copy_bulk(ring_h + bias_slot * BN * 4, a.bias + tile * BN, BN * 4, bias_full + bias_slot * 8);
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      wait(empty + slot * 8, parity);
      const std::uint32_t bar = full + slot * 8;
      const std::uint32_t to = ring + slot * bytes;
      const std::uint8_t* from = a.codes + (tile * a.chunks + chunk) * (BN * W);
      expect_bytes(bar, bytes);
      if constexpr (pair) {
        constexpr std::uint32_t part = BN * W / 2;
        const std::uint32_t mine = rank_in_pair() * part;
        copy_bulk_to_both(to + mine, from + mine, part, bar);
      } else {
        copy_bulk(to, from, BN * W, bar);
      }
      if constexpr (pair) copy_bulk(to + BN * W, queries + chunk * next_chunk, BM * W, bar);
      if (++slot == a.slots) {
        slot = 0;
        parity ^= 1;
      }
    }
  }
}

// Of every 16 rows the one with the largest score for each of this thread's two queries. The four threads
// that hold products with the same queries halve what they have, twice.
template <class S, class Value>
__device__ inline void keep_best(const Args& a, const Value (&products)[128], const std::int32_t* h,
                                 std::int64_t query, std::int64_t position, std::int64_t tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int place = place_in_run(lane % 4 * 2);
  std::int32_t best[32];  // 2 i and 2 i + 1: of run i of the tile, for the first query and the second
#pragma unroll
  for (int i = 0; i < 16; ++i) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int2 bias = *reinterpret_cast<const int2*>(h + (i * 2 + n) * 8);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const int at = (i * 2 + n) * 4 + s * 2;
        const std::int32_t larger =
            max(S::with_place(S::sum(products[at], S::bias(bias.x)), place - n * 8),
                S::with_place(S::sum(products[at + 1], S::bias(bias.y)), place - n * 8 - 1));
        best[i * 2 + s] = n == 0 ? larger : max(best[i * 2 + s], larger);
      }
    }
  }
  halve<16>(best, 2);
  halve<8>(best, 1);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int run = lane % 4 * 4 + i / 2;
    const std::int64_t q = query + i % 2 * 8;
    if (q >= a.queries) continue;
    put_run<S>(a.out, a.stage, q, position * (code_tile_rows / look_rows) + run, tile, run * look_rows,
               best[i]);
  }
}

template <int W, bool half, bool pair>
__device__ inline void consume(const Args& a, int group, std::uint32_t q_codes, std::uint32_t ring,
                               const std::int32_t* ring_h, typename Scores<half>::Value* thresholds,
                               std::uint32_t full, std::uint32_t empty, std::uint32_t bias_full,
                               std::uint32_t bias_empty, std::uint32_t query_barrier, WarpBuffer* buffers) {
  using S = Scores<half>;
  using Value = typename S::Value;
  const int tid = static_cast<int>(threadIdx.x) % group_threads;
  const int warp = tid / 32;
  const int lane = tid % 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * BM + group * 64;
  if (tid < 64) {
    const QueryBound bound = first + tid < a.queries ? a.bounds[first + tid] : QueryBound{CUDART_INF, 0, 0};
    thresholds[tid] = S::limit(bound, a.test, a.largest);
  }
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
  const int row = warp * 16 + lane / 4;
  const Value t0 = thresholds[row];
  const Value t1 = thresholds[row + 8];
  Appender appender(buffers + warp, a.out);
  if constexpr (!pair) wait(query_barrier, 0);
  const int bytes = slot_bytes(W, pair);
  int slot = 0;
  std::uint32_t parity = 0;
  int turn = 0;
  Value acc[128];
  const std::int64_t block = pair ? blockIdx.x / 2 : blockIdx.x;
  const std::int64_t count = a.stage.count_of(block);
  const auto give_back = [&](int which) {
    if (lane != 0) return;
    arrive(empty + which * 8);
    if constexpr (pair) arrive_there(empty + which * 8, rank_in_pair() ^ 1U);
  };
  const auto give_bias_back = [&](int which) {
    __syncwarp();
    if (lane == 0) arrive(bias_empty + which * 8);
  };
  for (std::int64_t position = blockIdx.y; position < count; position += gridDim.y, ++turn) {
    int before = 0;
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      wait(full + slot * 8, parity);
      const std::uint32_t rows = ring + slot * bytes;
      const std::uint32_t queries = pair ? rows + BN * W : q_codes + chunk * BM * W;
      const std::uint64_t da = describe<W>(queries + group * 64 * W);
      const std::uint64_t db = describe<W>(rows);
      multiply_chunk<W / 32>(a.steps - chunk * (W / 32), acc, da, db, chunk > 0 ? 1 : 0);
      // The tensor cores go on with this chunk while the slot of the one before it is given back.
      if (chunk > 0) {
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        give_back(before);
      }
      before = slot;
      if (++slot == a.slots) {
        slot = 0;
        parity ^= 1;
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    give_back(before);
    const std::int64_t tile = a.stage.tile(block, position);
    const int bias_slot = turn % bias_slots;
    wait(bias_full + bias_slot * 8, static_cast<std::uint32_t>(turn / bias_slots & 1));
    const std::int32_t* h = ring_h + bias_slot * BN + lane % 4 * 2;
    if (a.best) {
      keep_best<S>(a, acc, h, first + row, position, tile);
      give_bias_back(bias_slot);
      continue;
    }
    unsigned found[4] = {};
    Value scores[128];  // of what was found: in local memory, so that the code below stays short
    bool some = false;  // the same in the whole warp
#pragma unroll
    for (int g = 0; g < 8; ++g) {  // 32 rows at once
      Value largest0 = S::lowest();
      Value largest1 = S::lowest();
#pragma unroll
      for (int n = g * 4; n < g * 4 + 4; ++n) {
        const int2 bias = *reinterpret_cast<const int2*>(h + n * 8);
        const Value b0 = S::bias(bias.x);
        const Value b1 = S::bias(bias.y);
        largest0 = S::sum_or_larger(acc[n * 4], b0, largest0);
        largest0 = S::sum_or_larger(acc[n * 4 + 1], b1, largest0);
        largest1 = S::sum_or_larger(acc[n * 4 + 2], b0, largest1);
        largest1 = S::sum_or_larger(acc[n * 4 + 3], b1, largest1);
      }
      if (!__any_sync(0xffffffffU, a.all || largest0 >= t0 || largest1 >= t1)) continue;
      some = true;
#pragma unroll
      for (int n = g * 4; n < g * 4 + 4; ++n) {  // 8 rows at once
        const int2 bias = *reinterpret_cast<const int2*>(h + n * 8);
        const Value s0 = acc[n * 4] + S::bias(bias.x);
        const Value s1 = acc[n * 4 + 1] + S::bias(bias.y);
        const Value s2 = acc[n * 4 + 2] + S::bias(bias.x);
        const Value s3 = acc[n * 4 + 3] + S::bias(bias.y);
        const unsigned hits =
            a.all ? 15U
                  : (s0 >= t0 ? 1U : 0U) | (s1 >= t0 ? 2U : 0U) | (s2 >= t1 ? 4U : 0U) | (s3 >= t1 ? 8U : 0U);
        if (!__any_sync(0xffffffffU, hits != 0)) continue;
        scores[n * 4] = s0;
        scores[n * 4 + 1] = s1;
        scores[n * 4 + 2] = s2;
        scores[n * 4 + 3] = s3;
        found[n / 8] |= hits << (n % 8 * 4);
      }
    }
    if (some) {
      take_found(found, [&](int i, bool hit) {
        const std::int32_t score = hit ? S::order(scores[i]) : S::no_score;
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        const std::int64_t q = first + row + i / 2 % 2 * 8;
        const auto id = static_cast<std::uint32_t>(a.stage.row(tile, column));
        if (a.all) {
          keep_in_place(a.out, a.queries, a.stage, q, position, column, id, score, S::least());
        } else {
          appender.add(hit, q, make_candidate(score, id));
        }
      });
    }
    give_bias_back(bias_slot);
  }
  appender.flush();
}

#endif

template <int W, bool half, bool pair>
__global__ void __launch_bounds__(threads, 1) filter_kernel(const __grid_constant__ Args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char raw[];
  // Swizzled tiles want 1024-byte boundaries.
  const std::uint32_t start = (shared_address(raw) + 1023U) & ~1023U;
  unsigned char* const base = raw + (start - shared_address(raw));
  const std::uint32_t q_codes = start;
  const std::uint32_t ring = q_codes + (pair ? 0U : static_cast<std::uint32_t>(a.chunks * BM * W));
  const std::uint32_t ring_h = ring + static_cast<std::uint32_t>(a.slots * slot_bytes(W, pair));
  const std::uint32_t barriers = ring_h + static_cast<std::uint32_t>(bias_slots * BN * 4);
  const std::uint32_t full = barriers;
  const std::uint32_t empty = barriers + most_slots * 8;
  const std::uint32_t query_barrier = barriers + 2 * most_slots * 8;
  const std::uint32_t bias_full = query_barrier + 8;
  const std::uint32_t bias_empty = bias_full + bias_slots * 8;
  using Value = typename Scores<half>::Value;
  auto* const thresholds = reinterpret_cast<Value*>(base + (barriers - start) + barrier_bytes);
  auto* const buffers = reinterpret_cast<WarpBuffer*>(thresholds + 2 * 64);
  if (threadIdx.x == 0) {
    for (int s = 0; s < a.slots; ++s) {
      init_barrier(full + s * 8, 1);
      init_barrier(empty + s * 8, pair ? 16 : 8);
    }
    for (int s = 0; s < bias_slots; ++s) {
      init_barrier(bias_full + s * 8, 1);
      init_barrier(bias_empty + s * 8, 8);
    }
    init_barrier(query_barrier, 1);
    // The barriers are made for the other block of a pair, and for the copy engine, too.
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if constexpr (pair) {
    meet();
  } else {
    __syncthreads();
  }
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  // Of 65,536 registers: the 128 threads of the group that copies need few, the 256 others hold 128 products
  // each.
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      produce<W, pair>(a, q_codes, ring, ring_h, full, empty, bias_full, bias_empty, query_barrier);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<W, half, pair>(a, group - 1, q_codes, ring,
                           reinterpret_cast<const std::int32_t*>(base + (ring_h - start)),
                           thresholds + (group - 1) * 64, full, empty, bias_full, bias_empty, query_barrier,
                           buffers + (group - 1) * 4);
  }
  // A block that is done may still be told that a slot is free.
  if constexpr (pair) meet();
#endif
}

std::size_t bytes_of(int chunks, int width, int slots, bool resident) {
  return 1024U + (resident ? static_cast<std::size_t>(chunks) * BM * width : 0U) +
         static_cast<std::size_t>(slots * slot_bytes(width, !resident)) + bias_slots * BN * 4U +
         barrier_bytes + 2U * 64U * 4U + 8U * sizeof(WarpBuffer);
}

// How a filter is cut: as many slots as there is room for, and pairs where queries are not resident.
struct Cut {
  bool resident = true;
  int slots = 0;
};
constexpr int least_slots = 2;

Cut cut_of(const CodeShape& shape, std::size_t shared) {
  const auto slots = [&](bool resident) {
    int n = most_slots;
    while (n > 0 && bytes_of(shape.chunks, shape.width, n, resident) > shared) --n;
    return n;
  };
  const Cut cut{true, slots(true)};
  if (cut.slots >= least_slots || shape.width != 128) return cut;
  return {false, slots(false)};
}

template <int W, bool half, bool pair>
bool launch(const CodeFilter& f, bool best, const Cut& cut, int device, cudaStream_t stream) {
  const auto kernel = filter_kernel<W, half, pair>;
  const std::size_t bytes = bytes_of(f.shape.chunks, W, cut.slots, !pair);
  allow_shared(kernel, threads, bytes, device);
  const std::int64_t query_tiles = (f.queries + BM - 1) / BM;
  const std::int64_t blocks = pair ? (query_tiles + 1) / 2 * 2 : query_tiles;
  const Args args{f.rows.codes, f.rows.bias, f.rows.largest, f.query_codes,  f.bounds,
                  f.test,       f.queries,   f.query_tile,   f.shape.chunks, f.shape.steps,
                  cut.slots,    f.all,       best,           f.stage,        f.out};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks), choose_splits(blocks, f.stage, processors(device)));
  config.blockDim = threads;
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = pair ? 1 : 0;
  KITH_CUDA(cudaLaunchKernelEx(&config, kernel, args));
  return true;
}

template <int W, bool half>
bool launch_cut(const CodeFilter& f, bool best, int device, cudaStream_t stream) {
  const Cut cut = cut_of(f.shape, static_cast<std::size_t>(shared_limit(device)));
  if (cut.slots < least_slots) return false;
  if constexpr (W == 128) {
    if (!cut.resident) return launch<W, half, true>(f, best, cut, device, stream);
  }
  return launch<W, half, false>(f, best, cut, device, stream);
}

// Compiled for this chip, not by the driver from the instructions of an older one.
bool is_native(int device) {
  if (!has_wgmma(device)) return false;
  static const bool native = [] {
    cudaFuncAttributes attributes{};
    KITH_CUDA(cudaFuncGetAttributes(&attributes, filter_kernel<128, false, false>));
    return attributes.binaryVersion == 90 && attributes.ptxVersion == 90;
  }();
  return native;
}

bool run(const CodeFilter& f, bool best, int device, cudaStream_t stream) {
  if (f.query_tile % BM != 0 || !is_native(device)) return false;
  const auto of_width = [&]<int W>(std::integral_constant<int, W> /*width*/) {
    return f.test.half ? launch_cut<W, true>(f, best, device, stream)
                       : launch_cut<W, false>(f, best, device, stream);
  };
  switch (f.shape.width) {
    case 32: return of_width(std::integral_constant<int, 32>{});
    case 64: return of_width(std::integral_constant<int, 64>{});
    default: return of_width(std::integral_constant<int, 128>{});
  }
}

}  // namespace

bool code_filter_sm90_fits(const CodeShape& shape, int device) {
  return is_native(device) &&
         cut_of(shape, static_cast<std::size_t>(shared_limit(device))).slots >= least_slots;
}

int queries_of_a_block_sm90(const CodeFilter& f, int device) {
  if (f.query_tile % BM != 0 || !is_native(device)) return 0;
  const Cut cut = cut_of(f.shape, static_cast<std::size_t>(shared_limit(device)));
  return cut.slots < least_slots ? 0 : (cut.resident ? BM : 2 * BM);
}

bool run_code_filter_sm90(const CodeFilter& f, int device, cudaStream_t stream) {
  return run(f, false, device, stream);
}

bool run_look_sm90(const CodeFilter& f, int device, cudaStream_t stream) {
  return run(f, true, device, stream);
}

}  // namespace kith::brute_force::cuda
