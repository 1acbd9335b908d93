// What benchmarks need to know about the machine and this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace kith::cli {

/// Middle value (mean of the two middle ones); NaN of nothing.
double median(std::vector<double> values);

/// Sets the peak of the resident memory back to what is resident now, after giving freed memory back.
/// Does nothing where the kernel does not offer it.
void reset_peak_memory();
/// Highest resident memory of this process since then, in bytes.
std::uint64_t peak_memory();

/// CPU model, cores, memory, kernel paths, operating system, load before the measurement.
nlohmann::json describe_machine();

/// Now, as "2026-01-31T12:00:00Z".
std::string utc_now();

/// How this program was called, without the folders of the machine: results are published.
std::vector<std::string> published_command_line();

/// @throws IoError when `path` is named and its folder is not there: rather now than after minutes of
/// measuring
void check_result_folder(const std::string& path);
/// Writes a result to a file, whole or not at all; bytes of names that are not UTF-8 are replaced. @throws
/// IoError
void write_result(const std::string& path, const nlohmann::ordered_json& result);

}  // namespace kith::cli
