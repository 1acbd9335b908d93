// The launches of BANG's kernels, and the memory they work on.
#include "bang_walks.cuh"

#include <algorithm>

#include "bang_kernels.cuh"

namespace kith::ladder::bang {
namespace {

// Steps that a walk may take: as many as four worklists hold, and some for the way to the query. Those with a
// filter end long before.
int steps_of(int list_size) {
  return 4 * list_size + 64;
}

std::int64_t bytes_a_query(int list_size, int degree, const Switches& switches, std::int64_t subspaces) {
  const std::int64_t steps = steps_of(list_size);
  std::int64_t bytes = list_size * sizeof(Key) + degree * (sizeof(Key) + sizeof(std::uint32_t));
  bytes += 3 * sizeof(std::uint32_t) + steps * sizeof(std::uint32_t);
  if (switches.bloom) bytes += bloom_words * static_cast<std::int64_t>(sizeof(std::uint32_t));
  if (!switches.exact) {
    bytes += steps * sizeof(Key) + subspaces * pq_centroids * static_cast<std::int64_t>(sizeof(float));
  }
  return bytes;
}

std::int64_t batch_of(const Gpu& gpu, std::int64_t queries, std::int64_t bytes) {
  std::uint64_t left = gpu.left();
  if (left == 0) {
    gpu.finish();  // what was asked for has been taken
    std::size_t free = 0;
    std::size_t total = 0;
    KITH_CUDA(cudaMemGetInfo(&free, &total));
    left = free / 8 * 7;
  }
  constexpr std::uint64_t aside = 256;  // what no query has for itself
  return std::clamp<std::int64_t>(static_cast<std::int64_t>((std::max(left, aside) - aside)) / bytes, 1,
                                  queries);
}

unsigned grid(std::int64_t queries) {
  return static_cast<unsigned>(queries);
}

}  // namespace

template <class T>
BatchOfWalks<T>::BatchOfWalks(const Gpu& gpu, const Problem& problem, const Switches& switches,
                              const T* point, std::int64_t more_a_query)
    : gpu_(gpu),
      problem_(problem),
      switches_(switches),
      point_(point),
      list_size_(static_cast<int>(problem.graph->list_size())),
      degree_(static_cast<int>(problem.graph->degree())),
      dim_(static_cast<int>(problem.dim)),
      most_steps_(steps_of(list_size_)),
      query_(gpu.upload(problem.query, problem.queries * problem.dim)) {
  if (switches.one_size) {
    sizes_ = {only_size, only_size, only_size, only_size, only_size, only_size, only_size};
  }
  if (!switches.exact) {
    const std::shared_ptr<const PqTables> pq =
        problem.graph->pq(switches.subspaces > 0 ? switches.subspaces : default_subspaces(problem));
    subspaces_ = pq->subspaces;
    starts_ = gpu.upload(pq->starts.data(), static_cast<std::int64_t>(pq->starts.size()));
    mean_ = gpu.upload(pq->mean.data(), problem.dim);
    centroid_ = gpu.upload(pq->centroid.data(), static_cast<std::int64_t>(pq->centroid.size()));
    code_ = gpu.upload(pq->codes.data(), problem.points * pq->subspaces);
  }
  at_once_ =
      batch_of(gpu, problem.queries, bytes_a_query(list_size_, degree_, switches, subspaces_) + more_a_query);
  list_ = gpu.room<Key>(at_once_ * list_size_);
  size_ = gpu.room<int>(at_once_);
  fresh_ = gpu.room<std::uint32_t>(at_once_ * degree_);
  key_ = gpu.room<Key>(at_once_ * degree_);
  count_ = gpu.room<int>(at_once_);
  next_ = gpu.room<std::uint32_t>(at_once_);
  candidates_ = gpu.room<std::uint32_t>(at_once_ * most_steps_);
  any_ = gpu.room<int>(1);
  if (switches.bloom) bloom_ = gpu.room<std::uint32_t>(at_once_ * bloom_words);
  if (!switches.exact) {
    exact_ = gpu.room<Key>(at_once_ * most_steps_);
    table_ = gpu.room<float>(at_once_ * subspaces_ * pq_centroids);
  }
}

template <class T>
Walks BatchOfWalks<T>::walks() const {
  return {list_size_,  degree_,       list_.data(), size_.data(), fresh_.data(),
          key_.data(), count_.data(), next_.data(), bloom_.data()};
}

template <class T>
void BatchOfWalks<T>::begin(std::int64_t first, std::int64_t queries) {
  first_ = first;
  queries_ = queries;
  const float* query = query_.data() + first_ * dim_;
  if (switches_.bloom) {
    KITH_CUDA(cudaMemsetAsync(bloom_.data(), 0, bloom_.bytes(), gpu_.stream()));
  }
  if (!switches_.exact) {
    KITH_CUDA(cudaMemsetAsync(exact_.data(), 0xFF, exact_.bytes(), gpu_.stream()));  // no_key
    fill_tables<<<grid(queries_), sizes_.table, 0, gpu_.stream()>>>(
        query, dim_, mean_.data(), centroid_.data(), starts_.data(), subspaces_, table_.data());
    cuda::check_launch("fill_tables");
  }
  constexpr int threads = 128;
  begin_walks<<<blocks_for(queries_, threads), threads, 0, gpu_.stream()>>>(walks(), queries_,
                                                                            problem_.graph->entry());
  cuda::check_launch("begin_walks");
}

template <class T>
void BatchOfWalks<T>::filter(const std::uint32_t* lists, const std::uint32_t* rows) {
  filter_neighbors<<<grid(queries_), sizes_.filter, 0, gpu_.stream()>>>(walks(), lists, rows);
  cuda::check_launch("filter_neighbors");
}

template <class T>
void BatchOfWalks<T>::measure() {
  const FullDistance<T> full{query_.data() + first_ * dim_, point_, dim_};
  const PqDistance coded{table_.data(), code_.data(), subspaces_};
  const dim3 blocks(grid(queries_));
  if (switches_.exact) {
    measure_neighbors<false><<<blocks, sizes_.measure, 0, gpu_.stream()>>>(walks(), full);
  } else if (switches_.atomic_add) {
    measure_neighbors<true><<<blocks, sizes_.measure, 0, gpu_.stream()>>>(walks(), coded);
  } else {
    measure_neighbors<false><<<blocks, sizes_.measure, 0, gpu_.stream()>>>(walks(), coded);
  }
  cuda::check_launch("measure_neighbors");
}

template <class T>
void BatchOfWalks<T>::choose(int step) {
  KITH_CUDA(cudaMemsetAsync(any_.data(), 0, sizeof(int), gpu_.stream()));
  if (switches_.prefetch) {
    choose_next<true><<<grid(queries_), sizes_.choose, 0, gpu_.stream()>>>(walks(), candidates_.data(),
                                                                           most_steps_, step, any_.data());
  } else {
    choose_next<false><<<grid(queries_), sizes_.choose, 0, gpu_.stream()>>>(walks(), candidates_.data(),
                                                                            most_steps_, step, any_.data());
  }
  cuda::check_launch("choose_next");
}

template <class T>
void BatchOfWalks<T>::sort() {
  const std::size_t shared = 2 * sizeof(Key) * static_cast<std::size_t>(degree_);
  sort_neighbors<<<grid(queries_), sizes_.sort, shared, gpu_.stream()>>>(walks());
  cuda::check_launch("sort_neighbors");
}

template <class T>
void BatchOfWalks<T>::merge() {
  const std::size_t shared = sizeof(Key) * static_cast<std::size_t>(list_size_ + degree_);
  if (switches_.prefetch) {
    merge_neighbors<true><<<grid(queries_), sizes_.merge, shared, gpu_.stream()>>>(walks());
  } else {
    merge_neighbors<false><<<grid(queries_), sizes_.merge, shared, gpu_.stream()>>>(walks());
  }
  cuda::check_launch("merge_neighbors");
}

template <class T>
bool BatchOfWalks<T>::any_goes_on() {
  KITH_CUDA(
      cudaMemcpyAsync(any_here_.data(), any_.data(), sizeof(int), cudaMemcpyDeviceToHost, gpu_.stream()));
  gpu_.finish();
  return *any_here_.data() != 0;
}

template <class T>
void BatchOfWalks<T>::rerank(const T* point, int steps) {
  const FullDistance<T> distance{query_.data() + first_ * dim_, point, dim_};
  measure_candidates<<<grid(queries_), sizes_.measure, 0, gpu_.stream()>>>(distance, candidates_.data(),
                                                                           most_steps_, steps, exact_.data());
  cuda::check_launch("measure_candidates");
}

template <class T>
void BatchOfWalks<T>::rerank_arrived(const T* vectors, int step, cudaStream_t stream) {
  const FullDistance<T> distance{query_.data() + first_ * dim_, vectors, dim_};
  measure_arrived<<<blocks_for(queries_ * threads_a_row, sizes_.measure), sizes_.measure, 0, stream>>>(
      distance, queries_, candidates_.data(), most_steps_, step, exact_.data());
  cuda::check_launch("measure_arrived");
}

template <class T>
void BatchOfWalks<T>::answer(int steps, Neighbor* nearest) {
  const auto k = static_cast<int>(problem_.k);
  if (switches_.exact) {
    take_nearest<<<grid(queries_), sizes_.select, 0, gpu_.stream()>>>(walks(), k, nearest);
    cuda::check_launch("take_nearest");
  } else {
    select_nearest<<<grid(queries_), sizes_.select, 0, gpu_.stream()>>>(exact_.data(), most_steps_, steps, k,
                                                                        nearest);
    cuda::check_launch("select_nearest");
  }
}

template <class T>
void BatchOfWalks<T>::tell(bool stopped, Run& run) const {
  const std::int64_t batches = (problem_.queries + at_once_ - 1) / at_once_;
  run.fallback = batches == 1 ? "" : std::to_string(batches) + " batches of queries, for want of memory";
  if (!stopped) return;
  if (!run.fallback.empty()) run.fallback += "; ";
  run.fallback += "some walks were stopped after " + std::to_string(most_steps_) + " steps";
}

template class BatchOfWalks<float>;
template class BatchOfWalks<std::uint8_t>;

}  // namespace kith::ladder::bang
