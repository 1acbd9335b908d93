// The filter of codes for compute capability 9.0a and many queries of short codes: what a block compares with
// stays in it.
//
// As in filter_codes_sm90.cu one thread of the first warpgroup keeps a ring of row codes filled and two
// warpgroups multiply, but the other way round: 64 rows each by the 256 queries that the block owns. A thread
// then holds products of two rows with 64 queries, whose thresholds it holds too: comparing takes nothing but
// registers, where a bias from shared memory for every product took as long as the product. And each row is
// brought half as often. A product is compared as P - T >= -b: 8 maxima say which eighth of a thread's
// products to look at.
#include <type_traits>

#include <math_constants.h>

#include "brute_force/cuda/append.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/scores.cuh"
#include "brute_force/cuda/staged.cuh"
#include "brute_force/cuda/wgmma.cuh"
#include "brute_force/cuda/wide_filter.hpp"
#include "cuda/capability.hpp"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int BQ = wide_query_tile;
constexpr int slot_rows = 128;
constexpr int group_threads = 128;
constexpr int threads = 3 * group_threads;
constexpr int most_slots = 8;
constexpr int least_slots = 3;
constexpr int barrier_bytes = 256;
static_assert((2 * most_slots + 1) * 8 <= barrier_bytes);
/// Queries from which on the tiles are worth filling.
constexpr std::int64_t least_queries = 193;

struct Args {
  const std::uint8_t* codes;
  const std::int32_t* bias;
  const float* largest;
  const std::uint8_t* query_codes;
  const QueryBound* bounds;
  CodeTest test;
  std::int64_t queries;
  std::int64_t coded_queries;  // with those that fill up the last tile of the image
  int chunks;
  int steps;
  int slots;
  Stage stage;
  Candidates out;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The tiles of a block: of every gridDim.y positions of the stage one, without a division for each.
class Walk {
 public:
  __device__ explicit Walk(const Stage& stage)
      : visits_(stage.visits.tiles == nullptr ? nullptr
                                              : stage.visits.tiles + blockIdx.x * stage.visits.room),
        left_((stage.count_of(blockIdx.x) - blockIdx.y + gridDim.y - 1) / gridDim.y) {
    if (visits_ != nullptr) {
      visits_ += blockIdx.y;
      tile_ = left_ > 0 ? *visits_ : 0;
      return;
    }
    tiles_ = static_cast<std::uint32_t>(stage.tiles);
    tile_ = static_cast<std::uint32_t>(stage.tile(blockIdx.y));
    step_ = static_cast<std::uint32_t>(static_cast<std::uint64_t>(gridDim.y) *
                                       static_cast<std::uint64_t>(stage.multiplier) %
                                       static_cast<std::uint64_t>(stage.tiles));
  }
  /// Behind the last one some tile that there is.
  __device__ std::uint32_t tile() const { return tile_; }
  __device__ bool done() const { return left_ <= 0; }
  __device__ void advance() {
    --left_;
    if (visits_ != nullptr) {
      visits_ += gridDim.y;
      if (left_ > 0) tile_ = *visits_;
      return;
    }
    tile_ += step_;
    if (tile_ >= tiles_) tile_ -= tiles_;
  }

 private:
  const std::uint32_t* visits_;
  std::int64_t left_;
  std::uint32_t tiles_ = 1, tile_ = 0, step_ = 0;
};

template <int W>
__device__ inline void produce(const Args& a, std::uint32_t q_codes, std::uint32_t ring, std::uint32_t full,
                               std::uint32_t empty, std::uint32_t query_barrier) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * BQ;
  const auto bytes = static_cast<std::uint32_t>(min(std::int64_t{BQ}, a.coded_queries - first)) * W;
  const std::uint8_t* queries = a.query_codes + first * W * a.chunks;
  expect_bytes(query_barrier, bytes * static_cast<std::uint32_t>(a.chunks));
  for (int chunk = 0; chunk < a.chunks; ++chunk) {
    copy_bulk(q_codes + chunk * BQ * W, queries + chunk * BQ * W, bytes, query_barrier);
  }
  constexpr std::uint32_t part = slot_rows * W;
  int slot = 0;
  std::uint32_t parity = 1;  // the slots are free at the start
  for (Walk walk(a.stage); !walk.done(); walk.advance()) {
    const std::uint8_t* tile =
        a.codes + static_cast<std::int64_t>(walk.tile()) * a.chunks * code_tile_rows * W;
    for (int half = 0; half < code_tile_rows / slot_rows; ++half) {
      for (int chunk = 0; chunk < a.chunks; ++chunk) {
        wait(empty + slot * 8, parity);
        expect_bytes(full + slot * 8, part);
        copy_bulk(ring + slot * part, tile + (chunk * code_tile_rows + half * slot_rows) * W, part,
                  full + slot * 8);
        if (++slot == a.slots) {
          slot = 0;
          parity ^= 1;
        }
      }
    }
  }
}

// What follows reads the products only now.
__device__ inline void hold_back(std::int32_t (&products)[128]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("" : "+r"(products[i])::"memory");
}
__device__ inline void hold_back(float (&products)[128]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(products[i])::"memory");
}

// Of 16 rows, a warp's, the one with the largest score, for each query: a first bound needs no more of a
// sample.
template <class S, class Value>
__device__ inline void keep_best(const Args& a, const Value (&products)[128], Value least0, Value least1,
                                 std::int64_t first, std::int64_t list, std::uint32_t tile, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t lists = a.stage.count * (code_tile_rows / wide_look_rows);
#pragma unroll
  for (int c = 0; c < 64; ++c) {
    const int at = c / 2 * 4 + c % 2;
    const Value score0 = S::sum(products[at], S::opposite(least0));
    const Value score1 = S::sum(products[at + 2], S::opposite(least1));
    Value best = score1 > score0 ? score1 : score0;
    int where = score1 > score0 ? row + 8 : row;
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
      const Value other = __shfl_xor_sync(0xffffffffU, best, step);
      const int there = __shfl_xor_sync(0xffffffffU, where, step);
      where = other > best || (other == best && there < where) ? there : where;
      best = other > best ? other : best;
    }
    const std::int64_t q = first + c / 2 * 8 + lane % 4 * 2 + c % 2;
    if (lane / 4 != c % 8 || q >= a.queries) continue;
    const std::int32_t score = S::order(best);
    a.out.entries[q * a.out.room + list] =
        score < S::least() ? no_candidate
                           : make_candidate(score, static_cast<std::uint32_t>(a.stage.row(tile, where)));
    if (list == 0) a.out.counts[q] = static_cast<std::uint32_t>(lists);
  }
}

template <int W, bool half, bool look>
__device__ inline void consume(const Args& a, int group, std::uint32_t q_codes, std::uint32_t ring,
                               typename Scores<half>::Value* shared_limits, std::uint32_t full,
                               std::uint32_t empty, std::uint32_t query_barrier, WarpBuffer* buffer,
                               typename Scores<half>::Value* staged) {
  using S = Scores<half>;
  using Value = typename S::Value;
  const int tid = static_cast<int>(threadIdx.x) % group_threads;
  const int warp = tid / 32;
  const int lane = tid % 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * BQ;
  {
    const std::int64_t q = first + group * group_threads + tid;
    const QueryBound bound = q < a.queries ? a.bounds[q] : QueryBound{CUDART_INF, 0, 0};
    shared_limits[group * group_threads + tid] = S::opposite(S::limit(bound, a.test, a.largest));
  }
  asm volatile("bar.sync 1, 256;" ::: "memory");
  Value limits[64];  // of queries n * 8 + lane % 4 * 2 and the next, for n = 0..31
#pragma unroll
  for (int n = 0; n < 32; ++n) {
    limits[n * 2] = shared_limits[n * 8 + lane % 4 * 2];
    limits[n * 2 + 1] = shared_limits[n * 8 + lane % 4 * 2 + 1];
  }
  Appender appender(buffer, a.out);
  Staged<S> waiting(staged + lane, shared_limits, first);
  wait(query_barrier, 0);
  constexpr std::uint32_t part = slot_rows * W;
  const std::uint64_t query_matrix = describe<W>(q_codes);
  constexpr std::uint64_t next_chunk = BQ * W / 16;  // of a descriptor's address
  int slot = 0;
  std::uint32_t parity = 0;
  Walk walk(a.stage);
  Value acc[128];
  // Biases of a thread's two rows; those of the next rows are on their way while these are compared.
  const std::int32_t* bias = a.bias + group * 64 + warp * 16 + lane / 4;
  std::int32_t next0 = __ldg(bias + static_cast<std::int64_t>(walk.tile()) * code_tile_rows);
  std::int32_t next1 = __ldg(bias + static_cast<std::int64_t>(walk.tile()) * code_tile_rows + 8);
  for (std::int64_t position = blockIdx.y; !walk.done(); position += gridDim.y) {
    const std::uint32_t tile = walk.tile();
    walk.advance();
#pragma unroll 1
    for (int at = 0; at < code_tile_rows; at += slot_rows) {
      const int row = at + group * 64 + warp * 16 + lane / 4;
      const Value least0 = S::opposite(S::bias(next0));
      const Value least1 = S::opposite(S::bias(next1));
      const bool last = at + slot_rows == code_tile_rows;
      const std::int64_t next =
          static_cast<std::int64_t>(last ? walk.tile() : tile) * code_tile_rows + (last ? 0 : at + slot_rows);
      next0 = __ldg(bias + next);
      next1 = __ldg(bias + next + 8);
      for (int chunk = 0; chunk < a.chunks; ++chunk) {
        wait(full + slot * 8, parity);
        const std::uint64_t da = describe<W>(ring + slot * part + group * 64 * W);
        const std::uint64_t db = query_matrix + static_cast<std::uint64_t>(chunk) * next_chunk;
        const int left = a.steps - chunk * (W / 32);
        // What was done with the registers of `acc` comes before the products.
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < W / 32; ++s) {
          if (s < left) multiply(acc, da + 2 * s, db + 2 * s, chunk + s > 0 ? 1 : 0);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if constexpr (!look) waiting.look_through(appender);
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        hold_back(acc);
        if (lane == 0) arrive(empty + slot * 8);
        if (++slot == a.slots) {
          slot = 0;
          parity ^= 1;
        }
      }
      if constexpr (look) {
        const std::int64_t list = (position * code_tile_rows + row - lane / 4) / wide_look_rows;
        keep_best<S>(a, acc, least0, least1, first, list, tile, row);
      } else {
        Value most[8];  // of 16 products each: every fourth of the queries, by the first row or the second
#pragma unroll
        for (int s = 0; s < 8; ++s) most[s] = S::lowest();
#pragma unroll
        for (int e = 0; e < 16; ++e) {  // of each of the eight one after the other: none waits for the last
#pragma unroll
          for (int s = 0; s < 8; ++s) {
            const int i = (s / 2 * 8 + e / 2) * 4 + s % 2 * 2 + e % 2;
            most[s] = S::sum_or_larger(acc[i], limits[i / 4 * 2 + e % 2], most[s]);
          }
        }
        unsigned kept = 0;
#pragma unroll
        for (int s = 0; s < 8; ++s) kept |= most[s] >= (s % 2 == 0 ? least0 : least1) ? 1U << s : 0U;
#pragma unroll 1
        for (unsigned warp_kept = __reduce_or_sync(0xffffffffU, kept); warp_kept != 0;) {
          const int s = __ffs(static_cast<int>(kept)) - 1;
          waiting.look_through(appender);  // of a thread with more than one
          waiting.put(acc, s, warp_kept, s % 2 == 0 ? least0 : least1,
                      static_cast<std::uint32_t>(a.stage.row(tile, s % 2 == 0 ? row : row + 8)));
          kept &= kept - 1U;
          warp_kept = __reduce_or_sync(0xffffffffU, kept);
        }
      }
    }
  }
  if constexpr (!look) {
    waiting.look_through(appender);
    appender.flush();
  }
}

#endif

template <int W, bool half, bool look>
__global__ void __launch_bounds__(threads, 1) wide_filter_kernel(const __grid_constant__ Args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char raw[];
  // Swizzled tiles want 1024-byte boundaries.
  const std::uint32_t start = (shared_address(raw) + 1023U) & ~1023U;
  unsigned char* const base = raw + (start - shared_address(raw));
  const std::uint32_t q_codes = start;
  const std::uint32_t ring = q_codes + static_cast<std::uint32_t>(a.chunks * BQ * W);
  const std::uint32_t barriers = ring + static_cast<std::uint32_t>(a.slots * slot_rows * W);
  const std::uint32_t full = barriers;
  const std::uint32_t empty = barriers + most_slots * 8;
  const std::uint32_t query_barrier = barriers + 2 * most_slots * 8;
  using Value = typename Scores<half>::Value;
  auto* const limits = reinterpret_cast<Value*>(base + (barriers - start) + barrier_bytes);
  auto* const staged = limits + BQ;
  auto* const buffers = reinterpret_cast<WarpBuffer*>(staged + 8 * 32 * staged_products);
  if (threadIdx.x == 0) {
    for (int s = 0; s < a.slots; ++s) {
      init_barrier(full + s * 8, 1);
      init_barrier(empty + s * 8, 8);
    }
    init_barrier(query_barrier, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  // Of 65,536 registers: the 128 threads of the group that copies need few, the 256 others hold 128 products
  // and 64 thresholds each.
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) produce<W>(a, q_codes, ring, full, empty, query_barrier);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int warp = static_cast<int>(threadIdx.x) / 32 - group_threads / 32;
    consume<W, half, look>(a, group - 1, q_codes, ring, limits, full, empty, query_barrier, buffers + warp,
                           staged + warp * 32 * staged_products);
  }
#endif
}

std::size_t bytes_of(const CodeShape& shape, int slots) {
  return 1024U + static_cast<std::size_t>(BQ * shape.width) * static_cast<std::size_t>(shape.chunks) +
         static_cast<std::size_t>(slot_rows * shape.width) * static_cast<std::size_t>(slots) + barrier_bytes +
         BQ * 4U + 8U * (32U * staged_products * 4U + sizeof(WarpBuffer));
}

int slots_of(const CodeShape& shape, int device) {
  int slots = most_slots;
  while (slots > 0 && bytes_of(shape, slots) > static_cast<std::size_t>(shared_limit(device))) --slots;
  return slots;
}

template <int W, bool half, bool look>
void launch(const CodeFilter& f, int device, cudaStream_t stream) {
  const auto kernel = wide_filter_kernel<W, half, look>;
  const int slots = slots_of(f.shape, device);
  const std::size_t bytes = bytes_of(f.shape, slots);
  allow_shared(kernel, threads, bytes, device);
  const std::int64_t query_tiles = (f.queries + BQ - 1) / BQ;
  const std::int64_t coded = (f.queries + f.query_tile - 1) / f.query_tile * f.query_tile;
  const Args args{f.rows.codes, f.rows.bias,    f.rows.largest, f.query_codes, f.bounds, f.test, f.queries,
                  coded,        f.shape.chunks, f.shape.steps,  slots,         f.stage,  f.out};
  const dim3 grid(static_cast<unsigned>(query_tiles),
                  choose_splits(query_tiles, f.stage, processors(device)));
  kernel<<<grid, threads, bytes, stream>>>(args);
  check_launch("wide filter of codes");
}

template <bool look>
void dispatch(const CodeFilter& f, int device, cudaStream_t stream) {
  const auto run = [&]<int W>(std::integral_constant<int, W> /*width*/) {
    f.test.half ? launch<W, true, look>(f, device, stream) : launch<W, false, look>(f, device, stream);
  };
  switch (f.shape.width) {
    case 32: run(std::integral_constant<int, 32>{}); break;
    case 64: run(std::integral_constant<int, 64>{}); break;
    default: run(std::integral_constant<int, 128>{});
  }
}

// Compiled for this chip, not by the driver from the instructions of an older one.
bool is_native(int device) {
  if (!has_wgmma(device)) return false;
  static const bool native = [] {
    cudaFuncAttributes attributes{};
    KITH_CUDA(cudaFuncGetAttributes(&attributes, wide_filter_kernel<128, false, false>));
    return attributes.binaryVersion == 90 && attributes.ptxVersion == 90;
  }();
  return native;
}

}  // namespace

bool wide_filter_pays(const CodeShape& shape, std::int64_t queries, int device) {
  return queries >= least_queries && is_native(device) && slots_of(shape, device) >= least_slots;
}

bool wide_filter_takes(const CodeFilter& f, int device) {
  // Of one chunk, tiles of any size are the same image.
  if (f.all || (f.query_tile != BQ && f.shape.chunks > 1) || f.query_tile % 128 != 0) return false;
  return f.stage.tiles < std::int64_t{1} << 31 && wide_filter_pays(f.shape, f.queries, device);
}

bool run_wide_filter(const CodeFilter& f, int device, cudaStream_t stream) {
  if (!wide_filter_takes(f, device)) return false;
  dispatch<false>(f, device, stream);
  return true;
}

void run_wide_look(const CodeFilter& f, int device, cudaStream_t stream) {
  dispatch<true>(f, device, stream);
}

}  // namespace kith::brute_force::cuda
