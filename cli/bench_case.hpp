// One measurement of kith bench: the data, one combination of parameters, the peers beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common.hpp"
#include "interrupt.hpp"

namespace kith::cli {

/// The command line of kith bench.
struct BenchOptions {
  std::string base, queries;
  std::string input_format;
  std::optional<FileFormat> base_format, queries_format;  ///< as far as input_format says
  std::string generate;
  std::int64_t rows = 100'000, dim = 128, count = 1'000;
  std::uint64_t seed = 0;
  std::string dtype = "f32";
  bool normalize = false, utm = false;

  std::vector<std::int64_t> k = {10};
  std::vector<std::string> metrics = {"sqeuclidean"};
  std::vector<std::string> filters = {"auto"};
  std::vector<std::int64_t> threads = {0};
  std::int64_t repeats = 5, batch = 0, max_queries = -1;

  std::vector<std::string> peers;
  std::string python, runner;
  std::vector<std::string> labels;
  std::string output;
};

/// A folder for the files handed to peers; removed with what is in it, however long a signal waits for that.
class TemporaryFolder {
 public:
  /// Makes none where it is not needed.
  explicit TemporaryFolder(bool needed);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::optional<PatientScope> patient_;
  std::filesystem::path path_;
};

/// One combination of what is compared.
struct BenchCase {
  std::int64_t k;
  std::string metric, filter;
  int threads;
};

/// Base and queries, and where peers find them as npy.
struct BenchInput {
  Dataset base, queries;
  std::filesystem::path base_file, queries_file;
  nlohmann::json description;
};

/// Reads or makes the data, and writes npy files for the peers where they need them.
BenchInput read_bench_input(const BenchOptions& options, const TemporaryFolder& folder,
                            const Execution& execution);

/// Builds, searches and compares; what docs/benchmarks.md is made from.
nlohmann::json run_bench_case(const BenchOptions& options, const BenchInput& in, const BenchCase& item,
                              const Common& common, const TemporaryFolder& folder);

}  // namespace kith::cli
