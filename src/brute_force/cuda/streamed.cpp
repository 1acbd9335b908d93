// Rows that do not fit a device's memory, nor their codes: they pass through it in every search.
#include <algorithm>
#include <future>
#include <memory>
#include <vector>

#include "brute_force/cuda/answers.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "core/parallel.hpp"
#include "cuda/fan_out.hpp"

namespace kith::brute_force {

// Pieces of the rows pass through two shards in turn: while one is searched, the next one is copied and
// encoded. The k-th distances so far bound the next piece from its start.
template <class R>
void search_streamed(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                     const NeighborsView& out, const Execution& execution, bool mind_rests,
                     SearchStatistics& statistics) {
  const std::int64_t pieces = (data.rows + p.stream_rows - 1) / p.stream_rows;
  const auto devices = static_cast<std::int64_t>(p.devices.size());
  const std::int64_t cells = queries.rows * out.k;
  std::vector<SearchStatistics> each(p.devices.size());
  std::vector<cuda::Buffer<std::int64_t>> final_indices(p.devices.size());
  std::vector<cuda::Buffer<R>> final_distances(p.devices.size());
  std::vector<std::unique_ptr<Shard>> keep(p.devices.size());
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, data.rows));

  cuda::for_each_device(p.devices.size(), [&](std::size_t d) {
    const int device = p.devices[d];
    const cuda::DeviceGuard guard(device);
    const std::int64_t row_bytes = data.dim * static_cast<std::int64_t>(size_of(data.dtype));
    std::unique_ptr<Shard> slot[2];
    cuda::Uploader uploader;
    // Stopped half way, copies end before the memory goes that they write to.
    struct Copies : cuda::Stream {
      ~Copies() { (void)cudaStreamSynchronize(*this); }
    };
    const Copies copies;
    for (auto& shard : slot) {
      shard = std::make_unique<Shard>(device, p.choice, data, p.metric, p.stream_rows, p.policies[d]);
      shard->own_rows = cuda::Buffer<unsigned char>(p.stream_rows * row_bytes, shard->stream);
      shard->data = shard->own_rows.data();
      shard->stride = data.dim;
      shard->stream.synchronize();
    }
    const auto load = [&](std::int64_t piece, int s) {
      const cuda::DeviceGuard in_thread(device);
      Shard& shard = *slot[s];
      shard.base = piece * p.stream_rows;
      const DatasetView rows = data.slice(shard.base, std::min(p.stream_rows, data.rows - shard.base));
      // In quarters, so that encoding runs beside copying.
      const std::int64_t quarter = (rows.rows + 3) / 4;
      shard.begin(rows.rows, shard.stream);
      for (std::int64_t at = 0; at < rows.rows; at += quarter) {
        const DatasetView some = rows.slice(at, std::min(quarter, rows.rows - at));
        unsigned char* to = shard.own_rows.data() + at * row_bytes;
        if (!p.pinned.known()) {
          uploader.copy(some, to, copies, execution);
        } else if (some.contiguous()) {
          KITH_CUDA(cudaMemcpyAsync(to, some.data, static_cast<std::size_t>(some.rows * row_bytes),
                                    cudaMemcpyHostToDevice, copies));
        } else {
          KITH_CUDA(cudaMemcpy2DAsync(to, static_cast<std::size_t>(row_bytes), some.data,
                                      static_cast<std::size_t>(some.row_stride) * size_of(some.dtype),
                                      static_cast<std::size_t>(row_bytes),
                                      static_cast<std::size_t>(some.rows), cudaMemcpyHostToDevice, copies));
        }
        const cuda::Event copied;
        KITH_CUDA(cudaEventRecord(copied, copies));
        KITH_CUDA(cudaStreamWaitEvent(shard.stream, copied, 0));
        shard.encode_piece(to, data.dim, at, some.rows, shard.stream);
      }
      shard.finish(shard.stream);
    };
    Workspace w(device);
    cuda::wait_for(execution, w.stream);
    const cuda::PlacedRows placed = place_queries(w, queries, 0, queries.rows, execution);
    cuda::Buffer<std::int64_t> indices[3];
    cuda::Buffer<R> distances[3];
    cuda::Buffer<R> best(queries.rows, w.stream);
    for (int i = 0; i < 3; ++i) {
      indices[i] = cuda::Buffer<std::int64_t>(cells, w.stream);
      distances[i] = cuda::Buffer<R>(cells, w.stream);
    }
    int held = -1;  // which buffer has the answer so far
    std::future<void> next;
    int s = 0;
    if (static_cast<std::int64_t>(d) < pieces) load(static_cast<std::int64_t>(d), 0);
    for (auto piece = static_cast<std::int64_t>(d); piece < pieces; piece += devices, s ^= 1) {
      if (piece + devices < pieces) next = std::async(std::launch::async, load, piece + devices, s ^ 1);
      const int to = held < 0 ? 0 : (held + 1) % 3;
      if (held >= 0) {  // the k-th of the answer so far, +inf where there is none
        KITH_CUDA(cudaMemcpy2DAsync(best.data(), sizeof(R), distances[held].data() + out.k - 1,
                                    static_cast<std::size_t>(out.k) * sizeof(R), sizeof(R),
                                    static_cast<std::size_t>(queries.rows), cudaMemcpyDeviceToDevice,
                                    w.stream));
      }
      SearchStatistics one;
      search_shard<R>(*slot[s], w, placed.data, placed.stride, queries.rows, out.k,
                      held < 0 ? nullptr : best.data(), indices[to].data(), distances[to].data(), execution,
                      p.budget, mind_rests, one);
      add(each[d], one, piece == static_cast<std::int64_t>(d));
      each[d].nan_rows += slot[s]->nan_rows;
      if (held >= 0) {
        const int merged = 3 - held - to;
        const std::int64_t* both_indices[2] = {indices[held].data(), indices[to].data()};
        const R* both_distances[2] = {distances[held].data(), distances[to].data()};
        cuda::merge_answers<R>(both_indices, both_distances, 2, queries.rows, out.k, indices[merged].data(),
                               distances[merged].data(), w.stream);
        held = merged;
      } else {
        held = to;
      }
      w.stream.synchronize();
      progress.advance(slot[s]->rows);
      if (next.valid()) next.get();
    }
    if (held < 0) return;  // fewer pieces than devices
    keep[d] = std::move(slot[0]);
    final_indices[d] = cuda::Buffer<std::int64_t>(cells, keep[d]->stream);
    final_distances[d] = cuda::Buffer<R>(cells, keep[d]->stream);
    KITH_CUDA(cudaMemcpyAsync(final_indices[d].data(), indices[held].data(), indices[held].bytes(),
                              cudaMemcpyDeviceToDevice, keep[d]->stream));
    KITH_CUDA(cudaMemcpyAsync(final_distances[d].data(), distances[held].data(), distances[held].bytes(),
                              cudaMemcpyDeviceToDevice, keep[d]->stream));
    keep[d]->stream.synchronize();
  });

  const cuda::DeviceGuard guard(p.devices.front());
  const cuda::Stream stream;
  {
    std::vector<cuda::Buffer<std::int64_t>> met_indices(p.devices.size() + 1);
    std::vector<cuda::Buffer<R>> met_distances(p.devices.size() + 1);
    std::vector<const std::int64_t*> all_indices;
    std::vector<const R*> all_distances;
    for (std::size_t d = 0; d < p.devices.size(); ++d) {
      if (final_indices[d].empty()) continue;
      met_indices[d] = cuda::Buffer<std::int64_t>(cells, stream);
      met_distances[d] = cuda::Buffer<R>(cells, stream);
      KITH_CUDA(cudaMemcpyPeerAsync(met_indices[d].data(), p.devices.front(), final_indices[d].data(),
                                    p.devices[d], final_indices[d].bytes(), stream));
      KITH_CUDA(cudaMemcpyPeerAsync(met_distances[d].data(), p.devices.front(), final_distances[d].data(),
                                    p.devices[d], final_distances[d].bytes(), stream));
      all_indices.push_back(met_indices[d].data());
      all_distances.push_back(met_distances[d].data());
      add(statistics, each[d], d == 0);
      statistics.nan_rows += each[d].nan_rows;
    }
    auto& to_indices = met_indices.back() = cuda::Buffer<std::int64_t>(cells, stream);
    auto& to_distances = met_distances.back() = cuda::Buffer<R>(cells, stream);
    cuda::merge_answers<R>(all_indices.data(), all_distances.data(), static_cast<int>(all_indices.size()),
                           queries.rows, out.k, to_indices.data(), to_distances.data(), stream);
    copy_out(out, 0, to_indices.data(), to_distances.data(), queries.rows, stream);
    stream.synchronize();
  }
  progress.finish();
  final_indices.clear();  // before the streams in `keep`
  final_distances.clear();
}

template void search_streamed<float>(const CudaPrepared&, const DatasetView&, const DatasetView&,
                                     const NeighborsView&, const Execution&, bool, SearchStatistics&);
template void search_streamed<double>(const CudaPrepared&, const DatasetView&, const DatasetView&,
                                      const NeighborsView&, const Execution&, bool, SearchStatistics&);

}  // namespace kith::brute_force
