// Fuzzer of the manifest of shards (libFuzzer): what is read keeps the promises of shards, and is written as
// it was read. The checksum, which no input would match by chance, is put right first.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kith/error.hpp"
#include "sharded/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace kith;

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

bool is_in_folder(const std::string& file) {
  return !file.empty() && file.front() != '.' && file.find('/') == std::string::npos &&
         file.find('\0') == std::string::npos;
}

void try_text(const std::string& text) {
  sharded::Manifest manifest;
  try {
    manifest = sharded::parse_manifest(text, "manifest.json");
  } catch (const IoError&) {
    return;
  }
  require(manifest.rows >= 0 && manifest.dim > 0 && !manifest.shards.empty(),
          "there are rows of some dimension");
  std::int64_t base = 0;
  for (const sharded::Shard& shard : manifest.shards) {
    require(shard.rows >= 0 && shard.rows <= shard.span, "a shard's rows are among those of its group");
    require(shard.numbers.bytes > 0 ? shard.base <= base && base < shard.base + shard.span
                                    : shard.base == base && shard.span == shard.rows,
            "shards follow each other, alone or in groups");
    base += shard.rows;
    require(is_in_folder(shard.file), "a file is in the folder");
    require(shard.numbers.bytes == 0 || is_in_folder(shard.numbers.file), "row numbers are in the folder");
  }
  require(base == manifest.rows, "shards are all rows");
  std::string again;
  try {
    again = sharded::to_text(manifest);
  } catch (const std::exception&) {
    require(false, "what was read can be written");
  }
  require(sharded::parse_manifest(again, "manifest.json").shards == manifest.shards,
          "what was written is what was read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_text(text);
  for (const int version : {1, 2}) try_text(io::manifest_text(sharded::manifest_kind, version, text));
  return 0;
}
