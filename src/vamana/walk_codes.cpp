#include "vamana/walk_codes.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "codes/cpu/row_kernels.hpp"
#include "vamana/backend.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t usual_bits = 4;
constexpr std::int64_t values_a_subspace = 4;
constexpr std::int64_t training_rows = 16384;

// The scalar codes as rows of u8.
DatasetView rows_of(const Nodes& nodes, const codes::ScalarSpace& space) {
  return {nodes.codes.data(), Dtype::u8, nodes.count, space.code_dim(), space.code_bytes()};
}

}  // namespace

RabitqParameters rabitq_of(const VamanaParameters& parameters) {
  return {.metric = Metric::sqeuclidean,
          .bits = parameters.rabitq_bits > 0 ? parameters.rabitq_bits : usual_bits,
          .seed = parameters.seed};
}

PqParameters pq_of(const VamanaParameters& parameters, std::int64_t code_dim) {
  return {.metric = Metric::sqeuclidean,
          .subspaces = parameters.pq_subspaces > 0 ? std::min(parameters.pq_subspaces, code_dim)
                                                   : std::max<std::int64_t>(1, code_dim / values_a_subspace),
          .training_rows = training_rows,
          .seed = parameters.seed};
}

std::shared_ptr<const WalkCodes> make_walk_codes(const Nodes& nodes, const codes::ScalarSpace& space,
                                                 const VamanaParameters& parameters,
                                                 std::shared_ptr<const codes::Coding> coding,
                                                 const Backend& backend, const Execution& execution) {
  if (parameters.codes == CodeKind::scalar || nodes.count == 0) return nullptr;
  const DatasetView rows = rows_of(nodes, space);
  auto made = std::make_shared<WalkCodes>();
  made->kind = parameters.codes;
  made->coding = std::move(coding);
  if (made->coding == nullptr) {
    if (parameters.codes == CodeKind::rabitq) {
      made->coding = codes::train_rabitq(rows, rabitq_of(parameters), execution);
    } else {
      made->coding = codes::train_pq_on(backend.k_means(execution), rows, pq_of(parameters, space.code_dim()),
                                        execution);
    }
  }
  made->codes = AlignedBuffer<std::uint8_t>(nodes.count * made->code_bytes());
  backend.encode(*made->coding, rows, made->codes.data(), execution);
  return made;
}

std::uint64_t walk_code_bytes(const codes::ScalarSpace& space, const VamanaParameters& parameters,
                              std::int64_t nodes) {
  const auto n = static_cast<std::uint64_t>(nodes);
  const auto dim = static_cast<std::uint64_t>(space.code_dim());
  if (parameters.codes == CodeKind::rabitq) {
    const auto bits = static_cast<std::uint64_t>(rabitq_of(parameters).bits);
    return n * (12 + (dim + 31) / 32 * 4 * bits) + dim * 64;
  }
  if (parameters.codes == CodeKind::pq) {
    // Centroids twice, and the rows that they are found from with a distance each.
    return n * static_cast<std::uint64_t>(pq_of(parameters, space.code_dim()).subspaces) + dim * 256 * 8 +
           std::min<std::uint64_t>(n, training_rows) * (dim + 4) * 4;
  }
  return 0;
}

RuledOut::RuledOut(const codes::ScalarSpace& space, const WalkCodes& codes, codes::Worker& worker,
                   const void* query)
    : limit_(space), codes_(codes), worker_(worker) {
  if (space.metric != Metric::inner_product) return;
  std::vector<double> values(static_cast<std::size_t>(space.dim));
  codes::row_kernels().load[static_cast<int>(space.dtype)](query, space.dim, values.data());
  norm_ = std::sqrt(codes::row_kernels().sum_of_squares(values.data(), space.dim));
}

double RuledOut::limit(double worst) const {
  return limit_.of(worst, norm_);
}

bool RuledOut::operator()(std::uint32_t node, double limit) const {
  float distance = 0;
  float bound = 0;
  worker_.estimate(codes_.codes.data() + std::int64_t{node} * codes_.code_bytes(), 1, &distance, &bound);
  return static_cast<double>(distance) - static_cast<double>(bound) > limit;
}

}  // namespace kith::vamana
