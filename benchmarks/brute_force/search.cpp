// Whole searches of BruteForce on made data, per filter and dimension: which filter pays where.
#include <string>

#include <benchmark/benchmark.h>

#include "kith/kith.hpp"

namespace {

void search(benchmark::State& state, kith::Filter filter) {
  kith::GenerateParameters parameters;
  parameters.generator = kith::Generator::clusters;
  parameters.rows = 50'000;
  parameters.dim = state.range(0);
  const kith::Dataset data = kith::generate(parameters);
  parameters.first_row = parameters.rows;
  parameters.rows = state.range(1);
  const kith::Dataset queries = kith::generate(parameters);
  const auto index = kith::BruteForce::build(data, {kith::Metric::sqeuclidean, filter});
  std::int64_t candidates = 0;
  for (auto _ : state) {
    const kith::Neighbors answer = index.search(queries, 10);
    candidates = answer.statistics.candidates;
    benchmark::DoNotOptimize(answer.indices.data());
  }
  const double pairs = static_cast<double>(data.rows()) * static_cast<double>(queries.rows());
  state.counters["pairs"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * pairs, benchmark::Counter::kIsRate);
  state.counters["candidates"] = static_cast<double>(candidates) / static_cast<double>(queries.rows());
}

const bool registered = [] {
  for (const kith::Filter filter :
       {kith::Filter::int8, kith::Filter::fp16, kith::Filter::fp32, kith::Filter::none}) {
    benchmark::RegisterBenchmark(("search/" + std::string(kith::name(filter))).c_str(),
                                 [=](benchmark::State& state) { search(state, filter); })
        ->ArgNames({"dim", "queries"})
        ->ArgsProduct({{3, 128, 768}, {1, 100}})
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
