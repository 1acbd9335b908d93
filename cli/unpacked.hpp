// What Python unpacks: LAZ, COPC and E57 (python/kith/_unpack.py), columns of Parquet and Arrow files
// (python/kith/_arrow.py).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common.hpp"
#include "core/temporary_files.hpp"

namespace kith::cli {

/// FILE of a name like FILE.parquet:COLUMN, or FILE.arrow:COLUMN; any other name, and that of a file which is
/// called so, as it is.
std::string file_of(const std::string& path);

/// Who reads what is packed: laspy with lazrs, pye57, or pyarrow.
enum class Reader { laz, e57, table };
/// By its name, of a file that is_packed.
Reader reader_of(const std::string& path);

/// Whether a file is LAZ (COPC, too) by its first bytes, or LAZ, E57, Parquet or Arrow by its extension.
bool is_packed(const std::string& path);

/// npy files in the place of those that are packed, while the object lives. They lie beside the output
/// ("out.npy.<hash>.unpacked.npy"; in the folder for temporary files where there is none) and are named after
/// what they are made of, so that a run finds what one before it that was killed has left.
class UnpackedClouds {
 public:
  /// @param paths are changed; messages go on calling them what they were called
  /// @param format of --input-format; where it is given, and not las, nothing is unpacked
  /// @throws IoError, Cancelled
  UnpackedClouds(const Common& common, const std::vector<std::string*>& paths, const std::string& output,
                 const std::string& format);
  UnpackedClouds(const Common& common, std::vector<std::string>& paths, const std::string& output,
                 const std::string& format)
      : UnpackedClouds(common, pointers_to(paths), output, format) {}
  UnpackedClouds(const UnpackedClouds&) = delete;
  UnpackedClouds& operator=(const UnpackedClouds&) = delete;
  ~UnpackedClouds() { remove(); }

  /// These files, those that were unpacked as what they were unpacked of.
  std::vector<std::filesystem::path> sources_of(const std::vector<std::filesystem::path>& paths) const;

 private:
  struct Made {
    std::string source;
    std::filesystem::path place;
    int lock = -1;
    TemporaryFileNote note;
  };
  static std::vector<std::string*> pointers_to(std::vector<std::string>& paths) {
    std::vector<std::string*> pointers;
    for (std::string& path : paths) pointers.push_back(&path);
    return pointers;
  }
  void unpack(const Common& common, Made& made) const;
  void remove_older(const std::filesystem::path& stem) const;
  void remove() noexcept;
  std::vector<Made> made_;
};

/// The Python that has it. @throws IoError
std::string python_for(const std::string& path, Reader reader, const std::string& verb);
/// A file of python/kith, beside an installed kith or in the source tree. @throws IoError
std::string program_of(const std::string& name);
/// Runs one that says on its standard output why it failed. @throws IoError, Cancelled
void run_packer(const std::vector<std::string>& arguments, const std::string& path);

}  // namespace kith::cli
