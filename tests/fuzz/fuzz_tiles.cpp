// Manifests and journals of point tiles: KITH_FUZZ_FORMAT names which (libFuzzer). Every input is tried as it
// is, and as what its checksum is right of.
#include "fuzz/tile_harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (std::string_view(KITH_FUZZ_FORMAT) == "tiles-manifest") {
    (void)kith::fuzz::try_manifest(bytes);
    (void)kith::fuzz::try_manifest(kith::fuzz::as_manifest(bytes));
  } else {
    (void)kith::fuzz::try_journal(bytes);
    (void)kith::fuzz::try_journal(kith::fuzz::as_journal(bytes));
  }
  return 0;
}
