#include "io/manifest_text.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "core/positioned_file.hpp"
#include "kith/error.hpp"

namespace kith::io {
namespace {

constexpr std::string_view before_hash = ",\"xxh3\":\"";
constexpr std::string_view before_content = "\",\"content\":";
constexpr std::string_view end = "}\n";
constexpr std::size_t hash_digits = 16;

std::string start_of(const ManifestKind& kind) {
  return fmt::format("{{\"format\":\"{}\",\"version\":", kind.format);
}

std::string versions(const ManifestKind& kind) {
  if (kind.newest == 1) return "1";
  return kind.newest == 2 ? "1 and 2" : fmt::format("1 to {}", kind.newest);
}

}  // namespace

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::uint64_t parse_hash(const std::string& text) {
  if (text.size() != hash_digits || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw std::invalid_argument(fmt::format("'{}' is no checksum", text));
  }
  return std::stoull(text, nullptr, 16);
}

std::string manifest_text(const ManifestKind& kind, int version, const std::string& content) {
  return fmt::format("{}{}{}{}{}{}{}", start_of(kind), version, before_hash,
                     hash_text(XXH3_64bits(content.data(), content.size())), before_content, content, end);
}

void parse_manifest_text(const ManifestKind& kind, std::string_view text, const std::string& file,
                         const std::function<void(int, const nlohmann::json&)>& parse) {
  const auto fail = [&](const std::string& why) { return IoError(fmt::format("'{}' {}", file, why)); };
  if (text.empty()) throw fail(fmt::format("is empty; {}", kind.remedy));
  const std::string start = start_of(kind);
  // Another kind of folder says what it is.
  constexpr std::string_view any = "{\"format\":\"kith ";
  if (text.starts_with(any) && !text.starts_with(start)) {
    const std::string_view other = text.substr(any.size(), text.find('"', any.size()) - any.size());
    throw fail(
        fmt::format("is the manifest of {}, not of {}; name another folder", other.substr(0, 40), kind.what));
  }
  if (!text.starts_with(start)) {
    throw fail(fmt::format("is not the manifest of {}, or corrupt; {} with {}", kind.what, kind.remedy,
                           kind.command));
  }
  std::string_view rest = text.substr(start.size());
  const std::string written(rest.substr(0, std::min(rest.find(','), rest.size())));
  rest.remove_prefix(written.size());
  int version = 1;
  while (version <= kind.newest && written != std::to_string(version)) ++version;
  if (version > kind.newest) {
    throw fail(fmt::format("has version {} of the format of {}; this Kith reads {}; use another Kith, or {}",
                           written.substr(0, 20), kind.what, versions(kind), kind.remedy));
  }
  const std::string cut = fmt::format("is truncated or corrupt; {}", kind.remedy);
  if (!rest.starts_with(before_hash) ||
      rest.size() < before_hash.size() + hash_digits + before_content.size() + end.size() ||
      !rest.ends_with(end)) {
    throw fail(cut);
  }
  const std::string_view hash = rest.substr(before_hash.size(), hash_digits);
  rest.remove_prefix(before_hash.size() + hash_digits);
  if (!rest.starts_with(before_content)) throw fail(cut);
  rest.remove_prefix(before_content.size());
  rest.remove_suffix(end.size());
  if (hash_text(XXH3_64bits(rest.data(), rest.size())) != hash) {
    throw fail(fmt::format("is corrupt: it does not match its checksum; {}", kind.remedy));
  }
  try {
    parse(version, nlohmann::json::parse(rest));
  } catch (const nlohmann::json::exception& error) {
    throw fail(fmt::format("is corrupt: it is not what Kith writes ({})", error.what()));
  } catch (const std::invalid_argument& error) {
    throw fail(fmt::format("is corrupt: {}", error.what()));
  } catch (const InvalidArgument& error) {
    throw fail(fmt::format("is corrupt: {}", error.what()));
  }
}

bool has_manifest(const ManifestKind& kind, const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder / manifest_name, ignored)) return false;
  const std::string wanted = fmt::format("{{\"format\":\"{}\"", kind.format);
  std::ifstream file(folder / manifest_name, std::ios::binary);
  std::string start(wanted.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file && start == wanted;
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    throw IoError(fmt::format("cannot read '{}': it is not a regular file", path.string()));
  }
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

}  // namespace kith::io
