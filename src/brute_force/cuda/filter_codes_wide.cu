// The filter of codes for compute capability 9.0a and many queries of short codes: what a block compares with
// stays in it.
//
// As in filter_codes_sm90.cu one thread of the first warpgroup keeps a ring of row codes filled and other
// warpgroups multiply, but the other way round: 64 rows each by the 256 queries that the block owns, or by
// half of these. A thread then holds products of two rows with 32 queries at a time, whose thresholds it
// holds too: comparing takes nothing but registers, and each row is brought half as often. A product is
// compared as P - T >= -b: four maxima say which quarter of 64 products to look at.
//
// While the tensor cores work, other instructions get half of the registers' rate (an H200: 4 clocks for a
// maximum of a sum in place of 2), so what counts is how few there are. Where queries come in the order of
// their thresholds, sixteen products are compared with the least of sixteen thresholds: one three-operand
// maximum for two of them. That needs no registers for thresholds, and four warpgroups have room.
//
// What may be kept goes through queues in shared memory (kept_queue.cuh) to three warps of the first
// warpgroup: a warp that looked itself would hold up the other three that multiply with it.
//
// The compiler must see which products are waited for: it puts a wait behind each product where a branch or a
// read of the products stands between a group's beginning and its wait (C7514, C7520 in its output).
#include <type_traits>

#include <math_constants.h>

#include "brute_force/cuda/append.cuh"
#include "brute_force/cuda/kept_queue.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/runs.cuh"
#include "brute_force/cuda/scores.cuh"
#include "brute_force/cuda/wgmma.cuh"
#include "brute_force/cuda/wide_filter.hpp"
#include "brute_force/cuda/wide_rows.cuh"
#include "cuda/capability.hpp"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int least_slots = 3;
/// Queries from which on the tiles are worth filling.
constexpr std::int64_t least_queries = 193;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// By all who compare, of a group each. Whoever reads them waits at their barrier: those who compare, and
// those who look through what is kept.
template <bool half>
__device__ inline void load_limits(const Args& a, int group,
                                   const Shared<typename Scores<half>::Value>& shared) {
  using S = Scores<half>;
  const int at = group * group_threads + static_cast<int>(threadIdx.x) % group_threads;
  if (at < BQ) {
    const std::int64_t q = static_cast<std::int64_t>(blockIdx.x) * BQ + at;
    const std::int64_t name = q < a.queries && a.query_order != nullptr ? a.query_order[q] : q;
    const QueryBound bound = q < a.queries ? a.bounds[name] : QueryBound{CUDART_INF, 0, 0};
    shared.names[at] = static_cast<std::uint32_t>(name);
    shared.limits[at] = S::opposite(S::limit(bound, a.test, a.largest));
    if (at == 0) shared.limits[BQ] = S::lowest();
  }
  arrive(shared.limit_barrier);
  wait(shared.limit_barrier, 0);
}

// What follows reads the products only now.
__device__ inline void hold_back(std::int32_t (&products)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+r"(products[i])::"memory");
}
__device__ inline void hold_back(float (&products)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(products[i])::"memory");
}

// Of 16 rows, a warp's, the one with the largest score, for each query. The eight threads that hold products
// with the same queries halve what they have three times, each giving the other what that one goes on with.
template <class S, class Value>
__device__ inline void keep_best(const Args& a, const Value (&products)[64], Value least0, Value least1,
                                 std::int64_t first, std::int64_t run, std::uint32_t tile, int first_row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int place = place_in_run(lane / 4);
  std::int32_t best[32];
#pragma unroll
  for (int c = 0; c < 32; ++c) {
    const int at = c / 2 * 4 + c % 2;
    best[c] = max(S::with_place(S::sum(products[at], S::opposite(least0)), place),
                  S::with_place(S::sum(products[at + 2], S::opposite(least1)), place - 8));
  }
  halve<16>(best, 16);
  halve<8>(best, 8);
  halve<4>(best, 4);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t q = first + (lane / 4 * 4 + i) / 2 * 8 + lane % 4 * 2 + i % 2;
    if (q < a.queries) put_run<S>(a.out, a.stage, q, run, tile, first_row, best[i]);
  }
}

__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Half of the queries, from `column` on. `limits`, from `first_limit` on: minus their thresholds; of a set
// the largest.
template <class S, Look look, int first_limit, class Value, int limit_count>
__device__ inline void compare(const Args& a, const Value (&acc)[64], const Value (&limits)[limit_count],
                               const Rows<S>& rows, std::uint32_t column, std::int64_t position,
                               const Value* lowest, QueueIn<Value>& found) {
  const Value least0 = rows.least0();
  const Value least1 = rows.least1();
  if constexpr (look == Look::best) {
    const auto row = static_cast<int>(rows.first % code_tile_rows - threadIdx.x % 32 / 4);
    const std::int64_t run = (position * code_tile_rows + row) / look_rows;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * BQ + column;
    keep_best<S>(a, acc, least0, least1, first, run, rows.first / code_tile_rows, row);
  } else {
    Value most[4];  // of 16 products each: every fourth of the queries, by the first row or the second
    // Where it is read from memory, that is where this stands in the code, and so the comparisons are not
    // moved before the products that the tensor cores were given just now, which they do not need to wait
    // for.
    most[0] = lowest == nullptr ? S::lowest() : *static_cast<const volatile Value*>(lowest);
    most[1] = most[2] = most[3] = most[0];
#pragma unroll
    for (int e = 0; e < 16; e += 2) {  // of each of the four one after the other: none waits for the last
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const int i = (s / 2 * 8 + e / 2) * 4 + s % 2 * 2;
        if constexpr (look == Look::sets) {
          const Value larger = S::larger(acc[i], acc[i + 1]);
          most[s] = e == 0 && lowest == nullptr ? larger : S::larger(larger, most[s]);
        } else {
          most[s] = S::sum_or_larger(acc[i], limits[first_limit + i / 4 * 2], most[s]);
          most[s] = S::sum_or_larger(acc[i + 1], limits[first_limit + i / 4 * 2 + 1], most[s]);
        }
      }
    }
    if constexpr (look == Look::sets) {
#pragma unroll
      for (int s = 0; s < 4; ++s) most[s] = S::sum(most[s], limits[first_limit + s / 2]);
    }
    const bool some = S::larger(most[0], most[2]) >= least0 || S::larger(most[1], most[3]) >= least1;
    if (!__any_sync(0xffffffffU, some)) return;
    found.put(acc, most, least0, least1, rows.first, column);
  }
}

// The limits of queries n * 8 + lane % 4 * 2 and the next, for n from `first` to first + count - 1, or of
// sets of 16 of these.
template <class S, Look look, int count, class Value, int limit_count>
__device__ inline void take_limits(const Value* shared_limits, int first, Value (&limits)[limit_count]) {
#pragma unroll
  for (int n = 0; n < count; ++n) {
    const Value* both = shared_limits + (first + n) * 8 + threadIdx.x % 4 * 2;
    if constexpr (look == Look::sets) {
      const Value larger = S::larger(both[0], both[1]);
      limits[n / 8] = n % 8 == 0 ? larger : S::larger(larger, limits[n / 8]);
    } else {
      limits[n * 2] = both[0];
      limits[n * 2 + 1] = both[1];
    }
  }
}

// Two groups of warps, 64 rows each: where codes are of several chunks, or thresholds take many registers.
template <int W, int steps, bool half, Look look>
__device__ inline void consume(const Args& a, int group, const Shared<typename Scores<half>::Value>& shared,
                               KeptQueue<typename Scores<half>::Value>* queue) {
  using S = Scores<half>;
  using Value = typename S::Value;
  const int tid = static_cast<int>(threadIdx.x) % group_threads;
  const int lane = tid % 32;
  load_limits<half>(a, group, shared);
  constexpr int of_half = look == Look::sets ? 2 : 32;
  Value limits[2 * of_half];
  take_limits<S, look, 32>(shared.limits, 0, limits);
  const Value* const lowest = shared.limits + BQ;
  QueueIn<Value> found(queue);
  wait(shared.query_barrier, 0);
  const std::uint64_t first_half = describe<W>(shared.q_codes);
  const std::uint64_t second_half = describe<W>(shared.q_codes + BQ / 2 * W);
  Ring<W> ring(shared.ring + group * 64 * W, shared.full, shared.empty, a.slots);
  RowWalk<S, look> walk(a, static_cast<std::uint32_t>(group * 64 + tid / 32 * 16 + lane / 4));
  Value acc0[64];
  Value acc1[64];
  if constexpr (steps > 0) {
    // While one half of the products is compared, the tensor cores are at the other.
    bool more = walk.more();
    if (more) {
      ring.wait_for_it();
      multiply_steps<steps>(acc0, ring.rows(), first_half, 0);
      wait_for_products();
      hold_back(acc0);
    }
    while (more) {
      multiply_steps<steps>(acc1, ring.rows(), second_half, 0);
      const std::uint32_t done = ring.emptied();
      const Rows<S> rows = walk.rows();
      const std::int64_t position = walk.position();
      more = walk.others();
      if (more) {
        ring.advance();
        ring.wait_for_it();
      }  // else products that nobody looks at
      compare<S, look, 0>(a, acc0, limits, rows, 0, position, lowest, found);
      wait_for_products();
      hold_back(acc1);
      if (lane == 0) arrive(done);
      multiply_steps<steps>(acc0, ring.rows(), first_half, 0);
      walk.advance();
      compare<S, look, of_half>(a, acc1, limits, rows, BQ / 2, position, lowest, found);
      wait_for_products();
      hold_back(acc0);
    }
  } else {
    while (walk.more()) {
      for (int chunk = 0; chunk < a.chunks; ++chunk) {
        ring.wait_for_it();
        const std::uint64_t queries = static_cast<std::uint64_t>(chunk) * (BQ * W / 16);
        const int left = a.steps - chunk * (W / 32);
        multiply_chunk<W / 32>(left, acc0, ring.rows(), first_half + queries, chunk > 0 ? 1 : 0);
        multiply_chunk<W / 32>(left, acc1, ring.rows(), second_half + queries, chunk > 0 ? 1 : 0);
        wait_for_products();
        hold_back(acc0);
        hold_back(acc1);
        if (lane == 0) arrive(ring.emptied());
        ring.advance();
      }
      const Rows<S> rows = walk.rows();
      const std::int64_t position = walk.position();
      walk.advance();
      compare<S, look, 0>(a, acc0, limits, rows, 0, position, lowest, found);
      compare<S, look, of_half>(a, acc1, limits, rows, BQ / 2, position, lowest, found);
    }
  }
  if constexpr (look != Look::best) found.close();
}

// Four groups, each with 64 rows and half of the queries.
template <int W, int steps, bool half>
__device__ inline void consume_half(const Args& a, int group,
                                    const Shared<typename Scores<half>::Value>& shared,
                                    KeptQueue<typename Scores<half>::Value>* queue) {
  using S = Scores<half>;
  using Value = typename S::Value;
  const int tid = static_cast<int>(threadIdx.x) % group_threads;
  const int lane = tid % 32;
  load_limits<half>(a, group, shared);
  const int column = group % 2 * (BQ / 2);
  Value limits[2];
  take_limits<S, Look::sets, 16>(shared.limits, column / 8, limits);
  QueueIn<Value> found(queue);
  wait(shared.query_barrier, 0);
  const std::uint32_t queries = lower_half<W>(shared.q_codes + column * W);
  Ring<W> ring(shared.ring + group / 2 * 64 * W, shared.full, shared.empty, a.slots);
  const std::uint32_t row = static_cast<std::uint32_t>(group / 2 * 64 + tid / 32 * 16 + lane / 4);
  const std::int32_t* const biases = shared.biases + row;
  Value acc[64];
  std::int32_t left = 2 * Walk<false>(a.stage).left();
  if (left > 0) ring.wait_for_it();
  for (; left > 0; --left) {
    multiply_steps<steps>(acc, ring.rows(), descriptor<W>(queries), 0);
    // While the tensor cores are at it: what comes next.
    const std::uint32_t done = ring.emptied();
    const std::uint32_t slot = ring.slot();
    if (left > 1) {
      ring.advance();
      ring.wait_for_it();
    }
    wait_for_products();
    hold_back(acc);
    const std::int32_t* its = biases + slot * slot_rows;
    compare<S, Look::sets, 0>(a, acc, limits, Rows<S>{shared.rows[slot] + row, its[0], its[8]},
                              static_cast<std::uint32_t>(column), 0, static_cast<const Value*>(nullptr),
                              found);
    __syncwarp();
    if (lane == 0) arrive(done);
  }
  found.close();
}

#endif

template <int W, int steps, bool half, Look look>
__global__ void __launch_bounds__((1 + groups_of<steps, look>)*group_threads, 1)
    wide_filter_kernel(const __grid_constant__ Args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char raw[];
  constexpr int groups = groups_of<steps, look>;
  constexpr int comparers = groups * group_threads / 32;
  // Swizzled tiles want 1024-byte boundaries.
  const std::uint32_t start = (shared_address(raw) + 1023U) & ~1023U;
  unsigned char* const base = raw + (start - shared_address(raw));
  const std::uint32_t ring = start + static_cast<std::uint32_t>(a.chunks * BQ * W);
  const std::uint32_t barriers = ring + static_cast<std::uint32_t>(a.slots * slot_rows * W);
  using Value = typename Scores<half>::Value;
  auto* const biases = reinterpret_cast<std::int32_t*>(base + (barriers - start) + barrier_bytes);
  auto* const rows = reinterpret_cast<std::uint32_t*>(biases + most_slots * slot_rows);
  auto* const limits = reinterpret_cast<Value*>(rows + most_slots);
  const Shared<Value> shared{start,
                             ring,
                             barriers,
                             barriers + most_slots * 8,
                             barriers + 2 * most_slots * 8,
                             barriers + (2 * most_slots + 1) * 8,
                             biases,
                             rows,
                             limits,
                             reinterpret_cast<std::uint32_t*>(limits + BQ + 2)};
  auto* const queues = reinterpret_cast<KeptQueue<Value>*>(shared.names + BQ);
  auto* const buffers = reinterpret_cast<WarpBuffer*>(queues + comparers);
  if (threadIdx.x == 0) {
    for (int s = 0; s < a.slots; ++s) {
      init_barrier(shared.full + s * 8, 1);
      init_barrier(shared.empty + s * 8, comparers);
    }
    init_barrier(shared.query_barrier, 1);
    init_barrier(shared.limit_barrier, groups * group_threads);
    if constexpr (look != Look::best) {
      for (int w = 0; w < comparers; ++w) init_queue(queues[w]);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // Of 65,536 registers: the 128 threads of the group that copies and looks through what is kept need few,
  // the others hold 128 products and 64 thresholds each, or 64 products.
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (threadIdx.x == 0) produce<W, groups == 4>(a, shared);
    if constexpr (look != Look::best) {
      if (warp > 0) {
        Appender appender(buffers + warp - 1, a.out);
        wait(shared.limit_barrier, 0);
        look_through<Scores<half>>(queues, warp - 1, lookers, comparers, limits, shared.names, a.stage,
                                   appender);
        appender.flush();
      }
    }
  } else if constexpr (groups == 4) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 104;");
    consume_half<W, steps, half>(a, group - 1, shared, queues + warp - group_threads / 32);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    consume<W, steps, half, look>(a, group - 1, shared, queues + warp - group_threads / 32);
  }
#endif
}

std::size_t bytes_of(const CodeShape& shape, int slots, int groups) {
  const auto comparers = static_cast<std::size_t>(groups * group_threads / 32);
  return 1024U + static_cast<std::size_t>(BQ * shape.width) * static_cast<std::size_t>(shape.chunks) +
         static_cast<std::size_t>(slot_rows * shape.width) * static_cast<std::size_t>(slots) + barrier_bytes +
         static_cast<std::size_t>(most_slots * (slot_rows + 1)) * 4U + (2 * BQ + 2) * 4U +
         comparers * sizeof(KeptQueue<std::int32_t>) + lookers * sizeof(WarpBuffer);
}

int slots_of(const CodeShape& shape, int device, int groups) {
  int slots = most_slots;
  while (slots > 0 && bytes_of(shape, slots, groups) > static_cast<std::size_t>(shared_limit(device)))
    --slots;
  return slots;
}

template <int W, int steps, bool half, Look look>
void launch(const CodeFilter& f, int device, cudaStream_t stream) {
  const auto kernel = wide_filter_kernel<W, steps, half, look>;
  constexpr int groups = groups_of<steps, look>;
  constexpr int threads = (1 + groups) * group_threads;
  const int slots = slots_of(f.shape, device, groups);
  const std::size_t bytes = bytes_of(f.shape, slots, groups);
  allow_shared(kernel, threads, bytes, device);
  const std::int64_t query_tiles = (f.queries + BQ - 1) / BQ;
  const std::int64_t coded = (f.queries + f.query_tile - 1) / f.query_tile * f.query_tile;
  const Args args{f.rows.codes, f.rows.bias, f.rows.largest, f.query_codes, f.bounds, f.query_order, f.test,
                  f.queries,    coded,       f.shape.chunks, f.shape.steps, slots,    f.stage,       f.out};
  const dim3 grid(static_cast<unsigned>(query_tiles),
                  choose_splits(query_tiles, f.stage, processors(device)));
  kernel<<<grid, threads, bytes, stream>>>(args);
  check_launch("wide filter of codes");
}

template <Look look>
void dispatch(const CodeFilter& f, int device, cudaStream_t stream) {
  const auto run = [&]<int W, int steps>() {
    f.test.half ? launch<W, steps, true, look>(f, device, stream)
                : launch<W, steps, false, look>(f, device, stream);
  };
  if (f.shape.width == 32) return run.template operator()<32, 1>();
  if (f.shape.width == 64) return run.template operator()<64, 2>();
  if (f.shape.chunks > 1) return run.template operator()<128, 0>();
  return f.shape.steps == 3 ? run.template operator()<128, 3>() : run.template operator()<128, 4>();
}

// Compiled for this chip, not by the driver from the instructions of an older one.
bool is_native(int device) {
  if (!has_wgmma(device)) return false;
  static const bool native = [] {
    cudaFuncAttributes attributes{};
    KITH_CUDA(cudaFuncGetAttributes(&attributes, wide_filter_kernel<128, 4, false, Look::each>));
    return attributes.binaryVersion == 90 && attributes.ptxVersion == 90;
  }();
  return native;
}

}  // namespace

bool wide_filter_pays(const CodeShape& shape, std::int64_t queries, int device) {
  return queries >= least_queries && is_native(device) &&
         slots_of(shape, device, shape.chunks > 1 ? 2 : 4) >= least_slots;
}

bool wide_filter_takes(const CodeFilter& f, int device) {
  // Of one chunk, tiles of any size are the same image.
  if (f.all || (f.query_tile != BQ && f.shape.chunks > 1) || f.query_tile % 128 != 0) return false;
  return f.stage.tiles < std::int64_t{1} << 31 && wide_filter_pays(f.shape, f.queries, device);
}

bool run_wide_filter(const CodeFilter& f, int device, cudaStream_t stream) {
  if (!wide_filter_takes(f, device)) return false;
  f.query_order != nullptr ? dispatch<Look::sets>(f, device, stream)
                           : dispatch<Look::each>(f, device, stream);
  return true;
}

bool run_wide_look(const CodeFilter& f, int device, cudaStream_t stream) {
  if (!wide_filter_takes(f, device)) return false;
  dispatch<Look::best>(f, device, stream);
  return true;
}

}  // namespace kith::brute_force::cuda
