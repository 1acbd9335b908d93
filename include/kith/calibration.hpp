/// @file
/// What work takes on this machine's processor or GPU, measured in some seconds and kept in a file, so that
/// automatic choices suit the machine they are made on.
///
/// Without a calibration choices go by figures built in for each instruction set, and for GPUs. Which filter
/// exact search uses changes no answer. Where a recall below 1 is asked for, a calibration may change whether
/// a graph or an exact search answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kith/execution.hpp"

namespace kith {

/// How long small pieces of the work of all searches take, in nanoseconds of the clock on the wall, all
/// threads, or the whole of a GPU, at work. What a device has no use for is 0.
struct WorkTimes {
  // Of filters.
  double int8 = 0;         ///< a multiply-add of 8-bit codes
  double int7 = 0;         ///< of 7-bit codes, where the instruction set wants them; else as int8
  double fp16 = 0;         ///< of float16 codes
  double fp32 = 0;         ///< of float32 codes
  double exact_value = 0;  ///< a value of a row whose distance is evaluated
  double exact_row = 0;    ///< and the row itself, which lies anywhere in memory
  double directions = 0;   ///< to find the leading directions of rows, a cube of the dimension
  double projection = 0;   ///< a row's coordinate along one of them, a value of the row
  // Of indexes.
  double scan_few = 0;      ///< one query over rows without codes, a row
  double scan = 0;          ///< a query of many over 50,000 rows of 3 values
  double scan_values = 0;   ///< a query of many over 20,000 rows of 256 values
  double tree_build = 0;    ///< to build a k-d tree, a point
  double tree_search = 0;   ///< a query of many in it
  double graph_build = 0;   ///< to build a graph, a row
  double graph_search = 0;  ///< a query of many in it
  // Of GPUs alone.
  double launch = 0;  ///< a search that has next to nothing to do
};

/// A processor or GPU and what its work takes.
struct Calibration {
  Device::Kind device = Device::Kind::cpu;
  std::string model;
  std::string instruction_set;   ///< that was measured; of a GPU the compute capability, "sm_90"
  int cores = 0;                 ///< hardware threads the process could use, or multiprocessors
  int threads = 0;               ///< that measured; of a GPU 0
  std::int64_t cache_bytes = 0;  ///< of the last level; 0: unknown, as of a GPU
  double bandwidth = 0;          ///< bytes a second that these threads read from memory; of a GPU 0
  std::string date;              ///< ISO 8601, UTC
  WorkTimes times;
};

/// The times that a calibration of such a device has, with the names that files have them by: {"int8", 0.01},
/// ...
std::vector<std::pair<std::string, double>> named(const WorkTimes& times,
                                                  Device::Kind device = Device::Kind::cpu);

/// A calibration as files hold it: a JSON object {"device": "cpu", ..., "nanoseconds": {"int8": 0.01, ...}}.
std::string to_json(const Calibration& calibration);

/// Measures the CPU with its active instruction set and execution.threads, or the one GPU that `execution`
/// names. Takes about ten seconds on two cores, and twice the last cache's size of memory, from 256 MiB to
/// 1 GiB; on a GPU some seconds, 300 MiB of memory and 2 GiB of its own. Other work on the machine blurs the
/// figures. Meanwhile this process makes its choices by built-in figures.
/// @throws InvalidArgument for several GPUs, DeviceError, OutOfMemory, Cancelled
Calibration calibrate(const Execution& execution = {});

/// The same, kept in a file. Whether the file can be written is tried first.
/// @throws as calibrate() and keep_calibration() do
Calibration calibrate(const std::filesystem::path& path, const Execution& execution = {});

/// The file that holds calibrations: $KITH_CALIBRATION where that is set, else kith/calibration.json in
/// $XDG_CACHE_HOME or ~/.cache. Empty where there is none: KITH_CALIBRATION=off, or no home.
std::filesystem::path calibration_file();

/// The calibrations in a file; none where the file is missing.
/// @throws IoError when it cannot be read, is corrupt, foreign or newer
std::vector<Calibration> read_calibrations(const std::filesystem::path& path);

/// Adds a calibration to a file, in place of an earlier one of the same device, instruction set, cores and
/// threads, whole or not at all; a missing folder is made. What this and other processes choose from then on
/// goes by it, if the file is calibration_file().
/// @throws IoError, also when the file holds something else; InvalidArgument for a time that is none
void keep_calibration(const Calibration& calibration, const std::filesystem::path& path);

/// The calibrations that choices of this process go by: all in calibration_file(). One in the cache that
/// cannot be read is left aside, and `problem`, if not null, says why.
/// @throws IoError when KITH_CALIBRATION names a file that cannot be read
std::vector<Calibration> known_calibrations(std::string* problem = nullptr);

}  // namespace kith
