// What a multiply-add of each kind of code takes, and what surrounds it: kernels alone, on rows that lie in a
// cache as those of a block of a search do.
#include "brute_force/measure.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "brute_force/cpu/filter.hpp"
#include "codes/codes.hpp"
#include "core/parallel.hpp"
#include "core/shortest.hpp"
#include "distance/canonical.hpp"
#include "kith/generate.hpp"

namespace kith::brute_force {
namespace {

constexpr Metric metric = Metric::sqeuclidean;
constexpr std::int64_t dim = 256;

Dataset uniform(std::int64_t rows, std::int64_t dimension, const Execution& execution) {
  GenerateParameters parameters;
  parameters.rows = rows;
  parameters.dim = dimension;
  return generate(parameters, execution);
}

std::vector<double> values_of(const DatasetView& data, std::int64_t row) {
  std::vector<double> values(static_cast<std::size_t>(canonical_padded(data.dim)));
  (void)prepare_canonical_query(data.row(row), data.dtype, data.dim, metric, values.data());
  return values;
}

// A multiply-add of all threads together, nothing kept.
double multiply_add(const DatasetView& data, codes::CodeChoice choice, const Execution& execution) {
  constexpr std::int64_t queries = 64;
  const codes::Codes codes =
      codes::encode_rows(data, codes::make_code_space(data, metric, choice), execution);
  FilterQueries filter(codes, queries);
  for (std::int64_t q = 0; q < queries; ++q) {
    if (filter.add(values_of(data, q).data()) == codes::RowKind::regular) filter.set_bound(q, 0);
  }
  const TileFunction kernel = filter_kernel(choice);
  const double seconds = shortest(execution, [&] {
    parallel_for(execution, codes.tiles, [&](std::int64_t t) {
      std::vector<std::uint64_t> masks(static_cast<std::size_t>(filter.size()));
      kernel(tile_of(codes, t), filter.view(), 0, filter.size(), masks.data());
    });
  });
  return 1e9 * seconds / static_cast<double>(codes.rows * filter.size() * data.dim);
}

// Distances to rows in no order.
double evaluation(std::int64_t dimension, const Execution& execution) {
  const Dataset data = uniform(std::int64_t{32} << 10U, dimension, execution);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(data.rows()));
  std::iota(ids.begin(), ids.end(), 0);
  // A stride that is no divisor of their number comes by every row, and far from the one before.
  constexpr std::int64_t stride = 12'345;
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) * stride % data.rows();
  std::vector<double> query(static_cast<std::size_t>(canonical_padded(dimension)));
  const auto prepared =
      prepare_canonical_query(data.view().row(0), data.dtype(), dimension, metric, query.data());
  const CanonicalFunction function = canonical_function(data.dtype(), metric);
  std::vector<double> found(ids.size());
  constexpr std::int64_t part = 1024;
  const double seconds = shortest(execution, [&] {
    parallel_for(execution, data.rows() / part, [&](std::int64_t i) {
      function(canonical_rows(data), prepared, ids.data() + i * part, part, found.data() + i * part);
    });
  });
  return 1e9 * seconds / static_cast<double>(data.rows());
}

}  // namespace

void measure_filters(WorkTimes& times, const Execution& asked) {
  const Execution execution = without_progress(asked);
  const Dataset data = uniform(std::int64_t{8} << 10U, dim, execution);
  std::optional<codes::CodeSpace> bytes;
  for (const codes::CodeChoice choice : codes::possible_codes(data.dtype(), metric, dim)) {
    if (choice.form != codes::Form::triangle || choice.filter == Filter::none) continue;
    double& time = choice.filter == Filter::fp32   ? times.fp32
                   : choice.filter == Filter::fp16 ? times.fp16
                   : choice.narrow                 ? times.int7
                                                   : times.int8;
    time = multiply_add(data, choice, execution);
    if (choice.filter == Filter::int8 && !bytes) bytes = codes::make_code_space(data, metric, choice);
  }
  if (times.int7 == 0) times.int7 = times.int8;

  constexpr std::int64_t few = 32;
  const double short_row = evaluation(few, execution);
  const double long_row = evaluation(4 * dim, execution);
  times.exact_value = (long_row - short_row) / static_cast<double>(4 * dim - few);
  // Rows cost something before their first value, however the figures of a disturbed machine fall out.
  times.exact_row = std::max(short_row - static_cast<double>(few) * times.exact_value, short_row / 4);

  constexpr std::int64_t count = 64;
  const codes::CodeSpace space = codes::real_valued(data, *bytes);
  codes::PrincipalDirections found;
  times.directions =
      1e9 * shortest(execution, [&] { found = codes::directions_of(data, space, count, execution); }) /
      static_cast<double>(dim * dim * dim);
  const auto encoded = [&](const codes::CodeSpace& how) {
    return shortest(execution, [&] { (void)codes::encode_rows(data, how, execution); });
  };
  codes::CodeSpace along = space;
  along.projection = std::make_shared<codes::Projection>(codes::make_projection(found, count));
  times.projection = 1e9 * encoded(along) / static_cast<double>(data.rows() * dim * count);
}

}  // namespace kith::brute_force
