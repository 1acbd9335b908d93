#include "point_output.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/positioned_file.hpp"
#include "core/stream.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "kith/error.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/running_hash.hpp"
#include "stream.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;
using Way = PointTarget::Way;

bool packed(const CloudFiles& clouds, std::size_t i) {
  const bool named_format = !clouds.formats.empty() && clouds.formats[i];
  return clouds.named[i] != clouds.readable[i] || (!named_format && is_packed(clouds.named[i]));
}

std::string_view packed_name(Reader reader) {
  return reader == Reader::table ? "a table" : reader == Reader::e57 ? "e57" : "laz";
}

// E57 has no format of its own: it is read as what it is unpacked to.
FileFormat format_of(const CloudFiles& clouds, std::size_t i) {
  if (packed(clouds, i)) return reader_of(clouds.named[i]) == Reader::laz ? FileFormat::las : FileFormat::npy;
  const auto named = clouds.formats.empty() ? std::nullopt : clouds.formats[i];
  return named ? *named : format_of_input(clouds.readable[i]);
}

PointTarget target_of(const CloudFiles& clouds, std::size_t i, const fs::path& path, FileFormat format) {
  PointTarget target{clouds.named[i], clouds.readable[i], path, format, Way::attributes};
  const FileFormat read = format_of(clouds, i);
  if (!packed(clouds, i) && !clouds.formats.empty()) target.read_as = clouds.formats[i];
  if (!clouds.rows.empty()) target.rows = clouds.rows[i];
  const bool by_python = is_laz(path) || (packed(clouds, i) && read == FileFormat::las);
  if (read == format && (format == FileFormat::las || format == FileFormat::ply)) {
    target.way = by_python ? Way::packed : Way::attributes;
    if (by_python && is_stream(path)) {
      throw InvalidArgument(fmt::format("cannot write to '{}': LAZ is written and read as files; name one",
                                        shown_output(path.string())));
    }
  } else if (format == FileFormat::ply || format == FileFormat::pcd || format == FileFormat::xyz) {
    target.way = Way::coordinates;
  } else {
    throw InvalidArgument(fmt::format(
        "cannot write '{}': {} keeps the attributes of LAS and LAZ points, '{}' is {}; write .ply, .pcd or "
        ".npy",
        shown_output(path.string()), is_laz(path) ? "laz" : name(format), shown(clouds.named[i]),
        packed(clouds, i) ? packed_name(reader_of(clouds.named[i])) : name(read)));
  }
  return target;
}

// Columns and flags as files for Python.
struct ForPython {
  std::vector<OutputFile> files;
  std::string columns, dropped;
};

ForPython spill(const PointTarget& target, const io::PointChanges& changes, std::int64_t rows) {
  ForPython made;
  const auto begin = [&](const std::string& header) {
    OutputFile& file = made.files.emplace_back(temporary_name(target.path));
    file.write(0, header.data(), header.size());
    return header.size();
  };
  constexpr std::int64_t block = 1 << 14;
  io::ChangesByRow by_row(changes, rows);
  if (!changes.names.empty()) {
    std::uint64_t end = begin(
        io::npy_header(io::npy_descr(changes.type), fmt::format("({}, {})", rows, changes.names.size())));
    std::vector<std::byte> some;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto values = by_row.values(row);
      some.insert(some.end(), values.begin(), values.end());
      if ((row + 1) % block != 0 && row + 1 < rows) continue;
      made.files.back().write(end, some.data(), some.size());
      end += some.size();
      some.clear();
      stop_if_interrupted();
    }
    made.columns = made.files.back().path().string();
  }
  if (changes.dropped) {
    std::uint64_t end = begin(io::npy_header("|b1", fmt::format("({},)", rows)));
    std::vector<std::uint8_t> flags;
    for (std::int64_t first = 0; first < rows; first += block) {
      flags.assign(static_cast<std::size_t>(std::min(block, rows - first)), 0);
      changes.dropped(first, flags);
      made.files.back().write(end, flags.data(), flags.size());
      end += flags.size();
    }
    made.dropped = made.files.back().path().string();
  }
  return made;
}

void repack(const PointTarget& target, AtomicFile& out, const io::PointChanges& changes, std::int64_t rows) {
  const ForPython spilled = spill(target, changes, rows);
  std::vector<std::string> call = {python_for(target.path.string(), Reader::laz, "written"),
                                   "-B",
                                   program_of("_repack.py"),
                                   target.named,
                                   out.temporary().string(),
                                   is_laz(target.path) ? "laz" : "las",
                                   spilled.columns,
                                   spilled.dropped};
  call.insert(call.end(), changes.names.begin(), changes.names.end());
  run_packer(call, target.named);
}

void write_target(const Common& common, const PointTarget& target, AtomicFile& out,
                  const io::PointChanges& changes, std::int64_t rows) {
  if (target.way == Way::packed) return repack(target, out, changes, rows);
  if (target.way == Way::coordinates) {
    const auto points = io::open_point_stream(target.readable, 0, target.read_as, must_stop);
    return io::write_coordinates(out, target.format, *points, changes);
  }
  const io::Source source = io::open_source(target.readable, must_stop);
  if (target.format == FileFormat::las) return io::copy_las(out, source, changes);
  if (const std::string others = io::elements_beside_points(source); changes.dropped && !others.empty()) {
    note(common, fmt::format("'{}' has {} beside its points, which refer to them by number and are left out",
                             shown(target.named), others));
  }
  io::copy_ply(out, source, changes);
}

}  // namespace

namespace {

std::uint64_t hash_of(const fs::path& path) {
  const InputFile file(path);
  point_tiles::RunningHash hash;
  std::vector<std::byte> piece(std::size_t{4} << 20U);
  const std::uint64_t size = file.size();
  for (std::uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size - at)));
    file.read(at, piece.data(), piece.size());
    hash.add(piece.data(), piece.size());
    stop_if_interrupted();
  }
  return hash.value();
}

}  // namespace

bool is_output_folder(const std::string& output) {
  std::error_code ignored;
  return fs::is_directory(output, ignored) || (!output.empty() && output.back() == '/');
}

OutputFolder::OutputFolder(std::string& output) {
  if (!is_output_folder(output)) return;
  fs::path folder = output;
  if (!folder.has_filename()) folder = folder.parent_path();
  output = folder.string();
  std::error_code error;
  if (fs::create_directory(folder, error)) made_ = folder;
  if (!fs::is_directory(folder)) {
    throw IoError(fmt::format("cannot make the folder '{}': {}", output,
                              error ? error.message() : "there is a file of that name"));
  }
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!made_.empty()) fs::remove(made_, ignored);
}

bool keeps_attributes(const CloudFiles& clouds, FileFormat format) {
  return (format == FileFormat::las || format == FileFormat::ply) && format_of(clouds, 0) == format;
}

bool is_laz(const fs::path& path) {
  return io::lower_extension(path) == ".laz";
}

std::vector<std::string> normal_names(FileFormat format) {
  if (format == FileFormat::ply) return {"nx", "ny", "nz", "curvature"};
  if (format == FileFormat::pcd) return {"normal_x", "normal_y", "normal_z", "curvature"};
  return {"NormalX", "NormalY", "NormalZ", "Curvature"};  // of PDAL and CloudCompare
}

std::vector<PointTarget> plan_targets(const CloudFiles& clouds, const std::string& output,
                                      FileFormat format) {
  std::vector<PointTarget> targets;
  if (!is_output_folder(output)) {
    if (clouds.named.size() > 1) {
      throw InvalidArgument(fmt::format(
          "{} files cannot go into the one '{}' with their attributes; name a folder (-o {}/), in which each "
          "gets a file, or an .npy",
          clouds.named.size(), shown_output(output), fs::path(output).stem().string()));
    }
    targets.push_back(target_of(clouds, 0, output, format));
    refuse_overwriting({output}, clouds.named);  // what tiles were made of, too
    return targets;
  }
  for (std::size_t i = 0; i < clouds.named.size(); ++i) {
    const FileFormat own = format_of(clouds, i);
    const fs::path path = fs::path(output) / fs::path(clouds.named[i]).filename();
    if ((own != FileFormat::las && own != FileFormat::ply) || !is_plain_file(clouds.named[i])) {
      throw InvalidArgument(fmt::format(
          "'{}' is no LAS, LAZ or PLY file, whose like a folder of answers gets; name a file, .npy or "
          ".ply, instead of the folder '{}'",
          shown(clouds.named[i]), output));
    }
    for (const PointTarget& other : targets) {
      if (other.path != path) continue;
      throw InvalidArgument(fmt::format("'{}' and '{}' would both be '{}'; answer them one after the other",
                                        other.named, clouds.named[i], path.string()));
    }
    targets.push_back(target_of(clouds, i, path, own));
  }
  std::vector<fs::path> paths;
  for (const PointTarget& target : targets) paths.push_back(target.path);
  refuse_overwriting(paths, clouds.named);
  return targets;
}

void write_targets(const Common& common, const std::vector<PointTarget>& targets,
                   const io::PointChanges& changes) {
  const CancellableScope scope;
  std::vector<AtomicFile> files;
  files.reserve(targets.size());
  std::int64_t first = 0;
  for (const PointTarget& target : targets) {
    const std::int64_t rows =
        target.rows >= 0 ? target.rows : io::open_point_stream(target.readable, 0, target.read_as)->rows();
    io::PointChanges own = changes;
    if (changes.values != nullptr) own.names = normal_names(target.format);
    own.first_value = first;
    if (changes.dropped) {
      own.dropped = [&changes, first](std::int64_t row, std::span<std::uint8_t> flags) {
        changes.dropped(first + row, flags);
      };
    }
    write_target(common, target, files.emplace_back(target.path, must_stop), own, rows);
    files.back().finish();  // many files, one open at a time
    first += rows;
  }
  commit_all(files);
  outputs_in_place();
}

CloudFiles files_of(const PointTiles& tiles, const CloudFiles& named) {
  std::error_code ignored;
  if (!fs::is_directory(named.named.front(), ignored)) return named;
  CloudFiles clouds;
  std::vector<fs::path> paths;
  PointTilesParameters as_named;
  const point_tiles::Folder folder(tiles.folder());
  for (const auto& source : folder.manifest().sources) {
    clouds.named.push_back(source.name);
    clouds.formats.push_back(source.format);
    clouds.rows.push_back(source.rows);
    paths.emplace_back(source.name);
  }
  as_named.formats = clouds.formats;
  if (!PointTiles::is_built_from(tiles.folder(), paths, as_named)) {
    throw IoError(fmt::format(
        "'{}' does not lead to the points' attributes: what it was made of, '{}'{}, is not there as it was; "
        "name "
        "the files instead of the tiles, or write .npy",
        tiles.folder().string(), clouds.named.front(), clouds.named.size() > 1 ? " among others" : ""));
  }
  clouds.readable = clouds.named;
  return clouds;
}

std::string fingerprint_of(const PointTiles& tiles) {
  return point_tiles::Folder(tiles.folder()).fingerprint();
}

TileStatistics tile_statistics(const PointTiles& tiles) {
  TileStatistics statistics;
  statistics.queries = tiles.rows();
  statistics.nan_rows = statistics.nan_queries = tiles.nan_rows();
  statistics.tiles = statistics.resumed_tiles = tiles.tiles();
  statistics.tile_bytes = tiles.bytes();
  return statistics;
}

Intermediate::Intermediate(const std::string& output, const std::string& suffix, const nlohmann::json& task)
    : task_(nlohmann::json::parse(task.dump())) {  // as it is read back: an infinite radius is null
  fs::path stem = output;
  if (!stem.has_filename()) stem = stem.parent_path();
  path_ = stem.string() + suffix;
  note_path_ = path_.string() + ".json";
}

Intermediate::~Intermediate() {
  if (keep_) return;
  std::error_code ignored;
  if (whole_) fs::remove(path_, ignored);
  if (whole_) fs::remove(note_path_, ignored);
}

std::optional<nlohmann::json> Intermediate::finished() const {
  std::ifstream file(note_path_);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const nlohmann::json note =
      point_tiles::is_shallow(text) ? nlohmann::json::parse(text, nullptr, false) : nullptr;
  const auto says = [&](const char* key, const nlohmann::json& value) {
    return note.is_object() && note.contains(key) && note[key] == value;
  };
  std::error_code gone;
  const auto bytes = fs::file_size(path_, gone);
  // What is not as it was noted is found anew, in its place.
  if (gone || !says("task", task_) || !says("bytes", bytes) || !says("xxh3", hash_of(path_))) {
    return std::nullopt;
  }
  return note.contains("result") ? note["result"] : nullptr;
}

void Intermediate::finish(const nlohmann::json& result) {
  whole_ = true;
  notes_.emplace_back(path_);
  notes_.emplace_back(note_path_);
  AtomicFile file(note_path_);
  // Read once more, of which the page cache has the end at least: nothing else tells a later run that these
  // bytes are those that were found.
  file.write(nlohmann::json{
      {"task", task_}, {"bytes", fs::file_size(path_)}, {"xxh3", hash_of(path_)}, {"result", result}}
                 .dump());
  file.commit();
}

std::string Intermediate::keep() {
  if (!whole_) return "";
  keep_ = true;
  return fmt::format("; what was found stays in '{}': run the same again to go on, or remove it and '{}'",
                     path_.string(), note_path_.string());
}

std::function<void(std::int64_t, std::span<std::uint8_t>)> flags_of(const fs::path& path, std::int64_t rows) {
  auto file = std::make_shared<InputFile>(path);
  const std::uint64_t header = file->size() - static_cast<std::uint64_t>(rows);
  return [file, header](std::int64_t first, std::span<std::uint8_t> flags) {
    file->read(header + static_cast<std::uint64_t>(first), flags.data(), flags.size());
  };
}

}  // namespace kith::cli
