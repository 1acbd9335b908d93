// Streams are spooled when a command starts; from then on they are files like others.
#include "stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/stream.hpp"
#include "io/manifest_text.hpp"
#include "io/stream_file.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* standard_input = "standard input";

// Held to the end of the program: datasets map them at any time.
std::deque<io::StreamFile>& streams() {
  static std::deque<io::StreamFile> all;
  return all;
}

// Of files that stand for others.
std::map<std::string, std::string>& names() {
  static std::map<std::string, std::string> all;
  return all;
}

std::uint64_t bytes_of_streams = 0;
bool stream_output = false;

struct Identity {
  dev_t device;
  ino_t node;
  std::string name;
};
std::vector<Identity> streams_read;

void read_once(const struct stat& status, const std::string& given) {
  for (const Identity& one : streams_read) {
    if (one.device != status.st_dev || one.node != status.st_ino) continue;
    throw InvalidArgument(fmt::format(
        "'{}' and '{}' are one stream, which can be read only once; save it to a file and name that",
        one.name, given));
  }
  streams_read.push_back({status.st_dev, status.st_ino, given});
}

// A regular file as standard input is mapped like any other, if it is read from its start.
bool can_be_mapped(const struct stat& status) {
  if (!S_ISREG(status.st_mode) || ::lseek(STDIN_FILENO, 0, SEEK_CUR) != 0) return false;
  const int again = ::open("/dev/stdin", O_RDONLY | O_CLOEXEC);
  if (again < 0) return false;
  ::close(again);
  return true;
}

void spool(const Common& common, int descriptor, const std::string& name, std::string& path) {
  const std::uint64_t before = bytes_of_streams;
  io::StreamFile file(descriptor, name, [&](std::uint64_t bytes) {
    MemoryPlan plan(common, "save it to a file, which need not fit into memory");
    plan.add(name, static_cast<double>(before + bytes));
    plan.check();
    bytes_of_streams = before + bytes;
  });
  streams().push_back(std::move(file));
  path = streams().back().path().string();
}

// Whether a file lies, or would lie, in a folder of tiles or shards, or is that folder.
bool is_inside(const fs::path& output, const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || !fs::exists(folder / io::manifest_name, error)) return false;
  for (fs::path place = fs::weakly_canonical(fs::absolute(output), error); !error;
       place = place.parent_path()) {
    if (fs::equivalent(place, folder, error)) return true;
    error.clear();  // what is yet to be written is not there
    if (place == place.parent_path()) break;
  }
  return false;
}

}  // namespace

void add_input_format_option(CLI::App& command, Common& common, std::string& format,
                             const std::vector<std::string>& names,
                             std::vector<std::pair<std::string, std::string>> formats) {
  for (auto& [known, meaning] : formats) meaning.clear();
  const std::string text =
      names.size() == 1
          ? fmt::format(
                "Format of {}, whatever its extension; needed for what comes through a pipe and does not "
                "tell its format by its first bytes",
                names[0])
          : fmt::format(
                "Format of {}, where the name tells none: needed for what comes through a pipe and does "
                "not tell its format by its first bytes. Where both names tell one, of both, whatever "
                "they say",
                fmt::join(names, " or "));
  common.choice(command.add_option("--input-format", format, text)->type_name("FORMAT")->group("Input"),
                formats);
}

void open_input(const Common& common, std::string& path) {
  const std::string given = path;
  const bool is_standard = given == "-";
  const std::optional<int> named = is_standard ? std::optional(STDIN_FILENO) : descriptor_of(given);
  struct stat status {};
  if ((named ? ::fstat(*named, &status) : ::stat(given.c_str(), &status)) != 0) {
    if (!is_standard) return;  // the reader says what is wrong
    throw IoError(fmt::format("cannot read standard input: {}", std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode) || (S_ISREG(status.st_mode) && !is_standard)) return;
  if (S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && !named)) return;  // may have no end
  read_once(status, given);
  if (is_standard && can_be_mapped(status)) {
    path = "/dev/stdin";
    return;
  }
  const std::string name = is_standard ? standard_input : given;
  if (named) {
    spool(common, *named, name, path);
    return;
  }
  const int descriptor = ::open(given.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw IoError(fmt::format("cannot read '{}': {}", given, std::strerror(errno)));
  try {
    spool(common, descriptor, name, path);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
}

std::vector<std::optional<FileFormat>> named_formats(const std::vector<std::string>& paths,
                                                     const std::string& input_format) {
  std::vector<std::optional<FileFormat>> formats(paths.size());
  const auto format = parse_format(input_format);
  if (!format) return formats;
  // The stem of a result's two files is no file, and means npy.
  const auto tells = [](const std::string& path) {
    std::error_code error;
    return format_of_extension(shown(path)) || !fs::exists(path, error);
  };
  const bool all_tell = std::ranges::all_of(paths, tells);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!names().contains(paths[i]) && (all_tell || !tells(paths[i]))) formats[i] = format;
  }
  return formats;
}

void open_inputs(const Common& common, const std::vector<Source*>& sources, const std::string& input_format) {
  if (std::ranges::count_if(sources, [](const Source* one) { return one->path == "-"; }) > 1) {
    throw InvalidArgument(
        "standard input ('-') can be read only once; name a file for one of the inputs, or save it to a file "
        "and name that twice");
  }
  std::vector<std::string> paths;
  for (Source* source : sources) {
    open_input(common, source->path);
    paths.push_back(source->path);
  }
  const auto formats = named_formats(paths, input_format);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (formats[i]) sources[i]->format = formats[i];
  }
  for (const Source* source : sources) {
    if (source->format) continue;
    if (std::error_code ignored; is_plain_file(source->path)) {
      if (fs::is_regular_file(source->path, ignored)) (void)format_of_input(source->path);
      continue;  // of what is not there the reader says so
    }
    try {
      guess_format(source->path);
    } catch (const InvalidArgument&) {
      throw IoError(
          fmt::format("cannot tell the format of '{}' from its first bytes; name it with "
                      "--input-format",
                      shown(source->path)));
    }
  }
}

std::string shown(const std::string& path) {
  const auto named = names().find(path);
  return named != names().end() ? named->second : io::shown_name(path);
}

void show_as(const std::string& path, const std::string& name) {
  names()[path] = name;
}

bool is_plain_file(const std::string& path) {
  return !descriptor_of(path);
}

std::string output_path(const Common& common, const std::string& given) {
  const std::string path = given == "-" ? "/dev/stdout" : given;
  if (!is_stream(path)) return path;
  stream_output = true;
  if (common.json && is_standard_output(path)) {
    throw InvalidArgument(
        "--json prints on standard output, between the data; leave it out, or write the data to a file");
  }
  return path;
}

std::string shown_output(const std::string& path) {
  return path == "/dev/stdout" ? "standard output" : path;
}

bool is_standard_output(const std::string& path) {
  return !path.empty() && descriptor_of(path) == STDOUT_FILENO;
}

bool writes_to_stream() noexcept {
  return stream_output;
}

void check_stream_output(const std::string& path, const std::string& format,
                         const std::vector<std::pair<std::string, std::string>>& formats) {
  const auto has = [&](std::string_view wanted) {
    return std::ranges::any_of(formats, [&](const auto& one) { return one.first == wanted; });
  };
  const bool results = has("ivecs");  // of which two formats are two files
  std::string list;
  for (const auto& [known, meaning] : formats) {
    if (!results || (known != "npy" && known != "ivecs")) list += (list.empty() ? "" : ", ") + known;
  }
  std::string chosen = format;
  if (chosen.empty()) {
    const auto told = format_of_extension(path);
    if (told && has(name(*told))) chosen = name(*told);
  }
  if (chosen.empty() && formats.size() == 1) return;
  if (chosen.empty()) {
    throw InvalidArgument(
        fmt::format("cannot write to '{}': its name tells no format; name one with --format: {}",
                    shown_output(path), list));
  }
  if (results && (chosen == "npy" || chosen == "ivecs")) {
    throw InvalidArgument(
        fmt::format("cannot write to '{}': {} results are two files, indices and distances, and this is one "
                    "stream; use --format {}, or name a file",
                    shown_output(path), chosen, list));
  }
}

void refuse_overwriting(const std::vector<fs::path>& outputs, const std::vector<std::string>& inputs) {
  std::error_code error;
  for (const fs::path& output : outputs) {
    const std::string name = shown_output(output.string());
    for (const std::string& input : inputs) {
      if (is_inside(output, input)) {
        throw InvalidArgument(fmt::format(
            "cannot write '{}': it is in the folder '{}', an input of this command; name a file elsewhere",
            name, input));
      }
      if (!fs::is_regular_file(output, error)) continue;
      if (!fs::equivalent(output, input == "-" ? "/dev/stdin" : file_of(input), error) || error) continue;
      throw InvalidArgument(fmt::format("cannot write '{}': it is {}; name another file", name,
                                        name == input
                                            ? "an input of this command"
                                            : fmt::format("the same file as the input '{}'", shown(input))));
    }
  }
}

}  // namespace kith::cli
