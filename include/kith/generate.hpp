/// @file
/// Seeded datasets for tests, benchmarks and first steps: the same bits on every machine, with any
/// number of threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"

namespace kith {

/// What kind of data to make.
enum class Generator : std::uint8_t {
  uniform,                  ///< each value uniform in [0, 1); i8, u8: every value of the type
  gaussian,                 ///< each value standard normal
  clusters,                 ///< normal clouds of different sizes around normal centres
  low_intrinsic_dimension,  ///< a few normal coordinates mapped linearly into `dim`, with a little noise
  terrain_scan,             ///< points an airborne laser scanner would see: strips over hills, trees, roofs
};

/// "uniform", "gaussian", "clusters", "low_intrinsic_dimension", "terrain_scan".
std::string_view name(Generator generator) noexcept;
/// @throws InvalidArgument
Generator parse_generator(std::string_view text);

struct GenerateParameters {
  Generator generator = Generator::uniform;
  std::int64_t rows = 0;
  std::int64_t dim = 0;  ///< at least 1; terrain_scan: 3
  /// For i8 and u8, normal values v become round(32 v) (u8: + 128), clipped to the type's range.
  /// terrain_scan: f32 or f64.
  Dtype dtype = Dtype::f32;
  std::uint64_t seed = 0;
  /// Skip this many rows: another piece of the same dataset, for example queries that are not in the
  /// base. Row i depends on the seed, the other parameters and first_row + i only.
  std::int64_t first_row = 0;
  bool normalize = false;              ///< scale every row to length 1; floating-point dtypes only
  std::int64_t clusters = 100;         ///< clusters: how many; at least 1
  double spread = 0.25;                ///< clusters: standard deviation around a centre; above 0
  std::int64_t intrinsic_dim = 8;      ///< low_intrinsic_dimension: 1 to dim
  double noise = 0.01;                 ///< low_intrinsic_dimension: standard deviation of the noise
  double points_per_square_metre = 4;  ///< terrain_scan: density; above 0
  /// terrain_scan: at metre coordinates as of a UTM zone (easting 5e5, northing 5.4e6) instead of at 0.
  bool utm = false;
};

/// Makes the rows of a dataset.
///
/// Counter-based (Philox 4x32-10, Salmon et al. 2011), with the normal quantile of Wichura (AS 241, 1988)
/// in basic IEEE operations only: no result depends on the maths library.
/// @return contiguous [rows, dim] of parameters.dtype
/// @throws InvalidArgument, OutOfMemory, Cancelled
Dataset generate(const GenerateParameters& parameters, const Execution& execution = {});

}  // namespace kith
