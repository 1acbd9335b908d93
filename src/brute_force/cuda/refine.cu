// Candidates once more, by fine codes: two bytes a value of the same few directions say nearly all that these
// can say of a pair, in a fraction of a row's bytes. What is left is evaluated nearest first by better
// estimates.
#include "brute_force/cuda/rerank.cuh"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int threads = 256;
constexpr int group = 8;  // threads a candidate: each reads 16 bytes of its row at a time
constexpr int chunk = 1024;
constexpr int at_once = 4;  // candidates whose codes a group asks for together

// Eight values of a row and a query.
__device__ inline long long triangle_term(const short4 a, const short4 b) {
  const auto square = [](int x, int y) {
    const auto difference = static_cast<unsigned>(x - y);  // up to 2^16 - 2 either way: the square fits
    return static_cast<long long>(difference * difference);
  };
  return square(a.x, b.x) + square(a.y, b.y) + square(a.z, b.z) + square(a.w, b.w);
}
__device__ inline long long product_term(const short4 a, const short4 b) {
  return static_cast<long long>(a.x) * b.x + static_cast<long long>(a.y) * b.y +
         static_cast<long long>(a.z) * b.z + static_cast<long long>(a.w) * b.w;
}

// A block a query, or several that share one, a part of its candidates each. These come in chunks, what is
// left of each is written behind what was left so far. Of shared ones the last block to get here moves what
// is left together.
template <class R>
__global__ void __launch_bounds__(threads) refine_kernel(Batch<R> batch) {
  extern __shared__ __align__(16) short query[];  // [stride]
  __shared__ std::uint64_t entries[chunk];
  __shared__ unsigned left;
  __shared__ int last;
  Share share{blockIdx.x, 0, 0, 1};
  if (batch.heavy != nullptr && !find_share(batch.heavy, blockIdx.x, share)) return;
  const std::int64_t q = share.q;
  if (batch.scalars[q].kind != codes::RowKind::regular) return;
  const std::uint32_t kept = batch.candidates.counts[q];
  if (kept == 0) return;
  const int tid = static_cast<int>(threadIdx.x);
  const auto stride = static_cast<int>(batch.space.fine_stride());
  for (int i = tid; i < stride; i += threads) query[i] = batch.fine_queries[q * stride + i];
  if (tid == 0) left = 0;
  const bool triangle = batch.space.form == codes::Form::triangle;
  CodeSpace space = batch.space;
  QueryScalars scalars = batch.scalars[q];
  make_fine(space, scalars);
  const double limit =
      fine_limit(make_bound(batch.best[q], space, scalars, batch.maxima), space.form, batch.maxima);
  const std::uint32_t room = batch.candidates.room;
  const std::uint32_t count = kept < room ? kept : room;
  std::uint64_t* all = batch.candidates.entries + q * static_cast<std::int64_t>(room);
  const auto begin_of = [&](int part) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(count) * static_cast<unsigned>(part) /
                                      static_cast<unsigned>(share.count));
  };
  std::uint64_t* own = all + begin_of(share.index);
  const std::uint32_t mine = begin_of(share.index + 1) - begin_of(share.index);
  for (std::uint32_t done = 0; done < mine; done += chunk) {
    const int n = static_cast<int>(mine - done < chunk ? mine - done : chunk);
    __syncthreads();
    for (int i = tid; i < n; i += threads) entries[i] = own[done + static_cast<std::uint32_t>(i)];
    __syncthreads();
    // The same number of rounds for all threads of a warp: they exchange sums.
    for (int base = 0; base < n; base += threads / group * at_once) {
      std::uint64_t several[at_once];
      long long sums[at_once] = {};
#pragma unroll
      for (int s = 0; s < at_once; ++s) {
        const int c = base + s * (threads / group) + tid / group;
        several[s] = c < n ? entries[c] : no_candidate;
      }
      for (int i = tid % group * 8; i < stride; i += group * 8) {
        int4 eight[at_once];
#pragma unroll
        for (int s = 0; s < at_once; ++s) {
          if (several[s] == no_candidate) continue;
          eight[s] = *reinterpret_cast<const int4*>(
              batch.fine + static_cast<std::int64_t>(static_cast<std::uint32_t>(several[s])) * stride + i);
        }
        const int4 asked = *reinterpret_cast<const int4*>(query + i);
        const auto* b = reinterpret_cast<const short4*>(&asked);
#pragma unroll
        for (int s = 0; s < at_once; ++s) {
          if (several[s] == no_candidate) continue;
          const auto* a = reinterpret_cast<const short4*>(&eight[s]);
          sums[s] += triangle ? triangle_term(a[0], b[0]) + triangle_term(a[1], b[1])
                              : -product_term(a[0], b[0]) - product_term(a[1], b[1]);
        }
      }
#pragma unroll
      for (int s = 0; s < at_once; ++s) {
#pragma unroll
        for (int apart = group / 2; apart > 0; apart /= 2)
          sums[s] += __shfl_xor_sync(0xffffffffU, sums[s], apart);
        const auto estimate = static_cast<double>(sums[s]);
        if (tid % group == 0 && several[s] != no_candidate && !(estimate > limit)) {
          own[atomicAdd(&left, 1U)] =
              static_cast<std::uint64_t>(fine_order(estimate)) << 32U | (several[s] & 0xffffffffU);
        }
      }
    }
  }
  __syncthreads();
  if (share.count > 1) {
    auto* lefts = reinterpret_cast<std::uint32_t*>(batch.partial) + share.slot * share.count;
    if (tid == 0) lefts[share.index] = left;
    if (!is_last(batch, share, &last)) return;
    std::uint32_t together = 0;
    for (int part = 0; part < share.count; ++part) {
      const std::uint32_t its = __ldcg(lefts + part);
      for (std::uint32_t base = 0; base < its; base += threads) {
        const std::uint32_t i = base + static_cast<std::uint32_t>(tid);
        const std::uint64_t entry = i < its ? __ldcg(all + begin_of(part) + i) : 0;
        __syncthreads();  // it may lie where others write
        if (i < its) all[together + i] = entry;
        __syncthreads();
      }
      together += its;
    }
    if (tid == 0) left = together;
    __syncthreads();
  }
  // Where there were more than there was room for, that must stay known.
  if (kept > room) {
    for (std::uint32_t i = left + static_cast<std::uint32_t>(tid); i < room; i += threads)
      all[i] = no_candidate;
  } else if (tid == 0) {
    batch.candidates.counts[q] = left;
    atomicAdd(batch.counters + 4, static_cast<unsigned long long>(kept - left));
  }
}

}  // namespace

template <class R>
void refine_candidates(const Batch<R>& batch, cudaStream_t stream) {
  if (batch.count <= 0) return;
  const auto bytes = static_cast<std::size_t>(batch.space.fine_stride()) * sizeof(std::int16_t);
  const std::int64_t blocks = batch.count + (batch.heavy == nullptr ? 0 : most_heavy * heavy_shares);
  refine_kernel<R><<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(batch);
  check_launch("refine_candidates");
}

template void refine_candidates<float>(const Batch<float>&, cudaStream_t);
template void refine_candidates<double>(const Batch<double>&, cudaStream_t);

}  // namespace kith::brute_force::cuda
