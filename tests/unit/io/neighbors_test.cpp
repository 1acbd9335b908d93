// Results: every format there and back, pairs of files, ground truth of other tools, refusals.
#include <cmath>
#include <limits>

#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::raw;
using Results = test::IoTest;

template <class R>
Neighbors sample() {
  Neighbors result;
  result.queries = 2;
  result.k = 3;
  result.indices = {7, 0, 2147483647, 4, -1, -1};
  constexpr R inf = std::numeric_limits<R>::infinity();
  result.distances = std::vector<R>{R(-0.1), R(1) / R(3), R(1e30), 0, inf, inf};
  return result;
}

void expect_same(const Neighbors& a, const Neighbors& b, const std::string& what) {
  EXPECT_EQ(a.queries, b.queries) << what;
  EXPECT_EQ(a.k, b.k) << what;
  EXPECT_EQ(a.indices, b.indices) << what;
  EXPECT_EQ(a.distances, b.distances) << what;
}

TEST_F(Results, EveryFormatGoesRound) {
  for (const char* file : {"r", "r.ivecs", "r.ibin", "r.bin", "r.json", "r.txt", "r.h5", "r.hdf5", "p.npy"}) {
    const Neighbors result = sample<float>();
    write_neighbors((*this)(file), result);
    expect_same(read_neighbors((*this)(file)), result, file);
  }
  for (const char* file : {"r", "r.json", "r.txt", "r.h5"}) {
    Neighbors result = sample<double>();
    result.indices[0] = std::int64_t{1} << 40U;
    write_neighbors((*this)(file), result);
    expect_same(read_neighbors((*this)(file)), result, file);
  }
}

TEST_F(Results, FilesWrittenAreReturned) {
  using Paths = std::vector<std::filesystem::path>;
  const Neighbors result = sample<float>();
  EXPECT_EQ(write_neighbors((*this)("r"), result),
            (Paths{(*this)("r.indices.npy"), (*this)("r.distances.npy")}));
  EXPECT_EQ(write_neighbors((*this)("s.npy"), result),
            (Paths{(*this)("s.indices.npy"), (*this)("s.distances.npy")}));
  EXPECT_EQ(write_neighbors((*this)("r.ivecs"), result), (Paths{(*this)("r.ivecs"), (*this)("r.fvecs")}));
  EXPECT_EQ(write_neighbors((*this)("r.json"), result), (Paths{(*this)("r.json")}));
  EXPECT_EQ(files(), 7U);
  // The files of a pair can be named too.
  expect_same(read_neighbors((*this)("r.indices.npy")), result, "named");
}

TEST_F(Results, TheFormatOptionRules) {
  WriteOptions options;
  options.format = FileFormat::json;
  write_neighbors((*this)("r.out"), sample<float>(), options);
  EXPECT_EQ(slurp((*this)("r.out")).front(), '{');
  options.format = FileFormat::ply;
  expect_error<InvalidArgument>([&] { write_neighbors((*this)("r.out2"), sample<float>(), options); },
                                {"ply"});
  const float f = 1;
  options.format = FileFormat::fbin;
  write_dataset((*this)("data"), DatasetView(&f, 1, 1), options);
  ReadOptions read;
  read.format = FileFormat::fbin;
  EXPECT_EQ(read_dataset((*this)("data"), read).rows(), 1);
}

TEST_F(Results, ExactBytesOfGroundTruth) {
  Neighbors result;
  result.queries = 1;
  result.k = 2;
  result.indices = {5, -1};
  result.distances = std::vector<float>{0.5F, 2};
  write_neighbors((*this)("r.bin"), result);
  EXPECT_EQ(slurp((*this)("r.bin")), raw(1) + raw(2) + raw(5) + raw(-1) + raw(0.5F) + raw(2.0F));
  write_neighbors((*this)("r.txt"), result);
  EXPECT_EQ(
      slurp((*this)("r.txt")),
      "# kith neighbors: queries 1, k 2, distances f32\n# query rank index distance\n0 0 5 0.5\n0 1 -1 2\n");
  write_neighbors((*this)("r.ivecs"), result);
  EXPECT_EQ(slurp((*this)("r.ivecs")), raw(2) + raw(5) + raw(-1));
  EXPECT_EQ(slurp((*this)("r.fvecs")), raw(2) + raw(0.5F) + raw(2.0F));
}

TEST_F(Results, DistancesAreNanWhereThereAreNone) {
  for (const auto& path : {put("a.ivecs", raw(1) + raw(9)), put("a.ibin", raw(1) + raw(1) + raw(9)),
                           put("b.ibin", raw(std::int64_t{1}) + raw(std::int64_t{1}) + raw(9))}) {
    const Neighbors result = read_neighbors(path);
    EXPECT_EQ(result.indices, (std::vector<std::int64_t>{9}));
    EXPECT_EQ(result.distance_dtype(), Dtype::f32);
    EXPECT_TRUE(std::isnan(result.distance(0, 0))) << path;
  }
}

TEST_F(Results, WhatAFormatCannotHoldIsRefused) {
  for (const char* file : {"r.ivecs", "r.ibin"}) {
    expect_error<InvalidArgument>([&] { write_neighbors((*this)(file), sample<double>()); },
                                  {"float64", "npy"});
    Neighbors large = sample<float>();
    large.indices[5] = std::int64_t{1} << 31U;
    expect_error<InvalidArgument>([&] { write_neighbors((*this)(file), large); }, {"2147483648", "npy"});
  }
  for (const char* file : {"r.pcd", "r.fvecs", "r.kith"}) {
    expect_error<InvalidArgument>([&] { write_neighbors((*this)(file), sample<float>()); },
                                  {"holds no results", ".json"});
  }
  expect_error<InvalidArgument>([&] { write_neighbors((*this)("r.what"), sample<float>()); },
                                {"'.what'", ".json"});
  Neighbors broken = sample<float>();
  broken.indices.pop_back();
  for (const char* file : {"r", "r.json", "r.txt"}) {
    expect_error<InvalidArgument>([&] { write_neighbors((*this)(file), broken); },
                                  {"2 queries", "k = 3", "5"});
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(Results, PairsMustBelongTogether) {
  write_neighbors((*this)("r"), sample<float>());
  const std::vector<float> other(4);
  write_dataset((*this)("r.distances.npy"), DatasetView(other.data(), 2, 2));
  expect_error<IoError>([&] { read_neighbors((*this)("r")); }, {"r.distances.npy", "2 x 2", "2 x 3"});
  write_neighbors((*this)("s.ivecs"), sample<float>());
  write_dataset((*this)("s.fvecs"), DatasetView(other.data(), 4, 1));
  expect_error<IoError>([&] { read_neighbors((*this)("s.ivecs")); }, {"s.fvecs", "4 x 1"});
}

TEST_F(Results, DamagedTextIsRefused) {
  const std::string head = "# kith neighbors: queries 1, k 2, distances f32\n";
  for (const std::string& text :
       {head, head + "0 0 1 2\n", head + "0 1 1 2\n0 0 1 2\n", head + "0 0 1 2\n0 1 1 2\n1 0 1 2\n",
        head + "0 0 1 2\n0 1 1 x\n", head + "0 0 1 2\n0 1 1.5 2\n", head + "0 0 1 2 3\n0 1 1 2\n",
        std::string("# kith neighbors: queries -1, k 2, distances f32\n"),
        std::string("# kith neighbors: queries 1, k 2, distances f16\n"),
        std::string("# kith neighbors: queries 4611686018427387904, k 4611686018427387904, distances f32\n0 "
                    "0 1 2\n")}) {
    EXPECT_THROW(read_neighbors(put("r.txt", text)), IoError) << text;
  }
  const std::string start =
      R"({"format": "kith neighbors", "version": 1, "queries": 1, "k": 2, "distance_type": "f32", )";
  EXPECT_EQ(
      read_neighbors(put("r.json", start + R"("indices": [[1, 2]], "distances": [[0.5, null]]})")).indices,
      (std::vector<std::int64_t>{1, 2}));
  for (const std::string& text :
       {start, start + R"("indices": [[1, 2]]})", start + R"("indices": [[1]], "distances": [[1, 2]]})",
        start + R"("indices": [[1, 2.5]], "distances": [[1, 2]]})",
        start + R"("indices": [[1, 2]], "distances": [[1, "x"]]})",
        start + R"("indices": 7, "distances": [[1, 2]]})", start + R"("indices": [], "distances": []})",
        std::string("{}"), std::string("[1]"), std::string(100000, '[')}) {
    EXPECT_THROW(read_neighbors(put("r.json", text)), IoError) << text.substr(0, 200);
  }
}

}  // namespace
}  // namespace kith
