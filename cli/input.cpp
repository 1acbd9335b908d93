// Datasets from files, memory estimates, output paths.
#include "input.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "core/mapped_file.hpp"
#include "core/memory_budget.hpp"
#include "core/stream.hpp"
#include "interrupt.hpp"
#include "stream.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

FileFormat format_of(const Source& source) {
  return source.format ? *source.format : format_of_input(source.path);
}

double element_bytes(const std::string& type) {
  try {
    return static_cast<double>(size_of(parse_dtype(type)));
  } catch (const InvalidArgument&) {
    return 8;  // integers of other widths come back as f64
  }
}

bool is_mapped(FileFormat format) {
  switch (format) {
    case FileFormat::fvecs:
    case FileFormat::bvecs:
    case FileFormat::fbin:
    case FileFormat::u8bin:
    case FileFormat::i8bin:
    case FileFormat::npy: return true;
    default: return false;
  }
}

}  // namespace

MemoryPlan::MemoryPlan(const Common& common, std::string remedy)
    : remedy_(std::move(remedy)),
      limit_(
          parse_bytes(common.memory_limit, "--memory-limit", static_cast<std::uint64_t>(machine_memory()))),
      on_gpu_(parse_devices(common.device).front().kind == Device::Kind::cuda) {}

void MemoryPlan::add(const std::string& what, double bytes, bool mapped) {
  bytes_ += bytes;
  if (!mapped) resident_ += bytes;
  parts_ += fmt::format("{}{} {}", parts_.empty() ? "" : ", ", what, format_bytes(bytes));
}

void MemoryPlan::check() const {
  if (limit_ > 0 && bytes_ > static_cast<double>(limit_)) {
    throw OutOfMemory(fmt::format("about {} are needed ({}), --memory-limit is {}; raise it, or {}",
                                  format_bytes(bytes_), parts_, format_bytes(static_cast<double>(limit_)),
                                  remedy_));
  }
  if (limit_ == 0 && resident_ > static_cast<double>(machine_memory())) {
    throw OutOfMemory(fmt::format("about {} are needed ({}), this machine has {}; {}",
                                  format_bytes(resident_), parts_,
                                  format_bytes(static_cast<double>(machine_memory())), remedy_));
  }
}

std::uint64_t MemoryPlan::left() const {
  if (limit_ == 0) return 0;
  const double left = static_cast<double>(limit_) - bytes_;
  return left < 1 ? 1 : static_cast<std::uint64_t>(left);
}

void add_member_option(CLI::App& command, const std::string& option, Source& source,
                       const std::string& what) {
  command
      .add_option(option, source.member,
                  fmt::format("HDF5 files: the dataset {} [default: {}]", what, source.default_member))
      ->type_name("NAME")
      ->group("Input");
}

Size peek(const Source& source) {
  FileInfo info;
  try {
    info = inspect(source.path, source.format);
    source.inspected = info;
  } catch (const IoError&) {
    // A format given by name need not be recognisable, and an HDF5 file may have its datasets in groups: then
    // the file's size is the estimate.
    std::error_code error;
    const auto bytes = fs::file_size(source.path, error);
    const FileFormat format = format_of(source);
    if ((!source.format && format != FileFormat::hdf5) || error) throw;
    return {0, static_cast<double>(bytes), 0, is_mapped(format)};
  }
  const FileFormat format = source.format ? *source.format : info.format;
  Size size;
  size.mapped = is_mapped(format);
  size.rows = static_cast<double>(info.rows);
  double row_bytes = 0;
  if (format == FileFormat::hdf5) {
    // Which member is meant is known after opening only; all of them together are the upper bound.
    row_bytes = size.rows > 0 ? static_cast<double>(info.bytes) / size.rows : 0;
    // Unless it is one of those that the header's summary names: compressed ones are larger than the file.
    const std::string& member = source.member.empty() ? source.default_member : source.member;
    for (const auto& [name, shape] : info.details) {
      double rows = 0;
      double columns = 0;
      std::string times;
      std::string element;
      if (name != member || !(std::istringstream(shape) >> rows >> times >> columns >> element)) continue;
      size.rows = rows;
      size.row_elements = columns;
      row_bytes = columns * element_bytes(element);
    }
  } else {
    size.row_elements = static_cast<double>(info.dim);
    row_bytes = size.row_elements * element_bytes(info.element_type);
  }
  size.rows = std::max(0.0, size.rows - static_cast<double>(source.first_row));
  if (source.max_rows >= 0) size.rows = std::min(size.rows, static_cast<double>(source.max_rows));
  size.bytes = size.rows * row_bytes;
  // What came through a pipe is in memory already, and again where its format cannot be used as it lies.
  if (shown(source.path) != source.path) {
    if (!size.mapped) size.bytes += static_cast<double>(info.bytes);
    size.mapped = false;
  }
  return size;
}

Dataset load(const Source& source) {
  ReadOptions options;
  options.format = source.format;
  options.first_row = source.first_row;
  options.max_rows = source.max_rows;
  options.member = source.member;
  if (options.member.empty() && format_of(source) == FileFormat::hdf5) options.member = source.default_member;
  return read_dataset(source.path, options);
}

Dataset load(const Common& common, const Source& source) {
  Dataset data = load(source);
  const FileFormat format = format_of(source);
  if (format != FileFormat::las && format != FileFormat::pcd && format != FileFormat::ply) return data;
  if (!source.inspected) return data;  // another format by its name: what was asked for has been read
  for (const auto& [key, value] : source.inspected->details) {
    if (key == "contradiction")
      note(common, fmt::format("'{}' contradicts itself: {}", shown(source.path), value));
  }
  return data;
}

bool same_rows(const Source& a, const Source& b) {
  std::error_code error;
  if (a.path != b.path && !fs::equivalent(a.path, b.path, error)) return false;
  const std::string& member_a = a.member.empty() ? a.default_member : a.member;
  const std::string& member_b = b.member.empty() ? b.default_member : b.member;
  if (a.first_row != b.first_row || a.format != b.format) return false;
  return member_a == member_b || (a.member == b.member && format_of(a) != FileFormat::hdf5);
}

namespace {

double bytes_of(const DatasetView& view) {
  return static_cast<double>(view.rows) * static_cast<double>(view.dim) *
         static_cast<double>(size_of(view.dtype));
}

// Rows of different element types are both brought to the narrowest type that holds them exactly.
void unify(const Common& common, Dataset& base, Dataset& queries, MemoryPlan plan) {
  if (base.dtype() == queries.dtype()) return;
  const Dtype wide = common_dtype(base.dtype(), queries.dtype());
  note(common,
       fmt::format("the base is {}, the queries are {}: both are searched as {}, which holds them exactly",
                   name(base.dtype()), name(queries.dtype()), name(wide)));
  Dataset& narrow = base.dtype() != wide ? base : queries;
  plan.add(
      "rows as " + std::string(name(wide)),
      bytes_of(narrow) / static_cast<double>(size_of(narrow.dtype())) * static_cast<double>(size_of(wide)));
  plan.check();
  if (base.dtype() != wide) base = convert(base, wide);
  if (queries.dtype() != wide) queries = convert(queries, wide);
}

}  // namespace

BaseAndQueries load_base_and_queries(const Common& common, const Source& base, const Source& queries,
                                     double answer_bytes, const std::string& remedy) {
  const bool one_file = same_rows(base, queries);
  const Size base_size = peek(base);
  const Size query_size = peek(queries);
  MemoryPlan estimate(common, remedy);
  estimate.add("base", base_size.bytes, base_size.mapped);
  if (!one_file) estimate.add("queries", query_size.bytes, query_size.mapped);
  estimate.add("answer", query_size.rows * answer_bytes);
  estimate.check();

  BaseAndQueries out{load(common, base), {}, {}, MemoryPlan(common, remedy)};
  out.queries = one_file ? out.base : load(common, queries);
  if (out.base.dim() != out.queries.dim()) {
    throw InvalidArgument(
        fmt::format("'{}' has dimension {}, the queries '{}' have {}; they must be the same",
                    shown(base.path), out.base.dim(), shown(queries.path), out.queries.dim()));
  }
  if (!one_file) unify(common, out.base, out.queries, estimate);
  out.view = out.queries;
  if (one_file && queries.max_rows >= 0 && queries.max_rows < out.view.rows) {
    out.view = out.view.slice(0, queries.max_rows);
  }
  // What is really held now decides what is left for the search itself.
  out.plan.add("base", bytes_of(out.base), base_size.mapped);
  if (!one_file) out.plan.add("queries", bytes_of(out.queries), query_size.mapped);
  return out;
}

bool must_stop() {
  const std::string shortened = shortened_mapped_file();
  if (!shortened.empty()) {
    throw IoError(fmt::format(
        "'{}' was shortened while it was in use; leave files alone while they are searched, or search a copy",
        shown(shortened)));
  }
  return interrupted();
}

void stop_if_interrupted() {
  if (must_stop()) throw Cancelled("interrupted");
}

FileFormat format_of_input(const std::string& path) {
  try {
    return guess_format(path);
  } catch (const InvalidArgument& error) {
    std::string text = error.what();
    constexpr std::string_view remedy = "name the format";
    if (const auto at = text.find(remedy); at != std::string::npos) {
      text.insert(at + remedy.size(), " (--input-format)");
    }
    throw IoError(text);
  }
}

std::optional<FileFormat> parse_format(const std::string& text) {
  if (text.empty()) return std::nullopt;
  for (int value = 0; value <= static_cast<int>(FileFormat::index); ++value) {
    const auto format = static_cast<FileFormat>(value);
    if (text == name(format)) return format;
  }
  std::string known;
  for (int value = 0; value < static_cast<int>(FileFormat::index); ++value) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name(static_cast<FileFormat>(value)));
  }
  throw InvalidArgument(fmt::format("format '{}' is not one Kith knows; use one of {}", text, known));
}

std::vector<std::pair<std::string, std::string>> dataset_formats() {
  return {{"fvecs", "float32 rows, each after its dimension (TEXMEX)"},
          {"bvecs", "the same with bytes"},
          {"fbin", "float32 after an 8-byte header (big-ann)"},
          {"u8bin", "the same with bytes"},
          {"i8bin", "the same with signed bytes"},
          {"npy", "NumPy array; holds every element type"},
          {"hdf5", "ann-benchmarks"},
          {"pcd", "point cloud"},
          {"ply", "point cloud"},
          {"las", "laser scan"},
          {"xyz", "text, one point a line"}};
}

std::vector<std::pair<std::string, std::string>> result_formats() {
  return {{"npy", "FILE.indices.npy and FILE.distances.npy; also without an extension"},
          {"ivecs", "indices, with the distances in a .fvecs beside"},
          {"ibin", "ground-truth file of big-ann (.ibin, .bin)"},
          {"hdf5", "members neighbors and distances (.h5, .hdf5)"},
          {"json", "text for programs"},
          {"table", "text for people (.txt)"}};
}

std::vector<std::pair<std::string, std::string>> vector_and_result_formats() {
  auto all = dataset_formats();
  for (auto& format : result_formats()) {
    bool known = false;
    for (const auto& [held, meaning] : all) known = known || held == format.first;
    if (!known) all.push_back(std::move(format));
  }
  for (auto& [held, meaning] : all) meaning.clear();
  return all;
}

std::optional<FileFormat> format_of_extension(const std::string& path) {
  try {
    // A name that cannot exist: only its extension speaks.
    return guess_format("/dev/null/output" + fs::path(path).extension().string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_output(const std::string& path, const std::string& format,
                  const std::vector<std::pair<std::string, std::string>>& formats, bool extension_needed) {
  std::error_code error;
  if (path.empty()) throw InvalidArgument("the output file's name is empty; name a file");
  if (fs::is_directory(path, error)) {
    throw IoError(fmt::format("cannot write '{}': it is a folder; name a file in it", path));
  }
  if (is_stream(path)) {
    check_stream_output(path, format, formats);
    return;
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error)) {
    throw IoError(
        fmt::format("cannot write '{}': there is no folder '{}'; make it first", path, folder.string()));
  }
  // Files appear under another name first, so the folder is written to even where the file is there already.
  const fs::file_type type = fs::status(path, error).type();
  if ((type == fs::file_type::not_found || type == fs::file_type::regular) &&
      ::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw IoError(fmt::format("cannot write into '{}': {}", folder.string(), std::strerror(errno)));
  }
  if (!format.empty() || (fs::path(path).extension().empty() && !extension_needed)) return;
  std::string list;
  for (const auto& [known, meaning] : formats) list += (list.empty() ? "" : ", ") + known;
  const std::string extension = fs::path(path).extension().string();
  const std::optional<FileFormat> held = format_of_extension(path);
  for (const auto& [known, meaning] : formats) {
    if (held && name(*held) == known) return;
  }
  throw InvalidArgument(fmt::format("cannot write '{}': {}; use --format or an extension for one of {}", path,
                                    extension.empty() ? "it has no extension that names a format"
                                                      : fmt::format("'{}' is no format for this", extension),
                                    list));
}

void check_index_output(const std::string& path) {
  check_output(path, "index", {}, false);
  const auto told = format_of_extension(path);
  if (!told || *told == FileFormat::index) return;
  throw InvalidArgument(
      fmt::format("cannot write an index to '{}': its extension is that of {} files; use .kith, .index or no "
                  "extension",
                  path, name(*told)));
}

}  // namespace kith::cli
