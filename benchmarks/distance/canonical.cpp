// The canonical distance: float64 evaluations of one query against scattered rows, per dtype, metric and dim.
#include "distance/canonical.hpp"

#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "kith/generate.hpp"
#include "kith/metric.hpp"

namespace {

constexpr std::int64_t rows = 1 << 14;

void canonical(benchmark::State& state, kith::Dtype dtype, kith::Metric metric) {
  kith::GenerateParameters parameters;
  parameters.generator = kith::Generator::gaussian;
  parameters.rows = rows;
  parameters.dim = state.range(0);
  parameters.dtype = dtype;
  const kith::Dataset data = kith::generate(parameters);

  std::vector<double> padded(static_cast<std::size_t>(kith::canonical_padded(data.dim())));
  const auto query =
      kith::prepare_canonical_query(data.view().row(0), dtype, data.dim(), metric, padded.data());
  // Every seventh row, as re-ranking meets them: ascending, not adjacent.
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < rows; i += 7) ids.push_back(i);
  std::vector<double> out(ids.size());
  const auto function = kith::canonical_function(dtype, metric);
  for (auto _ : state) {
    function(kith::canonical_rows(data.view()), query, ids.data(), static_cast<std::int64_t>(ids.size()),
             out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["distances"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(ids.size()), benchmark::Counter::kIsRate);
}

const bool registered = [] {
  for (const kith::Dtype dtype : {kith::Dtype::f32, kith::Dtype::u8, kith::Dtype::f64}) {
    for (const kith::Metric metric :
         {kith::Metric::sqeuclidean, kith::Metric::cosine, kith::Metric::manhattan}) {
      const std::string name =
          "canonical/" + std::string(kith::name(dtype)) + "/" + std::string(kith::name(metric));
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& state) { canonical(state, dtype, metric); })
          ->Arg(3)
          ->Arg(128)
          ->Arg(768);
    }
  }
  return true;
}();

}  // namespace
