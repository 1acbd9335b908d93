// The kernels of BANG, for bang_walks.cu alone. Of nearly every one a block belongs to a query, whose part of
// each array it alone reads and writes; a step of all walks is one launch of each.
#pragma once

#include "bang_parts.hpp"
#include "gpu.cuh"

namespace kith::ladder::bang {

/// The walks of a batch of queries: [queries, ...] each. Kernels run one after the other on one stream.
struct Walks {
  int list_size;
  int degree;
  Key* list;             ///< [.., list_size] worklists, ascending
  int* size;             ///< entries of a worklist
  std::uint32_t* fresh;  ///< [.., degree] neighbours of the row just expanded that the filter has not met
  Key* key;              ///< [.., degree] theirs
  int* count;            ///< how many
  std::uint32_t* next;   ///< the row to expand next; no_row: the walk has ended
  std::uint32_t* bloom;  ///< [.., bloom_words]; null: no filter
};

/// Threads that share the distance of a row.
constexpr int threads_a_row = 8;

__device__ inline std::int64_t block_query() {
  return blockIdx.x;
}

// --- distances

/// By product quantization: entries of the query's table, one a byte of the row's code. A thread takes every
/// eighth.
struct PqDistance {
  const float* table;  ///< [.., subspaces, 256]
  const std::uint8_t* code;
  int subspaces;
  __device__ float share(std::int64_t q, std::uint32_t row, int lane) const {
    const float* entries = table + q * subspaces * 256;
    const std::uint8_t* bytes = code + static_cast<std::int64_t>(row) * subspaces;
    float sum = 0;
    for (int j = lane; j < subspaces; j += threads_a_row) sum += entries[j * 256 + bytes[j]];
    return sum;
  }
};

/// Of the full rows, floats or bytes; exact on whole numbers.
template <class T>
struct FullDistance {
  const float* query;
  const T* point;
  int dim;
  __device__ float share(std::int64_t q, std::int64_t row, int lane) const {
    const float* mine = query + q * dim;
    const T* its = point + row * dim;
    float sum = 0;
    for (int c = lane; c < dim; c += threads_a_row) {
      sum = add_square(sum, mine[c] - static_cast<float>(its[c]));
    }
    return sum;
  }
};

/// The sum of eight lanes' shares, in every one of them. All threads of the warp call it.
__device__ inline float sum_by_shuffles(float share) {
#pragma unroll
  for (int step = threads_a_row / 2; step > 0; step /= 2) share += __shfl_xor_sync(~0U, share, step);
  return share;
}

/// The same by eight additions to one place in shared memory, which the hardware does one after the other, in
/// any order. `sum` belongs to these eight lanes.
__device__ inline float sum_by_atomics(float share, float* sum) {
  if (threadIdx.x % threads_a_row == 0) *sum = 0;
  __syncwarp();
  atomicAdd(sum, share);
  __syncwarp();
  const float all = *sum;
  __syncwarp();  // before the next row's 0
  return all;
}

/// The table of a query: from each of its parts to each of 256 centroids. A thread has a centroid of every
/// part; the threads of a warp read 32 centroids' values side by side.
__global__ void fill_tables(const float* query, int dim, const float* mean, const float* centroid,
                            const int* starts, int subspaces, float* table) {
  const float* mine = query + block_query() * dim;
  float* entries = table + block_query() * subspaces * 256;
  for (int c = static_cast<int>(threadIdx.x); c < 256; c += static_cast<int>(blockDim.x)) {
    for (int part = 0; part < subspaces; ++part) {
      float sum = 0;
      for (int d = starts[part]; d < starts[part + 1]; ++d) {
        sum = add_square(sum, mine[d] - mean[d] - centroid[static_cast<std::int64_t>(d) * 256 + c]);
      }
      entries[part * 256 + c] = sum;
    }
  }
}

// --- the Bloom filter

__device__ inline void meet(std::uint32_t* words, std::uint32_t row) {
  const std::uint32_t first = first_bit(row);
  const std::uint32_t second = second_bit(row);
  atomicOr(words + first / 32, 1U << first % 32);
  atomicOr(words + second / 32, 1U << second % 32);
}

/// Every walk begins with the entry as the one neighbour found. A thread a query.
__global__ void begin_walks(Walks walks, std::int64_t queries, std::uint32_t entry) {
  const std::int64_t q = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (q >= queries) return;
  walks.size[q] = 0;
  walks.count[q] = 1;
  walks.fresh[q * walks.degree] = entry;
  walks.next[q] = no_row;
  if (walks.bloom != nullptr) meet(walks.bloom + q * bloom_words, entry);
}

/// The neighbours of the expanded rows that their queries have not met, in the order of the lists: each
/// thread looks one up, and its place is the number of new ones before it. (Places by a counter that threads
/// add to would be in any order.) All are tested before any sets a bit.
/// @param lists of neighbours, `degree` long: of all rows, where `rows` names that of each query; or where
/// that
///   is null, of each query
__global__ void filter_neighbors(Walks walks, const std::uint32_t* lists, const std::uint32_t* rows) {
  __shared__ int end;
  __shared__ int new_in_warp[32];
  const std::int64_t q = block_query();
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  if (walks.next[q] == no_row) {  // all threads
    if (thread == 0) walks.count[q] = 0;
    return;
  }
  const std::uint32_t* list =
      lists + (rows != nullptr ? static_cast<std::int64_t>(rows[q]) : q) * walks.degree;
  std::uint32_t* words = walks.bloom == nullptr ? nullptr : walks.bloom + q * bloom_words;
  std::uint32_t* out = walks.fresh + q * walks.degree;
  if (thread == 0) end = walks.degree;
  __syncthreads();
  for (int i = thread; i < walks.degree; i += threads) {
    if (list[i] == no_row) atomicMin(&end, i);
  }
  __syncthreads();
  const int warp = thread / 32;
  const int lane = thread % 32;
  int count = 0;
  for (int first = 0; first < end; first += threads) {
    const int i = first + thread;
    const bool is_new = i < end && (words == nullptr || !maybe_met(words, list[i]));
    const unsigned new_lanes = __ballot_sync(~0U, is_new);
    if (lane == 0) new_in_warp[warp] = __popc(new_lanes);
    __syncthreads();
    int place = count + __popc(new_lanes & ((1U << lane) - 1));
    for (int w = 0; w < threads / 32; ++w) {
      if (w < warp) place += new_in_warp[w];
      count += new_in_warp[w];
    }
    if (is_new) out[place] = list[i];
    __syncthreads();  // the counts were read; at the end: all were tested
  }
  for (int i = thread; words != nullptr && i < count; i += threads) meet(words, out[i]);
  if (thread == 0) walks.count[q] = count;
}

// --- one step of the walks

/// The distances of the new neighbours, eight threads each.
template <bool atomic_add, class Distance>
__global__ void measure_neighbors(Walks walks, Distance distance) {
  const std::int64_t q = block_query();
  const int count = walks.count[q];
  const int group = static_cast<int>(threadIdx.x) / threads_a_row;
  const int lane = static_cast<int>(threadIdx.x) % threads_a_row;
  const int groups = static_cast<int>(blockDim.x) / threads_a_row;
  for (int first = 0; first < count; first += groups) {  // all lanes of a warp stay, for the sums
    const int i = first + group;
    const std::int64_t at = q * walks.degree + i;
    const std::uint32_t row = i < count ? walks.fresh[at] : 0;
    const float share = i < count ? distance.share(q, row, lane) : 0;
    float sum = 0;
    if constexpr (atomic_add) {
      __shared__ float sums[1024 / threads_a_row];
      sum = sum_by_atomics(share, sums + group);
    } else {
      sum = sum_by_shuffles(share);
    }
    if (i < count && lane == 0) walks.key[at] = make_key(sum, row);
  }
}

/// The row that is expanded next. Eager: before the neighbours are sorted and merged, the nearer of the first
/// of the worklist that was not expanded and the nearest neighbour, unless the list is full of nearer ones.
/// It is the one that would be found after the merge. Otherwise: after it, and it is marked here. One warp
/// works.
/// @param candidates [.., most_steps] takes it as that of `step` @param any becomes 1 if a walk goes on
template <bool eager>
__global__ void choose_next(Walks walks, std::uint32_t* candidates, std::int64_t most_steps, int step,
                            int* any) {
  if (threadIdx.x >= 32) return;
  const std::int64_t q = block_query();
  const auto lane = static_cast<int>(threadIdx.x);
  Key* list = walks.list + q * walks.list_size;
  const int size = walks.size[q];
  Key best = no_key;
  for (int i = lane; i < size; i += 32) {
    if (!expanded(list[i]) && before(list[i], best)) best = list[i];
  }
  if constexpr (eager) {
    const Key last = size == walks.list_size ? list[size - 1] : no_key;
    const Key* key = walks.key + q * walks.degree;
    const int count = walks.count[q];
    for (int i = lane; i < count; i += 32) {
      if (before(key[i], last) && before(key[i], best)) best = key[i];
    }
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const Key other = __shfl_xor_sync(~0U, best, apart);
    if (before(other, best)) best = other;
  }
  const std::uint32_t row = best == no_key ? no_row : row_of(best);
  if (!eager && row != no_row) {
    for (int i = lane; i < size; i += 32) {
      if (row_of(list[i]) == row) list[i] |= 1U;
    }
  }
  if (lane == 0) {
    walks.next[q] = row;
    candidates[q * most_steps + step] = row;
    if (row != no_row) *any = 1;
  }
}

/// Parallel merge sort: runs of 1, 2, 4, ... are merged in pairs, every element finding its place by a binary
/// search in the run beside its own. Shared memory: the keys twice.
__global__ void sort_neighbors(Walks walks) {
  extern __shared__ Key shared_keys[];
  const std::int64_t q = block_query();
  const int count = walks.count[q];
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  Key* key = walks.key + q * walks.degree;
  Key* from = shared_keys;
  Key* to = shared_keys + walks.degree;
  for (int i = thread; i < count; i += threads) from[i] = key[i];
  __syncthreads();
  for (int width = 1; width < count; width *= 2) {
    for (int i = thread; i < count; i += threads) to[place_in_merge(from, count, width, i)] = from[i];
    __syncthreads();
    Key* sorted = to;
    to = from;
    from = sorted;
  }
  for (int i = thread; i < count; i += threads) key[i] = from[i];
}

/// Merges the sorted neighbours into the worklist in the same way; what is beyond its end is dropped. Eager:
/// the row that was chosen meanwhile is marked. Shared memory: worklist and neighbours.
template <bool eager>
__global__ void merge_neighbors(Walks walks) {
  extern __shared__ Key shared_keys[];
  const std::int64_t q = block_query();
  const int count = walks.count[q];
  const int size = walks.size[q];
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  Key* list = walks.list + q * walks.list_size;
  const Key* key = walks.key + q * walks.degree;
  Key* old = shared_keys;
  Key* incoming = shared_keys + walks.list_size;
  for (int i = thread; i < size; i += threads) old[i] = list[i];
  for (int i = thread; i < count; i += threads) incoming[i] = key[i];
  __syncthreads();
  const std::uint32_t chosen = eager ? walks.next[q] : no_row;
  const auto put = [&](int place, Key entry) {
    if (place < walks.list_size) list[place] = row_of(entry) == chosen ? entry | 1U : entry;
  };
  for (int i = thread; i < size; i += threads) put(i + keys_before(incoming, count, old[i]), old[i]);
  for (int i = thread; i < count; i += threads) put(i + keys_up_to(old, size, incoming[i]), incoming[i]);
  if (thread == 0) walks.size[q] = size + count < walks.list_size ? size + count : walks.list_size;
}

// --- answers

/// Re-ranking: the distances of all rows that a walk has expanded. One that it expanded twice, which happens
/// without the filter alone, counts once.
/// @param exact [.., most_steps] takes (distance, row), and no_key where there is none
template <class T>
__global__ void measure_candidates(FullDistance<T> distance, const std::uint32_t* candidates,
                                   std::int64_t most_steps, int steps, Key* exact) {
  const std::int64_t q = block_query();
  const std::uint32_t* rows = candidates + q * most_steps;
  const int group = static_cast<int>(threadIdx.x) / threads_a_row;
  const int lane = static_cast<int>(threadIdx.x) % threads_a_row;
  const int groups = static_cast<int>(blockDim.x) / threads_a_row;
  for (int first = 0; first < steps; first += groups) {
    const int i = first + group;
    const std::uint32_t row = i < steps ? rows[i] : no_row;
    bool repeated = false;
    for (int j = lane; row != no_row && j < i; j += threads_a_row) repeated = repeated || rows[j] == row;
    const float sum = sum_by_shuffles(row == no_row ? 0 : distance.share(q, row, lane));
    const unsigned its_lanes = 0xFFU << (threadIdx.x % 32 / threads_a_row * threads_a_row);
    repeated = (__ballot_sync(~0U, repeated) & its_lanes) != 0;
    if (i < steps && lane == 0) {
      exact[q * most_steps + i] = row == no_row || repeated ? no_key : make_key(sum, row);
    }
  }
}

/// Re-ranking where vectors come from the host one a query and step: eight threads a query.
template <class T>
__global__ void measure_arrived(FullDistance<T> distance, std::int64_t queries,
                                const std::uint32_t* candidates, std::int64_t most_steps, int step,
                                Key* exact) {
  const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t q = thread / threads_a_row;
  const auto lane = static_cast<int>(thread % threads_a_row);
  const std::int64_t at = q * most_steps + step;
  const std::uint32_t row = q < queries ? candidates[at] : no_row;
  const float sum = sum_by_shuffles(row == no_row ? 0 : distance.share(q, q, lane));
  if (row != no_row && lane == 0) exact[at] = make_key(sum, row);
}

/// The k smallest of the keys of each query, which all differ: the place of each is the number of smaller
/// ones.
__global__ void select_nearest(const Key* exact, std::int64_t most_steps, int steps, int k,
                               Neighbor* nearest) {
  const std::int64_t q = block_query();
  const Key* keys = exact + q * most_steps;
  Neighbor* out = nearest + q * k;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  for (int rank = thread; rank < k; rank += threads) out[rank] = nobody();
  __syncthreads();
  for (int i = thread; i < steps; i += threads) {
    if (keys[i] == no_key) continue;
    int rank = 0;
    for (int j = 0; j < steps; ++j) rank += before(keys[j], keys[i]) ? 1 : 0;
    if (rank < k) out[rank] = {distance_of(keys[i]), static_cast<int>(row_of(keys[i]))};
  }
}

/// Where worklists have exact distances: their first k.
__global__ void take_nearest(Walks walks, int k, Neighbor* nearest) {
  const std::int64_t q = block_query();
  const Key* list = walks.list + q * walks.list_size;
  const int size = walks.size[q];
  for (int rank = static_cast<int>(threadIdx.x); rank < k; rank += static_cast<int>(blockDim.x)) {
    nearest[q * k + rank] =
        rank < size ? Neighbor{distance_of(list[rank]), static_cast<int>(row_of(list[rank]))} : nobody();
  }
}

}  // namespace kith::ladder::bang
