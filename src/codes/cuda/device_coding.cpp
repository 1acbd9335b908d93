// A coding to a device.
#include "codes/cuda/device_coding.hpp"

#include <vector>

#include "codes/pq.hpp"
#include "codes/rabitq.hpp"
#include "kith/error.hpp"

namespace kith::codes::cuda {
namespace {

static_assert(table_entries == pq_table_width);

template <class T>
void upload(const std::vector<T>& from, Buffer<T>& to, cudaStream_t stream, Uploader& uploader,
            const Execution& execution) {
  if (from.empty()) return;
  const auto count = static_cast<std::int64_t>(from.size());
  to = Buffer<T>(count, stream);
  const auto bytes = count * static_cast<std::int64_t>(sizeof(T));
  uploader.copy(DatasetView(from.data(), Dtype::u8, bytes, 1, 1), to.data(), stream, execution);
}

// One after the other.
template <class T, class Parts, class Of>
std::vector<T> joined(const Parts& parts, const Of& of) {
  std::vector<T> all;
  for (const auto& part : parts) {
    const std::vector<T>& its = of(part);
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

}  // namespace

DeviceCoding::DeviceCoding(const Coding& coding, double confidence, cudaStream_t stream, Uploader& uploader,
                           const Execution& execution) {
  const auto up = [&](const auto& from, auto& to) { upload(from, to, stream, uploader, execution); };
  const RabitqSpace* rabitq = rabitq_space(coding);
  const PqSpace* pq = pq_space(coding);
  if (rabitq != nullptr && rabitq->metric == Metric::sqeuclidean) {
    const Rotation& rotation = rabitq->rotation;
    rabitq_.shape = {static_cast<int>(rabitq->bits), static_cast<int>(rotation.dim() / block_values),
                     rabitq_deviations(confidence)};
    rabitq_.dim = rabitq->rows.dim;
    rabitq_.width = rotation.width();
    rabitq_.scale = rotation.scale();
    rabitq_.rounds = static_cast<int>(rotation.rounds().size());
    using Round = Rotation::Round;
    const auto from_of = [](const Round& its) -> const auto& {
      return its.from;
    };
    const auto sign_of = [](const Round& its) -> const auto& {
      return its.sign;
    };
    up(rabitq->mean, mean_);
    up(joined<std::uint32_t>(rotation.rounds(), from_of), from_);
    up(joined<double>(rotation.rounds(), sign_of), sign_);
    return;
  }
  if (pq == nullptr || pq->metric != Metric::sqeuclidean || pq->rotation != nullptr || !pq->matrix.empty()) {
    throw DeviceError(
        "walks on a GPU compare scalar codes, RaBitQ codes and PQ codes without a rotation, by squared "
        "distances; search this index on the CPU");
  }
  pq_.dim = pq->rows.dim;
  pq_.subspaces = pq->subspaces;
  pq_.count = pq->count;
  pq_.padded_count = pq->parts.front().padded_count;
  up(pq->mean, mean_);
  up(joined<float>(
         pq->parts, [](const SideBySide& its) -> const auto& { return its.values; }),
     centroids_);
  up(pq->starts, starts_);
}

RabitqView DeviceCoding::rabitq_view() const {
  RabitqView view = rabitq_;
  view.mean = mean_.data();
  view.from = from_.data();
  view.sign = sign_.data();
  return view;
}

PqView DeviceCoding::pq_view() const {
  PqView view = pq_;
  view.mean = mean_.data();
  view.centroids = centroids_.data();
  view.starts = starts_.data();
  return view;
}

std::int64_t DeviceCoding::query_bytes() const {
  return rabitq() ? std::int64_t{block_bytes} * rabitq_.shape.blocks
                  : pq_.subspaces * table_entries * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace kith::codes::cuda
