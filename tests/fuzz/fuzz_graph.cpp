// One fuzzer a format of graphs: KITH_FUZZ_FORMAT names it (libFuzzer).
#include "fuzz/graph_harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)kith::fuzz::try_graph_reader(KITH_FUZZ_FORMAT, std::as_bytes(std::span(data, size)));
  return 0;
}
