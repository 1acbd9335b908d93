// Saved indexes: golden files of every format version, and what damage does to a file.
#include "io/index_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "kith/version.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "unit/io/golden.hpp"

namespace kith {
namespace {

using test::contains;
using test::Golden;
using test::message_of;
using test::read_file;
using test::write_file;

// The bytes of an index file with this header, checksum and all, and this content behind it.
std::string assemble(const std::string& header, const std::string& content, std::uint32_t version = 1) {
  std::string out = "KITHIDX\n";
  const auto put = [&](const auto& value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(version);
  put(std::uint32_t{0});
  put(static_cast<std::uint64_t>(header.size()));
  put(static_cast<std::uint64_t>(XXH3_64bits(header.data(), header.size())));
  return out + header + content;
}

nlohmann::json section(std::uint64_t offset, const std::string& content) {
  return {{"name", "dataset"},
          {"offset", fmt::format("{:020}", offset)},
          {"bytes", fmt::format("{:020}", content.size())},
          {"xxh3", fmt::format("{:016x}", XXH3_64bits(content.data(), content.size()))}};
}

void expect_truth(const AnyIndex& index, const conformance::Problem& problem) {
  const conformance::Rows queries(problem.queries, problem.dtype);
  const Neighbors result = index.search(queries.view(), problem.data.rows);
  for (std::int64_t q = 0; q < problem.queries.rows; ++q) {
    const auto& truth = problem.truth[static_cast<std::size_t>(q)];
    ASSERT_FALSE(truth.indices.empty());
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(truth.indices.size()); ++j) {
      EXPECT_EQ(result.indices_of(q)[static_cast<std::size_t>(j)],
                truth.indices[static_cast<std::size_t>(j)]);
      EXPECT_EQ(result.distance(q, j), truth.distances[static_cast<std::size_t>(j)]);
    }
  }
}

class GoldenIndex : public testing::TestWithParam<Golden> {};

TEST_P(GoldenIndex, Version1LoadsAndAnswers) {
  const Golden& golden = GetParam();
  const auto path = std::filesystem::path(KITH_TEST_DATA) / "index_v1" / golden.file;
  EXPECT_EQ(IndexFile::open(path).version(), 1U);
  const AnyIndex index = AnyIndex::load(path);
  EXPECT_EQ(index.type(), "brute_force");
  EXPECT_EQ(index.rows(), 9);
  EXPECT_EQ(index.dim(), 5);
  EXPECT_EQ(index.dtype(), golden.dtype);
  EXPECT_EQ(index.metric(), golden.metric);
  expect_truth(index, test::golden_problem(golden));
}

TEST_P(GoldenIndex, SavingItAgainGivesTheSameSections) {
  const test::TemporaryFolder folder;
  const auto path = std::filesystem::path(KITH_TEST_DATA) / "index_v1" / GetParam().file;
  AnyIndex::load(path).save(folder / "again.kith");
  const IndexFile first = IndexFile::open(path);
  const IndexFile second = IndexFile::open(folder / "again.kith");
  EXPECT_EQ(second.version(), index_file_version);
  const auto a = first.section("dataset");
  const auto b = second.section("dataset");
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenIndex, testing::ValuesIn(test::golden_files()),
                         [](const auto& golden) { return std::string(name(golden.param.dtype)); });

class GoldenTrees : public testing::TestWithParam<test::GoldenTree> {
 protected:
  const std::filesystem::path path_ = std::filesystem::path(KITH_TEST_DATA) / "index_v1" / GetParam().file;
};

TEST_P(GoldenTrees, Version1LoadsAndAnswers) {
  const IndexFile file = IndexFile::open(path_);
  EXPECT_EQ(file.version(), 1U);
  const AnyIndex index = AnyIndex::load(path_);
  EXPECT_EQ(index.type(), GetParam().index);
  EXPECT_EQ(index.rows(), 150);
  EXPECT_EQ(index.dim(), 3);
  EXPECT_EQ(index.dtype(), GetParam().dtype);
  EXPECT_EQ(index.metric(), GetParam().metric);
  ASSERT_NE(index.point_tree(), nullptr);
  EXPECT_EQ(index.point_tree()->leaf_size(), test::golden_leaf_size);
  // What the file is for: every kind of child, and rows that are in no box.
  const auto& header = file.header();
  EXPECT_GT(header.at("nodes").get<int>(), 1);
  EXPECT_GT(header.at("levels").get<int>(), 1);
  EXPECT_EQ(header.at("points").get<int>(), 148);
  EXPECT_EQ(header.at("nan_rows").get<int>(), 1);
  expect_truth(index, test::golden_tree_problem(GetParam()));
}

TEST_P(GoldenTrees, SavingItAgainGivesTheSameSections) {
  const test::TemporaryFolder folder;
  AnyIndex::load(path_).save(folder / "again.kith");
  const IndexFile first = IndexFile::open(path_);
  const IndexFile second = IndexFile::open(folder / "again.kith");
  for (const char* section : {"nodes", "coordinates", "rows", "infinite", "infinite_values"}) {
    const auto a = first.section(section);
    const auto b = second.section(section);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << section;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTrees, testing::ValuesIn(test::golden_trees()),
                         [](const auto& golden) { return std::string(golden.param.index); });

// A saved index to damage: its bytes, and where things lie in them.
class DamagedIndex : public testing::Test {
 protected:
  void SetUp() override {
    const conformance::Rows rows(problem_.data, problem_.dtype);
    BruteForce::build(rows.view(), {golden_.metric, golden_.filter}).save(path_);
    bytes_ = read_file(path_);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data() + 16, sizeof length);
    header_end_ = 32 + length;
    content_ = 4096;
    ASSERT_LT(header_end_, content_);
    ASSERT_EQ(bytes_.size(), content_ + 9 * 5 * 4);
  }

  std::string refusal(const std::string& bytes) {
    write_file(path_, bytes);
    return message_of<IoError>([&] { AnyIndex::load(path_); });
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "index.kith";
  const Golden golden_ = test::golden_files()[0];
  const conformance::Problem problem_ = test::golden_problem(golden_);
  std::string bytes_;
  std::size_t header_end_ = 0;
  std::size_t content_ = 0;
};

TEST_F(DamagedIndex, EveryFlippedByteIsFound) {
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    const bool padding = at >= header_end_ && at < content_;
    if (padding && at % 97 != 0) continue;
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    EXPECT_TRUE(contains(refusal(damaged), path_.string())) << "byte " << at;
  }
}

TEST_F(DamagedIndex, EveryTruncationIsFound) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{11}, std::size_t{12},
        std::size_t{16}, std::size_t{24}, std::size_t{31}, std::size_t{32}, std::size_t{33}, header_end_ - 1,
        header_end_, header_end_ + 1, content_ - 1, content_, content_ + 1, bytes_.size() - 1}) {
    EXPECT_TRUE(contains(refusal(bytes_.substr(0, size)), path_.string())) << size << " bytes";
  }
}

TEST_F(DamagedIndex, MoreBytesThanNeededAreFound) {
  EXPECT_TRUE(contains(refusal(bytes_ + std::string(5000, 'x')), "5000 bytes after its last section"));
  EXPECT_TRUE(contains(refusal(bytes_ + std::string(1, '\0')), "1 byte after its last section"));
}

TEST_F(DamagedIndex, VersionsOfTheFutureAskForANewerKith) {
  for (const std::uint32_t version : {0U, index_file_version + 1, 0xFFFFFFFFU}) {
    std::string other = bytes_;
    std::memcpy(other.data() + 8, &version, sizeof version);
    EXPECT_TRUE(contains(refusal(other), fmt::format("version {}", version)));
  }
}

TEST_F(DamagedIndex, MissingFoldersAndForeignFiles) {
  EXPECT_THROW(AnyIndex::load(folder_ / "absent.kith"), IoError);
  EXPECT_THROW(AnyIndex::load(folder_.path()), IoError);
  EXPECT_TRUE(contains(refusal("PK\x03\x04 something else entirely"), "not a Kith index"));
  EXPECT_FALSE(IndexFile::is_index_file(path_));
  write_file(path_, bytes_);
  EXPECT_TRUE(IndexFile::is_index_file(path_));
}

TEST_F(DamagedIndex, WellFormedHeadersThatMakeNoSense) {
  const std::string content = bytes_.substr(content_);
  const nlohmann::json good = {{"index", "brute_force"},
                               {"rows", 9},
                               {"dim", 5},
                               {"dtype", "f32"},
                               {"metric", "cosine"},
                               {"filter", "int8"},
                               {"sections", {section(content_, content)}}};
  const auto file = [&](const nlohmann::json& header) {
    const std::string text = header.dump();
    return assemble(text, std::string(content_ - 32 - text.size(), '\0') + content);
  };
  write_file(path_, file(good));
  expect_truth(AnyIndex::load(path_), problem_);

  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::pair<const char*, nlohmann::json>> wrong = {{"index", "magic_tree"},
                                                                     {"index", 7},
                                                                     {"rows", -1},
                                                                     {"rows", 8},
                                                                     {"rows", 10},
                                                                     {"rows", most},
                                                                     {"rows", "nine"},
                                                                     {"rows", 1e300},
                                                                     {"rows", nullptr},
                                                                     {"dim", 0},
                                                                     {"dim", -5},
                                                                     {"dim", 6},
                                                                     {"dim", most},
                                                                     {"dtype", "f64"},
                                                                     {"dtype", "complex"},
                                                                     {"dtype", 3},
                                                                     {"metric", "l2"},
                                                                     {"metric", nlohmann::json::array()},
                                                                     {"filter", "int3"},
                                                                     {"sections", nlohmann::json::array()},
                                                                     {"sections", 5},
                                                                     {"sections", {{{"name", "dataset"}}}}};
  for (const auto& [key, value] : wrong) {
    nlohmann::json header = good;
    header[key] = value;
    EXPECT_TRUE(contains(refusal(file(header)), path_.string())) << key << " = " << value.dump();
  }
  for (const auto& [key, value] : good.items()) {
    nlohmann::json header = good;
    header.erase(key);
    EXPECT_TRUE(contains(refusal(file(header)), path_.string())) << "without " << key;
  }
  nlohmann::json header = good;
  header["rows"] = most;
  header["dim"] = most;  // their product wraps in 128 bits too
  EXPECT_TRUE(contains(refusal(file(header)), path_.string()));
  for (const char* offset : {"99999999999999999999", "18446744073709551615", "00000000000000004277", "4096",
                             "0000000000000000409x", ""}) {
    header = good;
    header["sections"][0]["offset"] = offset;
    EXPECT_TRUE(contains(refusal(file(header)), path_.string())) << offset;
  }
}

TEST_F(DamagedIndex, HeadersThatAreNotJson) {
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("null"),
                                  std::string("{\"sections\": 1}"), std::string("\xFF\xFE"),
                                  std::string(100000, '['), std::string(2000, '\0')}) {
    EXPECT_TRUE(contains(refusal(assemble(text, "")), path_.string()));
  }
}

// A foreign writer may place a section anywhere: refused, or read all the same.
TEST_F(DamagedIndex, SectionsOffTheirAlignment) {
  const std::string content = bytes_.substr(content_);
  const nlohmann::json header = {{"index", "brute_force"},
                                 {"rows", 9},
                                 {"dim", 5},
                                 {"dtype", "f32"},
                                 {"metric", "cosine"},
                                 {"filter", "int8"},
                                 {"sections", {section(1001, content)}}};
  const std::string text = header.dump();
  write_file(path_, assemble(text, std::string(1001 - 32 - text.size(), '\0') + content));
  try {
    expect_truth(AnyIndex::load(path_), problem_);
  } catch (const IoError& error) {
    EXPECT_TRUE(contains(error.what(), path_.string()));
  }
}

TEST_F(DamagedIndex, AnEmptyIndexIsSavedAndLoaded) {
  BruteForce::build(DatasetView(static_cast<const double*>(nullptr), 0, 3)).save(path_);
  const AnyIndex index = AnyIndex::load(path_);
  EXPECT_EQ(index.rows(), 0);
  EXPECT_EQ(index.dim(), 3);
  const double query[3] = {1, 2, 3};
  EXPECT_EQ(index.search(DatasetView(query, 1, 3), 2).indices, (std::vector<std::int64_t>{-1, -1}));
}

TEST_F(DamagedIndex, AFailedSaveLeavesTheOldFile) {
  const conformance::Rows rows(problem_.data, problem_.dtype);
  const BruteForce index = BruteForce::build(rows.view());
  EXPECT_THROW(index.save(folder_ / "none/index.kith"), IoError);
  EXPECT_THROW(index.save(folder_.path()), IoError);
  EXPECT_THROW(index.save("/dev/full"), IoError);
  // As which no reader would take it again.
  EXPECT_THROW(index.save(folder_ / "index.npy"), InvalidArgument);
  EXPECT_EQ(read_file(path_), bytes_);
  EXPECT_EQ(folder_.entries(), 1);
}

}  // namespace
}  // namespace kith
