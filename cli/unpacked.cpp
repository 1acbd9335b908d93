#include "unpacked.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "kith/error.hpp"
#include "python.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

std::string lower_extension(const fs::path& path) {
  std::string text = path.extension().string();
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Beside an installed kith, or in the source tree around a built one.
std::string program() {
  std::error_code error;
  const fs::path bin = program_folder();
  for (const fs::path& file : {bin.parent_path() / "share/kith/_unpack.py",
                               bin.parent_path().parent_path() / "python/kith/_unpack.py",
                               bin.parent_path().parent_path().parent_path() / "python/kith/_unpack.py"}) {
    if (fs::exists(file, error)) return file.string();
  }
  throw IoError(fmt::format("'{}' is missing, which reads LAZ and E57; install kith again",
                            (bin.parent_path() / "share/kith/_unpack.py").string()));
}

}  // namespace

UnpackedClouds::UnpackedClouds(const Common& common, std::vector<fs::path> paths, const fs::path& folder)
    : paths_(std::move(paths)) {
  try {
    for (fs::path& path : paths_) {
      const std::string extension = lower_extension(path);
      if (extension != ".laz" && extension != ".e57") continue;
      const bool laz = extension == ".laz";
      const char* named = std::getenv("KITH_PYTHON");
      const std::string python = find_python(
          named == nullptr ? "" : named,
          laz ? std::vector<std::string>{"laspy", "lazrs"} : std::vector<std::string>{"pye57"},
          fmt::format("'{}' is read by", path.string()),
          fmt::format("install {} (python3 -m pip install {}), or name a Python that has {} with KITH_PYTHON",
                      laz ? "them" : "it", laz ? "laspy lazrs" : "pye57", laz ? "them" : "it"));
      fs::path place = folder;
      if (!place.has_filename()) place = place.parent_path();
      place += fmt::format(".{}.{}.unpacked.npy", ::getpid(), made_.size());
      made_.push_back(place);
      const Ended ended = run_program({python, "-B", program(), "unpack", path.string(), place.string(),
                                       std::to_string(std::max<std::int64_t>(0, common.threads))});
      if (ended.status != 0) {
        const std::string said = ended.out.substr(0, ended.out.find('\n'));
        throw IoError(said.empty() ? fmt::format("cannot read '{}': its reader ended with status {}",
                                                 path.string(), ended.status)
                                   : said);
      }
      // Of a name of its own in every run: a time of 0 says that none goes on from it.
      fs::last_write_time(place, std::chrono::file_clock::from_sys(std::chrono::sys_seconds{}));
      path = place;
    }
  } catch (...) {
    remove();
    throw;
  }
}

void UnpackedClouds::remove() noexcept {
  std::error_code ignored;
  for (const fs::path& file : made_) fs::remove(file, ignored);
}

}  // namespace kith::cli
