// How many bits a value. Walks over long codes wait for memory, so half the bytes save time, and the rounding
// of many values evens out. It does not where rows lie closer together than a step of such codes, as in tight
// clusters, so a sample of rows is asked whether codes tell its nearest neighbours from those around.
#include "vamana/code_space.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "kith/brute_force.hpp"
#include "select_k/allowed_rows.hpp"
#include "vamana/calibrate.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

constexpr std::size_t encoded_between_polls = 16;

// Of a row's nearest neighbours, how many stand early in the order of the codes of its whole neighbourhood.
// Equal codes stand in the order of their rows, which says nothing.
class OrderOfCodes {
 public:
  OrderOfCodes(const DatasetView& rows, const codes::ScalarSpace& space)
      : rows_(rows),
        bytes_(space.code_bytes()),
        codec_(space),
        estimate_(codes::estimates_of(space)),
        query_(static_cast<std::size_t>(bytes_)) {}

  struct Share {
    std::int64_t early = 0, of = 0;
  };

  // Nothing for a row with few others. @param found rows, nearest first; -1 where there are none left
  Share look(std::int64_t row, std::span<const std::int64_t> found, StopRequest& stop) {
    near_.clear();
    for (const std::int64_t other : found) {
      if (other >= 0 && other != row) near_.push_back(other);
    }
    if (static_cast<std::int64_t>(near_.size()) < tuning::neighborhood ||
        !codec_.encode_query(rows_.row(row), query_.data())) {
      return {};
    }
    codes_.resize(near_.size() * query_.size());
    for (std::size_t i = 0; i < near_.size(); ++i) {
      if (i % encoded_between_polls == 0) stop.check();
      // One with a NaN is not among them: its distance is none.
      (void)codec_.encode_row(rows_.row(near_[i]), codes_.data() + i * query_.size());
    }
    places_.resize(near_.size());
    std::iota(places_.begin(), places_.end(), 0U);
    estimates_.resize(near_.size());
    estimate_(codes_.data(), bytes_, query_.data(), places_.data(), static_cast<std::int64_t>(near_.size()),
              estimates_.data());
    const auto early = places_.begin() + tuning::early_places;
    std::partial_sort(places_.begin(), early, places_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(estimates_[a], near_[a]) < std::pair(estimates_[b], near_[b]);
    });
    return {.early = std::count_if(places_.begin(), early,
                                   [](std::uint32_t place) { return place < tuning::nearest_of_sample; }),
            .of = tuning::nearest_of_sample};
  }

 private:
  const DatasetView& rows_;
  std::int64_t bytes_;
  codes::ScalarCodec codec_;
  decltype(codes::EstimateKernels::gathered) estimate_;
  std::vector<std::uint8_t> query_, codes_;
  std::vector<std::int64_t> near_;
  std::vector<std::uint32_t> places_;
  std::vector<std::int32_t> estimates_;
};

bool keeps_order(const DatasetView& rows, const codes::ScalarSpace& space, const Execution& execution) {
  const std::vector<std::int64_t> sample = sample_rows(rows.rows, tuning::order_sample);
  const Dataset queries = pick_rows(rows, sample);
  const Neighbors found = knn(rows, queries, tuning::neighborhood + 1, {space.metric, Filter::automatic},
                              without_progress(execution));
  StopRequest stop(execution);
  std::atomic<std::int64_t> early{0};
  std::atomic<std::int64_t> of{0};
  const auto count = static_cast<std::int64_t>(sample.size());
  parallel_for(resolve_threads(execution), count, [&](std::int64_t i) {
    const auto share =
        OrderOfCodes(rows, space).look(sample[static_cast<std::size_t>(i)], found.indices_of(i), stop);
    early += share.early;
    of += share.of;
  });
  return of > 0 && static_cast<double>(early.load()) >= tuning::share_early * static_cast<double>(of.load());
}

}  // namespace

codes::ScalarShape shape_of(const VamanaParameters& parameters, std::int64_t dim) {
  return {.bits = parameters.code_bits == 4 ? 4 : 8,
          .dim = parameters.code_dim >= dim ? -1 : parameters.code_dim};
}

codes::ScalarSpace make_code_space(const DatasetView& rows, VamanaParameters& parameters,
                                   const Execution& execution) {
  codes::ScalarSpace space =
      codes::make_scalar_space(rows, parameters.metric, execution, shape_of(parameters, rows.dim));
  if (parameters.code_bits != 0 || rows.rows == 0) return space;  // the first rows inserted decide
  parameters.code_bits = 8;
  if (parameters.codes != CodeKind::scalar || space.raw_integers() ||
      space.code_dim() < tuning::fewest_halved || rows.rows < tuning::fewest_rows_halved) {
    return space;
  }
  codes::ScalarSpace halved = codes::with_bits(rows, space, 4, execution);
  if (!keeps_order(rows, halved, execution)) return space;
  parameters.code_bits = 4;
  return halved;
}

}  // namespace kith::vamana
