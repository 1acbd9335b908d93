// Re-ranking lists of few queries, what one look at every pair leaves (one_pass.cu): a block a query, and
// nothing beside it that would hide how long anything takes. So whatever comes from memory is asked for at
// once: the lists, the query, whole rows. A list that may have more to say is looked through by its parts,
// which know their nearest rows, too.
#include <type_traits>

#include <math_constants.h>

#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/one_pass.cuh"
#include "select_k/cuda/warp.cuh"

namespace kith::brute_force::cuda {
namespace {

using select_k::cuda::merge_warp;

static_assert(tuning::largest_one_pass_k <= 32);  // a key a thread of a warp

// Threads of a block: it is alone, and the more of it waits for memory at once the better.
constexpr int lone_threads = 512;
constexpr int lone_groups = lone_threads / canonical_lanes;

// Lists that may be looked into for a query, and parts of these whose rows may be gone through.
constexpr int most_opened = 1024;
constexpr int most_parts = 256;
// Bytes of rows that a group of threads brings to shared memory at once, and of a query.
constexpr int most_staged = 1536;
constexpr int least_staged = 384;
constexpr int most_query_bytes = 16384;
constexpr int apart = 32;       // between groups, so that they read from different banks
constexpr int most_keys = 512;  // the list and what is offered to it

// What a query's rows are evaluated with, in shared memory.
template <class R>
struct Table {
  const unsigned char* data;
  std::int64_t stride;  // bytes
  int row_bytes;
  int group_bytes;  // brought at once; 0: rows are read from where they are
  unsigned char* rows;
  const double* query;
  double query_norm;
  std::uint64_t* entries;
  std::uint16_t* picks;
  Key<R>* keys;  // the list, ascending, and behind it what is offered
  int k;
  int filled;
};

// What is offered, into the list: a key a thread of one warp.
template <class R>
__device__ void merge_offered(Table<R>& table) {
  __syncthreads();
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    const int total = table.filled;
    Key<R> list = lane < table.k ? table.keys[lane] : Key<R>::none();
    for (int from = table.k; from < total; from += 32)
      list = merge_warp(list, from + lane < total ? table.keys[from + lane] : Key<R>::none());
    __syncwarp();
    if (lane < table.k) table.keys[lane] = list;
    if (lane == 0) table.filled = table.k;
  }
  __syncthreads();
}

// The first `count` picks, places of entries, into the list: by groups of eight threads. Once in the code.
template <class T, Metric metric, class R>
__device__ __noinline__ void evaluate_picks(Table<R>& table, int count) {
  const int group = static_cast<int>(threadIdx.x) / canonical_lanes;
  const int lane = static_cast<int>(threadIdx.x) % canonical_lanes;
  const int row_bytes = table.row_bytes;
  const bool staged = table.group_bytes > 0;
  const int piece = staged ? min(row_bytes, table.group_bytes) : row_bytes;
  const int at_once = staged ? table.group_bytes / piece : 1;
  unsigned char* const mine = table.rows + group * (table.group_bytes + apart);
  const auto row_of_pick = [&](int c) { return static_cast<std::uint32_t>(table.entries[table.picks[c]]); };
  for (int start = 0; start < count;) {
    const int end = min(count, start + most_keys - table.k);
    // The same number of rounds for all threads of a warp: they exchange lanes.
    for (int base = start; base < end; base += lone_groups * at_once) {
      double sum = 0;
      double norm = 0;
      for (int from = 0; from < row_bytes; from += piece) {
        const int bytes = min(piece, row_bytes - from);
        if (staged) {
#pragma unroll 1
          for (int j = 0, c = base + group; j < at_once && c < end; ++j, c += lone_groups) {
            const unsigned char* its = table.data + row_of_pick(c) * table.stride + from;
#pragma unroll 4
            for (int at = lane * 16; at < bytes; at += canonical_lanes * 16)
              copy_async(shared_address(mine + j * piece + at), its + at);
          }
          commit_copies();
          wait_copies<0>();
          __syncwarp();
        }
#pragma unroll 1
        for (int j = 0; j < at_once && base + j * lone_groups < end; ++j) {
          const int c = base + j * lone_groups + group;
          const bool active = c < end;
          const std::uint32_t row = active ? row_of_pick(c) : 0;
          if (at_once > 1) sum = norm = 0;
          if (active) {
            const unsigned char* values = staged ? mine + j * piece : table.data + row * table.stride;
            canonical_part<T, metric>(sum, norm, reinterpret_cast<const T*>(values),
                                      table.query + from / static_cast<int>(sizeof(T)),
                                      bytes / static_cast<int>(sizeof(T)));
          }
          if (from + bytes < row_bytes) continue;
          const auto distance = static_cast<R>(canonical_whole<metric>(sum, norm, table.query_norm));
          if (!active || lane != 0 || isnan(distance)) continue;
          const Key<R> key = Key<R>::make(distance, row);
          if (key < table.keys[table.k - 1]) table.keys[atomicAdd(&table.filled, 1)] = key;
        }
        __syncwarp();
      }
    }
    merge_offered(table);
    start = end;
  }
}

// The order above which no row can be nearer than the list's last. Once in the code.
template <class R>
__device__ __noinline__ unsigned cut_at(const Batch<R>& batch, const QueryScalars& scalars,
                                        const Key<R>& last) {
  const R distance = last.is_none() ? static_cast<R>(CUDART_INF) : last.distance();
  return order_cut(make_bound(distance, batch.space, scalars, batch.maxima), batch.space, batch.maxima);
}

template <class T, Metric metric, class R>
__global__ void __launch_bounds__(lone_threads)
    rerank_few_kernel(const __grid_constant__ Batch<R> batch, const __grid_constant__ Lists lists,
                      const __grid_constant__ Answer<R> answer, int chunk, int query_bytes, int group_bytes) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Histogram histogram;
  __shared__ Table<R> table;
  __shared__ unsigned cut;
  __shared__ int opened;
  __shared__ int part_count;
  __shared__ std::uint32_t open[most_opened];
  __shared__ std::uint32_t parts[most_parts];
  auto* keys = reinterpret_cast<Key<R>*>(shared);
  auto* query = reinterpret_cast<double*>(keys + most_keys);
  unsigned char* const rows = reinterpret_cast<unsigned char*>(query) + query_bytes;
  auto* entries = reinterpret_cast<std::uint64_t*>(rows + lone_groups * (group_bytes + apart));
  auto* seconds = reinterpret_cast<std::uint32_t*>(entries + chunk);
  auto* picks = reinterpret_cast<std::uint16_t*>(seconds + chunk);
  const std::int64_t q = blockIdx.x;
  const int tid = static_cast<int>(threadIdx.x);
  const int k = static_cast<int>(batch.k);
  const auto all = static_cast<int>(lists.shape.lists);
  const auto group = static_cast<std::uint32_t>(lists.shape.group);
  const std::uint64_t* const firsts = lists.first + q * all;
  const std::uint64_t* const part_firsts = lists.part_first + q * all * group;
  const std::uint32_t* const part_seconds = lists.part_second + q * all * group;
  if (tid < k) keys[tid] = Key<R>::none();
  if (tid == 0) {
    opened = part_count = 0;
    table.data = static_cast<const unsigned char*>(batch.data);
    table.stride = batch.stride * static_cast<std::int64_t>(sizeof(T));
    table.row_bytes = static_cast<int>(batch.space.dim * static_cast<std::int64_t>(sizeof(T)));
    table.group_bytes = group_bytes;
    table.rows = rows;
    table.query = query;
    table.entries = entries;
    table.picks = picks;
    table.keys = keys;
    table.k = table.filled = k;
  }
  unsigned long long evaluated = 0;
  // The rows that `take` names for 0 to n - 1, if these are not negative.
  const auto evaluate_those = [&](int n, const auto& take) {
    if (tid == 0) histogram.picked = 0;
    __syncthreads();
#pragma unroll 1
    for (int i = tid; i < n; i += lone_threads) {
      const std::int64_t row = take(i);
      if (row < 0) continue;
      const int at = atomicAdd(&histogram.picked, 1);
      entries[at] = static_cast<std::uint64_t>(row);
      picks[at] = static_cast<std::uint16_t>(at);
    }
    __syncthreads();
    const int picked = histogram.picked;
    evaluate_picks<T, metric>(table, picked);
    evaluated += static_cast<unsigned long long>(picked);
    __syncthreads();
  };

  // The scan lets this kernel start only when the queries are encoded. So rows that are in no list are
  // evaluated while it is at work. What is read before its end comes from the second-level cache, where all
  // that encoding has written is.
  const double* values = batch.queries + q * batch.padded;
  if (query_bytes > 0) {
    for (int at = tid * 2; at < batch.padded; at += lone_threads * 2)
      copy_async(shared_address(query + at), values + at);
  } else if (tid == 0) {
    table.query = values;
  }
  commit_copies();
  const QueryScalars& scalars = batch.scalars[q];
  const auto kind = static_cast<codes::RowKind>(
      __ldcg(reinterpret_cast<const std::underlying_type_t<codes::RowKind>*>(&scalars.kind)));
  if (tid == 0) table.query_norm = __ldcg(&scalars.canonical);
  wait_copies<0>();
  if (query_bytes == 0) wait_for_previous();  // its values are read wherever they are needed
  if (kind == codes::RowKind::regular) {
    for (std::int64_t done = 0; done < lists.special_rows; done += chunk) {
      const auto n = static_cast<int>(min(lists.special_rows - done, std::int64_t{chunk}));
      evaluate_those(n, [&](int i) { return static_cast<std::int64_t>(lists.special[done + i]); });
    }
  }

  wait_for_previous();
#pragma unroll 8
  for (int l = tid; l < all; l += lone_threads) {
    entries[l] = firsts[l];
    seconds[l] = lists.second[q * all + l];
  }
  __syncthreads();

  if (kind == codes::RowKind::regular) {
    // The nearest by their estimates, which give a bound, and then what it does not rule out.
    const int wanted = wanted_of(k);
    unsigned first = 0xffffffffU;
    if (all > wanted + wanted / 4 + lone_groups / 2) first = order_of_first(entries, all, wanted, histogram);
    for (int part = 0; part < 2; ++part) {
      if (tid == 0) {
        histogram.picked = 0;
        if (part == 1) cut = cut_at(batch, scalars, keys[k - 1]);
      }
      __syncthreads();
#pragma unroll 4
      for (int l = tid; l < all; l += lone_threads) {
        const auto order = static_cast<unsigned>(entries[l] >> 32U);
        const bool take = part == 0 ? order <= first : order > first && order <= cut;
        if (take && entries[l] != no_candidate)
          picks[atomicAdd(&histogram.picked, 1)] = static_cast<std::uint16_t>(l);
      }
      __syncthreads();
      const int picked = histogram.picked;
      evaluate_picks<T, metric>(table, picked);
      evaluated += static_cast<unsigned long long>(picked);
      __syncthreads();
      if (first == 0xffffffffU) break;
    }

    if (tid == 0) cut = cut_at(batch, scalars, keys[k - 1]);
    __syncthreads();
    for (int l = tid; l < all; l += lone_threads) {
      if (seconds[l] > cut) continue;
      const int at = atomicAdd(&opened, 1);
      if (at < most_opened) open[at] = static_cast<std::uint32_t>(l);
    }
    __syncthreads();
    // The nearest of each part of these lists; the list's own is evaluated.
    const int of_lists = min(opened, most_opened) * static_cast<int>(group);
    for (int done = 0; done < of_lists; done += chunk) {
      evaluate_those(min(of_lists - done, chunk), [&](int i) -> std::int64_t {
        const auto at = static_cast<std::uint32_t>(done + i);
        const std::uint32_t l = open[at / group];
        const std::uint32_t part = l * group + at % group;
        const std::uint64_t entry = part_firsts[part];
        const std::uint32_t known = static_cast<std::uint32_t>(firsts[l]);
        if (part_seconds[part] <= cut) {
          const int to = atomicAdd(&part_count, 1);
          if (to < most_parts) parts[to] = part;
        }
        const bool within = entry != no_candidate && static_cast<unsigned>(entry >> 32U) <= cut;
        const auto row = static_cast<std::uint32_t>(entry);
        return within && row != known ? static_cast<std::int64_t>(row) : -1;
      });
    }
    // All rows of those parts that have more, by their scores; a part's nearest is evaluated.
    const std::int64_t length = lists.shape.length / group;
    const std::int64_t of_parts = min(part_count, most_parts) * length;
    for (std::int64_t done = 0; done < of_parts; done += chunk) {
      evaluate_those(static_cast<int>(min(of_parts - done, std::int64_t{chunk})), [&](int i) -> std::int64_t {
        const std::uint32_t part = parts[(done + i) / length];
        const std::int64_t row = lists.shape.row(part / group, part % group + (done + i) % length * group);
        const std::uint64_t known = part_firsts[part];
        if (row < 0 || (known != no_candidate && static_cast<std::uint32_t>(known) == row)) return -1;
        return order_of(score_of(lists, batch.space.shape, q, row)) <= cut ? row : -1;
      });
    }
  }
  if (tid < k) write_answer(answer, q * k + tid, keys[tid]);
  __syncthreads();
  // What this way of searching cannot answer.
  const bool unanswered = kind == codes::RowKind::special || opened > most_opened || part_count > most_parts;
  if (tid == 0) count_in(answer, evaluated, unanswered ? 1 : 0);
}

// Whether rows can be brought to shared memory, 16 bytes at a time.
template <class T, class R>
bool can_be_staged(const Batch<R>& batch) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  return reinterpret_cast<std::uintptr_t>(batch.data) % 16 == 0 && batch.stride * size % 16 == 0 &&
         batch.space.dim * size % 16 == 0;
}

template <class T, Metric metric, class R>
void launch_few(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int device,
                cudaStream_t stream) {
  const auto chunk = static_cast<int>((lists.shape.lists + 255) / 256 * 256);
  const auto limit = static_cast<std::size_t>(shared_limit(device));
  const std::int64_t query = batch.padded * static_cast<std::int64_t>(sizeof(double));
  const int query_bytes = query <= most_query_bytes ? static_cast<int>(query) : 0;
  constexpr std::size_t fixed = sizeof(Histogram) + sizeof(Table<R>) + (most_opened + most_parts + 8) * 4;
  std::size_t bytes = most_keys * sizeof(Key<R>) + static_cast<std::size_t>(query_bytes) +
                      lone_groups * apart + static_cast<std::size_t>(chunk) * 14;
  int group_bytes = can_be_staged<T>(batch) ? most_staged : 0;
  while (group_bytes > 0 && bytes + static_cast<std::size_t>(lone_groups * group_bytes) + fixed > limit)
    group_bytes = group_bytes > least_staged ? group_bytes / 2 : 0;
  bytes += static_cast<std::size_t>(lone_groups * group_bytes);
  const auto kernel = rerank_few_kernel<T, metric, R>;
  allow_shared(kernel, lone_threads, bytes, device);
  launch_early(kernel, dim3(static_cast<unsigned>(batch.count)), lone_threads, bytes, device, stream, batch,
               lists, answer, chunk, query_bytes, group_bytes);
}

}  // namespace

template <class R>
void rerank_few(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int device,
                cudaStream_t stream) {
  if (batch.count <= 0) return;
  visit_rows(batch, [&]<class T, Metric metric>() {
    launch_few<T, metric, R>(batch, lists, answer, device, stream);
  });
}

template void rerank_few<float>(const Batch<float>&, const Lists&, const Answer<float>&, int, cudaStream_t);
template void rerank_few<double>(const Batch<double>&, const Lists&, const Answer<double>&, int,
                                 cudaStream_t);

}  // namespace kith::brute_force::cuda
