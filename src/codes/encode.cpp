// From rows and queries to codes with certified residuals.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "codes/codes.hpp"
#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"

namespace kith {
namespace {

constexpr std::int64_t tile = 64;
constexpr std::int64_t panel = 16;

// A row is special when an entry exceeds this in code space, where the rows' 99th percentile is about 1.
constexpr double largest_row_entry = 0x1p12;
// The difference form has one residual bound for all rows of centred data: far rows would spoil it for the
// rest.
constexpr double largest_centred_entry = 0x1p5;
constexpr double largest_query_entry = 0x1p30;
// The absolute form has one int8 scale for all rows; rows beyond its range are evaluated exactly.
constexpr double absolute_range = 2;
constexpr double absolute_scale = absolute_range / 127;
constexpr double float_epsilon = 0x1p-24;

float round_up(double x) {
  const auto f = static_cast<float>(x);
  return static_cast<double>(f) < x ? std::nextafterf(f, std::numeric_limits<float>::infinity()) : f;
}
float round_down(double x) {
  const auto f = static_cast<float>(x);
  return static_cast<double>(f) > x ? std::nextafterf(f, -std::numeric_limits<float>::infinity()) : f;
}

// Sums that are within a factor 1 + 2^-40 of the real ones for any dimension below 2^12 * 2^50; the bounds
// below add that much and more.
double sum_of_squares(const double* y, std::int64_t dim) {
  double lane[4] = {};
  std::int64_t i = 0;
  for (; i + 4 <= dim; i += 4) {
    for (int l = 0; l < 4; ++l) lane[l] += y[i + l] * y[i + l];
  }
  for (; i < dim; ++i) lane[0] += y[i] * y[i];
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

double largest_entry(const double* y, std::int64_t dim) {
  double largest = 0;
  for (std::int64_t i = 0; i < dim; ++i) largest = std::max(largest, std::fabs(y[i]));
  return largest;  // NaN entries are caught by the caller's sum
}

enum class RowKind : std::uint8_t { regular, special, nan };

// Row to code space, in place. `error` bounds |computed y - real y|.
RowKind to_code_space(const CodeSpace& space, double* y, double limit, double& error) {
  const std::int64_t dim = space.dim;
  double sum = 0;
  for (std::int64_t i = 0; i < dim; ++i) sum += y[i] * 0.0;  // 0, or NaN when any entry is NaN or infinite
  if (sum != 0 || std::isnan(sum)) {
    for (std::int64_t i = 0; i < dim; ++i) {
      if (std::isnan(y[i])) return RowKind::nan;
    }
    return RowKind::special;
  }
  if (space.metric == Metric::cosine) {
    const double sq = sum_of_squares(y, dim);
    if (largest_entry(y, dim) == 0) {
      error = 0;
      return RowKind::regular;  // distance 1 to everything: y = 0 says so
    }
    if (sq < 0x1p-900 || sq > 0x1p900) return RowKind::special;
    const double inverse = 1 / std::sqrt(sq);
    for (std::int64_t i = 0; i < dim; ++i) y[i] *= inverse;
    error = 0x1p-50 * (1 + static_cast<double>(dim) * 0x1p-2);
    return RowKind::regular;
  }
  if (space.mean.empty()) {
    for (std::int64_t i = 0; i < dim; ++i) y[i] *= space.unit;
  } else {
    for (std::int64_t i = 0; i < dim; ++i)
      y[i] = (y[i] - space.mean[static_cast<std::size_t>(i)]) * space.unit;
  }
  if (!(largest_entry(y, dim) <= limit)) return RowKind::special;
  // Scaling by a power of two is exact unless it underflows; the subtraction rounds relative to its result.
  error = 0x1p-52 * std::sqrt(sum_of_squares(y, dim)) * 1.001 + 0x1p-1000;
  return RowKind::regular;
}

// Collects a tile's scalars and valid bits.
struct TileWriter {
  Codes& codes;
  std::int64_t at;  // position of the row

  void scalars(double scale_value, double h_value, double g_value, double e_value) const {
    codes.scale[at] = static_cast<float>(scale_value);
    codes.h[at] = round_down(h_value);
    if (!codes.g.empty()) codes.g[at] = round_up(g_value);
    codes.e[at] = round_up(e_value);
  }
};

void store_int8(Codes& codes, std::int64_t position, const int* values, int offset) {
  const std::int64_t dim = codes.space.dim;
  const std::int64_t steps = codes.space.steps();
  unsigned char* base =
      codes.codes.data() + position / tile * codes.space.bytes_per_tile() + position % tile * 4;
  for (std::int64_t s = 0; s < steps; ++s) {
    for (std::int64_t j = 0; j < 4; ++j) {
      const std::int64_t i = s * 4 + j;
      base[s * tile * 4 + j] = static_cast<unsigned char>(i < dim ? values[i] + offset : offset);
    }
  }
}

template <class Code>
Code* float_codes(Codes& codes, std::int64_t position) {
  return reinterpret_cast<Code*>(codes.codes.data() + position / tile * codes.space.bytes_per_tile()) +
         position % tile;
}

// Scratch space of one thread.
struct Scratch {
  std::vector<double> y;
  std::vector<double> coded;
  std::vector<int> integers;
  explicit Scratch(std::int64_t dim)
      : y(static_cast<std::size_t>(dim)),
        coded(static_cast<std::size_t>(dim)),
        integers(static_cast<std::size_t>(dim)) {}
};

// The scalars of a dot form from y, y' and the bound on the error of y itself (see the header).
void dot_scalars(const TileWriter& out, const CodeSpace& space, const Scratch& s, double scale,
                 double error) {
  const double rho = space.rounding();
  double residual = 0;
  for (std::int64_t i = 0; i < space.dim; ++i) {
    const double difference = s.y[static_cast<std::size_t>(i)] - s.coded[static_cast<std::size_t>(i)];
    residual += difference * difference;
  }
  const double norm_sq = sum_of_squares(s.y.data(), space.dim);
  const double coded_sq = sum_of_squares(s.coded.data(), space.dim);
  const double e = std::sqrt(residual) * (1 + 0x1p-30) + error;
  const double norm = std::sqrt(norm_sq) * (1 + 0x1p-30) + error;
  const double coded_norm = std::sqrt(coded_sq) * (1 + 0x1p-30);
  constexpr double grow = 1 + 0x1p-19;
  if (space.choice.form == FilterForm::triangle) {
    const double h = (coded_sq * (1 - 0x1p-30) - e * e) / 2;
    out.scalars(scale, h - (0x1p-19 + rho) * (coded_sq + e * e), 0, e * grow);
  } else {
    const bool euclid = space.metric == Metric::sqeuclidean || space.metric == Metric::euclidean;
    const double lower = std::max(0.0, std::sqrt(norm_sq) * (1 - 0x1p-30) - error);
    const double h = euclid ? lower * lower / 2 * (1 - 0x1p-19) : 0;
    out.scalars(scale, h, norm * grow, e * grow + 1.01 * rho * coded_norm);
  }
}

void encode_raw_integers(Codes& codes, std::int64_t position, Scratch& s) {
  const CodeSpace& space = codes.space;
  const std::int64_t dim = space.dim;
  std::int64_t sum = 0;
  std::int64_t squares = 0;
  for (std::int64_t i = 0; i < dim; ++i) {
    const int v = static_cast<int>(s.y[static_cast<std::size_t>(i)]);
    s.integers[static_cast<std::size_t>(i)] = v;
    sum += v;
    squares += static_cast<std::int64_t>(v) * v;
  }
  // u8: the query is stored as q - 128, so x.q = dot + 128 sum(x). i8: the row is stored as x + 128 and the
  // query carries the correction.
  const bool is_unsigned = space.dtype == Dtype::u8;
  store_int8(codes, position, s.integers.data(), is_unsigned ? 0 : 128);
  std::int64_t start = is_unsigned ? 128 * sum : 0;
  if (space.choice.form == FilterForm::absolute) {
    start = 0;
  } else if (space.choice.form == FilterForm::integer) {
    if (space.metric != Metric::inner_product) start -= squares / 2;
  } else {  // cosine: y = x / |x|, the code is x itself
    const TileWriter out{codes, position};
    const double scale = squares == 0 ? 1 : static_cast<float>(1 / std::sqrt(static_cast<double>(squares)));
    double error = 0;
    (void)to_code_space(space, s.y.data(), largest_row_entry, error);
    for (std::int64_t i = 0; i < dim; ++i) {
      s.coded[static_cast<std::size_t>(i)] = scale * s.integers[static_cast<std::size_t>(i)];
    }
    dot_scalars(out, space, s, scale, error);
  }
  if (!codes.start.empty()) codes.start[position] = static_cast<std::int32_t>(start);
}

// Rounds y to int8 with the scale that its largest entry asks for.
double quantise_int8(const double* y, std::int64_t dim, int* out) {
  const double largest = largest_entry(y, dim);
  const auto scale = static_cast<double>(static_cast<float>(largest / 127));
  if (scale < 0x1p-60) {
    for (std::int64_t i = 0; i < dim; ++i) out[i] = 0;
    return 1;
  }
  const double inverse = 1 / scale;
  for (std::int64_t i = 0; i < dim; ++i) {
    const double v = y[i] * inverse;
    out[i] = static_cast<int>(v < -127 ? -127 : (v > 127 ? 127 : (v < 0 ? v - 0.5 : v + 0.5)));
  }
  return scale;
}

int absolute_code(double y) {
  const double v = y / absolute_scale;
  return static_cast<int>(v < -127 ? -127 : (v > 127 ? 127 : (v < 0 ? v - 0.5 : v + 0.5)));
}

// Codes whose differences are taken as they are: one scale for all rows.
void code_difference_form(Codes& codes, std::int64_t position, Scratch& s) {
  const std::int64_t dim = codes.space.dim;
  if (codes.space.choice.filter == Filter::int8) {
    for (std::size_t i = 0; i < s.y.size(); ++i) {
      s.integers[i] = absolute_code(s.y[i]);
      s.coded[i] = s.integers[i] * absolute_scale;
    }
    store_int8(codes, position, s.integers.data(), 128);
  } else if (codes.space.choice.filter == Filter::fp16) {
    auto* out = float_codes<float16>(codes, position);
    for (std::int64_t i = 0; i < dim; ++i) {
      const float16 code = to_float16(static_cast<float>(s.y[static_cast<std::size_t>(i)]));
      out[i * tile] = code;
      s.coded[static_cast<std::size_t>(i)] = to_float(code);
    }
  } else {
    auto* out = float_codes<float>(codes, position);
    for (std::int64_t i = 0; i < dim; ++i) {
      const auto code = static_cast<float>(s.y[static_cast<std::size_t>(i)]);
      out[i * tile] = code;
      s.coded[static_cast<std::size_t>(i)] = code;
    }
  }
}

RowKind encode_row(Codes& codes, std::int64_t position, Scratch& s, double& residual_max) {
  const CodeSpace& space = codes.space;
  const std::int64_t dim = space.dim;
  if (space.raw_integers()) {
    encode_raw_integers(codes, position, s);
    return RowKind::regular;
  }
  double error = 0;
  const bool difference_form =
      space.choice.form == FilterForm::difference || space.choice.form == FilterForm::absolute;
  const bool one_scale = space.choice.form == FilterForm::absolute && space.choice.filter == Filter::int8;
  const double limit = one_scale ? absolute_range
                       : difference_form && (!space.mean.empty() || space.choice.filter == Filter::fp16)
                           ? largest_centred_entry
                           : largest_row_entry;
  const RowKind kind = to_code_space(space, s.y.data(), limit, error);
  if (kind != RowKind::regular) {
    // The tile's other rows are still read: leave defined values behind.
    std::fill(s.y.begin(), s.y.end(), 0.0);
    error = 0;
  }
  if (difference_form) {
    code_difference_form(codes, position, s);
    double residual = 0;
    for (std::size_t i = 0; i < s.y.size(); ++i) {
      const double difference = std::fabs(s.y[i] - s.coded[i]);
      residual += space.choice.form == FilterForm::absolute ? difference : difference * difference;
    }
    if (space.choice.form == FilterForm::difference) residual = std::sqrt(residual);
    // In the absolute form the error of y is wanted in the 1-norm. Uncentred, y is exact but for underflow.
    const double norm_factor =
        space.choice.form == FilterForm::absolute ? std::sqrt(static_cast<double>(dim)) : 1;
    const double exact = space.mean.empty() ? 0x1p-1000 : error;
    residual_max = std::max(residual_max, residual * (1 + 0x1p-30) + exact * norm_factor * 1.001);
    return kind;
  }
  const TileWriter out{codes, position};
  double scale = 1;
  if (space.choice.filter == Filter::int8) {
    scale = quantise_int8(s.y.data(), dim, s.integers.data());
    for (std::int64_t i = 0; i < dim; ++i) {
      s.coded[static_cast<std::size_t>(i)] = scale * s.integers[static_cast<std::size_t>(i)];
    }
    store_int8(codes, position, s.integers.data(), 128);
  } else if (space.choice.filter == Filter::fp16) {
    const double largest = largest_entry(s.y.data(), dim);
    scale = largest < 0x1p-60 ? 1 : std::ldexp(1.0, std::ilogb(largest));
    auto* to = float_codes<float16>(codes, position);
    for (std::int64_t i = 0; i < dim; ++i) {
      const float16 code = to_float16(static_cast<float>(s.y[static_cast<std::size_t>(i)] / scale));
      to[i * tile] = code;
      s.coded[static_cast<std::size_t>(i)] = scale * to_float(code);
    }
  } else {
    auto* to = float_codes<float>(codes, position);
    for (std::int64_t i = 0; i < dim; ++i) {
      const auto code = static_cast<float>(s.y[static_cast<std::size_t>(i)]);
      to[i * tile] = code;
      s.coded[static_cast<std::size_t>(i)] = code;
    }
  }
  dot_scalars(out, space, s, scale, error);
  return kind;
}

}  // namespace

double CodeSpace::rounding() const {
  // Eight roundings of the score; a sum of dim products in float32 adds at most two each.
  const double sum =
      choice.filter == Filter::int8 ? 0 : (2 * static_cast<double>(dim) + 16) * float_epsilon * 1.01;
  return 0x1p-21 + sum;
}

std::int64_t CodeSpace::bytes_per_tile() const {
  switch (choice.filter) {
    case Filter::int8: return steps() * 4 * tile;
    case Filter::fp16: return steps() * 2 * tile;
    case Filter::fp32: return steps() * 4 * tile;
    default: return 0;
  }
}

std::uint64_t Codes::bytes() const {
  return codes.bytes() + scale.bytes() + h.bytes() + g.bytes() + e.bytes() + start.bytes() +
         valid.size() * sizeof(std::uint64_t) + special.size() * sizeof(std::int64_t);
}

namespace {

struct ScalarArrays {
  bool scale = false;  // and h, e
  bool g = false;
  bool start = false;
};

ScalarArrays scalar_arrays(const CodeSpace& space) {
  ScalarArrays need;
  need.scale = space.choice.form == FilterForm::triangle || space.choice.form == FilterForm::cauchy;
  need.g = space.choice.form == FilterForm::cauchy;
  need.start = space.raw_integers() && space.choice.form != FilterForm::absolute;
  return need;
}

}  // namespace

std::uint64_t code_bytes(const CodeSpace& space, std::int64_t rows) {
  if (space.choice.filter == Filter::none) return static_cast<std::uint64_t>(rows) / 8;
  const ScalarArrays need = scalar_arrays(space);
  const std::uint64_t tiles = static_cast<std::uint64_t>((rows + tile - 1) / tile);
  const std::uint64_t scalars = (need.scale ? 12U : 0U) + (need.g ? 4U : 0U) + (need.start ? 4U : 0U);
  return tiles * (static_cast<std::uint64_t>(space.bytes_per_tile()) + 64 * scalars + 8);
}

CodeSpace make_code_space(const DatasetView& data, Metric metric, CodeChoice choice) {
  CodeSpace space;
  space.dtype = data.dtype;
  space.metric = metric;
  space.choice = choice;
  space.dim = data.dim;
  if (space.raw_integers() || metric == Metric::cosine || choice.filter == Filter::none) return space;

  // Any mean and unit give valid bounds, so a sample will do.
  constexpr std::int64_t sample_rows = 8192;
  const std::int64_t step = std::max<std::int64_t>(1, data.rows / sample_rows);
  const bool difference_form = choice.form == FilterForm::difference || choice.form == FilterForm::absolute;
  // float32 and narrower data need no centring in the difference form: q - x is exact to one rounding.
  const bool centred = metric != Metric::inner_product && !(difference_form && data.dtype != Dtype::f64);
  std::vector<double> row(static_cast<std::size_t>(data.dim));
  std::vector<double> sum(static_cast<std::size_t>(data.dim), 0.0);
  const auto load = [&](std::int64_t i) {
    visit_dtype(data.dtype, [&]<class T>(T /*tag*/) {
      const T* values = static_cast<const T*>(data.row(i));
      for (std::int64_t j = 0; j < data.dim; ++j) row[static_cast<std::size_t>(j)] = to_double(values[j]);
    });
    return std::all_of(row.begin(), row.end(), [](double v) { return std::isfinite(v); });
  };
  if (centred) {
    // Rows far from the rest must not drag the mean away: clamp to the range of the bulk by two passes.
    std::int64_t count = 0;
    std::vector<double> largest;
    for (std::int64_t i = 0; i < data.rows; i += step) {
      if (load(i)) largest.push_back(largest_entry(row.data(), data.dim));
    }
    double bulk = std::numeric_limits<double>::max();
    if (!largest.empty()) {
      const auto at = largest.begin() + static_cast<std::ptrdiff_t>((largest.size() - 1) * 9 / 10);
      std::nth_element(largest.begin(), at, largest.end());
      bulk = *at * 4;
    }
    for (std::int64_t i = 0; i < data.rows; i += step) {
      if (!load(i) || largest_entry(row.data(), data.dim) > bulk) continue;
      ++count;
      for (std::size_t j = 0; j < row.size(); ++j) sum[j] += (row[j] - sum[j]) / static_cast<double>(count);
    }
    space.mean = sum;
  }
  std::vector<double> largest;
  for (std::int64_t i = 0; i < data.rows; i += step) {
    if (!load(i)) continue;
    if (centred) {
      for (std::size_t j = 0; j < row.size(); ++j) row[j] -= space.mean[j];
    }
    const double value = largest_entry(row.data(), data.dim);
    if (value > 0 && std::isfinite(value)) largest.push_back(value);
  }
  if (!largest.empty()) {
    const auto at = largest.begin() + static_cast<std::ptrdiff_t>((largest.size() - 1) * 99 / 100);
    std::nth_element(largest.begin(), at, largest.end());
    const int exponent = std::clamp(-std::ilogb(*at), -960, 960);
    space.unit = std::ldexp(1.0, exponent);
  }
  return space;
}

Codes encode(const DatasetView& data, const CodeSpace& space, const Execution& execution,
             const std::vector<std::int64_t>* ids) {
  Codes codes;
  codes.space = space;
  codes.rows = ids == nullptr ? data.rows : static_cast<std::int64_t>(ids->size());
  codes.tiles = (codes.rows + tile - 1) / tile;
  const std::int64_t padded = codes.tiles * tile;
  codes.valid.assign(static_cast<std::size_t>(codes.tiles), 0);
  const bool coded = space.choice.filter != Filter::none;
  if (coded) {
    const ScalarArrays need = scalar_arrays(space);
    codes.codes = AlignedBuffer<unsigned char>(codes.tiles * space.bytes_per_tile());
    if (need.scale) {
      codes.scale = AlignedBuffer<float>(padded);
      codes.h = AlignedBuffer<float>(padded);
      codes.e = AlignedBuffer<float>(padded);
    }
    if (need.g) codes.g = AlignedBuffer<float>(padded);
    if (need.start) codes.start = AlignedBuffer<std::int32_t>(padded);
  }
  constexpr std::int64_t tiles_a_task = 32;
  const std::int64_t tasks = (codes.tiles + tiles_a_task - 1) / tiles_a_task;
  ProgressCounter progress(execution, "build", codes.tiles);
  std::mutex mutex;
  parallel_for(resolve_threads(execution), tasks, [&](std::int64_t task) {
    Scratch scratch(space.dim);
    std::vector<std::int64_t> special;
    std::int64_t nan_rows = 0;
    double residual = 0;
    const std::int64_t last = std::min(codes.tiles, (task + 1) * tiles_a_task);
    for (std::int64_t t = task * tiles_a_task; t < last; ++t) {
      std::uint64_t valid = 0;
      for (std::int64_t r = 0; r < tile; ++r) {
        const std::int64_t position = t * tile + r;
        if (position >= codes.rows) {
          if (coded) {  // padding: defined, never valid
            std::fill(scratch.y.begin(), scratch.y.end(), 0.0);
            (void)encode_row(codes, position, scratch, residual);
          }
          continue;
        }
        const std::int64_t row = ids == nullptr ? position : (*ids)[static_cast<std::size_t>(position)];
        visit_dtype(data.dtype, [&]<class T>(T /*tag*/) {
          const T* values = static_cast<const T*>(data.row(row));
          for (std::int64_t i = 0; i < space.dim; ++i)
            scratch.y[static_cast<std::size_t>(i)] = to_double(values[i]);
        });
        RowKind kind = RowKind::regular;
        if (coded) {
          kind = encode_row(codes, position, scratch, residual);
        } else if (std::any_of(scratch.y.begin(), scratch.y.end(), [](double v) { return std::isnan(v); })) {
          kind = RowKind::nan;
        }
        if (kind == RowKind::regular) valid |= std::uint64_t{1} << r;
        if (kind == RowKind::special) special.push_back(position);
        if (kind == RowKind::nan) ++nan_rows;
      }
      codes.valid[static_cast<std::size_t>(t)] = valid;
    }
    {
      const std::scoped_lock lock(mutex);
      codes.special.insert(codes.special.end(), special.begin(), special.end());
      codes.nan_rows += nan_rows;
      codes.largest_residual = std::max(codes.largest_residual, residual);
    }
    progress.advance(last - task * tiles_a_task);
  });
  std::sort(codes.special.begin(), codes.special.end());
  progress.finish();
  return codes;
}

QueryCode encode_query(const CodeSpace& space, const double* values, void* out) {
  QueryCode code;
  const std::int64_t dim = space.dim;
  Scratch s(dim);
  std::copy(values, values + dim, s.y.begin());
  std::memset(out, 0, static_cast<std::size_t>(space.query_stride_bytes()));
  auto* bytes = static_cast<signed char*>(out);
  auto* floats = static_cast<float*>(out);

  if (space.choice.form == FilterForm::absolute && space.choice.filter == Filter::int8) {
    // Bytes as the rows have them, padding included.
    const int offset = space.raw_integers() && space.dtype == Dtype::u8 ? 0 : 128;
    double error = 0;
    if (!space.raw_integers()) {
      switch (to_code_space(space, s.y.data(), largest_query_entry, error)) {
        case RowKind::nan: code.kind = QueryCode::Kind::nan; return code;
        case RowKind::special: code.kind = QueryCode::Kind::special; return code;
        case RowKind::regular: break;
      }
    }
    std::memset(out, offset, static_cast<std::size_t>(space.query_stride_bytes()));
    double residual = 0;
    for (std::int64_t i = 0; i < dim; ++i) {
      const double y = s.y[static_cast<std::size_t>(i)];
      const int v = space.raw_integers() ? static_cast<int>(y) : absolute_code(y);
      bytes[i] = static_cast<signed char>(static_cast<unsigned char>(v + offset));
      if (!space.raw_integers()) residual += std::fabs(y - v * absolute_scale);
    }
    code.scale = space.raw_integers() ? 1 : absolute_scale;
    code.residual = residual * (1 + 0x1p-30) + error * std::sqrt(static_cast<double>(dim)) * 1.001;
    return code;
  }
  if (space.raw_integers()) {
    const bool is_unsigned = space.dtype == Dtype::u8;
    std::int64_t sum = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < dim; ++i) {
      const int v = static_cast<int>(values[i]);
      bytes[i] = static_cast<signed char>(is_unsigned ? v - 128 : v);
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    code.start = is_unsigned ? 0 : static_cast<std::int32_t>(-128 * sum);
    code.norm_sq = squares;
    if (space.choice.form == FilterForm::integer) return code;
    if (squares == 0) {
      code.kind = QueryCode::Kind::special;
      return code;
    }
    double error = 0;
    (void)to_code_space(space, s.y.data(), largest_query_entry, error);
    code.scale = 1 / std::sqrt(squares);
    code.norm_sq = 1;
    code.norm = 1 + 0x1p-40;
    code.residual = error * 4 + 0x1p-45;
    return code;
  }

  double error = 0;
  switch (to_code_space(space, s.y.data(), largest_query_entry, error)) {
    case RowKind::nan: code.kind = QueryCode::Kind::nan; return code;
    case RowKind::special: code.kind = QueryCode::Kind::special; return code;
    case RowKind::regular: break;
  }
  const double norm_sq = sum_of_squares(s.y.data(), dim);
  if (space.metric == Metric::cosine && norm_sq == 0) {
    code.kind = QueryCode::Kind::special;  // a tie with every row: the order is by index alone
    return code;
  }
  if (space.choice.filter == Filter::int8) {
    code.scale = quantise_int8(s.y.data(), dim, s.integers.data());
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < dim; ++i) {
      const int v = s.integers[static_cast<std::size_t>(i)];
      bytes[i] = static_cast<signed char>(v);
      sum += v;
      s.coded[static_cast<std::size_t>(i)] = code.scale * v;
    }
    code.start = static_cast<std::int32_t>(-128 * sum);
  } else {
    for (std::int64_t i = 0; i < dim; ++i) {
      floats[i] = static_cast<float>(s.y[static_cast<std::size_t>(i)]);
      s.coded[static_cast<std::size_t>(i)] = floats[i];
    }
  }
  double residual = 0;
  double residual_1 = 0;
  for (std::size_t i = 0; i < s.y.size(); ++i) {
    const double difference = std::fabs(s.y[i] - s.coded[i]);
    residual += difference * difference;
    residual_1 += difference;
  }
  const double coded_sq = sum_of_squares(s.coded.data(), dim);
  code.norm = std::sqrt(coded_sq) * (1 + 0x1p-30);
  code.norm_sq = space.choice.form == FilterForm::triangle ? coded_sq : norm_sq;
  if (space.choice.form == FilterForm::absolute) {
    const double exact = space.mean.empty() ? 0x1p-1000 : error;
    code.residual = residual_1 * (1 + 0x1p-30) + exact * std::sqrt(static_cast<double>(dim)) * 1.001;
  } else if (space.choice.form == FilterForm::difference) {
    code.residual = std::sqrt(residual) * (1 + 0x1p-30) + (space.mean.empty() ? 0x1p-1000 : error);
  } else {
    code.residual = std::sqrt(residual) * (1 + 0x1p-30) + error;
  }
  return code;
}

std::vector<CodeChoice> possible_codes(Dtype dtype, Metric metric, std::int64_t dim) {
  constexpr std::int64_t low_dimension = 16;
  constexpr std::int64_t longest_integer_sum = 32768;  // 65,280 * dim stays below 2^31
  if (metric == Metric::manhattan) {
    std::vector<CodeChoice> list;
    for (Filter filter : {Filter::int8, Filter::fp16, Filter::fp32}) {
      if (filter != Filter::int8 || dim <= longest_integer_sum)
        list.push_back({filter, FilterForm::absolute});
    }
    list.push_back({Filter::none, {}});
    return list;
  }
  const bool integers = dtype == Dtype::u8 || dtype == Dtype::i8;
  const bool euclid = metric == Metric::sqeuclidean || metric == Metric::euclidean;
  const bool int8_fits = dim <= longest_integer_sum;
  std::vector<CodeChoice> list;
  if (euclid && dim <= low_dimension) list.push_back({Filter::fp32, FilterForm::difference});
  if (int8_fits && integers && metric != Metric::cosine) list.push_back({Filter::int8, FilterForm::integer});
  if (int8_fits && (!integers || metric == Metric::cosine)) {
    if (euclid) list.push_back({Filter::int8, FilterForm::triangle});
    list.push_back({Filter::int8, FilterForm::cauchy});
  }
  for (Filter filter : {Filter::fp16, Filter::fp32}) {
    if (euclid) list.push_back({filter, FilterForm::triangle});
    list.push_back({filter, FilterForm::cauchy});
  }
  list.push_back({Filter::none, {}});
  return list;
}

}  // namespace kith
