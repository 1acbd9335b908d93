// `-`, pipes and devices as inputs and outputs, and which files an output may not replace.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common.hpp"
#include "input.hpp"

namespace kith::cli {

/// Declares --input-format. `names` are the inputs in the usage line, for the help.
void add_input_format_option(CLI::App& command, Common& common, std::string& format,
                             const std::vector<std::string>& names,
                             std::vector<std::pair<std::string, std::string>> formats);

/// Before inputs are opened: what can be read only once (`-`, a pipe, a terminal) is read into memory,
/// within --memory-limit, and `path` becomes that of a file which can be opened as often as needed.
/// `input_format` is for the sources whose names tell no format, or for all where every name tells one.
/// @throws IoError, InvalidArgument (one stream twice), OutOfMemory
void open_inputs(const Common& common, const std::vector<Source*>& sources, const std::string& input_format);
/// What --input-format says of each of these, not opened yet or opened: the format of those whose names tell
/// none, or of all where every name tells one; nothing of what was unpacked.
std::vector<std::optional<FileFormat>> named_formats(const std::vector<std::string>& paths,
                                                     const std::string& input_format);
/// The same as open_inputs for an index, whose format needs no name.
void open_input(const Common& common, std::string& path);

/// What messages call an input that open_inputs has opened.
std::string shown(const std::string& path);
/// From now on messages call a file what it stands for.
void show_as(const std::string& path, const std::string& name);
/// True where another process can open the path, too.
bool is_plain_file(const std::string& path);

/// The path that an output option names: /dev/stdout for `-`.
/// @throws InvalidArgument when --json would print between the data
std::string output_path(const Common& common, const std::string& given);
/// What messages call it.
std::string shown_output(const std::string& path);
/// True when a path is standard output, by whatever name.
bool is_standard_output(const std::string& path);
/// True when an output of this run goes to a pipe, a device or an open file: what arrives there stays.
bool writes_to_stream() noexcept;

/// check_output for what is no file: its format must be known, and must be one file.
void check_stream_output(const std::string& path, const std::string& format,
                         const std::vector<std::pair<std::string, std::string>>& formats);

/// @throws InvalidArgument when one of the files to write is one of those read, under whatever name, or lies
/// in a folder of tiles or shards that is read
void refuse_overwriting(const std::vector<std::filesystem::path>& outputs,
                        const std::vector<std::string>& inputs);

}  // namespace kith::cli
