// Rung 42: BANG Base, and rungs 45 and 46: the same without its overlapping.
//
// Idea      For graphs and vectors that no GPU holds: they stay in host memory, and only the codes are on the
//           GPU. A step of all walks begins on the host, which gathers the neighbours of the rows to expand
//           and sends them; the GPU goes on as in rung 43. Two things hide the way. The next row is chosen
//           before the neighbours are sorted and merged (eager prefetch), so that the host gathers while the
//           GPU sorts. And copies are asynchronous, on streams of their own: rows to expand up, lists down,
//           and after them the vectors of the rows for re-ranking, which are evaluated as they arrive.
// Cost      A step and query: 4 bytes up; a list of neighbours and a vector down, some 640 bytes. Codes in
//           the GPU's memory: m bytes a row.
// Limit     The host's cores gather from anywhere in its memory, and the link carries no more than 64 GB/s at
//           best; then rung 43's limits. The engine's warps read host memory themselves instead.
// Rungs     45 no prefetch: the host waits for sort and merge. 46 every copy is waited for, on one stream.
// Source    As rung 43.
#include <algorithm>

#include "bang_walks.cuh"

namespace kith::ladder {
namespace bang {
namespace {

// What is under way ends before the memory it uses goes, also where somebody has thrown.
struct Quiet {
  Quiet() = default;
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { (void)cudaDeviceSynchronize(); }
};

// T: the element type of the vectors, which are sent as they are.
template <class T>
Answer search(const Problem& problem, Run& run, const Switches& switches) {
  const Gpu gpu(run);
  const GraphCase& graph = *problem.graph;
  const std::int64_t degree = graph.degree();
  const std::int64_t dim = problem.dim;
  const auto nearest = gpu.room<Neighbor>(problem.queries * problem.k);
  const auto sent_bytes =
      static_cast<std::int64_t>(sizeof(std::uint32_t)) * degree + dim * static_cast<std::int64_t>(sizeof(T));
  BatchOfWalks<T> walks(gpu, problem, switches, nullptr, sent_bytes);
  const std::int64_t at_once = walks.at_once();
  const auto lists = gpu.room<std::uint32_t>(at_once * degree);
  const auto vectors = gpu.room<T>(at_once * dim);
  const cuda::PinnedBuffer<std::uint32_t> next_here(at_once);
  const cuda::PinnedBuffer<std::uint32_t> lists_here(at_once * degree);
  const cuda::PinnedBuffer<T> vectors_here[2] = {cuda::PinnedBuffer<T>(at_once * dim),
                                                 cuda::PinnedBuffer<T>(at_once * dim)};
  const cuda::Event sent[2];  // the vectors there have left

  const cuda::Stream streams[3];
  const cudaStream_t work = gpu.stream();
  const cudaStream_t rows_up = switches.async ? streams[0] : work;
  const cudaStream_t lists_down = switches.async ? streams[1] : work;
  const cudaStream_t vectors_down = switches.async ? streams[2] : work;
  const auto order = [](cudaStream_t before, cudaStream_t after) {
    if (before != after) cuda::follow(before, after);
  };
  const auto wait_unless_async = [&](cudaStream_t stream) {
    if (!switches.async) KITH_CUDA(cudaStreamSynchronize(stream));
  };

  bool stopped = false;
  gpu.finish();  // memory that was taken on one stream is used on others
  const Quiet quiet;
  run.search([&] {
    for (std::int64_t first = 0; first < problem.queries; first += at_once) {
      const std::int64_t queries = smaller(at_once, problem.queries - first);
      walks.begin(first, queries);
      int step = 0;
      bool more = true;
      while (more && step < walks.most_steps()) {
        run.stop_if_cancelled();
        if (step > 0) walks.filter(lists.data(), nullptr);
        walks.measure();
        if (!switches.prefetch) {
          walks.sort();
          walks.merge();
        }
        walks.choose(step);
        order(work, rows_up);
        KITH_CUDA(cudaMemcpyAsync(next_here.data(), walks.next(), queries * sizeof(std::uint32_t),
                                  cudaMemcpyDeviceToHost, rows_up));
        wait_unless_async(rows_up);
        if (switches.prefetch) {  // while the host gathers
          walks.sort();
          walks.merge();
        }
        // The rows are here. So the filter has read the last lists, whose copy is long done: both buffers of
        // lists are free.
        if (switches.async) KITH_CUDA(cudaStreamSynchronize(rows_up));
        const std::uint32_t* next = next_here.data();
        more = std::any_of(next, next + queries, [](std::uint32_t row) { return row != no_row; });
        if (more) {
          gather_lists(graph, next, queries, lists_here.data(), run.threads);
          KITH_CUDA(cudaMemcpyAsync(lists.data(), lists_here.data(), queries * degree * sizeof(std::uint32_t),
                                    cudaMemcpyHostToDevice, lists_down));
          wait_unless_async(lists_down);
          order(lists_down, work);
          const int half = step % 2;
          KITH_CUDA(cudaEventSynchronize(sent[half]));
          gather_vectors(problem, next, queries, vectors_here[half].data(), run.threads);
          KITH_CUDA(cudaMemcpyAsync(vectors.data(), vectors_here[half].data(), queries * dim * sizeof(T),
                                    cudaMemcpyHostToDevice, vectors_down));
          KITH_CUDA(cudaEventRecord(sent[half], vectors_down));
          wait_unless_async(vectors_down);
          walks.rerank_arrived(vectors.data(), step, vectors_down);
        }
        ++step;
      }
      stopped = stopped || more;
      order(vectors_down, work);
      walks.answer(step, nearest.data() + first * problem.k);
      gpu.finish();
    }
  });
  walks.tell(stopped, run);
  return put_all(problem, gpu.download(nearest));
}

}  // namespace

Answer search_base(const Problem& problem, Run& run, const Switches& switches) {
  return problem.bytes() ? search<std::uint8_t>(problem, run, switches)
                         : search<float>(problem, run, switches);
}

}  // namespace bang

Answer bang_base(const Problem& problem, Run& run) {
  return bang::search_base(problem, run, {});
}
Answer bang_no_prefetch(const Problem& problem, Run& run) {
  return bang::search_base(problem, run, {.prefetch = false});
}
Answer bang_no_async(const Problem& problem, Run& run) {
  return bang::search_base(problem, run, {.async = false});
}

}  // namespace kith::ladder
