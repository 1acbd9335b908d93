// Answers into the caller's memory, and what is refused where memory of a GPU meets the CPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/any_index.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

template <class R>
struct Answer {
  std::vector<std::int64_t> indices;
  std::vector<R> distances;
  NeighborsView view;

  Answer(std::int64_t queries, std::int64_t k)
      : indices(static_cast<std::size_t>(queries * k), -7),
        distances(static_cast<std::size_t>(queries * k), -7) {
    view.indices = indices.data();
    view.distances = distances.data();
    view.queries = queries;
    view.k = k;
  }
};

struct Data {
  std::vector<float> rows;
  std::vector<float> queries;
  DatasetView data;
  DatasetView asked;

  Data() {
    conformance::Random random(8);
    for (int i = 0; i < 500 * 9; ++i) rows.push_back(static_cast<float>(random.normal()));
    for (int i = 0; i < 20 * 9; ++i) queries.push_back(static_cast<float>(random.normal()));
    data = DatasetView(rows.data(), 500, 9);
    asked = DatasetView(queries.data(), 20, 9);
  }
};

DatasetView on_gpu(DatasetView view) {
  view.space = MemorySpace::cuda;
  view.device = 3;
  return view;
}

TEST(SearchInto, FillsTheCallersMemory) {
  const Data d;
  const BruteForce index = BruteForce::build(d.data);
  const Neighbors expected = index.search(d.asked, 600);  // more than there are rows
  for (const bool one_shot : {false, true}) {
    Answer<float> answer(20, 600);
    const SearchStatistics statistics =
        one_shot ? knn_into(d.data, d.asked, answer.view) : index.search_into(d.asked, answer.view);
    EXPECT_EQ(answer.indices, expected.indices);
    EXPECT_EQ(answer.distances, std::get<std::vector<float>>(expected.distances));
    EXPECT_EQ(statistics.index, "brute_force");
    EXPECT_EQ(statistics.nan_queries, 0);
  }
  Answer<float> answer(20, 600);
  AnyIndex(index).search_into(d.asked, answer.view);
  EXPECT_EQ(answer.indices, expected.indices);
}

TEST(SearchInto, DistancesOfFloat64AreFloat64) {
  const Data d;
  const std::vector<double> rows(d.rows.begin(), d.rows.end());
  const DatasetView data(rows.data(), 500, 9);
  const BruteForce index = BruteForce::build(data);
  Answer<double> answer(7, 3);
  index.search_into(data.slice(11, 7), answer.view);
  const Neighbors expected = index.search(data.slice(11, 7), 3);
  EXPECT_EQ(answer.indices, expected.indices);
  EXPECT_EQ(answer.distances, std::get<std::vector<double>>(expected.distances));
}

TEST(SearchInto, RefusesMemoryThatDoesNotFit) {
  const Data d;
  const BruteForce index = BruteForce::build(d.data);
  const auto refusal = [&](const NeighborsView& view, const DatasetView& queries) {
    const std::string message = message_of<InvalidArgument>([&] { index.search_into(queries, view); });
    EXPECT_EQ(message, message_of<InvalidArgument>([&] { knn_into(d.data, queries, view); }));
    return message;
  };
  const Answer<float> good(20, 4);
  NeighborsView view = good.view;
  view.queries = 19;
  EXPECT_TRUE(contains(refusal(view, d.asked), "room for 19 queries, the call has 20"));
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{-3}}) {
    view = good.view;
    view.k = k;
    EXPECT_TRUE(contains(refusal(view, d.asked), "at least 1"));
  }
  view = good.view;
  view.indices = nullptr;
  EXPECT_TRUE(contains(refusal(view, d.asked), "null pointer"));
  view = good.view;
  view.distances = nullptr;
  EXPECT_TRUE(contains(refusal(view, d.asked), "null pointer"));
  EXPECT_TRUE(contains(refusal(good.view, DatasetView(d.queries.data(), 20, 8)), "dimension 8"));
  // No queries need no memory.
  view = {};
  view.k = 4;
  EXPECT_EQ(index.search_into(d.asked.slice(0, 0), view).nan_queries, 0);
  EXPECT_EQ(good.indices, (std::vector<std::int64_t>(80, -7))) << "nothing was written";
}

TEST(SearchInto, TheLimitHoldsForTheAnswerToo) {
  const Data d;
  const BruteForce index = BruteForce::build(d.data);
  const Answer<float> answer(20, 400);
  Execution execution;
  execution.memory_limit = 20 * 400 * 12 - 1;
  EXPECT_THROW(index.search_into(d.asked, answer.view, execution), OutOfMemory);
}

TEST(GpuMemory, IsRefusedByTheCpu) {
  const Data d;
  const BruteForce index = BruteForce::build(d.data);
  for (const auto& call : {std::function<void()>([&] { BruteForce::build(on_gpu(d.data)); }),
                           std::function<void()>([&] { knn(on_gpu(d.data), d.asked, 1); })}) {
    const std::string message = message_of<InvalidArgument>(call);
    EXPECT_TRUE(contains(message, "the rows lie in the memory of cuda:3"));
    EXPECT_TRUE(contains(message, "name a CUDA device"));
  }
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { index.search(on_gpu(d.asked), 1); }),
                       "the queries lie in the memory of cuda:3"));
  Answer<float> answer(20, 4);
  answer.view.space = MemorySpace::cuda;
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { index.search_into(d.asked, answer.view); }),
                       "give host memory"));
}

TEST(GpuMemory, ADeviceThatIsNotThereIsNamed) {
  const Data d;
  Execution execution;
  execution.devices = {Device{Device::Kind::cuda, 99}};
  EXPECT_TRUE(
      contains(message_of<DeviceError>([&] { BruteForce::build(d.data, {}, execution); }), "cuda:99"));
  execution.devices.push_back(Device{});
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { BruteForce::build(d.data, {}, execution); }),
                       "not on both"));
  const BruteForce index = BruteForce::build(d.data);
  execution.devices = {Device{Device::Kind::cuda, 99}};
  EXPECT_THROW(index.search(d.asked, 1, execution), Error);
}

}  // namespace
}  // namespace kith
