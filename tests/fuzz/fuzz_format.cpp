// One fuzzer a format: KITH_FUZZ_FORMAT names it (libFuzzer).
#include <string_view>

#include "fuzz/harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const kith::io::Format& format = []() -> const kith::io::Format& {
    for (const auto& entry : kith::io::formats()) {
      if (entry.name == std::string_view(KITH_FUZZ_FORMAT)) return entry;
    }
    std::abort();
  }();
  kith::fuzz::try_readers(format, std::as_bytes(std::span(data, size)));
  return 0;
}
