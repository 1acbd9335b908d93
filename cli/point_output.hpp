// Points with what was found out about them, as files of points: with all that the input's points have where
// both are LAS or LAZ, or both PLY; LAZ is written by Python (python/kith/_repack.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common.hpp"
#include "core/temporary_files.hpp"
#include "input.hpp"
#include "io/point_copy.hpp"
#include "kith/point_tiles.hpp"

namespace kith::cli {

/// The clouds of a command: files as they were named, and as they can be read (unpacked).
struct CloudFiles {
  std::vector<std::string> named;
  std::vector<std::string> readable;
  std::vector<std::optional<FileFormat>> formats;  ///< that were named; none: told by names and first bytes
  std::vector<std::int64_t> rows = {};             ///< where they are known; empty: to be asked of the files
};

/// Whether an output is a folder, in which every input gets a file of its own name and format.
bool is_output_folder(const std::string& output);
/// A folder that an output names ("out/") is made where there is none, and goes again where nothing comes
/// into it.
class OutputFolder {
 public:
  /// @param output loses its slash
  /// @throws IoError
  explicit OutputFolder(std::string& output);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

 private:
  std::filesystem::path made_;
};
/// Whether the first cloud is of this format, and keeps its attributes in another file of it.
bool keeps_attributes(const CloudFiles& clouds, FileFormat format);
/// Whether its extension is that of compressed LAS.
bool is_laz(const std::filesystem::path& path);

/// Where the points of one input go.
struct PointTarget {
  enum class Way : std::uint8_t {
    attributes,   ///< as they are in the input
    packed,       ///< the same, by Python: one of the two is LAZ
    coordinates,  ///< x, y and z alone
  };
  std::string named;
  std::string readable;
  std::filesystem::path path;
  FileFormat format = FileFormat::las;
  Way way = Way::attributes;
  std::optional<FileFormat> read_as = {};  ///< see CloudFiles
  std::int64_t rows = -1;                  ///< of the input, where they are known
};

/// Where those of every input go.
/// @param format of the output; without meaning where that is a folder
/// @throws InvalidArgument where an input's points cannot go there, with a remedy
std::vector<PointTarget> plan_targets(const CloudFiles& clouds, const std::string& output, FileFormat format);

/// Names of the columns of normals and curvature, as programs that read the format expect them.
std::vector<std::string> normal_names(FileFormat format);

/// Writes them, all or none; @param changes of all the clouds' points, one cloud after the other; without
/// names the columns are those of normals
/// @throws IoError, InvalidArgument, Cancelled
void write_targets(const Common& common, const std::vector<PointTarget>& targets,
                   const io::PointChanges& changes);

/// The files that tiles were made of: those named, or where a folder of tiles was, what it says, LAZ and E57
/// as they are.
/// @throws IoError where they are not what they were
CloudFiles files_of(const PointTiles& tiles, const CloudFiles& named);
/// What tells these tiles from others.
std::string fingerprint_of(const PointTiles& tiles);
/// Of a search that a run before has done.
TileStatistics tile_statistics(const PointTiles& tiles);

/// A file between tiles and the output that is made of it. It goes with the object, and outlives a process
/// that is killed as well as a failure to write the output: the next run begins where this one stopped.
class Intermediate {
 public:
  /// @param task all that the file depends on
  Intermediate(const std::string& output, const std::string& suffix, const nlohmann::json& task);
  Intermediate(const Intermediate&) = delete;
  Intermediate& operator=(const Intermediate&) = delete;
  ~Intermediate();

  const std::filesystem::path& path() const { return path_; }
  /// What finish() was given by a run before; nothing where there was none, or of another task, or where the
  /// file is not what it was then: size and checksum are compared.
  std::optional<nlohmann::json> finished() const;
  /// The file is whole.
  void finish(const nlohmann::json& result);
  /// It stays. @return what to tell the user, to end a message with
  std::string keep();

 private:
  std::filesystem::path path_;
  std::filesystem::path note_path_;
  nlohmann::json task_;
  bool whole_ = false;
  bool keep_ = false;
  std::vector<TemporaryFileNote> notes_;
};

/// Writes an output from what lies between; where that fails for want of space, it stays.
template <class Write>
void write_through(Intermediate& between, const Write& write) {
  try {
    write();
  } catch (const IoError& error) {
    throw IoError(error.what() + between.keep());
  }
}

/// A note of what an input has beside coordinates and the output will lack.
void note_what_is_lost(const Common& common, const Source& points, const std::string& output);

/// What a command is to write, of which files.
struct PointsWanted {
  CloudFiles clouds;
  std::string output;
  FileFormat format = FileFormat::las;
};
/// The normals of tiles, and the files of their points with them.
TileAnswer normals_with_points(const Common& common, const PointsWanted& wanted, const PointTiles& tiles,
                               const Neighborhood& near, const std::optional<std::vector<double>>& viewpoint,
                               const TileSearchOptions& search, const Execution& execution);
/// The outliers of tiles, and the files of their points without them.
TileOutliers outliers_with_points(const Common& common, const PointsWanted& wanted, const PointTiles& tiles,
                                  const Neighborhood& near, double ratio, const TileSearchOptions& search,
                                  const Execution& execution);

/// The flags of an npy of bool, as io::PointChanges asks for them.
std::function<void(std::int64_t, std::span<std::uint8_t>)> flags_of(const std::filesystem::path& path,
                                                                    std::int64_t rows);

}  // namespace kith::cli
