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
    require(shard.base == base && shard.rows >= 0, "shards follow each other");
    base += shard.rows;
    require(!shard.file.empty() && shard.file.front() != '.' && shard.file.find('/') == std::string::npos &&
                shard.file.find('\0') == std::string::npos,
            "a file is in the folder");
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
  try_text(io::manifest_text(sharded::manifest_kind, 1, text));
  return 0;
}
