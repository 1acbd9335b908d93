// Scalar codes as a kind of quantizer: estimates are squared distances of codes, integers.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "codes/coding.hpp"
#include "codes/cpu/row_kernels.hpp"
#include "codes/scalar.hpp"
#include "kith/error.hpp"

namespace kith::codes {
namespace {

class ScalarWorker : public Worker {
 public:
  explicit ScalarWorker(const ScalarSpace& space)
      : space_(space),
        codec_(space),
        estimates_(estimates_of(space)),
        query_(static_cast<std::size_t>(space.code_bytes())),
        values_(static_cast<std::size_t>(space.dim)) {}

  void encode(const void* row, std::uint8_t* code) override { codec_.encode_row(row, code); }
  void decode(const std::uint8_t* code, double* row) override { codec_.decode(code, row); }

  void set_query(const void* query) override {
    codec_.encode_query(query, query_.data());
    factor_ = space_.step * space_.step;
    offset_ = 0;
    if (space_.metric != Metric::inner_product) return;
    // Queries were stretched to M and rows have length M, with the dimension that was added: the squared
    // distance of the two is 2 M^2 - 2 (M / |q|) q.x.
    const RowKernels& kernels = row_kernels();
    kernels.load[static_cast<int>(space_.dtype)](query, space_.dim, values_.data());
    const double norm = std::sqrt(kernels.sum_of_squares(values_.data(), space_.dim));
    const double longest = space_.largest_norm;
    factor_ = longest > 0 ? factor_ * norm / (2 * longest) : 0;
    offset_ = longest * norm;
  }

  void estimate(const std::uint8_t* codes, std::int64_t count, float* distances, float* /*bounds*/) override {
    const auto size = static_cast<std::size_t>(count);
    if (numbers_.size() < size) {
      numbers_.resize(size);
      std::iota(numbers_.begin(), numbers_.end(), std::uint32_t{0});
    }
    estimate_gathered(codes, numbers_.data(), count, distances);
  }

  void estimate_gathered(const std::uint8_t* codes, const std::uint32_t* rows, std::int64_t count,
                         float* distances) override {
    const auto size = static_cast<std::size_t>(count);
    if (sums_.size() < size) sums_.resize(size);
    estimates_(codes, space_.code_bytes(), query_.data(), rows, count, sums_.data());
    for (std::size_t i = 0; i < size; ++i) distances[i] = static_cast<float>(sums_[i] * factor_ - offset_);
  }

 private:
  const ScalarSpace& space_;
  ScalarCodec codec_;
  decltype(EstimateKernels::gathered) estimates_;
  std::vector<std::uint8_t> query_;
  std::vector<double> values_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::int32_t> sums_;
  double factor_ = 1;
  double offset_ = 0;
};

class ScalarCoding : public Coding {
 public:
  explicit ScalarCoding(ScalarSpace space) : space_(std::move(space)) {}

  std::int64_t code_bytes() const override { return space_.code_bytes(); }
  std::uint64_t memory_bytes() const override { return space_.mean.size() * sizeof(double); }
  double largest_norm() const override {
    return space_.metric == Metric::inner_product ? space_.largest_norm : Coding::largest_norm();
  }
  std::unique_ptr<Worker> worker(double /*confidence*/) const override {
    return std::make_unique<ScalarWorker>(space_);
  }

  void save(nlohmann::json& header, std::vector<IndexSection>& sections) const override {
    header["step"] = space_.step;
    header["largest_norm"] = space_.largest_norm;
    sections.push_back(bytes_section("mean", std::as_bytes(std::span(space_.mean))));
  }

 private:
  ScalarSpace space_;
};

}  // namespace

std::unique_ptr<const Coding> train_scalar(const DatasetView& rows, const ScalarCodesParameters& parameters,
                                           const Execution& execution) {
  return std::make_unique<ScalarCoding>(make_scalar_space(
      rows, parameters.metric, execution, {.bits = static_cast<int>(parameters.bits)}, largest_value));
}

std::unique_ptr<const Coding> load_scalar(const Kept& kept, Rows rows,
                                          const ScalarCodesParameters& parameters) {
  ScalarSpace space;
  space.dtype = rows.dtype;
  space.metric = parameters.metric;
  space.dim = rows.dim;
  space.bits = static_cast<int>(parameters.bits);
  space.step = kept.header.at("step").get<double>();
  space.largest_norm = kept.header.at("largest_norm").get<double>();
  if (!(space.step > 0 && std::isfinite(space.step) && space.largest_norm >= 0 &&
        std::isfinite(space.largest_norm))) {
    throw InvalidArgument("the scale of its codes is out of range");
  }
  space.mean = finite_doubles(kept, "mean", space.raw_integers() ? 0 : space.code_dim());
  return std::make_unique<ScalarCoding>(std::move(space));
}

}  // namespace kith::codes
