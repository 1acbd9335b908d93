// Reading of datasets for the sub-commands, and the memory estimate before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common.hpp"

namespace kith::cli {

/// A dataset named on the command line.
struct Source {
  std::string path;
  std::string member;          ///< HDF5 dataset as given; empty: the default
  std::string default_member;  ///< "train" or "test"
  std::int64_t first_row = 0;
  std::int64_t max_rows = -1;
  std::optional<FileFormat> format;
  mutable std::optional<FileInfo> inspected;  ///< what peek() has found, for load()
};

/// --member, or an option of another name where a command reads several files: the dataset of HDF5 files.
/// @param what "with the queries"
void add_member_option(CLI::App& command, const std::string& option, Source& source, const std::string& what);

/// Adds up what a run will hold in the machine's memory and refuses it before it starts. What lies on GPUs is
/// kept to --device-memory-limit by the search itself.
class MemoryPlan {
 public:
  /// That of searches.
  static constexpr const char* default_remedy =
      "search fewer queries (--max-queries) or rows (kith convert --rows)";

  /// Reads --memory-limit. @throws InvalidArgument
  explicit MemoryPlan(const Common& common) : MemoryPlan(common, default_remedy) {}
  /// `remedy` ends the message of check(): what the caller of this command could do.
  MemoryPlan(const Common& common, std::string remedy);

  /// `mapped` bytes count against --memory-limit, but not against the machine's memory: the system can
  /// drop and reread them.
  void add(const std::string& what, double bytes, bool mapped = false);

  /// @throws OutOfMemory when the sum is above the limit, or above the machine's memory without one
  void check() const;

  /// What is left for Execution::memory_limit; 0 when there is no limit.
  std::uint64_t left() const;

  bool on_gpu() const { return on_gpu_; }

 private:
  std::string remedy_;
  std::uint64_t limit_ = 0;
  bool on_gpu_ = false;
  double bytes_ = 0;
  double resident_ = 0;
  std::string parts_;
};

/// Rows and bytes a source will take, from its header.
struct Size {
  double rows = 0;
  double bytes = 0;
  double row_elements = 0;  ///< 0: not known
  bool mapped = false;      ///< stays in the file
};
Size peek(const Source& source);

/// Reads it. @throws IoError, InvalidArgument, OutOfMemory
Dataset load(const Source& source);
/// The same after peek(), with a note of what the file says of itself and is not.
Dataset load(const Common& common, const Source& source);

/// True when both name the same rows of the same file, apart from max_rows.
bool same_rows(const Source& a, const Source& b);

/// The rows to search in and those to search for, of one element type and dimension.
struct BaseAndQueries {
  Dataset base;
  Dataset queries;   ///< the base itself where both are one file
  DatasetView view;  ///< those of the queries that are asked
  MemoryPlan plan;   ///< what is held
};
/// Reads both, after an estimate from their headers. Different element types are brought to the narrowest
/// that holds both exactly, with a note.
/// @param answer_bytes of one query
/// @throws IoError, InvalidArgument, OutOfMemory
BaseAndQueries load_base_and_queries(const Common& common, const Source& base, const Source& queries,
                                     double answer_bytes,
                                     const std::string& remedy = MemoryPlan::default_remedy);

/// True when a signal has arrived; for WriteOptions::cancelled and Execution::cancelled of a writing command.
/// @throws IoError when a mapped input has become shorter: what was read of it may be wrong
bool must_stop();

/// Throws Cancelled when a signal has arrived. @throws IoError as must_stop()
void stop_if_interrupted();

/// A format by its name, empty for none. @throws InvalidArgument
std::optional<FileFormat> parse_format(const std::string& text);

/// guess_format of an input. @throws IoError
FileFormat format_of_input(const std::string& path);

/// Format names and their meaning, for --format options: those that hold vectors, or results.
std::vector<std::pair<std::string, std::string>> dataset_formats();
std::vector<std::pair<std::string, std::string>> result_formats();
/// Both, each once, the names alone.
std::vector<std::pair<std::string, std::string>> vector_and_result_formats();

/// The format that a file's extension names, empty for none; a file of that name is not opened.
std::optional<FileFormat> format_of_extension(const std::string& path);

/// Checks an output path before the work starts: its folder is there and writable, it is no folder, its
/// extension (or `format`) is one of `formats`.
/// @throws IoError, InvalidArgument
void check_output(const std::string& path, const std::string& format,
                  const std::vector<std::pair<std::string, std::string>>& formats, bool extension_needed);

/// The same for an index file, which has no extension of another format: no command could read it.
void check_index_output(const std::string& path);

}  // namespace kith::cli
