// The text of a folder's manifest: one JSON object, whose content has a checksum.
//
//   {"format":"kith shards","version":1,"xxh3":"<16 hexadecimal digits>","content":{...}}\n
//
// The checksum is the XXH3-64 of the content's bytes as they stand in the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace kith::io {

inline constexpr std::string_view manifest_name = "manifest.json";

/// One kind of folder, and what messages say of it.
struct ManifestKind {
  std::string_view format;   ///< "kith point tiles"
  std::string_view what;     ///< "point tiles"
  std::string_view remedy;   ///< "build the tiles again"
  std::string_view command;  ///< "kith build --index point_tiles"
  int newest = 1;            ///< versions 1 to this are read
};

/// A checksum as 16 hexadecimal digits, and back. @throws std::invalid_argument for other text
std::string hash_text(std::uint64_t hash);
std::uint64_t parse_hash(const std::string& text);

std::string manifest_text(const ManifestKind& kind, int version, const std::string& content);

/// Calls parse(version, content) with what stands in a manifest, once its checksum is found right. JSON
/// exceptions, std::invalid_argument and InvalidArgument that it throws become IoError.
/// @param file names it in messages
/// @throws IoError for text that is empty, truncated, corrupt, foreign or newer
void parse_manifest_text(const ManifestKind& kind, std::string_view text, const std::string& file,
                         const std::function<void(int, const nlohmann::json&)>& parse);

/// Whether a folder has a manifest that begins as those of this kind do.
bool has_manifest(const ManifestKind& kind, const std::filesystem::path& folder);

/// All of a small file. @throws IoError
std::string read_text(const std::filesystem::path& path);

}  // namespace kith::io
