// The reports' tables, as far as Kith's design notes keep them; nothing here is measured by us.
#include "published.hpp"

namespace kith::ladder {

const std::vector<Published>& published() {
  constexpr std::int64_t m1 = 1'048'576;
  constexpr std::int64_t m16 = 16'777'216;
  constexpr const char* serial = "serial on the CPU";
  constexpr const char* one = "1 GPU, copies included";
  constexpr const char* four = "4 GPUs, copies included";
  static const std::vector<Published> table = {
      {3, 1, m16, 1, 1, serial, {46.0, 217.7}},
      {3, 1, m16, 1, 0, one, {58.2, 73.1}},
      {3, 1, m16, 1, 9, four, {25.7, 38.6}},
      {16, 1, m16, 1, 1, serial, {201.5, 992.5}},
      {16, 1, m16, 1, 0, one, {334.9, 343.1}},
      {16, 1, m16, 1, 9, four, {100.3, 180.5}},
      {3, 1024, m1, 1, 1, serial, {2804, 12249}},
      {3, 1024, m1, 1, 0, one, {20.0, 30.0}},
      {3, 1024, m1, 1, 9, four, {10.0, 12.8}},
      {16, 1024, m1, 1, 1, serial, {12104, 56173}},
      {16, 1024, m1, 1, 0, one, {48.6, 94.0}},
      {16, 1024, m1, 1, 9, four, {17.3, 27.8}},
      {3, 1024, 65536, 1, 15, "k-d tree on the CPU, search alone", {1.07, 1.24}},
      {3, 1024, 65536, 1, 16, "k-d tree on the GPU, search alone", {0.43, 0.44}},
      {3, 1024, 65536, 1, 17, "octree on the CPU, search alone", {20.4}},
      {3, 1024, 65536, 1, 18, "octree on the GPU, search alone; not exact", {0.98}},
      {16, 1024, 65536, 1, 16, "k-d tree on the GPU", {24.3, 24.9}},
      {128, 512, 8192, 16, 0, "1 GPU", {8.9}},
  };
  return table;
}

}  // namespace kith::ladder
