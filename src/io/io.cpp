// read_dataset, write_dataset and inspect: arguments checked here, formats looked up in the table.
#include "kith/io.hpp"

#include <new>
#include <string>

#include "io/format.hpp"
#include "io/index_file.hpp"

namespace kith {
namespace {

// Formats that hold vectors, for messages.
std::string dataset_formats() {
  std::string list;
  for (const io::Format& entry : io::formats()) {
    if (entry.read != nullptr) list += (list.empty() ? "" : ", ") + std::string(entry.name);
  }
  return list;
}

}  // namespace

Dataset read_dataset(const std::filesystem::path& path, const ReadOptions& options) {
  if (options.first_row < 0 || options.max_rows < -1) {
    throw InvalidArgument(
        fmt::format("first row {} and at most {} rows: neither may be negative (-1 rows: all of them)",
                    options.first_row, options.max_rows));
  }
  const io::Source source = io::open_source(path, options.cancelled);
  const FileFormat format = options.format ? *options.format : io::guess_format(source, source.name, true);
  const io::Format& entry = io::format_of(format);
  if (!options.member.empty() && format != FileFormat::hdf5) {
    throw InvalidArgument(
        fmt::format("'{}' is {}, which has no members to choose '{}' from; leave the member out", source.name,
                    entry.name, options.member));
  }
  if (entry.read == nullptr) {
    throw io::bad_file(source, "is {}, which holds no vectors; files that do are {}", entry.name,
                       dataset_formats());
  }
  try {
    return entry.read(source, options);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format("no memory to read '{}' ({} bytes); read fewer rows at a time", source.name,
                                  source.size()));
  }
}

void write_dataset(const std::filesystem::path& path, const DatasetView& data, const WriteOptions& options) {
  validate(data, "data to write");
  if (data.space != MemorySpace::host) {
    throw InvalidArgument("data to write lie on a device; copy them to host memory first");
  }
  const io::Format* entry = options.format ? &io::format_of(*options.format) : io::format_by_extension(path);
  if (entry == nullptr || entry->write == nullptr) {
    throw InvalidArgument(fmt::format(
        "cannot write vectors to '{}': {}; formats that hold them are {}", path.string(),
        entry == nullptr ? "its extension names no format" : fmt::format("{} holds none", entry->name),
        dataset_formats()));
  }
  if (path.extension() == ".laz" && entry->format == FileFormat::las) {
    throw InvalidArgument(
        fmt::format("cannot write '{}': compressed LAS is not supported; write .las", path.string()));
  }
  AtomicFile out(path, options.cancelled);
  entry->write(out, data);
  out.commit();
}

FileInfo inspect(const std::filesystem::path& path, std::optional<FileFormat> format) {
  const io::Source source = io::open_source(path);
  const io::Format* entry = nullptr;
  try {
    entry = &io::format_of(format ? *format : io::guess_format(source, source.name, false));
  } catch (const InvalidArgument& error) {
    throw IoError(error.what());
  }
  FileInfo info = entry->inspect(source);
  info.format = entry->format;
  info.bytes = source.size();
  return info;
}

}  // namespace kith
