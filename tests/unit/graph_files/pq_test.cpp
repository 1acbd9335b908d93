// DiskANN's product quantizers: read, used, written as equal bytes; Kith's own written and read again.
#include <gtest/gtest.h>

#include <string>

#include "kith/codes.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "kith/graph_files.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/graph_files.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;
using test::read_file;
using test::write_file;

TEST(PqFiles, AreReadAsTheyAreAndWrittenAsEqualBytes) {
  const std::string bytes = test::pq_pivots_bytes();
  for (const bool rotated : {false, true}) {
    const test::TemporaryFolder folder;
    write_file(folder / "p.bin", bytes);
    if (rotated) write_file(folder / "p.bin_rotation_matrix.bin", test::rotation_bytes());
    EXPECT_TRUE(is_pq_pivots(folder / "p.bin"));
    import_pq(folder / "p.bin").save(folder / "q.kith");
    for (const Quantizer& quantizer : {import_pq(folder / "p.bin"), Quantizer::load(folder / "q.kith")}) {
      EXPECT_EQ(quantizer.kind(), CodeKind::pq);
      EXPECT_EQ(quantizer.dim(), 6);
      EXPECT_EQ(quantizer.code_bytes(), 3);
      EXPECT_EQ(export_pq(quantizer, folder / "again").size(), rotated ? 2U : 1U);
      EXPECT_EQ(read_file(folder / "again"), bytes);
      if (rotated) {
        EXPECT_EQ(read_file(folder / "again_rotation_matrix.bin"), test::rotation_bytes());
      }
      // What code 1, 2, 3 stands for, by the layout: centroids side by side, turned back, plus the mean.
      const std::uint8_t code[3] = {1, 2, 3};
      const Dataset row = quantizer.decode(DatasetView(code, 1, 3));
      const auto* values = static_cast<const float*>(row.view().data);
      const auto pivot = [](std::uint32_t centroid, std::uint32_t d) {
        return static_cast<float>((centroid * 6 + d) * 2654435761U % 1001) / 64;
      };
      const float expected = rotated ? pivot(2, 3) : pivot(1, 0);  // unit vector 0 goes to place 3
      EXPECT_NEAR(values[0], expected, 1e-4);
      EXPECT_EQ(std::vector<std::uint8_t>(code, code + 3), [&] {
        const Dataset codes = quantizer.encode(row);
        const auto* data = static_cast<const std::uint8_t*>(codes.view().data);
        return std::vector<std::uint8_t>(data, data + 3);
      }());
    }
  }
}

TEST(PqFiles, TrainedQuantizersComeBack) {
  const Dataset rows = generate({.rows = 900, .dim = 10});
  for (const bool rotate : {false, true}) {
    for (const std::int64_t training : {900, 100}) {  // 256 centroids, and fewer
      const test::TemporaryFolder folder;
      const Quantizer trained =
          Quantizer::train(rows, PqParameters{.subspaces = 4, .rotate = rotate, .training_rows = training});
      export_pq(trained, folder / "p.bin");
      const Quantizer again = import_pq(folder / "p.bin");
      const Dataset a = trained.encode(rows);
      const Dataset b = again.encode(rows);
      std::int64_t different = 0;
      for (std::int64_t i = 0; i < 900 * 4; ++i) {
        different += static_cast<const std::uint8_t*>(a.view().data)[i] !=
                     static_cast<const std::uint8_t*>(b.view().data)[i];
      }
      EXPECT_LE(different, 2) << "rounding of the mean and the rotation to float";
      EXPECT_NEAR(trained.reconstruction_error(rows, a), again.reconstruction_error(rows, b), 1e-4);
    }
  }
}

TEST(PqFiles, WhatDoesNotFitIsRefused) {
  const test::TemporaryFolder folder;
  const Quantizer other = Quantizer::train(generate({.rows = 50, .dim = 4}), RabitqParameters{});
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { export_pq(other, folder / "p"); }), "kind rabitq"));
  write_file(folder / "p.bin", test::pq_pivots_bytes());
  write_file(folder / "p.bin_rotation_matrix.bin",
             test::raw_bytes(std::uint32_t{2}) + test::raw_bytes(std::uint32_t{2}) + std::string(16, '\0'));
  EXPECT_TRUE(contains(message_of<IoError>([&] { import_pq(folder / "p.bin"); }), "a rotation of 2 x 2"));
  EXPECT_THROW(import_pq(folder / "none"), IoError);
  std::filesystem::remove(folder / "p.bin_rotation_matrix.bin");
  EXPECT_THROW(import_pq(folder / "p.bin", Metric::cosine), InvalidArgument);
  EXPECT_EQ(import_pq(folder / "p.bin", Metric::inner_product, Dtype::u8).dtype(), Dtype::u8);
  std::string five = test::pq_pivots_bytes();  // older files: five offsets, the parts at the fourth
  const std::string offsets = five.substr(8, 32);
  five.replace(0, 4, test::raw_bytes(std::uint32_t{5}));
  five.replace(8, 40, offsets.substr(0, 16) + offsets.substr(0, 8) + offsets.substr(16, 16));
  write_file(folder / "five.bin", five);
  EXPECT_EQ(import_pq(folder / "five.bin").code_bytes(), 3);
}

}  // namespace
}  // namespace kith
