// Saved quantizers: the same codes again, and every kind of damage refused by name.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kith/any_index.hpp"
#include "kith/codes.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "kith/io.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/index_files.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;
using test::read_file;
using test::write_file;

const std::vector<CodesParameters>& kinds() {
  static const std::vector<CodesParameters> all = {
      ScalarCodesParameters{}, ScalarCodesParameters{Metric::inner_product, 4},
      RabitqParameters{Metric::inner_product, 3, 7}, PqParameters{Metric::sqeuclidean, 4, true, 6, 300, 5},
      PqParameters{Metric::inner_product, 3, false, 2, 40, 1}};
  return all;
}

TEST(QuantizerFile, HoldsAllThatAQuantizerIs) {
  for (const Dtype dtype : all_dtypes) {
    const Dataset data =
        generate({.generator = Generator::clusters, .rows = 400, .dim = 9, .dtype = dtype, .clusters = 5});
    for (const CodesParameters& parameters : kinds()) {
      const test::TemporaryFolder folder;
      const Quantizer quantizer = Quantizer::train(data, parameters);
      quantizer.save(folder / "a.kith");
      const Quantizer again = Quantizer::load(folder / "a.kith");
      EXPECT_EQ(again.kind(), quantizer.kind());
      EXPECT_EQ(again.metric(), quantizer.metric());
      EXPECT_EQ(again.dtype(), dtype);
      EXPECT_EQ(again.dim(), 9);
      EXPECT_EQ(again.code_bytes(), quantizer.code_bytes());
      EXPECT_EQ(again.memory_bytes(), quantizer.memory_bytes());
      const Dataset codes = quantizer.encode(data);
      const Dataset others = again.encode(data);
      EXPECT_EQ(
          std::memcmp(codes.view().data, others.view().data, static_cast<std::size_t>(400 * codes.dim())), 0);
      EXPECT_EQ(again.estimate(data, codes).distances, quantizer.estimate(data, codes).distances);
      again.save(folder / "b.kith");
      EXPECT_EQ(read_file(folder / "a.kith"), read_file(folder / "b.kith"));
      EXPECT_EQ(inspect(folder / "a.kith").dim, 9);
    }
  }
}

class DamagedQuantizer : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const Dataset data = generate({.generator = Generator::gaussian, .rows = 60, .dim = 3});
    CodesParameters parameters = kinds()[static_cast<std::size_t>(GetParam())];
    if (auto* pq = std::get_if<PqParameters>(&parameters)) pq->subspaces = 2;
    Quantizer::train(data, parameters).save(path_);
    bytes_ = read_file(path_);
  }

  std::string refusal(const std::string& bytes) {
    write_file(path_, bytes);
    return message_of<IoError>([&] { Quantizer::load(path_); });
  }

  std::string rewritten(const std::function<void(nlohmann::json&)>& change, const std::string& section = "",
                        const std::function<void(std::string&)>& damage = {}) {
    write_file(path_, bytes_);
    return test::rewritten(path_, change, section, damage);
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "quantizer.kith";
  std::string bytes_;
};

TEST_P(DamagedQuantizer, FlippedBytesAndTruncationsAreFound) {
  for (std::size_t at = 0; at < bytes_.size(); at += at < 2048 ? 1 : 13) {
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    EXPECT_TRUE(contains(refusal(damaged), path_.string())) << "byte " << at;
  }
  for (std::size_t size = 0; size < bytes_.size(); size += 97) {
    EXPECT_TRUE(contains(refusal(bytes_.substr(0, size)), path_.string())) << size << " bytes";
  }
}

TEST_P(DamagedQuantizer, HeadersThatMakeNoSense) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::pair<const char*, nlohmann::json>> wrong = {
      {"layout", 2},       {"layout", "one"}, {"kind", "opq"}, {"kind", 3},     {"dim", 0},
      {"dim", -1},         {"dim", 4},        {"dim", most},   {"dtype", "u9"}, {"metric", "manhattan"},
      {"metric", "cosine"}};
  write_file(path_, bytes_);
  const auto header = IndexFile::open(path_).header();
  const std::vector<std::pair<const char*, nlohmann::json>> of_kinds = {
      {"bits", 0},       {"bits", 9},        {"bits", "x"},     {"seed", "x"},        {"subspaces", 4},
      {"subspaces", -1}, {"rotate", "no"},   {"iterations", 0}, {"training_rows", 0}, {"centroids", 0},
      {"centroids", 59}, {"centroids", 300}, {"step", 0},       {"step", nullptr},    {"largest_norm", -1}};
  for (const auto& entry : of_kinds) {
    if (header.contains(entry.first)) wrong.push_back(entry);
  }
  for (const auto& [key, value] : wrong) {
    const std::string changed =
        rewritten([&, name = key, to = value](nlohmann::json& its) { its[name] = to; });
    EXPECT_TRUE(contains(refusal(changed), path_.string())) << key << " = " << value.dump();
  }
  for (const auto& [key, value] : header.items()) {
    if (key == "sections" || key == "rows") continue;
    const std::string changed = rewritten([&, name = key](nlohmann::json& its) { its.erase(name); });
    EXPECT_TRUE(contains(refusal(changed), path_.string())) << "without " << key;
  }
  for (const auto& entry : header.at("sections")) {
    const auto section = entry.at("name").get<std::string>();
    EXPECT_TRUE(contains(
        refusal(rewritten([](nlohmann::json&) {}, section, [](std::string& all) { all.pop_back(); })),
        section));
    EXPECT_TRUE(contains(refusal(rewritten([](nlohmann::json&) {}, section,
                                           [](std::string& all) { std::memset(all.data(), 0xFF, 8); })),
                         "not finite"));
  }
}

TEST_P(DamagedQuantizer, IsNoIndexAndNoIndexIsIt) {
  EXPECT_TRUE(contains(message_of<IoError>([&] { AnyIndex::load(path_); }), "holds a quantizer"));
  BruteForce::build(generate({.rows = 5, .dim = 2})).save(folder_ / "b.kith");
  EXPECT_TRUE(contains(message_of<IoError>([&] { Quantizer::load(folder_ / "b.kith"); }),
                       "brute_force, not a quantizer"));
  write_file(folder_ / "c.kith", "something else altogether");
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { Quantizer::load(folder_ / "c.kith"); }), "not a Kith index"));
  EXPECT_THROW(Quantizer::load(folder_ / "missing.kith"), IoError);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedQuantizer, testing::Range(0, 5));

}  // namespace
}  // namespace kith
