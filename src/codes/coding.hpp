// What a kind of codes does, one row at a time; quantizer.cpp checks arguments and deals the rows out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/index_file.hpp"
#include "kith/codes.hpp"

namespace kith::codes {

/// Codes, decodes and estimates with scratch of its own; a thread has one.
class Worker {
 public:
  virtual ~Worker() = default;

  /// @param row dim values of the dtype trained on, finite and within limits
  virtual void encode(const void* row, std::uint8_t* code) = 0;
  virtual void decode(const std::uint8_t* code, double* row) = 0;

  /// The query of the estimates that follow.
  virtual void set_query(const void* query) = 0;
  /// Estimates for `count` codes, one after the other; `bounds` may be null, and is for kinds without bounds.
  virtual void estimate(const std::uint8_t* codes, std::int64_t count, float* distances, float* bounds) = 0;
  /// The same distances for the codes `rows[i]` of `codes`.
  virtual void estimate_gathered(const std::uint8_t* codes, const std::uint32_t* rows, std::int64_t count,
                                 float* distances) = 0;
};

/// Where a kind finds again what it has kept: in a quantizer's file, or among other things in an index's.
struct Kept {
  const IndexFile& file;
  const nlohmann::json& header;
  std::string prefix = {};  ///< of the names of its sections
};

/// One kind, trained. Immutable.
class Coding {
 public:
  virtual ~Coding() = default;

  virtual std::int64_t code_bytes() const = 0;
  virtual std::uint64_t memory_bytes() const = 0;
  virtual bool bounded() const { return false; }
  /// Length of the longest row it codes; infinite where there is none.
  virtual double largest_norm() const;
  /// @param confidence of bounds
  virtual std::unique_ptr<Worker> worker(double confidence) const = 0;

  /// Adds what the kind must keep to a file.
  virtual void save(nlohmann::json& header, std::vector<IndexSection>& sections) const = 0;
};

/// Values of a larger magnitude are not encoded.
inline constexpr double largest_value = 0x1p50;

/// What every kind is told.
struct Rows {
  Dtype dtype = Dtype::f32;
  std::int64_t dim = 0;
};

/// Rows of a sample whose values are finite and within limits, and the mean of them.
struct TrainingRows {
  std::vector<std::int64_t> rows;
  std::vector<double> mean;
};
/// @throws InvalidArgument where there is none; Cancelled
TrainingRows training_rows(const DatasetView& rows, std::int64_t count, const Execution& execution);

/// Whether all values are finite and within limits.
bool in_range(const double* values, std::int64_t dim);

/// @throws Cancelled
std::unique_ptr<const Coding> train_scalar(const DatasetView& rows, const ScalarCodesParameters& parameters,
                                           const Execution& execution);
std::unique_ptr<const Coding> train_rabitq(const DatasetView& rows, const RabitqParameters& parameters,
                                           const Execution& execution);
std::unique_ptr<const Coding> train_pq(const DatasetView& rows, const PqParameters& parameters,
                                       const Execution& execution);

/// From a file, whose parameters were checked. @throws InvalidArgument, nlohmann::json::exception
std::unique_ptr<const Coding> load_scalar(const Kept& kept, Rows rows,
                                          const ScalarCodesParameters& parameters);
std::unique_ptr<const Coding> load_rabitq(const Kept& kept, Rows rows, const RabitqParameters& parameters);
std::unique_ptr<const Coding> load_pq(const Kept& kept, Rows rows, const PqParameters& parameters);

/// A section of doubles or floats, all of them finite. @throws InvalidArgument
std::vector<double> finite_doubles(const Kept& kept, std::string_view name, std::int64_t count);
std::vector<float> finite_floats(const Kept& kept, std::string_view name, std::int64_t count);

/// Sets subspaces where they are 0. @throws InvalidArgument for a parameter outside its limits
void check_parameters(CodesParameters& parameters, std::int64_t dim);

/// @throws IoError, Cancelled
void save(const Quantizer::State& state, const std::filesystem::path& path, const Execution& execution);
std::shared_ptr<const Quantizer::State> load(const std::filesystem::path& path, const Execution& execution);

}  // namespace kith::codes

/// All that a quantizer is.
struct kith::Quantizer::State {
  CodesParameters parameters;
  codes::Rows rows;
  std::unique_ptr<const codes::Coding> coding;
};
