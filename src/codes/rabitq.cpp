#include "codes/rabitq.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "codes/cpu/rabitq.hpp"
#include "codes/cpu/row_kernels.hpp"
#include "core/instruction_set.hpp"
#include "core/rounding.hpp"
#include "kith/error.hpp"

namespace kith::codes {
namespace {

constexpr std::int64_t sampled_rows = 65536;
constexpr std::int64_t factor_bytes = sizeof(RabitqFactors);

double middle_of(std::int64_t bits) {
  return static_cast<double>((std::int64_t{1} << bits) - 1) / 2;
}

class RabitqCoding : public Coding {
 public:
  explicit RabitqCoding(RabitqSpace space) : space_(std::move(space)) {}

  std::int64_t code_bytes() const override { return space_.code_bytes(); }
  std::uint64_t memory_bytes() const override {
    return space_.mean.size() * sizeof(double) + space_.rotation.memory_bytes();
  }
  bool bounded() const override { return true; }
  std::unique_ptr<Worker> worker(double confidence) const override {
    return std::make_unique<RabitqWorker>(space_, confidence);
  }
  // The rotation follows from the seed.
  void save(nlohmann::json& /*header*/, std::vector<IndexSection>& sections) const override {
    sections.push_back(bytes_section("mean", std::as_bytes(std::span(space_.mean))));
  }
  const RabitqSpace& space() const { return space_; }

 private:
  RabitqSpace space_;
};

}  // namespace

const RabitqKernels& rabitq_kernels() {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return rabitq_kernels_avx512;
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return rabitq_kernels_avx2;
#elif defined(__aarch64__)
    case InstructionSet::neon_i8mm:
    case InstructionSet::neon: return rabitq_kernels_neon;
#endif
    default: return rabitq_kernels_portable;
  }
}

const RabitqSpace* rabitq_space(const Coding& coding) {
  const auto* its = dynamic_cast<const RabitqCoding*>(&coding);
  return its != nullptr ? &its->space() : nullptr;
}

// Up to a multiple of 2^-16: logarithms differ in their last bits between machines.
double rabitq_deviations(double confidence) {
  return std::ceil(std::sqrt(2 * std::log(2 / (1 - confidence))) * 0x1p16) * 0x1p-16;
}

RabitqWorker::RabitqWorker(const RabitqSpace& space, double confidence)
    : space_(space),
      deviations_(rabitq_deviations(confidence)),
      values_(static_cast<std::size_t>(space.rotation.dim())),
      scratch_(values_.size()),
      query_(values_.size()) {}

// The row, rotated, into values_.
void RabitqWorker::rotate(const void* row, bool centered) {
  const std::int64_t dim = space_.rows.dim;
  row_kernels().load[static_cast<int>(space_.rows.dtype)](row, dim, values_.data());
  if (centered) {
    for (std::size_t i = 0; i < space_.mean.size(); ++i) values_[i] -= space_.mean[i];
  }
  std::fill(values_.begin() + dim, values_.end(), 0.0);
  space_.rotation.apply(values_.data(), scratch_.data());
}

// How many steps a unit is: of a range of scales the one whose grid vector points nearest to the magnitudes
// in scratch_, then the best near that one.
double RabitqWorker::best_scale(double largest) const {
  const double top = static_cast<double>((std::int64_t{1} << (space_.bits - 1)) - 1);
  const RabitqKernels& kernels = rabitq_kernels();
  const double start = (top + 1) / largest;
  if (top == 0) return start;  // one bit: the signs, whatever the scale
  double best = start;
  GridFit best_fit{0, 1};
  const auto consider = [&](double scale) {
    const GridFit fit = kernels.fit(scratch_.data(), static_cast<std::int64_t>(scratch_.size()), scale, top);
    // By the cosine: product / sqrt(square).
    if (fit.product * fit.product * best_fit.square > best_fit.product * best_fit.product * fit.square) {
      best_fit = fit;
      best = scale;
    }
  };
  constexpr double quarter = 0x1.306fe0a31b715p0;        // 2^(1/4)
  constexpr double thirty_second = 0x1.059b0d3158574p0;  // 2^(1/32)
  double scale = start;
  for (int i = 0; i <= 12; ++i, scale *= quarter) consider(scale);
  const double coarse = best;
  double above = coarse;
  double below = coarse;
  for (int i = 0; i < 7; ++i) {
    above *= thirty_second;
    below /= thirty_second;
    consider(above);
    consider(below);
  }
  return best;
}

void RabitqWorker::encode(const void* row, std::uint8_t* code) {
  rotate(row, true);
  const RowKernels& kernels = row_kernels();
  const auto count = static_cast<std::int64_t>(values_.size());
  const double square = kernels.sum_of_squares(values_.data(), count);
  std::memset(code, 0, static_cast<std::size_t>(space_.code_bytes()));
  const double largest = kernels.largest(values_.data(), count);
  if (!(square > 0)) return;  // at the mean
  // Near 1, so that no square leaves the range.
  for (std::size_t i = 0; i < values_.size(); ++i) scratch_[i] = std::abs(values_[i]) / largest;
  const double top = static_cast<double>((std::int64_t{1} << (space_.bits - 1)) - 1);
  const double scale = best_scale(1);
  const GridFit fit = rabitq_kernels().fit(scratch_.data(), count, scale, top);

  const double unit = kernels.sum_of_squares(scratch_.data(), count);  // |y / largest|^2
  const double tangent = std::sqrt(std::max(0.0, fit.square * unit / (fit.product * fit.product) - 1));
  RabitqFactors factors;
  factors.square = static_cast<float>(square);
  factors.scale = static_cast<float>(unit / fit.product * largest);
  factors.spread = round_up<float>(std::sqrt(square) * tangent / std::sqrt(static_cast<double>(count - 1)));
  std::memcpy(code, &factors, sizeof factors);

  const auto half = std::uint32_t{1} << (space_.bits - 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const double steps = std::min(scratch_[static_cast<std::size_t>(i)] * scale, top);
    const auto magnitude = static_cast<std::uint32_t>(steps);
    const std::uint32_t u =
        std::signbit(values_[static_cast<std::size_t>(i)]) ? half - 1 - magnitude : half + magnitude;
    std::uint8_t* block = code + factor_bytes + i / 32 * 4 * space_.bits;
    for (std::int64_t bit = 0; bit < space_.bits; ++bit) {
      std::uint8_t& byte = block[4 * bit + i % 32 / 8];
      byte = static_cast<std::uint8_t>(byte | ((u >> bit & 1U) << (i % 8)));
    }
  }
}

// The point on the code's ray that is nearest to y, rotated back.
void RabitqWorker::decode(const std::uint8_t* code, double* row) {
  RabitqFactors factors;
  std::memcpy(&factors, code, sizeof factors);
  const double middle = middle_of(space_.bits);
  double grid_square = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::uint8_t* block = code + factor_bytes + i / 32 * 4 * static_cast<std::size_t>(space_.bits);
    std::uint32_t u = 0;
    for (std::int64_t bit = 0; bit < space_.bits; ++bit) {
      u |= (block[4 * bit + static_cast<std::int64_t>(i % 32 / 8)] >> (i % 8) & 1U) << bit;
    }
    values_[i] = u - middle;
    grid_square += values_[i] * values_[i];
  }
  // <v, y> / |v|^2
  const double factor =
      factors.scale > 0 ? static_cast<double>(factors.square) / factors.scale / grid_square : 0;
  for (double& value : values_) value *= factor;
  space_.rotation.invert(values_.data(), scratch_.data());
  for (std::size_t i = 0; i < space_.mean.size(); ++i) row[i] = space_.mean[i] + values_[i];
}

void RabitqWorker::set_query(const void* query) {
  const bool product = space_.metric == Metric::inner_product;
  const RowKernels& kernels = row_kernels();
  scalars_.offset = 0;
  if (product) {
    kernels.load[static_cast<int>(space_.rows.dtype)](query, space_.rows.dim, values_.data());
    for (std::size_t i = 0; i < space_.mean.size(); ++i) scalars_.offset += values_[i] * space_.mean[i];
  }
  rotate(query, !product);
  const auto count = static_cast<std::int64_t>(values_.size());
  scalars_.norm = std::sqrt(kernels.sum_of_squares(values_.data(), count));
  const std::int64_t weight = ((std::int64_t{1} << space_.bits) - 1) * count;
  const auto range = static_cast<double>(std::min<std::int64_t>(32767, 0x7FFFFFFF / weight));
  const double largest = kernels.largest(values_.data(), count);
  scalars_.step = largest > 0 ? largest / range : 0;
  std::int64_t sum = 0;
  double residual = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const double steps =
        scalars_.step > 0 ? std::clamp(std::nearbyint(values_[i] / scalars_.step), -range, range) : 0;
    query_[i] = static_cast<std::int16_t>(steps);
    sum += query_[i];
    const double difference = values_[i] - steps * scalars_.step;
    residual += difference * difference;
  }
  scalars_.residual = std::sqrt(residual);
  scalars_.shift = middle_of(space_.bits) * static_cast<double>(sum);
}

// By the code's factors and the product of its bits with the query's.
float RabitqWorker::distance(const std::uint8_t* code, std::int32_t dot) const {
  RabitqFactors factors;
  std::memcpy(&factors, code, sizeof factors);
  if (space_.metric != Metric::inner_product) return rabitq_distance(factors, scalars_, dot);
  return static_cast<float>(-(scalars_.offset + rabitq_product(factors, scalars_, dot)));
}

void RabitqWorker::estimate_gathered(const std::uint8_t* codes, const std::uint32_t* rows, std::int64_t count,
                                     float* distances) {
  const std::int64_t bytes = space_.code_bytes();
  const auto size = static_cast<std::size_t>(count);
  if (products_.size() < size) products_.resize(size);
  rabitq_kernels().gathered_dots(codes + factor_bytes, bytes, space_.rotation.dim() / 32, space_.bits,
                                 query_.data(), rows, count, products_.data());
  for (std::size_t i = 0; i < size; ++i) {
    distances[i] = distance(codes + std::int64_t{rows[i]} * bytes, products_[i]);
  }
}

void RabitqWorker::estimate(const std::uint8_t* codes, std::int64_t count, float* distances, float* bounds) {
  const std::int64_t bytes = space_.code_bytes();
  const std::int64_t dim = space_.rotation.dim();
  const auto size = static_cast<std::size_t>(count);
  if (products_.size() < size) products_.resize(size);
  rabitq_kernels().dots(codes + factor_bytes, bytes, dim / 32, space_.bits, query_.data(), count,
                        products_.data());
  const bool inner = space_.metric == Metric::inner_product;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint8_t* code = codes + static_cast<std::int64_t>(i) * bytes;
    distances[i] = distance(code, products_[i]);
    if (bounds == nullptr) continue;
    RabitqFactors factors;
    std::memcpy(&factors, code, sizeof factors);
    bounds[i] = inner ? round_up<float>(rabitq_error(factors, scalars_, deviations_, dim) +
                                        rabitq_rounding * std::abs(scalars_.offset) + 0x1p-120)
                      : rabitq_bound(factors, scalars_, deviations_, dim);
  }
}

std::unique_ptr<const Coding> train_rabitq(const DatasetView& rows, const RabitqParameters& parameters,
                                           const Execution& execution) {
  return std::make_unique<RabitqCoding>(
      RabitqSpace{{rows.dtype, rows.dim},
                  parameters.metric,
                  parameters.bits,
                  training_rows(rows, sampled_rows, execution).mean,
                  Rotation(RabitqSpace::padded(rows.dim), parameters.seed)});
}

std::unique_ptr<const Coding> load_rabitq(const Kept& kept, Rows rows, const RabitqParameters& parameters) {
  return std::make_unique<RabitqCoding>(
      RabitqSpace{rows, parameters.metric, parameters.bits, finite_doubles(kept, "mean", rows.dim),
                  Rotation(RabitqSpace::padded(rows.dim), parameters.seed)});
}

}  // namespace kith::codes
