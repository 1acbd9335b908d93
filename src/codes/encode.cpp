// From rows to codes with certified residuals.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "codes/codes.hpp"
#include "codes/fine.hpp"
#include "codes/transform.hpp"
#include "core/parallel.hpp"
#include "core/rounding.hpp"

namespace kith::codes {
namespace {

// Scaling by a power of two is exact unless it underflows; ...
constexpr double underflow = 0x1p-1000;

// ... the subtraction rounds relative to its result.
double centering_error(double squares) {
  return underflow + 0x1p-52 * std::sqrt(squares) * 1.001;
}

}  // namespace

RowKind to_code_space(const CodeSpace& space, const RowKernels& kernels, double* y, double limit,
                      double& error) {
  const std::int64_t dim = space.dim;
  error = 0;
  if (!kernels.finite(y, dim)) {
    return kernels.has_nan(y, dim) ? RowKind::nan : RowKind::special;
  }
  if (space.metric == Metric::cosine) {
    if (kernels.largest(y, dim) == 0) return RowKind::regular;  // distance 1 to everything: y = 0 says so
    const double squares = kernels.sum_of_squares(y, dim);
    if (squares < 0x1p-900 || squares > 0x1p900) return RowKind::special;
    kernels.scale(y, 1 / std::sqrt(squares), dim);
    error = 0x1p-50 * (1 + static_cast<double>(dim) * 0x1p-2);
    return RowKind::regular;
  }
  if (space.mean.empty()) {
    kernels.scale(y, space.unit, dim);
  } else {
    kernels.center(y, space.mean.data(), space.unit, dim);
  }
  if (!(kernels.largest(y, dim) <= limit)) return RowKind::special;
  error = space.mean.empty() ? underflow : centering_error(kernels.sum_of_squares(y, dim));
  return RowKind::regular;
}

RowKind load_to_code_space(const CodeSpace& space, const RowKernels& kernels, const void* row, double* y,
                           double limit, double& error) {
  const int type = static_cast<int>(space.dtype);
  if (space.metric != Metric::cosine && !space.mean.empty()) {
    double largest = 0;
    double squares = 0;
    kernels.load_centered[type](row, space.mean.data(), space.unit, space.dim, y, &largest, &squares);
    if (largest <= limit && std::isfinite(squares)) {  // a NaN shows in the squares alone
      error = centering_error(squares);
      return RowKind::regular;
    }
  }
  kernels.load[type](row, space.dim, y);
  return to_code_space(space, kernels, y, limit, error);
}

void reduce(const CodeSpace& space, const RowKernels& kernels, Scratch& s, double& error) {
  if (space.projection == nullptr) return;
  double more = 0;
  project(*space.projection, kernels, s.y.data(), 1, s.z.data(), &more);
  error += more;
}

CodeRange row_range(const CodeSpace& space) {
  if (space.choice.narrow) return {narrow_offset, narrow_largest, narrow_row_lane};
  return {128, 127, 0};
}

CodeRange query_range(const CodeSpace& space) {
  // The absolute form compares bytes with bytes; the dot form multiplies row bytes by signed query bytes.
  if (space.choice.form == Form::absolute) return row_range(space);
  return {0, 127, space.choice.narrow ? narrow_query_lane : 0};
}

double quantize(const CodeSpace& space, const RowKernels& kernels, Scratch& s, CodeRange range) {
  const std::int64_t dim = space.values();
  const int offset = range.offset;
  double step = absolute_scale;
  if (space.choice.form != Form::absolute) {
    double least = kernels.largest(s.coded(), dim) / range.largest;
    if (range.lane > 0) {
      // Rounding lengthens a lane's 36 codes by sqrt(36) / 2 at most.
      static_assert(narrow_block * 2 == 36);
      least = std::max(least, std::sqrt(kernels.largest_lane(s.coded(), dim)) / (range.lane - 4));
    }
    step = static_cast<double>(static_cast<float>(least));
    if (step < 0x1p-60) {  // too near zero to be worth a scale of its own: code 0, the residual says the rest
      std::fill(s.decoded.begin(), s.decoded.end(), 0.0);
      std::fill(s.bytes.begin(), s.bytes.end(), static_cast<unsigned char>(offset));
      return 1;
    }
  }
  kernels.quantize(s.coded(), 1 / step, step, offset, dim, s.decoded.data(), s.bytes.data());
  std::fill(s.bytes.begin() + dim, s.bytes.end(), static_cast<unsigned char>(offset));
  return step;
}

namespace {

constexpr std::int64_t tile = 64;

// Encodes rows into the tiles of one task.
class RowEncoder {
 public:
  /// @param fine made as well, where there are any
  RowEncoder(Codes& codes, FineCodes* fine)
      : codes_(codes),
        fine_(fine),
        space_(codes.space),
        kernels_(row_kernels()),
        load_(kernels_.load[static_cast<int>(space_.dtype)]),
        s_(space_) {}

  /// Largest residual of the rows encoded so far (difference and absolute form).
  double largest_residual() const { return largest_residual_; }

  RowKind encode(const void* row, std::int64_t position) {
    if (space_.raw_integers()) {
      encode_integers(static_cast<const unsigned char*>(row), position);
      return RowKind::regular;
    }
    if (space_.choice.filter == Filter::none) {
      load_(row, space_.dim, s_.y.data());
      if (kernels_.finite(s_.y.data(), space_.dim)) return RowKind::regular;
      return kernels_.has_nan(s_.y.data(), space_.dim) ? RowKind::nan : RowKind::regular;
    }
    const bool differences = space_.choice.form == Form::difference || space_.choice.form == Form::absolute;
    double error = 0;
    const RowKind kind = load_to_code_space(space_, kernels_, row, s_.y.data(), limit(differences), error);
    if (kind != RowKind::regular) return kind;
    reduce(space_, kernels_, s_, error);
    const double scale = store(position);
    if (differences) {
      keep_residual(error);
    } else {
      dot_scalars(position, scale, error);
    }
    return kind;
  }

  /// Rows at successive positions, at most `group`: a projection takes several for little more than one.
  void encode_group(const std::vector<const void*>& rows, std::int64_t position, RowKind* kinds) {
    if (space_.projection == nullptr) {
      for (const void* row : rows) *kinds++ = encode(row, position++);
      return;
    }
    const auto dim = static_cast<std::size_t>(space_.dim);
    const auto room = static_cast<std::size_t>(space_.projection->room());
    group_y_.resize(group * dim);
    group_z_.resize(group * room);
    double before[group], errors[group];
    std::int64_t regular = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double* y = group_y_.data() + static_cast<std::size_t>(regular) * dim;
      kinds[i] = load_to_code_space(space_, kernels_, rows[i], y, limit(false), before[regular]);
      regular += kinds[i] == RowKind::regular ? 1 : 0;
    }
    if (space_.choice.filter == Filter::int8) {
      project_narrow(*space_.projection, kernels_, group_y_.data(), regular, group_z_.data(), errors,
                     narrow_);
    } else {
      project(*space_.projection, kernels_, group_y_.data(), regular, group_z_.data(), errors);
    }
    std::int64_t at = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (kinds[i] != RowKind::regular) continue;
      std::copy_n(group_z_.data() + static_cast<std::size_t>(at) * room, room, s_.z.data());
      const std::int64_t place = position + static_cast<std::int64_t>(i);
      const double scale = store(place);
      dot_scalars(place, scale, before[at] + errors[at]);
      if (fine_ != nullptr) fine_->put(place, s_.z.data(), before[at] + errors[at]);
      ++at;
    }
  }
  static constexpr int group = 8;

  /// Leaves defined values behind where there is no regular row: the tile's other rows are read with it.
  void blank(std::int64_t position) {
    if (space_.choice.filter == Filter::none) return;
    std::fill_n(s_.coded(), space_.values(), 0.0);
    std::fill(s_.decoded.begin(), s_.decoded.end(), 0.0);
    if (space_.raw_integers()) {
      const std::vector<unsigned char> zeros(static_cast<std::size_t>(space_.dim), 0);
      encode_integers(zeros.data(), position);
      return;
    }
    const double scale = store(position);
    if (!codes_.scale.empty()) dot_scalars(position, scale, 0);
  }

 private:
  double limit(bool differences) const {
    if (space_.choice.form == Form::absolute && space_.choice.filter == Filter::int8) {
      return absolute_range;
    }
    const bool one_residual = differences && (!space_.mean.empty() || space_.choice.filter == Filter::fp16);
    return one_residual ? largest_centered_entry : largest_row_entry;
  }

  void store_bytes(std::int64_t position) {
    unsigned char* to = codes_.codes.data() + position / tile * space_.bytes_per_tile() + position % tile * 4;
    for (std::int64_t s = 0; s < space_.steps(); ++s)
      std::memcpy(to + s * tile * 4, s_.bytes.data() + s * 4, 4);
  }

  template <class Code>
  Code* column(std::int64_t position) {
    return reinterpret_cast<Code*>(codes_.codes.data() + position / tile * space_.bytes_per_tile()) +
           position % tile;
  }

  // y to its code; fills decoded and returns the scale.
  double store(std::int64_t position) {
    const std::int64_t dim = space_.values();
    if (space_.choice.filter == Filter::int8) {
      const double scale = quantize(space_, kernels_, s_, row_range(space_));
      store_bytes(position);
      return scale;
    }
    if (space_.choice.filter == Filter::fp32) {
      kernels_.round_to_float(s_.coded(), dim, s_.floats.data(), s_.decoded.data());
      auto* to = column<float>(position);
      for (std::int64_t i = 0; i < dim; ++i) to[i * tile] = s_.floats[static_cast<std::size_t>(i)];
      return 1;
    }
    double scale = 1;  // a power of two, so that scale * code is exact
    if (space_.choice.form != Form::absolute) {
      const double largest = kernels_.largest(s_.coded(), dim);
      if (largest >= 0x1p-60) scale = std::ldexp(1.0, std::ilogb(largest));
    }
    auto* to = column<float16>(position);
    for (std::int64_t i = 0; i < dim; ++i) {
      const float16 code = to_float16(static_cast<float>(s_.coded()[i] / scale));
      to[i * tile] = code;
      s_.decoded[static_cast<std::size_t>(i)] = scale * to_float(code);
    }
    return scale;
  }

  void keep_residual(double error) {
    const bool absolute = space_.choice.form == Form::absolute;
    const double residual =
        absolute ? kernels_.residual_absolute(s_.y.data(), s_.decoded.data(), space_.dim)
                 : std::sqrt(kernels_.residual_squared(s_.y.data(), s_.decoded.data(), space_.dim));
    // The error of y itself is a 2-norm; the 1-norm is at most sqrt(dim) times that.
    const double factor = absolute ? std::sqrt(static_cast<double>(space_.dim)) : 1;
    largest_residual_ = std::max(largest_residual_, residual * (1 + sum_error) + error * factor * 1.001);
  }

  // The scalars of a dot form from y, y' and the bound on the error of y itself; see codes.hpp.
  void dot_scalars(std::int64_t position, double scale, double error) {
    const double rho = space_.rounding();
    const double decoded_sq = kernels_.sum_of_squares(s_.decoded.data(), space_.values());
    const double residual =
        std::sqrt(kernels_.residual_squared(s_.coded(), s_.decoded.data(), space_.values()));
    const double e = residual * (1 + sum_error) + error;
    constexpr double grow = 1 + 0x1p-19;
    codes_.scale[position] = static_cast<float>(scale);
    if (space_.choice.form == Form::triangle) {
      const double h = (decoded_sq * (1 - sum_error) - e * e) / 2;
      codes_.h[position] = round_down<float>(h - (0x1p-19 + rho) * (decoded_sq + e * e));
      codes_.e[position] = round_up<float>(e * grow);
      return;
    }
    const double norm = std::sqrt(kernels_.sum_of_squares(s_.coded(), space_.values()));
    const bool euclid = space_.metric == Metric::sqeuclidean || space_.metric == Metric::euclidean;
    const double lower = std::max(0.0, norm * (1 - sum_error) - error);
    codes_.h[position] = euclid ? round_down<float>(lower * lower / 2 * (1 - 0x1p-19)) : 0;
    codes_.g[position] = round_up<float>((norm * (1 + sum_error) + error) * grow);
    codes_.e[position] = round_up<float>(e * grow + 1.01 * rho * std::sqrt(decoded_sq) * (1 + sum_error));
  }

  // u8: the query is stored as q - 128, so x.q = dot + 128 sum(x). i8: the row is stored as x + 128 and the
  // query carries the correction.
  void encode_integers(const unsigned char* row, std::int64_t position) {
    const bool is_unsigned = space_.dtype == Dtype::u8;
    const std::int64_t dim = space_.dim;
    const unsigned char flip = is_unsigned ? 0 : 0x80;
    std::int32_t sum = 0;
    std::int32_t squares = 0;
    kernels_.store_integers(row, flip, dim, s_.bytes.data(), &sum, &squares);
    std::fill(s_.bytes.begin() + dim, s_.bytes.end(), flip);
    store_bytes(position);
    if (codes_.bias.empty()) return;
    const bool euclid = space_.metric == Metric::sqeuclidean || space_.metric == Metric::euclidean;
    codes_.bias[position] = (is_unsigned ? 128 * sum : 0) - (euclid ? squares / 2 : 0);
    if (space_.choice.form == Form::integer) return;
    // Cosine: y = x / |x|, the code is x itself.
    const double scale = squares == 0 ? 1 : static_cast<float>(1 / std::sqrt(static_cast<double>(squares)));
    load_(row, dim, s_.y.data());
    for (std::size_t i = 0; i < s_.y.size(); ++i) s_.decoded[i] = scale * s_.y[i];
    double error = 0;
    (void)to_code_space(space_, kernels_, s_.y.data(), largest_row_entry, error);
    dot_scalars(position, scale, error);
  }

  Codes& codes_;
  FineCodes* fine_;
  const CodeSpace& space_;
  const RowKernels& kernels_;
  void (*load_)(const void*, std::int64_t, double*);
  Scratch s_;
  std::vector<double> group_y_, group_z_;
  std::vector<float> narrow_;
  double largest_residual_ = 0;
};

// @param ids the rows, or null: all
// @param fine their fine codes as well, or null
Codes encode(const DatasetView& data, const CodeSpace& space, const Execution& execution,
             const std::vector<std::int64_t>* ids, FineCodes* fine) {
  Codes codes(space, ids == nullptr ? data.rows : static_cast<std::int64_t>(ids->size()));
  constexpr std::int64_t tiles_a_task = 32;
  const std::int64_t tasks = (codes.tiles + tiles_a_task - 1) / tiles_a_task;
  ProgressCounter progress(execution, "build", codes.tiles);
  std::mutex mutex;
  parallel_for(resolve_threads(execution), tasks, [&](std::int64_t task) {
    RowEncoder encoder(codes, fine);
    std::vector<std::int64_t> special;
    std::int64_t nan_rows = 0;
    const std::int64_t last = std::min(codes.tiles, (task + 1) * tiles_a_task);
    const auto row_at = [&](std::int64_t position) {
      return data.row(ids == nullptr ? position : (*ids)[static_cast<std::size_t>(position)]);
    };
    std::vector<const void*> rows;
    for (std::int64_t first = task * tiles_a_task * tile; first < last * tile; first += RowEncoder::group) {
      rows.clear();
      const std::int64_t end = std::min(first + RowEncoder::group, codes.rows);
      for (std::int64_t position = first; position < end; ++position) rows.push_back(row_at(position));
      RowKind kinds[RowEncoder::group];
      encoder.encode_group(rows, first, kinds);
      for (std::int64_t i = 0; i < RowEncoder::group; ++i) {
        const std::int64_t position = first + i;
        const bool is_row = position < codes.rows;
        if (is_row && kinds[i] == RowKind::regular) {
          codes.valid[static_cast<std::size_t>(position / tile)] |= std::uint64_t{1} << (position % tile);
          continue;
        }
        encoder.blank(position);
        if (is_row && kinds[i] == RowKind::special) special.push_back(position);
        if (is_row && kinds[i] == RowKind::nan) ++nan_rows;
      }
    }
    {
      const std::scoped_lock lock(mutex);
      codes.special.insert(codes.special.end(), special.begin(), special.end());
      codes.nan_rows += nan_rows;
      codes.largest_residual = std::max(codes.largest_residual, encoder.largest_residual());
    }
    progress.advance(last - task * tiles_a_task);
  });
  std::sort(codes.special.begin(), codes.special.end());
  progress.finish();
  return codes;
}

}  // namespace

Codes encode_rows(const DatasetView& data, const CodeSpace& space, const Execution& execution,
                  const std::vector<std::int64_t>* ids) {
  return encode(data, space, execution, ids, nullptr);
}

Codes encode_rows_finely(const DatasetView& data, const CodeSpace& space, FineCodes& fine,
                         const Execution& execution) {
  return encode(data, space, execution, nullptr, &fine);
}

}  // namespace kith::codes
